"""SparseTensor: the elements of a large tensor that are not zero, by their indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.static import value_as_shape
from dtfzmq.graph.tensor import Operation, Tensor

if TYPE_CHECKING:
    from dtfzmq.graph.graph import Graph


class SparseTensorValue(NamedTuple):
    """The value of a SparseTensor, as it is fed and fetched: three arrays."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """``dense[indices[i]] = values[i]``, zero elsewhere.

    `indices` is an int64 matrix [n, rank], ordered by rows where an op asks for it, `values` a vector [n] and
    `dense_shape` an int64 vector [rank]. Source: TensorFlow 1's ``tf.SparseTensor``.
    """

    _operators: ClassVar[dict[str, Callable[[SparseTensor, Any], SparseTensor]]] = {}  # put in by the ops

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        int64 = dtypes.int64
        self._indices = convert_to_tensor(indices, dtype=int64, name="indices")
        self._values = convert_to_tensor(values, name="values")
        self._dense_shape = convert_to_tensor(dense_shape, dtype=int64, name="dense_shape")
        self._indices.shape.assert_has_rank(2)
        self._dense_shape.shape.assert_has_rank(1)
        rows, rank = self._indices.shape.with_rank(2).dims_or_none or (None, None)
        self._values.shape.assert_is_compatible_with(TensorShape([rows]))
        self._dense_shape.shape.assert_is_compatible_with(TensorShape([rank]))

    @classmethod
    def from_value(cls, value: Any) -> SparseTensor:
        """A SparseTensor from itself or from a SparseTensorValue. Raises TypeError for anything else."""
        if isinstance(value, SparseTensor):
            return value
        if isinstance(value, SparseTensorValue):
            return cls(value.indices, value.values, value.dense_shape)
        raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {value}.")

    @property
    def indices(self) -> Tensor:
        """The indices, an int64 matrix."""
        return self._indices

    @property
    def values(self) -> Tensor:
        """The values, a vector."""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """The sizes of the whole, an int64 vector."""
        return self._dense_shape

    @property
    def dtype(self) -> DType:
        """The element type of the values."""
        return self._values.dtype

    @property
    def op(self) -> Operation:
        """The operation of the values."""
        return self._values.op

    @property
    def graph(self) -> Graph:
        """The graph of its tensors."""
        return self._values.graph

    @property
    def name(self) -> str:
        """The name of the values."""
        return self._values.name

    @property
    def shape(self) -> TensorShape:
        """The static shape of the whole, as far as it is known."""
        return value_as_shape(self._dense_shape)

    def with_values(self, values: Tensor) -> SparseTensor:
        """The same indices with other values."""
        return SparseTensor(self._indices, values, self._dense_shape)

    def get_shape(self) -> TensorShape:
        """The static shape of the whole, as far as it is known."""
        return self.shape

    def consumers(self) -> list[Operation]:
        """Operations that take one of its three tensors."""
        found: dict[Operation, None] = {}
        for part in (self._indices, self._values, self._dense_shape):
            found.update(dict.fromkeys(part.consumers()))
        return list(found)

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """Its value, computed by the given or default session."""
        parts = [t.eval(feed_dict, session) for t in (self._indices, self._values, self._dense_shape)]
        return SparseTensorValue(*parts)

    def __mul__(self, dense: Any) -> SparseTensor:
        """Times a dense tensor that broadcasts to its shape."""
        return self._operators["mul"](self, dense)

    def __truediv__(self, dense: Any) -> SparseTensor:
        """Over a dense tensor that broadcasts to its shape."""
        return self._operators["truediv"](self, dense)

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self._indices}, values={self._values}, dense_shape={self._dense_shape})"


def row_major(indices: np.ndarray) -> np.ndarray:
    """The order that sorts index rows, the last column varying fastest; equals keep theirs."""
    return np.lexsort(indices.T[::-1]) if indices.size else np.arange(len(indices))
