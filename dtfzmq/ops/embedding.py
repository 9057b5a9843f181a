"""Rows of embeddings by id, and put together per row of sparse ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.graph.static import dims
from dtfzmq.ops.raw import raw
from dtfzmq.ops.segments import segment_sum, sparse_segment_mean, sparse_segment_sqrt_n, sparse_segment_sum
from dtfzmq.ops.sparse import sparse_fill_empty_rows, sparse_reshape, sparse_retain

_COMBINED = {"sum": sparse_segment_sum, "mean": sparse_segment_mean, "sqrtn": sparse_segment_sqrt_n}


def embedding_lookup(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None, validate_indices: bool = True,
    max_norm: float | None = None,
) -> Tensor:  # fmt: skip
    """Rows of `params` at `ids`. A list of parts holds row i in part i % n ("mod") or in even runs ("div")."""
    several = isinstance(params, (list, tuple)) or hasattr(params, "_get_variable_list")  # a partitioned variable
    parts = list(params) if several else [params]
    if not parts:
        raise ValueError(f"Need at least one param for embedding_lookup, got {params}")
    ids = convert_to_tensor(ids, name="ids")
    with ids.graph.name_scope(name or "embedding_lookup"):
        if len(parts) == 1:
            return _limited(_rows(parts[0], ids), ids, max_norm)
        flat = raw.Reshape(ids, np.array([-1], np.int32))
        kind = flat.dtype.base_dtype
        count = convert_to_tensor(len(parts), dtype=kind)
        if partition_strategy == "mod":
            owner, local = raw.FloorMod(flat, count), raw.FloorDiv(flat, count)
        elif partition_strategy == "div":
            starts = _starts(parts, kind)
            behind = raw.GreaterEqual(raw.ExpandDims(flat, 1), raw.ExpandDims(starts[1:], 0))
            owner = raw.Sum(raw.Cast(behind, DstT=kind), np.int32(1))
            local = flat - raw.GatherV2(starts, owner, 0)
        else:
            raise ValueError(f"Unrecognized partition strategy: {partition_strategy}. Must be `mod` or `div`.")
        found, places = [], []
        for i, part in enumerate(parts):
            mine = raw.Squeeze(raw.Where(raw.Equal(owner, convert_to_tensor(i, dtype=kind))), squeeze_dims=[1])
            found.append(_rows(part, raw.GatherV2(local, mine, 0)))
            places.append(mine)
        together = raw.ConcatV2(found, 0)
        order = raw.Cast(raw.ConcatV2(places, 0), DstT=dtypes.int32)
        ordered = raw.GatherV2(together, raw.InvertPermutation(order), 0)
        row = found[0].shape[1:]
        if ids.shape.ndims != 1:
            ordered = raw.Reshape(ordered, raw.ConcatV2([raw.Shape(ids), raw.Shape(found[0])[1:]], 0))
        ordered.set_shape(ids.shape.concatenate(row))
        return _limited(ordered, ids, max_norm)


def _starts(parts: Sequence[Any], kind: dtypes.DType) -> Tensor:
    """The number of the first row of each part."""
    tables = [convert_to_tensor(p) for p in parts]
    known = [d for t in tables for d in (dims(t) or ())[:1] if d is not None]
    if len(known) == len(tables):
        return convert_to_tensor(np.cumsum([0, *known[:-1]]).astype(kind.np_dtype))
    sizes = raw.Pack([raw.Shape(t, out_type=kind)[0] for t in tables], axis=0)
    return raw.Cumsum(sizes, np.int32(0), exclusive=True)


def _rows(params: Any, ids: Tensor) -> Tensor:
    """A gather that stands with the params, so that rows travel and not the table."""
    table = convert_to_tensor(params, name="params")
    with table.graph.colocate_with(table):
        return raw.GatherV2(table, ids, 0)


def _limited(rows: Tensor, ids: Tensor, max_norm: float | None) -> Tensor:
    if max_norm is None:
        return raw.Identity(rows)
    first, last = (raw.Rank(t) if t.shape.ndims is None else np.int32(t.shape.ndims) for t in (ids, rows))
    axes = raw.Range(first, last, np.int32(1))
    norms = raw.Sqrt(raw.Sum(raw.Square(rows), axes, keep_dims=True))
    limit = convert_to_tensor(float(max_norm), dtype=rows.dtype.base_dtype)
    return rows * raw.Minimum(limit / raw.Maximum(norms, limit * 1e-12), convert_to_tensor(1.0, dtype=rows.dtype))


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
        rank = (dims(sparse_ids.dense_shape) or (None,))[0]
        if rank is not None:
            out.set_shape(TensorShape([None] * (rank - 1)).concatenate(found.shape[1:]))
        return out
