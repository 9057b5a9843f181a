"""Special functions without scipy, and at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import special, special_numpy
from tests.kit.evaluate import evaluate
from tests.ops import test_answers

NAMES = [
    "lgamma", "digamma", "erf", "erfc", "erfinv", "ndtri", "erfcinv", "polygamma", "zeta", "igamma", "igammac",
    "betainc", "bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e",
]  # fmt: skip


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(special, "_found", [None])


@pytest.mark.parametrize("name", NAMES)
def test_answers_without_scipy(name, alone):
    test_answers.test_answer(name)


EDGES = [
    (tf.zeta, [[1, 0.5, 2, 2, 3], [1, 1, 0, -1, -1.5]], [np.inf, np.nan, np.inf, np.inf, 0.11810203]),
    (tf.zeta, [[2.5, 2.5, 3, 4, 1], [-1.5, 0, -2, -2, 0]], [np.nan, np.nan, np.nan, np.inf, np.inf]),
    (tf.digamma, [[0, -1, -2.5]], [np.nan, np.nan, 1.10315664]),
    (tf.igamma, [[0, 1, -1, 2, 2, 0, -1], [1, 0, 1, -1, np.inf, 0, 0]], [np.nan, 0, np.nan, np.nan, 1, 0, 0]),
    (tf.igammac, [[0, 1, -1, 2, 2], [1, 0, 1, -1, np.inf]], [np.nan, 1, np.nan, np.nan, 0]),
    (tf.polygamma, [[0, 1, -1, 1.5], [2, 2, 2, 2]], [0.42278434, 0.64493407, np.nan, np.nan]),
    (tf.polygamma, [[1, 2], [-1, -1]], [np.inf, np.nan]),
    (tf.betainc, [[0, 1, 1, 2, 2], [1, 1, 1, 2, 2], [0.5, 0, 1, 2, -1]], [np.nan, 0, 1, np.nan, np.nan]),
    (tf.lgamma, [[0, -1, -2.5]], [np.inf, np.inf, -0.05624372]),
    (tf.math.erfinv, [[1, -1, 2]], [np.inf, -np.inf, np.nan]),
    (tf.math.ndtri, [[0, 1, 2, -1]], [-np.inf, np.inf, np.nan, np.nan]),
]


@pytest.mark.parametrize("scipy", [True, False])
@pytest.mark.parametrize("fn, inputs, want", EDGES, ids=lambda v: getattr(v, "__name__", None))
def test_edges_are_tensorflows(fn, inputs, want, scipy, monkeypatch):
    if not scipy:
        monkeypatch.setattr(special, "_found", [None])
    with Graph().as_default():
        y = fn(*(tf.constant(np.array(x, np.float64)) for x in inputs))
        np.testing.assert_allclose(evaluate(y), want, 1e-6)


def test_own_functions_are_exact_to_double_precision():
    x = np.array([0.3, 1.7, 4.5, 12.0])
    np.testing.assert_allclose(special_numpy.gammaln(x), [math.lgamma(v) for v in x], 1e-14)
    harmonic = [1, 1.5, 11 / 6, 25 / 12]
    np.testing.assert_allclose(special_numpy.psi(np.arange(2.0, 6)), np.array(harmonic) - 0.57721566490153286, 1e-14)
    np.testing.assert_allclose(special_numpy.zeta(np.array([2.0, 4]), 1.0), [math.pi**2 / 6, math.pi**4 / 90], 1e-14)
    np.testing.assert_allclose(special_numpy.gammainc(1.0, x), 1 - np.exp(-x), 1e-14)
    np.testing.assert_allclose(special_numpy.gammaincc(2.0, x), (1 + x) * np.exp(-x), 1e-14)
    np.testing.assert_allclose(special_numpy.betainc(2.0, 1.0, x / 20), (x / 20) ** 2, 1e-13)
    p = np.array([1e-12, 0.02, 0.4, 0.77])
    np.testing.assert_allclose(0.5 * special_numpy.erfc(-special_numpy.ndtri(p) / math.sqrt(2)), p, 1e-13)
    y = np.array([-0.9999, -1e-9, 0.0, 0.3, 0.8])
    np.testing.assert_allclose(special_numpy.erf(special_numpy.erfinv(y)), y, 1e-14)
    np.testing.assert_allclose(special_numpy.i0(x), np.i0(x), 1e-13)


def test_derivative_of_igamma_to_its_order():
    a, x, step = np.array([0.5, 3, 20.0]), np.array([1.0, 2.5, 18]), 1e-5
    numeric = (special_numpy.gammainc(a + step, x) - special_numpy.gammainc(a - step, x)) / (2 * step)
    np.testing.assert_allclose(special_numpy.gammainc_da(a, x), numeric, 1e-7)
