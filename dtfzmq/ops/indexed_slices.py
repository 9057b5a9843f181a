"""What becomes of IndexedSlices, the gradient of a gather: made, joined, made dense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.graph.convert import convert_to_tensor, register_tensor_conversion_function
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import value_as_shape
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat


def _dense_kernel(values: np.ndarray, indices: np.ndarray, shape: np.ndarray) -> np.ndarray:
    out = np.zeros(tuple(shape.tolist()), values.dtype)
    np.add.at(out, indices, values)
    return out


_to_dense = op(
    "UnsortedRowsToDense", "values: N, indices: I, shape: I2 -> output: N",
    shape=lambda n: [value_as_shape(n.inputs[2])], kernel=_dense_kernel,
    grad=lambda n, g: (raw.GatherV2(g, n.inputs[1], 0), None, None),
    samples=[Sample(mat(3, 2), ints(1, 3, 1), ints(4, 2))],
)  # fmt: skip


def rows(grad: Tensor, indices: Tensor, shape: Any) -> IndexedSlices:
    """The gradient of gather(params, indices) along axis 0, for params of `shape` (a tensor or constant vector)."""
    flat = indices if indices.shape.ndims == 1 else raw.Reshape(indices, np.array([-1], np.int32))
    if isinstance(shape, np.ndarray):
        row: Any = np.array([-1, *shape[1:].tolist()], np.int32)
    else:
        row = raw.ConcatV2([np.array([-1], np.int32), raw.Slice(shape, ints(1), ints(-1))], 0)
    values = grad if indices.shape.ndims == 1 else raw.Reshape(grad, row)
    dense = shape if isinstance(shape, Tensor) else convert_to_tensor(shape)
    return IndexedSlices(values, flat, dense)


def concat_rows(parts: Sequence[IndexedSlices]) -> IndexedSlices:
    """The sum of several, by concatenation. They are of one dense shape."""
    if len(parts) == 1:
        return parts[0]
    kind = dtypes.int64 if any(p.indices.dtype is dtypes.int64 for p in parts) else parts[0].indices.dtype
    indices = [p.indices if p.indices.dtype is kind else raw.Cast(p.indices, DstT=kind) for p in parts]
    shape = next((p.dense_shape for p in parts if p.dense_shape is not None), None)
    return IndexedSlices(raw.ConcatV2([p.values for p in parts], 0), raw.ConcatV2(indices, 0), shape)


def _convert(value: IndexedSlices, dtype: DType | None = None, name: str | None = None, as_ref: bool = False) -> Tensor:
    """The dense tensor: zero where no row is."""
    if dtype is not None and dtype.base_dtype is not value.dtype.base_dtype:
        raise ValueError(
            f"Tensor conversion requested dtype {dtype.name} for IndexedSlices with dtype {value.dtype.name}"
        )
    if value.dense_shape is None:
        raise ValueError(f"Tensor conversion requested for IndexedSlices for argument without dense_shape: {value}")
    return _to_dense(value.values, value.indices, value.dense_shape, name=name)


register_tensor_conversion_function(IndexedSlices, _convert)
