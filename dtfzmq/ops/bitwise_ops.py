"""Integers as rows of bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import broadcast, same
from dtfzmq.ops.math import bitwise_and, bitwise_or, bitwise_xor
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints

_INTEGER = NO_GRAD("integer result")


def _shift(fn: Any) -> Any:
    """A shift by less than 0 or by the width or more is undefined in C; as TensorFlow does, it is held within."""

    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        width = x.dtype.itemsize * 8
        return fn(x, np.clip(y, 0, width - 1).astype(x.dtype, copy=False))

    return kernel


def _count(x: np.ndarray) -> np.ndarray:
    rows = np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape((*x.shape, x.dtype.itemsize))
    return np.unpackbits(rows, axis=-1).sum(-1, dtype=np.uint8)


_left = op(
    "LeftShift", "x: Z, y: Z -> z: Z", shape=broadcast, kernel=_shift(np.left_shift), grad=_INTEGER,
    samples=[Sample(ints(1, -5, 7), ints(3, 0, 40)), Sample(ints(3), np.int32(2))],
)  # fmt: skip
_right = op(
    "RightShift", "x: Z, y: Z -> z: Z", shape=broadcast, kernel=_shift(np.right_shift), grad=_INTEGER,
    samples=[Sample(ints(9, -5, 7), ints(3, 0, 40)), Sample(ints(3), np.int32(2))],
)  # fmt: skip
_population = op(
    "PopulationCount", "x: Z -> y: uint8", shape=same, kernel=_count, grad=_INTEGER,
    samples=[Sample(ints(0, 7, -1)), Sample(np.int64(5))],
)  # fmt: skip


def left_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x << y of integers; y is held between 0 and the width less 1."""
    return _left(x, y, name=name)


def right_shift(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x >> y of integers: arithmetic if they have a sign; y is held between 0 and the width less 1."""
    return _right(x, y, name=name)


def invert(x: Any, name: str | None = None) -> Tensor:
    """Every bit of x the other way."""
    return raw.Invert(x, name=name)


def population_count(x: Any, name: str | None = None) -> Tensor:
    """The number of bits that are set, as uint8."""
    return _population(x, name=name)


__all__ = ["bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "population_count", "right_shift"]
