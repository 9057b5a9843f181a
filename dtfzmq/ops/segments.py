"""Reductions over segments: rows that carry the same id."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid

Array = np.ndarray


def _grouped(ufunc: Any, rows: Array, ids: Array, count: int, empty: Any) -> Array:
    """`rows` reduced by ascending ids into `count` rows; those without any are `empty`."""
    out = np.full((count, *rows.shape[1:]), empty, rows.dtype)
    if len(ids):
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        half = rows.dtype.itemsize == 2 and rows.dtype.kind not in "iu"
        wide = rows.astype(np.float32) if half else rows
        out[ids[starts]] = ufunc.reduceat(wide, starts, axis=0, dtype=wide.dtype)
    return out


def _means(rows: Array, ids: Array, count: int) -> Array:
    total = _grouped(np.add, rows, ids, count, 0)
    number = np.maximum(np.bincount(ids, minlength=count), 1).reshape((-1,) + (1,) * (rows.ndim - 1))
    if rows.dtype.kind in "iu":
        return np.trunc(total / number).astype(rows.dtype)
    return (total / number.astype(rows.dtype)).astype(rows.dtype, copy=False)


def _checked(data: Array, ids: Array) -> int:
    if ids.ndim != 1:
        raise invalid("segment_ids should be a vector.")
    if data.ndim < 1 or len(ids) != data.shape[0]:
        raise invalid("segment_ids should be the same size as dimension 0 of input.")
    if len(ids) and ids.min() < 0:
        raise invalid(f"Segment id {ids.min()} out of range, possibly because 'segment_ids' input is not sorted.")
    if np.any(ids[1:] < ids[:-1]):
        raise invalid("segment ids are not increasing")
    return int(ids[-1]) + 1 if len(ids) else 0


def _sorted_kernel(ufunc: Any, empty: int) -> Any:
    return lambda data, ids: _grouped(ufunc, data, ids, _checked(data, ids), empty)


def _sorted_shape(n: Any) -> list[TensorShape]:
    known, ids = dims(n.inputs[0]), n.inputs[1].shape
    if ids.ndims not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is rank {ids.ndims} for segment_ids of shape {ids}")
    return [UNKNOWN if known is None else TensorShape([None, *known[1:]])]


def _numbers(n: Any, kind: Any) -> Tensor:
    """How many rows each sorted segment has, shaped to divide the gradient; at least 1."""
    ids = n.inputs[1]
    count = raw.SegmentSum(raw.Cast(raw.OnesLike(ids), DstT=kind.real_dtype), ids)
    rank = raw.Rank(n.inputs[0])
    shape = raw.ConcatV2([raw.Shape(count), raw.Fill(raw.ExpandDims(rank - 1, 0), 1)], 0)
    return raw.Cast(raw.Reshape(raw.Maximum(count, raw.OnesLike(count)), shape), DstT=kind)


def _mean_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    return _rows(g / _numbers(n, g.dtype.base_dtype), n.inputs[1]), None


def _rows(x: Tensor, ids: Tensor) -> Tensor:
    """The row of x for each id, zeros for an id below 0; dense gradients."""
    return raw.SegmentRows(x, ids)


def _extreme_grad(total: Any) -> Any:
    """Shared equally among the elements that reach the extreme. `total(n, x)` sums over segments."""

    def grad(n: Any, g: Tensor) -> tuple[Any, ...]:
        x, ids = n.inputs[:2]
        hit = raw.Cast(raw.Equal(x, _rows(n.outputs[0], ids)), DstT=x.dtype.base_dtype)
        share = g / raw.Maximum(total(n, hit), raw.OnesLike(g))
        return (hit * _rows(share, ids), *[None] * (len(n.inputs) - 1))

    return grad


def _prod_grad(total: Any, product: Any) -> Any:
    """Exact with zeros among the factors."""

    def grad(n: Any, g: Tensor) -> tuple[Any, ...]:
        x, ids = n.inputs[:2]
        none = raw.Equal(x, raw.ZerosLike(x))
        zeros = total(n, raw.Cast(none, DstT=dtypes.float32))
        g = raw.Select(raw.Greater(zeros, raw.OnesLike(zeros)), raw.ZerosLike(g), g)
        others = product(n, raw.Select(none, raw.OnesLike(x), x))
        divided = _rows(n.outputs[0], ids) / raw.Select(none, raw.OnesLike(x), x)
        return (_rows(g, ids) * raw.Select(none, _rows(others, ids), divided), *[None] * (len(n.inputs) - 1))

    return grad


def _sum_sorted(n: Any, x: Tensor) -> Tensor:
    return raw.SegmentSum(x, n.inputs[1])


_IDS = ints(0, 0, 2, 2)
_SORTED = [Sample(mat(4, 2), _IDS), Sample(mat(4), _IDS.astype(np.int64))]


def _declare(name: str, types: str, grad: Any, kernel: Any, samples: list[Sample]) -> Any:
    return op(
        name, f"data: {types}, segment_ids: I -> output: {types}", shape=_sorted_shape, kernel=kernel, grad=grad,
        samples=samples,
    )  # fmt: skip


_segment_sum = _declare(
    "SegmentSum", "N", lambda n, g: (_rows(g, n.inputs[1]), None), _sorted_kernel(np.add, 0), _SORTED
)
_segment_mean = _declare(
    "SegmentMean", "N", _mean_grad, lambda data, ids: _means(data, ids, _checked(data, ids)), _SORTED
)
_segment_max = _declare("SegmentMax", "R", _extreme_grad(_sum_sorted), _sorted_kernel(np.maximum, 0), _SORTED)
_segment_min = _declare("SegmentMin", "R", _extreme_grad(_sum_sorted), _sorted_kernel(np.minimum, 0), _SORTED)
_segment_prod = _declare(
    "SegmentProd", "N", _prod_grad(_sum_sorted, lambda n, x: raw.SegmentProd(x, n.inputs[1])),
    _sorted_kernel(np.multiply, 1), [*_SORTED, Sample(np.array([0.0, 2, 3, 4]), ints(0, 0, 1, 1))],
)  # fmt: skip


def _any_order(data: Array, ids: Array, count: Array) -> tuple[Array, Array, int]:
    """Rows and ids in ascending order, without negative ids."""
    if data.shape[: ids.ndim] != ids.shape:
        raise invalid(f"data.shape = {list(data.shape)} does not start with segment_ids.shape = {list(ids.shape)}")
    number = int(count)
    if number < 0:
        raise invalid(f"Input num_segments == {number} must not be negative.")
    rows = data.reshape((ids.size, *data.shape[ids.ndim :]))
    flat = ids.reshape(-1)
    if flat.size and flat.max() >= number:
        at = int(np.argmax(flat >= number))
        where = ",".join(str(i) for i in np.unravel_index(at, ids.shape))
        raise invalid(f"segment_ids[{where}] = {flat[at]} is out of range [0, {number})")
    order = np.argsort(flat, kind="stable")
    order = order[np.searchsorted(flat[order], 0) :]
    return rows[order], flat[order], number


def _lowest(dtype: Any, lowest: bool) -> Any:
    info: Any = np.iinfo(dtype) if dtype.kind in "iu" else dtypes.as_dtype(dtype)
    return info.min if lowest else info.max


def _unsorted_kernel(ufunc: Any, empty: Any) -> Any:
    def kernel(data: Array, ids: Array, count: Array) -> Array:
        rows, flat, number = _any_order(data, np.asarray(ids), count)
        return _grouped(ufunc, rows, flat, number, empty(data.dtype) if callable(empty) else empty)

    return kernel


def _unsorted_shape(n: Any) -> list[TensorShape]:
    known, ids, count = dims(n.inputs[0]), dims(n.inputs[1]), constant_value(n.inputs[2])
    if known is None or ids is None:
        return [UNKNOWN]
    n.inputs[0].shape[: len(ids)].assert_is_compatible_with(n.inputs[1].shape)
    return [TensorShape([None if count is None else int(count), *known[len(ids) :]])]


def _sum_unsorted(n: Any, x: Tensor) -> Tensor:
    return raw.UnsortedSegmentSum(x, *n.inputs[1:])


_MIXED = np.array([2, 0, -1, 2], np.int32)
_UNSORTED = [
    Sample(mat(4, 2), _MIXED, np.int32(3)),
    Sample(mat(2, 2, 3), np.array([[1, 0], [0, 1]], np.int32), np.int32(2)),
]


_FULL = [Sample(mat(4, 2), np.array([1, 0, -1, 1], np.int32), np.int32(2)), _UNSORTED[1]]  # no segment without rows


def _declare_unsorted(
    name: str, types: str, grad: Any, ufunc: Any, empty: Any, samples: list[Sample] = _UNSORTED
) -> Any:
    return op(
        name, f"data: {types}, segment_ids: I, num_segments: I2 -> output: {types}", shape=_unsorted_shape,
        kernel=_unsorted_kernel(ufunc, empty), grad=grad, samples=samples,
    )  # fmt: skip


_unsorted_sum = _declare_unsorted(
    "UnsortedSegmentSum", "N", lambda n, g: (_rows(g, n.inputs[1]), None, None), np.add, 0
)
_unsorted_max = _declare_unsorted(
    "UnsortedSegmentMax", "R", _extreme_grad(_sum_unsorted), np.maximum, lambda dtype: _lowest(dtype, True), _FULL
)
_unsorted_min = _declare_unsorted(
    "UnsortedSegmentMin", "R", _extreme_grad(_sum_unsorted), np.minimum, lambda dtype: _lowest(dtype, False), _FULL
)
_unsorted_prod = _declare_unsorted(
    "UnsortedSegmentProd", "N",
    _prod_grad(_sum_unsorted, lambda n, x: raw.UnsortedSegmentProd(x, *n.inputs[1:])), np.multiply, 1,
)  # fmt: skip


def _rows_make(node: Any, env: Any) -> Any:
    return _rows_within if node.attrs["within"] else _rows_kernel


def _rows_within(x: Array, ids: Array) -> Array:
    if ids.ndim != 1 or not x.ndim:
        raise invalid(f"indices should be a vector, of rows, but are of shape {list(ids.shape)} for {list(x.shape)}")
    bad = np.flatnonzero((ids < 0) | (ids >= len(x)))
    if len(bad):
        raise invalid(f"Bad: indices[{bad[0]}] == {ids[bad[0]]} out of range [0, {len(x)})")
    return x[ids]


def _rows_kernel(x: Array, ids: Array) -> Array:
    ids = np.asarray(ids)
    present = ids >= 0
    if not x.shape[0]:
        return np.zeros((*ids.shape, *x.shape[1:]), x.dtype)
    out = np.take(x, np.where(present, ids, 0), 0)
    if not present.all():
        out[~present] = 0
    return out


def _rows_shape(n: Any) -> list[TensorShape]:
    known, ids = dims(n.inputs[0]), dims(n.inputs[1])
    return [UNKNOWN if known is None or ids is None else TensorShape([*ids, *known[1:]])]


_segment_rows = op(
    "SegmentRows", "x: N, segment_ids: I; within: bool = False -> output: N", shape=_rows_shape, make=_rows_make,
    grad=lambda n, g: (raw.UnsortedSegmentSum(g, n.inputs[1], raw.Shape(n.inputs[0])[0]), None),
    samples=[
        Sample(mat(3, 2), _MIXED), Sample(mat(3), np.array([[0, 2]], np.int64)),
        Sample(mat(3, 2), _MIXED, within=True, fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def _ascending(ids: Array, rows: Array) -> Array:
    _checked(rows, ids)
    return ids


_sorted_ids = op(
    "SortedSegmentIds", "segment_ids: I, data: N -> output: I", shape=lambda n: [n.inputs[0].shape], kernel=_ascending,
    grad=NO_GRAD("integers"),
    samples=[Sample(_IDS, mat(4, 2)), Sample(_MIXED, mat(4), fails=errors.InvalidArgumentError)],
)  # fmt: skip


def segment_sum(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The sum of rows of each id; ids ascend. An id that does not occur gives zeros."""
    return _segment_sum(data, segment_ids, name=name)


def segment_mean(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The mean of rows of each id; ids ascend."""
    return _segment_mean(data, segment_ids, name=name)


def segment_max(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The largest of rows of each id; ids ascend. An id that does not occur gives zeros."""
    return _segment_max(data, segment_ids, name=name)


def segment_min(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The smallest of rows of each id; ids ascend. An id that does not occur gives zeros."""
    return _segment_min(data, segment_ids, name=name)


def segment_prod(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
    """The product of rows of each id; ids ascend. An id that does not occur gives ones."""
    return _segment_prod(data, segment_ids, name=name)


def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The sum of parts of each id below num_segments, in any order; ids may have several axes, negative ones drop."""
    return _unsorted_sum(data, segment_ids, num_segments, name=name)


def unsorted_segment_max(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The largest of parts of each id; the smallest number of the type where there is none."""
    return _unsorted_max(data, segment_ids, num_segments, name=name)


def unsorted_segment_min(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The smallest of parts of each id; the largest number of the type where there is none."""
    return _unsorted_min(data, segment_ids, num_segments, name=name)


def unsorted_segment_prod(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The product of parts of each id; 1 where there is none."""
    return _unsorted_prod(data, segment_ids, num_segments, name=name)


def _unsorted_count(data: Tensor, ids: Tensor, num_segments: Any) -> Tensor:
    """How many parts each id has, at least 1, shaped to divide the sums."""
    ones = raw.Cast(raw.OnesLike(ids), DstT=data.dtype.base_dtype)
    count = _unsorted_sum(ones, ids, num_segments)
    count = raw.Maximum(count, raw.OnesLike(count))
    if data.shape.ndims is not None and ids.shape.ndims is not None:
        return raw.Reshape(count, np.array([-1] + [1] * (data.shape.ndims - ids.shape.ndims), np.int32))
    extra = raw.Rank(data) - raw.Rank(ids)
    return raw.Reshape(count, raw.ConcatV2([raw.Shape(count), raw.Fill(raw.ExpandDims(extra, 0), 1)], 0))


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The mean of parts of each id; 0 where there is none."""
    data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    with data.graph.name_scope(name or "UnsortedSegmentMean"):
        return _unsorted_sum(data, ids, num_segments) / _unsorted_count(data, ids, num_segments)


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """The sum of parts of each id over the square root of their number."""
    data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    with data.graph.name_scope(name or "UnsortedSegmentSqrtN"):
        return _unsorted_sum(data, ids, num_segments) / raw.Sqrt(_unsorted_count(data, ids, num_segments))


def _chosen(data: Any, indices: Any, segment_ids: Any) -> tuple[Tensor, Tensor]:
    data = convert_to_tensor(data, name="data")
    rows = _segment_rows(data, convert_to_tensor(indices, name="indices"), within=True)
    return rows, _sorted_ids(convert_to_tensor(segment_ids), rows)


def sparse_segment_sum(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:  # fmt: skip
    """segment_sum of the rows of `data` at `indices`; `num_segments` rows if given."""
    rows, ids = _chosen(data, indices, segment_ids)
    if num_segments is None:
        return _segment_sum(rows, ids, name=name)
    return _unsorted_sum(rows, ids, num_segments, name=name)


def sparse_segment_mean(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:  # fmt: skip
    """segment_mean of the rows of `data` at `indices`; `num_segments` rows if given."""
    rows, ids = _chosen(data, indices, segment_ids)
    if num_segments is None:
        return _segment_mean(rows, ids, name=name)
    return unsorted_segment_mean(rows, ids, num_segments, name=name)


def sparse_segment_sqrt_n(
    data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None,
    sparse_gradient: bool = False,
) -> Tensor:  # fmt: skip
    """The sums of the rows of `data` at `indices` over the square roots of their numbers."""
    rows, ids = _chosen(data, indices, segment_ids)
    if num_segments is not None:
        return unsorted_segment_sqrt_n(rows, ids, num_segments, name=name)
    total = _segment_sum(rows, ids)
    return raw.RealDiv(total, raw.Sqrt(_unsorted_count(rows, ids, raw.Shape(total)[0])), name=name)


__all__ = [
    "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum", "sparse_segment_mean",
    "sparse_segment_sqrt_n", "sparse_segment_sum", "unsorted_segment_max", "unsorted_segment_mean",
    "unsorted_segment_min", "unsorted_segment_prod", "unsorted_segment_sqrt_n", "unsorted_segment_sum",
]  # fmt: skip
