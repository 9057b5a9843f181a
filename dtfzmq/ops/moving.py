"""Elements moved along an axis: roll and repeat; and what is said of shapes: ensure_shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.node import Node
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import constant_value, dims, full_dims
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat


def _roll_kernel(x: Any, shift: Any, axis: Any) -> Any:
    if np.shape(shift) != np.shape(axis):
        raise errors.InvalidArgumentError(None, None, "shift and axis must have the same size")
    for a in np.atleast_1d(axis).tolist():
        if not -x.ndim <= a < x.ndim:
            raise errors.InvalidArgumentError(None, None, f"axis {a} is out of range")
    return np.roll(x, tuple(np.atleast_1d(shift).tolist()), tuple(np.atleast_1d(axis).tolist()))


_roll = op(
    "Roll", "input: T, shift: I, axis: I2 -> output: T", shape=same, kernel=_roll_kernel,
    grad=lambda n, g: (raw.Roll(g, raw.Neg(n.inputs[1]), n.inputs[2]), None, None),
    samples=[
        Sample(mat(3, 4), np.int32(1), np.int32(0)),
        Sample(mat(3, 4), ints(1, -2), ints(0, 1)),
        Sample(mat(3, 4), np.int32(1), np.int32(5), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def _repeat_shape(n: Operation) -> list[TensorShape]:
    known, counts = dims(n.inputs[0]), constant_value(n.inputs[1])
    if known is None:
        return [TensorShape(None)]
    out = list(known)
    axis = n.attrs["axis"] % len(known)
    size = out[axis]
    out[axis] = None
    if counts is not None and counts.size > 1:
        out[axis] = int(counts.sum())
    elif counts is not None and size is not None:
        out[axis] = size * int(counts.reshape(()))
    return [TensorShape(out)]


def _repeat_kernel(node: Node, env: Any) -> Any:
    axis = node.attrs["axis"]

    def repeat(x: Any, counts: Any) -> Any:
        if np.size(counts) not in (1, x.shape[axis]):
            raise errors.InvalidArgumentError(
                None, None, f"repeats has {np.size(counts)} entries for {x.shape[axis]} along axis {axis}."
            )
        return np.repeat(x, counts, axis)

    return repeat


def _repeat_grad(n: Operation, g: Any) -> Any:
    """Sum over the copies of each: rows of the numbers of where they came from."""
    axis = n.attrs["axis"]
    size = raw.StridedSlice(raw.Shape(n.inputs[0]), [axis], [axis + 1], [1], shrink_axis_mask=1)
    numbers = raw.RepeatAlong(raw.Range(np.int32(0), size, np.int32(1)), n.inputs[1], axis=0)
    rank = raw.Rank(g)
    axes = raw.Range(np.int32(0), rank, np.int32(1))
    swapped = raw.ConcatV2([[axis], raw.Slice(axes, [0], [axis]), raw.Slice(axes, [axis + 1], [-1])], 0)
    summed = raw.UnsortedSegmentSum(raw.Transpose(g, swapped), numbers, size)
    return raw.Transpose(summed, raw.InvertPermutation(swapped)), None


_repeat_op = op(
    "RepeatAlong", "input: T, repeats: I; axis: int -> output: T", shape=_repeat_shape, make=_repeat_kernel,
    grad=_repeat_grad,
    samples=[
        Sample(mat(3, 2), ints(1, 0, 2), axis=0),
        Sample(mat(2, 3, 2), np.int64(2), axis=1),
        Sample(mat(3, 2), ints(1, 0), axis=0, fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def _ensure_kernel(node: Node, env: Any) -> Any:
    wanted: TensorShape = node.attrs["shape"]

    def ensure(x: Any) -> Any:
        if not wanted.is_compatible_with(np.shape(x)):
            raise errors.InvalidArgumentError(
                None, None, f"Shape of tensor {node.name} {list(np.shape(x))} is not compatible with expected shape "
                f"{wanted}.",
            )  # fmt: skip
        return x

    return ensure


_ensure = op(
    "EnsureShape", "input: T; shape: shape -> output: T",
    shape=lambda n: [n.inputs[0].shape.merge_with(n.attrs["shape"])], make=_ensure_kernel, grad=lambda n, g: (g,),
    samples=[Sample(mat(2, 3), shape=[None, 3])],
)  # fmt: skip


def _broadcast_kernel(a: Any, b: Any) -> Any:
    try:
        return np.array(np.broadcast_shapes(tuple(a.tolist()), tuple(b.tolist())), a.dtype)
    except ValueError:
        raise errors.InvalidArgumentError(
            None, None, f"Incompatible shapes for broadcasting: {a.tolist()} and {b.tolist()}"
        ) from None


def _broadcast_args_shape(n: Any) -> list[TensorShape]:
    sizes = [full_dims(t) for t in n.inputs]
    return [TensorShape([None if None in sizes else max(s[0] for s in sizes if s)])]


_broadcast_args = op(
    "BroadcastArgs", "s0: I, s1: I -> r0: I", shape=_broadcast_args_shape, kernel=_broadcast_kernel,
    grad=NO_GRAD("a shape"),
    samples=[Sample(ints(2, 1, 3), ints(4, 1)), Sample(ints(2), ints(3), fails=errors.InvalidArgumentError)],
)  # fmt: skip


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """The elements moved by `shift` along `axis` (each a number or a list), from one end to the other."""
    made: Tensor = _roll(input, shift, axis, name=name)
    return made


def repeat(input: Any, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Each element, or slice along `axis`, as often as `repeats` says; without axis of the flattened input."""
    tensor = convert_to_tensor(input, name="input")
    counts = convert_to_tensor(repeats, name="repeats")
    if counts.dtype not in (dtypes.int32, dtypes.int64):
        counts = raw.Cast(counts, DstT=dtypes.int32)
    if axis is None:
        tensor, axis = raw.Reshape(tensor, [-1]), 0
    if axis < 0:
        if tensor.shape.ndims is None:
            raise ValueError("A negative axis needs a tensor of known rank.")
        axis += tensor.shape.ndims
    made: Tensor = _repeat_op(tensor, counts, axis=axis, name=name)
    return made


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """x, known to have `shape`: ValueError if it cannot, InvalidArgumentError in a step in which it has not."""
    made: Tensor = _ensure(x, shape=as_shape(shape), name=name)
    return made


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape to which two shapes broadcast, as a tensor."""
    made: Tensor = _broadcast_args(shape_x, shape_y)
    return made


__all__ = ["broadcast_dynamic_shape", "ensure_shape", "repeat", "roll"]
