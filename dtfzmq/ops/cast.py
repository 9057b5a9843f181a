"""Changes of element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat


def _cast_kernel(node: Any, env: Any) -> Any:
    to = node.attrs["DstT"].np_dtype
    whole, real = to.kind in "iu", to.kind != "c"

    def cast(x: np.ndarray) -> np.ndarray:
        if to.hasobject or x.dtype.hasobject:
            raise errors.UnimplementedError(
                None, None, "Cast from or to string is not supported: use tf.string_to_number or tf.as_string."
            )
        if real and x.dtype.kind == "c":
            x = x.real
        return np.trunc(x).astype(to) if whole and x.dtype.kind in "fV" else x.astype(to)

    return cast


def _cast_grad(n: Any, g: Tensor) -> tuple[Tensor | None]:
    source = n.inputs[0].dtype.base_dtype
    differentiable = source.is_floating or source.is_complex
    return (raw.Cast(g, DstT=source) if differentiable else None,)


_cast = op(
    "Cast", "x: T; DstT: type -> y: DstT", shape=same, make=_cast_kernel, grad=_cast_grad,
    samples=[
        Sample(mat(2, 3), DstT=dtypes.float64),
        Sample(mat(2, 3), DstT=dtypes.int32),
        Sample(ints(0, 1, 5), DstT=dtypes.bool_),
        Sample(ints(0, 1, 5), DstT=dtypes.float16),
        Sample(np.array([b"1"], object), DstT=dtypes.float32, fails=errors.UnimplementedError),
        Sample(ints(1), DstT=dtypes.string, fails=errors.UnimplementedError),
    ],
)  # fmt: skip


def _bitcast_shape(n: Any) -> list[Any]:
    source, to = n.inputs[0].dtype.base_dtype.size, n.attrs["type"].size
    shape = n.inputs[0].shape
    known = shape.dims_or_none
    if known is None or source == to:
        return [shape]
    if source > to:
        return [shape.concatenate([source // to])]
    if not known or known[-1] not in (None, to // source):
        raise ValueError(f"Cannot bitcast due to shape: the last size of {shape} must be {to // source}.")
    return [shape[:-1]]


def _bitcast_kernel(node: Any, env: Any) -> Any:
    to = node.attrs["type"].np_dtype

    def bitcast(x: np.ndarray) -> np.ndarray:
        x = np.ascontiguousarray(x)
        if x.dtype.itemsize > to.itemsize:
            return x[..., None].view(to)
        return x.view(to)[..., 0] if x.dtype.itemsize < to.itemsize else x.view(to)

    return bitcast


_bitcast = op(
    "Bitcast", "input: N; type: type -> output: type", shape=_bitcast_shape, make=_bitcast_kernel,
    grad=UNDEFINED("bits, not values"),
    samples=[Sample(mat(2, 3), type=dtypes.int64), Sample(mat(2, 2, dtype="float32"), type=dtypes.int64)],
)  # fmt: skip


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """x as `dtype`: fractions are cut off, numbers not 0 are true. x itself if it has that type."""
    to = dtypes.as_dtype(dtype).base_dtype
    if hasattr(x, "with_values"):
        return x.with_values(cast(x.values, to, name))
    x = convert_to_tensor(x, name="x")
    if x.dtype.base_dtype is to:
        return x
    return _cast(x, DstT=to, name=name)


def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """The bytes of `input` read as another type; the last axis grows or goes if the sizes differ."""
    return _bitcast(input, type=dtypes.as_dtype(type), name=name)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """cast that clips to the range of `dtype` first; of a complex number to a real type the real part."""
    value = convert_to_tensor(value, name="value")
    to = dtypes.as_dtype(dtype).base_dtype
    with value.graph.name_scope(name or "saturate_cast"):
        if value.dtype.is_complex and to.is_complex:
            parts = (_clipped(part(value, Tout=value.dtype.real_dtype), to.real_dtype) for part in (raw.Real, raw.Imag))
            both = value.dtype.real_dtype.size > to.real_dtype.size
            return cast(raw.Complex(*parts, Tout=value.dtype.base_dtype) if both else value, to)
        if value.dtype.is_complex:
            value = raw.Real(value, Tout=value.dtype.real_dtype)
        return cast(_clipped(value, to.real_dtype), to)


def _clipped(value: Tensor, to: dtypes.DType) -> Tensor:
    """`value` between the least and the greatest number of its own type that the real type `to` can hold."""
    source = value.dtype.base_dtype
    kind = source.np_dtype.type
    (least, most), (lowest, highest) = _bounds(source), _bounds(to)
    for extreme, beyond, clip in ((lowest, least < lowest, raw.Maximum), (highest, most > highest, raw.Minimum)):
        if beyond:
            limit = kind(float(extreme)) if source.is_floating else kind(extreme)
            if source.is_floating and (float(limit) < extreme if clip is raw.Maximum else float(limit) > extreme):
                limit = _nearer_to_0(limit)
            value = clip(value, convert_to_tensor(np.array(limit, source.np_dtype)))
    return value


def _bounds(kind: dtypes.DType) -> tuple[Any, Any]:
    """The least and the greatest number as Python's, which compare exactly with those of any other type."""
    return (float(kind.min), float(kind.max)) if kind.is_floating else (kind.min, kind.max)


def _nearer_to_0(limit: Any) -> Any:
    """The next number of the type of `limit` towards 0: numpy's nextafter has no bfloat16."""
    array = np.array(limit)
    return (array.view(f"u{array.itemsize}") - np.array(1, f"u{array.itemsize}")).view(array.dtype)


def to_float(x: Any, name: str = "ToFloat") -> Tensor:
    """cast to float32."""
    return cast(x, dtypes.float32, name)


def to_double(x: Any, name: str = "ToDouble") -> Tensor:
    """cast to float64."""
    return cast(x, dtypes.float64, name)


def to_int32(x: Any, name: str = "ToInt32") -> Tensor:
    """cast to int32."""
    return cast(x, dtypes.int32, name)


def to_complex64(x: Any, name: str = "ToComplex64") -> Tensor:
    """Cast to complex64."""
    made: Tensor = cast(x, dtypes.complex64, name=name)
    return made


def to_complex128(x: Any, name: str = "ToComplex128") -> Tensor:
    """Cast to complex128."""
    made: Tensor = cast(x, dtypes.complex128, name=name)
    return made


def to_int64(x: Any, name: str = "ToInt64") -> Tensor:
    """cast to int64."""
    return cast(x, dtypes.int64, name)


def to_bfloat16(x: Any, name: str = "ToBFloat16") -> Tensor:
    """cast to bfloat16."""
    return cast(x, dtypes.bfloat16, name)
