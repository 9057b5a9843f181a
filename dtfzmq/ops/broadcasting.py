"""Broadcasting in gradients: a gradient is summed back to the shape of the input it is for."""

from __future__ import annotations

import numpy as np

from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import Dims, value_as_shape
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat


def sum_to(grad: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """`grad` summed over the axes along which `shape` was broadcast to grad's shape."""
    if grad.shape == shape:
        return grad
    lead = grad.ndim - len(shape)
    axes = (*range(lead), *(lead + i for i, d in enumerate(shape) if d == 1 and grad.shape[lead + i] != 1))
    return np.add.reduce(grad, axes, dtype=grad.dtype, keepdims=True).reshape(shape)


def _sum_to_kernel(grad: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return sum_to(np.asarray(grad), tuple(shape.tolist()))


_sum_to = op(
    "SumToShape",
    "grad: N, shape: I -> y: N",
    shape=lambda n: [value_as_shape(n.inputs[1])],
    kernel=_sum_to_kernel,
    grad=lambda n, g: (raw.BroadcastTo(g, raw.Shape(n.inputs[0])), None),
    samples=[Sample(mat(3, 2, 4), ints(2, 1)), Sample(mat(2, 3), ints(2, 3)), Sample(mat(2, 3), np.zeros(0, np.int32))],
)


def repeated_axes(inner: Dims | None, other: Dims | None) -> tuple[int, ...] | None:
    """Axes of the result over which an input of sizes `inner` was repeated to meet `other`; None if not known yet.

    An unknown size that `other` cannot repeat (it has size 1 there, or no such axis) counts as not repeated.
    """
    if inner is None or other is None:
        return None
    lead = max(0, len(other) - len(inner))
    beside = other[lead:] if lead else (1,) * (len(inner) - len(other)) + other
    axes = list(range(lead))
    for i, (size, facing) in enumerate(zip(inner, beside)):
        if facing != 1:
            if size is None:
                return None
            if size == 1:
                axes.append(lead + i)
    return tuple(axes)


def unbroadcast(grad: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """`grad`, of the shape of x broadcast with other, summed to the shape of x.

    No op at all where x is known not to be repeated, one Sum where the axes are known.
    """
    inner, beside = x.shape.dims_or_none, other.shape.dims_or_none
    axes = repeated_axes(inner, beside)
    if axes is None or inner is None or beside is None:
        return raw.SumToShape(grad, raw.Shape(x))
    if not axes:
        return grad
    if axes[-1] < len(beside) - len(inner):
        return raw.Sum(grad, np.array(axes, np.int32), keep_dims=False)
    return raw.SumToShape(grad, raw.Shape(x) if None in inner else np.array(inner, np.int32))
