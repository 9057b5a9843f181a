"""Sparse tensors as texts: each a row of three serialized tensors, the indices, the values and the shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops.arguments import sizes as sizes_of
from dtfzmq.ops.protos import tensor_from_bytes, tensor_to_bytes
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid
from dtfzmq.ops.sparse import as_sparse
from dtfzmq.ops.sparse_index import check_order, check_parts, check_ranks, flat, grid, sizes

Array = Any
_TEXT = NO_GRAD("bytes, not numbers")


def _row(indices: Array, values: Array, shape: Array) -> list[bytes]:
    return [tensor_to_bytes(np.asarray(part), packed=True) for part in (indices, values, shape)]


def _one(indices: Array, values: Array, shape: Array) -> Array:
    check_ranks(indices, values, shape)
    return np.array(_row(indices, values, shape), object)


def _many(indices: Array, values: Array, shape: Array) -> Array:
    check_parts(indices, values, shape)
    if len(shape) < 2:
        raise invalid(f"Rank of input SparseTensor should be > 1, but saw rank: {len(shape)}")
    rows = sizes_of("sparse_shape", shape)[0]
    check_order(indices, flat(indices, shape))
    out = np.empty((rows, 3), object)
    ends = np.searchsorted(indices[:, 0], np.arange(rows + 1))
    for i, (start, stop) in enumerate(zip(ends[:-1], ends[1:])):
        out[i] = _row(indices[start:stop, 1:], values[start:stop], shape[1:])
    return out


def _parsed(row: Array) -> tuple[Array, Array, Array]:
    try:
        indices, values, shape = (tensor_from_bytes(part) for part in row)
    except (IndexError, ValueError, TypeError):
        raise invalid("Could not parse a serialized SparseTensor: it is not what serialize_sparse writes.") from None
    check_parts(indices, values, shape)
    for part, what in (indices, "indices"), (shape, "shape"):
        if part.dtype != np.int64:
            raise invalid(f"Serialized {what} should be int64 but are {dtypes.of_array(part).name}")
    return indices, values, shape


def _joined_make(node: Any, env: Any) -> Any:
    want = node.attrs["dtype"]

    def kernel(serialized: Array) -> tuple[Array, Array, Array]:
        if serialized.ndim < 1 or serialized.shape[-1] != 3:
            raise invalid(f"Serialized sparse should have 3 as the last dimension but is of {list(serialized.shape)}")
        rows = [_parsed(row) for row in serialized.reshape(-1, 3)]
        if not rows:
            raise invalid("Must have at least 1 serialized SparseTensor, got none.")
        for i, (_, values, shape) in enumerate(rows):
            if dtypes.of_array(values) is not want:
                raise invalid(f"Requested SparseTensor of type {want.name}, [{i}] has {dtypes.of_array(values).name}")
            if len(shape) != len(rows[0][2]):
                raise invalid(f"Inconsistent rank across SparseTensors: {len(rows[0][2])} and {len(shape)} of [{i}]")
        lead = serialized.shape[:-1]
        places = np.array(list(np.ndindex(*lead)), np.int64).reshape(len(rows), len(lead))
        found = [
            np.concatenate([np.broadcast_to(place, (len(indices), len(lead))), indices], 1)
            for place, (indices, _, _) in zip(places, rows)
        ]
        largest = np.max([shape for _, _, shape in rows], 0)
        values = np.concatenate([values for _, values, _ in rows])
        return np.concatenate(found), values, np.concatenate([np.array(lead, np.int64), largest])

    return kernel


def _joined_shape(n: Any) -> list[TensorShape]:
    return [TensorShape([None, None]), TensorShape([None]), TensorShape([None])]


_SP = (grid((0, 1), (1, 0), (1, 2)), mat(3), sizes(2, 3))
op(
    "SerializeSparse", "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: string",
    shape=lambda n: [TensorShape([3])], kernel=_one, grad=_TEXT,
    samples=[Sample(*_SP), Sample(grid((1,)), np.array([b"a"], object), sizes(3))],
)  # fmt: skip
op(
    "SerializeManySparse", "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: string",
    shape=lambda n: [TensorShape([None, 3])], kernel=_many, grad=_TEXT, samples=[Sample(*_SP)],
)  # fmt: skip
op(
    "DeserializeSparse",
    "serialized_sparse: string; dtype: type -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    shape=_joined_shape, make=_joined_make, grad=_TEXT,
    samples=[
        Sample(_many(*_SP), dtype=dtypes.float64),
        Sample(_one(grid((1,)), ints(7), sizes(3)), dtype=dtypes.int32),
        Sample(_one(*_SP), dtype=dtypes.int32, fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def _serialized(builder: Any, sp_input: Any, name: str | None, out_type: Any) -> Tensor:
    if dtypes.as_dtype(out_type) is not dtypes.string:
        raise TypeError(f"A sparse tensor is serialized as string, not as {dtypes.as_dtype(out_type).name}.")
    sp = as_sparse(sp_input)
    return builder(sp.indices, sp.values, sp.dense_shape, name=name)


def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """A sparse tensor as three texts. Raises TypeError for another out_type than string."""
    return _serialized(raw.SerializeSparse, sp_input, name, out_type)


def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """Each entry of the first axis of a sparse tensor as a row of three texts. Raises TypeError as serialize_sparse."""
    return _serialized(raw.SerializeManySparse, sp_input, name, out_type)


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """The sparse tensor whose first axis runs over rows of serialize_sparse; `rank` is its own, if it is known.

    The other sizes are the largest of all. Rows of another type than `dtype` or of different ranks fail the step.
    """
    indices, values, shape = raw.DeserializeSparse(serialized_sparse, dtype=dtypes.as_dtype(dtype), name=name)
    if rank is not None:
        indices.set_shape([None, rank])
        shape.set_shape([rank])
    return SparseTensor(indices, values, shape)
