"""Memory that tensors are received into: aligned, writeable, owned by nobody else, and warm where it can be.

Fresh memory costs more than the copy into it (page faults: 0.6 against 3 GB/s), so large buffers are used again as soon
as no array refers to them. A size is kept only once it was asked for twice within a short while: a single large fetch
leaves nothing behind.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

ALIGNMENT = 64


def aligned(nbytes: int) -> Bytes:
    """`nbytes` bytes of fresh writeable memory that begin at a multiple of 64."""
    whole = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + nbytes]


@dataclasses.dataclass(frozen=True)
class PoolStatistics:
    """Bytes kept, buffers kept, how often one was used again and how often memory was fresh."""

    bytes: int
    buffers: int
    reused: int
    fresh: int


@dataclasses.dataclass
class _Kept:
    whole: Bytes
    seen: float


def _references(kept: _Kept) -> int:
    # The array, the attribute and the argument of getrefcount; every view adds one, since numpy lets views of views
    # refer to the owner itself.
    return sys.getrefcount(kept.whole)


_FREE = _references(_Kept(np.empty(1, np.uint8), 0.0))


class BufferPool:
    """Large buffers by size. Baton only.

    `limit` bounds the bytes that the pool keeps alive and free; `age` seconds unused is the longest that it keeps one.
    """

    def __init__(self, limit: int, age: float) -> None:
        self._limit = limit
        self._age = age
        self._kept: dict[int, list[_Kept]] = {}
        self._asked: dict[int, float] = {}
        self._bytes = 0
        self._reused = 0
        self._fresh = 0

    def take(self, nbytes: int, now: float) -> Bytes:
        """`nbytes` bytes, aligned, that no one else refers to. Raises MemoryError if there is no memory."""
        for kept in self._kept.get(nbytes, ()):
            if _references(kept) == _FREE:
                kept.seen = now
                self._reused += 1
                return _window(kept.whole, nbytes)
        self._fresh += 1
        whole = np.empty(nbytes + ALIGNMENT, np.uint8)
        last = self._asked.get(nbytes)
        self._asked[nbytes] = now
        if last is not None and now - last <= 5 * self._age and self._bytes + nbytes <= self._limit:
            self._kept.setdefault(nbytes, []).append(_Kept(whole, now))
            self._bytes += nbytes
        return _window(whole, nbytes)

    def trim(self, now: float) -> None:
        """Let go of what was not used for a while. What is still referred to by arrays lives on as their own."""
        for nbytes, kept in list(self._kept.items()):
            keep = [k for k in kept if now - k.seen <= self._age or _references(k) != _FREE]
            self._bytes -= nbytes * (len(kept) - len(keep))
            if keep:
                self._kept[nbytes] = keep
            else:
                del self._kept[nbytes]
        self._asked = {n: t for n, t in self._asked.items() if now - t <= 5 * self._age}

    @property
    def empty(self) -> bool:
        """True if nothing is kept or remembered, so that there is nothing to trim."""
        return not self._kept and not self._asked

    def statistics(self) -> PoolStatistics:
        """A snapshot."""
        return PoolStatistics(self._bytes, sum(map(len, self._kept.values())), self._reused, self._fresh)


def _window(whole: Bytes, nbytes: int) -> Bytes:
    start: Any = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + nbytes]
