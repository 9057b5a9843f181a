"""What is known of tensors while the graph is built: constant values, and shapes that are computed as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.errors import OpError
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.opdef import lookup
from dtfzmq.graph.tensor import Tensor

Dims = tuple["int | None", ...]
_arange: Any = np.arange


def dims(tensor: Tensor) -> Dims | None:
    """Static sizes of a tensor (None where unknown), or None if its rank is unknown."""
    return tensor.shape.dims_or_none


def full_dims(tensor: Tensor) -> tuple[int, ...] | None:
    """Static sizes if all are known, else None."""
    known = tensor.shape.dims_or_none
    return None if known is None or None in known else known  # type: ignore[return-value]  # no None is left in it


def constant_value(tensor: Any, depth: int = 8) -> np.ndarray | None:
    """The value that a tensor will have in every step, if that can be said now; else None.

    Looks through Const, Shape, Size, Rank, Range, Pack, Fill, Cast and ConcatV2, and through what programs do with
    sizes: arithmetic and slices of few numbers. `depth` bounds how many operations deep.
    """
    op = tensor.op
    kind = op.type
    if kind == "Const":
        return op.attrs["value"]
    found = _CONSTANT.get(kind)
    return None if found is None or not depth else found(op, depth - 1)


def _inputs(op: Any, depth: int = 8, first: int = 0, last: int | None = None) -> list[np.ndarray] | None:
    values = []
    for t in op.inputs[first:last]:
        value = constant_value(t, depth)
        if value is None:
            return None
        values.append(value)
    return values


def _of_shape(op: Any, depth: int) -> np.ndarray | None:
    known = full_dims(op.inputs[0])
    return None if known is None else np.array(known, op.outputs[0].dtype.np_dtype)


def _of_size(op: Any, depth: int) -> np.ndarray | None:
    known = full_dims(op.inputs[0])
    return None if known is None else np.array(int(np.prod(known, dtype=np.int64)), op.outputs[0].dtype.np_dtype)


def _of_rank(op: Any, depth: int) -> np.ndarray | None:
    known = dims(op.inputs[0])
    return None if known is None else np.array(len(known), np.int32)


def _of_range(op: Any, depth: int) -> np.ndarray | None:
    values = _inputs(op, depth)
    return None if values is None or values[2] == 0 else _arange(*values, dtype=op.outputs[0].dtype.np_dtype)


def _of_pack(op: Any, depth: int) -> np.ndarray | None:
    values = _inputs(op, depth)
    return None if values is None else np.stack(values, op.attrs["axis"])


def _of_concat(op: Any, depth: int) -> np.ndarray | None:
    values = _inputs(op, depth)
    return None if values is None else np.concatenate(values[:-1], int(values[-1]))


def _of_cast(op: Any, depth: int) -> np.ndarray | None:
    values = _inputs(op, depth)
    dtype = op.outputs[0].dtype
    return None if values is None or not dtype.is_numpy_compatible else values[0].astype(dtype.np_dtype)


def _of_fill(op: Any, depth: int) -> np.ndarray | None:
    values = _inputs(op, depth)
    if values is None or values[0].size and int(np.prod(values[0], dtype=np.int64)) > _FEW:
        return None
    return np.full(tuple(values[0]), values[1])


def _computed(op: Any, depth: int) -> np.ndarray | None:
    """What the kernel of a pure op gives; None where it fails, so that the step fails, and only if it gets there."""
    dtype = op.outputs[0].dtype
    if not dtype.is_integer:
        return None
    values = _inputs(op, depth)
    if values is None or any(v.size > _FEW for v in values):
        return None
    definition = lookup(op.type)
    kernel = definition.kernel_of(op.node_def, None)
    assert kernel is not None
    try:
        return np.asarray(kernel(*values), dtype.np_dtype)
    except OpError:
        return None


_FEW = 4096  # elements that are computed with while a graph is built
_OF_SIZES = (
    "Add", "Sub", "Mul", "Neg", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Max", "Min", "Sum", "Prod",
    "StridedSlice", "Slice", "GatherV2", "Reshape", "ExpandDims", "Squeeze",
)  # fmt: skip
_CONSTANT = {
    "Shape": _of_shape,
    "Size": _of_size,
    "Rank": _of_rank,
    "Range": _of_range,
    "Pack": _of_pack,
    "ConcatV2": _of_concat,
    "Cast": _of_cast,
    "Fill": _of_fill,
    **dict.fromkeys(_OF_SIZES, _computed),
}


def value_as_shape(tensor: Tensor) -> TensorShape:
    """The shape that an integer vector describes, as far as it is known: for [tf.shape(x)[0], 10] it is [?, 10]."""
    op = tensor.op
    value = constant_value(tensor)
    if value is not None:
        if value.ndim == 0:
            if int(value) == -1:
                return UNKNOWN
            raise ValueError(f"A shape must be a vector of integers, not the scalar {value}.")
        return TensorShape([None if int(d) < 0 else int(d) for d in value])
    kind = op.type
    if kind == "Shape":
        return op.inputs[0].shape
    if kind == "Cast":
        return value_as_shape(op.inputs[0])
    if kind == "Pack" and op.attrs["axis"] == 0:
        return TensorShape([_size_or_none(t) for t in op.inputs])
    if kind == "ConcatV2":
        whole = TensorShape(())
        for piece in op.inputs[:-1]:
            whole = whole.concatenate(value_as_shape(piece))
        return whole
    if kind == "StridedSlice" and dims(op.inputs[0]) is not None:
        part = _slice_of_shape(op)
        if part is not None:
            return part
    count = dims(tensor)
    return UNKNOWN if not count or count[0] is None else TensorShape([None] * count[0])


def _size_or_none(tensor: Tensor) -> int | None:
    """The non-negative integer that a scalar will be, if known; looks through tf.shape(x)[i]."""
    value = constant_value(tensor)
    if value is not None:
        return None if int(value) < 0 else int(value)
    op = tensor.op
    if op.type == "StridedSlice" and op.attrs["shrink_axis_mask"] == 1:
        begin = constant_value(op.inputs[1])
        whole = value_as_shape(op.inputs[0]).dims_or_none
        if begin is not None and begin.size == 1 and whole is not None and -len(whole) <= int(begin[0]) < len(whole):
            return whole[int(begin[0])]
    return None


def _slice_of_shape(op: Any) -> TensorShape | None:
    bounds = _inputs(op, first=1, last=4)
    if bounds is None or any(b.size != 1 for b in bounds):
        return None
    if op.attrs["shrink_axis_mask"] or op.attrs["new_axis_mask"] or op.attrs["ellipsis_mask"]:
        return None
    whole = value_as_shape(op.inputs[0]).dims_or_none
    if whole is None:
        return None
    begin = None if op.attrs["begin_mask"] & 1 else int(bounds[0][0])
    end = None if op.attrs["end_mask"] & 1 else int(bounds[1][0])
    return TensorShape(whole[slice(begin, end, int(bounds[2][0]))])
