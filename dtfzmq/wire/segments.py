"""Shared memory between tasks of one host: memfd segments, reached through /proc/PID/fd, warm and pooled.

A segment has no name, so that nothing is left behind by a process that is killed. "Same host" is proven by mapping the
nonce segment that the peer's hello names. Memory is allocated before it is written (a full tmpfs would be a SIGBUS).
"""

from __future__ import annotations

import mmap
import os
import secrets
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.wire.buffers import Bytes

_PAGE = 4096
_NONCE = 16


def supported() -> bool:
    """True where segments can be made: Linux."""
    return hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


class Segment:
    """Memory of this process that peers may map to read."""

    __slots__ = ("data", "fd", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = os.memfd_create("dtfzmq", os.MFD_CLOEXEC)
        try:
            os.posix_fallocate(self.fd, 0, size)
            self.data: Bytes = np.frombuffer(mmap.mmap(self.fd, size), np.uint8)
        except BaseException:
            os.close(self.fd)
            raise

    def discard(self) -> None:
        """Give it up; who maps it keeps the memory until it lets go."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Segments:
    """The segments of one endpoint. Baton only."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free: dict[int, list[Segment]] = {}
        self._free_bytes = 0
        self._maps: dict[tuple[int, int, int], mmap.mmap] = {}
        secret = secrets.token_bytes(_NONCE)
        self._nonce = Segment(_PAGE)
        self._nonce.data[:_NONCE] = np.frombuffer(secret, np.uint8)
        #: What hello tells, for the peer to prove the host with.
        self.nonce = f"{os.getpid()}/{self._nonce.fd}/{secret.hex()}"

    def prove(self, nonce: str) -> int:
        """The process id of the peer if its nonce segment can be mapped here and holds what it says, else 0."""
        parts = nonce.split("/")
        if len(parts) != 3 or not parts[0].isdecimal() or not parts[1].isdecimal():
            return 0
        try:
            fd = os.open(f"/proc/{parts[0]}/fd/{parts[1]}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                with mmap.mmap(fd, _PAGE, access=mmap.ACCESS_READ) as view:
                    return int(parts[0]) if view[:_NONCE].hex() == parts[2] else 0
            finally:
                os.close(fd)
        except (OSError, ValueError, OverflowError):
            return 0

    def take(self, nbytes: int) -> Segment:
        """A segment for so many bytes, warm if there is one. Raises OSError if there is no memory."""
        size = -(-nbytes // _PAGE) * _PAGE
        free = self._free.get(size)
        if free:
            self._free_bytes -= size
            return free.pop()
        return Segment(size)

    def give(self, segment: Segment) -> None:
        """A segment that nobody leases any more; kept for the next tensor of its size."""
        if self._free_bytes + segment.size > self._limit:
            segment.discard()
        else:
            self._free.setdefault(segment.size, []).append(segment)
            self._free_bytes += segment.size

    def map(self, pid: int, fd: int, nbytes: int) -> Bytes:
        """A peer's segment, to read. Raises OSError or ValueError if it cannot be mapped."""
        own = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            inode = os.fstat(own).st_ino
            if os.fstat(own).st_size < nbytes:
                raise ValueError("the segment is too short")
            found = self._maps.get((pid, fd, inode))
            if found is None or len(found) < nbytes:
                for stale in [key for key in self._maps if key[:2] == (pid, fd)]:
                    del self._maps[stale]
                flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
                found = mmap.mmap(own, 0, flags=flags, prot=mmap.PROT_READ)
                self._maps[pid, fd, inode] = found
        finally:
            os.close(own)
        return np.frombuffer(found, np.uint8, nbytes)

    def forget(self, pid: int) -> None:
        """A peer is lost: nothing of it is mapped for later."""
        for key in [key for key in self._maps if key[0] == pid]:
            del self._maps[key]

    def close(self) -> None:
        """Give all back. Leased memory stays with who maps it."""
        for free in self._free.values():
            for segment in free:
                segment.discard()
        self._free.clear()
        self._free_bytes = 0
        self._maps.clear()
        self._nonce.discard()


def when_dropped(memory: Bytes, then: Callable[[], None]) -> weakref.ref[Any]:
    """Call `then`, on any thread, once no array refers to `memory`. Keep what this returns until then."""
    return weakref.ref(memory, lambda _: then())
