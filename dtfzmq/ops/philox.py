"""Random bits and the numbers made of them, as TensorFlow makes them: Philox 4x32 with ten rounds, by seed.

A stream is a sequence of groups of four words of 32 bits. A draw reserves more groups than it reads, so that the next
begins where TensorFlow's does.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Protocol

import numpy as np

from dtfzmq.ops import parallel

Array = np.ndarray

_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_CHUNK = 8192  # groups at a time: their six columns stay in the cache
_GROUP_NS = 60.0
_RESERVED = 256  # samples set aside per number, as some laws draw again
_LEAST = 1e-7  # of what is given to log


class Stream(Protocol):
    """Where words come from."""

    def at(self, places: Array) -> Array:
        """The groups at these places, [n, 4]."""

    def reserve(self, groups: int) -> Stream:
        """The stream from here on; this one goes on behind so many groups."""


class Entropy:
    """Words without a seed, from the system's entropy. Threads may share it."""

    def __init__(self) -> None:
        self._bits = np.random.Philox()

    def at(self, places: Array) -> Array:
        """As many groups as there are places."""
        return self._bits.random_raw(2 * len(places)).view(np.uint32).reshape(-1, 4)

    def reserve(self, groups: int) -> Stream:
        """This stream: it never gives a word twice."""
        return self


class Philox:
    """The stream of a key and a counter. Threads may share it."""

    def __init__(self, key: tuple[int, int], low: int, high: int) -> None:
        self._key, self._low, self._high = key, low, high
        self._keys = [tuple(np.uint64((k + i * w) & 0xFFFFFFFF) for k, w in zip(key, _WEYL)) for i in range(_ROUNDS)]
        self._lock = threading.Lock()

    def reserve(self, groups: int) -> Stream:
        """The stream from here on; this one goes on behind so many groups."""
        with self._lock:
            here = Philox(self._key, self._low, self._high)
            self._low += groups
        return here

    def at(self, places: Array) -> Array:
        """The groups at these places, [n, 4]. The counter's upper half stays: 2 ** 64 groups are never used up."""
        out = np.empty((len(places), 4), np.uint32)
        where = places.astype(np.uint64, copy=False) + np.uint64(self._low & (2**64 - 1))

        def fill(part: slice) -> None:
            for first in range(part.start, part.stop, _CHUNK):
                chunk = slice(first, min(first + _CHUNK, part.stop))
                self._rounds(where[chunk], out[chunk])

        parallel.split(len(places), _GROUP_NS * len(places), fill)
        return out

    def _rounds(self, where: Array, out: Array) -> None:
        a, b = where & _WORD, where >> _HALF
        c, d = (np.full_like(where, (self._high >> s) & 0xFFFFFFFF) for s in (0, 32))
        first, second = np.empty_like(where), np.empty_like(where)
        for low, high in self._keys:
            np.multiply(a, _MULTIPLIERS[0], out=first)
            np.multiply(c, _MULTIPLIERS[1], out=second)
            np.right_shift(second, _HALF, out=a)
            a ^= b
            a ^= low
            np.right_shift(first, _HALF, out=c)
            c ^= d
            c ^= high
            np.bitwise_and(second, _WORD, out=b)
            np.bitwise_and(first, _WORD, out=d)
        for i, column in enumerate((a, b, c, d)):
            out[:, i] = column


def seeded(seed: int, seed2: int) -> Stream:
    """The stream of an op's two seeds; without any, both 0, from the system's entropy."""
    if not seed and not seed2:
        return Entropy()
    seed, seed2 = seed & (2**64 - 1), seed2 & (2**64 - 1)
    return Philox((seed & 0xFFFFFFFF, seed >> 32), 0, seed2)


def stateless(seed: int, seed2: int) -> Stream:
    """The stream of a pair of seeds that are tensors: scrambled first, so that either may be as weak as it likes."""
    seed, seed2 = seed & (2**64 - 1), seed2 & (2**64 - 1)
    mixed = Philox((0x3EC8F720, 0x02461E29), seed, seed2).at(np.zeros(1, np.uint64))[0].tolist()
    return Philox((mixed[0], mixed[1]), 0, mixed[2] | mixed[3] << 32)


def _first(stream: Stream, words: int) -> Array:
    """So many words of a stream, in their order."""
    return stream.at(np.arange(-(-words // 4), dtype=np.uint64)).reshape(-1)


def draw(stream: Stream, count: int) -> Stream:
    """A stream for `count` numbers, set aside."""
    return stream.reserve(count * _RESERVED)


def _floats(words: Array) -> Array:
    """Each word in [0, 1), as float32."""
    words &= np.uint32(0x7FFFFF)
    words |= np.uint32(0x3F800000)
    out = words.view(np.float32)
    out -= np.float32(1)
    return out


def _doubles(words: Array) -> Array:
    """Each two words in [0, 1), as float64."""
    pairs = words.reshape(-1, 2).astype(np.uint64)
    bits = (pairs[:, 0] & np.uint64(0xFFFFF)) << _HALF | pairs[:, 1] | np.uint64(0x3FF << 52)
    return bits.view(np.float64) - 1


def uniform(stream: Stream, to: np.dtype[Any], count: int) -> Array:
    """Numbers in [0, 1) of a floating type."""
    if to == np.float64:
        return _doubles(_first(stream, 2 * count))[:count]
    words = _first(stream, count)[:count]
    if to == np.float32:
        return _floats(words)
    one, digits = (0x3C00, 0x3FF) if to == np.float16 else (0x3F80, 0x7F)
    halves = (words & np.uint32(digits) | np.uint32(one)).astype(np.uint16).view(to)
    return halves - to.type(1)


def _normals(words: Array, wide: Any) -> Array:
    """Box and Muller: two normal numbers of each two uniform ones."""
    flat = _doubles(words) if wide == np.float64 else _floats(words)
    first, second = flat[0::2], flat[1::2]
    radius = np.sqrt(-2 * np.log(np.maximum(first, flat.dtype.type(_LEAST))))
    angle = flat.dtype.type(2 * math.pi) * second
    out = np.empty_like(flat)
    np.multiply(np.sin(angle), radius, out=out[0::2])
    np.multiply(np.cos(angle), radius, out=out[1::2])
    return out


def normal(stream: Stream, to: np.dtype[Any], count: int) -> Array:
    """Normally distributed numbers of a floating type."""
    wide = np.float64 if to == np.float64 else np.float32
    words = _first(stream, (4 if wide == np.float64 else 2) * (count + 1) // 2)
    return _normals(words, wide)[:count].astype(to, copy=False)


def truncated(stream: Stream, to: np.dtype[Any], count: int) -> Array:
    """Normal numbers of less than two deviations. Each few have a place of their own in the stream to draw again."""
    wide, few = (np.float64, 2) if to == np.float64 else (np.float32, 4)
    out = np.empty((-(-count // few), few), wide)
    left, groups = np.arange(len(out)), 2
    while left.size:
        starts = left.astype(np.uint64) * np.uint64(few * _RESERVED // 4)
        places = (starts[:, None] + np.arange(groups, dtype=np.uint64)).reshape(-1)
        drawn = _normals(stream.at(places).reshape(-1), wide).reshape(len(left), -1)
        good = np.abs(drawn) < 2
        nth = np.cumsum(good, axis=1, dtype=np.int16)
        enough = nth[:, -1] >= few
        good &= nth <= few
        good &= enough[:, None]
        out[left[enough]] = drawn[good].reshape(-1, few)
        left, groups = left[~enough], 2 * groups
    return out.reshape(-1)[:count].astype(to, copy=False)


def whole(stream: Stream, to: np.dtype[Any], count: int) -> Array:
    """All values of an integer type of 32 or 64 bits, each as likely."""
    if to.itemsize == 4:
        return _first(stream, count)[:count].view(to)
    pairs = _first(stream, 2 * count)[: 2 * count].reshape(-1, 2).astype(np.uint64)
    return (pairs[:, 0] | pairs[:, 1] << _HALF).view(to)


def integers(stream: Stream, to: np.dtype[Any], low: int, high: int, count: int) -> Array:
    """Integers from `low` up to, not with, `high`."""
    unsigned = np.dtype(f"u{to.itemsize}")
    bits = whole(stream, unsigned, count)
    bits %= unsigned.type(high - low)
    bits += unsigned.type(low % (1 << 8 * to.itemsize))
    return bits.view(to)


def order(stream: Stream, size: int) -> Array:
    """The numbers up to `size` in random order; each place is exchanged with one from there on."""
    out = list(range(size))
    places = np.arange(size - 1)
    others = places + _first(stream, size - 1)[: size - 1] % (size - places)
    for i, other in enumerate(others.tolist()):
        out[i], out[other] = out[other], out[i]
    return np.array(out, np.intp)


def doubles(stream: Stream, count: int) -> Array:
    """Numbers in [0, 1) as float64, one after the other."""
    return _doubles(_first(stream, 2 * count)[: 2 * count])
