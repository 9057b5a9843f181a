"""Announced tensors that go through shared memory: one copy into a pooled segment, a lease, and its return.

The sender copies in slices, turn by turn of the loop, so that nothing waits for a large one. The receiver's array maps
the segment, read-only; when it is dropped, the lease ends and the segment may be used again. What a lost peer leased
is discarded, never used again.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from dtfzmq.wire import frames, tensors
from dtfzmq.wire.buffers import Bytes
from dtfzmq.wire.segments import Segment, Segments, when_dropped

if TYPE_CHECKING:
    from dtfzmq.wire.traffic import Traffic
    from dtfzmq.wire.transfer import Incoming, Outgoing

# Bytes copied in one turn of the loop: under a millisecond.
_SLICE = 4 * 1024 * 1024

BY_LANE, BY_SEGMENT = 0, 1


class Sharing:
    """Segments lent and borrowed over one link whose ends are on one host. Baton only."""

    def __init__(self, link: Traffic, segments: Segments, pid: int) -> None:
        self._link = link
        self._segments = segments
        self._pid = pid
        #: Segments by transfer, with the step that each is for.
        self.lent: dict[int, tuple[Segment, int]] = {}
        self.borrowed: dict[int, weakref.ref[Any]] = {}

    # -- the sender ---------------------------------------------------------------------------------------------------

    def share(self, item: Outgoing) -> None:
        """The receiver asked for a tensor by segment: copy it there, then tell."""
        try:
            segment = self._segments.take(item.nbytes)
        except OSError:
            self._link.post_plain(frames.SHARED, item.id, -1)  # no memory: it goes by the lane after all
            return
        self._copy(item, segment, 0)

    def _copy(self, item: Outgoing, segment: Segment, start: int) -> None:
        link = self._link
        if link.error is not None or link.sending.all.get(item.id) is not item:
            self._segments.give(segment)  # nobody else has seen it
            return
        end = min(start + _SLICE, item.nbytes)
        segment.data[start:end] = np.frombuffer(item.data[start:end], np.uint8)
        if end < item.nbytes:
            link.loop.call_soon(self._copy, item, segment, end)
            return
        link.bytes_out += item.nbytes
        self.lent[item.id] = segment, item.step
        link.sending.drop(item.id)
        link.post_plain(frames.SHARED, item.id, segment.fd)

    def released(self, number: int) -> int:
        """The receiver let go of a tensor. Returns its step; 0 if it was not lent."""
        segment, step = self.lent.pop(number, (None, 0))
        if segment is not None:
            self._segments.give(segment)
        return step

    # -- the receiver -------------------------------------------------------------------------------------------------

    def receive(self, incoming: Incoming, fd: int) -> Any:
        """The tensor that lies in the peer's segment. Raises OSError, ValueError, WireError."""
        memory = self._segments.map(self._pid, fd, incoming.nbytes)
        self._link.bytes_in += incoming.nbytes
        if incoming.name in ("string", "bool"):  # these are checked, which needs a copy
            own: Bytes = memory.copy()
            self._link.loop.call_soon(self._release, incoming.id)
            return tensors.adopt(incoming.name, incoming.shape, own)
        number, loop = incoming.id, self._link.loop
        self.borrowed[number] = when_dropped(memory, lambda: loop.call_soon(self._release, number))
        return tensors.adopt(incoming.name, incoming.shape, memory)

    def _release(self, number: int) -> None:
        self.borrowed.pop(number, None)
        if self._link.error is None:
            self._link.post_plain(frames.RELEASE, [number])

    def close(self) -> None:
        """The link is lost: what the peer leases is never written again."""
        for segment, _ in self.lent.values():
            segment.discard()
        self.lent.clear()
        self.borrowed.clear()
        self._segments.forget(self._pid)
