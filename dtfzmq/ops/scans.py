"""The ops that walk along an axis: backwards, running sums, running products."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import constant_value
from dtfzmq.ops.arguments import distinct_axes
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid


def _reverse_kernel(x: np.ndarray, axis: np.ndarray) -> np.ndarray:
    axes = distinct_axes("axis", axis, x.ndim)
    return np.flip(x, axes) if axes else x


def _reverse_shape(n: Any) -> list[TensorShape]:
    shape, axis = n.inputs[0].shape, constant_value(n.inputs[1])
    if axis is not None and shape.ndims is not None:
        for a in axis.ravel().tolist():
            if not -shape.ndims <= a < shape.ndims:
                raise ValueError(f"'axis' = {a} is out of valid range [{-shape.ndims}, {shape.ndims}) for {shape}")
    return [shape]


_reverse = op(
    "ReverseV2", "tensor: T, axis: I -> output: T", shape=_reverse_shape, kernel=_reverse_kernel,
    grad=lambda n, g: (raw.ReverseV2(g, n.inputs[1]), None),
    samples=[Sample(mat(2, 3), ints(-1)), Sample(mat(2, 3), ints(0, 1))],
)  # fmt: skip


def _cum(ufunc: Any, first: int) -> Any:
    def make(node: Any, env: Any) -> Any:
        exclusive, reverse = node.attrs["exclusive"], node.attrs["reverse"]

        def kernel(x: np.ndarray, axis: np.ndarray) -> np.ndarray:
            a = int(axis)
            if not -x.ndim <= a < x.ndim:
                raise invalid(f"Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got {a}")
            y = np.moveaxis(x, a, 0)
            y = y[::-1] if reverse else y
            out = ufunc.accumulate(y, 0, dtype=x.dtype)
            if exclusive:
                out = np.concatenate([np.full_like(out[:1], first), out[:-1]])
            return np.moveaxis(out[::-1] if reverse else out, 0, a)

        return kernel

    return make


def _cumsum_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    exclusive, reverse = n.attrs["exclusive"], n.attrs["reverse"]
    return raw.Cumsum(g, n.inputs[1], exclusive=exclusive, reverse=not reverse), None


def _cumprod_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    exclusive, reverse = n.attrs["exclusive"], n.attrs["reverse"]
    total = raw.Cumsum(n.outputs[0] * g, n.inputs[1], exclusive=exclusive, reverse=not reverse)
    return raw.DivNoNan(total, n.inputs[0]), None


_CUM = "x: N, axis: I; exclusive: bool = False, reverse: bool = False -> output: N"
_CUM_SAMPLES = [
    Sample(mat(2, 3), np.int32(1)),
    Sample(mat(3, 2), np.int32(0), exclusive=True),
    Sample(mat(2, 3), np.int32(-1), reverse=True, exclusive=True),
]
_cumsum = op("Cumsum", _CUM, shape=same, make=_cum(np.add, 0), grad=_cumsum_grad, samples=_CUM_SAMPLES)
_cumprod = op("Cumprod", _CUM, shape=same, make=_cum(np.multiply, 1), grad=_cumprod_grad, samples=_CUM_SAMPLES)
