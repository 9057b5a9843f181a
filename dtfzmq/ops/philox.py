"""Random bits and the numbers made of them, as TensorFlow makes them: Philox 4x32 with ten rounds, by seed.

A stream is a sequence of groups of four words of 32 bits. A draw reserves more groups than it reads, so that the next
begins where TensorFlow's does.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dtfzmq.ops import parallel

Array = np.ndarray

_HALF = np.uint64(32)
_MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_CHUNK = 16384  # groups at a time: their columns and the numbers made of them stay in the cache
_MANY = 1024
_GROUP_NS = 60.0
_RESERVED = 256  # samples set aside per number, as some laws draw again
_LEAST = 1e-7  # of what is given to log


class Stream(Protocol):
    """Where words come from. Threads may share one."""

    def at(self, places: Array) -> Array:
        """The groups at these places, [n, 4]."""

    def reserve(self, groups: int) -> Stream:
        """The stream from here on; this one goes on behind so many groups."""

    def order(self, size: int) -> Array:
        """The numbers up to `size` in random order."""


class Entropy:
    """Words without a seed, from the system's entropy."""

    def __init__(self) -> None:
        self._bits = np.random.SFC64()

    def at(self, places: Array) -> Array:
        """As many groups as there are places."""
        return self._bits.random_raw(2 * len(places)).view(np.uint32).reshape(-1, 4)

    def reserve(self, groups: int) -> Stream:
        """This stream: it never gives a word twice."""
        return self

    def order(self, size: int) -> Array:
        """The numbers up to `size` in random order."""
        return np.random.Generator(self._bits).permutation(size)


class Philox:
    """The stream of a key and a counter."""

    def __init__(self, key: tuple[int, int], low: int, high: int) -> None:
        keys = [[(k + i * w & 0xFFFFFFFF) << 32 for k, w in zip(key, _WEYL)] for i in range(_ROUNDS)]
        self._keys = np.array(keys, np.uint64)[:, :, None]
        self._low, self._high = low, high
        self._lock = threading.Lock()

    def reserve(self, groups: int) -> Stream:
        """The stream from here on; this one goes on behind so many groups."""
        with self._lock:
            here = copy.copy(self)
            self._low += groups
        return here

    def at(self, places: Array) -> Array:
        """The groups at these places, [n, 4]. The counter's upper half stays: 2 ** 64 groups are never used up.

        The four words of a group stand in two numbers of 64 bits, the first above the second and the third above the
        fourth: a round multiplies the upper ones, and the lower ones go up.
        """
        pairs = np.empty((2, len(places)), np.uint64)
        spare = np.empty_like(pairs)
        where = np.add(places, np.uint64(self._low & (2**64 - 1)), out=spare[0])
        np.left_shift(where, _HALF, out=pairs[0])
        where >>= _HALF
        pairs[0] |= where
        pairs[1] = (self._high & 0xFFFFFFFF) << 32 | self._high >> 32
        for key in self._keys:
            np.right_shift(pairs, _HALF, out=spare)
            spare *= _MULTIPLIERS
            pairs <<= _HALF
            pairs ^= key
            pairs ^= spare[::-1]
        np.right_shift(pairs, _HALF, out=spare)
        pairs <<= _HALF
        spare |= pairs
        return np.ascontiguousarray(spare.T).view(np.uint32)

    def order(self, size: int) -> Array:
        """The numbers up to `size` in random order; each place is exchanged with one from there on."""
        places = np.arange(size)
        partners = places.copy()
        partners[:-1] += whole(self, np.dtype(np.uint32), max(size - 1, 0)) % (size - places[:-1])
        return _exchanged(places, partners)


def _exchanged(places: Array, partners: Array) -> Array:
    """`places`, 0, 1, 2, ..., each exchanged in its turn with its partner, which does not stand before it.

    What a place holds at its turn came there in the last turn before with it for partner, out of that turn's own place:
    so it is found along a chain of turns, of all places at once.
    """
    held = places.copy()
    others = np.flatnonzero(partners != places)
    held[partners[others]] = others  # of several the last counts
    while not np.array_equal(further := held[held], held):
        held = further
    out = np.where(partners == places, held, partners)
    turns = np.argsort(partners, kind="stable")
    again = np.flatnonzero(partners[turns[1:]] == partners[turns[:-1]])
    out[turns[again + 1]] = held[turns[again]]
    return out


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


def draw(stream: Stream, count: int) -> Stream:
    """A stream for `count` numbers, set aside."""
    return stream.reserve(count * _RESERVED)


def _chunks(size: int, fill: Callable[[int, int], None]) -> None:
    """fill(first, last) for chunks that make up range(size), on several threads if there are many."""

    def run(part: slice) -> None:
        for first in range(part.start, part.stop, _CHUNK):
            fill(first, min(first + _CHUNK, part.stop))

    parallel.split(size, _GROUP_NS * size, run)


def _numbers(stream: Stream, to: np.dtype[Any], each: int, count: int, law: Callable[[Array], Array]) -> Array:
    """`count` numbers of a stream in its order; a law makes `each` of every group."""
    out = np.empty(count, to)

    def fill(first: int, last: int) -> None:
        place = out[first * each : last * each]
        place[:] = law(stream.at(np.arange(first, last, dtype=np.uint64)))[: len(place)]

    _chunks(-(-count // each), fill)
    return out


def _floats(words: Array) -> Array:
    """Each word in [0, 1), as float32, in its place."""
    words = words.reshape(-1)
    words &= np.uint32(0x7FFFFF)
    words |= np.uint32(0x3F800000)
    out = words.view(np.float32)
    out -= np.float32(1)
    return out


def _doubles(words: Array) -> Array:
    """Each two words in [0, 1), as float64, in their place."""
    bits = words.view(np.uint64).reshape(-1)
    upper = bits & np.uint64(0xFFFFF)
    upper <<= _HALF
    bits >>= _HALF
    bits |= upper
    bits |= np.uint64(0x3FF << 52)
    out = bits.view(np.float64)
    out -= 1
    return out


def _halves(words: Array, to: np.dtype[Any]) -> Array:
    """Each word in [0, 1), as a floating type of 16 bits."""
    one, digits = (0x3C00, 0x3FF) if to == np.float16 else (0x3F80, 0x7F)
    bits = words.reshape(-1).astype(np.uint16)
    bits &= np.uint16(digits)
    bits |= np.uint16(one)
    return bits.view(to) - to.type(1)


def uniform(stream: Stream, to: np.dtype[Any], count: int) -> Array:
    """Numbers in [0, 1) of a floating type."""
    if to == np.float64:
        return _numbers(stream, to, 2, count, _doubles)
    return _numbers(stream, to, 4, count, _floats if to == np.float32 else lambda words: _halves(words, to))


def _normals(words: Array, wide: Any) -> Array:
    """Box and Muller: two normal numbers of each two uniform ones, in their place."""
    out = _doubles(words) if wide == np.float64 else _floats(words)
    radius = np.maximum(out[0::2], out.dtype.type(_LEAST))
    np.log(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    angle = out[1::2] * out.dtype.type(2 * math.pi)
    np.multiply(np.sin(angle), radius, out=out[0::2])
    np.multiply(np.cos(angle, out=angle), radius, out=out[1::2])
    return out


def normal(stream: Stream, to: np.dtype[Any], count: int) -> Array:
    """Normally distributed numbers of a floating type."""
    wide, each = (np.float64, 2) if to == np.float64 else (np.float32, 4)
    return _numbers(stream, to, each, count, lambda words: _normals(words, wide))


def truncated(stream: Stream, to: np.dtype[Any], count: int) -> Array:
    """Normal numbers of less than two deviations. Each few have a place of their own in the stream to draw again."""
    wide, few = (np.float64, 2) if to == np.float64 else (np.float32, 4)
    out = np.empty(count, to)

    def fill(first: int, last: int) -> None:
        starts = np.arange(first, last, dtype=np.uint64) * np.uint64(few * _RESERVED // 4)
        place = out[first * few : last * few]
        place[:] = _near(stream, starts, wide, few).reshape(-1)[: len(place)]

    _chunks(-(-count // few), fill)
    return out


def _near(stream: Stream, starts: Array, wide: Any, few: int) -> Array:
    """From each of these places on, the first `few` normal numbers of less than two deviations."""
    if len(starts) > _MANY:  # one group is mostly enough, and finding where it is not pays
        out = _normals(stream.at(starts), wide).reshape(-1, few)
        left = np.unique(np.flatnonzero(np.abs(out) >= 2) // few)
    else:
        out, left = np.empty((len(starts), few), wide), np.arange(len(starts))
    groups = 2
    while left.size:
        places = starts[left, None] + np.arange(groups, dtype=np.uint64)
        drawn = _normals(stream.at(places.reshape(-1)), wide).reshape(len(left), -1)
        good = np.abs(drawn) < 2
        nth = np.cumsum(good, axis=1, dtype=np.int16)
        enough = nth[:, -1] >= few
        good &= nth <= few
        good &= enough[:, None]
        out[left[enough]] = drawn[good].reshape(-1, few)
        left, groups = left[~enough], 2 * groups
    return out


def whole(stream: Stream, to: np.dtype[Any], count: int) -> Array:
    """All values of an integer type of 32 or 64 bits, each as likely."""
    return _numbers(stream, to, 16 // to.itemsize, count, lambda words: words.view(to).reshape(-1))


def integers(stream: Stream, to: np.dtype[Any], low: int, high: int, count: int) -> Array:
    """Integers from `low` up to, not with, `high`."""
    unsigned = np.dtype(f"u{to.itemsize}")
    span, shift = unsigned.type(high - low), unsigned.type(low % (1 << 8 * to.itemsize))

    def law(words: Array) -> Array:
        bits = words.view(unsigned).reshape(-1)
        bits %= span
        bits += shift
        return bits.view(to)

    return _numbers(stream, to, 16 // to.itemsize, count, law)
