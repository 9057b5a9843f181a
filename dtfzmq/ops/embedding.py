"""Rows of embeddings put together per row of sparse ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops.nn import embedding_lookup
from dtfzmq.ops.raw import raw
from dtfzmq.ops.segments import segment_sum, sparse_segment_mean, sparse_segment_sqrt_n, sparse_segment_sum
from dtfzmq.ops.sparse import sparse_fill_empty_rows, sparse_reshape, sparse_retain

_COMBINED = {"sum": sparse_segment_sum, "mean": sparse_segment_mean, "sqrtn": sparse_segment_sqrt_n}


def _parts(params: Any) -> list[Any]:
    parts = list(params) if isinstance(params, (list, tuple)) or hasattr(params, "_get_variable_list") else [params]
    if not parts:
        raise ValueError("Missing embedding weights: params is empty.")
    return parts


def _combiner(combiner: str | None) -> str:
    if combiner not in (None, *_COMBINED):
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    return combiner or "mean"


def embedding_lookup_sparse(
    params: Any, sp_ids: Any, sp_weights: Any, partition_strategy: str = "mod", name: str | None = None,
    combiner: str | None = None, max_norm: float | None = None,
) -> Tensor:  # fmt: skip
    """For each row of the sparse ids, the rows of `params` that it names, combined: their "mean", "sum" or "sqrtn".

    With `sp_weights` the sum is weighted; "mean" divides by the sum of the weights, "sqrtn" by the root of the sum of
    their squares. Every row must name an id (see safe_embedding_lookup_sparse). Raises TypeError for ids that are not
    a SparseTensor, ValueError for another combiner.
    """
    combiner = _combiner(combiner)
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(sp_ids).__name__}.")
    if sp_weights is not None and not isinstance(sp_weights, SparseTensor):
        raise TypeError(f"sp_weights must be either None or SparseTensor, got {type(sp_weights).__name__}.")
    parts = _parts(params)
    with sp_ids.values.graph.name_scope(name or "embedding_lookup_sparse") as scope:
        segments = raw.Cast(sp_ids.indices[:, 0], DstT=dtypes.int32)
        ids, index = raw.Unique(sp_ids.values)
        rows = embedding_lookup(parts, ids, partition_strategy=partition_strategy, max_norm=max_norm)
        if sp_weights is None:
            return _COMBINED[combiner](rows, index, segments, name=scope)
        weights = sp_weights.values
        kind = rows.dtype.base_dtype
        if weights.dtype.base_dtype is not kind:
            weights = raw.Cast(weights, DstT=kind)
        each = raw.GatherV2(rows, index, 0)
        ones = np.ones(max((rows.shape.ndims or 2) - 1, 0), np.int32)
        spread = raw.Reshape(weights, np.array([-1, *ones], np.int32))
        total = segment_sum(each * spread, segments, name=scope if combiner == "sum" else None)
        if combiner == "sum":
            return total
        if combiner == "mean":
            return raw.DivNoNan(total, segment_sum(spread, segments), name=scope)
        return raw.DivNoNan(total, raw.Sqrt(segment_sum(raw.Square(spread), segments)), name=scope)


def safe_embedding_lookup_sparse(
    embedding_weights: Any, sparse_ids: Any, sparse_weights: Any = None, combiner: str | None = "mean",
    default_id: int | None = None, name: str | None = None, partition_strategy: str = "div",
    max_norm: float | None = None,
) -> Tensor:  # fmt: skip
    """embedding_lookup_sparse that leaves out ids below 0 and ids of weights not above 0.

    A row without ids gives the row of `default_id`, or zeros. Ids may be of more than two axes; the last one is
    combined.
    """
    combiner = _combiner(combiner)
    parts = _parts(embedding_weights)
    with sparse_ids.values.graph.name_scope(name or "embedding_lookup"):
        shape = sparse_ids.dense_shape
        lead = shape[:-1]
        flat = raw.Pack([raw.Prod(lead, np.array([0], np.int32)), shape[-1]], axis=0)
        ids = sparse_reshape(sparse_ids, flat)
        keep = raw.GreaterEqual(ids.values, convert_to_tensor(0, ids.values.dtype))
        weights = None
        if sparse_weights is not None:
            weights = SparseTensor(ids.indices, sparse_weights.values, ids.dense_shape)
            if combiner != "sum":
                keep = raw.LogicalAnd(keep, raw.Greater(weights.values, convert_to_tensor(0, weights.values.dtype)))
            weights = sparse_retain(weights, keep)
        ids, empty = sparse_fill_empty_rows(sparse_retain(ids, keep), default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        found = embedding_lookup_sparse(parts, ids, weights, partition_strategy, None, combiner, max_norm)
        if default_id is None:
            column = raw.Cast(raw.Reshape(empty, np.array([-1, 1], np.int32)), DstT=found.dtype.base_dtype)
            found = found * (1 - column)
        sizes = raw.ConcatV2([raw.Cast(lead, DstT=dtypes.int32), raw.Shape(found)[1:]], 0)
        out = raw.Reshape(found, sizes)
        rank = sparse_ids.dense_shape.shape.as_list()[0]
        if rank is not None:
            out.set_shape([*[None] * (rank - 1), *found.shape.as_list()[1:]])
        return out
