"""Special functions, complex numbers and matrices: calls that TensorFlow answered, by name; see test_answers.py."""

from __future__ import annotations

import numpy as np

from tests.ops.answered.table import case

for n in ["lgamma", "digamma", "erf", "erfc"]:
    case(n, lambda tf, x, n=n: getattr(tf, n)(x))
for n in ["bessel_i0", "bessel_i0e", "bessel_i1", "bessel_i1e", "log_sigmoid"]:
    case(n, lambda tf, x, n=n: getattr(tf.math, n)(x))
for n in ["erfinv"]:
    case(n, lambda tf, x, n=n: getattr(tf.math, n)(x))
case("ndtri", lambda tf, x: tf.math.ndtri(x))
case("erfcinv", lambda tf, x: tf.math.erfcinv(x))
case("polygamma", lambda tf, a, x: tf.polygamma(a, x))
case("zeta", lambda tf, a, x: tf.zeta(a, x))
case("igamma", lambda tf, a, x: tf.igamma(a, x))
case("igammac", lambda tf, a, x: tf.igammac(a, x))
case("betainc", lambda tf, a, b, x: tf.betainc(a, b, x))
case("lbeta", lambda tf, x: tf.lbeta(x))
for n in ["xlogy", "xdivy", "xlog1py", "multiply_no_nan"]:
    case(n, lambda tf, x, y, n=n: getattr(tf.math, n)(x, y))
case("polyval", lambda tf, x: tf.math.polyval([1.0, x, 3.0], x))
case("nextafter", lambda tf, x, y: tf.math.nextafter(x, y))
case("reciprocal_no_nan", lambda tf, x: tf.math.reciprocal_no_nan(x))
for ex in (0, 1):
    for rv in (0, 1):
        case(
            f"cumlse{ex}{rv}",
            lambda tf, x, ex=ex, rv=rv: tf.math.cumulative_logsumexp(x, axis=1, exclusive=bool(ex), reverse=bool(rv)),
        )
case("euclid", lambda tf, x: tf.math.reduce_euclidean_norm(x, 1))
case("euclid_int", lambda tf, x: tf.math.reduce_euclidean_norm(x))
case("euclid0", lambda tf, x: tf.math.reduce_euclidean_norm(x, 1, keepdims=True))
case("var", lambda tf, x: tf.math.reduce_variance(x, 1, keepdims=True))
case("std", lambda tf, x: tf.math.reduce_std(x))
for n in ["real", "imag", "conj", "angle"]:
    case("c" + n, lambda tf, x, n=n: getattr(tf, n)(x))
    case("r" + n, lambda tf, x, n=n: getattr(tf, n)(x))
case("cabs", lambda tf, x: tf.abs(x))
case("complex", lambda tf, x, y: tf.abs(tf.complex(x, y)))
case("complex128", lambda tf, x, y: tf.complex(x, y))
case("cmul", lambda tf, x, y: tf.real(x * y) + tf.imag(x / y))
case("cexp", lambda tf, x: tf.real(tf.exp(x) * tf.square(x)))
case("cmatmul", lambda tf, x, y: tf.abs(tf.matmul(x, y)))
case("cmatmul_adj", lambda tf, x, y: tf.abs(tf.matmul(x, y, adjoint_a=True)))
case("csum", lambda tf, x: tf.reduce_sum(x))
case("creduce_mean", lambda tf, x: tf.abs(tf.reduce_mean(x, 0)))
case("ctranspose", lambda tf, x: tf.transpose(x, conjugate=True))
case("diag", lambda tf, x: tf.diag(x))
case("diag_part", lambda tf, x: tf.diag_part(x))
case("matrix_diag", lambda tf, x: tf.matrix_diag(x))
case("matrix_diag_k", lambda tf, x: tf.matrix_diag(x, k=1))
case("matrix_diag_band", lambda tf, x: tf.linalg.diag(x, k=(-1, 1), num_rows=4, num_cols=4, padding_value=9.0))
case("matrix_diag_nr", lambda tf, x: tf.matrix_diag(x, k=-1, num_rows=4, num_cols=3))
case("matrix_diag_nc", lambda tf, x: tf.matrix_diag(x, k=0, num_cols=5))
for al in ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"]:
    case("dp_" + al, lambda tf, x, al=al: tf.matrix_diag_part(x, k=(-2, 1), padding_value=7.0, align=al))
    case("sd_" + al, lambda tf, x, y, al=al: tf.matrix_set_diag(x, y, k=(-1, 1), align=al))
case("mdp", lambda tf, x: tf.matrix_diag_part(x))
case("mdp_k", lambda tf, x: tf.matrix_diag_part(x, k=-1))
case("msd", lambda tf, x, y: tf.matrix_set_diag(x, y))
for a, b in ((1, 0), (-1, 0), (0, -1), (1, 1), (-1, -1)):
    case(f"band{a}{b}", lambda tf, x, a=a, b=b: tf.matrix_band_part(x, a, b))
case("trace", lambda tf, x: tf.trace(x))
case("cross", lambda tf, x, y: tf.cross(x, y))
case("eye_b", lambda tf: tf.eye(2, 3, batch_shape=[2]))
case("eye_i", lambda tf: tf.eye(3, dtype=tf.int32))
case("inv", lambda tf, x: tf.matrix_inverse(x))
case("inv_adj", lambda tf, x: tf.matrix_inverse(x, adjoint=True))
case("det", lambda tf, x: tf.matrix_determinant(x))
case("slogdet", lambda tf, x: tf.linalg.slogdet(x))
case("logdet", lambda tf, x: tf.linalg.logdet(x))
case("chol", lambda tf, x: tf.cholesky(x))
case("chol_solve", lambda tf, x, y: tf.cholesky_solve(tf.cholesky(x), y))
for ad in (False, True):
    case(f"solve{ad}", lambda tf, x, y, ad=ad: tf.matrix_solve(x, y, adjoint=ad))
for lo in (0, 1):
    for up in (0, 1):
        case(
            f"tri{lo}{up}",
            lambda tf, x, y, lo=lo, up=up: tf.matrix_triangular_solve(x, y, lower=bool(lo), adjoint=bool(up)),
        )
case("ls", lambda tf, x, y: tf.matrix_solve_ls(x, y, 0.1))
case("ls_wide", lambda tf, x, y: tf.matrix_solve_ls(x, y, 0.1))
case("ls_slow", lambda tf, x, y: tf.matrix_solve_ls(x, y, fast=False))
case("qr", lambda tf, x: tf.qr(x))
case("qr_full", lambda tf, x: tf.qr(x, full_matrices=True)[1])
case("svd_s", lambda tf, x: tf.svd(x, compute_uv=False))
case(
    "svd_rec",
    lambda tf, x: (lambda s, u, v: tf.matmul(u * tf.expand_dims(tf.square(s), -2), v, adjoint_b=True))(*tf.svd(x)),
)
case("eigvals", lambda tf, x: tf.self_adjoint_eigvals(x))
case("eig_abs", lambda tf, x: (lambda e, v: [e, tf.abs(v)])(*tf.self_adjoint_eig(x)))
case("expm", lambda tf, x: tf.linalg.expm(x))
case("sqrtm", lambda tf, x: tf.matrix_square_root(x))
case("logm", lambda tf, x: tf.linalg.logm(x))
case("lu", lambda tf, x: tf.linalg.lu(x))
case("lu_solve", lambda tf, x, y: tf.linalg.lu_solve(*tf.linalg.lu(x), y))
case("lu_rec", lambda tf, x: tf.linalg.lu_reconstruct(*tf.linalg.lu(x)))
case("lu_inv", lambda tf, x: tf.linalg.lu_matrix_inverse(*tf.linalg.lu(x)))
case("pinv", lambda tf, x: tf.linalg.pinv(x))
case("rank", lambda tf, x: tf.linalg.matrix_rank(x))
case("adjoint", lambda tf, x: tf.linalg.adjoint(x))
case("normalize", lambda tf, x: tf.linalg.normalize(x, axis=1))
case("matvec", lambda tf, x, y: tf.linalg.matvec(x, y))
case("tridiag", lambda tf, x, y: tf.linalg.tridiagonal_solve(x, y))
case("tridiag_v", lambda tf, x, y: tf.linalg.tridiagonal_solve(x, y))
case("tridiag_mm", lambda tf, x, y: tf.linalg.tridiagonal_matmul(x, y))
case("tridiag_mat", lambda tf, x, y: tf.linalg.tridiagonal_solve(x, y, "matrix"))
for nm, kw in (
    ("n1", {"ord": 1}),
    ("ninf", {"ord": np.inf, "axis": 1}),
    ("n3", {"ord": 3, "axis": 0, "keepdims": True}),
    ("nfro", {"ord": "fro", "axis": [0, 1]}),
    ("n2ax", {"ord": 2, "axis": -1}),
    ("nall", {}),
    ("n2m", {"ord": 2, "axis": [-2, -1]}),
    ("n1m", {"ord": 1, "axis": [-2, -1]}),
    ("ninfm", {"ord": np.inf, "axis": [-2, -1]}),
):
    case("norm_" + nm, lambda tf, x, kw=kw: tf.norm(x, **kw))
for nm, eq in (
    ("a", "ij,jk->ik"),
    ("b", "ij,jk"),
    ("c", "ij->ji"),
    ("d", "ii->i"),
    ("e", "ii"),
    ("f", "bij,bjk->bik"),
    ("g", "i,j->ij"),
    ("h", "...ij,...jk->...ik"),
    ("i", "ijk,k->ij"),
    ("j", "i,i,i->"),
    ("k", "aij,bjk,kl->ail"),
    ("l", "ij,ij->"),
    ("m", "ijk->k"),
    ("n", "...->..."),
    ("o", "b...,b...->..."),
):
    case("einsum_" + nm, lambda tf, *a, eq=eq: tf.einsum(eq, *a))
case("tensordot2", lambda tf, x, y: tf.tensordot(x, y, [[1, 2], [0, 1]]))
case("tensordot0", lambda tf, x, y: tf.tensordot(x, y, 0))
