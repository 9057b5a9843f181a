"""Reductions of sparse tensors, and elements by the ids that others hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.graph.static import constant_value
from dtfzmq.ops.array import concat, reshape
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of, reduce_sum
from dtfzmq.ops.slicing import gather
from dtfzmq.ops.sparse import as_sparse, from_dense, rank_of, reordered, sparse_tensor_to_dense


def _reduced(
    sp_input: Any, axis: Any, keepdims: Any, reduction_axes: Any, keep_dims: Any
) -> tuple[SparseTensor, list[int], bool]:
    sp = as_sparse(sp_input)
    axis = one_of("axis", axis, "reduction_axes", reduction_axes)
    rank = rank_of(sp)
    if isinstance(axis, Tensor):
        axis = constant_value(axis)
    axes = range(rank) if axis is None else np.asarray(axis).reshape(-1).tolist()
    for a in axes:
        if not -rank <= a < rank:
            raise ValueError(f"Invalid reduction dimension {a}, for input with {rank} dimensions.")
    return sp, sorted({a % rank for a in axes}), bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))


def sparse_reduce_sum(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The dense tensor of sums over `axis` (all axes if None)."""
    sp, axes, keep = _reduced(sp_input, axis, keepdims, reduction_axes, keep_dims)
    rank = rank_of(sp)
    kept = np.array([i for i in range(rank) if i not in axes], np.int32)
    if not len(kept):
        total = reduce_sum(sp.values)
        return reshape(total, [1] * rank) if keep else total
    out = raw.ScatterNd(gather(sp.indices, kept, axis=1), sp.values, gather(sp.dense_shape, kept))
    for a in axes if keep else ():
        out = raw.ExpandDims(out, a)
    known = sp.shape.dims_or_none
    if known is not None:
        out.set_shape([(1 if i in axes else d) for i, d in enumerate(known) if keep or i not in axes])
    return out


def sparse_reduce_max(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The dense tensor of the largest elements over `axis`; 0 where there is none. No gradient."""
    sp, axes, keep = _reduced(sp_input, axis, keepdims, reduction_axes, keep_dims)
    return raw.SparseReduceMax(sp.indices, sp.values, sp.dense_shape, np.array(axes, np.int32), keep_dims=keep)


def sparse_reduce_sum_sparse(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """sparse_reduce_sum as a sparse tensor."""
    return from_dense(sparse_reduce_sum(sp_input, axis, keepdims, reduction_axes, keep_dims))


def sparse_reduce_max_sparse(
    sp_input: Any, axis: Any = None, keepdims: bool | None = None, reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """sparse_reduce_max as a sparse tensor."""
    return from_dense(sparse_reduce_max(sp_input, axis, keepdims, reduction_axes, keep_dims))


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """The values at the last index that `sp_ids` (one, or a list for several axes) gives for each element."""
    ids = [as_sparse(x) for x in (sp_ids if isinstance(sp_ids, list) else [sp_ids])]
    sizes = vocab_size if isinstance(vocab_size, list) else [vocab_size]
    values = as_sparse(sp_values)
    if len(ids) != len(sizes):
        raise ValueError(f"sp_ids and vocab_size have to have equal lengths, {len(ids)} != {len(sizes)}.")
    with values.graph.name_scope(name or "SparseMerge"):
        columns = [raw.ExpandDims(raw.Cast(x.values, DstT=dtypes.int64), 1) for x in ids]
        indices = concat([ids[0].indices[:, :-1], *columns], 1)
        ends = [
            raw.Cast(raw.ExpandDims(s, 0), DstT=dtypes.int64) if isinstance(s, Tensor) else np.array([s], np.int64)
            for s in sizes
        ]
        shape = concat([ids[0].dense_shape[:-1], *ends], 0)
        if already_sorted:
            return SparseTensor(indices, values.values, shape)
        return reordered(indices, values.values, shape)


def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """A dense boolean tensor whose last axis says which of `vocab_size` numbers occur as values."""
    sp = as_sparse(sp_input)
    with sp.graph.name_scope(name or "SparseToIndicator"):
        true = SparseTensor(sp.indices, raw.OnesLike(raw.Cast(sp.values, DstT=dtypes.bool_)), sp.dense_shape)
        merged = sparse_merge(sp, true, vocab_size)
        return sparse_tensor_to_dense(merged, False, validate_indices=False)
