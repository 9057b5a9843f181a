"""Element types: TensorFlow's names over numpy's arrays.

A DType is interned: two of one name are one object. Reference types (``float32_ref``) are the types of what a variable
op yields: the place, not a value. Strings are numpy object arrays of ``bytes``. bfloat16 needs the package ml_dtypes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dtfzmq.base import errors

try:
    import ml_dtypes

    _BFLOAT16: np.dtype[Any] | None = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    _BFLOAT16 = None


class DType:
    """One element type. Attributes are TensorFlow's."""

    __slots__ = ("_np", "is_bool", "is_complex", "is_floating", "is_integer", "is_ref", "name", "twin", "unsigned")

    def __init__(self, name: str, np_dtype: np.dtype[Any] | None, kind: str, is_ref: bool = False) -> None:
        self.name = name
        self._np = np_dtype
        self.is_ref = is_ref
        self.is_floating = kind == "f"
        self.is_integer = kind in "iu"
        self.is_complex = kind == "c"
        self.is_bool = kind == "b"
        self.unsigned = kind == "u"
        self.twin: DType = self

    @property
    def np_dtype(self) -> np.dtype[Any]:
        """numpy's dtype object. Raises UnimplementedError for bfloat16 without ml_dtypes, TypeError for resource."""
        if self._np is None:
            if self.base_dtype.name == "bfloat16":
                raise errors.UnimplementedError(
                    None, None, "bfloat16 needs the package ml_dtypes; install it here and on every task."
                )
            raise TypeError(f"{self.name} has no numpy type.")
        return self._np

    @property
    def as_numpy_dtype(self) -> Any:
        """numpy's scalar type (``np.float32``; ``np.object_`` for strings), as TensorFlow gives it."""
        return self.np_dtype.type

    @property
    def base_dtype(self) -> DType:
        """The type of the value: of ``float32_ref``, ``float32``."""
        return self.twin if self.is_ref else self

    @property
    def ref(self) -> DType:
        """The reference type of this type."""
        return self if self.is_ref else self.twin

    @property
    def _as_ref(self) -> DType:
        return self.ref

    @property
    def _is_ref_dtype(self) -> bool:
        return self.is_ref

    @property
    def is_unsigned(self) -> bool:
        """True for unsigned integers."""
        return self.unsigned

    @property
    def is_numpy_compatible(self) -> bool:
        """True if arrays of this type can be fed and fetched."""
        return self._np is not None

    @property
    def real_dtype(self) -> DType:
        """The type of the real part of a complex type; other types are their own."""
        name = self.base_dtype.name
        return {"complex64": float32, "complex128": float64}.get(name, self)

    @property
    def size(self) -> int:
        """Bytes of one element; 1 where there is no fixed size, as in TensorFlow."""
        if self._np is None or self._np.hasobject:
            return 2 if self.base_dtype.name == "bfloat16" else 1
        return int(self._np.itemsize)

    @property
    def min(self) -> Any:
        """The smallest finite value. Raises TypeError where there is no order."""
        return self._limit("min")

    @property
    def max(self) -> Any:
        """The largest finite value. Raises TypeError where there is no order."""
        return self._limit("max")

    @property
    def limits(self) -> tuple[Any, Any]:
        """``(0, 1)`` for floating types, ``(min, max)`` for integers: TensorFlow's image range."""
        return (0, 1) if self.is_floating else (self.min, self.max)

    def _limit(self, which: str) -> Any:
        if self.is_floating:
            info: Any = ml_dtypes.finfo(self.np_dtype) if self.base_dtype is bfloat16 else np.finfo(self.np_dtype)
        elif self.is_integer:
            info = np.iinfo(self.np_dtype)
        elif self.is_bool:
            return which == "max"
        else:
            raise TypeError(f"Cannot find {which}imum value of {self.name}.")
        return getattr(info, which)

    def is_compatible_with(self, other: Any) -> bool:
        """True if a value of `other` may stand where this type is asked for: equal, a reference aside."""
        return self.base_dtype is as_dtype(other).base_dtype

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other is None or isinstance(other, DType):
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


_BY_NAME: dict[str, DType] = {}


def _define(name: str, np_dtype: Any, kind: str) -> DType:
    np_dtype = None if np_dtype is None else np.dtype(np_dtype)
    value, ref = DType(name, np_dtype, kind), DType(name + "_ref", np_dtype, kind, is_ref=True)
    value.twin, ref.twin = ref, value
    _BY_NAME[value.name] = value
    _BY_NAME[ref.name] = ref
    return value


float16: Final = _define("float16", np.float16, "f")
float32: Final = _define("float32", np.float32, "f")
float64: Final = _define("float64", np.float64, "f")
bfloat16: Final = _define("bfloat16", _BFLOAT16, "f")
int8: Final = _define("int8", np.int8, "i")
int16: Final = _define("int16", np.int16, "i")
int32: Final = _define("int32", np.int32, "i")
int64: Final = _define("int64", np.int64, "i")
uint8: Final = _define("uint8", np.uint8, "u")
uint16: Final = _define("uint16", np.uint16, "u")
uint32: Final = _define("uint32", np.uint32, "u")
uint64: Final = _define("uint64", np.uint64, "u")
bool_: Final = _define("bool", np.bool_, "b")
string: Final = _define("string", object, "O")
complex64: Final = _define("complex64", np.complex64, "c")
complex128: Final = _define("complex128", np.complex128, "c")
resource: Final = _define("resource", None, "r")
variant: Final = _define("variant", None, "v")

half: Final = float16
double: Final = float64

_ALIASES = {"half": float16, "float": float32, "double": float64, "int": int32, "str": string}
_PYTHON = {float: float32, int: int32, bool: bool_, str: string, bytes: string, object: string, complex: complex128}
_BY_NUMPY: dict[np.dtype[Any], DType] = {
    d.np_dtype: d for d in _BY_NAME.values() if not d.is_ref and d.is_numpy_compatible
}
_BY_NUMPY_TYPE: dict[Any, DType] = {np_dtype.type: d for np_dtype, d in _BY_NUMPY.items()}


def as_dtype(value: Any) -> DType:
    """The DType of a DType, a name, a numpy dtype or scalar type, or a Python type.

    Raises TypeError for anything else, structured and datetime types among them.
    """
    if type(value) is DType:
        return value
    if isinstance(value, str):
        found = _BY_NAME.get(value) or _ALIASES.get(value)
        if found is not None:
            return found
    elif isinstance(value, type):
        found = _PYTHON.get(value) or _BY_NUMPY_TYPE.get(value)
        if found is not None:
            return found
    elif value is None:
        raise TypeError("Cannot convert None to a TensorFlow DType.")
    inner = getattr(value, "dtype", None)
    if isinstance(inner, (DType, np.dtype)) and not isinstance(value, (type, np.dtype)):
        return as_dtype(inner)
    try:
        return of_numpy(np.dtype(value))
    except (TypeError, ValueError):
        raise TypeError(f"Cannot convert value {value!r} to a TensorFlow DType.") from None


def of_numpy(np_dtype: np.dtype[Any]) -> DType:
    """The DType of a numpy dtype of any byte order; text and bytes are strings. Raises TypeError if there is none."""
    found = _BY_NUMPY.get(np_dtype)
    if found is not None:
        return found
    if np_dtype.kind in "SU":
        return string
    found = _BY_NUMPY.get(np_dtype.newbyteorder("="))
    if found is None:
        raise TypeError(f"Cannot convert numpy type {np_dtype} to a TensorFlow DType.")
    return found


def of_array(array: npt.NDArray[Any] | np.generic) -> DType:
    """The DType of an array or numpy scalar. Raises TypeError as `of_numpy` does."""
    return of_numpy(array.dtype)


def all_types() -> list[DType]:
    """Every value type (no reference types)."""
    return [d for d in _BY_NAME.values() if not d.is_ref]
