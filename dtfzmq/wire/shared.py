"""Announced tensors that go through shared memory: one copy into a pooled segment, a lease, and its return.

The receiver asks for it, if it has proven that it can map what the sender has; where that fails after all (no right to,
no descriptor or memory left), the tensor comes by the lane, as do all that follow on the link. The sender copies in
slices, turn by turn of the loop, so that nothing waits for a large one. The receiver's array maps the segment,
read-only; when it is dropped, the lease ends and the segment may be used again. What a lost peer leased is discarded,
never used again, and so is what was leased for longer than the limit: who has mapped it keeps it, who has not gets the
tensor by the lane. Tensors of requests and replies outlive steps, so that they are copied out at once.
"""

from __future__ import annotations

import errno
import logging
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

_log = logging.getLogger("dtfzmq")

# Bytes copied in one turn of the loop: under a millisecond.
_SLICE = 4 * 1024 * 1024

BY_LANE, BY_SEGMENT = 0, 1

# A map that fails so fails for others, too. Else the segment is not there any more: we were late, and it was given up.
_NEVER = {errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class _Lent:
    """A segment that the receiver may map, the tensor in it, and since when."""

    __slots__ = ("item", "segment", "since")

    def __init__(self, segment: Segment, item: Outgoing, since: float) -> None:
        self.segment = segment
        self.item = item
        self.since = since


class Sharing:
    """Segments lent and borrowed over one link. Baton only."""

    def __init__(self, link: Traffic, segments: Segments, pid: int) -> None:
        """`pid`: the peer's process if its segments can be mapped here, else 0."""
        self._link = link
        self._segments = segments
        self._pid = pid
        #: By transfer, oldest first.
        self.lent: dict[int, _Lent] = {}
        self.borrowed: dict[int, weakref.ref[Any]] = {}
        self._not_mapped = False
        self._timer: Any = None

    # -- the sender ---------------------------------------------------------------------------------------------------

    def share(self, item: Outgoing) -> None:
        """The receiver asked for a tensor by segment: copy it there, then tell."""
        try:
            segment = None if self._not_mapped else self._segments.take(item.nbytes)
        except OSError:
            segment = None
        if segment is None:
            self._link.post_plain(frames.SHARED, item.id, -1, 0)  # it goes by the lane after all
            return
        self._link.endpoint.watch_memory()
        self._copy(item, segment, 0)

    def _copy(self, item: Outgoing, segment: Segment, start: int) -> None:
        link = self._link
        if link.error is not None or link.sending.all.get(item.id) is not item:
            self._segments.give(segment)  # nobody else has seen it
            return
        end = min(start + _SLICE, item.nbytes)
        try:
            segment.write(start, np.frombuffer(item.data[start:end], np.uint8))
        except OSError as exc:
            self._segments.tell(item.nbytes, exc)
            self._segments.discard(segment)
            link.post_plain(frames.SHARED, item.id, -1, 0)
            return
        if end < item.nbytes:
            link.loop.call_soon(self._copy, item, segment, end)
            return
        link.bytes_out += item.nbytes
        item.data = segment.data[: item.nbytes].data  # the tensor itself is let go of
        self.lent[item.id] = _Lent(segment, item, link.loop.now())
        if self._timer is None:
            self._timer = link.loop.call_later(link.settings.limit, self._reclaim)
        link.sending.drop(item.id)
        link.post_plain(frames.SHARED, item.id, segment.fd, segment.inode)

    def released(self, number: int) -> int:
        """The receiver let go of a tensor. Returns its step; 0 if it was not lent."""
        lent = self.lent.pop(number, None)
        if lent is None:
            return 0
        if lent.segment.fd >= 0:
            self._segments.give(lent.segment)
        return lent.item.step

    def take_back(self, number: int) -> None:
        """The receiver cannot map a segment and wants the tensor by the lane: it is sent out of there."""
        lent = self.lent.pop(number, None)
        if lent is not None:
            # What was not reclaimed could have been mapped.
            self._not_mapped = self._not_mapped or lent.segment.fd >= 0
            self._segments.discard(lent.segment)
            self._link.sending.all[number] = lent.item
            self._link.bytes_out -= lent.item.nbytes

    def _reclaim(self) -> None:
        """Give up what was lent for too long; of the steps that are over the tensors, too."""
        self._timer = None
        link = self._link
        now = link.loop.now()
        since = now
        over = []
        for number, lent in self.lent.items():
            if now - lent.since < link.settings.limit:
                since = lent.since
                break
            self._segments.discard(lent.segment)
            if lent.item.step > 0 and lent.item.step not in link.steps:
                over.append(number)
        for number in over:
            del self.lent[number]
        if over:
            link.post_plain(frames.REVOKE, over)
        if self.lent:
            self._timer = link.loop.call_at(since + link.settings.limit, self._reclaim)

    # -- the receiver -------------------------------------------------------------------------------------------------

    @property
    def maps(self) -> bool:
        """True if the peer's segments can be mapped, as far as is known."""
        return self._pid != 0

    def receive(self, incoming: Incoming, fd: int, inode: int) -> None:
        """A tensor lies in the peer's segment `fd`; below 0: the peer had none for it."""
        link = self._link
        incoming.by_segment = False
        try:
            if fd < 0:
                link.grant(incoming)
                return
            memory = self._segments.map(self._pid, fd, inode, incoming.nbytes)
        except (OSError, ValueError) as exc:
            if self._pid and isinstance(exc, OSError) and exc.errno in _NEVER:
                _log.warning("%s: large tensors come by the lane, since shared memory failed: %s", link.route(), exc)
                self._segments.forget(self._pid)
                self._pid = 0
            link.grant(incoming)
            return
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
        if self._timer is not None:
            self._timer.cancel()
        for lent in self.lent.values():
            self._segments.discard(lent.segment)
        self.lent.clear()
        self.borrowed.clear()
        self._segments.forget(self._pid)
