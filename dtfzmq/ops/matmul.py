"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.shape_rules import scalar
from dtfzmq.graph.static import constant_value, dims, full_dims
from dtfzmq.ops.broadcasting import unbroadcast
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat

_AT_ONCE = 950_000  # multiplications of a product of float32 that OpenBLAS does without packing and threads
_MIDDLING = 7_000_000


def _sizes(n: Any, i: int, swapped: bool) -> tuple[Any, Any]:
    known = dims(n.inputs[i])
    if known is None:
        return None, None
    rows, columns = known[-2:]
    return (columns, rows) if swapped else (rows, columns)


def _matmul_shape(n: Any) -> list[TensorShape]:
    for t in n.inputs:
        if t.shape.ndims not in (None, 2):
            raise ValueError(f"Shape must be rank 2 but is rank {t.shape.ndims} for shape {t.shape}")
    rows, inner = _sizes(n, 0, n.attrs["transpose_a"])
    also, columns = _sizes(n, 1, n.attrs["transpose_b"])
    if inner is not None and also is not None and inner != also:
        raise ValueError(
            f"Dimensions must be equal, but are {inner} and {also} for 'MatMul' with input shapes: "
            f"{n.inputs[0].shape}, {n.inputs[1].shape}"
        )
    return [TensorShape([rows, columns])]


def _stored(product: np.ndarray, to: Any, out: np.ndarray | None) -> np.ndarray:
    """A product that was computed in float32 as `to`, in `out` if given."""
    if out is None:
        return product.astype(to)
    np.copyto(out, product, casting="same_kind")
    return out


def _dot(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """a @ b of matrices. Products of middling size are taken as stacks of ones that BLAS does on one thread.

    Its threads wait for one another by spinning, and have little to gain here: 128x128 takes 0.03 ms either way on idle
    processors, and was seen to take 16 ms on busy ones.
    """
    if _AT_ONCE < a.shape[0] * a.shape[1] * b.shape[1] <= _MIDDLING and a.dtype == np.float32:
        most = min(_AT_ONCE // (a.shape[1] * b.shape[1]), a.shape[0])
        height = next((h for h in range(most, max(most // 2, 7), -1) if a.shape[0] % h == 0), 0)
        whole = a.flags.c_contiguous and b.flags.c_contiguous and (out is None or out.flags.c_contiguous)
        if height and whole:
            stack = None if out is None else out.reshape(-1, height, b.shape[1])
            product = np.matmul(a.reshape(-1, height, a.shape[1]), b, out=stack)
            return product.reshape(a.shape[0], b.shape[1]) if out is None else out
    return np.matmul(a, b, out=out)


def _matmul_kernel(node: Any, env: Any) -> Any:
    swap_a, swap_b = bool(node.attrs["transpose_a"]), bool(node.attrs["transpose_b"])
    half = node.dtypes[0].size == 2 and node.dtypes[0].is_floating
    to = node.dtypes[0].np_dtype
    dot = _dot

    def kernel(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if a.ndim != 2 or b.ndim != 2 or a.shape[0 if swap_a else 1] != b.shape[1 if swap_b else 0]:
            raise errors.InvalidArgumentError(
                None, None,
                f"Matrix size-incompatible: In[0]: {list(a.shape)}, In[1]: {list(b.shape)}"
            )  # fmt: skip
        if swap_a:
            a = a.T
        if swap_b:
            b = b.T
        if half:
            return _stored(dot(a.astype(np.float32), b.astype(np.float32)), to, out)
        return dot(a, b, out=out)

    return kernel


def _matmul_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    a, b = n.inputs
    swap_a, swap_b = n.attrs["transpose_a"], n.attrs["transpose_b"]
    return _products(raw.MatMul, ("transpose_a", "transpose_b"), a, b, g, swap_a, swap_b)


def _products(
    mul: Any, flags: tuple[str, str], a: Tensor, b: Tensor, g: Tensor, swap_a: bool, swap_b: bool
) -> tuple[Tensor, Tensor]:
    first, second = flags
    if not swap_a and not swap_b:
        return mul(g, b, **{second: True}), mul(a, g, **{first: True})
    if not swap_a:
        return mul(g, b), mul(g, a, **{first: True})
    if not swap_b:
        return mul(b, g, **{second: True}), mul(a, g)
    return mul(b, g, **{first: True, second: True}), mul(g, a, **{first: True, second: True})


_matmul = op(
    "MatMul", "a: N, b: N; transpose_a: bool = False, transpose_b: bool = False -> product: N",
    shape=_matmul_shape, make=_matmul_kernel, out=True, grad=_matmul_grad,
    samples=[
        Sample(mat(2, 3), mat(3, 4, seed=1)),
        Sample(mat(3, 2), mat(3, 4, seed=1), transpose_a=True),
        Sample(mat(2, 3), mat(4, 3, seed=1), transpose_b=True),
        Sample(mat(3, 2), mat(4, 3, seed=1), transpose_a=True, transpose_b=True),
        Sample(mat(0, 3), mat(3, 2)),
    ],
)  # fmt: skip


def _batch_shape(n: Any) -> list[TensorShape]:
    a, b = dims(n.inputs[0]), dims(n.inputs[1])
    if a is None or b is None:
        return [UNKNOWN]
    if len(a) < 2 or len(b) < 2:
        raise ValueError(f"Shape must be at least rank 2, but are {n.inputs[0].shape} and {n.inputs[1].shape}")
    rows, inner = _sizes(n, 0, n.attrs["adj_x"])
    also, columns = _sizes(n, 1, n.attrs["adj_y"])
    if inner is not None and also is not None and inner != also:
        raise ValueError(
            f"Dimensions must be equal, but are {inner} and {also} for 'BatchMatMul' with input shapes: "
            f"{n.inputs[0].shape}, {n.inputs[1].shape}"
        )
    batch = _broadcast(a[:-2], b[:-2])
    return [TensorShape([*batch, rows, columns])]


def _broadcast(a: Any, b: Any) -> list[int | None]:
    size = max(len(a), len(b))
    a, b = (1,) * (size - len(a)) + a, (1,) * (size - len(b)) + b
    out: list[int | None] = []
    for p, q in zip(a, b):
        if p is not None and q is not None and p != q and 1 not in (p, q):
            raise ValueError(f"Batch dimensions must be equal, but are {p} and {q}")
        out.append(q if p in (1, None) else p)
    return out


def _batch_kernel(node: Any, env: Any) -> Any:
    adj_x, adj_y = bool(node.attrs["adj_x"]), bool(node.attrs["adj_y"])
    half = node.dtypes[0].size == 2 and node.dtypes[0].is_floating
    to = node.dtypes[0].np_dtype

    def turned(m: np.ndarray) -> np.ndarray:
        m = np.swapaxes(m, -1, -2)
        return m.conj() if m.dtype.kind == "c" else m

    def kernel(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if x.ndim < 2 or y.ndim < 2 or x.shape[-2 if adj_x else -1] != y.shape[-1 if adj_y else -2]:
            raise errors.InvalidArgumentError(
                None, None, f"Matrix size-incompatible: In[0]: {list(x.shape)}, In[1]: {list(y.shape)}"
            )
        if half:
            x, y = x.astype(np.float32), y.astype(np.float32)
        product = np.matmul(turned(x) if adj_x else x, turned(y) if adj_y else y, out=None if half else out)
        return _stored(product, to, out) if half else product

    return kernel


def _batch_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    gx, gy = _products(raw.BatchMatMulV2, ("adj_x", "adj_y"), x, y, g, n.attrs["adj_x"], n.attrs["adj_y"])
    a, b = full_dims(x), full_dims(y)
    if a is not None and b is not None and a[:-2] == b[:-2]:
        return gx, gy
    return _fit(gx, x), _fit(gy, y)


def _fit(g: Tensor, x: Tensor) -> Tensor:
    known = full_dims(x)
    return raw.SumToShape(g, raw.Shape(x) if known is None else np.array(known, np.int32))


_batch_matmul = op(
    "BatchMatMulV2", "x: N, y: N; adj_x: bool = False, adj_y: bool = False -> output: N", shape=_batch_shape,
    make=_batch_kernel, out=True, grad=_batch_grad,
    samples=[
        Sample(mat(2, 2, 3), mat(2, 3, 4, seed=1)),
        Sample(mat(2, 3, 2), mat(2, 3, 4, seed=1), adj_x=True),
        Sample(mat(2, 2, 3), mat(2, 4, 3, seed=1), adj_y=True),
        Sample(mat(2, 1, 2, 3), mat(3, 3, 2, seed=1)),
        Sample(mat(2, 3, 2), mat(2, 4, 3, seed=1), adj_x=True, adj_y=True),
    ],
)  # fmt: skip


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of two matrices, or of the matrices in the last two axes of tensors of higher rank.

    Raises ValueError if a matrix is asked both transposed and adjoint, or sizes do not go together.
    """
    if transpose_a and adjoint_a or transpose_b and adjoint_b:
        raise ValueError("Only one of transpose_a and adjoint_a (or of transpose_b and adjoint_b) can be True.")
    a = convert_to_tensor(a, name="a")
    b = convert_to_tensor(b, dtype=None if isinstance(b, Tensor) else a.dtype.base_dtype, name="b")
    ranks = a.shape.ndims, b.shape.ndims
    matrices = (2 in ranks or a_is_sparse or b_is_sparse) and all(r in (None, 2) for r in ranks)
    if matrices and not ((adjoint_a or adjoint_b) and a.dtype.is_complex):
        return _matmul(
            a, b, transpose_a=bool(transpose_a or adjoint_a), transpose_b=bool(transpose_b or adjoint_b), name=name
        )
    if a.dtype.is_complex and transpose_a:
        a = raw.Conj(a)
    if b.dtype.is_complex and transpose_b:
        b = raw.Conj(b)
    return _batch_matmul(
        a, b, adj_x=bool(transpose_a or adjoint_a), adj_y=bool(transpose_b or adjoint_b), name=name or "MatMul"
    )


batch_matmul = matmul


def matvec(
    a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, a_is_sparse: bool = False,
    b_is_sparse: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The product of a matrix and a vector, or of batches of them."""
    b = convert_to_tensor(b)
    column = matmul(a, raw.ExpandDims(b, -1), transpose_a=transpose_a, adjoint_a=adjoint_a, name=name)
    return raw.Squeeze(column, squeeze_dims=[-1])


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Sum of products over `axes`: a number (the last of a with the first of b), or a pair of (lists of) axes.

    Raises ValueError for axes that do not go with the ranks or with each other.
    """
    a = convert_to_tensor(a, name="a")
    b = convert_to_tensor(b, name="b")
    rank_a, rank_b = a.shape.ndims, b.shape.ndims
    if isinstance(axes, Tensor):
        known = constant_value(axes)
        axes = axes if known is None else known.tolist()
    if rank_a is None or rank_b is None or isinstance(axes, Tensor):
        return _tensordot_unknown(a, b, axes, name or "Tensordot")
    if isinstance(axes, (int, np.integer)):
        if axes < 0 or axes > min(rank_a, rank_b):
            raise ValueError(f"'axes' must be between 0 and the smaller rank, got {axes}.")
        over_a, over_b = list(range(rank_a - axes, rank_a)), list(range(axes))
    else:
        first, second = axes
        over_a = [i % rank_a for i in ([first] if isinstance(first, (int, np.integer)) else first)]
        over_b = [i % rank_b for i in ([second] if isinstance(second, (int, np.integer)) else second)]
        if len(over_a) != len(over_b):
            raise ValueError(f"Different number of contraction axes 'a' and 'b', {len(over_a)} != {len(over_b)}.")
    free_a = [i for i in range(rank_a) if i not in over_a]
    free_b = [i for i in range(rank_b) if i not in over_b]
    with a.graph.name_scope(name or "Tensordot"):
        left = raw.Reshape(_moved(a, [*free_a, *over_a]), raw.Pack([_size(a, free_a), _size(a, over_a)], axis=0))
        right = raw.Reshape(_moved(b, [*over_b, *free_b]), raw.Pack([_size(b, over_b), _size(b, free_b)], axis=0))
        product = _matmul(left, right)
        sizes = [*(_one(a, i) for i in free_a), *(_one(b, i) for i in free_b)]
        out = raw.Reshape(product, raw.Pack(sizes, axis=0) if sizes else np.zeros(0, np.int32))
    known_a, known_b = dims(a) or (), dims(b) or ()
    out.set_shape([*(known_a[i] for i in free_a), *(known_b[i] for i in free_b)])
    return out


def _tensordot_unknown(a: Tensor, b: Tensor, axes: Any, name: str) -> Tensor:
    """tensordot where ranks or axes are known in the step alone."""
    with a.graph.name_scope(name) as scope:
        if isinstance(axes, (int, np.integer)):
            rank = raw.Rank(a)
            over_a, over_b = raw.Range(rank - int(axes), rank, 1), raw.Range(0, int(axes), 1)
        else:
            over_a, over_b = (raw.Reshape(convert_to_tensor(axes[i], dtypes.int32), [-1]) for i in (0, 1))
        free_a, moved_a, sizes_a, inner = _apart(a, over_a)
        free_b, moved_b, sizes_b, _ = _apart(b, over_b)
        left = raw.Reshape(raw.Transpose(a, raw.ConcatV2([free_a, moved_a], 0)), raw.Pack([-1, inner], axis=0))
        right = raw.Reshape(raw.Transpose(b, raw.ConcatV2([moved_b, free_b], 0)), raw.Pack([inner, -1], axis=0))
        return raw.Reshape(_matmul(left, right), raw.ConcatV2([sizes_a, sizes_b], 0), name=scope)


def _apart(x: Tensor, over: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The axes that stay, those that are summed over, the sizes of the former, the product of the latter's."""
    over = raw.FloorMod(over, raw.Rank(x))
    free = raw.ListDiff(raw.Range(0, raw.Rank(x), 1), over)[0]
    shape = raw.Shape(x)
    return free, over, raw.GatherV2(shape, free, 0), raw.Prod(raw.GatherV2(shape, over, 0), np.int32(0))


def _moved(x: Tensor, order: list[int]) -> Tensor:
    return x if order == sorted(order) else raw.Transpose(x, np.array(order, np.int32))


def _one(x: Tensor, axis: int) -> Any:
    known = (dims(x) or ())[axis]
    return np.int32(known) if known is not None else raw.Shape(x)[axis]


def _size(x: Tensor, axes: list[int]) -> Any:
    known = [(dims(x) or ())[i] for i in axes]
    if None not in known:
        return np.int32(np.prod([k or 0 for k in known], dtype=np.int64))
    return raw.Prod(raw.GatherV2(raw.Shape(x), np.array(axes, np.int32), 0), np.int32(0))


_l2_loss = op(
    "L2Loss", "t: F -> output: F", shape=scalar,
    kernel=lambda t: np.asarray(np.vdot(t, t) * t.dtype.type(0.5), t.dtype),
    grad=lambda n, g: (n.inputs[0] * g,), samples=[Sample(mat(2, 3))],
)  # fmt: skip


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half the sum of squares."""
    return _l2_loss(t, name=name)


__all__ = ["batch_matmul", "l2_loss", "matmul", "matvec", "tensordot", "unbroadcast"]
