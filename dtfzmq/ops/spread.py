"""A padded input of windows, taken apart by strides, so that what one place of the windows meets is one slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dtfzmq.ops import scratch
from dtfzmq.ops.windows import Axis

Array = Any
_WIDE = 32  # bytes


def _pixels(x: Array) -> Array:
    """A view with one element for all channels where these are many bytes: numpy copies it faster than short runs."""
    size = x.shape[-1] * x.itemsize
    return x.view(f"V{size}")[..., 0] if size >= _WIDE else x


class Taps(NamedTuple):
    """The places of windows whose elements lie in one array of a Spread.

    view: [batch, places but those of the last axis..., offsets..., places of the last axis and channels]. Read only.
    offsets: which of a window's offsets these are, as slices.
    """

    view: Array
    offsets: tuple[slice, ...]


class Spread:
    """`count` entries [sizes..., channels] with their padding: element p of an axis with stride s is number p // s of
    array p % s. Slices along all axes but the first of space run over whole rows of memory, whatever the strides.

    The padding is zeros, or `fill`.
    """

    def __init__(self, count: int, axes: Sequence[Axis], channels: int, dtype: Any, fill: Any = 0) -> None:
        self.axes = axes
        self.count = count
        self.channels = channels
        sizes = [-(-(a.before + a.size + a.after) // a.stride) for a in axes]
        self.array = scratch.empty((*(a.stride for a in axes), count, *sizes, channels), dtype)
        self.array[...] = fill
        self.flat = self.array.reshape((*self.array.shape[: len(axes)], -1))
        # How far apart in `flat` two elements that follow each other along an axis are.
        self.steps = [step // self.array.itemsize for step in self.array.strides[len(axes) + 1 : -1]]
        self.parts = list(self._parts(_pixels(self.array)))

    def clear(self) -> None:
        """Zeros everywhere."""
        self.array[...] = 0

    def _parts(self, array: Array) -> Iterator[tuple[Array, tuple[slice, ...]]]:
        """Each array without its padding, and what slice of an input it is."""
        for remainders in product(*(range(a.stride) for a in self.axes)):
            own, theirs = [slice(None)], [slice(None)]
            for a, r in zip(self.axes, remainders):
                first = (r - a.before) % a.stride
                number = (first + a.before) // a.stride
                theirs.append(slice(first, None, a.stride))
                own.append(slice(number, number + max(0, -(-(a.size - first) // a.stride))))
            yield array[remainders][tuple(own)], tuple(theirs)

    def put(self, x: Array) -> None:
        """Take in entries of the same type, at most `count`."""
        x = _pixels(x)
        for own, theirs in self.parts:
            np.copyto(own[: len(x)], x[theirs])

    def take(self, out: Array) -> None:
        """Hand out entries of the same type, without padding."""
        out = _pixels(out)
        for own, theirs in self.parts:
            np.copyto(out[theirs], own[: len(out)])

    def at(self, place: Sequence[int], count: int) -> Array:
        """What the windows' one offset meets in the first `count` entries: a view [count, places..., channels]."""
        remainders, own = [], [slice(0, count)]
        for a, p in zip(self.axes, place):
            number, remainder = divmod(p * a.dilation, a.stride)
            remainders.append(remainder)
            own.append(slice(number, number + a.out))
        return self.array[tuple(remainders)][tuple(own)]

    def line(self, place: Sequence[int], length: int) -> Array:
        """`at` of all entries as one run of memory: element p is what the window at element p of an array like those
        of this meets, where there is a window at p, and anything elsewhere."""
        remainders, start = [], 0
        for a, p, step in zip(self.axes, place, self.steps):
            number, remainder = divmod(p * a.dilation, a.stride)
            remainders.append(remainder)
            start += number * step
        return self.flat[tuple(remainders)][start : start + length]

    def reach(self) -> int:
        """How far into an array windows begin: the length for `line`."""
        last = sum((a.extent - 1) // a.stride * step for a, step in zip(self.axes, self.steps))
        return int(self.flat.shape[-1]) - last

    def taps(self, count: int) -> Iterator[Taps]:
        """The windows of the first `count` entries, array by array."""
        for remainders in product(*(range(a.stride) for a in self.axes)):
            array = self.array[remainders]
            steps = array.strides
            start, inside, offsets, shape = [], [], [], []
            for a, r, step in zip(self.axes, remainders, steps[1:]):
                every = a.stride // gcd(a.stride, a.dilation)
                first = next((k for k in range(min(a.window, every)) if k * a.dilation % a.stride == r), None)
                if first is None:
                    break
                offsets.append(slice(first, None, every))
                shape.append(-(-(a.window - first) // every))
                start.append(first * a.dilation // a.stride)
                inside.append(every * a.dilation // a.stride * step)
            else:
                places = [a.out for a in self.axes[:-1]]
                corner = (slice(None), *(slice(s, None) for s in start))
                yield Taps(
                    as_strided(
                        array[corner],
                        (count, *places, *shape, self.axes[-1].out * self.channels),
                        (*steps[: len(places) + 1], *inside, steps[-1]), writeable=False,
                    ),
                    tuple(offsets),
                )  # fmt: skip
