"""Shared memory between tasks of one host: memfd segments, reached through /proc/PID/fd, warm and pooled.

A segment has no name, so that nothing is left behind by a process that is killed. "Same host" is proven by mapping the
nonce segment that the peer's hello names. Memory is allocated before it is written (a full tmpfs would be a SIGBUS),
and only what is sealed against shrinking is mapped, for the same reason. It is allocated part by part as a segment is
first written, since 1 GB takes a system most of a second. A descriptor's number is used again, so that a segment is
known by its inode, too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import mmap
import os
import secrets
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfzmq.wire.buffers import Bytes

_log = logging.getLogger("dtfzmq")

_PAGE = 4096
_NONCE = 16
# Segments of one endpoint, and maps that it keeps: each takes two descriptors of its process, and those are few. What
# comes above goes by the lane.
_MOST = 128
_REMEMBERED = 5  # trims
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE of Linux 5.14: a fault for every page takes twice as long


def supported() -> bool:
    """True where segments can be made: Linux."""
    return hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


class Segment:
    """Memory of this process that peers may map to read."""

    __slots__ = ("_map", "_ready", "again", "data", "fd", "inode", "size", "used")

    def __init__(self, size: int) -> None:
        self.size = size
        #: Since the last `Segments.trim`.
        self.used = True
        #: Its size had been asked for before, not long ago.
        self.again = False
        self._ready = 0  # bytes for which there is memory
        self.fd = os.memfd_create("dtfzmq", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            self.inode = os.fstat(self.fd).st_ino
            os.ftruncate(self.fd, size)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            self._map = mmap.mmap(self.fd, size)
            self.data: Bytes = np.frombuffer(self._map, np.uint8)
        except BaseException:
            os.close(self.fd)
            raise

    def write(self, start: int, source: Bytes) -> None:
        """Copy bytes to `start`, which is at most where the furthest write ended. Raises OSError without memory."""
        end = start + len(source)
        if end > self._ready:
            first, last = self._ready, -(-end // _PAGE) * _PAGE
            os.posix_fallocate(self.fd, first, last - first)
            with contextlib.suppress(OSError):  # an older kernel
                self._map.madvise(_POPULATE_WRITE, first, last - first)
            self._ready = last
        self.data[start:end] = source

    def discard(self) -> None:
        """Give it up; who maps it keeps the memory until it lets go."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Segments:
    """The segments of one endpoint. Baton only. OSError where the system makes none."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free: dict[int, list[Segment]] = {}
        self._free_bytes = 0
        self._all: set[Segment] = set()
        self._asked: dict[int, int] = {}  # by size: the trims for which it is remembered
        #: Maps of peers' segments by (process, descriptor, inode), and those of them used since the last `trim`.
        self._maps: dict[tuple[int, int, int], mmap.mmap] = {}
        self._used: set[tuple[int, int, int]] = set()
        self._told = False
        secret = secrets.token_bytes(_NONCE)
        self._nonce = Segment(_PAGE)
        try:
            self._nonce.write(0, np.frombuffer(secret, np.uint8))
        except OSError:
            self._nonce.discard()
            raise
        #: What hello tells, for the peer to prove the host with.
        self.nonce = f"{os.getpid()}/{self._nonce.fd}/{secret.hex()}"

    def prove(self, nonce: str) -> int:
        """The process id of the peer if its nonce segment can be mapped here and holds what it says, else 0."""
        parts = nonce.split("/")
        if len(parts) != 3 or not parts[0].isdecimal() or not parts[1].isdecimal():
            return 0
        try:
            with _opened(int(parts[0]), int(parts[1])) as fd, mmap.mmap(fd, _PAGE, access=mmap.ACCESS_READ) as view:
                return int(parts[0]) if view[:_NONCE].hex() == parts[2] else 0
        except (OSError, ValueError, OverflowError):
            return 0

    def take(self, nbytes: int) -> Segment:
        """A segment for so many bytes, warm if there is one. Raises OSError if the system gives none."""
        size = -(-nbytes // _PAGE) * _PAGE
        again = size in self._asked
        self._asked[size] = _REMEMBERED
        free = self._free.get(size)
        if free:
            self._free_bytes -= size
            segment = free.pop()
            segment.used, segment.again = True, again
            return segment
        if len(self._all) >= _MOST:
            raise OSError(errno.EMFILE, "there are too many segments")
        try:
            segment = Segment(size)
        except OSError as exc:
            self.tell(size, exc)
            raise
        segment.again = again
        self._all.add(segment)
        return segment

    def tell(self, nbytes: int, why: OSError) -> None:
        """Warn once that the system gives no memory."""
        if not self._told:
            self._told = True
            _log.warning("Tensors that find no shared memory go by sockets; first one of %d bytes: %s.", nbytes, why)

    def give(self, segment: Segment) -> None:
        """A segment that nobody leases any more; kept for the next tensor of its size.

        Above the limit only what has come to be asked for again and again is kept: that a step sends it, and the next.
        """
        if self._free_bytes + segment.size > self._limit and not segment.again:
            self.discard(segment)
        else:
            self._free.setdefault(segment.size, []).append(segment)
            self._free_bytes += segment.size

    def discard(self, segment: Segment) -> None:
        """A segment that must not be written again."""
        self._all.discard(segment)
        segment.discard()

    def trim(self) -> bool:
        """Let go of what was not used since the last call. True if something is kept for another."""
        for size, free in list(self._free.items()):
            for segment in free:
                if not segment.used:
                    self._free_bytes -= size
                    self.discard(segment)
                segment.used = False
            free[:] = [segment for segment in free if segment.fd >= 0]
            if not free:
                del self._free[size]
        self._maps = {key: found for key, found in self._maps.items() if key in self._used}
        self._used.clear()
        self._asked = {size: left - 1 for size, left in self._asked.items() if left}
        return bool(self._all or self._maps or self._asked)

    def map(self, pid: int, fd: int, inode: int, nbytes: int) -> Bytes:
        """A peer's segment, to read. Raises OSError or ValueError if it is not to be had."""
        with _opened(pid, fd) as own:
            status = os.fstat(own)
            if status.st_ino != inode:
                raise ValueError("the segment was given up")
            if status.st_size < nbytes:
                raise ValueError("the segment is too short")
            found = self._maps.get((pid, fd, inode))
            if found is None or len(found) < nbytes:
                for stale in [key for key in self._maps if key[:2] == (pid, fd)]:
                    del self._maps[stale]
                found = mmap.mmap(own, 0, prot=mmap.PROT_READ)
                self._maps[pid, fd, inode] = found
                if len(self._maps) > _MOST:
                    del self._maps[next(iter(self._maps))]
            self._used.add((pid, fd, inode))
        return np.frombuffer(found, np.uint8, nbytes)

    def forget(self, pid: int) -> None:
        """A peer is lost: nothing of it is mapped for later."""
        for key in [key for key in self._maps if key[0] == pid]:
            del self._maps[key]

    def close(self) -> None:
        """Give all back. Leased memory stays with who maps it."""
        for segment in self._all:
            segment.discard()
        self._all.clear()
        self._free.clear()
        self._free_bytes = 0
        self._asked.clear()
        self._maps.clear()
        self._nonce.discard()


@contextlib.contextmanager
def _opened(pid: int, fd: int) -> Iterator[int]:
    """A descriptor of a process's segment while the block runs. Raises OSError, ValueError if it is no segment."""
    own = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not fcntl.fcntl(own, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            raise ValueError("the segment could shrink")
        yield own
    finally:
        os.close(own)


def when_dropped(memory: Bytes, then: Callable[[], None]) -> weakref.ref[Any]:
    """Call `then`, on any thread, once no array refers to `memory`. Keep what this returns until then."""
    return weakref.ref(memory, lambda _: then())
