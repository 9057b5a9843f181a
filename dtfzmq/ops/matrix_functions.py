"""Functions of whole matrices: exponential, logarithm, square root; three diagonals; norms."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.ops.array import concat
from dtfzmq.ops.clip import norm
from dtfzmq.ops.complex import cmat, conj
from dtfzmq.ops.diag import matrix_diag
from dtfzmq.ops.linalg import Array, adjoint, checked, matrix_solve, regular, spd, square_shape, widened
from dtfzmq.ops.matmul import matmul
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat
from dtfzmq.ops.shaping import invalid

# Coefficients of Pade's approximation of degree 13 to exp (Higham 2005), and the norm up to which it is exact enough.
_PADE = [
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
]  # fmt: skip
_THETA = 5.371920351148152


def _exp(x: Array) -> Array:
    checked(x)
    if not x.size:
        return x
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    size = float(np.abs(wide).sum(-2).max())
    if not np.isfinite(size):
        return np.full_like(x, np.nan)
    halvings = max(0, int(np.ceil(np.log2(size / _THETA)))) if size > _THETA else 0
    a = wide / 2**halvings
    one = np.broadcast_to(np.eye(x.shape[-1]), a.shape)
    powers = [one, a @ a]
    while len(powers) < 7:
        powers.append(powers[-1] @ powers[1])
    even = sum(_PADE[2 * i] * p for i, p in enumerate(powers))
    odd = a @ sum(_PADE[2 * i + 1] * p for i, p in enumerate(powers))
    out = np.linalg.solve(even - odd, even + odd)
    for _ in range(halvings):
        out = out @ out
    return np.asarray(out, x.dtype)


def _exp_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    """The upper right block of exp([[A^H, G], [0, A^H]])."""
    turned = adjoint(n.inputs[0])
    whole = concat([concat([turned, g], -1), concat([raw.ZerosLike(g), turned], -1)], -2)
    size = raw.Shape(g)[-1]
    return (raw.MatrixExponential(whole)[..., :size, size:],)


def _square(n: Any) -> list[TensorShape]:
    return [square_shape(n)]


_exponential = op(
    "MatrixExponential", "input: F -> output: F", shape=_square, kernel=widened(_exp), grad=_exp_grad,
    samples=[Sample(mat(3, 3)), Sample(mat(2, 2, 2))],
)  # fmt: skip


def _log(x: Array) -> Array:
    checked(x)
    values, vectors = np.linalg.eig(x)
    return np.asarray((vectors * np.log(values)[..., None, :]) @ np.linalg.inv(vectors), x.dtype)


_logarithm = op(
    "MatrixLogarithm", "input: C -> output: C", shape=_square, kernel=_log, grad=UNDEFINED("as in TensorFlow"),
    samples=[Sample(cmat(3, 3) + 4 * np.eye(3))],
)  # fmt: skip


def _root(x: Array) -> Array:
    """Denman and Beavers' iteration: both factors tend to the root and its inverse, quadratically."""
    checked(x)
    y = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    z = np.broadcast_to(np.eye(x.shape[-1], dtype=y.dtype), y.shape)
    try:
        for _ in range(100):
            after, z = (y + np.linalg.inv(z)) / 2, (z + np.linalg.inv(y)) / 2
            done = np.all(np.abs(after - y) <= 1e-15 * np.abs(after).max(initial=1e-300))
            y = after
            if done:
                break
    except np.linalg.LinAlgError:
        raise invalid("Matrix square root is not defined for this matrix") from None
    return np.asarray(y, x.dtype)


def _root_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    turned = adjoint(n.outputs[0])
    return (raw.SylvesterSolve(turned, turned, g),)


_square_root = op(
    "MatrixSquareRoot", "input: F -> output: F", shape=_square, kernel=widened(_root), grad=_root_grad,
    samples=[Sample(spd(3, 3)), Sample(spd(2, 2, 2) + np.array([[0, 0.5], [0, 0]]))],
)  # fmt: skip


def _sylvester(a: Array, b: Array, c: Array) -> Array:
    """x with a x + x b = c, as one linear system for all elements of x."""
    checked(a)
    rows, columns = a.shape[-1], b.shape[-1]
    left = np.einsum("...ij,kl->...ikjl", a, np.eye(columns))
    right = np.einsum("ij,...lk->...ikjl", np.eye(rows), b)
    size = rows * columns
    system = (left + right).reshape((*a.shape[:-2], size, size))
    x = np.linalg.solve(system, c.reshape((*c.shape[:-2], size, 1)))
    return x.reshape(c.shape).astype(c.dtype, copy=False)


def _sylvester_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a, b, _ = n.inputs
    back = raw.SylvesterSolve(adjoint(a), adjoint(b), g)
    x = n.outputs[0]
    return -matmul(back, x, adjoint_b=True), -matmul(x, back, adjoint_a=True), back


_sylvester_op = op(
    "SylvesterSolve", "a: F, b: F, c: F -> x: F", shape=lambda n: [n.inputs[2].shape], kernel=widened(_sylvester),
    grad=_sylvester_grad, samples=[Sample(regular(2, 2), regular(3, 3, seed=2), mat(2, 3))],
)  # fmt: skip


def expm(input: Any, name: str | None = None) -> Tensor:
    """The exponential of each square matrix."""
    return _exponential(input, name=name)


def logm(input: Any, name: str | None = None) -> Tensor:
    """The logarithm of each complex square matrix that has a full set of eigenvectors. No gradient."""
    return _logarithm(input, name=name)


def sqrtm(input: Any, name: str | None = None) -> Tensor:
    """The principal square root of each square matrix without eigenvalues on the negative real axis."""
    return _square_root(input, name=name)


matrix_exponential = expm
matrix_logarithm = logm
matrix_square_root = sqrtm


def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The tensor over its norm along `axis`, and that norm with the axes kept."""
    tensor = convert_to_tensor(tensor)
    with tensor.graph.name_scope(name or "normalize"):
        length = norm(tensor, ord, axis, keepdims=True)
        return tensor / length, length


def _diagonals(diagonals: Any, form: str) -> tuple[Tensor, Tensor, Tensor]:
    """The diagonals above, on and below the main one, each as long as that; what sticks out does not count."""
    if form == "matrix":
        matrix = convert_to_tensor(diagonals)
        taken = raw.MatrixDiagPartV3(
            matrix, np.array([-1, 1], np.int32), np.zeros((), matrix.dtype.base_dtype.np_dtype), align="LEFT_RIGHT"
        )
        return taken[..., 0, :], taken[..., 1, :], taken[..., 2, :]
    if form == "compact":
        all_three = convert_to_tensor(diagonals)
        return all_three[..., 0, :], all_three[..., 1, :], all_three[..., 2, :]
    if form == "sequence":
        upper, middle, lower = (convert_to_tensor(d) for d in diagonals)
        known_u, known_m, known_l = (t.shape.as_list()[-1] for t in (upper, middle, lower))
        if known_m is not None and known_u == known_m - 1:
            upper = concat([upper, raw.ZerosLike(middle[..., :1])], -1)
        if known_m is not None and known_l == known_m - 1:
            lower = concat([raw.ZerosLike(middle[..., :1]), lower], -1)
        return upper, middle, lower
    raise ValueError(f"Unrecognized diagonals format: {form}")


def tridiagonal_solve(
    diagonals: Any, rhs: Any, diagonals_format: str = "compact", transpose_rhs: bool = False,
    conjugate_rhs: bool = False, name: str | None = None, partial_pivoting: bool = True, perturb_singular: bool = False,
) -> Tensor:  # fmt: skip
    """x with A x = rhs, for A given by the diagonals above, on and below the main one.

    diagonals_format: "compact" [..., 3, n], "sequence" of three, or "matrix". `rhs` is a matrix, or a vector of the
    rank of one diagonal. `partial_pivoting` is always done.
    """
    upper, middle, lower = _diagonals(diagonals, diagonals_format)
    rhs = convert_to_tensor(rhs, dtype=middle.dtype.base_dtype)
    with rhs.graph.name_scope(name or "tridiagonal_solve"):
        vector = rhs.shape.ndims is not None and rhs.shape.ndims == middle.shape.ndims
        if vector:
            rhs = raw.ExpandDims(rhs, -1)
        elif transpose_rhs:
            rhs = adjoint(rhs) if conjugate_rhs else conj(adjoint(rhs))
        if conjugate_rhs and not transpose_rhs:
            rhs = conj(rhs)
        whole = matrix_diag(middle) + _off(upper[..., :-1], 1) + _off(lower[..., 1:], -1)
        x = matrix_solve(whole, rhs)
        return raw.Squeeze(x, squeeze_dims=[-1]) if vector else x


def _off(diagonal: Tensor, k: int) -> Tensor:
    return matrix_diag(diagonal, k=k)


def tridiagonal_matmul(
    diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """A rhs, for A given by the diagonals above, on and below the main one, in the formats of tridiagonal_solve."""
    upper, middle, lower = (raw.ExpandDims(d, -1) for d in _diagonals(diagonals, diagonals_format))
    rhs = convert_to_tensor(rhs, dtype=middle.dtype.base_dtype)
    with rhs.graph.name_scope(name or "tridiagonal_matmul"):
        none = raw.ZerosLike(rhs[..., :1, :])
        after = concat([rhs[..., 1:, :], none], -2)
        before = concat([none, rhs[..., :-1, :]], -2)
        return upper * after + middle * rhs + lower * before
