"""Depthwise convolution over numpy arrays of two axes of space or more, channels last.

There is no matrix to multiply: each channel has its own filters. The sums over a window's offsets are einsum's, whose
inner loop multiplies and adds over one row of the image at a time, kept in the processor's nearest cache; numpy's
other functions would write each product to memory and read it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from dtfzmq.ops import scratch
from dtfzmq.ops.parallel import split
from dtfzmq.ops.spread import Spread
from dtfzmq.ops.windows import Axis, mirrored

Array = Any
_BLOCK = 1 << 19  # bytes of an input at a time


def _tiled(w: Array, last: Axis) -> Array:
    """A filter [windows..., channels] with its rows repeated along the last axis of space, as one axis with it."""
    wide = np.broadcast_to(w[..., None, :], (*w.shape[:-1], last.out, w.shape[-1]))
    return np.ascontiguousarray(wide).reshape((*w.shape[:-1], -1))


def _work(count: int, axes: Sequence[Axis]) -> float:
    """About how many nanoseconds so many products per offset take."""
    return count * float(np.prod([a.window for a in axes])) * 0.28


def _rows(x: Array) -> Array:
    """The last two axes as one."""
    return x.reshape((*x.shape[:-2], -1))


def forward(x: Array, w: Array, axes: Sequence[Axis]) -> Array:
    """Each channel convolved with its own filters: w [windows..., in, multiplier]; out has in * multiplier channels."""
    times = w.shape[-1]
    channels = w.shape[-2] * times
    out = np.empty((x.shape[0], *(a.out for a in axes), channels), x.dtype)
    if not out.size or not w.size:
        out[...] = 0
        return out
    filters = _tiled(w.reshape((*w.shape[:-2], channels)), axes[-1])
    space = len(axes)
    batch, offsets, row = list(range(space)), list(range(space, 2 * space)), [2 * space]

    def part(entries: slice) -> None:
        spread = None
        for some in scratch.runs(entries.stop - entries.start, x[:1].nbytes * times, _BLOCK):
            here = slice(entries.start + some.start, entries.start + some.stop)
            count = here.stop - here.start
            if spread is None or spread.count < count:
                spread = Spread(count, axes, channels, x.dtype)
            spread.put(x[here] if times == 1 else np.repeat(x[here], times, -1))
            total, first = _rows(out[here]), True
            for taps in spread.taps(count):
                operands = taps.view, batch + offsets + row, filters[taps.offsets], offsets + row, batch + row
                if first:
                    np.einsum(*operands, out=total)
                    first = False
                else:
                    total += np.einsum(*operands)

    split(len(x), _work(out.size, axes), part)
    return out


def input_gradient(g: Array, w: Array, axes: Sequence[Axis]) -> Array:
    """The derivative with respect to the input."""
    times, channels = w.shape[-1], g.shape[-1]
    shape = (g.shape[0], *(a.size for a in axes), channels)
    back = [mirrored(a) for a in axes]
    if not g.size or not w.size:
        out = np.zeros(shape, g.dtype)
    elif all(a.stride == 1 and b.before >= 0 and b.after >= 0 for a, b in zip(axes, back)):
        turned = w[(slice(None, None, -1),) * len(axes)]
        out = forward(g, turned.reshape((*w.shape[:-2], channels, 1)), back)
    else:
        out = np.empty(shape, g.dtype)
        filters = _tiled(w.reshape((*w.shape[:-2], channels)), axes[-1])
        split(len(g), _work(g.size, axes), lambda entries: _added(g[entries], filters, axes, out[entries]))
    return out if times == 1 else out.reshape((*out.shape[:-1], w.shape[-2], times)).sum(-1, dtype=g.dtype)


def _added(g: Array, filters: Array, axes: Sequence[Axis], out: Array) -> None:
    """Fill an input's gradient with the sums of what each offset gives to it."""
    spread = moved = None
    for entries in scratch.runs(len(g), g[:1].nbytes, _BLOCK):
        part = _rows(g[entries])
        if spread is None or moved is None or spread.count < len(part):
            spread = Spread(len(part), axes, g.shape[-1], g.dtype)
            moved = scratch.empty(part.shape, g.dtype)
        spread.clear()
        result = moved[: len(part)]
        for place in product(*(range(a.window) for a in axes)):
            np.multiply(part, filters[place], out=result)
            to = _rows(spread.at(place, len(part)))
            to += result
        spread.take(out[entries])


def filter_gradient(x: Array, g: Array, axes: Sequence[Axis]) -> Array:
    """The derivative with respect to the filter: [windows..., in, multiplier]."""
    depth, channels = x.shape[-1], g.shape[-1]
    times = channels // depth if depth else 0
    windows = tuple(a.window for a in axes)
    space = len(axes)
    batch, row = list(range(space)), [space]

    def part(entries: slice) -> Array:
        total = np.zeros((*windows, axes[-1].out * channels), g.dtype)
        spread = None
        for some in scratch.runs(entries.stop - entries.start, x[:1].nbytes * times, _BLOCK):
            here = slice(entries.start + some.start, entries.start + some.stop)
            towards = _rows(g[here])
            if spread is None or spread.count < len(towards):
                spread = Spread(len(towards), axes, channels, g.dtype)
            spread.put(x[here] if times == 1 else np.repeat(x[here], times, -1))
            for place in product(*(range(n) for n in windows)):
                met = _rows(spread.at(place, len(towards)))
                total[place] += np.einsum(met, batch + row, towards, batch + row, row)
        return total

    if not g.size:
        return np.zeros((*windows, depth, times), g.dtype)
    found = split(len(x), _work(g.size, axes), part)
    total = found[0]
    for other in found[1:]:
        total += other
    return total.reshape((*windows, -1, channels)).sum(-2, dtype=g.dtype).reshape((*windows, depth, times))
