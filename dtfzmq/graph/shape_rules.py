"""Shape rules that many ops share. A rule takes the new Operation and returns one TensorShape per output."""

from __future__ import annotations

from dtfzmq.base import shapes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph import opdef
from dtfzmq.graph.tensor import Operation


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


opdef.ELEMENTWISE.update((same, broadcast))
