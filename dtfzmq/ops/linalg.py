"""Inverses, determinants, systems of equations and Cholesky factors, of matrices in the last two axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.static import dims, full_dims
from dtfzmq.ops.array import matrix_transpose
from dtfzmq.ops.cast import cast
from dtfzmq.ops.complex import conj, real
from dtfzmq.ops.diag import matrix_band_part, matrix_diag, matrix_diag_part, matrix_set_diag
from dtfzmq.ops.matmul import matmul
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_sum
from dtfzmq.ops.samples import mat
from dtfzmq.ops.shaping import invalid

Array = Any


def spd(*shape: int, seed: int = 0) -> np.ndarray:
    """Sample matrices: symmetric, positive definite."""
    x = mat(*shape, seed=seed)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1])


def regular(*shape: int, seed: int = 0) -> np.ndarray:
    """Sample matrices with an inverse."""
    return mat(*shape, seed=seed) + 3 * np.eye(shape[-2], shape[-1])


def widened(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` of arrays, with 16-bit floats computed in float32: LAPACK has no smaller type."""

    def kernel(*inputs: Array) -> Any:
        to = inputs[0].dtype
        if to.itemsize != 2:
            return fn(*inputs)
        out = fn(*(x.astype(np.float32) for x in inputs))
        return tuple(o.astype(to) for o in out) if isinstance(out, tuple) else out.astype(to)

    return kernel


def turned(x: Array) -> Array:
    """The adjoint of each matrix."""
    x = np.swapaxes(x, -1, -2)
    return x.conj() if x.dtype.kind == "c" else x


def checked(x: Array, square: bool = True) -> None:
    """Raise InvalidArgumentError unless x holds (square) matrices."""
    if x.ndim < 2:
        raise invalid(f"Input must have rank >= 2, got {x.ndim}")
    if square and x.shape[-1] != x.shape[-2]:
        raise invalid(f"Input matrix must be square, got shape {list(x.shape)}")


def square_shape(n: Any) -> TensorShape:
    """The static shape of the first input, if it can be square matrices. Raises ValueError if it cannot."""
    known = dims(n.inputs[0])
    if known is None:
        return UNKNOWN
    if len(known) < 2:
        raise ValueError(f"Shape must be at least rank 2 but is rank {len(known)} for shape {n.inputs[0].shape}")
    rows, columns = known[-2:]
    if rows is not None and columns is not None and rows != columns:
        raise ValueError(f"Dimensions must be equal, but are {rows} and {columns} for shape {n.inputs[0].shape}")
    size = columns if rows is None else rows
    return TensorShape([*known[:-2], size, size])


def _square(n: Any) -> list[TensorShape]:
    return [square_shape(n)]


def _per_matrix(n: Any) -> list[TensorShape]:
    known = square_shape(n).dims_or_none
    return [UNKNOWN if known is None else TensorShape(known[:-2])] * len(n.outputs)


def _inverse_kernel(node: Any, env: Any) -> Any:
    adjoint = node.attrs["adjoint"]

    def inverse(x: Array) -> Array:
        checked(x)
        try:
            return np.linalg.inv(turned(x) if adjoint else x)
        except np.linalg.LinAlgError:
            raise invalid("Input is not invertible.") from None

    return widened(inverse)


def _inverse_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    y = n.outputs[0]
    if n.attrs["adjoint"]:
        return (-matmul(y, matmul(g, y, adjoint_a=True)),)
    return (-matmul(y, matmul(g, y, adjoint_b=True), adjoint_a=True),)


def _determinant(x: Array) -> Array:
    checked(x)
    return np.asarray(np.linalg.det(x))


def _log_determinant(x: Array) -> tuple[Array, Array]:
    checked(x)
    sign, size = np.linalg.slogdet(x)
    return np.asarray(sign), np.asarray(size, x.dtype)


def _per(g: Tensor) -> Tensor:
    """A number for each matrix, as a matrix of one row and column."""
    return raw.ExpandDims(raw.ExpandDims(g, -1), -1)


def _determinant_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    return (_per(g * conj(n.outputs[0])) * raw.MatrixInverse(n.inputs[0], adjoint=True),)


def _log_determinant_grad(n: Any, g_sign: Tensor, g: Tensor) -> tuple[Tensor]:
    return (_per(g) * raw.MatrixInverse(n.inputs[0], adjoint=True),)


def _cholesky(x: Array) -> Array:
    checked(x)
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise invalid("Cholesky decomposition was not successful. The input might not be valid.") from None


def _cholesky_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    """A symmetric gradient, as in TensorFlow, although the kernel reads the lower triangle alone."""
    y = n.outputs[0]
    middle = matmul(y, g, adjoint_a=True)
    middle = matrix_band_part(matrix_set_diag(middle, matrix_diag_part(middle) * 0.5), -1, 0)
    half = raw.MatrixTriangularSolve(y, middle, lower=True, adjoint=True)
    grad = adjoint(raw.MatrixTriangularSolve(y, adjoint(half), lower=True, adjoint=True))
    return ((grad + adjoint(grad)) * 0.5,)


def _solve(a: Array, b: Array, what: str) -> Array:
    checked(a)
    checked(b, square=False)
    if a.shape[-1] != b.shape[-2]:
        raise invalid(f"Input matrix and rhs are incompatible: {list(a.shape)} and {list(b.shape)}")
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        raise invalid(what) from None


def _solve_kernel(node: Any, env: Any) -> Any:
    adjoint = node.attrs["adjoint"]
    return widened(lambda a, b: _solve(turned(a) if adjoint else a, b, "Input matrix is not invertible."))


def _triangular_kernel(node: Any, env: Any) -> Any:
    lower, adjoint = node.attrs["lower"], node.attrs["adjoint"]

    def solve(a: Array, b: Array) -> Array:
        checked(a)
        part = np.tril(a) if lower else np.triu(a)
        return _solve(turned(part) if adjoint else part, b, "Input matrix is not invertible.")

    return widened(solve)


def _solve_shape(n: Any) -> list[TensorShape]:
    a, b = square_shape(n).dims_or_none, dims(n.inputs[1])
    if a is None or b is None:
        return [UNKNOWN]
    if len(b) < 2:
        raise ValueError(f"Shape must be at least rank 2 but is rank {len(b)} for shape {n.inputs[1].shape}")
    if a[-1] is not None and b[-2] is not None and a[-1] != b[-2]:
        raise ValueError(f"Dimensions must be equal, but are {a[-1]} and {b[-2]} for shape {n.inputs[1].shape}")
    rows = a[-1] if b[-2] is None else b[-2]
    if len(a) != len(b):
        longer = a if len(a) > len(b) else b
        return [TensorShape([*longer[:-2], rows, b[-1]])]
    batch = [q if p in (1, None) else p for p, q in zip(a[:-2], b[:-2])]
    return [TensorShape([*batch, rows, b[-1]])]


def _fit(g: Tensor, x: Tensor) -> Tensor:
    """`g` summed over the axes along which x was repeated to meet the other input."""
    known = full_dims(x)
    if known is not None and known == full_dims(g):
        return g
    return raw.SumToShape(g, raw.Shape(x) if known is None else np.array(known, np.int32))


def _solve_grads(n: Any, to_b: Tensor) -> tuple[Tensor, Tensor]:
    y = n.outputs[0]
    if n.attrs["adjoint"]:
        return -matmul(y, to_b, adjoint_b=True), to_b
    return -matmul(to_b, y, adjoint_b=True), to_b


def _solve_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    to_a, to_b = _solve_grads(n, raw.MatrixSolve(n.inputs[0], g, adjoint=not n.attrs["adjoint"]))
    return _fit(to_a, n.inputs[0]), _fit(to_b, n.inputs[1])


def _triangular_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    lower = n.attrs["lower"]
    back = raw.MatrixTriangularSolve(n.inputs[0], g, lower=lower, adjoint=not n.attrs["adjoint"])
    to_a, to_b = _solve_grads(n, back)
    to_a = matrix_band_part(to_a, *((-1, 0) if lower else (0, -1)))
    return _fit(to_a, n.inputs[0]), _fit(to_b, n.inputs[1])


_REGULAR = [Sample(regular(3, 3)), Sample(regular(2, 3, 3))]
_SYSTEM = (regular(2, 3, 3), mat(2, 3, 2, seed=5))
_inverse = op(
    "MatrixInverse", "input: F; adjoint: bool = False -> output: F", shape=_square, make=_inverse_kernel,
    grad=_inverse_grad,
    samples=[
        *_REGULAR, Sample(regular(3, 3), adjoint=True), Sample(np.zeros((2, 2)), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip
_determinant_op = op(
    "MatrixDeterminant", "input: F -> output: F", shape=_per_matrix, kernel=widened(_determinant),
    grad=_determinant_grad, samples=_REGULAR,
)  # fmt: skip
_log_determinant_op = op(
    "LogMatrixDeterminant", "input: F -> sign: F, log_abs_determinant: F", shape=_per_matrix,
    kernel=widened(_log_determinant), grad=_log_determinant_grad, samples=_REGULAR,
)  # fmt: skip
_cholesky_op = op(
    "Cholesky", "input: F -> output: F", shape=_square, kernel=widened(_cholesky), grad=_cholesky_grad,
    samples=[
        Sample(spd(2, 3, 3), differentiable=False), Sample(-np.eye(2), fails=errors.InvalidArgumentError)
    ],
)  # fmt: skip
_solve_op = op(
    "MatrixSolve", "matrix: F, rhs: F; adjoint: bool = False -> output: F", shape=_solve_shape, make=_solve_kernel,
    grad=_solve_grad, samples=[Sample(*_SYSTEM), Sample(*_SYSTEM, adjoint=True)],
)  # fmt: skip
_triangular_solve = op(
    "MatrixTriangularSolve", "matrix: F, rhs: F; lower: bool = True, adjoint: bool = False -> output: F",
    shape=_solve_shape, make=_triangular_kernel, grad=_triangular_grad,
    samples=[
        Sample(*_SYSTEM), Sample(*_SYSTEM, adjoint=True), Sample(*_SYSTEM, lower=False, adjoint=True),
        Sample(regular(3, 3), mat(2, 3, 1), lower=False),
    ],
)  # fmt: skip


def _least_squares(a: Array, b: Array) -> Array:
    checked(a, square=False)
    pinv: Any = np.linalg.pinv
    return np.matmul(pinv(a), b)


def _least_shape(n: Any) -> list[TensorShape]:
    a, b = dims(n.inputs[0]), dims(n.inputs[1])
    return [UNKNOWN if a is None or b is None else TensorShape([*a[:-2], a[-1], b[-1]])]


_solve_ls = op(
    "MatrixSolveLs", "matrix: F, rhs: F -> output: F", shape=_least_shape, kernel=widened(_least_squares),
    grad=NO_GRAD("not defined for matrices of deficient rank; fast=True has one"),
    samples=[Sample(mat(2, 4, 3), mat(2, 4, 2, seed=3)), Sample(mat(2, 3), mat(2, 1, seed=3))],
)  # fmt: skip


def _cross_shape(n: Any) -> list[TensorShape]:
    shape = n.inputs[0].shape.merge_with(n.inputs[1].shape)
    known = shape.dims_or_none
    if known is not None and (not known or known[-1] not in (3, None)):
        raise ValueError(f"Cross-products are only defined for 3-element vectors, got shape {shape}")
    return [shape]


def _cross_kernel(a: Array, b: Array) -> Array:
    if a.shape != b.shape or a.shape[-1:] != (3,):
        raise invalid(f"Cross-products are only defined for 3-element vectors, got {list(a.shape)}, {list(b.shape)}")
    (x, y, z), (u, v, w) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], -1)


_cross = op(
    "Cross", "a: R, b: R -> product: R", shape=_cross_shape, kernel=_cross_kernel,
    grad=lambda n, g: (raw.Cross(n.inputs[1], g), raw.Cross(g, n.inputs[0])),
    samples=[Sample(mat(4, 3), mat(4, 3, seed=2)), Sample(mat(3), mat(3, seed=2))],
)  # fmt: skip


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """The conjugate transpose of each matrix."""
    matrix = convert_to_tensor(matrix, name="matrix")
    return matrix_transpose(matrix, name=name or "adjoint", conjugate=True)


def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of each matrix (of its adjoint). Fails at run time for a singular one."""
    return _inverse(input, adjoint=adjoint, name=name)


def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """The determinant of each matrix."""
    return _determinant_op(input, name=name)


def slogdet(input: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The sign of each determinant and the log of its size."""
    return _log_determinant_op(input, name=name)


log_matrix_determinant = slogdet


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """The log of the determinant of each hermitian positive definite matrix."""
    matrix = convert_to_tensor(matrix)
    with matrix.graph.name_scope(name or "logdet"):
        return reduce_sum(raw.Log(real(matrix_diag_part(_cholesky_op(matrix)))), [-1]) * 2.0


def cholesky(input: Any, name: str | None = None) -> Tensor:
    """The lower triangle L with L L^H = input, of which the lower triangle is read. Fails if not positive definite."""
    return _cholesky_op(input, name=name)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """x with A x = rhs, given chol = cholesky(A)."""
    chol = convert_to_tensor(chol, name="chol")
    with chol.graph.name_scope(name or "cholesky_solve"):
        y = _triangular_solve(chol, rhs, lower=True, adjoint=False)
        return _triangular_solve(chol, y, lower=True, adjoint=True)


def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """x with matrix x = rhs (or with its adjoint). Fails at run time for a singular matrix."""
    return _solve_op(matrix, rhs, adjoint=adjoint, name=name)


def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """x with matrix x = rhs, of a triangular matrix: only its lower (or upper) triangle is read."""
    return _triangular_solve(matrix, rhs, lower=lower, adjoint=adjoint, name=name)


def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """x with the least |matrix x - rhs|^2 + l2_regularizer |x|^2.

    fast: by Cholesky's method on the normal equations, for matrices of full rank and known size; it has gradients.
    Otherwise by the singular values, for any rank; `l2_regularizer` does not count then, as in TensorFlow.
    """
    matrix = convert_to_tensor(matrix, name="matrix")
    rhs = convert_to_tensor(rhs, dtype=None if isinstance(rhs, Tensor) else matrix.dtype.base_dtype, name="rhs")
    rows, columns = (dims(matrix) or (None, None))[-2:]
    if fast and (rows is None or columns is None) and (isinstance(l2_regularizer, Tensor) or l2_regularizer):
        with matrix.graph.name_scope(name or "matrix_solve_ls"):
            return _ridge(matrix, rhs, l2_regularizer)
    if not fast or rows is None or columns is None:
        return _solve_ls(matrix, rhs, name=name)
    with matrix.graph.name_scope(name or "matrix_solve_ls"):
        tall = rows >= columns
        gram = matmul(matrix, matrix, adjoint_a=tall, adjoint_b=not tall)
        small = columns if tall else rows
        weight = convert_to_tensor(l2_regularizer, dtype=matrix.dtype.base_dtype.real_dtype)
        weight = weight if weight.dtype is matrix.dtype.base_dtype else raw.Cast(weight, DstT=matrix.dtype.base_dtype)
        gram = gram + weight * convert_to_tensor(np.eye(small, dtype=matrix.dtype.base_dtype.np_dtype))
        chol = _cholesky_op(gram)
        if tall:
            return cholesky_solve(chol, matmul(matrix, rhs, adjoint_a=True))
        return matmul(matrix, cholesky_solve(chol, rhs), adjoint_a=True)


def _ridge(matrix: Tensor, rhs: Tensor, weight: Any) -> Tensor:
    """matrix_solve_ls for a weight above 0, with which the normal equations do for any size."""
    kind = matrix.dtype.base_dtype
    weight = cast(convert_to_tensor(weight, dtype=None if isinstance(weight, Tensor) else kind.real_dtype), kind)
    ones = raw.Fill(raw.Shape(matrix)[-1:], convert_to_tensor(1, dtype=kind))
    gram = matmul(matrix, matrix, adjoint_a=True) + weight * matrix_diag(ones)
    return cholesky_solve(_cholesky_op(gram), matmul(matrix, rhs, adjoint_a=True))


def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """The cross products of the vectors of three along the last axis."""
    return _cross(a, b, name=name)


inv = matrix_inverse
det = matrix_determinant
solve = matrix_solve
triangular_solve = matrix_triangular_solve
lstsq = matrix_solve_ls
band_part = matrix_band_part
