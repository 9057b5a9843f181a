"""What a link receives: requests, replies, pushed tensors and announced ones. How it goes by lanes: carrier.py."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.wire import codec, frames, seldom
from dtfzmq.wire.calls import Awaited, Reply
from dtfzmq.wire.message import WireError
from dtfzmq.wire.offer import Offer
from dtfzmq.wire.reading import Ending, References, Waiting
from dtfzmq.wire.sender import Sender
from dtfzmq.wire.shared import BY_LANE, BY_SEGMENT
from dtfzmq.wire.transfer import Array, Incoming

if TYPE_CHECKING:
    from dtfzmq.wire.endpoint import Endpoint

_log = logging.getLogger("dtfzmq")


class Traffic(Sender):
    """The receiving half. Baton only."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
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
        waiting: Waiting | None = None

        def fetch(descriptor: list[Any]) -> Awaited:
            nonlocal waiting
            if waiting is None:
                waiting = Waiting(self, end)
            return waiting.tensor(descriptor)

        try:
            if data and data[0] == "":
                waiting = Waiting(self, end)
                waiting.fetch(data[1], lambda array: self._read_long(array, frame_list, end))
                return
            reference = type(frame_list) is References
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
            subject = "dropped", self.endpoint.me.name, self.title()
            seldom.warn(subject, f"dropped a message of {self.title()}: {error}")
            return
        try:
            self.endpoint.service.handle(self, message, Reply(self, 0, None))  # type: ignore[arg-type]  # as above
        except Exception:
            _log.exception("a message of %s failed", self.title())

    def _on_reply(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        if len(header) > 5:
            if len(header[5]) != 3:
                raise WireError("a push that rides on a reply is malformed")
            step, keys, descriptors = header[5]
            self._arrived(step, keys, descriptors, ())
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
        self._arrived(header[3], header[4], header[5], frame_list)

    def _arrived(self, step: Any, keys: Any, descriptors: Any, frame_list: Sequence[Any]) -> None:
        if type(step) is not int or type(keys) is not list or type(descriptors) is not list:
            raise WireError("a push is malformed")
        if len(keys) != len(descriptors):
            raise WireError("a push has not as many keys as tensors")
        reader = codec.TensorReader(frame_list, type(frame_list) is References, self.settings.max_tensor)
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
        if item is not None and header[4] == BY_SEGMENT:
            if self.sharing is not None:
                self.sharing.share(item)
            else:
                self.post_plain(frames.SHARED, item.id, -1, 0)
            return
        if self.sharing is not None:
            self.sharing.take_back(header[3])
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
                text = f"{self.route()}: a tensor was taken back, so its step ended there."
                self._guarded(offer.lost, errors.make(errors.CANCELLED, text, derived=True))

    def _on_shared(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        number, fd, inode = header[3:6]
        incoming = self.incoming.get(number)
        sharing = self.sharing
        if incoming is None or sharing is None:
            if fd >= 0:
                self.post_plain(frames.RELEASE, [number])
            return
        sharing.receive(incoming, fd, inode)

    def _on_release(self, header: list[Any], frame_list: Sequence[Any]) -> None:
        for number in header[3]:
            if self.sharing is not None and type(number) is int:
                self.sharing.released(number)

    def _unreadable(self, exc: Exception) -> errors.OpError:
        return errors.InvalidArgumentError(None, None, f"{self.route()}: a message cannot be read ({exc}).")

    # -- announced tensors that come ----------------------------------------------------------------------------------

    def grant(self, incoming: Incoming) -> None:
        """For Offer: reserve memory and ask for the bytes."""
        by_segment = incoming.by_segment and self.sharing is not None and self.sharing.maps
        if incoming.memory is None and (incoming.owned or not by_segment):
            try:
                incoming.reserve(self.endpoint.memory(incoming.nbytes))
            except (MemoryError, ValueError):
                why = f"{self.endpoint.me.title()} has no memory for {incoming.nbytes} bytes"
                self.refuse(incoming, why, False)
                self._transfer_failed(incoming, errors.ResourceExhaustedError(None, None, f"{self.route()}: {why}."))
                return
        self.incoming[incoming.id] = incoming
        self.post_plain(frames.GRANT, incoming.id, BY_SEGMENT if by_segment else BY_LANE)
        if not by_segment and not self.bulks:
            self.pump_bulk()  # the side with an address to dial opens the lane

    def refuse(self, incoming: Incoming, reason: str, over: bool) -> None:
        """For Offer: the tensor is not wanted."""
        self.incoming.pop(incoming.id, None)
        self.offers.pop(incoming.id, None)
        if self.error is None:
            self.post_plain(frames.REFUSE, incoming.id, reason, over)

    def give_up(self, incoming: Incoming, error: Exception) -> None:
        """For Sharing: what came is of no use."""
        self.incoming.pop(incoming.id, None)
        self._transfer_failed(incoming, error)

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
        self.came(incoming, incoming.finish())
        return True

    def coming(self) -> Iterator[Any]:
        """Messages that came but for tensors of theirs, which are on their way."""
        for incoming in self.incoming.values():
            if incoming.of is not None and incoming.of.message is not None:
                yield incoming.of.message

    def came(self, incoming: Incoming, array: Array) -> None:
        """A tensor is whole: hand it over."""
        del self.incoming[incoming.id]
        self.offers.pop(incoming.id, None)
        deliver, incoming.deliver = incoming.deliver, None
        incoming.failed = None
        if deliver is not None:
            self._guarded(deliver, array)
