"""Convolution over numpy arrays of any number of axes of space, channels last.

The patches under the windows of a few rows are copied side by side (im2col) into a buffer that fits the processor's
cache, and products of matrices do the arithmetic. They are stacks of products of at most a million multiplications
each: OpenBLAS does such ones at once, without packing and without waking its threads, which cost more than they save
here and very much more when the machine has other work. Where a million multiplications are few rows, packing pays.

Measured on [32, 28, 28, 16] with 3x3 windows to 32 channels, one thread: padding and copies 0.5 ms, one product over
all 2.3 ms, as a stack 1.6 ms, which is what the processor can do. Sums over window offsets without copies take 2.8 ms.
The entries of a large batch are shared out among threads. `benchmarks/kernels.py` compares with TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dtfzmq.ops import scratch
from dtfzmq.ops.parallel import split
from dtfzmq.ops.spread import Spread
from dtfzmq.ops.windows import Axis, mirrored

Array = Any
_BUFFER = 1 << 20  # bytes of patches at a time: half of a processor's own cache
_SMALL = 950_000  # multiplications of a product that BLAS does at once
_TALL = 64  # rows that such a product should have at least


def padded(x: Array, axes: Sequence[Axis], value: Any = 0) -> Array:
    """The array with the padding of its axes of space; the array itself if there is none."""
    if not any(a.before or a.after for a in axes):
        return x
    shape = (x.shape[0], *(a.before + a.size + a.after for a in axes), *x.shape[1 + len(axes) :])
    out = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
    out[inner(axes)] = x
    return out


def inner(axes: Sequence[Axis]) -> tuple[slice, ...]:
    """What of a padded array is not padding."""
    return (slice(None), *(slice(a.before, a.before + a.size) for a in axes))


def patches(x: Array, axes: Sequence[Axis]) -> Array:
    """A view [batch, places..., windows..., channels] of a padded array. Read only."""
    steps = x.strides
    moves = [a.stride * s for a, s in zip(axes, steps[1:])]
    inside = [a.dilation * s for a, s in zip(axes, steps[1:])]
    shape = (x.shape[0], *(a.out for a in axes), *(a.window for a in axes), x.shape[-1])
    return as_strided(x, shape, (steps[0], *moves, *inside, steps[-1]), writeable=False)


def _matrices(x: Array, axes: Sequence[Axis]) -> Iterator[tuple[tuple[slice, slice], Array]]:
    """(block, patches of it as a matrix) over all blocks. The matrix is overwritten by the next.

    A block is (entries of the batch, part of the first axis of space): several entries and all rows of places, or one
    entry and some of its rows.
    """
    if all(a.window == a.stride == 1 for a in axes) and not any(a.before or a.after for a in axes):
        yield (slice(0, x.shape[0]), slice(0, axes[0].out)), x.reshape(-1, x.shape[-1])
        return
    width = int(np.prod([a.window for a in axes], dtype=np.int64)) * x.shape[-1]
    row = int(np.prod([a.out for a in axes[1:]], dtype=np.int64)) * width * x.itemsize
    count = min(max(1, _BUFFER // max(axes[0].out * row, 1)), len(x))
    height = min(max(1, _BUFFER // max(row, 1)), axes[0].out) if count == 1 else axes[0].out
    border = any(a.before or a.after for a in axes)
    wide = x
    if border:
        wide = scratch.zeros((count, *(a.before + a.size + a.after for a in axes), x.shape[-1]), x.dtype)
        middle = wide[inner(axes)]
    view = patches(wide, axes)
    buffer = scratch.empty((count, height, *view.shape[2:]), x.dtype)
    for first in range(0, len(x), count):
        entries = slice(first, min(first + count, len(x)))
        number = entries.stop - first
        if border:
            np.copyto(middle[:number], x[entries])
        part = view[:number] if border else view[entries]
        for top in range(0, axes[0].out, height):
            rows = slice(top, min(top + height, axes[0].out))
            here = buffer[:number, : rows.stop - top]  # all of it, or one entry: a matrix without a copy
            np.copyto(here, part[:, rows])
            yield (entries, rows), here.reshape(-1, width)


def _stacked(rows: int, inner: int, columns: int) -> int:
    """How many rows a product of a stack has; all of them where a stack would not help."""
    most = _SMALL // max(inner * columns, 1)
    if not _TALL <= most < rows:
        return rows
    return next((h for h in range(most, most // 2, -1) if rows % h == 0), most)


def _product(a: Array, b: Array, out: Array) -> None:
    """out = a @ b."""
    rows, inner = a.shape
    height = _stacked(rows, inner, b.shape[1])
    whole = rows - rows % height
    np.matmul(a[:whole].reshape(-1, height, inner), b, out=out[:whole].reshape(-1, height, b.shape[1]))
    if whole < rows:
        np.matmul(a[whole:], b, out=out[whole:])


def _transposed_product(a: Array, b: Array) -> Array:
    """a.T @ b."""
    rows, inner = a.shape
    height = _stacked(rows, inner, b.shape[1])
    whole = rows - rows % height
    stack = a[:whole].reshape(-1, height, inner).swapaxes(1, 2)
    total = np.add.reduce(np.matmul(stack, b[:whole].reshape(-1, height, b.shape[1])), 0)
    if whole < rows:
        total += a[whole:].T @ b[whole:]
    return total


def _work(places: int, width: int, channels: int) -> float:
    """About how many nanoseconds copies and products of so many patches take."""
    return places * width * (channels / 50 + 0.2)


def forward(x: Array, w: Array, axes: Sequence[Axis]) -> Array:
    """The convolution of x [batch, sizes..., in] with w [windows..., in, out]."""
    channels = w.shape[-1]
    out = np.empty((x.shape[0], *(a.out for a in axes), channels), x.dtype)
    if not out.size or not w.size:
        out[...] = 0
        return out
    w = np.ascontiguousarray(w).reshape(-1, channels)

    def part(entries: slice) -> None:
        here = out[entries]
        for block, matrix in _matrices(x[entries], axes):
            _product(matrix, w, here[block].reshape(-1, channels))

    split(len(x), _work(out.size // channels, len(w), channels), part)
    return out


def filter_gradient(x: Array, g: Array, axes: Sequence[Axis]) -> Array:
    """The derivative with respect to the filter: [windows..., in, out]."""
    channels = g.shape[-1]
    width = int(np.prod([a.window for a in axes], dtype=np.int64)) * x.shape[-1]
    g = np.ascontiguousarray(g)

    def part(entries: slice) -> Array:
        total = np.zeros((width, channels), x.dtype)
        if g.size and total.size:
            for block, matrix in _matrices(x[entries], axes):
                total += _transposed_product(matrix, g[entries][block].reshape(-1, channels))
        return total

    found = split(len(x), _work(g.size // max(channels, 1), width, channels), part)
    total = found[0]
    for other in found[1:]:
        total += other
    return total.reshape((*(a.window for a in axes), x.shape[-1], channels))


def input_gradient(g: Array, w: Array, axes: Sequence[Axis]) -> Array:
    """The derivative with respect to the input: [batch, sizes..., in].

    With strides of 1 it is itself a convolution, by the mirrored filter; else what each place of a window gives is
    added to the input's slice that it came from.
    """
    shape = (g.shape[0], *(a.size for a in axes), w.shape[-2])
    if not g.size or not w.size:
        return np.zeros(shape, g.dtype)
    back = [mirrored(a) for a in axes]
    if all(a.stride == 1 for a in axes) and all(a.before >= 0 and a.after >= 0 for a in back):
        space = len(axes)
        w = w[(slice(None, None, -1),) * space].swapaxes(-1, -2)
        return forward(np.ascontiguousarray(g), w, back)
    g = np.ascontiguousarray(g)
    filters = np.ascontiguousarray(w.swapaxes(-1, -2))
    out = np.empty(shape, g.dtype)
    windows = int(np.prod(w.shape[:-2], dtype=np.int64))
    work = _work(g.size // g.shape[-1], windows * g.shape[-1], w.shape[-2])
    split(len(g), work, lambda entries: _added(g[entries], filters, axes, out[entries]))
    return out


def _added(g: Array, filters: Array, axes: Sequence[Axis], out: Array) -> None:
    """Fill an input's gradient with the sums of what each place of a window gives to it."""
    channels = out.shape[-1]
    spread = moved = None
    for entries in scratch.runs(len(g), out[:1].nbytes, _BUFFER // 4):
        part = g[entries]
        if spread is None or moved is None or spread.count < len(part):
            spread = Spread(len(part), axes, channels, g.dtype)
            moved = scratch.empty((*part.shape[:-1], channels), g.dtype)
        spread.clear()
        result = moved[: len(part)]
        for place in product(*(range(a.window) for a in axes)):
            _product(part.reshape(-1, g.shape[-1]), filters[place], result.reshape(-1, channels))
            to = spread.at(place, len(part))
            to += result
        spread.take(out[entries])


def at(batch: slice, axes: Sequence[Axis], place: Sequence[int], rows: slice) -> tuple[slice, ...]:
    """Where in the padded input the places of a window's one offset lie; of the first axis only those of `rows`."""
    out = [batch]
    for i, (a, p) in enumerate(zip(axes, place)):
        first, last = (rows.start, rows.stop) if i == 0 else (0, a.out)
        start = p * a.dilation + first * a.stride
        out.append(slice(start, start + (last - first - 1) * a.stride + 1, a.stride))
    return tuple(out)
