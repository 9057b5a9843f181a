"""Partitioned variables: one logical value cut along one dimension into several variables.

A partitioner is a function `(shape, dtype) -> [parts per dimension]` with at most one entry above 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph import convert
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.scopes import control_dependencies, name_scope
from dtfzmq.ops import array as array_ops
from dtfzmq.ops import slicing
from dtfzmq.ops.constants import identity
from dtfzmq.variables.variable import Variable


class PartitionInfo:
    """What an initializer is told of its part: shape of the whole and offset of the part."""

    def __init__(self, full_shape: list[int], var_offset: list[int]) -> None:
        if len(full_shape) != len(var_offset):
            raise ValueError("Expected full_shape and var_offset to have the same number of dimensions.")
        self.full_shape = full_shape
        self.var_offset = var_offset

    def single_offset(self, shape: Any) -> int:
        """Offset along the cut dimension; 0 if nothing is cut."""
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self.var_offset[axis]

    def single_slice_dim(self, shape: Any) -> int | None:
        """The dimension along which the part `shape` is cut, or None."""
        for axis, (part, full) in enumerate(zip(shape, self.full_shape, strict=True)):
            if part != full:
                return axis
        return None


def sizes(shape: TensorShape) -> list[int]:
    """The sizes of a shape all of which are known."""
    return [int(d or 0) for d in shape.as_list()]


def checked(partitioner: Callable[..., Any], shape: TensorShape, dtype: DType) -> tuple[int, int]:
    """(axis, number of parts) that `partitioner` wants for this shape."""
    if not shape.is_fully_defined():
        raise ValueError(f"Shape of a new partitioned variable must be fully defined, but instead was {shape}.")
    if shape.ndims == 0:
        raise ValueError("A partitioned Variable must have rank at least 1. Shape: ()")
    cuts = [int(n) for n in partitioner(shape=shape, dtype=dtype)]
    if len(cuts) != shape.ndims:
        raise ValueError(
            f"Partitioner returned a partition list that does not match the Variable's rank: {cuts} vs. {shape}"
        )
    if any(n < 1 for n in cuts):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {cuts}")
    several = [axis for axis, n in enumerate(cuts) if n > 1]
    if len(several) > 1:
        raise ValueError(f"Can only slice a variable along one dimension: shape: {shape}, partitioning: {cuts}")
    return (several[0], cuts[several[0]]) if several else (0, 1)


def slices(shape: list[int], axis: int, parts: int) -> Iterator[tuple[list[int], list[int]]]:
    """(offset, size) of each part; the first parts are one longer where it does not divide."""
    if parts > shape[axis]:
        raise ValueError(
            f"Can only split {shape[axis]} elements along dimension {axis} into at most as many parts, not {parts}."
        )
    base, longer = divmod(shape[axis], parts)
    start = 0
    for index in range(parts):
        length = base + (1 if index < longer else 0)
        offset = [0] * len(shape)
        offset[axis] = start
        size = list(shape)
        size[axis] = length
        yield offset, size
        start += length


class PartitionedVariable:
    """The parts of one logical variable, in order. Converts to the parts joined along the cut dimension."""

    def __init__(
        self, name: str, shape: TensorShape, dtype: DType, variable_list: list[Variable], axis: int, parts: int
    ) -> None:
        self._name = name
        self._shape = shape
        self._dtype = dtype
        self._variable_list = variable_list
        self._axis = axis
        self._partitions = [parts if i == axis else 1 for i in range(shape.ndims or 0)]
        with name_scope(name + "/PartitionedConcat/"), control_dependencies(None):
            self._whole = self._concat()

    def _concat(self) -> Tensor:
        if len(self._variable_list) == 1:
            return identity(self._variable_list[0], name=self._variable_list[0].op.name.rsplit("/", 1)[-1])
        return array_ops.concat([v.value() for v in self._variable_list], self._axis)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        return len(self._variable_list)

    def __getitem__(self, item: Any) -> Tensor:
        return self._whole[item]

    @property
    def name(self) -> str:
        return self._name

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        return self._shape

    def get_shape(self) -> TensorShape:
        """Shape of the whole."""
        return self._shape

    def _get_variable_list(self) -> list[Variable]:
        return self._variable_list

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def as_tensor(self) -> Tensor:
        """The whole, joined again under the control dependencies in force."""
        with control_dependencies(None), name_scope(self._name + "/ConcatPartitions/"):
            return self._concat()

    def initializer_ops(self) -> list[Operation]:
        return [v.initializer for v in self._variable_list]

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None) -> list[Tensor]:
        """Assign each part its share of `value`."""
        whole = convert.convert_to_tensor(value, dtype=self._dtype)
        made = []
        for part in self._variable_list:
            info = part._get_save_slice_info()
            offset: list[int] = [] if info is None else info.var_offset or []
            size: list[int] = [] if info is None else info.var_shape or []
            made.append(part.assign(slicing.slice(whole, offset, size), use_locking, name))
        return made


def _to_tensor(value: PartitionedVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if as_ref:
        raise ValueError(
            "PartitionedVariable doesn't support being used as a reference: its parts are separate variables."
        )
    return value._whole


convert.register_tensor_conversion_function(PartitionedVariable, _to_tensor)


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Callable[..., list[int]]:
    """Always `num_shards` parts along `axis`."""

    def partitioner(shape: TensorShape, **_: Any) -> list[int]:
        cuts = [1] * len(shape.as_list())
        cuts[axis] = num_shards
        return cuts

    return partitioner


def variable_axis_size_partitioner(
    max_shard_bytes: int, axis: int = 0, bytes_per_string_element: int = 16, max_shards: int | None = None
) -> Callable[..., list[int]]:
    """As few parts along `axis` as keep each under `max_shard_bytes`."""
    if max_shard_bytes < 1 or bytes_per_string_element < 1:
        raise ValueError("max_shard_bytes and bytes_per_string_element must be positive.")
    if max_shards is not None and max_shards < 1:
        raise ValueError(f"max_shards must be positive, not {max_shards}.")

    def partitioner(shape: TensorShape, dtype: DType) -> list[int]:
        element = bytes_per_string_element if dtype.name == "string" else dtype.size
        dims = sizes(shape)
        cuts = [1] * len(dims)
        slice_bytes = math.prod(dims) // max(dims[axis], 1) * element
        per_shard = max(1, max_shard_bytes // max(slice_bytes, 1))
        wanted = -(-dims[axis] // per_shard)
        cuts[axis] = max(1, wanted if max_shards is None else min(max_shards, wanted))
        return cuts

    return partitioner


def min_max_variable_partitioner(
    max_partitions: int = 1, axis: int = 0, min_slice_size: int = 256 << 10, bytes_per_string_element: int = 16
) -> Callable[..., list[int]]:
    """At most `max_partitions` parts along `axis`, each of at least `min_slice_size` bytes."""

    def partitioner(shape: TensorShape, dtype: DType) -> list[int]:
        element = bytes_per_string_element if dtype.name == "string" else dtype.size
        dims = sizes(shape)
        cuts = [1] * len(dims)
        by_size = math.prod(dims) * element // min_slice_size
        cuts[axis] = max(1, min(dims[axis], max_partitions, by_size))
        return cuts

    return partitioner
