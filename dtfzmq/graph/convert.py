"""From Python values to tensors, by a table of conversion functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import SCALAR, TensorShape, as_shape
from dtfzmq.graph.graph import get_default_graph
from dtfzmq.graph.tensor import Tensor

_Converter = Callable[..., Any]
_converters: list[tuple[int, int, Any, _Converter]] = []
_cache: dict[type, list[_Converter]] = {}

_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


def register_tensor_conversion_function(base_type: Any, fn: _Converter, priority: int = 100) -> None:
    """Convert instances of `base_type` (a class or tuple) by ``fn(value, dtype=None, name=None, as_ref=False)``.

    Lower priorities are asked first; a function that returns NotImplemented passes the value on.
    """
    _converters.append((priority, len(_converters), base_type, fn))
    _converters.sort(key=lambda c: c[:2])
    _cache.clear()


def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    preferred_dtype: Any = None,
    as_ref: bool = False,
) -> Tensor:
    """The tensor that `value` is, or a constant of it.

    `dtype` is a demand, `preferred_dtype` a wish that gives way. Raises TypeError if the value does not fit the type,
    ValueError if a tensor has another type or the value no regular shape.
    """
    if type(value) is Tensor:
        if dtype is not None:
            wanted = dtypes.as_dtype(dtype)
            if wanted.base_dtype is not value.dtype.base_dtype:
                raise ValueError(
                    f"Tensor conversion requested dtype {wanted.name} for Tensor with dtype {value.dtype.name}: {value}"
                )
        return value
    wanted_dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    kind = type(value)
    found = _cache.get(kind)
    if found is None:
        found = _cache[kind] = [c[3] for c in _converters if issubclass(kind, c[2])]
    for fn in found:
        if wanted_dtype is None and preferred_dtype is not None:
            try:
                result = fn(value, dtype=dtypes.as_dtype(preferred_dtype), name=name, as_ref=as_ref)
            except (TypeError, ValueError):
                result = fn(value, dtype=None, name=name, as_ref=as_ref)
        else:
            result = fn(value, dtype=wanted_dtype, name=name, as_ref=as_ref)
        if result is not NotImplemented:
            return result
    if wanted_dtype is None and preferred_dtype is not None:
        try:
            return constant(value, preferred_dtype, name=name)
        except (TypeError, ValueError):
            pass
    return constant(value, wanted_dtype, name=name)


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str | None = None) -> Tensor:
    """A ``Const`` operation that yields `value`; with `shape`, its last element fills what is missing.

    Raises TypeError if the value does not fit the type, ValueError if it is ragged or larger than `shape`.
    """
    array = make_array(value, None if dtype is None else dtypes.as_dtype(dtype).base_dtype)
    if shape is not None:
        array = _filled(array, as_shape(shape), dtype is not None or isinstance(value, (np.ndarray, np.generic)))
    array.setflags(write=False)
    static = SCALAR if array.ndim == 0 else TensorShape(array.shape)
    graph = get_default_graph()
    op = graph.create_op("Const", (), {"value": array}, (dtypes.of_array(array),), name or "Const", (static,))
    return op.outputs[0]


def _filled(array: npt.NDArray[Any], shape: TensorShape, typed: bool) -> npt.NDArray[Any]:
    sizes = [int(d or 0) for d in shape.as_list()]
    if list(array.shape) == sizes:
        return array
    count = int(np.prod(sizes, dtype=np.int64))
    if not count:  # whatever the value; of no type of its own
        return np.empty(sizes, array.dtype if typed else np.float32)
    flat = array.reshape(-1)
    if flat.size > count:
        raise ValueError(f"Too many elements provided. Takes at most {count}, but got {flat.size}.")
    out = np.empty(count, array.dtype)
    out[: flat.size] = flat
    out[flat.size :] = flat[-1] if flat.size else 0
    return out.reshape(sizes)


def make_array(value: Any, dtype: DType | None = None) -> npt.NDArray[Any]:
    """A fresh array in native byte order and C order, by TensorFlow's rules for Python values.

    Python floats become float32, ints int32 (int64 if they do not fit), text UTF-8 bytes; numpy arrays keep their type.
    Raises TypeError for a value that the type cannot hold (1.5 for int32, None), ValueError for a ragged list.
    """
    if value is None:
        raise ValueError("None values not supported.")
    if isinstance(value, (np.ndarray, np.generic)):
        return _from_numpy(value, dtype)
    kind = type(value)
    if kind is float and (dtype is None or dtype.is_floating or dtype.is_complex):
        return np.array(value, (dtype or dtypes.float32).np_dtype)
    if kind is int and dtype is not None and dtype.is_integer:
        return _checked_int(value, dtype)
    if dtype is not None:
        _check_leaves(value, dtype)
    array = as_array(value)
    if array.dtype == object or array.dtype.kind in "SU":
        return _from_objects(value, array, dtype)
    if dtype is None:
        if array.dtype == np.float64:
            dtype = dtypes.float64 if _has_numpy(value) else dtypes.float32
        elif array.dtype == np.int64 and not _has_numpy(value):
            fits = array.size == 0 or (array.min() >= _INT32_MIN and array.max() <= _INT32_MAX)
            dtype = dtypes.int32 if fits else dtypes.int64
            if array.size == 0:
                dtype = dtypes.float32
        else:
            dtype = dtypes.of_array(array)
        if array.size == 0 and array.dtype == np.float64:
            dtype = dtypes.float32
    return np.array(array, dtype.np_dtype, order="C")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _checked_int(value: int, dtype: DType) -> npt.NDArray[Any]:
    try:
        return np.array(value, dtype.np_dtype)
    except OverflowError:
        raise ValueError(f"Value {value} is out of the range of {dtype.name}.") from None


def _has_numpy(value: Any) -> bool:
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (np.ndarray, np.generic))


def _from_numpy(value: npt.NDArray[Any] | np.generic, dtype: DType | None) -> npt.NDArray[Any]:
    array = as_array(value)
    if array.dtype.kind in "SUO":
        return _from_objects(value, array, dtype)
    own = dtypes.of_array(array)
    wanted = dtype or own
    if wanted is not own:
        if wanted is dtypes.string:
            raise TypeError(f"Expected string, got an array of {own.name} instead.")
        if wanted.is_integer and not (own.is_integer or own.is_bool) and not np.can_cast(array.dtype, wanted.np_dtype):
            raise TypeError(f"Expected {wanted.name}, got an array of {own.name} instead.")
    return np.array(array, wanted.np_dtype, order="C")


def _from_objects(value: Any, array: npt.NDArray[Any], dtype: DType | None) -> npt.NDArray[Any]:
    if dtype not in (None, dtypes.string):
        raise TypeError(f"Expected {dtype.name if dtype else ''}, got {_short(value)} of type 'str' instead.")
    out = np.empty(array.shape, object)
    flat, source = out.reshape(-1), array.reshape(-1)
    for i, item in enumerate(source):
        flat[i] = as_bytes(item)
    return out


def as_array(value: Any) -> npt.NDArray[Any]:
    """As np.asarray, but text and bytes as an array of objects: numpy's of fixed width lose NULs at their end.

    Raises ValueError for a ragged list.
    """
    if isinstance(value, np.ndarray):
        return value
    try:
        array = np.asarray(value)
        return np.asarray(value, object) if array.dtype.kind in "SU" else array
    except UnicodeDecodeError:  # of text beside bytes that are no ASCII
        return np.asarray(value, object)
    except ValueError:
        raise ValueError(f"Can't convert non-rectangular Python sequence to Tensor: {_short(value)}") from None


def as_bytes(item: Any) -> bytes:
    """Text as UTF-8, bytes as they are. Raises TypeError for anything else."""
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, (bytes, bytearray)):
        return bytes(item)
    raise TypeError(f"Expected text or bytes, got {_short(item)} of type '{type(item).__name__}' instead.")


def _check_leaves(value: Any, dtype: DType) -> None:
    """Raise TypeError at the first Python leaf that `dtype` would not hold unchanged."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
            continue
        if isinstance(item, (np.ndarray, np.generic)):
            continue
        ok = True
        if item is None:
            ok = False
        elif dtype.is_integer:
            ok = isinstance(item, int) and not isinstance(item, bool)
        elif dtype.is_floating:
            ok = isinstance(item, (int, float)) and not isinstance(item, bool)
        elif dtype.is_complex:
            ok = isinstance(item, (int, float, complex))
        elif dtype is dtypes.bool_:
            ok = isinstance(item, bool)
        elif dtype is dtypes.string:
            ok = isinstance(item, (str, bytes, bytearray))
        if not ok and not hasattr(item, "__array__") and not (dtype.is_integer and hasattr(item, "__index__")):
            raise TypeError(
                f"Expected {dtype.name}, got {_short(item)} of type '{type(item).__name__}' instead."
            )


def _shape_to_tensor(
    value: TensorShape, dtype: DType | None = None, name: str | None = None, as_ref: bool = False
) -> Any:
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape {value} to a Tensor.")
    return constant(np.array(value.as_list(), np.int32), dtype or dtypes.int32, name=name)


register_tensor_conversion_function(TensorShape, _shape_to_tensor, 0)
