"""The ways back through pooling by small windows that overlap: over whole blocks of memory, offset by offset.

The input is taken apart by strides (a Spread), with padding, so that what one offset of all windows meets is a single
run of memory, and numpy's functions go over it at once; between the rows there is padding, where anything may come out.
Runs of a few elements cost numpy ten times as much: on [32, 28, 28, 16] with 3x3 windows by 2 the way back through
maxima takes 2.2 ms on slices, and 1.1 ms so. All on one thread: the calls are short, and threads would mostly wait for
one another between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dtfzmq.ops import scratch
from dtfzmq.ops.spread import Spread
from dtfzmq.ops.windows import Axis

Array = Any
_BLOCK = 1 << 19  # bytes of an input at a time


class Grid:
    """The axes of a pooling, its moving ones from `first` to `last`, as [entries, space..., channels]."""

    def __init__(self, axes: Sequence[Axis], first: int, last: int) -> None:
        self.space = list(axes[first : last + 1])
        self.lead = prod(a.size for a in axes[:first])
        self.trail = prod(a.size for a in axes[last + 1 :])
        self.sizes = [a.size for a in self.space]
        self.outs = [a.out for a in self.space]
        self.places = list(product(*(range(a.window) for a in self.space)))
        self.valid = (slice(None), *(slice(0, n) for n in self.outs))

    def small(self, x: Array) -> Array:
        """An array with a number per window in this shape."""
        return x.reshape(self.lead, *self.outs, self.trail)

    def large(self, x: Array) -> Array:
        """An array like the input in this shape."""
        return x.reshape(self.lead, *self.sizes, self.trail)

    def blocks(self, itemsize: int) -> list[slice]:
        """Parts of the entries that suit the cache."""
        return list(scratch.runs(self.lead, prod(self.sizes) * self.trail * itemsize, _BLOCK))

    def spread(self, count: int, dtype: Any, fill: Any = 0) -> Spread:
        """A Spread for so many entries."""
        return Spread(count, self.space, self.trail, dtype, fill)

    def lines(self, spread: Spread, length: int) -> Iterator[tuple[Array, bool]]:
        """`Spread.line` for each of `places`, and whether it is the first in its array, which it then begins."""
        for place in self.places:
            yield spread.line(place, length), all(p < a.stride for p, a in zip(place, self.space))


def _longest(blocks: Sequence[slice]) -> int:
    return max(b.stop - b.start for b in blocks)


class _Board:
    """Numbers per window that lie like an array of a Spread, with anything between them."""

    def __init__(self, grid: Grid, like: Spread, dtype: Any) -> None:
        self.length = like.reach()
        shape = like.array.shape[len(grid.space) :]
        whole = scratch.zeros(shape, dtype)
        self.line = whole.reshape(-1)[: self.length]
        self.inside = whole[grid.valid]

    def put(self, x: Array) -> None:
        """Take in the numbers of some entries."""
        np.copyto(self.inside[: len(x)], x)


def spread_out(g: Array, grid: Grid, out: Array) -> None:
    """Fill `out` with the sums of g over the windows that each element is in."""
    g, out = grid.small(g), grid.large(out)
    blocks = grid.blocks(g.itemsize)
    spread = grid.spread(_longest(blocks), g.dtype)
    board = _Board(grid, spread, g.dtype)
    lines = list(grid.lines(spread, board.length))
    rest = spread.flat[..., board.length :]
    for here in blocks:
        rest[...] = 0
        board.put(g[here])
        for to, first in lines:
            if first:
                np.copyto(to, board.line)
            else:
                np.add(to, board.line, out=to)
        spread.take(out[here])


def routed(x: Array, y: Array, g: Array, grid: Grid, out: Array) -> None:
    """Fill `out` with what of g comes to each element: that of a window goes to the first element that equals its y.

    Of floating-point numbers only: the padding must not equal anything.
    """
    x, out, y, g = grid.large(x), grid.large(out), grid.small(y), grid.small(g)
    blocks = grid.blocks(2 * x.itemsize)
    count = _longest(blocks)
    sources, given = grid.spread(count, x.dtype, np.nan), grid.spread(count, g.dtype)
    tops, towards = _Board(grid, sources, x.dtype), _Board(grid, sources, g.dtype)
    length = tops.length
    lines = list(zip(grid.lines(sources, length), grid.lines(given, length)))
    rest = given.flat[..., length:]
    left, mine = scratch.empty((length,), bool), scratch.empty((length,), bool)
    share = scratch.empty((length,), g.dtype)
    for here in blocks:
        sources.put(x[here])
        rest[...] = 0
        tops.put(y[here])
        towards.put(g[here])
        left[...] = True
        for (source, _), (to, first) in lines:
            np.equal(source, tops.line, out=mine)
            np.logical_and(mine, left, out=mine)
            np.not_equal(left, mine, out=left)
            np.copyto(share, mine)  # numpy multiplies by numbers of one type faster than by truth values
            if first:
                np.multiply(share, towards.line, out=to)
            else:
                np.multiply(share, towards.line, out=share)
                np.add(to, share, out=to)
        given.take(out[here])
