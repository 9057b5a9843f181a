"""Pooling over numpy arrays: windows over any axes, so that the layout of channels does not matter.

A window's maximum or sum is taken one axis after the other, over slices that run along long rows of memory; no array
is padded, since each slice covers just the places of the window where that offset is inside. The ways back through
small windows that overlap are in pool_grid.

numpy has no loop that finds a window's first maximum, and its loops over the 16 channels of a pixel cost as much as
those over ten times as many elements: `benchmarks/kernels.py` shows what is left to TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dtfzmq.ops.parallel import split
from dtfzmq.ops.pool_grid import Grid, routed, spread_out
from dtfzmq.ops.windows import Axis

Array = Any


def _reach(a: Axis, offset: int) -> tuple[slice, slice]:
    """(places, elements) of one offset of the window, where it is inside the input."""
    shift = offset * a.dilation - a.before
    first = max(0, -(shift // a.stride))
    last = min(a.out - 1, (a.size - 1 - shift) // a.stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    start = first * a.stride + shift
    return slice(first, last + 1), slice(start, start + (last - first) * a.stride + 1, a.stride)


def _along(i: int, part: slice) -> tuple[slice, ...]:
    return (slice(None),) * i + (part,)


def _reduced(x: Array, i: int, a: Axis, combine: Any, empty: Any) -> Array:
    """Combine the elements of each window along axis i."""
    reaches = [_reach(a, offset) for offset in range(a.window)]
    whole = next((k for k, (to, _) in enumerate(reaches) if to == slice(0, a.out)), None)
    shape = (*x.shape[:i], a.out, *x.shape[i + 1 :])
    if whole is None:
        out = np.full(shape, empty, x.dtype)
    else:
        first = x[_along(i, reaches[whole][1])]
        rest = [r for k, r in enumerate(reaches) if k != whole]
        if not rest:
            return first
        if rest[0][0] == slice(0, a.out):
            out = combine(first, x[_along(i, rest[0][1])])
            rest = rest[1:]
        else:
            out = first.copy()
        reaches = rest
    for to, source in reaches:
        part = out[_along(i, to)]
        combine(part, x[_along(i, source)], out=part)
    return out


def lowest(dtype: Any) -> Any:
    """What is below every value of a type."""
    return np.iinfo(dtype).min if np.dtype(dtype).kind in "iu" else -np.inf


def _moving(axes: Sequence[Axis]) -> list[tuple[int, Axis]]:
    return [(i, a) for i, a in enumerate(axes) if a.window > 1 or a.stride > 1 or a.out != a.size or a.before]


def _grid(axes: Sequence[Axis], size: int) -> Grid | None:
    """How pool_grid sees a pooling over an array of so many elements; None if it is not for it."""
    moving = _moving(axes)
    few = moving and size and prod(a.window for _, a in moving) <= 25 and prod(a.stride for _, a in moving) <= 9
    return Grid(axes, moving[0][0], moving[-1][0]) if few else None


def maximum(x: Array, axes: Sequence[Axis]) -> Array:
    """The largest element of each window."""
    out = x
    for i, a in _moving(axes):
        out = _reduced(out, i, a, np.maximum, lowest(x.dtype))
    return out


def counts(axes: Sequence[Axis], dtype: Any) -> Array:
    """1 / how many elements each window has inside the input: a number if it is the same for all, else an array."""
    out: Any = np.ones((), dtype)
    for i, a in _moving(axes):
        inside = np.zeros(a.out, dtype)
        for offset in range(a.window):
            inside[_reach(a, offset)[0]] += 1
        shape = [1] * len(axes)
        if inside.size and (inside == inside[0]).all():
            out = out * inside[0]
        else:
            shape[i] = a.out
            out = out * inside.reshape(shape)
    with np.errstate(divide="ignore"):
        return np.asarray(1 / out, dtype)


def average(x: Array, axes: Sequence[Axis]) -> Array:
    """The mean of each window, padding left out."""
    total = x
    for i, a in _moving(axes):
        total = _reduced(total, i, a, np.add, 0)
    share = counts(axes, x.dtype)
    return total * share if total is x else np.multiply(total, share, out=total)


def average_gradient(g: Array, axes: Sequence[Axis]) -> Array:
    """What each element gives to the means."""
    out = g * counts(axes, g.dtype)
    moving = _moving(axes)
    if all(_tiles(a) for _, a in moving):
        for i, a in reversed(moving):
            out = np.repeat(out, a.window, i)
        return out
    grid = _grid(axes, g.size)
    if grid is not None:
        wider = np.empty([a.size for a in axes], g.dtype)
        spread_out(out, grid, wider)
        return wider
    for i, a in moving:
        wider = np.zeros((*out.shape[:i], a.size, *out.shape[i + 1 :]), g.dtype)
        for offset in range(a.window):
            to, source = _reach(a, offset)
            wider[_along(i, source)] += out[_along(i, to)]
        out = wider
    return out


def _firsts(x: Array, y: Array, axes: Sequence[Axis]) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...], Array]]:
    """(places, elements, where the element is its window's first maximum) for each offset, in order."""
    left = np.ones(y.shape, bool)
    for offsets in product(*(range(a.window) for a in axes)):
        reach = [_reach(a, offset) for a, offset in zip(axes, offsets)]
        to, source = tuple(r[0] for r in reach), tuple(r[1] for r in reach)
        mine = x[source] == y[to]
        mine &= left[to]
        left[to] &= ~mine
        yield to, source, mine


def maximum_gradient(x: Array, y: Array, g: Array, axes: Sequence[Axis]) -> Array:
    """What each element gives to the maxima y: all of it to the first largest of a window, row by row.

    The way back through maxima taken along the last axis first: each step looks at the offsets along one axis alone.
    """
    moving = _moving(axes)
    if moving and x.size and y.size and all(_tiles(a) for _, a in moving):
        return _tiled_gradient(x, y, g, axes, [i for i, _ in moving])
    grid = _grid(axes, x.size) if x.dtype.kind == "f" and y.size else None
    if grid is not None:
        out = np.empty(x.shape, g.dtype)
        x, y, g = (np.ascontiguousarray(one) for one in (x, y, g))
        routed(x, y, g, grid, out)
        return out
    steps = [x]  # the maxima along ever more axes
    for i, a in reversed(moving[1:]):
        steps.append(_reduced(steps[-1], i, a, np.maximum, lowest(x.dtype)))
    for i, a in moving:
        source = steps.pop()
        g = _routed(source, y, g, i, a)
        y = source
    return g


def _tiles(a: Axis) -> bool:
    """Whether the windows lie side by side and cover the input."""
    return a.window == a.stride and a.before == 0 and a.dilation == 1 and a.out * a.stride == a.size


def _routed(x: Array, y: Array, g: Array, i: int, a: Axis) -> Array:
    """g handed to the first element of each window along axis i that equals the window's maximum y."""
    out = np.zeros((*g.shape[:i], a.size, *g.shape[i + 1 :]), g.dtype)
    left = np.ones(y.shape, bool)
    for offset in range(a.window):
        to, source = (_along(i, part) for part in _reach(a, offset))
        mine = x[source] == y[to]
        still = left[to]
        mine &= still
        still ^= mine
        out[source] += g[to] * mine
    return out


def _tiled_gradient(x: Array, y: Array, g: Array, axes: Sequence[Axis], moving: Sequence[int]) -> Array:
    """The same when windows lie side by side: over one copy in the order of offsets, without sums."""
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    out = np.empty(x.shape, g.dtype)

    def part(entries: slice) -> None:
        top = y[entries]
        ours = list(axes)
        if moving[0]:
            ours[0] = axes[0]._replace(size=len(top), out=len(top))
        parts = np.ascontiguousarray(_split(x[entries], ours, moving))
        offsets = parts.shape[: len(moving)]
        mine = parts.reshape(-1, top.size) == top.reshape(-1)
        left = ~mine[0]
        for k in range(1, len(mine)):
            mine[k] &= left
            if k < len(mine) - 1:
                left &= ~mine[k]
        np.multiply(mine.reshape(*offsets, *top.shape), g[entries], out=_split(out[entries], ours, moving))

    if moving[0] == 0:
        part(slice(None))
    else:
        split(len(x), 1.6 * x.size, part)
    return out


def _split(x: Array, axes: Sequence[Axis], moving: Sequence[int]) -> Array:
    """A view [offset along each moving axis..., places...] of an input that windows tile."""
    shape: list[int] = []
    for i, a in enumerate(axes):
        shape += [a.out, a.window] if i in moving else [a.size]
    where = [sum(2 if j in moving else 1 for j in range(i)) for i in range(len(axes))]
    inner = [where[i] + 1 for i in moving]
    return x.reshape(shape).transpose(*inner, *where)


def maximum_gradient_gradient(x: Array, y: Array, gg: Array, axes: Sequence[Axis]) -> Array:
    """The elements of gg that stand where the maxima y of x come from."""
    out = np.zeros(y.shape, gg.dtype)
    for to, source, mine in _firsts(x, y, axes):
        out[to] += gg[source] * mine
    return out


def places_of_maximum(x: Array, y: Array, axes: Sequence[Axis], batch: bool, dtype: Any) -> Array:
    """The flat index of each maximum y of x, within its batch entry or (`batch`) in the whole array."""
    shape = x.shape if batch else (1, *x.shape[1:])
    flat = np.broadcast_to(np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape), x.shape)
    out = np.zeros(y.shape, dtype)
    for to, source, mine in _firsts(x, y, axes):
        np.copyto(out[to], flat[source], where=mine)
    return out
