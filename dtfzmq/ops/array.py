"""Shapes and their change: shape, reshape, transpose, concat, split, stack, tile, broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.base.shapes import broadcast as broadcast_shapes
from dtfzmq.graph.convert import convert_to_tensor, register_tensor_conversion_function
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.graph.static import dims, full_dims
from dtfzmq.ops import joining, shaping
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of

_OPS = joining, shaping  # declare what is used here by name


def shape(input: Any, name: str | None = None, out_type: Any = None, optimize: bool = True) -> Tensor:
    """The shape as a vector of int32 (or `out_type`); a constant if it is known while building."""
    return _sizes(raw.Shape, input, name or "Shape", out_type, optimize)


def size(input: Any, name: str | None = None, out_type: Any = None, optimize: bool = True) -> Tensor:
    """The number of elements, as int32 (or `out_type`)."""
    return _sizes(raw.Size, input, name or "Size", out_type, optimize)


def _sizes(builder: Any, x: Any, name: str, out_type: Any, optimize: bool) -> Tensor:
    to = dtypes.int32 if out_type is None else dtypes.as_dtype(out_type)
    if isinstance(x, SparseTensor):
        whole = x.dense_shape if builder is raw.Shape else raw.Prod(x.dense_shape, np.array([0], np.int32))
        return raw.Cast(whole, DstT=to, name=name)
    x = convert_to_tensor(x)
    known = full_dims(x)
    if optimize and known is not None:
        value = known if builder is raw.Shape else int(np.prod(known, dtype=np.int64))
        return convert_to_tensor(np.array(value, to.np_dtype), name=name)
    return builder(x, out_type=to, name=name)


def shape_n(input: Sequence[Any], out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors."""
    return list(raw.ShapeN(list(input), out_type=dtypes.as_dtype(out_type), name=name))


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of axes."""
    if isinstance(input, SparseTensor):
        return size(input.dense_shape, name=name or "Rank")
    x = convert_to_tensor(input)
    known = dims(x)
    if known is not None:
        return convert_to_tensor(np.array(len(known), np.int32), name=name or "Rank")
    return raw.Rank(x, name=name)


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1. Raises ValueError if the counts are known to differ."""
    return raw.Reshape(tensor, int_vector(shape), name=name)


def int_vector(value: Any) -> Any:
    """Lists of ints, Dimensions and scalar tensors as something that converts to an integer vector."""
    if isinstance(value, TensorShape) and value.is_fully_defined():  # any other is refused where it is converted
        value = value.as_list()
    if isinstance(value, (list, tuple)):
        if any(isinstance(v, Tensor) for v in value):
            kinds = {v.dtype.base_dtype for v in value if isinstance(v, Tensor)}
            return raw.Pack(
                [v if isinstance(v, Tensor) else np.array(int(v), next(iter(kinds)).np_dtype) for v in value]
            )
        if all(hasattr(v, "__index__") for v in value):
            wide = any(int(v) > 2**31 - 1 for v in value)
            return np.array([int(v) for v in value], np.int64 if wide else np.int32)
    return value


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """The axes in another order; reversed if `perm` is not given."""
    a = convert_to_tensor(a, name="a")
    if conjugate and a.dtype.is_complex:
        a = raw.Conj(a)
    if perm is None:
        known = dims(a)
        if known is not None:
            perm = np.arange(len(known) - 1, -1, -1, dtype=np.int32)
        else:
            last = raw.Rank(a)
            perm = last - 1 - raw.Range(0, last, 1)
    return raw.Transpose(a, int_vector(perm), name=name)


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """The last two axes swapped (and the conjugate). ValueError for less than two."""
    a = convert_to_tensor(a)
    rank = a.shape.ndims
    if rank is not None and rank < 2:
        raise ValueError(f"Argument `a` should be a (batch) matrix with rank >= 2, not {a.shape}.")
    with a.graph.name_scope(name) as scope:
        if rank is None:
            count = raw.Rank(a)
            order = raw.ConcatV2([raw.Range(0, count - 2, 1), raw.Pack([count - 1, count - 2], axis=0)], 0)
        else:
            order = np.array([*range(rank - 2), rank - 1, rank - 2], np.int32)
        if conjugate and a.dtype.is_complex:
            return raw.Conj(raw.Transpose(a, order), name=scope)
        return raw.Transpose(a, order, name=scope)


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """The permutation that undoes x."""
    return raw.InvertPermutation(x, name=name)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """A new axis of size 1 before `axis` (-1: at the end)."""
    axis = one_of("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return raw.ExpandDims(input, axis, name=name)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Without axes of size 1: all of them, or those in `axis`."""
    axis = one_of("axis", axis, "squeeze_dims", squeeze_dims)
    axes = [] if axis is None else [axis] if isinstance(axis, (int, np.integer)) else list(axis)
    return raw.Squeeze(input, squeeze_dims=axes, name=name)


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Tensors joined along an axis. The order of before 1.0, concat(axis, values), is understood too."""
    if isinstance(values, (int, np.integer)) and isinstance(axis, (list, tuple, Tensor)):
        values, axis = axis, values
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        return raw.Identity(convert_to_tensor(values[0]), name=name)
    return raw.ConcatV2(list(values), axis if isinstance(axis, Tensor) else np.int32(axis), name=name)


def split(
    value: Any, num_or_size_splits: Any = None, axis: Any = 0, num: int | None = None, name: str = "split",
    split_dim: Any = None, num_split: Any = None,
) -> list[Tensor]:  # fmt: skip
    """Pieces along an axis: a number of equal ones, or one for each size in a list (-1: the rest).

    The order of before 1.0, split(axis, number, value), is understood too.
    """
    if isinstance(value, int) and isinstance(num_or_size_splits, int) and not isinstance(axis, int):
        value, num_or_size_splits, axis = axis, num_or_size_splits, value
    num_or_size_splits = one_of("num_or_size_splits", num_or_size_splits, "num_split", num_split)
    axis = axis if split_dim is None else split_dim
    if not isinstance(axis, Tensor):
        axis = np.int32(axis)
    if isinstance(num_or_size_splits, (int, np.integer)):
        return list(raw.Split(axis, value, num_split=int(num_or_size_splits), name=name))
    sizes = convert_to_tensor(int_vector(num_or_size_splits))
    if num is None:
        known = dims(sizes)
        if known is None or len(known) != 1 or known[0] is None:
            raise ValueError(f"Cannot infer num from shape {num_or_size_splits}")
        num = known[0]
    return list(raw.SplitV(value, sizes, axis, num_split=num, name=name))


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape along a new axis."""
    if axis == 0 and not isinstance(values, Tensor):
        items = list(values) if isinstance(values, (list, tuple)) else values
        if not isinstance(items, list) or not any(isinstance(v, Tensor) for v in items):
            try:
                return convert_to_tensor(items, name=name)
            except (TypeError, ValueError):
                pass
    if isinstance(values, Tensor):
        if axis == 0:
            return values
        raise TypeError(f"Expected list for 'values' argument to 'pack' Op, not {values}.")
    return raw.Pack(list(values), axis=axis, name=name)


def pack(values: Any, axis: int = 0, name: str = "pack") -> Tensor:
    """`stack` under its name of before 1.0."""
    return stack(values, axis, name)


def parallel_stack(values: Any, name: str = "parallel_stack") -> Tensor:
    """Tensors of one shape along a new first axis."""
    return stack(values, 0, name)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """The pieces along an axis, without it. Raises ValueError if their number is not known and not given."""
    value = convert_to_tensor(value)
    if num is None:
        known = dims(value)
        if known is not None and not -len(known) <= axis < len(known):
            raise ValueError(f"axis = {axis} not in [{-len(known)}, {len(known)})")
        if known is None or known[axis] is None:
            raise ValueError(f"Cannot infer num from shape {value.shape}")
        num = known[axis]
    return list(raw.Unpack(value, num=num, axis=axis, name=name))


unpack = unstack


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeated `multiples[i]` times along axis i."""
    return raw.Tile(input, int_vector(multiples), name=name)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeated to a shape, by the rules of broadcasting."""
    return raw.BroadcastTo(input, int_vector(shape), name=name)


def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """The static shape of x combined with y. Raises ValueError if they cannot be."""
    return broadcast_shapes(as_shape(shape_x), as_shape(shape_y))


def _is_symbolic(value: Any) -> bool:
    return isinstance(getattr(value, "dtype", None), DType)


def _has_tensor(value: Any) -> bool:
    stack = list(value)
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(item)
        elif _is_symbolic(item):
            return True
    return False


def _element_type(value: Any) -> DType | None:
    for item in value:
        found = item.dtype.base_dtype if _is_symbolic(item) else None
        if found is None and isinstance(item, (list, tuple)):
            found = _element_type(item)
        if found is not None:
            return found
    return None


def _packed(value: Any, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Any:
    """Lists in which tensors stand are stacked, at every depth."""
    if not _has_tensor(value):
        return NotImplemented
    kind = dtype or _element_type(value)
    parts = [convert_to_tensor(item, None if isinstance(item, Tensor) else kind) for item in value]
    return raw.Pack(parts, axis=0, name=name or "packed")


register_tensor_conversion_function((list, tuple), _packed, 99)
