"""Static shapes: what is known of a tensor's shape before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload


class Dimension:
    """One dimension: a size, or None if unknown. Arithmetic with an unknown one is unknown, as in TensorFlow 1."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        if isinstance(value, Dimension):
            self._value: int | None = value._value
        elif value is None:
            self._value = None
        else:
            self._value = _size(value)

    @property
    def value(self) -> int | None:
        """The size, or None."""
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        """True if equal or either is unknown."""
        other = Dimension(other)
        return self._value is None or other._value is None or self._value == other._value

    def merge_with(self, other: Any) -> Dimension:
        """The better known of the two. Raises ValueError if they differ."""
        other = Dimension(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")
        return self if self._value is not None else other

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError unless compatible."""
        self.merge_with(other)

    def _with(self, other: Any, fn: Any) -> Dimension:
        other = Dimension(other)
        return Dimension(None if self._value is None or other._value is None else fn(self._value, other._value))

    def __add__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Dimension:
        return self + other

    def __sub__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Dimension:
        return Dimension(other) - self

    def __mul__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Dimension:
        return self * other

    def __floordiv__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a // b)

    def __rfloordiv__(self, other: Any) -> Dimension:
        return Dimension(other) // self

    __div__ = __floordiv__

    def __mod__(self, other: Any) -> Dimension:
        return self._with(other, lambda a, b: a % b)

    def __eq__(self, other: object) -> Any:
        try:
            size = Dimension(other)._value
        except (TypeError, ValueError):
            return NotImplemented
        return None if self._value is None or size is None else self._value == size

    def __ne__(self, other: object) -> Any:
        equal = self.__eq__(other)
        return equal if equal is None or equal is NotImplemented else not equal

    def __lt__(self, other: Any) -> bool | None:
        other = Dimension(other)
        return None if self._value is None or other._value is None else self._value < other._value

    def __le__(self, other: Any) -> bool | None:
        other = Dimension(other)
        return None if self._value is None or other._value is None else self._value <= other._value

    def __gt__(self, other: Any) -> bool | None:
        other = Dimension(other)
        return None if self._value is None or other._value is None else self._value > other._value

    def __ge__(self, other: Any) -> bool | None:
        other = Dimension(other)
        return None if self._value is None or other._value is None else self._value >= other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __int__(self) -> int:
        if self._value is None:
            raise TypeError("An unknown dimension has no size.")
        return self._value

    __index__ = __int__

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __repr__(self) -> str:
        return f"Dimension({self._value})"


def _size(value: Any) -> int:
    try:
        size = int(value.__index__())
    except AttributeError:
        raise TypeError(f"A dimension must be an integer or None, not {value!r}.") from None
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0")
    return size


class TensorShape:
    """A static shape: unknown rank, or a tuple of sizes of which some may be unknown (None). Immutable."""

    __slots__ = ("dims_or_none",)

    def __init__(self, dims: Any) -> None:
        self.dims_or_none: tuple[int | None, ...] | None
        if dims is None:
            self.dims_or_none = None
        elif isinstance(dims, TensorShape):
            self.dims_or_none = dims.dims_or_none
        elif isinstance(dims, Dimension) or hasattr(dims, "__index__"):
            self.dims_or_none = (Dimension(dims).value,)
        else:
            self.dims_or_none = tuple(
                d if d is None or type(d) is int and d >= 0 else Dimension(d).value for d in dims
            )

    @property
    def dims(self) -> list[Dimension] | None:
        """The dimensions, or None if the rank is unknown."""
        return None if self.dims_or_none is None else [Dimension(d) for d in self.dims_or_none]

    @property
    def ndims(self) -> int | None:
        """The rank, or None."""
        return None if self.dims_or_none is None else len(self.dims_or_none)

    rank = ndims

    def __len__(self) -> int:
        if self.dims_or_none is None:
            raise ValueError("Cannot take the length of Shape with unknown rank.")
        return len(self.dims_or_none)

    def __bool__(self) -> bool:
        return self.dims_or_none is not None

    def __iter__(self) -> Iterator[Dimension]:
        if self.dims_or_none is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([Dimension(d) for d in self.dims_or_none])

    @overload
    def __getitem__(self, key: int) -> Dimension: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    def __getitem__(self, key: int | slice) -> Dimension | TensorShape:
        if self.dims_or_none is None:
            if isinstance(key, slice):
                if key.stop is None or key.stop < 0:
                    return TensorShape(None)
                return TensorShape([None] * max(0, key.stop - (key.start or 0)))
            return Dimension(None)
        if isinstance(key, slice):
            return TensorShape(self.dims_or_none[key])
        return Dimension(self.dims_or_none[key])

    def as_list(self) -> list[int | None]:
        """The sizes. Raises ValueError if the rank is unknown."""
        if self.dims_or_none is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self.dims_or_none)

    def as_proto(self) -> list[int] | None:
        """Plain data: None for an unknown rank, else the sizes with -1 for unknown ones."""
        return None if self.dims_or_none is None else [-1 if d is None else d for d in self.dims_or_none]

    def num_elements(self) -> int | None:
        """The number of elements, or None if it is not known."""
        if not self.is_fully_defined():
            return None
        count = 1
        for d in self.dims_or_none or ():
            count *= d or 0
        return count

    def is_fully_defined(self) -> bool:
        """True if every size is known."""
        return self.dims_or_none is not None and None not in self.dims_or_none

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError unless every size is known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def is_compatible_with(self, other: Any) -> bool:
        """True if some shape satisfies both."""
        a, b = self.dims_or_none, as_shape(other).dims_or_none
        if a is None or b is None:
            return True
        return len(a) == len(b) and all(x is None or y is None or x == y for x, y in zip(a, b))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError unless compatible."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {as_shape(other)} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """What is known from both together. Raises ValueError if they contradict."""
        other = as_shape(other)
        a, b = self.dims_or_none, other.dims_or_none
        if a is None:
            return other
        if b is None:
            return self
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are not compatible")
        return TensorShape([y if x is None else x for x, y in zip(a, b)])

    def concatenate(self, other: Any) -> TensorShape:
        """The sizes of this one followed by those of `other`."""
        a, b = self.dims_or_none, as_shape(other).dims_or_none
        return TensorShape(None if a is None or b is None else a + b)

    def with_rank(self, rank: int) -> TensorShape:
        """This shape, known to have `rank`. Raises ValueError if it has another."""
        return self.merge_with([None] * rank)

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """This shape. Raises ValueError if its rank is known to be smaller."""
        if self.ndims is not None and self.ndims < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """This shape. Raises ValueError if its rank is known to be larger."""
        if self.ndims is not None and self.ndims > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError if the rank is known and another."""
        if self.ndims not in (None, rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raise ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if self.ndims is not None and other.ndims is not None and self.ndims != other.ndims:
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def __eq__(self, other: object) -> bool:
        try:
            return self.dims_or_none == as_shape(other).dims_or_none
        except (TypeError, ValueError):
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.dims_or_none)

    def __str__(self) -> str:
        if self.dims_or_none is None:
            return "<unknown>"
        inner = ", ".join("?" if d is None else str(d) for d in self.dims_or_none)
        return f"({inner},)" if len(self.dims_or_none) == 1 else f"({inner})"

    def __repr__(self) -> str:
        return f"TensorShape({None if self.dims_or_none is None else [Dimension(d) for d in self.dims_or_none]})"


UNKNOWN = TensorShape(None)
SCALAR = TensorShape(())


def as_shape(value: Any) -> TensorShape:
    """A TensorShape of a TensorShape, None, an integer or a sequence of sizes. Raises TypeError or ValueError."""
    return value if type(value) is TensorShape else TensorShape(value)


def unknown_shape(rank: int | None = None) -> TensorShape:
    """A shape of which nothing but perhaps the rank is known."""
    return UNKNOWN if rank is None else TensorShape([None] * rank)


def broadcast(a: TensorShape, b: TensorShape) -> TensorShape:
    """The static shape of an element-wise result, by numpy's rules. Raises ValueError if they cannot be broadcast."""
    if a is b:
        return a
    x, y = a.dims_or_none, b.dims_or_none
    if x is None or y is None:
        return UNKNOWN
    if x == y:
        return a if None not in x else TensorShape(x)
    n = max(len(x), len(y))
    x, y = (1,) * (n - len(x)) + x, (1,) * (n - len(y)) + y
    dims: list[int | None] = []
    for p, q in zip(x, y):
        if p == q or q == 1:
            dims.append(p)
        elif p == 1 or p is None:
            dims.append(q)
        elif q is None:
            dims.append(p)
        else:
            raise ValueError(f"Dimensions must be equal, but are {p} and {q} for shapes {a} and {b}.")
    return TensorShape(dims)


def broadcast_all(shapes: Iterable[TensorShape]) -> TensorShape:
    """`broadcast` over any number of shapes."""
    result = SCALAR
    for shape in shapes:
        result = broadcast(result, shape)
    return result
