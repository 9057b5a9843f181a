"""Functions of one tensor, element by element. Same shape, same dtype unless a name says otherwise."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import bits, ints, mat, pos

_AWAY = [Sample(mat(2, 3)), Sample(mat(4, seed=3))]
_POSITIVE = [Sample(pos(2, 3))]
_INNER = [Sample(mat(2, 3, lo=-0.9, hi=0.9))]
_STEPS = NO_GRAD("piecewise constant: the gradient is zero or undefined everywhere")


def _sigmoid(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    y = np.exp(-x) if out is None else np.exp(np.negative(x, out=out), out=out)
    if y.ndim == 0:
        return np.reciprocal(y + y.dtype.type(1))
    y += y.dtype.type(1)
    return np.reciprocal(y, out=y)


def _rsqrt(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    return np.reciprocal(np.sqrt(x, out=out), out=out)


def _round(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    return np.positive(x, out=out) if x.dtype.kind in "iub" else np.rint(x, out=out)


def _sigmoid_grad(y: np.ndarray, dy: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    slope = y.dtype.type(1) - y
    slope *= y
    return np.multiply(dy, slope, out=out)


def _nothing_of_nothing(dy: np.ndarray, out: np.ndarray) -> np.ndarray:
    """A gradient, 0 where `dy` is: so what `where` left out at a pole does not come back as nan."""
    return np.where(dy == 0, dy, out) if np.isnan(out).any() else out


def _sqrt_grad(y: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """dy / 2 y; 0 where dy is, even at y = 0 and nan."""
    return _nothing_of_nothing(dy, dy * y.dtype.type(0.5) / y)


def _rsqrt_grad(y: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """-dy y ** 3 / 2; 0 where dy is, even at y infinite and nan."""
    return _nothing_of_nothing(dy, dy * y.dtype.type(-0.5) * y * (y * y))


def _reciprocal_grad(y: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """-dy y ** 2; 0 where dy is, even at y infinite and nan."""
    return _nothing_of_nothing(dy, -dy * y * y)


def _tanh_grad(y: np.ndarray, dy: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    return np.multiply(dy, y.dtype.type(1) - y * y, out=out)


def _zeros(n: Any, g: Tensor) -> tuple[Tensor]:
    return (raw.ZerosLike(n.inputs[0]),)


_neg = op(
    "Neg",
    "x: N -> y: N",
    shape=same,
    kernel=np.negative,
    out=True,
    inplace=(0,),
    grad=lambda n, g: (-g,),
    samples=_AWAY,
)
_abs = op(
    "Abs", "x: R -> y: R", shape=same, kernel=np.absolute, out=True, inplace=(0,),
    grad=lambda n, g: (g * sign(n.inputs[0]),), samples=_AWAY,
)  # fmt: skip
_sign = op("Sign", "x: N -> y: N", shape=same, kernel=np.sign, out=True, inplace=(0,), grad=_zeros, samples=_AWAY)
_square = op(
    "Square", "x: N -> y: N", shape=same, kernel=np.square, out=True, inplace=(0,),
    grad=lambda n, g: (g * (n.inputs[0] * 2),), samples=_AWAY,
)  # fmt: skip
_sqrt = op(
    "Sqrt", "x: F -> y: F", shape=same, kernel=np.sqrt, out=True, inplace=(0,),
    grad=lambda n, g: (raw.SqrtGrad(n.outputs[0], g),), samples=_POSITIVE,
)  # fmt: skip
_rsqrt_op = op(
    "Rsqrt", "x: F -> y: F", shape=same, kernel=_rsqrt, out=True, inplace=(0,),
    grad=lambda n, g: (raw.RsqrtGrad(n.outputs[0], g),), samples=_POSITIVE,
)  # fmt: skip
_reciprocal = op(
    "Reciprocal", "x: F -> y: F", shape=same, kernel=np.reciprocal, out=True, inplace=(0,),
    grad=lambda n, g: (raw.ReciprocalGrad(n.outputs[0], g),), samples=_POSITIVE,
)  # fmt: skip
_exp = op(
    "Exp",
    "x: F -> y: F",
    shape=same,
    kernel=np.exp,
    out=True,
    inplace=(0,),
    grad=lambda n, g: (g * n.outputs[0],),
    samples=_AWAY,
)
_expm1 = op(
    "Expm1", "x: F -> y: F", shape=same, kernel=np.expm1, out=True, inplace=(0,),
    grad=lambda n, g: (g * exp(n.inputs[0]),), samples=_AWAY,
)  # fmt: skip
_log = op(
    "Log", "x: F -> y: F", shape=same, kernel=np.log, out=True, inplace=(0,),
    grad=lambda n, g: (g / n.inputs[0],), samples=_POSITIVE,
)  # fmt: skip
_log1p = op(
    "Log1p", "x: F -> y: F", shape=same, kernel=np.log1p, out=True, inplace=(0,),
    grad=lambda n, g: (g / (n.inputs[0] + 1),), samples=_POSITIVE,
)  # fmt: skip
_sin = op(
    "Sin", "x: F -> y: F", shape=same, kernel=np.sin, out=True, inplace=(0,),
    grad=lambda n, g: (g * cos(n.inputs[0]),), samples=_AWAY,
)  # fmt: skip
_cos = op(
    "Cos", "x: F -> y: F", shape=same, kernel=np.cos, out=True, inplace=(0,),
    grad=lambda n, g: (-g * sin(n.inputs[0]),), samples=_AWAY,
)  # fmt: skip
_tan = op(
    "Tan", "x: F -> y: F", shape=same, kernel=np.tan, out=True, inplace=(0,),
    grad=lambda n, g: (g / square(cos(n.inputs[0])),), samples=_INNER,
)  # fmt: skip
_asin = op(
    "Asin", "x: F -> y: F", shape=same, kernel=np.arcsin, out=True, inplace=(0,),
    grad=lambda n, g: (g * rsqrt(1 - square(n.inputs[0])),), samples=_INNER,
)  # fmt: skip
_acos = op(
    "Acos", "x: F -> y: F", shape=same, kernel=np.arccos, out=True, inplace=(0,),
    grad=lambda n, g: (-g * rsqrt(1 - square(n.inputs[0])),), samples=_INNER,
)  # fmt: skip
_atan = op(
    "Atan", "x: F -> y: F", shape=same, kernel=np.arctan, out=True, inplace=(0,),
    grad=lambda n, g: (g / (1 + square(n.inputs[0])),), samples=_AWAY,
)  # fmt: skip
_sinh = op(
    "Sinh", "x: F -> y: F", shape=same, kernel=np.sinh, out=True, inplace=(0,),
    grad=lambda n, g: (g * cosh(n.inputs[0]),), samples=_AWAY,
)  # fmt: skip
_cosh = op(
    "Cosh", "x: F -> y: F", shape=same, kernel=np.cosh, out=True, inplace=(0,),
    grad=lambda n, g: (g * sinh(n.inputs[0]),), samples=_AWAY,
)  # fmt: skip
_tanh = op(
    "Tanh", "x: F -> y: F", shape=same, kernel=np.tanh, out=True, inplace=(0,),
    grad=lambda n, g: (raw.TanhGrad(n.outputs[0], g),), samples=_AWAY,
)  # fmt: skip
_tanh_grad_op = op(
    "TanhGrad", "y: F, dy: F -> z: F", shape=same, kernel=_tanh_grad, out=True, inplace=(0, 1),
    grad=lambda n, g: (g * n.inputs[1] * n.inputs[0] * -2, raw.TanhGrad(n.inputs[0], g)),
    samples=[Sample(mat(2, 3), mat(2, 3, seed=1))],
)  # fmt: skip
_asinh = op(
    "Asinh", "x: F -> y: F", shape=same, kernel=np.arcsinh, out=True, inplace=(0,),
    grad=lambda n, g: (g / cosh(n.outputs[0]),), samples=_AWAY,
)  # fmt: skip
_acosh = op(
    "Acosh", "x: F -> y: F", shape=same, kernel=np.arccosh, out=True, inplace=(0,),
    grad=lambda n, g: (g / sinh(n.outputs[0]),), samples=[Sample(mat(2, 3, lo=1.2, hi=3))],
)  # fmt: skip
_atanh = op(
    "Atanh", "x: F -> y: F", shape=same, kernel=np.arctanh, out=True, inplace=(0,),
    grad=lambda n, g: (g / (1 - square(n.inputs[0])),), samples=_INNER,
)  # fmt: skip
_sigmoid_op = op(
    "Sigmoid", "x: F -> y: F", shape=same, kernel=_sigmoid, out=True, inplace=(0,),
    grad=lambda n, g: (raw.SigmoidGrad(n.outputs[0], g),), samples=_AWAY,
)  # fmt: skip
_sqrt_grad_op = op(
    "SqrtGrad", "y: F, dy: F -> z: F", shape=same, kernel=_sqrt_grad,
    grad=lambda n, g: (-(g / n.inputs[0]) * n.outputs[0], raw.SqrtGrad(n.inputs[0], g)),
    samples=[Sample(pos(2, 3), mat(2, 3, seed=1)), Sample(np.zeros(2), np.array([0.0, 1.0]), differentiable=False)],
)  # fmt: skip
_rsqrt_grad_op = op(
    "RsqrtGrad", "y: F, dy: F -> z: F", shape=same, kernel=_rsqrt_grad,
    grad=lambda n, g: (g * n.inputs[1] * square(n.inputs[0]) * -1.5, raw.RsqrtGrad(n.inputs[0], g)),
    samples=[Sample(pos(2, 3), mat(2, 3, seed=1)), Sample(np.full(1, np.inf), np.zeros(1), differentiable=False)],
)  # fmt: skip
_reciprocal_grad_op = op(
    "ReciprocalGrad", "y: F, dy: F -> z: F", shape=same, kernel=_reciprocal_grad,
    grad=lambda n, g: (g * n.inputs[1] * n.inputs[0] * -2.0, raw.ReciprocalGrad(n.inputs[0], g)),
    samples=[Sample(pos(2, 3), mat(2, 3, seed=1)), Sample(np.full(1, np.inf), np.zeros(1), differentiable=False)],
)  # fmt: skip
_sigmoid_grad_op = op(
    "SigmoidGrad", "y: F, dy: F -> z: F", shape=same, kernel=_sigmoid_grad, out=True, inplace=(0, 1),
    grad=lambda n, g: (g * n.inputs[1] * (1 - 2 * n.inputs[0]), raw.SigmoidGrad(n.inputs[0], g)),
    samples=[Sample(mat(2, 3), mat(2, 3, seed=1))],
)  # fmt: skip
_floor = op("Floor", "x: E -> y: E", shape=same, kernel=np.floor, out=True, inplace=(0,), grad=_STEPS, samples=_AWAY)
_ceil = op("Ceil", "x: E -> y: E", shape=same, kernel=np.ceil, out=True, inplace=(0,), grad=_STEPS, samples=_AWAY)
_round_op = op("Round", "x: N -> y: N", shape=same, kernel=_round, out=True, inplace=(0,), grad=_STEPS, samples=_AWAY)
_rint = op("Rint", "x: E -> y: E", shape=same, kernel=np.rint, out=True, inplace=(0,), grad=_STEPS, samples=_AWAY)
_is_nan = op(
    "IsNan",
    "x: E -> y: bool",
    shape=same,
    kernel=np.isnan,
    out=True,
    inplace=(0,),
    grad=NO_GRAD("boolean result"),
    samples=_AWAY,
)
_is_inf = op(
    "IsInf",
    "x: E -> y: bool",
    shape=same,
    kernel=np.isinf,
    out=True,
    inplace=(0,),
    grad=NO_GRAD("boolean result"),
    samples=_AWAY,
)
_is_finite = op(
    "IsFinite", "x: E -> y: bool", shape=same, kernel=np.isfinite, out=True, inplace=(0,),
    grad=NO_GRAD("boolean result"), samples=_AWAY,
)  # fmt: skip
_logical_not = op(
    "LogicalNot", "x: bool -> y: bool", shape=same, kernel=np.logical_not, out=True, inplace=(0,),
    grad=NO_GRAD("boolean result"), samples=[Sample(bits(2, 3))],
)  # fmt: skip
_invert = op(
    "Invert", "x: Z -> y: Z", shape=same, kernel=np.invert, out=True, inplace=(0,),
    grad=NO_GRAD("integer result"), samples=[Sample(ints(1, 0, -7))],
)  # fmt: skip


def _or_sparse(fn: Any) -> Any:
    """`fn` of a tensor, or of the values of a SparseTensor: for functions that keep zero."""

    @functools.wraps(fn)
    def apply(x: Any, name: str | None = None) -> Any:
        return x.with_values(fn(x.values, name)) if isinstance(x, SparseTensor) else fn(x, name)

    return apply


@_or_sparse
def negative(x: Any, name: str | None = None) -> Tensor:
    """-x."""
    return _neg(x, name=name)


neg = negative


@_or_sparse
def abs(x: Any, name: str | None = None) -> Tensor:
    """|x|; of a complex number its length, a real number."""
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return raw.ComplexAbs(x, Tout=x.dtype.base_dtype.real_dtype, name=name)
    return _abs(x, name=name)


@_or_sparse
def sign(x: Any, name: str | None = None) -> Tensor:
    """-1, 0 or 1."""
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        size = raw.ComplexAbs(x, Tout=x.dtype.base_dtype.real_dtype)
        return raw.DivNoNan(x, raw.Cast(size, DstT=x.dtype.base_dtype), name=name or "Sign")
    return _sign(x, name=name)


@_or_sparse
def square(x: Any, name: str | None = None) -> Tensor:
    """x * x."""
    return _square(x, name=name)


@_or_sparse
def sqrt(x: Any, name: str | None = None) -> Tensor:
    """Square root; nan below 0."""
    return _sqrt(x, name=name)


def rsqrt(x: Any, name: str | None = None) -> Tensor:
    """1 / sqrt(x)."""
    return _rsqrt_op(x, name=name)


def reciprocal(x: Any, name: str | None = None) -> Tensor:
    """1 / x."""
    return _reciprocal(x, name=name)


inv = reciprocal


def exp(x: Any, name: str | None = None) -> Tensor:
    """e ** x."""
    return _exp(x, name=name)


def expm1(x: Any, name: str | None = None) -> Tensor:
    """exp(x) - 1, exact near 0."""
    return _expm1(x, name=name)


def log(x: Any, name: str | None = None) -> Tensor:
    """Natural logarithm; -inf at 0, nan below."""
    return _log(x, name=name)


def log1p(x: Any, name: str | None = None) -> Tensor:
    """log(1 + x), exact near 0."""
    return _log1p(x, name=name)


def sin(x: Any, name: str | None = None) -> Tensor:
    """Sine."""
    return _sin(x, name=name)


def cos(x: Any, name: str | None = None) -> Tensor:
    """Cosine."""
    return _cos(x, name=name)


def tan(x: Any, name: str | None = None) -> Tensor:
    """Tangent."""
    return _tan(x, name=name)


def asin(x: Any, name: str | None = None) -> Tensor:
    """Inverse sine."""
    return _asin(x, name=name)


def acos(x: Any, name: str | None = None) -> Tensor:
    """Inverse cosine."""
    return _acos(x, name=name)


def atan(x: Any, name: str | None = None) -> Tensor:
    """Inverse tangent."""
    return _atan(x, name=name)


def sinh(x: Any, name: str | None = None) -> Tensor:
    """Hyperbolic sine."""
    return _sinh(x, name=name)


def cosh(x: Any, name: str | None = None) -> Tensor:
    """Hyperbolic cosine."""
    return _cosh(x, name=name)


@_or_sparse
def tanh(x: Any, name: str | None = None) -> Tensor:
    """Hyperbolic tangent."""
    return _tanh(x, name=name)


def asinh(x: Any, name: str | None = None) -> Tensor:
    """Inverse hyperbolic sine."""
    return _asinh(x, name=name)


def acosh(x: Any, name: str | None = None) -> Tensor:
    """Inverse hyperbolic cosine."""
    return _acosh(x, name=name)


def atanh(x: Any, name: str | None = None) -> Tensor:
    """Inverse hyperbolic tangent."""
    return _atanh(x, name=name)


def sigmoid(x: Any, name: str | None = None) -> Tensor:
    """1 / (1 + exp(-x))."""
    return _sigmoid_op(x, name=name)


def floor(x: Any, name: str | None = None) -> Tensor:
    """The largest integer not above x."""
    return _floor(x, name=name)


def ceil(x: Any, name: str | None = None) -> Tensor:
    """The smallest integer not below x."""
    return _ceil(x, name=name)


def round(x: Any, name: str | None = None) -> Tensor:
    """To the nearest integer, halves to even."""
    return _round_op(x, name=name)


def rint(x: Any, name: str | None = None) -> Tensor:
    """To the nearest integer, halves to even."""
    return _rint(x, name=name)


def is_nan(x: Any, name: str | None = None) -> Tensor:
    """True where x is not a number."""
    return _is_nan(x, name=name)


def is_inf(x: Any, name: str | None = None) -> Tensor:
    """True where x is infinite."""
    return _is_inf(x, name=name)


def is_finite(x: Any, name: str | None = None) -> Tensor:
    """True where x is neither infinite nor nan."""
    return _is_finite(x, name=name)


def logical_not(x: Any, name: str | None = None) -> Tensor:
    """not x, of booleans."""
    return _logical_not(x, name=name)
