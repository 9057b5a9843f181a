"""Shape rules that many ops share. A rule takes the new Operation and returns one TensorShape per output."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import shapes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.tensor import Operation, Tensor


def same(op: Operation) -> list[TensorShape]:
    """Every output has the shape of the first input."""
    return [op.inputs[0]._shape] * len(op.outputs)


def scalar(op: Operation) -> list[TensorShape]:
    """Every output is a scalar."""
    return [shapes.SCALAR] * len(op.outputs)


def unknown(op: Operation) -> list[TensorShape]:
    """Nothing is known."""
    return [shapes.UNKNOWN] * len(op.outputs)


def none(op: Operation) -> list[TensorShape]:
    """There is no output."""
    return []


def broadcast(op: Operation) -> list[TensorShape]:
    """Element-wise over all inputs, by numpy's rules."""
    inputs = op.inputs
    if len(inputs) == 2:
        return [shapes.broadcast(inputs[0]._shape, inputs[1]._shape)]
    return [shapes.broadcast_all(t._shape for t in inputs)]


def from_attr(op: Operation) -> list[TensorShape]:
    """The attribute ``shape``."""
    return [shapes.as_shape(op.attrs["shape"])]


def constant_value(tensor: Tensor) -> Any:
    """The value of a tensor that is known while the graph is built (a Const, or a simple op over such), else None.

    The array is shared with the graph: read only.
    """
    kind = tensor.op.type
    if kind == "Const":
        return tensor.op.attrs["value"]
    if kind == "Identity":
        return constant_value(tensor.op.inputs[0])
    if kind in ("Shape", "Size", "Rank"):
        shape = tensor.op.inputs[0]._shape
        np_dtype = tensor.dtype.np_dtype
        if kind == "Rank":
            return None if shape.ndims is None else np.array(shape.ndims, np_dtype)
        if shape.is_fully_defined():
            return np.array(shape.as_list() if kind == "Shape" else shape.num_elements(), np_dtype)
    if kind == "Pack" and all(t._shape.ndims == 0 for t in tensor.op.inputs):
        parts = [constant_value(t) for t in tensor.op.inputs]
        if all(p is not None for p in parts):
            return np.array(parts, tensor.dtype.np_dtype)
    return None


def constant_value_as_shape(tensor: Tensor) -> TensorShape:
    """The shape that an integer vector will hold, as far as it is known while the graph is built."""
    value = constant_value(tensor)
    if value is not None:
        return TensorShape([None if d < 0 else int(d) for d in np.asarray(value).reshape(-1)])
    if tensor.op.type == "Shape":
        return tensor.op.inputs[0]._shape
    if tensor.op.type == "Pack" and all(t._shape.ndims == 0 for t in tensor.op.inputs):
        parts = [constant_value(t) for t in tensor.op.inputs]
        return TensorShape([None if p is None or p < 0 else int(p) for p in parts])
    length = tensor._shape.dims_or_none
    return shapes.unknown_shape(length[0] if length is not None and len(length) == 1 else None)
