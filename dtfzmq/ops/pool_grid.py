"""The ways back through pooling by small windows that overlap: over whole blocks of memory, offset by offset.

The input is taken apart by strides (a Spread), with padding, so that what one offset of all windows meets is a single
run of memory, and numpy's functions go over it at once; between the rows there is padding, where anything may come out.
Runs of a few elements cost numpy ten times as much: on [32, 28, 28, 16] with 3x3 windows by 2 the way back through
maxima takes 2.2 ms on slices, and 1.2 ms so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dtfzmq.ops import scratch
from dtfzmq.ops.parallel import split
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

    def blocks(self, entries: slice, itemsize: int) -> list[slice]:
        """Parts of some entries that suit the cache."""
        size = prod(self.sizes) * self.trail * itemsize
        parts = scratch.runs(entries.stop - entries.start, size, _BLOCK)
        return [slice(entries.start + p.start, entries.start + p.stop) for p in parts]

    def spread(self, count: int, dtype: Any, fill: Any = 0) -> Spread:
        """A Spread for so many entries."""
        return Spread(count, self.space, self.trail, dtype, fill)

    def work(self, cost: float) -> float:
        """Nanoseconds, at so many an element of the input."""
        return cost * self.lead * prod(self.sizes) * self.trail


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
        self.inside[: len(x)] = x


def spread_out(g: Array, grid: Grid, out: Array) -> None:
    """Fill `out` with the sums of g over the windows that each element is in."""
    g, out = grid.small(g), grid.large(out)

    def part(entries: slice) -> None:
        blocks = grid.blocks(entries, g.itemsize)
        spread = grid.spread(_longest(blocks), g.dtype)
        board = _Board(grid, spread, g.dtype)
        lines = [spread.line(place, board.length) for place in grid.places]
        for here in blocks:
            spread.clear()
            board.put(g[here])
            for line in lines:
                line += board.line
            spread.take(out[here])

    split(grid.lead, grid.work(0.8), part)


def routed(x: Array, y: Array, g: Array, grid: Grid, out: Array) -> None:
    """Fill `out` with what of g comes to each element: that of a window goes to the first element that equals its y.

    Of floating-point numbers only: the padding must not equal anything.
    """
    x, out, y, g = grid.large(x), grid.large(out), grid.small(y), grid.small(g)

    def part(entries: slice) -> None:
        blocks = grid.blocks(entries, 2 * x.itemsize)
        count = _longest(blocks)
        sources, given = grid.spread(count, x.dtype, np.nan), grid.spread(count, g.dtype)
        tops, towards = _Board(grid, sources, x.dtype), _Board(grid, sources, g.dtype)
        length = tops.length
        lines = [(sources.line(place, length), given.line(place, length)) for place in grid.places]
        left, mine = scratch.empty((length,), bool), scratch.empty((length,), bool)
        share = scratch.empty((length,), g.dtype)
        for here in blocks:
            sources.put(x[here])
            given.clear()
            tops.put(y[here])
            towards.put(g[here])
            left[...] = True
            for source, to in lines:
                np.equal(source, tops.line, out=mine)
                mine &= left
                left ^= mine
                share[...] = mine  # numpy multiplies by numbers of one type faster than by truth values
                np.multiply(share, towards.line, out=share)
                to += share
            given.take(out[here])

    split(grid.lead, grid.work(1.6), part)
