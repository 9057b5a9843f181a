"""Arithmetic on what stands for a tensor: every operator reads the value first."""

from __future__ import annotations

from typing import Any

from dtfzmq.graph.graph import Tensor
from dtfzmq.ops import slice_assign

_ASSIGNS = slice_assign  # gives slices their `assign`


class ReadsFirst:
    """Operators of Tensor for a class with `value()`. Comparison with == stays identity, as in TensorFlow 1."""

    __array_priority__ = 100  # numpy on the left hands the operator over

    def value(self) -> Tensor:
        """The tensor that operators work on."""
        raise TypeError(f"{type(self).__name__} has no value.")

    def __getitem__(self, item: Any) -> Tensor:
        return self.value()[item]

    def __add__(self, other: Any) -> Tensor:
        return self.value() + other

    def __radd__(self, other: Any) -> Tensor:
        return other + self.value()

    def __sub__(self, other: Any) -> Tensor:
        return self.value() - other

    def __rsub__(self, other: Any) -> Tensor:
        return other - self.value()

    def __mul__(self, other: Any) -> Tensor:
        return self.value() * other

    def __rmul__(self, other: Any) -> Tensor:
        return other * self.value()

    def __truediv__(self, other: Any) -> Tensor:
        return self.value() / other

    def __rtruediv__(self, other: Any) -> Tensor:
        return other / self.value()

    def __floordiv__(self, other: Any) -> Tensor:
        return self.value() // other

    def __rfloordiv__(self, other: Any) -> Tensor:
        return other // self.value()

    def __mod__(self, other: Any) -> Tensor:
        return self.value() % other

    def __rmod__(self, other: Any) -> Tensor:
        return other % self.value()

    def __pow__(self, other: Any) -> Tensor:
        return self.value() ** other

    def __rpow__(self, other: Any) -> Tensor:
        return other ** self.value()

    def __and__(self, other: Any) -> Tensor:
        return self.value() & other

    def __rand__(self, other: Any) -> Tensor:
        return other & self.value()

    def __or__(self, other: Any) -> Tensor:
        return self.value() | other

    def __ror__(self, other: Any) -> Tensor:
        return other | self.value()

    def __xor__(self, other: Any) -> Tensor:
        return self.value() ^ other

    def __rxor__(self, other: Any) -> Tensor:
        return other ^ self.value()

    def __matmul__(self, other: Any) -> Tensor:
        return self.value() @ other

    def __rmatmul__(self, other: Any) -> Tensor:
        return other @ self.value()

    def __lt__(self, other: Any) -> Tensor:
        return self.value() < other

    def __le__(self, other: Any) -> Tensor:
        return self.value() <= other

    def __gt__(self, other: Any) -> Tensor:
        return self.value() > other

    def __ge__(self, other: Any) -> Tensor:
        return self.value() >= other

    def __neg__(self) -> Tensor:
        return -self.value()

    def __abs__(self) -> Tensor:
        return abs(self.value())

    def __invert__(self) -> Tensor:
        return ~self.value()
