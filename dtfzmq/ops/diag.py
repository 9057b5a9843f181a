"""Diagonals and bands of matrices.

A band is named by its diagonals `k`: 0 the main one, above it positive, below it negative; a pair (low, high) is all
between. Diagonals of different lengths are stored in the rows of a matrix, the highest first; `align` says at which end
the short ones of the upper and of the lower half are filled up.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_sum
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid

_ALIGN = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def _bounds(k: np.ndarray) -> tuple[int, int]:
    flat = np.asarray(k).reshape(-1).tolist()
    if not 1 <= len(flat) <= 2:
        raise invalid(f"diag_index must be a scalar or a vector of one or two elements, not {flat}")
    low, high = flat[0], flat[-1]
    if low > high:
        raise invalid(f"lower_diag_index is greater than upper_diag_index: {low} > {high}")
    return low, high


def _length(rows: int, columns: int, d: int) -> int:
    return min(rows + min(d, 0), columns - max(d, 0))


def _spans(rows: int, columns: int, low: int, high: int, align: str) -> list[tuple[int, int, int, int]]:
    """For each diagonal, highest first: its index, length, first column in storage, and the width of the storage."""
    if rows and columns and not (-rows < low and high < columns):
        raise invalid(
            f"lower_diag_index and upper_diag_index must be between {-rows + 1} and {columns - 1}, not {low} and {high}"
        )
    width = max(_length(rows, columns, d) for d in range(low, high + 1))
    upper, lower = align.split("_")
    out = []
    for d in range(high, low - 1, -1):
        size = _length(rows, columns, d)
        side = upper if d >= 0 else lower
        out.append((d, size, width - size if side == "RIGHT" else 0, width))
    return out


def _place(d: int, size: int) -> tuple[Any, ...]:
    """The index of diagonal `d` in matrices."""
    i = np.arange(size)
    return (..., i - min(d, 0), i + max(d, 0))


def _part_kernel(node: Any, env: Any) -> Any:
    align = node.attrs["align"]

    def part(x: np.ndarray, k: np.ndarray, padding: np.ndarray) -> np.ndarray:
        low, high = _bounds(k)
        rows, columns = x.shape[-2:]
        spans = _spans(rows, columns, low, high, align)
        out = np.full((*x.shape[:-2], len(spans), spans[0][3]), padding, x.dtype)
        for j, (d, size, start, _) in enumerate(spans):
            out[..., j, start : start + size] = x[_place(d, size)]
        return out[..., 0, :] if low == high else out

    return part


def _write(out: np.ndarray, diagonal: np.ndarray, low: int, high: int, align: str) -> np.ndarray:
    rows, columns = out.shape[-2:]
    spans = _spans(rows, columns, low, high, align)
    stored = diagonal[..., None, :] if low == high else diagonal
    want = (*out.shape[:-2], len(spans), spans[0][3])
    if stored.shape != want:
        raise invalid(f"The diagonals must be of shape {list(want)}, not {list(stored.shape)}")
    for j, (d, size, start, _) in enumerate(spans):
        out[_place(d, size)] = stored[..., j, start : start + size]
    return out


def _diag_kernel(node: Any, env: Any) -> Any:
    align = node.attrs["align"]

    def diag(x: np.ndarray, k: np.ndarray, rows: np.ndarray, columns: np.ndarray, padding: np.ndarray) -> np.ndarray:
        low, high = _bounds(k)
        lead = x.shape[:-1] if low == high else x.shape[:-2]
        n, m = _matrix_size(x.shape[-1], low, high, int(rows), int(columns))
        return _write(np.full((*lead, n, m), padding, x.dtype), x, low, high, align)

    return diag


def _matrix_size(width: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    least_rows, least_columns = width - min(high, 0), width + max(low, 0)
    if rows == -1 and columns == -1:
        n = m = max(least_rows, least_columns)
    else:
        n = least_rows if rows == -1 else rows
        m = least_columns if columns == -1 else columns
    if n < least_rows or m < least_columns or (n != least_rows and m != least_columns):
        raise invalid(f"A matrix of {n} rows and {m} columns has no such diagonals of length {width}")
    return n, m


def _set_kernel(node: Any, env: Any) -> Any:
    align = node.attrs["align"]

    def set_diag(x: np.ndarray, diagonal: np.ndarray, k: np.ndarray) -> np.ndarray:
        low, high = _bounds(k)
        return _write(np.array(x), diagonal, low, high, align)

    return set_diag


def _static_bounds(k: np.ndarray) -> tuple[int, int]:
    try:
        return _bounds(k)
    except errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None


def _part_shape(n: Any) -> list[TensorShape]:
    known, k = dims(n.inputs[0]), constant_value(n.inputs[1])
    if known is None:
        return [UNKNOWN]
    if len(known) < 2:
        raise ValueError(f"Shape must be at least rank 2 but is rank {len(known)} for shape {n.inputs[0].shape}")
    if k is None:
        return [UNKNOWN]
    low, high = _static_bounds(k)
    rows, columns = known[-2:]
    width = None
    if rows is not None and columns is not None:
        if not (-rows < low and high < columns) and rows and columns:
            which = "upper" if high >= columns and low > -rows else "lower"
            raise ValueError(f"{which}_diag_index is out of bound: {low}, {high} of shape {n.inputs[0].shape}")
        width = max(_length(rows, columns, d) for d in range(low, high + 1))
    return [TensorShape([*known[:-2], *([] if low == high else [high - low + 1]), width])]


def _diag_shape(n: Any) -> list[TensorShape]:
    known, k, rows, columns = dims(n.inputs[0]), *(constant_value(t) for t in n.inputs[1:4])
    if known is None or k is None or rows is None or columns is None:
        return [UNKNOWN]
    low, high = _static_bounds(k)
    if len(known) < 1 + (low < high):
        raise ValueError(f"Shape must be at least rank {1 + (low < high)} but is rank {len(known)}")
    lead = known[:-1] if low == high else known[:-2]
    if known[-1] is None:
        sizes: list[int | None] = [None if v < 0 else int(v) for v in (rows, columns)]
        return [TensorShape([*lead, *sizes])]
    try:
        return [TensorShape([*lead, *_matrix_size(known[-1], low, high, int(rows), int(columns))])]
    except errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None


def _part_grad(n: Any, g: Tensor) -> tuple[Tensor, None, Tensor]:
    x, k, padding = n.inputs
    zeros = raw.ZerosLike(x)
    back = raw.MatrixSetDiagV3(zeros, g, k, align=n.attrs["align"])
    filled = raw.MatrixDiagPartV3(raw.OnesLike(x), k, raw.ZerosLike(padding), align=n.attrs["align"])
    return back, None, reduce_sum(g * (1 - filled))


def _diag_grad(n: Any, g: Tensor) -> tuple[Tensor, None, None, None, Tensor]:
    k, align = n.inputs[1], n.attrs["align"]
    nothing = raw.ZerosLike(n.inputs[4])
    taken = raw.MatrixDiagPartV3(g, k, nothing, align=align)
    return taken, None, None, None, reduce_sum(g) - reduce_sum(taken)


def _set_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
    diagonal, k = n.inputs[1:]
    zero = np.zeros((), g.dtype.base_dtype.np_dtype)
    align = n.attrs["align"]
    return (
        raw.MatrixSetDiagV3(g, raw.ZerosLike(diagonal), k, align=align),
        raw.MatrixDiagPartV3(g, k, zero, align=align),
        None,
    )


_ZERO = np.float64(0)
_BAND = np.array([-1, 1], np.int32)
_matrix_diag = op(
    "MatrixDiagV3",
    "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T; align: str = 'RIGHT_LEFT' -> output: T",
    shape=_diag_shape, make=_diag_kernel, grad=_diag_grad,
    samples=[
        Sample(mat(2, 3), np.int32(0), np.int32(-1), np.int32(-1), _ZERO),
        Sample(mat(3), np.int32(1), np.int32(-1), np.int32(-1), _ZERO),
        Sample(mat(2, 3), np.int32(-1), np.int32(4), np.int32(3), mat()),
        Sample(mat(3, 3), _BAND, np.int32(-1), np.int32(-1), _ZERO, align="LEFT_RIGHT"),
    ],
)  # fmt: skip
_matrix_diag_part = op(
    "MatrixDiagPartV3", "input: T, k: int32, padding_value: T; align: str = 'RIGHT_LEFT' -> diagonal: T",
    shape=_part_shape, make=_part_kernel, grad=_part_grad,
    samples=[
        Sample(mat(2, 3, 3), np.int32(0), _ZERO),
        Sample(mat(3, 4), np.int32(-1), _ZERO),
        Sample(mat(3, 4), _BAND, mat()),
        Sample(mat(3, 4), np.array([-2, 1], np.int32), mat(), align="LEFT_LEFT"),
    ],
)  # fmt: skip
_matrix_set_diag = op(
    "MatrixSetDiagV3", "input: T, diagonal: T, k: int32; align: str = 'RIGHT_LEFT' -> output: T", shape=same,
    make=_set_kernel, grad=_set_grad,
    samples=[
        Sample(mat(2, 3, 4), mat(2, 3, seed=1), np.int32(0)),
        Sample(mat(3, 3), mat(2, seed=1), np.int32(1)),
        Sample(mat(3, 3), mat(3, 3, seed=1), _BAND, align="RIGHT_RIGHT"),
    ],
)  # fmt: skip


def _tensor_diag_kernel(x: np.ndarray) -> np.ndarray:
    if not x.ndim:
        raise invalid("Input must be at least rank 1, got 0")
    out = np.zeros((x.size, x.size), x.dtype)
    np.fill_diagonal(out, x.reshape(-1))
    return out.reshape(x.shape * 2)


def _tensor_part_kernel(x: np.ndarray) -> np.ndarray:
    half = x.ndim // 2
    if x.ndim % 2 or not x.ndim or x.shape[:half] != x.shape[half:]:
        raise invalid(f"The first half of the sizes must equal the second, but the shape is {list(x.shape)}")
    size = int(np.prod(x.shape[:half], dtype=np.int64))
    return np.array(np.diagonal(x.reshape(size, size))).reshape(x.shape[:half])


def _tensor_part_shape(n: Any) -> list[TensorShape]:
    known = dims(n.inputs[0])
    if known is None:
        return [UNKNOWN]
    half = len(known) // 2
    if len(known) % 2 or not known:
        raise ValueError(f"Input must have even and non-zero rank, input rank is {len(known)}")
    return [TensorShape(known[:half]).merge_with(TensorShape(known[half:]))]


_diag = op(
    "Diag", "diagonal: N -> output: N", kernel=_tensor_diag_kernel,
    shape=lambda n: [n.inputs[0].shape.with_rank_at_least(1).concatenate(n.inputs[0].shape)],
    grad=lambda n, g: (raw.DiagPart(g),), samples=[Sample(mat(4)), Sample(mat(2, 3))],
)  # fmt: skip
_diag_part = op(
    "DiagPart", "input: N -> diagonal: N", shape=_tensor_part_shape, kernel=_tensor_part_kernel,
    grad=lambda n, g: (raw.Diag(g),), samples=[Sample(mat(3, 3)), Sample(mat(2, 3, 2, 3))],
)  # fmt: skip


def _band_kernel(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    if x.ndim < 2:
        raise invalid(f"input must be at least 2-dim, received shape: {list(x.shape)}")
    rows, columns = x.shape[-2:]
    low, high = int(lower), int(upper)
    for what, number, of, most in (("lower", low, "rows", rows), ("upper", high, "columns", columns)):
        if number > most:
            raise invalid(
                f"num_{what} must be negative or less or equal to number of {of} ({most}) got: {number}"
            )
    away = np.arange(columns) - np.arange(rows)[:, None]
    inside = np.ones((rows, columns), bool)
    if low >= 0:
        inside &= away >= -low
    if high >= 0:
        inside &= away <= high
    return np.where(inside, x, np.zeros((), x.dtype))


_band_part = op(
    "MatrixBandPart", "input: T, num_lower: I, num_upper: I -> band: T", shape=same, kernel=_band_kernel,
    grad=lambda n, g: (raw.MatrixBandPart(g, *n.inputs[1:]), None, None),
    samples=[Sample(mat(2, 4, 3), ints(1)[0], ints(0)[0]), Sample(mat(3, 3), np.int64(0), np.int64(-1))],
)  # fmt: skip


def _padding(value: Any, like: Tensor) -> Tensor:
    dtype = like.dtype.base_dtype
    return convert_to_tensor(bool(value) if dtype.is_bool and not isinstance(value, Tensor) else value, dtype=dtype)


def _aligned(align: str) -> str:
    if align not in _ALIGN:
        raise ValueError(f"align must be one of {', '.join(_ALIGN)}, not {align!r}.")
    return align


def matrix_diag(
    diagonal: Any, name: str = "diag", k: Any = 0, num_rows: Any = -1, num_cols: Any = -1, padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:  # fmt: skip
    """Matrices with these diagonals `k` and `padding_value` elsewhere, as small as they can be if no size is given."""
    diagonal = convert_to_tensor(diagonal, name="diagonal")
    padding = _padding(padding_value, diagonal)
    return _matrix_diag(diagonal, k, num_rows, num_cols, padding, align=_aligned(align), name=name)


def matrix_diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """The diagonals `k` of matrices, the short ones filled up with `padding_value`."""
    x = convert_to_tensor(input, name="input")
    padding = _padding(padding_value, x)
    return _matrix_diag_part(x, k, padding, align=_aligned(align), name=name)


def matrix_set_diag(
    input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Matrices with their diagonals `k` replaced."""
    return _matrix_set_diag(input, diagonal, k, align=_aligned(align), name=name)


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Matrices with zeros further than num_lower below and num_upper above the diagonal; -1 keeps all on that side."""
    return _band_part(input, num_lower, num_upper, name=name)


def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """A tensor of twice the rank with these values where both halves of the indices agree, zero elsewhere."""
    return _diag(diagonal, name=name)


def diag_part(input: Any, name: str | None = None) -> Tensor:
    """The values where both halves of the indices agree."""
    return _diag_part(input, name=name)


tensor_diag = diag
tensor_diag_part = diag_part


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum along the main diagonal of each matrix."""
    x = convert_to_tensor(x, name="x")
    with x.graph.name_scope(name or "Trace") as scope:
        return reduce_sum(matrix_diag_part(x), [-1], name=scope)


__all__ = [
    "diag", "diag_part", "matrix_band_part", "matrix_diag", "matrix_diag_part", "matrix_set_diag",
    "tensor_diag", "tensor_diag_part", "trace",
]  # fmt: skip
