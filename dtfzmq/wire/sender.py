"""What a link sends: requests and their cancelling, one-way messages, replies, pushed tensors and announced ones."""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.wire import codec, frames, tensors
from dtfzmq.wire.calls import Call, Done, Reply
from dtfzmq.wire.numbers import Inbox, Message, Outbox
from dtfzmq.wire.offer import Offer
from dtfzmq.wire.shared import Sharing
from dtfzmq.wire.transfer import Array, Incoming, Sending, as_bytes

if TYPE_CHECKING:
    from dtfzmq.wire.endpoint import Endpoint
    from dtfzmq.wire.lane import Channel

_log = logging.getLogger("dtfzmq")

Pushed = Iterable[tuple[str, Any]]


class Sender(abc.ABC):
    """The tables of one link, and its sending half. Baton only."""

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
        #: Set once the peer is known, if both ends have shared memory.
        self.sharing: Sharing | None = None
        self.error: errors.OpError | None = None
        #: A small push that waits, no longer than this turn of the loop, for a reply to go out with.
        self.rider: Message | None = None
        self.bytes_out = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.messages_in = 0
        self.repeats_out = 0
        self._last_call = 0

    # -- sending ------------------------------------------------------------------------------------------------------

    def call(
        self,
        request: Any,
        done: Done,
        *,
        deadline: float | None = None,
        frozen: bool = True,
        again: Callable[[], None] | None = None,
    ) -> Call:
        """Send a request; ``done(reply, error)`` is called once, later. `deadline` is a moment of the loop's time.

        `again` is called in place of `done` if the peer had given this link up before it received the request.
        `frozen=False`: tensors of the request may be written by their owner once the call is done or cancelled, so no
        lent byte of theirs is left behind then.
        """
        self._last_call += 1
        call = Call(self, self._last_call, done, again)  # type: ignore[arg-type]  # every Traffic is a Link
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
            if not reference and (size > self.settings.inline_limit or array.dtype.hasobject):
                size = self._unless_large(step, key, array)
                if size < 0:
                    continue
            keys.append(key)
            values.append(array)
            room -= size + len(key)
            if room <= 0:
                self._post_push(step, keys, values)
                keys, values, room = [], [], self.settings.batch
        if keys:
            self._post_push(step, keys, values)

    def forget(self, step: int) -> None:
        """A step is over: drop what waits for it here and tell the peer of what it was promised."""
        self.steps.discard(step)
        self.outbox.forget(step)
        if self.rider is not None and self.rider.step == step:
            self.rider = None
        dropped = self.sending.drop_step(step) if self.sending.all else ()
        if dropped and self.error is None:
            self.post_plain(frames.REVOKE, [item.id for item in dropped])

    def _unless_large(self, step: int, key: str, array: Array) -> int:
        """Announce a tensor if it is above the limit, else its bytes; strings are measured by writing them. Below 0: it
        was announced.
        """
        descriptor, data = tensors.flat_bytes(array)
        if data.size <= self.settings.inline_limit:
            return data.size
        item = self.sending.announce(step, key, data, True)
        shared = self.endpoint.lends and data.size >= self.settings.shared_limit
        self.post(Message(frames.ANNOUNCE, (item.id, step, key, descriptor, shared), None, step))
        return -1

    def _post_push(self, step: int, keys: list[str], values: list[Any]) -> None:
        nbytes = sum(v.nbytes for v in values)
        item = Message(frames.PUSH, (step, keys), values, step, nbytes)
        if (
            self.serving
            and nbytes <= codec.IN_HEADER
            and self._may_go()
            and not any(v.dtype.hasobject for v in values)
            and not self.controls[0].lane.by_reference  # type: ignore[union-attr]  # live lanes have lanes
        ):
            self._go_on_foot()
            self.rider = item
            self.loop.call_soon(self._go_on_foot)
        else:
            self.post(item)

    def _may_go(self) -> bool:
        """True if a message would go out at once."""
        return bool(self.controls) and self.outbox.open()

    def _go_on_foot(self) -> None:
        """No reply went out in this turn: the push goes alone."""
        rider, self.rider = self.rider, None
        if rider is not None and self.error is None:
            self.post(rider)

    def post_plain(self, kind: int, *fields: Any) -> None:
        """Send a numbered message of plain fields."""
        self.post(Message(kind, fields))

    def write(self, item: Message, number: int, reference: bool) -> list[Any]:
        """For Carrier: the frames of a message; its large tensors, or itself if it is long, are announced with it.

        Raises what a value of the caller makes the codec raise.
        """
        kind, body = item.kind, item.body
        head: list[Any] = [kind, number, self.inbox.received, *item.fields]
        if body is None:
            return [codec.pack(head)]
        if kind == frames.PUSH:
            writer = codec.TensorWriter(reference)
            head.append([writer.add(v) for v in body])
            return self._fitting(writer.frames(head), reference)
        if kind == frames.REQUEST:
            deadline = head[4]
            head[4] = 0.0 if deadline is None else max(1e-3, deadline - self.loop.now())
        transfers: list[int] = []
        try:
            return self._fitting(self._write_body(item, head, reference, transfers), reference)
        except BaseException:
            for transfer in transfers:
                self.sending.drop(transfer)
            raise

    def _fitting(self, made: list[Any], reference: bool) -> list[Any]:
        """Frames that libzmq takes, or ResourceExhaustedError: the peer would end each lane on which they came."""
        most = self.settings.max_frame
        if not reference and (len(made[0]) > most or len(made) > 1 and len(made[1]) > most):
            sizes = " and ".join(str(len(frame)) for frame in made)
            raise errors.ResourceExhaustedError(
                None, None, f"{self.route()}: a message of {sizes} bytes is above the limit of {most} for a frame."
            )
        return made

    def _write_body(self, item: Message, head: list[Any], reference: bool, transfers: list[int]) -> list[Any]:
        writer = codec.TensorWriter(
            reference,
            None if reference else lambda array, limit: self._announce_within(array, limit, item.frozen, transfers),
            self.settings.inline_limit,
            self.settings.control_window,
            copy=reference and not item.frozen,
        )
        plain = codec.body(item.body, writer)
        head.append(plain)
        if item.rider is not None:
            within = codec.TensorWriter(False)
            head.append([*item.rider.fields, [within.add(v) for v in item.rider.body]])
        made = writer.frames(head)
        if reference or not transfers and len(made[0]) <= self.settings.max_header:
            return made
        return self._write_long(item, head, plain, made, transfers)

    def _write_long(
        self, item: Message, head: list[Any], plain: list[Any], made: list[Any], transfers: list[int]
    ) -> list[Any]:
        """Announce a body that is too long for a header, and note what a request announced, in case it is cancelled."""
        if len(made[0]) > self.settings.max_header:
            descriptor, data = as_bytes(codec.pack(plain))
            long = self.sending.announce(0, "", data, True)
            transfers.append(long.id)
            head[3 + len(item.fields)] = ["", [*descriptor, long.id]]
            made[0] = codec.pack(head)
        if transfers and item.kind == frames.REQUEST:
            call = self.calls.get(item.fields[0])
            if call is not None:
                call.transfers = transfers
        return made

    def _announce_within(self, array: Array, limit: int, frozen: bool, transfers: list[int]) -> list[Any] | None:
        """Announce a tensor of a message that has more than `limit` bytes, else None.

        Returns its descriptor, with the number of the transfer.
        """
        descriptor, data = tensors.flat_bytes(array)
        if data.size <= limit:
            return None
        item = self.sending.announce(0, "", data, frozen)
        transfers.append(item.id)
        return [*descriptor, item.id]

    def unsendable(self, item: Message, error: errors.OpError) -> None:
        """For Carrier: a message cannot be written; tell whoever depends on it."""
        if item.kind == frames.REQUEST:
            call = self.calls.pop(item.fields[0], None)
            if call is not None:
                call.finish(None, error)
        elif item.kind == frames.REPLY:
            if item.rider is not None:
                self.post(item.rider)
            self.post_plain(frames.FAILURE, item.fields[0], errors.to_wire(error))
        elif item.step:
            self._guarded(self.endpoint.push_lost, self, item.step, error)
        else:
            _log.error("%s", error)

    def take_unseen(self, received: int) -> list[Call]:
        """Calls that are to be asked again where the peer received up to this number; they are this link's no more."""
        asked = [item.fields[0] for item in self.outbox.unseen(received) if item.kind == frames.REQUEST]
        return [self.calls.pop(n) for n in asked if n in self.calls and self.calls[n].again is not None]

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
        item = Message(frames.REPLY, (number,), message)
        if self.rider is not None and self._may_go():
            item.rider, self.rider = self.rider, None
            item.step = item.rider.step
        self.post(item)

    def answer_error(self, number: int, error: errors.OpError) -> None:
        """For Reply: send an error."""
        if self.serving.pop(number, None) is not None and self.error is None:
            self.post_plain(frames.FAILURE, number, errors.to_wire(error))

    def _guarded(self, fn: Callable[..., None], *args: Any) -> None:
        try:
            fn(*args)
        except Exception:
            _log.exception("what %s sent met an error in %r", self.title(), fn)

    # -- given by Carrier and Link ------------------------------------------------------------------------------------

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
