"""Complex numbers: made of two parts, taken apart, turned around.

A gradient of something real with respect to a complex z is d/dx + i d/dy, as in TensorFlow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.shape_rules import broadcast, same
from dtfzmq.ops.broadcasting import unbroadcast
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat

_TWIN = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}


def cmat(*shape: int, seed: int = 0) -> np.ndarray:
    """Complex sample values, distinct and away from zero."""
    return mat(*shape, seed=seed) + 1j * mat(*shape, seed=seed + 11) + 0.1


_SAMPLES = [Sample(cmat(2, 3), Tout=dtypes.float64)]


def _complex_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[0].np_dtype

    def join(re: np.ndarray, im: np.ndarray) -> np.ndarray:
        out = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), to)
        out.real = re
        out.imag = im
        return out

    return join


def _zero(g: Tensor) -> np.ndarray:
    return np.zeros((), g.dtype.base_dtype.np_dtype)


def _join(re: Any, im: Any) -> Tensor:
    real_type = next(t.dtype.base_dtype for t in (re, im) if isinstance(t, Tensor))
    return raw.Complex(re, im, Tout=_TWIN[real_type])


def _angle_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    x = n.inputs[0]
    return (_join(-g, _zero(g)) / _join(imag(x), real(x)),)


def _abs_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    zero = _zero(g)
    return (raw.DivNoNan(_join(g, zero) * n.inputs[0], _join(n.outputs[0], zero)),)


_complex = op(
    "Complex", "real: E, imag: E; Tout: type -> out: Tout", shape=broadcast, make=_complex_kernel,
    grad=lambda n, g: (unbroadcast(real(g), *n.inputs), unbroadcast(imag(g), n.inputs[1], n.inputs[0])),
    samples=[
        Sample(mat(2, 3), mat(2, 3, seed=1), Tout=dtypes.complex128),
        Sample(mat(2, 1), mat(3, seed=1), Tout=dtypes.complex128),
    ],
)  # fmt: skip
_real = op(
    "Real", "input: C; Tout: type -> output: Tout", shape=same, kernel=np.real,
    grad=lambda n, g: (_join(g, _zero(g)),), samples=_SAMPLES,
)  # fmt: skip
_imag = op(
    "Imag", "input: C; Tout: type -> output: Tout", shape=same, kernel=np.imag,
    grad=lambda n, g: (_join(_zero(g), g),), samples=_SAMPLES,
)  # fmt: skip
_angle = op(
    "Angle", "input: C; Tout: type -> output: Tout", shape=same, kernel=np.angle, grad=_angle_grad, samples=_SAMPLES
)
_complex_abs = op(
    "ComplexAbs", "x: C; Tout: type -> y: Tout", shape=same, kernel=np.absolute, grad=_abs_grad, samples=_SAMPLES
)
_conj = op(
    "Conj", "input: C -> output: C", shape=same, kernel=np.conjugate, out=True, grad=lambda n, g: (raw.Conj(g),),
    samples=[Sample(cmat(2, 3))],
)  # fmt: skip


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """real + i imag: complex64 of float32, complex128 of float64. Raises TypeError for other types."""
    real = convert_to_tensor(real, name="real")
    imag = convert_to_tensor(imag, dtype=None if isinstance(imag, Tensor) else real.dtype.base_dtype, name="imag")
    to = _TWIN.get(real.dtype.base_dtype)
    if to is None or real.dtype.base_dtype is not imag.dtype.base_dtype:
        raise TypeError(
            f"The `real` and `imag` components have incorrect types: {real.dtype.name} {imag.dtype.name}. They must be "
            "consistent, and one of [tf.float32, tf.float64]"
        )
    return _complex(real, imag, Tout=to, name=name or "Complex")


def _part(builder: Any, x: Tensor, name: str) -> Tensor:
    return builder(x, Tout=x.dtype.base_dtype.real_dtype, name=name)


def real(input: Any, name: str | None = None) -> Tensor:
    """The real part; a real tensor is its own. Raises TypeError if the tensor is not numeric."""
    x = convert_to_tensor(input, name="input")
    if x.dtype.is_complex:
        return _part(_real, x, name or "Real")
    if not (x.dtype.is_floating or x.dtype.is_integer):
        raise TypeError(f"input must be a numeric tensor, but got tensor with dtype {x.dtype!r}")
    return x


def imag(input: Any, name: str | None = None) -> Tensor:
    """The imaginary part; zeros of a real tensor."""
    x = convert_to_tensor(input, name="input")
    return _part(_imag, x, name or "Imag") if x.dtype.is_complex else raw.ZerosLike(x, name=name)


def angle(input: Any, name: str | None = None) -> Tensor:
    """The argument of a complex number, in (-pi, pi]; of real ones 0, or pi below zero."""
    x = convert_to_tensor(input, name="input")
    if x.dtype.is_complex:
        return _part(_angle, x, name or "Angle")
    half_turn = raw.OnesLike(x) * convert_to_tensor(np.pi, dtype=x.dtype.base_dtype)
    return raw.Select(raw.Less(x, raw.ZerosLike(x)), half_turn, raw.ZerosLike(x), name=name)


def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate; a real tensor is its own. Raises TypeError if x is not numeric."""
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return _conj(x, name=name)
    if x.dtype.is_floating or x.dtype.is_integer:
        return x
    raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype!r}")


def complex_abs(x: Any, name: str | None = None) -> Tensor:
    """The length of a complex number, a real tensor."""
    x = convert_to_tensor(x, name="x")
    return _part(_complex_abs, x, name or "ComplexAbs")
