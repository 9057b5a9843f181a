"""Arithmetic, comparison and logic of two tensors; sums of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.ops import arithmetic
from dtfzmq.ops.cast import cast
from dtfzmq.ops.raw import raw

_OPS = arithmetic  # declares what is used here by name


def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y; strings are joined."""
    return raw.Add(x, y, name=name)


def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x - y."""
    return raw.Sub(x, y, name=name)


def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * y, element by element."""
    return raw.Mul(x, y, name=name)


sub = subtract
mul = multiply


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A scalar times a tensor or IndexedSlices. Raises ValueError if `scalar` is not a scalar."""
    if hasattr(x, "with_values"):
        return x.with_values(scalar_mul(scalar, x.values, name))
    x = convert_to_tensor(x)
    scalar = convert_to_tensor(scalar, dtype=x.dtype.base_dtype)
    if scalar.shape.ndims != 0:
        raise ValueError(f"The input scalar must be a 0-D value. Received shape {scalar.shape}.")
    return raw.Mul(scalar, x, name=name)


def realdiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y of numbers of one floating type."""
    return raw.RealDiv(x, y, name=name)


_AS_FLOAT = {
    "uint8": dtypes.float32, "int8": dtypes.float32, "uint16": dtypes.float32, "int16": dtypes.float32,
    "uint32": dtypes.float64, "int32": dtypes.float64, "uint64": dtypes.float64, "int64": dtypes.float64,
}  # fmt: skip


def pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both as tensors of one dtype; the one that is a Tensor already decides."""
    if isinstance(y, Tensor) and not isinstance(x, Tensor):
        y = convert_to_tensor(y)
        return convert_to_tensor(x, dtype=y.dtype.base_dtype, name="x"), y
    x = convert_to_tensor(x, name="x")
    y = convert_to_tensor(y, dtype=None if isinstance(y, Tensor) else x.dtype.base_dtype, name="y")
    if x.dtype.base_dtype is not y.dtype.base_dtype:
        raise TypeError(f"x and y must have the same dtype, got {x.dtype.base_dtype!r} != {y.dtype.base_dtype!r}")
    return x, y


def _floats(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Integers as the floats that TensorFlow divides them in."""
    wide = _AS_FLOAT.get(x.dtype.base_dtype.name)
    return (x, y) if wide is None else (cast(x, wide), cast(y, wide))


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Python 3's x / y: integers become floats first (8 and 16 bits float32, wider float64)."""
    x, y = _floats(*pair(x, y))
    return raw.RealDiv(x, y, name=name or "truediv")


def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 3 divides."""
    return truediv(x, y, name)


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 2 divides: integers by floor, floats really."""
    x = convert_to_tensor(x, dtype=y.dtype.base_dtype if isinstance(y, Tensor) and not isinstance(x, Tensor) else None)
    y = convert_to_tensor(y, dtype=x.dtype.base_dtype, name="y")
    return (raw.FloorDiv if x.dtype.is_integer else raw.RealDiv)(x, y, name=name or "div")


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0."""
    x, y = _floats(*pair(x, y))
    return raw.DivNoNan(x, y, name=name or "div_no_nan")


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The floor of x / y. Raises InvalidArgumentError at run time for an integer divided by 0."""
    return raw.FloorDiv(x, y, name=name or "floordiv")


floor_div = floordiv


def floormod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x - floor(x / y) * y: the sign of y."""
    return raw.FloorMod(x, y, name=name)


mod = floormod


def truncatediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y rounded toward 0."""
    return raw.TruncateDiv(x, y, name=name)


def truncatemod(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The remainder with the sign of x."""
    return raw.TruncateMod(x, y, name=name)


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x ** y."""
    return raw.Pow(x, y, name=name)


def maximum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The larger of both; nan if either is."""
    return raw.Maximum(x, y, name=name)


def minimum(x: Any, y: Any, name: str | None = None) -> Tensor:
    """The smaller of both; nan if either is."""
    return raw.Minimum(x, y, name=name)


def squared_difference(x: Any, y: Any, name: str | None = None) -> Tensor:
    """(x - y) ** 2."""
    return raw.SquaredDifference(x, y, name=name)


def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """The angle of the point (x, y)."""
    return raw.Atan2(y, x, name=name)


def equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x == y, element by element."""
    return raw.Equal(x, y, name=name)


def not_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x != y, element by element."""
    return raw.NotEqual(x, y, name=name)


def less(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x < y."""
    return raw.Less(x, y, name=name)


def less_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x <= y."""
    return raw.LessEqual(x, y, name=name)


def greater(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x > y."""
    return raw.Greater(x, y, name=name)


def greater_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x >= y."""
    return raw.GreaterEqual(x, y, name=name)


def logical_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x and y, of booleans."""
    return raw.LogicalAnd(x, y, name=name)


def logical_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x or y, of booleans."""
    return raw.LogicalOr(x, y, name=name)


def logical_xor(x: Any, y: Any, name: str | None = "LogicalXor") -> Tensor:
    """Exactly one of x and y, of booleans."""
    x, y = (v if isinstance(v, Tensor) else convert_to_tensor(v, dtypes.bool_) for v in (x, y))
    for key, t in (("x", x), ("y", y)):
        if t.dtype.base_dtype is not dtypes.bool_:
            raise TypeError(f"Input '{key}' of 'LogicalXor' must be of type bool, not {t.dtype.name}.")
    return raw.NotEqual(x, y, name=name)


def bitwise_and(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x & y of integers."""
    return raw.BitwiseAnd(x, y, name=name)


def bitwise_or(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x | y of integers."""
    return raw.BitwiseOr(x, y, name=name)


def bitwise_xor(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x ^ y of integers."""
    return raw.BitwiseXor(x, y, name=name)


def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """The sum of a list of tensors of one shape and dtype; IndexedSlices are made dense. Raises ValueError if empty."""
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError("inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape")
    if len(inputs) == 1:
        only = convert_to_tensor(inputs[0])
        return raw.Identity(only, name=name) if name else only
    return raw.AddN([convert_to_tensor(x) for x in inputs], name=name)


def accumulate_n(inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """The sum of a list, as add_n; `shape` and `tensor_dtype` are checked if given."""
    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError("inputs must be a list of at least one Tensor/IndexedSlices with the same dtype and shape")
    tensors = [convert_to_tensor(x) for x in inputs]
    if tensor_dtype is not None and dtypes.as_dtype(tensor_dtype) is not tensors[0].dtype.base_dtype:
        raise TypeError(f"tensor_dtype is {tensor_dtype}, but input is of type {tensors[0].dtype.name}")
    total = raw.AddN(tensors, name=name or "AccumulateNV2")
    if shape is not None:
        total.set_shape(shape)
    return total
