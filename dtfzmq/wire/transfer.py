"""Announced tensors: the sender keeps the bytes until they are granted, and sends them in chunks with credit.

Credit counts bytes that lie in the receiver's buffer, per lane; it is also the acknowledgement of chunks: what was
sent on a lane that ends and was not credited is sent again on the next one, and the receiver drops what it has.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.wire import tensors
from dtfzmq.wire.buffers import Bytes
from dtfzmq.wire.message import WireError

Array = tensors.Array


class Outgoing:
    """A tensor that was announced. Invariant: ``0 <= confirmed <= sent <= nbytes``.

    `step` is the step of a push; a tensor of a request or reply has a negative number of its own, to take its turn.
    """

    __slots__ = ("confirmed", "data", "frozen", "granted", "id", "key", "nbytes", "sent", "step")

    def __init__(self, number: int, step: int, key: str, data: Bytes, frozen: bool) -> None:
        self.id = number
        self.step = step
        self.key = key
        self.data: memoryview = data.data
        self.nbytes = data.size
        self.frozen = frozen
        self.granted = False
        self.sent = 0
        self.confirmed = 0


class Sending:
    """All tensors that one end of a link has announced, and whose turn it is. Steps take turns chunk by chunk."""

    def __init__(self, chunk: int, window: int) -> None:
        self.all: dict[int, Outgoing] = {}
        self._chunk = chunk
        self._window = window
        self._turns: dict[int, collections.deque[Outgoing]] = {}
        self._flying: collections.deque[tuple[Outgoing, int, int]] = collections.deque()
        self._lane_sent = 0
        self._lane_credited = 0
        self._last = 0
        #: Bytes that were credited so far, on all lanes.
        self.credited = 0

    def announce(self, step: int, key: str, data: Bytes, frozen: bool) -> Outgoing:
        """Keep a tensor's bytes until the receiver grants them."""
        self._last += 1
        item = Outgoing(self._last, step or -self._last, key, data, frozen)
        self.all[item.id] = item
        return item

    def grant(self, number: int) -> None:
        """The receiver has a buffer for it. A grant for what was revoked meanwhile is nothing."""
        item = self.all.get(number)
        if item is not None and not item.granted:
            item.granted = True
            self._turns.setdefault(item.step, collections.deque()).append(item)

    @property
    def granted(self) -> bool:
        """True if anything waits to be sent in chunks, for its turn, for credit or for a lane."""
        return bool(self._turns)

    @property
    def flying(self) -> bool:
        """True if chunks were sent that are not credited."""
        return bool(self._flying)

    def next_chunk(self) -> tuple[Outgoing, int, memoryview] | None:
        """The next chunk (tensor, offset, bytes), if there is one and credit for it; it is taken to be sent."""
        turns = self._turns
        if not turns or self._lane_sent - self._lane_credited >= self._window:
            return None
        step, queue = next(iter(turns.items()))
        item = queue[0]
        start = item.sent
        end = min(start + self._chunk, item.nbytes)
        item.sent = end
        if end == item.nbytes:
            queue.popleft()
        del turns[step]
        if queue:
            turns[step] = queue  # to the end: the other steps come first
        self._lane_sent += end - start
        self._flying.append((item, end, self._lane_sent))
        return item, start, item.data[start:end]

    def credit(self, total: int) -> None:
        """The receiver has written `total` bytes of this lane so far. Raises WireError for more than was sent."""
        if total > self._lane_sent or total < self._lane_credited:
            raise WireError(f"credit for {total} bytes came and {self._lane_sent} were sent")
        self.credited += total - self._lane_credited
        self._lane_credited = total
        flying = self._flying
        while flying and flying[0][2] <= total:
            item, end, _ = flying.popleft()
            item.confirmed = end
            if end == item.nbytes:
                self.all.pop(item.id, None)

    def lane_ended(self) -> None:
        """What was not credited is to be sent again."""
        again = {item.id: item for item, _, _ in self._flying if item.id in self.all}
        self._flying.clear()
        self._lane_sent = self._lane_credited = 0
        for item in again.values():
            if item.sent == item.nbytes:  # it had left its queue; what began first goes on first
                self._turns.setdefault(item.step, collections.deque()).appendleft(item)
            item.sent = item.confirmed

    def drop(self, number: int) -> Outgoing | None:
        """Give a tensor up; chunks that are on their way are discarded by the receiver."""
        item = self.all.pop(number, None)
        if item is not None and item.granted:
            queue = self._turns.get(item.step)
            if queue is not None and item in queue:
                queue.remove(item)
                if not queue:
                    del self._turns[item.step]
        return item

    def drop_step(self, step: int) -> list[Outgoing]:
        """Give up all tensors of a step."""
        dropped = [item for item in self.all.values() if item.step == step]
        for item in dropped:
            self.drop(item.id)
        return dropped

    def clear(self) -> None:
        """Give up everything, for a link that is lost."""
        self.all.clear()
        self._turns.clear()
        self._flying.clear()


class Incoming:
    """A tensor that the peer announced. `memory` is there from the grant on; `taken` bytes of it are written."""

    __slots__ = (
        "by_segment",
        "deliver",
        "failed",
        "id",
        "key",
        "memory",
        "name",
        "nbytes",
        "of",
        "owned",
        "shape",
        "step",
        "taken",
        "view",
    )

    def __init__(self, number: int, step: int, key: str, descriptor: Any, by_segment: bool, limit: int) -> None:
        self.name, self.shape, self.nbytes = tensors.measure(descriptor, limit)
        if self.nbytes == 0:
            raise WireError("an empty tensor was announced")
        self.id = number
        self.step = step
        self.key = key
        self.by_segment = by_segment
        #: It may not stay in a peer's segment: it outlives its step, or its bytes are checked.
        self.owned = not step or self.name in ("string", "bool")
        self.memory: Bytes | None = None
        self.view: memoryview | None = None
        self.taken = 0
        self.deliver: Callable[[Array], None] | None = None
        self.failed: Callable[[Exception], None] | None = None
        #: The reading.Waiting whose tensor it is; None for one that was pushed.
        self.of: Any = None

    @property
    def dtype(self) -> dtypes.DType:
        """Element type of the tensor to come."""
        return dtypes.as_dtype(self.name)

    def reserve(self, memory: Bytes) -> None:
        """Chunks are written into `memory` from now on."""
        self.memory = memory
        self.view = memory.data

    def place(self, offset: int, nbytes: int) -> memoryview | None:
        """Where a chunk is to be written; None if we have it already. Raises WireError for one that cannot be."""
        if self.view is None or nbytes <= 0 or offset < 0 or offset + nbytes > self.nbytes:
            raise WireError(f"a chunk of {nbytes} bytes at {offset} is beyond its tensor of {self.nbytes}")
        if offset == self.taken:
            return self.view[offset : offset + nbytes]
        if offset > self.taken:
            raise WireError(f"a chunk at {offset} came after {self.taken} bytes")
        return None

    def finish(self) -> Array:
        """The whole tensor. Raises WireError if its strings are malformed."""
        assert self.memory is not None
        memory = self.memory
        self.memory = self.view = None
        return tensors.adopt(self.name, self.shape, memory)


def as_bytes(data: bytes) -> tuple[list[Any], Bytes]:
    """A long header as the descriptor and bytes of a tensor."""
    flat = np.frombuffer(data, np.uint8)
    return ["uint8", [flat.size], flat.size], flat
