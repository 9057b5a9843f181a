"""Softmax and cross-entropies over the last axis of numpy arrays, by blocks of rows that stay in the cache.

The half types are computed in float32. One exponential is taken per element, for the loss and its derivative both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfzmq.ops import scratch, windows
from dtfzmq.ops.parallel import split

Array = Any
_BLOCK = 1 << 18  # bytes of rows at a time
_WORK = 1.6  # nanoseconds an element, roughly


def _blocks(x: Array, out: Array) -> Iterator[tuple[slice, Array]]:
    """(rows, their part of `out` with x minus the largest of its row) over the rows of a matrix."""
    for rows in scratch.runs(len(x), x[:1].nbytes, _BLOCK):
        here = x[rows]
        yield rows, np.subtract(here, np.maximum.reduce(here, -1, keepdims=True), out=out[rows])


def _sums(x: Array) -> Array:
    """The sum of each row, as a column: BLAS takes a quarter of the time of a reduction."""
    return x @ np.ones((x.shape[1], 1), x.dtype)


def _over_rows(x: Array, finish: Callable[[Array], None]) -> Array:
    """x, whose rows lie along the last axis, with `finish` done in place to each block less its rows' largest."""
    if not x.size:
        return x.copy()
    wide = windows.wide(x)
    flat = wide.reshape(-1, x.shape[-1])
    out = np.empty(flat.shape, wide.dtype)

    def part(rows: slice) -> None:
        for _, block in _blocks(flat[rows], out[rows]):
            finish(block)

    split(len(flat), _WORK * flat.size, part)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _to_shares(block: Array) -> None:
    np.exp(block, out=block)
    np.divide(block, _sums(block), out=block)


def _to_logarithms(block: Array) -> None:
    np.subtract(block, np.log(_sums(np.exp(block))), out=block)


def softmax(x: Array) -> Array:
    """exp(x) divided by its sum over the last axis."""
    return _over_rows(x, _to_shares)


def log_softmax(x: Array) -> Array:
    """The logarithm of `softmax`."""
    return _over_rows(x, _to_logarithms)


def cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """(-sum(labels * log_softmax(logits)) per row, softmax(logits) - labels) of two matrices."""
    wide, rights = windows.wide(logits), windows.wide(labels)
    back = np.empty(wide.shape, wide.dtype)
    loss = np.zeros(len(wide), wide.dtype)
    if wide.size:
        for rows, y in _blocks(wide, back):
            right = rights[rows]
            met = np.einsum("ij,ij->i", right, y)
            np.exp(y, out=y)
            total = _sums(y)
            loss[rows] = np.log(total[:, 0]) * np.add.reduce(right, -1) - met
            y /= total
            y -= right
    return loss.astype(logits.dtype, copy=False), back.astype(logits.dtype, copy=False)


def sparse_cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """`cross_entropy` with rows of labels that are 1 at the numbers given and 0 elsewhere. They must be in range."""
    wide = windows.wide(logits)
    back = np.empty(wide.shape, wide.dtype)
    loss = np.zeros(len(wide), wide.dtype)
    if wide.size:
        for rows, y in _blocks(wide, back):
            at = np.arange(len(y)), labels[rows]
            met = y[at]
            np.exp(y, out=y)
            total = _sums(y)
            loss[rows] = np.log(total[:, 0]) - met
            y /= total
            y[at] -= wide.dtype.type(1)
    return loss.astype(logits.dtype, copy=False), back.astype(logits.dtype, copy=False)
