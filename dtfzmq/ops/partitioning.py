"""Rows dealt out to several tensors, and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid


def _partition_shape(n: Any) -> list[TensorShape]:
    known, chosen = dims(n.inputs[0]), dims(n.inputs[1])
    if known is None or chosen is None:
        return [UNKNOWN] * len(n.outputs)
    n.inputs[0].shape[: len(chosen)].assert_is_compatible_with(n.inputs[1].shape)
    return [TensorShape([None, *known[len(chosen) :]])] * len(n.outputs)


def _partition_kernel(node: Any, env: Any) -> Any:
    count = node.attrs["num_partitions"]

    def partition(data: np.ndarray, chosen: np.ndarray) -> Any:
        if data.shape[: chosen.ndim] != chosen.shape:
            raise invalid(f"data.shape must start with partitions.shape, got {list(data.shape)}, {list(chosen.shape)}")
        flat = chosen.reshape(-1)
        bad = np.flatnonzero((flat < 0) | (flat >= count))
        if bad.size:
            at = ",".join(str(i) for i in np.unravel_index(int(bad[0]), chosen.shape))
            raise invalid(f"partitions[{at}] = {flat[bad[0]]} is not in [0, {count})")
        rows = data.reshape((flat.size, *data.shape[chosen.ndim :]))
        parts = tuple(rows[flat == i] for i in range(count))
        return parts[0] if count == 1 else parts

    return partition


def _partition_grad(n: Any, *grads: Tensor) -> tuple[Tensor, None]:
    data, chosen = n.inputs
    count = raw.Prod(raw.Shape(chosen), ints(0))
    order = raw.Reshape(raw.Range(0, count, 1), raw.Shape(chosen))
    places = raw.DynamicPartition(order, chosen, num_partitions=n.attrs["num_partitions"])
    return raw.Reshape(raw.DynamicStitch(list(places), list(grads)), raw.Shape(data)), None


_partition = op(
    "DynamicPartition", "data: T, partitions: int32; num_partitions: int -> outputs: T*num_partitions",
    shape=_partition_shape, make=_partition_kernel, grad=_partition_grad,
    samples=[
        Sample(mat(4, 2), ints(1, 0, 1, 2), num_partitions=3),
        Sample(mat(2, 2, 3), np.array([[1, 0], [0, 0]], np.int32), num_partitions=2),
        Sample(mat(3), ints(0, 0, 0), num_partitions=1),
    ],
)  # fmt: skip


def _halves(n: Any) -> tuple[list[Tensor], list[Tensor]]:
    half = len(n.inputs) // 2
    return list(n.inputs[:half]), list(n.inputs[half:])


def _stitch_shape(n: Any) -> list[TensorShape]:
    if len(n.inputs) % 2 or not n.inputs:
        raise ValueError(f"There must be as many indices as data, at least one, not {len(n.inputs)} tensors together.")
    indices, data = _halves(n)
    rest = TensorShape(None)
    largest: int | None = -1
    for index, part in zip(indices, data):
        known, placed = dims(part), dims(index)
        if known is not None and placed is not None:
            part.shape[: len(placed)].assert_is_compatible_with(index.shape)
            rest = rest.merge_with(TensorShape(known[len(placed) :]))
        value = constant_value(index)
        largest = None if value is None or largest is None else max(largest, int(value.max(initial=-1)))
    first = TensorShape([None if largest is None else largest + 1])
    return [first.concatenate(rest)]


def _stitch_kernel(*inputs: np.ndarray) -> np.ndarray:
    half = len(inputs) // 2
    size, rest = 0, inputs[half].shape[inputs[0].ndim :]
    for index, part in zip(inputs[:half], inputs[half:]):
        if part.shape != index.shape + rest:
            raise invalid(
                f"data of shape {list(part.shape)} does not go with indices of shape {list(index.shape)} "
                f"and rows of shape {list(rest)}"
            )
        if index.size and index.min() < 0:
            at = ",".join(str(i) for i in np.unravel_index(int(np.argmax(index < 0)), index.shape))
            raise invalid(f"indices[{at}] = {index.min()} is out of range")
        size = max(size, int(index.max(initial=-1)) + 1)
    dtype = inputs[half].dtype
    out = np.full((size, *rest), b"", dtype) if dtype.hasobject else np.zeros((size, *rest), dtype)
    for index, part in zip(inputs[:half], inputs[half:]):  # a later value for an index wins
        out[index.reshape(-1)] = part.reshape((index.size, *rest))
    return out


def _stitch_grad(n: Any, g: Tensor) -> tuple[Any, ...]:
    indices, _ = _halves(n)
    return (*[None] * len(indices), *(raw.GatherV2(g, index, 0) for index in indices))


_STITCH = [
    Sample([ints(0, 2), ints(1)], [mat(2, 3), mat(1, 3, seed=2)]),
    Sample([np.int32(1), ints(2, 0)], [mat(2), mat(2, 2, seed=2)]),
]
_stitch = op(
    "DynamicStitch", "indices: int32*, data: T* -> merged: T", shape=_stitch_shape, kernel=_stitch_kernel,
    grad=_stitch_grad, samples=_STITCH,
)  # fmt: skip
_parallel_stitch = op(
    "ParallelDynamicStitch", "indices: int32*, data: T* -> merged: T", shape=_stitch_shape, kernel=_stitch_kernel,
    grad=_stitch_grad, samples=_STITCH,
)  # fmt: skip


def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """`num_partitions` tensors: the parts of `data` for which `partitions` says 0, 1, ..., each in order."""
    return list(_partition(data, partitions, num_partitions=num_partitions, name=name))


def _lists(indices: Sequence[Any], data: Sequence[Any]) -> tuple[list[Tensor], list[Any]]:
    if not isinstance(indices, (list, tuple)) or not isinstance(data, (list, tuple)):
        raise TypeError("Expected lists for the 'indices' and 'data' arguments of a dynamic stitch.")
    return [convert_to_tensor(i, dtype=None if isinstance(i, Tensor) else np.int32) for i in indices], list(data)


def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """One tensor with data[m][i, ...] at indices[m][i]; of several for one place, the last in the lists."""
    return _stitch(*_lists(indices, data), name=name)


def parallel_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """dynamic_stitch for indices that do not repeat."""
    return _parallel_stitch(*_lists(indices, data), name=name)
