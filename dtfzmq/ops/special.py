"""Special functions: gamma and beta, error functions, zeta, Bessel, and logs that take 0 * log(0) as 0.

Kernels are scipy's where it is installed (the extra ``special``), else those of special_numpy; both agree within
rounding, and at the edges both answer as TensorFlow does.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.graph.shape_rules import broadcast, same
from dtfzmq.ops import special_numpy
from dtfzmq.ops.broadcasting import repeated_axes
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_sum
from dtfzmq.ops.samples import mat, pos

_found: list[ModuleType | None] = []


def _scipy() -> ModuleType | None:
    """scipy.special, or None without scipy. Imported when the first kernel asks, as it takes half a second."""
    if not _found:
        try:
            _found.append(importlib.import_module("scipy.special"))
        except ImportError:
            _found.append(None)
    return _found[0]


def _kernel(
    name: str, *, own: bool = False, invalid: Callable[..., Any] | None = None, instead: float = math.nan,
    zero: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """A kernel maker of scipy's and special_numpy's function `name`.

    `instead` where invalid(*inputs) is true of what scipy gives; 0 where zero(*inputs) is.
    """

    def make(node: Any, env: Any) -> Any:
        theirs = None if own else _scipy()
        fn = getattr(special_numpy if theirs is None else theirs, name)
        to = node.dtypes[0].np_dtype
        keeps = theirs is not None and to in (np.float32, np.float64)

        def kernel(*inputs: np.ndarray) -> np.ndarray:
            wide = inputs if keeps else tuple(np.asarray(x, np.float64) for x in inputs)
            out = fn(*wide)
            if invalid is not None and theirs is not None:
                out = np.where(invalid(*wide), instead, out)
            if zero is not None:
                out = np.where(zero(*wide), 0.0, out)
            return np.asarray(out).astype(to, copy=False)

        return kernel

    return make


def _fit(n: Any, i: int, g: Tensor) -> Tensor:
    """`g`, of the shape of the result, summed to that of input i."""
    x = n.inputs[i]
    if repeated_axes(x.shape.dims_or_none, n.outputs[0].shape.dims_or_none) == () and x.shape.is_fully_defined():
        return g
    return raw.SumToShape(g, raw.Shape(x))


def _number(value: float, like: Tensor) -> Tensor:
    return convert_to_tensor(value, dtype=like.dtype.base_dtype)


def _erf_grad(sign: float) -> Any:
    def grad(n: Any, g: Tensor) -> tuple[Tensor]:
        x = n.inputs[0]
        return (g * _number(sign * 2 / math.sqrt(math.pi), g) * raw.Exp(-raw.Square(x)),)

    return grad


def _inverse_grad(scale: float, power: float) -> Any:
    """g * scale * exp(power * y ** 2): of the inverses of erf and of the normal distribution."""

    def grad(n: Any, g: Tensor) -> tuple[Tensor]:
        return (g * _number(scale, g) * raw.Exp(raw.Square(n.outputs[0]) * power),)

    return grad


def _polygamma_grad(n: Any, g: Tensor) -> tuple[None, Tensor]:
    order, x = n.inputs
    return None, _fit(n, 1, g * raw.Polygamma(order + 1, x))


def _zeta_grad(n: Any, g: Tensor) -> tuple[None, Tensor]:
    x, q = n.inputs
    return None, _fit(n, 1, g * -x * raw.Zeta(x + 1, q))


def _igamma_grad(sign: float) -> Any:
    def grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        a, x = n.inputs
        g = g * sign
        slope = raw.Exp((a - 1) * raw.Log(x) - x - raw.Lgamma(a))
        return _fit(n, 0, g * raw.IgammaGradA(a, x)), _fit(n, 1, g * slope)

    return grad


def _betainc_grad(n: Any, g: Tensor) -> tuple[None, None, Tensor]:
    a, b, x = n.inputs
    log_beta = raw.Lgamma(a) + raw.Lgamma(b) - raw.Lgamma(a + b)
    slope = raw.Exp(raw.Xlog1py(b - 1, -x) + raw.Xlogy(a - 1, x) - log_beta)
    return None, None, _fit(n, 2, g * slope)


def _i1_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    x = n.inputs[0]
    zero = raw.Equal(x, raw.ZerosLike(x))
    safe = raw.Select(zero, raw.OnesLike(x), x)
    # at 0 the slope is 1/2; TensorFlow says 1
    return (g * raw.Select(zero, raw.OnesLike(x), raw.BesselI0(safe) - raw.BesselI1(safe) / safe),)


def _i1e_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    x, y = n.inputs[0], n.outputs[0]
    zero = raw.Equal(x, raw.ZerosLike(x))
    safe = raw.Select(zero, raw.OnesLike(x), x)
    slope = raw.BesselI0e(safe) - y * (raw.Sign(safe) + raw.Reciprocal(safe))
    return (g * raw.Select(zero, raw.OnesLike(x) * 0.5, slope),)


def _present(x: Tensor) -> Tensor:
    """1 where x is not 0, else 0."""
    return raw.Cast(raw.NotEqual(x, raw.ZerosLike(x)), DstT=x.dtype.base_dtype)


def _xlogy_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    return _fit(n, 0, g * raw.Xlogy(_present(x), y)), _fit(n, 1, g * raw.Xdivy(x, y))


def _xlog1py_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    return _fit(n, 0, g * raw.Xlog1py(_present(x), y)), _fit(n, 1, g * raw.Xdivy(x, y + 1))


def _xdivy_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    return _fit(n, 0, g * raw.Xdivy(_present(x), y)), _fit(n, 1, g * raw.Xdivy(-x, raw.Square(y)))


def _no_nan_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    return _fit(n, 0, raw.MulNoNan(g, y)), _fit(n, 1, raw.MulNoNan(x, g))


def _zero_where(fn: Callable[..., Any], which: int) -> Any:
    """fn(x, y), and 0 where input `which` is 0."""

    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(np.equal((x, y)[which], 0), x.dtype.type(0), fn(x, y))

    return kernel


_HALF_PI = math.sqrt(math.pi) / 2
_ONE = [Sample(mat(2, 3))]
_POSITIVE = [Sample(pos(2, 3))]
_TWO = [Sample(pos(2, 3), pos(2, 3, seed=1)), Sample(pos(2, 1), pos(3, seed=1))]


def _unary(name: str, function: str, grad: Any, samples: list[Sample], **how: Any) -> Any:
    return op(name, "x: E -> y: E", shape=same, make=_kernel(function, **how), grad=grad, samples=samples)


_lgamma = _unary(
    "Lgamma", "gammaln", lambda n, g: (g * raw.Digamma(n.inputs[0]),), [*_POSITIVE, *_ONE], invalid=np.isinf,
    instead=math.inf,
)  # fmt: skip
_digamma = _unary(
    "Digamma", "psi", lambda n, g: (g * raw.Polygamma(_number(1.0, g), n.inputs[0]),), _POSITIVE,
    invalid=lambda x: np.equal(x, 0),
)  # fmt: skip
_erf = _unary("Erf", "erf", _erf_grad(1), _ONE)
_erfc = _unary("Erfc", "erfc", _erf_grad(-1), _ONE)
_erfinv = _unary("Erfinv", "erfinv", _inverse_grad(_HALF_PI, 1.0), [Sample(mat(2, 3, lo=-0.9, hi=0.9))])
_ndtri = _unary("Ndtri", "ndtri", _inverse_grad(math.sqrt(2 * math.pi), 0.5), [Sample(pos(2, 3, lo=0.1, hi=0.9))])
_i0 = _unary("BesselI0", "i0", lambda n, g: (g * raw.BesselI1(n.inputs[0]),), _ONE)
_i1 = _unary("BesselI1", "i1", _i1_grad, _ONE)
_i0e = _unary(
    "BesselI0e", "i0e",
    lambda n, g: (g * (raw.BesselI1e(n.inputs[0]) - raw.Sign(n.inputs[0]) * n.outputs[0]),), _ONE,
)  # fmt: skip
_i1e = _unary("BesselI1e", "i1e", _i1e_grad, _ONE)


def _binary(name: str, inputs: str, grad: Any, samples: list[Sample], **how: Any) -> Any:
    return op(name, f"{inputs} -> z: {inputs[-1]}", shape=broadcast, grad=grad, samples=samples, **how)


_polygamma = _binary(
    "Polygamma", "a: E, x: E", _polygamma_grad, [Sample(np.array([1.0, 2.0, 0.0]), pos(2, 3))],
    make=_kernel("polygamma", own=True),
)  # fmt: skip
_zeta = _binary(
    "Zeta", "x: E, q: E", _zeta_grad, [Sample(pos(2, 3, lo=1.5, hi=4), pos(3))],
    make=_kernel("zeta", invalid=special_numpy.odd_pole),
)  # fmt: skip
_igamma = _binary(
    "Igamma", "a: E, x: E", _igamma_grad(1), _TWO,
    make=_kernel("gammainc", invalid=lambda a, x: np.less_equal(a, 0), zero=lambda a, x: np.equal(x, 0)),
)  # fmt: skip
_igammac = _binary(
    "Igammac", "a: E, x: E", _igamma_grad(-1), _TWO, make=_kernel("gammaincc", invalid=lambda a, x: np.less_equal(a, 0))
)
_igamma_grad_a = _binary(
    "IgammaGradA", "a: E, x: E", UNDEFINED("as in TensorFlow"), _TWO,
    make=_kernel("gammainc_da", own=True, zero=lambda a, x: np.equal(x, 0)),
)  # fmt: skip
_betainc = _binary(
    "Betainc", "a: E, b: E, x: E", _betainc_grad, [Sample(pos(2, 3), pos(3, seed=1), pos(2, 3, lo=0.1, hi=0.9))],
    make=_kernel("betainc", invalid=lambda a, b, x: np.less_equal(a, 0) | np.less_equal(b, 0)),
)  # fmt: skip
_xlogy = _binary("Xlogy", "x: F, y: F", _xlogy_grad, _TWO, kernel=_zero_where(lambda x, y: x * np.log(y), 0))
_xlog1py = _binary("Xlog1py", "x: F, y: F", _xlog1py_grad, _TWO, kernel=_zero_where(lambda x, y: x * np.log1p(y), 0))
_xdivy = _binary("Xdivy", "x: F, y: F", _xdivy_grad, _TWO, kernel=_zero_where(np.divide, 0))
_mul_no_nan = _binary("MulNoNan", "x: F, y: F", _no_nan_grad, _TWO, kernel=_zero_where(np.multiply, 1))


def _next_after_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    return _fit(n, 0, g), raw.ZerosLike(n.inputs[1])


_next_after = _binary(
    "NextAfter", "x1: E, x2: E", _next_after_grad,
    [Sample(mat(2, 3), mat(3, seed=1), differentiable=False)], kernel=np.nextafter,
)  # fmt: skip


def lgamma(x: Any, name: str | None = None) -> Tensor:
    """log(abs(gamma(x))), infinite at 0, -1, -2, ..."""
    return _lgamma(x, name=name)


def digamma(x: Any, name: str | None = None) -> Tensor:
    """The derivative of lgamma; nan at 0, -1, -2, ..."""
    return _digamma(x, name=name)


def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The a-th derivative of digamma at x; nan unless a is 0, 1, 2, ... No gradient to a."""
    return _polygamma(a, x, name=name)


def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """The sum of (q + n) ** -x over n >= 0, for x > 1. No gradient to x."""
    return _zeta(x, q, name=name)


def erf(x: Any, name: str | None = None) -> Tensor:
    """The error function."""
    return _erf(x, name=name)


def erfc(x: Any, name: str | None = None) -> Tensor:
    """1 - erf(x), exact where it is small."""
    return _erfc(x, name=name)


def erfinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erf; nan outside [-1, 1]."""
    return _erfinv(x, name=name)


def ndtri(x: Any, name: str | None = None) -> Tensor:
    """The quantile of the standard normal distribution; nan outside [0, 1]."""
    return _ndtri(x, name=name)


def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erfc; nan outside [0, 2]."""
    x = convert_to_tensor(x, name="start")
    with x.graph.name_scope(name or "erfcinv"):
        return -_ndtri(x * 0.5) * _number(math.sqrt(0.5), x)


def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularised lower incomplete gamma function P(a, x), for a > 0 and x >= 0."""
    return _igamma(a, x, name=name)


def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularised upper incomplete gamma function 1 - P(a, x)."""
    return _igammac(a, x, name=name)


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularised incomplete beta function, for a, b > 0 and x in [0, 1]. No gradient to a and b."""
    return _betainc(a, b, x, name=name)


def bessel_i0(x: Any, name: str | None = None) -> Tensor:
    """The modified Bessel function of order 0."""
    return _i0(x, name=name)


def bessel_i0e(x: Any, name: str | None = None) -> Tensor:
    """exp(-abs(x)) bessel_i0(x)."""
    return _i0e(x, name=name)


def bessel_i1(x: Any, name: str | None = None) -> Tensor:
    """The modified Bessel function of order 1."""
    return _i1(x, name=name)


def bessel_i1e(x: Any, name: str | None = None) -> Tensor:
    """exp(-abs(x)) bessel_i1(x)."""
    return _i1e(x, name=name)


def xlogy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * log(y), and 0 where x is 0."""
    return _xlogy(x, y, name=name)


def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * log1p(y), and 0 where x is 0."""
    return _xlog1py(x, y, name=name)


def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where x is 0."""
    return _xdivy(x, y, name=name)


def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x * y, and 0 where y is 0, even if x is nan or infinite."""
    return _mul_no_nan(x, y, name=name)


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    x = convert_to_tensor(x, name="x")
    return raw.DivNoNan(_number(1.0, x), x, name=name or "reciprocal_no_nan")


def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """The next number after x1 on the way to x2."""
    return _next_after(x1, x2, name=name)


def lbeta(x: Any, name: str | None = None) -> Tensor:
    """log of the beta function of the numbers along the last axis."""
    x = convert_to_tensor(x, name="x")
    with x.graph.name_scope(name or "lbeta"):
        return reduce_sum(_lgamma(x), [-1]) - _lgamma(reduce_sum(x, [-1]))


def polyval(coeffs: list[Any], x: Any, name: str | None = None) -> Tensor:
    """The polynomial with these coefficients, the highest power first, at x. Raises ValueError if not a list."""
    if not isinstance(coeffs, (list, tuple)):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    x = convert_to_tensor(x, name="x")
    with x.graph.name_scope(name or "polyval"):
        if not coeffs:
            return raw.ZerosLike(x)
        total = convert_to_tensor(coeffs[0], dtype=None if isinstance(coeffs[0], Tensor) else x.dtype.base_dtype)
        for c in coeffs[1:]:
            total = c + total * x
        return total
