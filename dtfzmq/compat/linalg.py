"""``tf.linalg``: public names alone."""

from dtfzmq.ops.array import matrix_transpose
from dtfzmq.ops.array import matrix_transpose as transpose
from dtfzmq.ops.clip import global_norm, l2_normalize, norm
from dtfzmq.ops.constants import eye
from dtfzmq.ops.decompositions import (
    eigh,
    eigvalsh,
    lu,
    lu_matrix_inverse,
    lu_reconstruct,
    lu_solve,
    matrix_rank,
    pinv,
    qr,
    svd,
)
from dtfzmq.ops.diag import matrix_band_part as band_part
from dtfzmq.ops.diag import matrix_diag as diag
from dtfzmq.ops.diag import matrix_diag_part as diag_part
from dtfzmq.ops.diag import matrix_set_diag as set_diag
from dtfzmq.ops.diag import tensor_diag, tensor_diag_part, trace
from dtfzmq.ops.einsum import einsum
from dtfzmq.ops.linalg import (
    adjoint,
    cholesky,
    cholesky_solve,
    cross,
    det,
    inv,
    logdet,
    lstsq,
    slogdet,
    solve,
    triangular_solve,
)
from dtfzmq.ops.matmul import matmul, matvec, tensordot
from dtfzmq.ops.matrix_functions import expm, logm, normalize, sqrtm, tridiagonal_matmul, tridiagonal_solve
