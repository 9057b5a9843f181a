"""Special functions in numpy and the standard library, for tasks without scipy: double precision, slower.

All take float64 arrays and broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any

_TERMS = 20000  # of a series or fraction; far more than any argument needs that does not overflow first
_TINY = 1e-300
# Bernoulli numbers B(2k) over (2k)!, of the Euler-Maclaurin sum, and B(2k) over 2k, of digamma's expansion.
_BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330]


def _each(fn: Callable[[float], float]) -> Callable[[Array], Array]:
    one = np.frompyfunc(fn, 1, 1)
    return lambda x: np.asarray(one(x), np.float64)


def _log_gamma(x: float) -> float:
    if x <= 0 and x == math.floor(x) or math.isinf(x):
        return math.inf
    return math.lgamma(x)


erf = _each(math.erf)
erfc = _each(math.erfc)
gammaln = _each(_log_gamma)


def psi(x: Array) -> Array:
    """Digamma: the derivative of log(gamma)."""
    x = np.asarray(x, np.float64)
    below = x <= 0.5
    y = np.where(below, 1 - x, x)
    shift = np.zeros_like(y)
    for _ in range(8):
        low = y < 8
        shift = np.where(low, shift - 1 / y, shift)
        y = np.where(low, y + 1, y)
    square = 1 / (y * y)
    tail = np.zeros_like(y)
    for k in range(len(_BERNOULLI) - 2, 0, -1):
        tail = (tail + _BERNOULLI[k - 1] / (2 * k)) * square
    out = shift + np.log(y) - 0.5 / y - tail
    out = np.where(below, out - np.pi / np.tan(np.pi * x), out)
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, out)


def odd_pole(x: Array, q: Array) -> Array:
    """Where zeta grows without end to either side: q = 0, -1, -2, ... unless x is even."""
    return (q <= 0) & (q == np.floor(q)) & np.isfinite(x) & (np.mod(x, 2) != 0) & (x != 1)


def zeta(x: Array, q: Array) -> Array:
    """Hurwitz zeta: the sum of (q + n) ** -x over n >= 0, by the Euler-Maclaurin formula."""
    x, q = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(q, np.float64))
    first = 12
    total = np.zeros(x.shape)
    for n in range(first):
        total = total + (q + n) ** -x
    end = q + first
    total = total + end ** (1 - x) / (x - 1) + 0.5 * end**-x
    factor = x * end ** (-x - 1)
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + bernoulli / math.factorial(2 * k) * factor
        factor = factor * (x + 2 * k - 1) * (x + 2 * k) / (end * end)
    pole = (q <= 0) & (q == np.floor(q))
    total = np.where(pole | (x == 1), np.inf, total)
    total = np.where(odd_pole(x, q), np.nan, total)
    return np.where((x < 1) | (q <= 0) & ~pole & (x != np.floor(x)), np.nan, total)


def polygamma(n: Array, x: Array) -> Array:
    """The n-th derivative of digamma, for n = 0, 1, ..."""
    n, x = np.broadcast_arrays(np.asarray(n, np.float64), np.asarray(x, np.float64))
    sign = np.where(np.mod(n, 2) == 0, -1.0, 1.0)
    safe = np.where(n > 0, n, 1.0)
    high = sign * np.exp(gammaln(safe + 1)) * zeta(safe + 1, x)
    out = np.where(n == 0, psi(x), high)
    return np.where((n < 0) | (n != np.floor(n)), np.nan, out)


def _gamma_series(a: Array, x: Array) -> Array:
    """The lower function for x < a + 1, without the factor x ** a exp(-x) / gamma(a)."""
    term = 1 / a
    total = term.copy()
    for n in range(1, _TERMS):
        term = term * x / (a + n)
        total = total + term
        if np.all(term <= 1e-17 * total):
            break
    return total


def _gamma_fraction(a: Array, x: Array) -> Array:
    """The upper function for x >= a + 1, without the same factor; Lentz's method."""
    b = x + 1 - a
    c = np.full_like(b, 1 / _TINY)
    d = 1 / b
    h = d.copy()
    for i in range(1, _TERMS):
        an = -i * (i - a)
        b = b + 2
        d = 1 / _away(an * d + b)
        c = _away(b + an / c)
        change = c * d
        h = h * change
        if np.all(np.abs(change - 1) < 1e-16):
            break
    return h


def _away(x: Array) -> Array:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _incomplete(a: Array, x: Array) -> tuple[Array, Array]:
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    good = (a > 0) & (x >= 0)
    below = x < a + 1
    finite = good & np.isfinite(a) & np.isfinite(x)
    with np.errstate(all="ignore"):
        factor = np.exp(a * np.log(x) - x - gammaln(np.where(good, a, 1.0)))
        lower = factor * _gamma_series(np.where(finite & below, a, 1.0), np.where(finite & below, x, 0.5))
        upper = factor * _gamma_fraction(np.where(finite & ~below, a, 1.0), np.where(finite & ~below, x, 3.0))
    lower = np.where(x == 0, 0.0, np.where(below, lower, 1 - upper))
    upper = np.where(x == 0, 1.0, np.where(below, 1 - lower, upper))
    lower = np.where(np.isinf(x), 1.0, lower)
    upper = np.where(np.isinf(x), 0.0, upper)
    return np.where(good, lower, np.nan), np.where(good, upper, np.nan)


def gammainc(a: Array, x: Array) -> Array:
    """The regularised lower incomplete gamma function."""
    return _incomplete(a, x)[0]


def gammaincc(a: Array, x: Array) -> Array:
    """The regularised upper incomplete gamma function."""
    return _incomplete(a, x)[1]


def gammainc_da(a: Array, x: Array) -> Array:
    """d gammainc(a, x) / da, from the series of positive terms, term by term."""
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    good = (a > 0) & (x >= 0) & np.isfinite(x)
    aa, xx = np.where(good, a, 1.0), np.where(good & (x > 0), x, 1.0)
    log_term = aa * np.log(xx) - xx - gammaln(aa + 1)
    digamma = psi(aa + 1)
    total = np.zeros(aa.shape)
    for n in range(_TERMS):
        term = np.exp(log_term) * (np.log(xx) - digamma)
        total = total + term
        log_term = log_term + np.log(xx) - np.log(aa + n + 1)
        digamma = digamma + 1 / (aa + n + 1)
        if n % 8 == 7 and np.all((aa + n > xx) & (np.abs(term) <= 1e-17 * (np.abs(total) + 1e-30))):
            break
    return np.where(good, np.where(x == 0, 0.0, total), np.nan)


def betainc(a: Array, b: Array, x: Array) -> Array:
    """The regularised incomplete beta function, by its continued fraction."""
    a, b, x = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (a, b, x)))
    good = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    aa, bb = np.where(good, a, 1.0), np.where(good, b, 1.0)
    inner = good & (x > 0) & (x < 1)
    xx = np.where(inner, x, 0.5)
    turned = xx > (aa + 1) / (aa + bb + 2)
    p, q, y = np.where(turned, bb, aa), np.where(turned, aa, bb), np.where(turned, 1 - xx, xx)
    factor = np.exp(gammaln(aa + bb) - gammaln(aa) - gammaln(bb) + p * np.log(y) + q * np.log1p(-y))
    value = factor * _beta_fraction(p, q, y) / p
    value = np.where(turned, 1 - value, value)
    return np.where(good, np.where(inner, value, x), np.nan)


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    c = np.ones_like(x)
    d = 1 / _away(1 - (a + b) * x / (a + 1))
    h = d.copy()
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _away(1 + even * d)
        c = _away(1 + even / c)
        h = h * c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _away(1 + odd * d)
        c = _away(1 + odd / c)
        change = c * d
        h = h * change
        if np.all(np.abs(change - 1) < 1e-16):
            break
    return h


def ndtri(p: Array) -> Array:
    """The quantile of the normal distribution: a rational guess, then Newton's steps to double precision."""
    p = np.asarray(p, np.float64)
    inside = (p > 0) & (p < 1)
    tail = np.where(inside, np.minimum(p, 1 - p), 0.5)
    t = np.sqrt(-2 * np.log(tail))
    guess = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)))
    for _ in range(3):
        error = 0.5 * erfc(guess / math.sqrt(2)) - tail
        slope = np.exp(-0.5 * guess * guess) / math.sqrt(2 * math.pi)
        step = error / slope
        guess = guess + step / (1 - 0.5 * guess * step)
    out = np.where(p < 0.5, -guess, guess)
    edge = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan))
    return np.where(inside, out, edge)


def erfinv(y: Array) -> Array:
    """The inverse of erf."""
    y = np.asarray(y, np.float64)
    guess = ndtri((y + 1) / 2) / math.sqrt(2)
    small = np.abs(y) < 0.5
    start = np.where(small, y * math.sqrt(math.pi) / 2, guess)
    for _ in range(5):  # ndtri((y + 1) / 2) loses the small ones
        step = (erf(start) - y) * math.sqrt(math.pi) / 2 * np.exp(start * start)
        start = np.where(small, start - step / (1 + start * step), start)
    return np.where(small, start, guess)


def _bessel(order: int) -> Callable[[Array], Array]:
    """exp(-|x|) I(x) of order 0 or 1: its series for small x, its expansion at infinity for large."""

    def scaled(x: Array) -> Array:
        x = np.asarray(x, np.float64)
        size = np.abs(x)
        near = np.minimum(size, 30.0)
        term = np.ones_like(near) if order == 0 else near / 2
        series = term.copy()
        for k in range(1, 80):
            term = term * (near / 2) ** 2 / (k * (k + order))
            series = series + term
        far = np.maximum(size, 30.0)
        tail = np.ones_like(far)
        part = np.ones_like(far)
        for k in range(1, 20):
            part = part * -(4 * order * order - (2 * k - 1) ** 2) / (k * 8 * far)
            tail = tail + part
        out = np.where(size < 30, series * np.exp(-near), tail / np.sqrt(2 * np.pi * far))
        return np.where(x < 0, -out, out) if order else out

    return scaled


i0e = _bessel(0)
i1e = _bessel(1)


def i0(x: Array) -> Array:
    """The modified Bessel function of order 0."""
    return i0e(x) * np.exp(np.abs(x))


def i1(x: Array) -> Array:
    """The modified Bessel function of order 1."""
    return i1e(x) * np.exp(np.abs(x))
