"""Operators of sparse tensors with dense ones, and the dense product that was once meant for sparse factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops.cast import cast
from dtfzmq.ops.matmul import matmul
from dtfzmq.ops.raw import raw
from dtfzmq.ops.sparse import rank_of


def _beside(sp: SparseTensor, dense: Any) -> Tensor:
    """The elements of `dense`, broadcast to the shape of `sp`, that stand where sp has one."""
    dense = convert_to_tensor(dense, dtype=None if isinstance(dense, Tensor) else sp.dtype.base_dtype)
    rank, own = rank_of(sp), dense.shape.ndims
    if own is None or own > rank:
        raise ValueError(f"A dense tensor of at most the rank {rank} of the sparse one is needed, not {dense}.")
    if own == 0:
        return dense
    columns = raw.GatherV2(sp.indices, np.arange(rank - own, rank, dtype=np.int32), np.int32(1))
    repeated = raw.Cast(raw.NotEqual(raw.Shape(dense, out_type=dtypes.int64), np.int64(1)), DstT=dtypes.int64)
    return raw.GatherNd(dense, columns * repeated)


def _multiply(sp: SparseTensor, dense: Any) -> SparseTensor:
    return sp.with_values(raw.Mul(sp.values, _beside(sp, dense)))


def _divide(sp: SparseTensor, dense: Any) -> SparseTensor:
    values, other = sp.values, _beside(sp, dense)
    if sp.dtype.is_integer:
        wide = dtypes.float32 if sp.dtype.size < 4 else dtypes.float64
        values, other = cast(values, wide), cast(other, wide)
    return sp.with_values(raw.RealDiv(values, other))


SparseTensor._operators.update(mul=_multiply, truediv=_divide)


def sparse_matmul(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, a_is_sparse: bool = False,
    b_is_sparse: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The float32 product of two dense matrices of float32 or bfloat16."""
    left, right = cast(convert_to_tensor(a), dtypes.float32), cast(convert_to_tensor(b), dtypes.float32)
    return matmul(left, right, transpose_a, transpose_b, name=name)
