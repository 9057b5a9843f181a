"""Decompositions of matrices: QR, singular values, eigenvalues, LU. Signs are LAPACK's."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import dims
from dtfzmq.ops.array import matrix_transpose
from dtfzmq.ops.complex import real
from dtfzmq.ops.diag import matrix_band_part, matrix_diag, matrix_diag_part, matrix_set_diag
from dtfzmq.ops.linalg import (
    Array,
    adjoint,
    checked,
    matrix_triangular_solve,
    regular,
    spd,
    square_shape,
    turned,
    widened,
)
from dtfzmq.ops.matmul import matmul
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_max, reduce_sum
from dtfzmq.ops.samples import mat
from dtfzmq.ops.shaping import invalid


def _sizes(n: Any) -> tuple[Any, Any, Any, Any]:
    """Batch sizes (None if the rank is unknown), rows, columns and the smaller of both."""
    known = dims(n.inputs[0])
    if known is None:
        return None, None, None, None
    if len(known) < 2:
        raise ValueError(f"Shape must be at least rank 2 but is rank {len(known)} for shape {n.inputs[0].shape}")
    rows, columns = known[-2:]
    return known[:-2], rows, columns, None if rows is None or columns is None else min(rows, columns)


def _qr_shape(n: Any) -> list[TensorShape]:
    batch, rows, columns, least = _sizes(n)
    if batch is None:
        return [UNKNOWN, UNKNOWN]
    inner = rows if n.attrs["full_matrices"] else least
    return [TensorShape([*batch, rows, inner]), TensorShape([*batch, inner, columns])]


def _qr_kernel(node: Any, env: Any) -> Any:
    mode: Any = "complete" if node.attrs["full_matrices"] else "reduced"

    def qr(x: Array) -> tuple[Array, Array]:
        checked(x, square=False)
        q, r = np.linalg.qr(x, mode)
        return q, r

    return widened(qr)


def _right_solve(x: Tensor, r: Tensor) -> Tensor:
    """x r^-H for an upper triangular r."""
    return adjoint(matrix_triangular_solve(r, adjoint(x), lower=False))


def _qr_grad(n: Any, dq: Tensor, dr: Tensor) -> tuple[Tensor]:
    q, r = n.outputs
    _, rows, columns, _ = _sizes(n)
    if rows is None or columns is None or n.attrs["full_matrices"] and rows > columns:
        raise NotImplementedError(
            "The gradient of qr is known for matrices of known size, without full_matrices unless there are at least "
            f"as many columns as rows; the input is {n.inputs[0]}."
        )
    if rows >= columns:
        return (_deep_qr_grad(q, r, dq, dr),)
    # the last columns of the input decide no column of q: r there is q^H times them
    rest = n.inputs[0][..., :, rows:]
    to_q = dq + matmul(rest, dr[..., :, rows:], adjoint_b=True)
    to_first = _deep_qr_grad(q, r[..., :, :rows], to_q, dr[..., :, :rows])
    return (raw.ConcatV2([to_first, matmul(q, dr[..., :, rows:])], -1),)


def _deep_qr_grad(q: Tensor, r: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    """The gradient for matrices with at least as many rows as columns."""
    qdq = matmul(q, dq, adjoint_a=True)
    rdr = matmul(r, dr, adjoint_b=True)
    lower = matrix_band_part(qdq - adjoint(qdq) + rdr - adjoint(rdr), -1, 0)
    return matmul(q, dr + _right_solve(lower, r)) + _right_solve(dq - matmul(q, qdq), r)


def _svd_shape(n: Any) -> list[TensorShape]:
    batch, rows, columns, least = _sizes(n)
    if batch is None:
        return [UNKNOWN] * 3
    if not n.attrs["compute_uv"]:
        return [TensorShape([*batch, least]), TensorShape([0]), TensorShape([0])]
    full = n.attrs["full_matrices"]
    u, v = (rows, columns) if full else (least, least)
    return [TensorShape([*batch, least]), TensorShape([*batch, rows, u]), TensorShape([*batch, columns, v])]


def _svd_kernel(node: Any, env: Any) -> Any:
    full, vectors = node.attrs["full_matrices"], node.attrs["compute_uv"]
    kinds = [d.np_dtype for d in node.dtypes]

    def svd(x: Array) -> tuple[Array, Array, Array]:
        checked(x, square=False)
        if x.dtype.itemsize == 2:
            x = x.astype(np.float32)
        if not vectors:
            none = np.zeros(0)  # no vectors
            return np.linalg.svd(x, compute_uv=False).astype(kinds[0]), none.astype(kinds[1]), none.astype(kinds[2])
        u, s, vh = np.linalg.svd(x, full_matrices=full)
        v = turned(vh)
        return s.astype(kinds[0]), u.astype(kinds[1], copy=False), v.astype(kinds[2], copy=False)

    return svd


def _safe_reciprocal(x: Tensor) -> Tensor:
    return x / (raw.Square(x) + convert_to_tensor(1e-20, dtype=x.dtype.base_dtype))


def _between(values: Tensor) -> Tensor:
    """The inverse differences 1 / (v_j - v_i), with zeros on the diagonal."""
    gap = raw.ExpandDims(values, -2) - raw.ExpandDims(values, -1)
    return matrix_set_diag(_safe_reciprocal(gap), raw.ZerosLike(values))


def _svd_grad(n: Any, gs: Tensor, gu: Tensor, gv: Tensor) -> tuple[Tensor]:
    x = n.inputs[0]
    kind = x.dtype.base_dtype
    diagonal = matrix_diag(gs if kind is gs.dtype.base_dtype else raw.Cast(gs, DstT=kind))
    if not n.attrs["compute_uv"]:
        _, u, v = raw.Svd(x, Ts=n.outputs[0].dtype)
        return (matmul(u, matmul(diagonal, v, adjoint_b=True)),)
    _, rows, columns, _ = _sizes(n)
    full = n.attrs["full_matrices"]
    if rows is None or columns is None or full and abs(rows - columns) > 1:
        raise NotImplementedError(
            "The gradient of svd with vectors is known for matrices of known size, with full_matrices where rows and "
            f"columns differ by one at most; the input is {x}."
        )
    s, u, v = n.outputs
    s = s if kind is s.dtype.base_dtype else raw.Cast(s, DstT=kind)
    swapped = rows > columns
    if swapped:
        u, v, gu, gv = v, u, gv, gu
    least = min(rows, columns)
    v, gv, beyond, g_beyond = v[..., :, :least], gv[..., :, :least], v[..., :, least:], gv[..., :, least:]
    s_mat = matrix_diag(s)
    f = _between(raw.Square(s))
    fu = f * matmul(u, gu, adjoint_a=True)
    fv = f * matmul(v, gv, adjoint_a=True)
    inner = diagonal + matmul(fu + adjoint(fu), s_mat) + matmul(s_mat, fv + adjoint(fv))
    grad = matmul(u, matmul(inner, v, adjoint_b=True))
    if rows != columns:
        outer = matrix_transpose(gv)
        rest = outer - matmul(matmul(outer, v), v, adjoint_b=True)
        if full:
            rest = rest - matmul(matmul(v, g_beyond, adjoint_a=True), beyond, adjoint_b=True)
        grad = grad + matmul(matmul(u, matrix_diag(_safe_reciprocal(s))), rest)
    return (matrix_transpose(grad) if swapped else grad,)


def _eig_shape(n: Any) -> list[TensorShape]:
    whole = square_shape(n)
    known = whole.dims_or_none
    values = UNKNOWN if known is None else TensorShape(known[:-1])
    return [values, whole if n.attrs["compute_v"] else TensorShape([0])]


def _eig_kernel(node: Any, env: Any) -> Any:
    vectors = node.attrs["compute_v"]

    def eig(x: Array) -> tuple[Array, Array]:
        checked(x)
        if not vectors:
            return np.linalg.eigvalsh(x).astype(x.dtype), np.zeros(0, x.dtype)
        e, v = np.linalg.eigh(x)
        return e.astype(x.dtype), v

    return widened(eig)


def _eig_grad(n: Any, ge: Tensor, gv: Tensor) -> tuple[Tensor]:
    """Of the lower triangle, which is all that the kernel reads."""
    if n.attrs["compute_v"]:
        e, v = n.outputs
        inner = matrix_diag(ge) + _between(e) * matmul(v, gv, adjoint_a=True)
    else:
        _, v = raw.SelfAdjointEigV2(n.inputs[0], compute_v=True)
        inner = matrix_diag(ge)
    grad = matmul(v, matmul(inner, v, adjoint_b=True))
    grad = matrix_band_part(grad + adjoint(grad), -1, 0)
    return (matrix_set_diag(grad, matrix_diag_part(grad) * 0.5),)


def _lu_shape(n: Any) -> list[TensorShape]:
    whole = square_shape(n)
    known = whole.dims_or_none
    return [whole, UNKNOWN if known is None else TensorShape(known[:-1])]


def _lu(x: Array) -> tuple[Array, Array]:
    """Gauss' elimination with row exchanges, all matrices of the batch at once."""
    checked(x)
    size = x.shape[-1]
    a = np.array(x.reshape((-1, size, size)))
    order = np.tile(np.arange(size), (len(a), 1))
    batch = np.arange(len(a))
    for k in range(size):
        pivot = k + np.argmax(np.abs(a[:, k:, k]), axis=-1) if len(a) else np.zeros(0, int)
        for part in (a, order):
            kept = part[batch, pivot]
            part[batch, pivot] = part[:, k]
            part[:, k] = kept
        if np.any(a[:, k, k] == 0):
            raise invalid("Input is not invertible.")
        a[:, k + 1 :, k] /= a[:, k, k, None]
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]
    return a.reshape(x.shape), order.reshape(x.shape[:-1])


def _lu_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[1].np_dtype

    def lu(x: Array) -> tuple[Array, Array]:
        factors, order = widened(_lu)(x)
        return factors, order.astype(np.int64).astype(to)

    return lu


def lower_unit(lower_upper: Tensor) -> Tensor:
    """The lower factor of both in one: ones on the diagonal, zeros above."""
    lower = matrix_band_part(lower_upper, -1, 0)
    return matrix_set_diag(lower, raw.OnesLike(matrix_diag_part(lower_upper)))


def exchange(order: Tensor, like: Tensor) -> Tensor:
    """The matrices that put rows in this order."""
    known = dims(order)
    size: Any = raw.Shape(order)[-1] if known is None or known[-1] is None else np.int32(known[-1])
    return raw.OneHot(order, size, *(convert_to_tensor(v, dtype=like.dtype.base_dtype) for v in (1, 0)))


def _lu_grad(n: Any, g: Tensor, g_order: Any) -> tuple[Tensor]:
    both, order = n.outputs
    lower = lower_unit(both)
    upper = matrix_band_part(both, 0, -1)
    g_upper = matrix_band_part(g, 0, -1)
    low = matmul(lower, g - g_upper, adjoint_a=True)
    low = low - matrix_band_part(low, 0, -1)
    inner = low + matrix_band_part(matmul(g_upper, upper, adjoint_b=True), 0, -1)
    left = matrix_triangular_solve(lower, inner, lower=True, adjoint=True)
    whole = adjoint(matrix_triangular_solve(upper, adjoint(left), lower=False))
    return (matmul(exchange(order, g), whole, transpose_a=True),)


_TALL, _SQUARE = mat(4, 3), regular(2, 3, 3)
_qr = op(
    "Qr", "input: F; full_matrices: bool = False -> q: F, r: F", shape=_qr_shape, make=_qr_kernel, grad=_qr_grad,
    samples=[
        Sample(_TALL), Sample(_SQUARE), Sample(_SQUARE, full_matrices=True),
        Sample(_TALL, full_matrices=True, differentiable=False), Sample(mat(2, 3)),
    ],
)  # fmt: skip
_svd = op(
    "Svd", "input: F; compute_uv: bool = True, full_matrices: bool = False, Ts: type = float32 -> s: Ts, u: F, v: F",
    shape=_svd_shape, make=_svd_kernel, grad=_svd_grad,
    samples=[
        Sample(_TALL, Ts=dtypes.float64), Sample(mat(3, 4), Ts=dtypes.float64),
        Sample(_SQUARE, Ts=dtypes.float64, full_matrices=True), Sample(_TALL, Ts=dtypes.float64, compute_uv=False),
        Sample(_TALL, Ts=dtypes.float64, full_matrices=True, differentiable=False),
    ],
)  # fmt: skip
_self_adjoint_eig = op(
    "SelfAdjointEigV2", "input: F; compute_v: bool = True -> e: F, v: F", shape=_eig_shape, make=_eig_kernel,
    grad=_eig_grad, samples=[Sample(spd(3, 3)), Sample(spd(2, 2, 2), compute_v=False)],
)  # fmt: skip
_lu_op = op(
    "Lu", "input: F; output_idx_type: type = int32 -> lu: F, p: output_idx_type", shape=_lu_shape, make=_lu_kernel,
    grad=_lu_grad, samples=[Sample(regular(3, 3)[[1, 2, 0]]), Sample(regular(2, 3, 3))],
)  # fmt: skip


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """q with orthonormal columns and an upper triangular r, with q r = input."""
    return _qr(input, full_matrices=full_matrices, name=name)


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """s, u, v with tensor = u diag(s) v^H, the largest s first; s alone if not compute_uv."""
    x = convert_to_tensor(tensor, name="tensor")
    s, u, v = _svd(
        x, compute_uv=compute_uv, full_matrices=full_matrices, Ts=x.dtype.base_dtype.real_dtype, name=name
    )
    return (s, u, v) if compute_uv else s


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The eigenvalues of hermitian matrices, in rising order, and the eigenvectors as columns."""
    return _self_adjoint_eig(tensor, compute_v=True, name=name)


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """The eigenvalues of hermitian matrices, in rising order."""
    return _self_adjoint_eig(tensor, compute_v=False, name=name)[0]


eigh = self_adjoint_eig
eigvalsh = self_adjoint_eigvals


def lu(input: Any, output_idx_type: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Both triangular factors in one matrix, and the order of rows: input[p] = L U, with ones on the diagonal of L."""
    return _lu_op(input, output_idx_type=output_idx_type, name=name)


def lu_solve(lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """x with A x = rhs, given lu(A)."""
    both = convert_to_tensor(lower_upper)
    with both.graph.name_scope(name or "lu_solve"):
        rhs = convert_to_tensor(rhs, dtype=both.dtype.base_dtype)
        ordered = matmul(exchange(convert_to_tensor(perm), both), rhs)
        y = matrix_triangular_solve(lower_unit(both), ordered)
        return matrix_triangular_solve(both, y, lower=False)


def lu_matrix_inverse(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The inverse of A, given lu(A)."""
    both = convert_to_tensor(lower_upper)
    with both.graph.name_scope(name or "lu_matrix_inverse"):
        ordered = exchange(convert_to_tensor(perm), both)
        return matrix_triangular_solve(both, matrix_triangular_solve(lower_unit(both), ordered), lower=False)


def lu_reconstruct(lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None) -> Tensor:
    """A, given lu(A)."""
    both = convert_to_tensor(lower_upper)
    with both.graph.name_scope(name or "lu_reconstruct"):
        product = matmul(lower_unit(both), matrix_band_part(both, 0, -1))
        return matmul(exchange(convert_to_tensor(perm), both), product, transpose_a=True)


def _threshold(a: Tensor, s: Tensor, tolerance: Any) -> Tensor:
    """What counts as a zero singular value, one number for each matrix."""
    largest = reduce_max(s, [-1], keepdims=True)
    if tolerance is not None:
        return convert_to_tensor(tolerance, dtype=s.dtype.base_dtype)
    size = raw.Cast(reduce_max(raw.Shape(a)[-2:]), DstT=s.dtype.base_dtype)
    return largest * size * float(np.finfo(s.dtype.base_dtype.np_dtype).eps)


def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The number of singular values above `tol` (rounding, if not given)."""
    a = convert_to_tensor(a, name="a")
    with a.graph.name_scope(name or "matrix_rank"):
        s = svd(a, compute_uv=False)
        return reduce_sum(raw.Cast(raw.Greater(s, _threshold(a, s, tol)), DstT=dtypes.int32), [-1])


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The pseudo-inverse; singular values below rcond times the largest count as zero."""
    a = convert_to_tensor(a, name="a")
    with a.graph.name_scope(name or "pinv"):
        s, u, v = svd(a)
        if rcond is None:
            size = raw.Cast(reduce_max(raw.Shape(a)[-2:]), DstT=s.dtype.base_dtype)
            share = size * (10.0 * float(np.finfo(s.dtype.base_dtype.np_dtype).eps))
        else:
            share = raw.ExpandDims(convert_to_tensor(rcond, dtype=s.dtype.base_dtype), -1)
        kept = raw.Greater(s, reduce_max(s, [-1], keepdims=True) * share)
        inverse = raw.DivNoNan(raw.Cast(kept, DstT=s.dtype.base_dtype), s)
        inverse = raw.ExpandDims(real(inverse), -2)
        scaled = v * (inverse if inverse.dtype is v.dtype.base_dtype else raw.Cast(inverse, DstT=v.dtype.base_dtype))
        return matmul(scaled, u, adjoint_b=True)
