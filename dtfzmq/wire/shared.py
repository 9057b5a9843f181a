"""Announced tensors that go through shared memory: one copy into a pooled segment, a lease, and its return.

The sender copies in slices, turn by turn of the loop, so that nothing waits for a large one. The receiver's array maps
the segment, read-only; when it is dropped, the lease ends and the segment may be used again. What a lost peer leased
is discarded, never used again. Tensors of requests and replies outlive steps, so that they are copied out at once.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.wire import frames, tensors
from dtfzmq.wire.buffers import Bytes
from dtfzmq.wire.message import WireError
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
            self._link.post_plain(frames.SHARED, item.id, -1, 0)  # no memory: it goes by the lane after all
            return
        self._link.endpoint.watch_memory()
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
        link.post_plain(frames.SHARED, item.id, segment.fd, segment.inode)

    def released(self, number: int) -> int:
        """The receiver let go of a tensor. Returns its step; 0 if it was not lent."""
        segment, step = self.lent.pop(number, (None, 0))
        if segment is not None:
            self._segments.give(segment)
        return step

    # -- the receiver -------------------------------------------------------------------------------------------------

    def receive(self, incoming: Incoming, fd: int, inode: int) -> None:
        """A tensor lies in the peer's segment. Raises OSError or ValueError if it cannot be mapped, WireError."""
        memory = self._segments.map(self._pid, fd, inode, incoming.nbytes)
        link = self._link
        link.endpoint.watch_memory()
        link.bytes_in += incoming.nbytes
        if incoming.owned:
            self._take_over(incoming, memory, 0)
            return
        number, loop = incoming.id, link.loop
        self.borrowed[number] = when_dropped(memory, lambda: loop.call_soon(self._release, number))
        link.came(incoming, tensors.adopt(incoming.name, incoming.shape, memory))

    def _take_over(self, incoming: Incoming, memory: Bytes, start: int) -> None:
        link = self._link
        if link.error is not None:
            return
        if link.incoming.get(incoming.id) is not incoming:
            self._release(incoming.id)
            return
        end = min(start + _SLICE, incoming.nbytes)
        assert incoming.memory is not None
        incoming.memory[start:end] = memory[start:end]
        if end < incoming.nbytes:
            link.loop.call_soon(self._take_over, incoming, memory, end)
            return
        self._release(incoming.id)
        try:
            array = incoming.finish()
        except WireError as exc:
            link.give_up(incoming, errors.InternalError(None, None, f"{link.route()}: {exc}."))
        else:
            link.came(incoming, array)

    def _release(self, number: int) -> None:
        self.borrowed.pop(number, None)
        if self._link.error is None:
            self._link.post_plain(frames.RELEASE, [number])

    def close(self) -> None:
        """The link is lost: what the peer leases is never written again."""
        for segment, _ in self.lent.values():
            self._segments.discard(segment)
        self.lent.clear()
        self.borrowed.clear()
        self._segments.forget(self._pid)
