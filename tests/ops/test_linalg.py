"""Matrices: complex ones, symmetric gradients, second derivatives, errors."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.graph.graph import Graph
from dtfzmq.ops.complex import cmat
from dtfzmq.ops.linalg import regular, spd
from dtfzmq.ops.matmul import _dot
from dtfzmq.ops.samples import mat
from tests.kit.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as g:
        yield g


def _hermitian(n):
    z = cmat(n, n)
    return z @ z.conj().T + np.eye(n)


def _along(fn, at, direction, weights):
    """Change of Re(sum(conj(weights) fn)) along a direction, by central differences."""
    step = 1e-6
    x = tf.placeholder("complex128" if at.dtype.kind == "c" else "float64", at.shape)
    y = fn(x)
    up, down = (evaluate(y, {x: at + s * step * direction}) for s in (1, -1))
    return float(np.sum(np.conj(weights) * (up - down)).real) / (2 * step)


@pytest.mark.parametrize(
    "fn, at",
    [
        (tf.matrix_inverse, cmat(3, 3) + 3 * np.eye(3)),
        (tf.matrix_determinant, cmat(3, 3) + 3 * np.eye(3)),
        (lambda x: tf.matrix_solve(x, cmat(3, 2, seed=3), adjoint=True), cmat(3, 3) + 3 * np.eye(3)),
        (lambda x: tf.matrix_triangular_solve(x, cmat(3, 2, seed=3)), cmat(3, 3) + 3 * np.eye(3)),
        (lambda x: tf.einsum("ij,kj->ik", x, x), cmat(2, 3)),
        (tf.linalg.expm, cmat(2, 2)),
        (lambda x: tf.norm(x, axis=1), cmat(2, 3)),
    ],
)
def test_gradients_of_complex_matrices(fn, at):
    rng = np.random.default_rng(3)
    x = tf.constant(at)
    y = fn(x)
    shape = y.shape.as_list()
    weights = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    direction = rng.standard_normal(at.shape) + 1j * rng.standard_normal(at.shape)
    (grad,) = tf.gradients(y, x, tf.constant(weights))
    analytic = float(np.sum(np.conj(evaluate(grad)) * direction).real)
    assert analytic == pytest.approx(_along(fn, at, direction, weights), rel=1e-5)


@pytest.mark.parametrize("at", [spd(3, 3), _hermitian(3)], ids=["real", "complex"])
def test_cholesky_gradient_is_symmetric_and_true_for_symmetric_changes(at):
    x = tf.constant(at)
    y = tf.cholesky(x)
    np.testing.assert_allclose(evaluate(tf.matmul(y, y, adjoint_b=True)), at, atol=1e-12)
    weights = np.tril(mat(3, 3, seed=2)).astype(at.dtype)
    grad = evaluate(tf.gradients(y, x, tf.constant(weights))[0])
    np.testing.assert_allclose(grad, grad.conj().T, atol=1e-12)
    change = mat(3, 3, seed=4) + (1j * mat(3, 3, seed=6) if at.dtype.kind == "c" else 0)
    change = change + change.conj().T
    numeric = _along(tf.cholesky, at, change, weights)
    assert float(np.sum(np.conj(grad) * change).real) == pytest.approx(numeric, rel=1e-5)


def test_eigenvectors_of_hermitian_matrices():
    at = _hermitian(3)
    e, v = evaluate(list(tf.self_adjoint_eig(tf.constant(at))))
    assert v.dtype == np.complex128
    np.testing.assert_allclose(at @ v, v * e, atol=1e-10)


def test_second_derivative_of_an_inverse():
    at = regular(2, 2)
    x = tf.constant(at)
    (first,) = tf.gradients(tf.matrix_inverse(x)[0, 0], x)
    (second,) = tf.gradients(first[1, 0], x)

    def slope(a):
        inverse = np.linalg.inv(a)
        return -inverse[0, 1] * inverse[0, 0]  # d inverse[0, 0] / d a[1, 0]

    step, numeric = 1e-6, np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            d = np.zeros((2, 2))
            d[i, j] = step
            numeric[i, j] = (slope(at + d) - slope(at - d)) / (2 * step)
    np.testing.assert_allclose(evaluate(second), numeric, rtol=1e-6)


def test_singular_and_misshapen_matrices_are_named():
    singular = tf.constant(np.zeros((2, 2)))
    for y, text in [
        (tf.matrix_inverse(singular), "Input is not invertible"),
        (tf.matrix_solve(singular, singular), "Input matrix is not invertible"),
        (tf.linalg.lu(singular)[0], "not invertible"),
        (tf.cholesky(-np.eye(2)), "Cholesky decomposition was not successful"),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match=text):
            evaluate(y)
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 2 and 3"):
        tf.matrix_inverse(tf.zeros([2, 3]))
    with pytest.raises(ValueError, match="must be at least rank 2 but is rank 1"):
        tf.cholesky(tf.zeros([2]))
    unknown = tf.placeholder(tf.float32)
    with pytest.raises(errors.InvalidArgumentError, match="must be square"):
        evaluate(tf.matrix_determinant(unknown), {unknown: np.zeros((2, 3))})


def test_einsum_refuses_what_is_no_equation():
    x = tf.zeros([2, 3])
    for equation, inputs in [("ij,jk->ik", [x]), ("ij->ik", [x]), ("i1->i", [x]), ("ijk->i", [x]), ("ij->ii", [x])]:
        with pytest.raises(ValueError):
            tf.einsum(equation, *inputs)
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 3 and 2"):
        tf.einsum("ij,jk->ik", x, x)
    with pytest.raises(TypeError, match="invalid keyword"):
        tf.einsum("ij->ji", x, axis=1)


def test_einsum_of_unknown_shapes():
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32, [None, 3])
    z = tf.einsum("...i,ji->...j", x, y)
    assert z.shape.ndims is None
    got = evaluate(z, {x: np.ones((2, 4, 3)), y: np.ones((5, 3))})
    np.testing.assert_array_equal(got, np.full((2, 4, 5), 3))
    assert tf.einsum("ij,kj->ik", y, y).shape.as_list() == [None, None]


@pytest.mark.parametrize("sizes", [(128, 128, 128), (131, 300, 90), (1000, 100, 64), (64, 784, 128), (4096, 32, 32)])
def test_products_in_stacks_are_products(sizes):
    rows, inner, columns = sizes
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, inner), (inner, columns)))
    expected = a.astype(float) @ b.astype(float)
    np.testing.assert_allclose(_dot(a, b), expected, rtol=1e-4, atol=1e-4)
    out = np.empty((rows, columns), np.float32)
    assert _dot(a, b, out=out) is out
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    turned = np.asfortranarray(a)
    np.testing.assert_allclose(_dot(turned, b), expected, rtol=1e-4, atol=1e-4)
