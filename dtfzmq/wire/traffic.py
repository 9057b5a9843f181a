"""What a link carries: requests and replies, one-way messages, pushed tensors and announced ones.

How the lanes under it come and go is the matter of link.py.
"""

from __future__ import annotations

import abc
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.wire import codec, frames, tensors
from dtfzmq.wire.calls import Awaited, Call, Done, Reply, complete
from dtfzmq.wire.message import WireError
from dtfzmq.wire.numbers import Inbox, Message, Outbox
from dtfzmq.wire.offer import Offer
from dtfzmq.wire.shared import BY_LANE, BY_SEGMENT, Sharing
from dtfzmq.wire.transfer import Array, Incoming, Sending, as_bytes

if TYPE_CHECKING:
    from dtfzmq.wire.endpoint import Endpoint
    from dtfzmq.wire.lane import Channel

_log = logging.getLogger("dtfzmq")

Pushed = Iterable[tuple[str, Any]]
Ending = Callable[[Any, "errors.OpError | None"], None]


class Traffic(abc.ABC):
    """The tables of one link. Baton only."""

    def __init__(self, endpoint: Endpoint) -> None:
        settings = endpoint.settings
        self.endpoint = endpoint
        self.loop = endpoint.loop
        self.settings = settings
        self.outbox = Outbox(settings.control_window)
        self.inbox = Inbox()
        self.sending = Sending(settings.chunk, settings.bulk_window)
        self.incoming: dict[int, Incoming] = {}
        self.offers: dict[int, Offer] = {}
        self.calls: dict[int, Call] = {}
        self.serving: dict[int, Reply] = {}
        self.controls: list[Channel] = []
        self.bulks: list[Channel] = []
        self.steps: set[int] = set()
        #: Set while both ends are proven to be on one host.
        self.sharing: Sharing | None = None
        self.error: errors.OpError | None = None
        self.bytes_out = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.messages_in = 0
        self.repeats_out = 0
        self._last_call = 0
        self._handlers: dict[int, Callable[[list[Any], Sequence[Any]], None]] = {
            frames.REQUEST: self._on_request,
            frames.REPLY: self._on_reply,
            frames.FAILURE: self._on_failure,
            frames.TELL: self._on_tell,
            frames.PUSH: self._on_push,
            frames.ANNOUNCE: self._on_announce,
            frames.GRANT: self._on_grant,
            frames.REFUSE: self._on_refuse,
            frames.REVOKE: self._on_revoke,
            frames.CANCEL: self._on_cancel,
            frames.SHARED: self._on_shared,
            frames.RELEASE: self._on_release,
        }

    # -- sending ------------------------------------------------------------------------------------------------------

    def call(self, request: Any, done: Done, *, deadline: float | None = None, frozen: bool = True) -> Call:
        """Send a request; ``done(reply, error)`` is called once, later. `deadline` is a moment of the loop's time.

        `frozen=False`: tensors of the request may be written by their owner once the call is done or cancelled, so no
        lent byte of theirs is left behind then.
        """
        self._last_call += 1
        call = Call(self, self._last_call, done)  # type: ignore[arg-type]  # every Traffic is a Link
        if self.error is not None:
            self.loop.call_soon(call.finish, None, self.error)
            return call
        self.calls[call.id] = call
        if deadline is not None:
            call.timer = self.loop.call_at(deadline, self._call_late, call)
        item = Message(frames.REQUEST, (call.id, deadline), request, 0, 0, frozen)
        self.post(item)
        if item.frames is None:
            call.item = item
        return call

    def tell(self, message: Any) -> None:
        """Send a one-way message: handled exactly once while this link lasts, dropped when it is lost."""
        if self.error is None:
            self.post(Message(frames.TELL, (), message))

    def push(self, step: int, items: Pushed) -> None:
        """Send tensors of a step to the peer's rendezvous; small ones together, large ones announced. Frozen values.

        Until `forget`, the loss of the link is the loss of the step: what arrived at a process is gone with it.
        """
        if self.error is not None:
            self.loop.call_soon(self.endpoint.push_lost, self, step, self.error)
            return
        if step not in self.steps:
            self.steps.add(step)
            self.endpoint.pushed(step, self)
        reference = bool(self.controls) and self.controls[0].lane.by_reference  # type: ignore[union-attr]  # live
        keys: list[str] = []
        values: list[Any] = []
        room = self.settings.batch
        for key, value in items:
            array = tensors.normal(value)
            size = array.nbytes if not array.dtype.hasobject else 0
            may_be_large = not reference and (size > self.settings.inline_limit or array.dtype.hasobject)
            if may_be_large and self._large(step, key, array):
                continue
            keys.append(key)
            values.append(array)
            room -= size
            if room <= 0:
                self._post_push(step, keys, values)
                keys, values, room = [], [], self.settings.batch
        if keys:
            self._post_push(step, keys, values)

    def forget(self, step: int) -> None:
        """A step is over: drop what waits for it here and tell the peer of what it was promised."""
        self.steps.discard(step)
        self.outbox.forget(step)
        dropped = self.sending.drop_step(step) if self.sending.all else ()
        if dropped and self.error is None:
            self.post_plain(frames.REVOKE, [item.id for item in dropped])

    def _large(self, step: int, key: str, array: Array) -> bool:
        """Announce a tensor if it is above the limit; strings are measured by writing them."""
        descriptor, data = tensors.flat_bytes(array)
        if data.size <= self.settings.inline_limit:
            return False
        item = self.sending.announce(step, key, data, True)
        self.post(Message(frames.ANNOUNCE, (item.id, step, key, descriptor, self.sharing is not None), None, step))
        return True

    def _post_push(self, step: int, keys: list[str], values: list[Any]) -> None:
        self.post(Message(frames.PUSH, (step, keys), values, step, sum(v.nbytes for v in values)))

    def post_plain(self, kind: int, *fields: Any) -> None:
        """Send a numbered message of plain fields."""
        self.post(Message(kind, fields))

    def write(self, item: Message, number: int, reference: bool) -> list[Any]:
        """For Link: the frames of a message; its large tensors, or itself if it is long, are announced with it.

        Raises what a value of the caller makes the codec raise.
        """
        kind, body = item.kind, item.body
        head: list[Any] = [kind, number, self.inbox.received, *item.fields]
        if body is None:
            return [codec.pack(head)]
        if kind == frames.PUSH:
            writer = codec.TensorWriter(reference)
            head.append([writer.add(v) for v in body])
            return writer.frames(head)
        if kind == frames.REQUEST:
            deadline = head[4]
            head[4] = 0.0 if deadline is None else max(1e-3, deadline - self.loop.now())
        transfers: list[int] = []
        if not codec.has_tensors(body):
            plain = codec.plain_body(body)
            head.append(plain)
            made = [codec.pack(head)]
            if len(made[0]) <= self.settings.max_header or reference:
                return made
            return self._write_long(item, head, plain, made, transfers)
        announce = None if reference else lambda array: self._announce_within(array, item.frozen, transfers)
        writer = codec.TensorWriter(reference, announce, copy=reference and not item.frozen)
        plain = codec.body(body, writer)
        head.append(plain)
        made = writer.frames(head)
        return self._write_long(item, head, plain, made, transfers) if not reference else made

    def _write_long(
        self, item: Message, head: list[Any], plain: list[Any], made: list[Any], transfers: list[int]
    ) -> list[Any]:
        """Announce a body that is too long for a header, and note what a request announced, in case it is cancelled."""
        if len(made[0]) > self.settings.max_header:
            descriptor, data = as_bytes(codec.pack(plain))
            long = self.sending.announce(0, "", data, True)
            transfers.append(long.id)
            head[-1] = ["", [*descriptor, long.id]]
            made[0] = codec.pack(head)
        if transfers and item.kind == frames.REQUEST:
            call = self.calls.get(item.fields[0])
            if call is not None:
                call.transfers = transfers
        return made

    def _announce_within(self, array: Array, frozen: bool, transfers: list[int]) -> list[Any] | None:
        """Announce a large tensor of a message: its descriptor, with the number of the transfer. None: it is small."""
        if array.nbytes <= self.settings.inline_limit and not array.dtype.hasobject:
            return None
        descriptor, data = tensors.flat_bytes(array)
        if data.size <= self.settings.inline_limit:
            return None
        item = self.sending.announce(0, "", data, frozen)
        transfers.append(item.id)
        return [*descriptor, item.id]

    def unsendable(self, item: Message, error: errors.OpError) -> None:
        """For Link: a message cannot be written; tell whoever depends on it."""
        if item.kind == frames.REQUEST:
            call = self.calls.pop(item.fields[0], None)
            if call is not None:
                call.finish(None, error)
        elif item.kind == frames.REPLY:
            self.post_plain(frames.FAILURE, item.fields[0], errors.to_wire(error))
        elif item.step:
            self._guarded(self.endpoint.push_lost, self, item.step, error)
        else:
            _log.error("%s", error)

    def cancel_call(self, call: Call) -> None:
        """For Call: nobody waits for it any more."""
        if self.calls.pop(call.id, None) is None or self.error is not None:
            return
        item, call.item = call.item, None
        if item is not None and self.outbox.withdraw(item):
            return
        dropped = [n for n in call.transfers if self.sending.drop(n) is not None]
        if dropped:
            self.post_plain(frames.REVOKE, dropped)
        self.post_plain(frames.CANCEL, call.id)

    def _call_late(self, call: Call) -> None:
        if self.calls.get(call.id) is call:
            done = call.done
            call.cancel()
            if done is not None:
                done(None, errors.DeadlineExceededError(None, None, self.late_text()))

    def answer(self, number: int, message: Any) -> None:
        """For Reply: send a reply."""
        if self.serving.pop(number, None) is None or self.error is not None:
            return
        self.post(Message(frames.REPLY, (number,), message))

    def answer_error(self, number: int, error: errors.OpError) -> None:
        """For Reply: send an error."""
        if self.serving.pop(number, None) is not None and self.error is None:
            self.post_plain(frames.FAILURE, number, errors.to_wire(error))

    # -- receiving ----------------------------------------------------------------------------------------------------

    def dispatch(self, kind: int, header: list[Any], frame_list: Sequence[Any]) -> None:
        """Act on a numbered message that is new. Raises WireError."""
        self.messages_in += 1
        handler = self._handlers.get(kind)
        if handler is None:
            raise WireError(f"a frame of kind {kind} cannot be numbered")
        handler(header, frame_list)

    def _read(self, data: list[Any], frame_list: Sequence[Any], end: Ending) -> None:
        """Call ``end(message, None)`` once a message and all its tensors are here, or ``end(None, error)``."""
        try:
            simple = codec.plain_message(data)
        except WireError as exc:
            end(None, self._unreadable(exc))
            return
        if simple is not None:
            end(simple, None)
        else:
            self._read_tensors(data, frame_list, end)

    def _read_tensors(self, data: list[Any], frame_list: Sequence[Any], end: Ending) -> None:
        waiting: _Waiting | None = None

        def fetch(descriptor: list[Any]) -> Awaited:
            nonlocal waiting
            if waiting is None:
                waiting = _Waiting(self, end)
            return waiting.tensor(descriptor)

        try:
            if data and data[0] == "":
                waiting = _Waiting(self, end)
                waiting.fetch(data[1], lambda array: self._read_long(array, frame_list, end))
                return
            reference = type(frame_list) is _References
            message = codec.message(data, codec.TensorReader(frame_list, reference, self.settings.max_tensor, fetch))
        except (errors.OpError, WireError, TypeError, ValueError, IndexError, OverflowError) as exc:
            error = exc if isinstance(exc, errors.OpError) else self._unreadable(exc)
            if waiting is not None:
                waiting.give_up(error)
            else:
                end(None, error)
            return
        if waiting is None:
            end(message, None)
        else:
            waiting.message = message
            waiting.check()

    def _read_long(self, array: Array, frame_list: Sequence[Any], end: Ending) -> None:
        """Read a message whose header was too long for a frame and came as an announced tensor."""
        try:
            data = codec.unpack(array.data)
        except WireError as exc:
            end(None, self._unreadable(exc))
        else:
            self._read(data, frame_list, end)

    def _on_request(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        number, left = header[3], header[4]
        reply = Reply(self, number, self.loop.now() + left if left > 0 else None)  # type: ignore[arg-type]  # as above
        self.serving[number] = reply
        self._read(header[5], frame_list, functools.partial(self._serve, reply))

    def _serve(self, reply: Reply, message: Any, error: errors.OpError | None) -> None:
        if error is not None:
            reply.fail(error)
        elif reply.link is not None:
            try:
                self.endpoint.service.handle(self, message, reply)
            except Exception as exc:
                _log.exception("a request of %s failed", self.title())
                reply.fail(errors.wrap(exc))

    def _on_tell(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        self._read(header[3], frame_list, self._told)

    def _told(self, message: Any, error: errors.OpError | None) -> None:
        if error is not None:
            _log.warning("dropped a message: %s", error)
            return
        try:
            self.endpoint.service.handle(self, message, Reply(self, 0, None))  # type: ignore[arg-type]  # as above
        except Exception:
            _log.exception("a message of %s failed", self.title())

    def _on_reply(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        self._read(header[4], frame_list, functools.partial(self._replied, header[3]))

    def _replied(self, number: int, message: Any, error: errors.OpError | None) -> None:
        call = self.calls.pop(number, None)
        if call is not None:
            self._guarded(call.finish, message, error)

    def _on_failure(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        call = self.calls.pop(header[3], None)
        if call is not None:
            self._guarded(call.finish, None, errors.from_wire(header[4]))

    def _on_cancel(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        reply = self.serving.pop(header[3], None)
        if reply is not None:
            self._guarded(reply.revoke)

    def _on_push(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        step, keys, descriptors = header[3], header[4], header[5]
        if len(keys) != len(descriptors):
            raise WireError("a push has not as many keys as tensors")
        reader = codec.TensorReader(frame_list, type(frame_list) is _References, self.settings.max_tensor)
        for key, descriptor in zip(keys, descriptors):
            if type(key) is not str:
                raise WireError("a push's key is not a text")
            try:
                value = reader.take(descriptor)
            except errors.OpError as exc:
                raise WireError(exc.message) from None
            self._guarded(self.endpoint.service.on_push, self, step, key, value)

    def _on_announce(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        number, step, key, descriptor, by_segment = header[3:8]
        try:
            incoming = Incoming(number, step, key, descriptor, by_segment, self.settings.max_tensor)
        except errors.OpError as exc:
            self.post_plain(frames.REFUSE, number, exc.message, False)
            return
        offer = Offer(self, incoming)
        self.offers[number] = offer
        self._guarded(self.endpoint.service.on_announce, self, step, key, offer)

    def _on_grant(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        item = self.sending.all.get(header[3])
        if item is not None and header[4] == BY_SEGMENT and self.sharing is not None:
            self.sharing.share(item)
            return
        self.sending.grant(header[3])
        self.pump_bulk()

    def _on_refuse(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        number, reason, over = header[3:6]
        item = self.sending.drop(number)
        step = item.step if item is not None else 0
        if item is None and self.sharing is not None:
            step = self.sharing.released(number)
        if step > 0 and not over:
            error = errors.ResourceExhaustedError(None, None, f"{self.route()}: a tensor was refused ({reason}).")
            self._guarded(self.endpoint.push_lost, self, step, error)

    def _on_revoke(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        for number in header[3]:
            if type(number) is not int:
                raise WireError("a revoked transfer is not a number")
            self.incoming.pop(number, None)
            offer = self.offers.pop(number, None)
            if offer is not None:
                self._guarded(offer.lost, errors.CancelledError(None, None, f"{self.title()} took a tensor back."))

    def _on_shared(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        number, fd = header[3], header[4]
        incoming = self.incoming.get(number)
        sharing = self.sharing
        if incoming is None or sharing is None:
            if fd >= 0:
                self.post_plain(frames.RELEASE, [number])
            return
        incoming.by_segment = False
        if fd < 0:
            self.grant(incoming)
            return
        try:
            array = sharing.receive(incoming, fd)
        except (OSError, ValueError) as exc:
            self.refuse(incoming, f"its segment cannot be mapped: {exc}", False)
            self._transfer_failed(incoming, errors.UnavailableError(None, None, f"{self.route()}: {exc}."))
            return
        self._came(incoming, array)

    def _on_release(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        for number in header[3]:
            if self.sharing is not None and type(number) is int:
                self.sharing.released(number)

    def _unreadable(self, exc: Exception) -> errors.OpError:
        return errors.InvalidArgumentError(None, None, f"{self.route()}: a message cannot be read ({exc}).")

    def _guarded(self, fn: Callable[..., None], *args: Any) -> None:
        try:
            fn(*args)
        except Exception:
            _log.exception("what %s sent met an error in %r", self.title(), fn)

    # -- announced tensors that come ----------------------------------------------------------------------------------

    def grant(self, incoming: Incoming) -> None:
        """For Offer: reserve memory and ask for the bytes."""
        if incoming.by_segment and self.sharing is not None:
            self.incoming[incoming.id] = incoming
            self.post_plain(frames.GRANT, incoming.id, BY_SEGMENT)
            return
        try:
            incoming.reserve(self.endpoint.memory(incoming.nbytes))
        except (MemoryError, ValueError):
            why = f"{self.endpoint.me.title()} has no memory for {incoming.nbytes} bytes"
            self.refuse(incoming, why, False)
            self._transfer_failed(incoming, errors.ResourceExhaustedError(None, None, f"{self.route()}: {why}."))
            return
        self.incoming[incoming.id] = incoming
        self.post_plain(frames.GRANT, incoming.id, BY_LANE)
        if not self.bulks:
            self.pump_bulk()  # the side with an address to dial opens the lane

    def refuse(self, incoming: Incoming, reason: str, over: bool) -> None:
        """For Offer: the tensor is not wanted."""
        self.incoming.pop(incoming.id, None)
        self.offers.pop(incoming.id, None)
        if self.error is None:
            self.post_plain(frames.REFUSE, incoming.id, reason, over)

    def _transfer_failed(self, incoming: Incoming, error: Exception) -> None:
        self.offers.pop(incoming.id, None)
        if incoming.failed is not None:
            self.loop.call_soon(incoming.failed, error)

    def place_chunk(self, number: int, offset: int, nbytes: int) -> memoryview | None:
        """For Channel: where a chunk belongs, None if it is not wanted. Raises WireError."""
        incoming = self.incoming.get(number)
        return None if incoming is None else incoming.place(offset, nbytes)

    def chunk_came(self, number: int, nbytes: int) -> bool:
        """For Channel: a chunk was written; true if its tensor is whole. Raises WireError."""
        incoming = self.incoming.get(number)
        self.bytes_in += nbytes
        if incoming is None:
            return True
        incoming.taken += nbytes
        if incoming.taken < incoming.nbytes:
            return False
        self._came(incoming, incoming.finish())
        return True

    def _came(self, incoming: Incoming, array: Array) -> None:
        del self.incoming[incoming.id]
        self.offers.pop(incoming.id, None)
        deliver, incoming.deliver = incoming.deliver, None
        incoming.failed = None
        if deliver is not None:
            self._guarded(deliver, array)

    # -- given by Link ------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def post(self, item: Message) -> None:
        """Send a numbered message now or when its turn comes."""

    @abc.abstractmethod
    def pump_bulk(self) -> None:
        """Send chunks as far as credit goes."""

    @abc.abstractmethod
    def title(self) -> str:
        """The peer, for people."""

    @abc.abstractmethod
    def route(self) -> str:
        """This link from end to end, for people."""

    @abc.abstractmethod
    def late_text(self) -> str:
        """What a call that ran out of time says."""


class _Waiting:
    """A message whose announced tensors are on their way."""

    __slots__ = ("_end", "_fetched", "_link", "_missing", "message")

    def __init__(self, link: Traffic, end: Ending) -> None:
        self._link = link
        self._end: Ending | None = end
        self._missing = 0
        self._fetched: list[Incoming] = []
        self.message: Any = None

    def fetch(self, descriptor: Any, deliver: Callable[[Array], None]) -> None:
        """Have an announced tensor sent. Raises WireError, UnimplementedError."""
        if type(descriptor) is not list or len(descriptor) != 4 or type(descriptor[3]) is not int:
            raise WireError("the descriptor of an announced tensor is malformed")
        incoming = Incoming(descriptor[3], 0, "", descriptor, False, self._link.settings.max_tensor)
        incoming.deliver = deliver
        incoming.failed = self.give_up
        self._fetched.append(incoming)
        self._link.grant(incoming)

    def tensor(self, descriptor: list[Any]) -> Awaited:
        """For the reader: what stands for an announced tensor until it has come."""
        stand_in = Awaited()

        def came(array: Array) -> None:
            stand_in.value = array
            self._missing -= 1
            self.check()

        self.fetch(descriptor, came)
        self._missing += 1
        return stand_in

    def check(self) -> None:
        """Hand the message over if it is whole."""
        if self._missing == 0 and self.message is not None and self._end is not None:
            end, self._end = self._end, None
            self._fetched.clear()
            end(complete(self.message), None)

    def give_up(self, error: Exception) -> None:
        """There will be no message."""
        end, self._end = self._end, None
        if end is not None:
            for incoming in self._fetched:
                if incoming.memory is not None:
                    self._link.refuse(incoming, str(error), False)
            self._fetched.clear()
            end(None, errors.wrap(error))


class _References(list[Any]):
    """Frames that came on a lane by reference: arrays after the header."""


def by_reference(frame_list: Sequence[Any]) -> Sequence[Any]:
    """Mark frames of a lane by reference for `Traffic.dispatch`."""
    return _References(frame_list)

