"""Convolution over numpy arrays of any number of axes of space, channels last.

The patches under the windows are copied side by side (im2col) into a buffer that fits the processor's cache, and
products of matrices do the arithmetic. They are stacks of products of at most a million multiplications each: OpenBLAS
does such ones at once, without packing and without waking its threads, which cost more than they save here and very
much more when the machine has other work. Where a million multiplications are few rows, packing pays.

Patches span the windows' other axes alone where there is enough to multiply in them: an offset along the first axis is
then a slice of the same buffer, and the products of all offsets are added. That takes a third of the copies of windows
of 3x3, and pays where there is less to add than to copy. Measured on [32, 28, 28, 16] with such windows to 32 channels,
one thread: products 1.55 ms, which is what the processor can do; copies 0.85 ms, or 0.5 ms and sums 0.45 ms.

The entries of a large batch are shared out among threads. `benchmarks/kernels.py` compares with TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dtfzmq.ops import scratch
from dtfzmq.ops.parallel import split
from dtfzmq.ops.windows import Axis

Array = Any
_BUFFER = 1 << 20  # bytes of patches at a time: half of a processor's own cache
_SMALL = 950_000  # multiplications of a product that BLAS does at once
_TALL = 64  # rows that such a product should have at least
_DEEP = 24  # elements of a patch below which products of several patches cost more than copies of all
_RUN = 10  # elements that lie side by side below which copies go along the places instead


class _Block(NamedTuple):
    """Some places of the windows: several entries of the batch and all rows, or one entry and some of its rows.

    rows: of the first axis of space. matrices: the patches [entries, places, elements], one stack of matrices per
    offset of the windows that `_Patches.offsets` counts. The next block is in the same list if it is of the same size.
    """

    entries: slice
    rows: slice
    matrices: list[Array]


class _Patches:
    """The patches under the windows of arrays [batch, sizes..., channels].

    Patches are of whole windows, or (`sliding`) span all axes but the first: there is then one matrix for each offset
    along the first. With `along` the buffer holds elements by places, which has longer runs to copy where a window's
    row is short.

    columns: of the matrices that patches are multiplied with. summed: whether such products are added place by place.
    """

    def __init__(self, axes: Sequence[Axis], channels: int, columns: int, summed: bool) -> None:
        self.axes, self.channels = axes, channels
        lead, rest = axes[0], axes[1:]
        self.needs = [(a.out - 1) * a.stride + a.extent for a in axes]
        row = prod(a.window for a in rest) * channels
        small = row >= _DEEP and row * columns * _TALL <= _SMALL
        self.sliding = lead.window > 1 and small and (not summed or 2 * columns <= row)
        self.offsets = lead.window if self.sliding else 1
        self.width = row * (1 if self.sliding else lead.window)
        self.places = prod(a.out for a in rest)
        last = axes[-1]
        self.along = (last.window if last.dilation == 1 else 1) * channels < min(_RUN, last.out) and not self.sliding
        self.parts = lead.stride if self.sliding else 1  # rows are laid out by their remainder
        if self.sliding:
            self.needs[0] = self._rows(lead.out) * lead.stride
        self.plain = all(a.window == a.stride == 1 and not a.before and a.out == a.size for a in axes)
        self.inside = all(a.before == 0 and need <= a.size for a, need in zip(axes, self.needs))

    def _rows(self, places: int) -> int:
        """How many rows of each remainder so many rows of places take."""
        lead = self.axes[0]
        return places - 1 - (-lead.extent // lead.stride) if self.sliding else places

    def _view(self, x: Array) -> Array:
        """The patches of a padded array as they lie in it: [batch, remainders, rows, places..., windows...]."""
        lead, rest = self.axes[0], self.axes[1:]
        entry, first, *steps = x.strides
        moves = [a.stride * s for a, s in zip(rest, steps)]
        inside = [a.dilation * s for a, s in zip(rest, steps)]
        windows, strides = [a.window for a in rest], [*inside, steps[-1]]
        if not self.sliding:
            windows, strides = [lead.window, *windows], [lead.dilation * first, *strides]
        shape = (len(x), self.parts, self._rows(lead.out), *(a.out for a in rest), *windows, self.channels)
        return as_strided(x, shape, (entry, first, lead.stride * first, *moves, *strides), writeable=False)

    def _buffer(self, count: int, rows: int, like: Array) -> tuple[Array, Array]:
        """(memory for so much of such a view, [batch, remainders, rows, places, width] of it)."""
        places = (self.parts, self._rows(rows), *(a.out for a in self.axes[1:]))
        windows = (*(a.window for a in self.axes[self.sliding :]), self.channels)
        if not self.along:
            memory = scratch.empty((count, *places, *windows), like.dtype)
            return memory, memory.reshape(count, *places[:2], self.places, self.width)
        memory = scratch.empty((count, *windows, *places), like.dtype)
        flat = memory.reshape(count, self.width, *places[:2], self.places)
        outside = range(1 + len(windows), memory.ndim)
        return memory.transpose(0, *outside, *range(1, 1 + len(windows))), flat.transpose(0, 2, 3, 4, 1)

    def _matrices(self, flat: Array, rows: int) -> list[Array]:
        if not self.sliding and not self.along:  # all of it, or one entry
            return [flat[:, :, :rows].reshape(1, -1, self.width)]
        lead = self.axes[0]
        found = []
        for offset in range(self.offsets):
            start, part = divmod(offset * lead.dilation, lead.stride) if self.sliding else (0, 0)
            found.append(flat[:, part, start : start + rows].reshape(len(flat), rows * self.places, self.width))
        return found

    def blocks(self, x: Array) -> Iterator[_Block]:
        """All places of the windows over an array of at least one entry, which has one place at least."""
        lead = self.axes[0]
        if self.plain:
            yield _Block(slice(0, len(x)), slice(0, lead.out), [x.reshape(1, -1, self.channels)])
            return
        row = self.places * self.width * self.parts * x.itemsize
        limit = _BUFFER >> self.sliding  # sums take as much again
        count = min(max(1, limit // max(self._rows(lead.out) * row, 1)), len(x))
        height = min(max(1, limit // max(row, 1)), lead.out) if count == 1 else lead.out
        memory, flat = self._buffer(count, height, x)
        wide = x
        if not self.inside:
            wide = scratch.zeros((count, *self.needs, self.channels), x.dtype)
            to, source = _overlap(self.axes, self.needs)
            middle = wide[to]
        view = self._view(wide)
        size, matrices = (0, 0), []  # Python's share of a block holds up the other threads: as little as can be
        for entries in scratch.runs(len(x), 1, count):
            number = entries.stop - entries.start
            here = entries if self.inside else slice(0, number)
            if not self.inside:
                np.copyto(middle[:number], x[entries][source])
            for rows in scratch.runs(lead.out, 1, height):
                high = rows.stop - rows.start
                if size != (number, high):
                    size, matrices = (number, high), self._matrices(flat[:number], high)
                lines = self._rows(high)
                np.copyto(memory[:number, :, :lines], view[here, :, rows.start : rows.start + lines])
                yield _Block(entries, rows, matrices)


def _overlap(axes: Sequence[Axis], needs: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """(part of a padded array of these sizes, part of the array) that are the same. Padding may be negative."""
    to, source = [slice(None)], [slice(None)]
    for a, need in zip(axes, needs):
        start = max(a.before, 0)
        first = max(-a.before, 0)
        length = max(min(a.size - first, need - start), 0)
        to.append(slice(start, start + length))
        source.append(slice(first, first + length))
    return tuple(to), tuple(source)


@lru_cache(maxsize=1024)
def _stacked(rows: int, inner: int, columns: int) -> int:
    """How many rows a product of a stack has; all of them where a stack would not help."""
    most = _SMALL // max(inner * columns, 1)
    if not _TALL <= most < rows:
        return rows
    few = -(-rows // most)
    return next((rows // n for n in range(few, 2 * few) if rows % n == 0), most)


def _cut(stack: Array, height: int) -> list[Array]:
    """A stack of matrices as stacks of ones with so many rows: [count, pieces, height, ...], and what is left over."""
    count, rows, columns = stack.shape
    whole = rows - rows % height
    pieces = [stack[:, :whole].reshape(count, -1, height, columns)]
    if whole < rows:
        pieces.append(stack[:, whole:].reshape(count, 1, rows - whole, columns))
    return pieces


def _transposed_product(a: Array, b: Array) -> Array:
    """The sum of a.T @ b over two stacks of matrices."""
    height = _stacked(a.shape[1], a.shape[2], b.shape[2])
    parts = zip(_cut(a, height), _cut(b, height))
    return sum(np.add.reduce(np.matmul(one.swapaxes(2, 3), other), (0, 1)) for one, other in parts)


def _work(places: int, width: int, channels: int) -> float:
    """About how many nanoseconds copies and products of so many patches take."""
    return places * width * (channels / 70 + 0.1)


class _Sums:
    """Where the products of a block's matrices with the filters are added, of blocks of one size.

    The last sum goes to the block's part of the output, which need not lie in one piece.
    """

    def __init__(self, matrices: Sequence[Array], filters: Array, memory: Array) -> None:
        count, rows, inner = matrices[0].shape
        columns = filters.shape[-1]
        self.size = count * rows * columns
        height = _stacked(rows, inner, columns)
        results = [memory[i, : self.size].reshape(count, rows, columns) for i in range(min(len(matrices), 2))]
        self.total, self.term = results[0], results[-1]
        self.products = []
        for k, matrix in enumerate(matrices):
            to = _cut(results[k > 0], height)
            self.products.append([(a, filters[k], out) for a, out in zip(_cut(matrix, height), to)])

    def fill(self, out: Array) -> None:
        last = len(self.products) - 1
        total, term = self.total.reshape(out.shape), self.term.reshape(out.shape)
        for k, products in enumerate(self.products):
            for a, b, to in products:
                np.matmul(a, b, out=to)
            if k:
                np.add(total, term, out=out if k == last else total)
        if not last:
            np.copyto(out, total)


def _convolve(x: Array, w: Array, axes: Sequence[Axis], out: Array) -> None:
    """Fill `out`, which may be a view with strides, on this thread. There must be something in all of them."""
    channels = w.shape[-1]
    patches = _Patches(axes, x.shape[-1], channels, True)
    filters = w.reshape(patches.offsets, patches.width, channels)
    direct = patches.offsets == 1 and out.flags.c_contiguous
    matrices, sums, memory = None, None, None
    for block in patches.blocks(x):
        here = out[block.entries, block.rows]
        if direct:
            matrix = block.matrices[0]
            height = _stacked(matrix.shape[1], patches.width, channels)
            for a, to in zip(_cut(matrix, height), _cut(here.reshape(*matrix.shape[:2], channels), height)):
                np.matmul(a, filters[0], out=to)
            continue
        if memory is None or here.size > memory.shape[1]:
            memory = scratch.empty((min(patches.offsets, 2), here.size), x.dtype)
        if sums is None or matrices is not block.matrices:
            matrices, sums = block.matrices, _Sums(block.matrices, filters, memory)
        sums.fill(here)


def forward(x: Array, w: Array, axes: Sequence[Axis]) -> Array:
    """The convolution of x [batch, sizes..., in] with w [windows..., in, out]."""
    channels = w.shape[-1]
    out = np.empty((x.shape[0], *(a.out for a in axes), channels), x.dtype)
    if not out.size or not w.size:
        out[...] = 0
        return out
    w = np.ascontiguousarray(w)
    work = _work(out.size // channels, w.size // channels, channels)
    split(len(x), work, lambda entries: _convolve(x[entries], w, axes, out[entries]))
    return out


def filter_gradient(x: Array, g: Array, axes: Sequence[Axis]) -> Array:
    """The derivative with respect to the filter: [windows..., in, out]."""
    channels = g.shape[-1]
    windows = (*(a.window for a in axes), x.shape[-1], channels)
    g = np.ascontiguousarray(g)

    def part(entries: slice) -> Array:
        patches = _Patches(axes, x.shape[-1], channels, False)
        total = np.zeros((patches.offsets, patches.width, channels), x.dtype)
        for block in patches.blocks(x[entries]):
            towards = g[entries][block.entries, block.rows]
            for k, matrix in enumerate(block.matrices):
                total[k] += _transposed_product(matrix, towards.reshape(*matrix.shape[:2], channels))
        return total

    if not g.size or not x.size:
        return np.zeros(windows, x.dtype)
    found = split(len(x), _work(g.size // channels, prod(windows[:-1]), channels), part)
    total = found[0]
    for other in found[1:]:
        total += other
    return total.reshape(windows)


def input_gradient(g: Array, w: Array, axes: Sequence[Axis]) -> Array:
    """The derivative with respect to the input: [batch, sizes..., in].

    It is itself a convolution by stride 1, with the mirrored filter. Where the windows move by more, elements that
    follow each other within a stride are met by different places of the filter: its channels are then those of all
    such elements (as of `space_to_depth`), with zeros where a place does not meet one.
    """
    channels = w.shape[-2]
    shape = (g.shape[0], *(a.size for a in axes), channels)
    if not prod(shape) or not g.size or not w.size:
        return np.zeros(shape, g.dtype)
    g = np.ascontiguousarray(g)
    ways = [_backwards(a) for a in axes]
    back = [way.axis for way in ways]
    kinds = [len(way.remainders) for way in ways]
    filters = np.zeros((*(a.window for a in back), g.shape[-1], *kinds, channels), g.dtype)
    offsets, met = np.ix_(*(way.offsets for way in ways)), np.ix_(*(way.met for way in ways))
    places: Any = (*offsets, slice(None), *met, slice(None))
    filters[places] = w.swapaxes(-1, -2)
    filters = filters.reshape(*filters.shape[: len(axes) + 1], -1)
    whole = all(a.stride == 1 for a in axes)
    full = all(kind == a.stride for kind, a in zip(kinds, axes))
    out = np.empty(shape, g.dtype) if full else np.zeros(shape, g.dtype)

    def part(entries: slice) -> None:
        ours = g[entries]
        if whole:
            _convolve(ours, filters, back, out[entries])
            return
        found = scratch.empty((len(ours), *(a.out for a in back), *kinds, channels), g.dtype)
        _convolve(ours, filters, back, found.reshape(*found.shape[: 1 + len(axes)], -1))
        for which in product(*(range(kind) for kind in kinds)):
            elements = (slice(way.remainders[i], None, a.stride) for i, way, a in zip(which, ways, axes))
            to = (entries, *elements)
            here = out[to]
            inside = (slice(None), *(slice(n) for n in here.shape[1:-1]), *which)
            np.copyto(here, found[inside])

    split(len(g), _work(g.size // g.shape[-1], filters.size // filters.shape[-1], filters.shape[-1]), part)
    return out


class _Backwards(NamedTuple):
    """The way back along an axis.

    axis: windows over the output, by stride 1, for elements of one remainder by the stride. remainders: those that any
    window meets. offsets, met: of each place of the filter, the window's offset and which of the remainders.
    """

    axis: Axis
    remainders: list[int]
    offsets: list[int]
    met: list[int]


def _backwards(a: Axis) -> _Backwards:
    """Place p of the filter meets element m * stride + r in window m + (r + before - p * dilation) / stride."""
    taps = [divmod(p * a.dilation - a.before, a.stride) for p in range(a.window)]
    remainders = sorted({r for _, r in taps})
    moves = [-n for n, _ in taps]
    low = min(moves)
    step = gcd(*(n - low for n in moves)) or 1
    offsets = [(n - low) // step for n in moves]
    window, out = max(offsets) + 1, -(-a.size // a.stride)
    axis = Axis(a.out, window, 1, step, out, -low, out + (window - 1) * step + low - a.out)
    return _Backwards(axis, remainders, offsets, [remainders.index(r) for _, r in taps])
