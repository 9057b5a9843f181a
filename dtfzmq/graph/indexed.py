"""IndexedSlices: some rows of a larger tensor, as the gradient of a gather is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.static import value_as_shape
from dtfzmq.graph.tensor import Operation, Tensor

if TYPE_CHECKING:
    from dtfzmq.graph.graph import Graph


class IndexedSlices:
    """``dense[indices[i]] += values[i]``, summed over equal indices; rows that are not named are zero.

    `values` has shape ``[n, ...]``, `indices` ``[n]`` (int32 or int64), `dense_shape` is the shape tensor of the whole
    or None. Source: TensorFlow 1's ``tf.IndexedSlices``.
    """

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    @property
    def dtype(self) -> DType:
        """The element type of the values."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape of the whole, as far as it is known."""
        return UNKNOWN if self.dense_shape is None else value_as_shape(self.dense_shape)

    @property
    def graph(self) -> Graph:
        """The graph of its tensors."""
        return self.values.graph

    @property
    def op(self) -> Operation:
        """The operation of the values."""
        return self.values.op

    @property
    def name(self) -> str:
        """The name of the values."""
        return self.values.name

    @property
    def device(self) -> str:
        """The device of the values."""
        return self.values.device

    def with_values(self, values: Tensor) -> IndexedSlices:
        """The same rows with other values."""
        return IndexedSlices(values, self.indices, self.dense_shape)

    def get_shape(self) -> TensorShape:
        """The static shape of the whole, as far as it is known."""
        return self.shape

    def __neg__(self) -> Any:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices}, values={self.values}, dense_shape={self.dense_shape})"
