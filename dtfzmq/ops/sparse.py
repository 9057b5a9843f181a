"""Public functions of sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor, get_default_graph
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.sparse import SparseTensor, SparseTensorValue
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops import sparse_index
from dtfzmq.ops.array import concat, reshape
from dtfzmq.ops.constants import placeholder
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.samples import ints
from dtfzmq.ops.sets import setdiff1d
from dtfzmq.ops.slicing import boolean_mask, gather

_SPARSE_OPS = sparse_index  # declares what is used here by name


def as_sparse(value: Any) -> SparseTensor:
    """A SparseTensor of itself or of a SparseTensorValue. Raises TypeError for anything else."""
    return SparseTensor.from_value(value)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A SparseTensor as it is (of a SparseTensorValue, made), else a tensor. Raises RuntimeError for another dtype."""
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise RuntimeError(f"Sparse dtype mismatch. Requested: {dtype} Actual: {value.dtype.name}")
        return value
    return convert_to_tensor(value, dtype=dtype, name=name)


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor that must be fed, by a SparseTensorValue or a tuple of indices, values and shape.

    With a `shape` that is known whole, the shape is a constant; one fed must agree in rank.
    """
    prefix = f"{name}/" if name else ""
    known = None if shape is None else as_shape(shape)
    rank = None if known is None else known.ndims
    if known is not None and known.is_fully_defined():
        whole: Any = convert_to_tensor(np.array(known.as_list(), np.int64), name=f"{prefix}shape" if name else None)
    else:
        whole = placeholder(dtypes.int64, [rank], name=f"{prefix}shape" if name else None)
    values = placeholder(dtype, [None], name=f"{prefix}values" if name else None)
    indices = placeholder(dtypes.int64, [None, rank], name=f"{prefix}indices" if name else None)
    return SparseTensor(indices, values, whole)


def sparse_to_dense(
    sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = 0, validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """A tensor of `default_value` with `sparse_values` (a vector or one for all) at the indices.

    Indices: a scalar, a vector or rows of a matrix. The step fails with InvalidArgumentError if one is out of bounds,
    or, if `validate_indices`, out of order or repeated.
    """
    values = convert_to_tensor(sparse_values)
    indices = convert_to_tensor(sparse_indices, preferred_dtype=dtypes.int32)
    shape = convert_to_tensor(output_shape, dtype=None if isinstance(output_shape, Tensor) else indices.dtype)
    if shape.dtype.base_dtype is not indices.dtype.base_dtype:
        shape = raw.Cast(shape, DstT=indices.dtype.base_dtype)
    default = convert_to_tensor(default_value, dtype=values.dtype.base_dtype)
    return raw.SparseToDense(indices, shape, values, default, validate_indices=validate_indices, name=name)


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """The dense tensor; `default_value` (zero, the empty string) where there is no element."""
    sp = as_sparse(sp_input)
    if default_value is None:
        default_value = b"" if sp.dtype.base_dtype is dtypes.string else np.zeros((), sp.dtype.base_dtype.np_dtype)
    return sparse_to_dense(sp.indices, sp.dense_shape, sp.values, default_value, validate_indices, name)


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The elements of a tensor that are not zero."""
    tensor = convert_to_tensor(tensor)
    with tensor.graph.name_scope(name or "dense_to_sparse"):
        zero = np.array(b"", object) if tensor.dtype.base_dtype is dtypes.string else raw.ZerosLike(tensor)
        indices = raw.Where(raw.NotEqual(tensor, zero))
        return SparseTensor(indices, raw.GatherNd(tensor, indices), raw.Shape(tensor, out_type=dtypes.int64))


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """The product of a sparse and a dense matrix, in either order: the dense one may come first."""
    if isinstance(b, (SparseTensor, SparseTensorValue)):
        turned = sparse_tensor_dense_matmul(b, sp_a, adjoint_a=not adjoint_b, adjoint_b=not adjoint_a, name=name)
        return raw.Transpose(turned, ints(1, 0))
    sp = as_sparse(sp_a)
    return raw.SparseTensorDenseMatMul(
        sp.indices, sp.values, sp.dense_shape, convert_to_tensor(b, name="b"), adjoint_a=adjoint_a,
        adjoint_b=adjoint_b, name=name,
    )  # fmt: skip


def chosen(values: Tensor, where: Tensor) -> Tensor:
    """The values at some places. The axis is not the first, so that the gradient is dense."""
    return reshape(gather(reshape(values, [1, -1]), where, axis=1), [-1])


def reordered(indices: Tensor, values: Tensor, shape: Tensor) -> SparseTensor:
    """A SparseTensor of elements in any order."""
    order = raw.SparseOrder(indices)
    return SparseTensor(gather(indices, order), chosen(values, order), shape)


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The same elements in row-major order."""
    sp = as_sparse(sp_input)
    with sp.graph.name_scope(name or "SparseReorder"):
        return reordered(_checked(sp), sp.values, sp.dense_shape)


def _checked(sp: SparseTensor, sized: bool = False) -> Tensor:
    """The indices, once they are known to go with the values and the shape; `sized`: with sizes that can be."""
    whole: Tensor = raw.SparseChecked(sp.indices, sp.values, sp.dense_shape, sized=sized)
    return whole


def _merged(a: SparseTensor, b: SparseTensor, join: Any) -> SparseTensor:
    """Both over the union of their indices; `join` takes the values of each there, with zeros."""
    indices, at_a, at_b = raw.SparseUnion(_checked(a, True), _checked(b, True), a.dense_shape, b.dense_shape)
    count = raw.Shape(indices)[0]
    mine = raw.UnsortedSegmentSum(a.values, at_a, count)
    yours = raw.UnsortedSegmentSum(b.values, at_b, count)
    return SparseTensor(indices, join(mine, yours), a.dense_shape)


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """The sum: of two sparse tensors a sparse one, without elements smaller than `threshold`; else a dense one."""
    limit = one_of("threshold", threshold, "thresh", thresh)
    if isinstance(a, SparseTensorValue):
        a = as_sparse(a)
    if isinstance(b, SparseTensorValue):
        b = as_sparse(b)
    both = isinstance(a, SparseTensor), isinstance(b, SparseTensor)
    if not any(both):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if all(both):
        total = _merged(a, b, lambda x, y: x + y)
        if limit is None or not isinstance(limit, Tensor) and limit == 0:
            return total
        kind = total.dtype.base_dtype.real_dtype
        large = raw.GreaterEqual(abs(total.values), convert_to_tensor(limit, dtype=kind))
        where = reshape(raw.Where(large), [-1])
        return SparseTensor(gather(total.indices, where), chosen(total.values, where), total.dense_shape)
    sp, dense = (a, b) if both[0] else (b, a)
    dense = convert_to_tensor(dense, dtype=None if isinstance(dense, Tensor) else sp.dtype.base_dtype)
    return dense + raw.ScatterNd(sp.indices, sp.values, sp.dense_shape)


def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The larger of both at each index that either has; a missing element counts as zero."""
    a, b = as_sparse(sp_a), as_sparse(sp_b)
    with a.graph.name_scope(name or "SparseSparseMaximum"):
        return _merged(a, b, raw.Maximum)


def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The smaller of both at each index that either has; a missing element counts as zero."""
    a, b = as_sparse(sp_a), as_sparse(sp_b)
    with a.graph.name_scope(name or "SparseSparseMinimum"):
        return _merged(a, b, raw.Minimum)


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The elements for which the boolean vector `to_retain` is true."""
    sp = as_sparse(sp_input)
    keep = convert_to_tensor(to_retain)
    keep.shape.assert_has_rank(1)
    keep.shape.assert_is_compatible_with(sp.values.shape)
    where = reshape(raw.Where(keep), [-1])
    return SparseTensor(gather(sp.indices, where), gather(sp.values, where), sp.dense_shape)


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The part of `size` from `start` on, with what sticks out cut off."""
    sp = as_sparse(sp_input)
    with sp.graph.name_scope(name or "SparseSlice"):
        start = convert_to_tensor(start, dtype=dtypes.int64)
        size = convert_to_tensor(size, dtype=dtypes.int64)
        indices = _checked(sp, True)
        inside = raw.SparseInside(indices, start, size)
        rest = raw.Maximum(sp.dense_shape - start, np.int64(0))
        return SparseTensor(
            gather(indices, inside) - start, chosen(sp.values, inside), raw.Minimum(size, rest)
        )


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same elements in another shape; one size may be -1."""
    sp = as_sparse(sp_input)
    wanted = convert_to_tensor(shape, dtype=None if isinstance(shape, Tensor) else dtypes.int64)
    wanted = wanted if wanted.dtype.base_dtype is dtypes.int64 else raw.Cast(wanted, DstT=dtypes.int64)
    indices, whole = raw.SparseReshape(sp.indices, sp.dense_shape, wanted, name=name)
    known, value = sp.shape, constant_value(wanted)
    if known.is_fully_defined() and value is not None:
        new = [int(v) for v in value]
        total = int(known.num_elements() or 0)
        rest = int(np.prod([d for d in new if d != -1], dtype=np.int64))
        if -1 in new and rest and total % rest == 0:
            new[new.index(-1)] = total // rest
        if -1 not in new:
            if int(np.prod(new, dtype=np.int64)) != total:
                raise ValueError(f"Cannot reshape a tensor with {total} elements to shape {new}.")
            whole = convert_to_tensor(np.array(new, np.int64))
    return SparseTensor(indices, sp.values, whole)


def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """A new axis of size 1 at `axis` (the last, if not given)."""
    sp = as_sparse(sp_input)
    with sp.graph.name_scope(name or "expand_dims"):
        rank = rank_of(sp)
        at = int(rank if axis is None else axis)
        if not -rank - 1 <= at <= rank:
            raise ValueError(f"axis {axis} is out of range for a tensor of rank {rank}.")
        at = at + rank + 1 if at < 0 else at
        column = raw.ZerosLike(sp.indices[:, :1])
        indices = concat([sp.indices[:, :at], column, sp.indices[:, at:]], 1)
        shape = concat([sp.dense_shape[:at], np.array([1], np.int64), sp.dense_shape[at:]], 0)
        return SparseTensor(indices, sp.values, shape)


def rank_of(sp: SparseTensor) -> int:
    """The static rank. Raises ValueError if it is not known."""
    known: Any = dims(sp.indices) or (None, None)
    rank = known[1] if sp.shape.ndims is None else sp.shape.ndims
    if rank is None:
        raise ValueError(f"The rank of {sp} must be known while the graph is built.")
    return int(rank)


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """The axes in another order; reversed if `perm` is not given."""
    sp = as_sparse(sp_input)
    with sp.graph.name_scope(name or "SparseTranspose"):
        order = np.arange(rank_of(sp))[::-1].astype(np.int32) if perm is None else convert_to_tensor(perm)
        return reordered(gather(sp.indices, order, axis=1), sp.values, gather(sp.dense_shape, order))


def sparse_concat(
    axis: int, sp_inputs: Sequence[Any], name: str | None = None, expand_nonconcat_dim: bool = False,
    concat_dim: Any = None, expand_nonconcat_dims: Any = None,
) -> SparseTensor:  # fmt: skip
    """One after the other along an axis. Other axes must agree, or become the longest if expand_nonconcat_dim.

    As in TensorFlow, gradients end here.
    """
    if concat_dim is not None:
        axis = concat_dim
    expand = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    parts = [as_sparse(x) for x in sp_inputs]
    if len(parts) == 1:
        return parts[0]
    with parts[0].graph.name_scope(name or "SparseConcat"):
        rank = rank_of(parts[0])
        at = int(axis) % rank
        shapes = raw.Pack([p.dense_shape for p in parts], axis=0)
        column = np.eye(rank, dtype=np.int64)[at]
        moved, offset = [], None
        for p in parts:
            moved.append(p.indices if offset is None else p.indices + raw.ExpandDims(offset * column, 0))
            offset = p.dense_shape[at] if offset is None else offset + p.dense_shape[at]
        longest = raw.Max(shapes, ints(0))
        if not expand:
            longest = _same_beside(parts, longest, at)
        whole = longest * (1 - column) + offset * column
        known = [p.shape.dims_or_none for p in parts]
        if all(k is not None and None not in k for k in known):
            fixed = [max(k[i] for k in known) for i in range(rank)]  # type: ignore[index,type-var]  # all known
            fixed[at] = sum(k[at] for k in known)  # type: ignore[index,misc]  # all known
            whole = convert_to_tensor(np.array(fixed, np.int64))
        values = raw.StopGradient(concat([p.values for p in parts], 0))
        return reordered(concat(moved, 0), values, whole)


def _same_beside(parts: list[SparseTensor], longest: Tensor, at: int) -> Tensor:
    """`longest`, once it is checked that the parts agree in all axes but `at`."""
    first = parts[0].shape
    for p in parts[1:]:
        for i, (a, b) in enumerate(zip(first.dims_or_none or (), p.shape.dims_or_none or ())):
            if i != at and a is not None and b is not None and a != b:
                raise ValueError(f"Input shapes should match except in the axis of concatenation: {first}, {p.shape}")
    checks = []
    others = np.array([i for i in range(rank_of(parts[0])) if i != at], np.int32)
    for p in parts:
        same = raw.All(raw.Equal(gather(p.dense_shape, others), gather(longest, others)), ints(0))
        text = "Input shapes should match except in the axis of concatenation, but one is"
        checks.append(raw.Assert(same, [convert_to_tensor(text), p.dense_shape]))
    with get_default_graph().control_dependencies(checks):
        return raw.Identity(longest)


class KeywordRequired:
    """Stands at the front of arguments that must be given by keyword."""

    def __repr__(self) -> str:
        return "KeywordRequired()"


_KEYWORD = KeywordRequired()


def sparse_split(
    keyword_required: Any = _KEYWORD, sp_input: Any = None, num_split: int | None = None, axis: Any = None,
    name: str | None = None, split_dim: Any = None,
) -> list[SparseTensor]:  # fmt: skip
    """`num_split` parts along an axis; the first are one longer if it does not divide evenly."""
    if not isinstance(keyword_required, KeywordRequired):
        raise ValueError("Keyword arguments are required for this function.")
    axis = one_of("axis", axis, "split_dim", split_dim)
    if sp_input is None or num_split is None or axis is None:
        raise ValueError("sp_input, num_split and axis are required")
    sp = as_sparse(sp_input)
    with sp.graph.name_scope(name or "SparseSplit"):
        rank = rank_of(sp)
        column = np.eye(rank, dtype=np.int64)[int(axis) % rank]
        size = sp.dense_shape[int(axis) % rank]
        base, more = raw.FloorDiv(size, np.int64(num_split)), raw.FloorMod(size, np.int64(num_split))
        out = []
        for i in range(num_split):
            start = base * np.int64(i) + raw.Minimum(more, np.int64(i))
            length = base + raw.Cast(raw.Less(np.int64(i), more), DstT=dtypes.int64)
            out.append(sparse_slice(sp, start * column, sp.dense_shape * (1 - column) + length * column))
        return out


def sparse_fill_empty_rows(
    sp_input: Any, default_value: Any, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """With an element [row, 0, ...] = default_value in each empty row; and which rows were empty."""
    sp = as_sparse(sp_input)
    default = convert_to_tensor(default_value, dtype=sp.dtype.base_dtype)
    indices, values, empty, _ = raw.SparseFillEmptyRows(sp.indices, sp.values, sp.dense_shape, default, name=name)
    return SparseTensor(indices, values, sp.dense_shape), empty


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """The same elements in a larger shape of the same rank, or in the smallest that holds them."""
    sp = as_sparse(sp_input)
    if new_shape is None:
        tight = raw.Maximum(raw.Max(sp.indices, ints(0)) + 1, np.int64(0))
        return SparseTensor(sp.indices, sp.values, tight)
    wanted = convert_to_tensor(new_shape, dtype=dtypes.int64)
    wanted.shape.assert_is_compatible_with(sp.dense_shape.shape)
    known = constant_value(wanted)
    if known is not None and any(d is not None and d > n for d, n in zip(sp.shape.dims_or_none or (), known)):
        raise ValueError(f"The new shape must be at least as large in every axis as {sp.shape}, not {known.tolist()}.")
    text = convert_to_tensor("The new shape must be at least as large in every axis as")
    check = raw.Assert(raw.All(raw.LessEqual(sp.dense_shape, wanted), ints(0)), [text, sp.dense_shape])
    with get_default_graph().control_dependencies([check]):
        whole = raw.Identity(wanted) if known is None else wanted
        return SparseTensor(raw.Identity(sp.indices), sp.values, whole)


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The softmax over the elements that are there, in each row of the last axis."""
    sp = as_sparse(sp_input)
    with sp.graph.name_scope(name or "SparseSoftmax"):
        rows, count = raw.SparseGroups(sp.indices, sp.dense_shape)
        top = raw.StopGradient(raw.UnsortedSegmentMax(sp.values, rows, count))
        e = raw.Exp(sp.values - gather(top, rows))
        return SparseTensor(sp.indices, e / gather(raw.UnsortedSegmentSum(e, rows, count), rows), sp.dense_shape)


def sparse_eye(
    num_rows: Any, num_columns: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> SparseTensor:
    """The identity matrix. The sizes must be known while building."""
    rows, columns = int(num_rows), int(num_rows if num_columns is None else num_columns)
    size = min(rows, columns)
    indices = np.repeat(np.arange(size, dtype=np.int64)[:, None], 2, 1)
    values = np.ones(size, dtypes.as_dtype(dtype).np_dtype)
    with get_default_graph().name_scope(name or "eye"):
        return SparseTensor(indices, values, np.array([rows, columns], np.int64))


def sparse_mask(a: IndexedSlices, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """The slices whose index is not in `mask_indices`."""
    values, indices = convert_to_tensor(a.values), convert_to_tensor(a.indices)
    with values.graph.name_scope(name or "sparse_mask"):
        kept, places = setdiff1d(indices, convert_to_tensor(mask_indices, dtype=indices.dtype.base_dtype))
        return IndexedSlices(gather(values, places, name=name), kept, a.dense_shape)


def sparse_boolean_mask(sp_input: Any, mask: Any) -> SparseTensor:
    """sparse_retain by a boolean vector, under the name of its dense twin."""
    sp = as_sparse(sp_input)
    return SparseTensor(boolean_mask(sp.indices, mask), boolean_mask(sp.values, mask), sp.dense_shape)
