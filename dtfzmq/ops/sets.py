"""Distinct values, and how often they occur."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor, get_default_graph
from dtfzmq.graph.registry import NO_GRAD, UNDEFINED, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import constant_value, dims, value_as_shape
from dtfzmq.ops.alignment import without_extra_axis
from dtfzmq.ops.arguments import vector
from dtfzmq.ops.array import reshape, stack
from dtfzmq.ops.cast import cast
from dtfzmq.ops.checks import assert_less, assert_non_negative
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_max
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.segments import unsorted_segment_sum
from dtfzmq.ops.shaping import invalid

Array = np.ndarray
_VECTOR = TensorShape([None])


def _distinct(x: Array) -> tuple[Array, Array, Array]:
    """Distinct values in order of appearance, the place of each element among them, and how often each occurs."""
    if x.ndim != 1:
        raise invalid("unique expects a 1D vector.")
    values, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return values[order], place[inverse.reshape(-1)], counts[order]


def _unique_kernel(outputs: int) -> Any:
    def make(node: Any, env: Any) -> Any:
        to = node.dtypes[1].np_dtype

        def unique(x: Array) -> Any:
            values, index, counts = _distinct(x)
            return (values, index.astype(to), counts.astype(to))[:outputs]

        return unique

    return make


def _unique_shape(n: Any) -> list[TensorShape]:
    n.inputs[0].shape.assert_has_rank(1)
    return [_VECTOR, n.inputs[0].shape, _VECTOR][: len(n.outputs)]


_WORDS = np.array([b"b", b"a", b"b"], object)
_unique = op(
    "Unique", "x: T; out_idx: type = int32 -> y: T, idx: out_idx", shape=_unique_shape, make=_unique_kernel(2),
    grad=UNDEFINED("a set is no smooth function"), samples=[Sample(ints(3, 1, 3, 2)), Sample(_WORDS)],
)  # fmt: skip
_unique_with_counts = op(
    "UniqueWithCounts", "x: T; out_idx: type = int32 -> y: T, idx: out_idx, count: out_idx", shape=_unique_shape,
    make=_unique_kernel(3), grad=UNDEFINED("a set is no smooth function"),
    samples=[Sample(ints(3, 1, 3, 2), out_idx=dtypes.int64), Sample(_WORDS)],
)  # fmt: skip


def _difference_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[1].np_dtype

    def difference(x: Array, y: Array) -> tuple[Array, Array]:
        if x.ndim != 1 or y.ndim != 1:
            raise invalid("x and y should be 1D vectors.")
        gone = set(y.tolist())
        left = np.array([i for i, value in enumerate(x.tolist()) if value not in gone], np.int64)
        return x[left], left.astype(to)

    return difference


_list_diff = op(
    "ListDiff", "x: T, y: T; out_idx: type = int32 -> out: T, idx: out_idx", shape=lambda n: [_VECTOR, _VECTOR],
    make=_difference_kernel, grad=UNDEFINED("a set is no smooth function"),
    samples=[Sample(ints(1, 2, 3, 4, 2), ints(2, 9)), Sample(_WORDS, _WORDS[:1])],
)  # fmt: skip


def _bincount_kernel(arr: Array, size: Array, weights: Array) -> Array:
    flat, count = arr.reshape(-1), int(size)
    if flat.size and flat.min() < 0:
        raise invalid("Input arr must be non-negative!")
    if count < 0:
        raise invalid(f"size ({count}) must be non-negative")
    kept = flat < count
    if not weights.size:
        return np.bincount(flat[kept], minlength=count).astype(weights.dtype)
    if weights.size != flat.size:
        raise invalid("weights must be of the shape of arr, or empty")
    out = np.zeros(count, weights.dtype)
    np.add.at(out, flat[kept], weights.reshape(-1)[kept])
    return out


def _bincount_shape(n: Any) -> list[TensorShape]:
    size = constant_value(n.inputs[1])
    return [TensorShape([None if size is None else int(size)])]


_bincount = op(
    "Bincount", "arr: int32, size: int32, weights: N -> bins: N", shape=_bincount_shape, kernel=_bincount_kernel,
    grad=NO_GRAD("of integers"),
    samples=[
        Sample(ints(1, 1, 3), np.int32(5), np.zeros(0, np.int64)),
        Sample(ints(1, 1, 3), np.int32(3), mat(3), differentiable=False),
    ],
)  # fmt: skip


def _bins(values: Array, bounds: Array, count: Array) -> tuple[Array, int]:
    number = int(count)
    if bounds.shape != (2,):
        raise invalid(f"value_range should be of two numbers, not of shape {list(bounds.shape)}")
    if number <= 0:
        raise invalid(f"nbins should be a positive number, not {number}")
    low, high = bounds.tolist()
    if not low < high:
        raise invalid(f"value_range should satisfy value_range[0] < value_range[1], but got [{low}, {high}]")
    scaled = np.floor((values.astype(np.float64) - low) / (high - low) * number)
    return np.clip(scaled, 0, number - 1).astype(np.int64), number


def _histogram_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[0].np_dtype

    def histogram(values: Array, bounds: Array, count: Array) -> Array:
        at, number = _bins(values, bounds, count)
        return np.bincount(at.reshape(-1), minlength=number).astype(to)

    return histogram


def _histogram_bins_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[0].np_dtype
    return lambda values, bounds, count: _bins(values, bounds, count)[0].astype(to)


def _histogram_shape(n: Any) -> list[TensorShape]:
    n.inputs[1].shape.assert_is_compatible_with(TensorShape([2]))
    count = constant_value(n.inputs[2])
    return [TensorShape([None if count is None else int(count)])]


_HISTOGRAM = [Sample(np.array([-1.0, 0, 1.5, 2, 5, 15]), np.array([0.0, 5]), np.int32(5))]
_histogram = op(
    "HistogramFixedWidth", "values: R, value_range: R, nbins: int32; dtype: type = int32 -> out: dtype",
    shape=_histogram_shape, make=_histogram_kernel, grad=NO_GRAD("integer result"), samples=_HISTOGRAM,
)  # fmt: skip
_histogram_bins = op(
    "HistogramFixedWidthBins", "values: R, value_range: R, nbins: int32; dtype: type = int32 -> out: dtype", shape=same,
    make=_histogram_bins_kernel, grad=NO_GRAD("integer result"), samples=_HISTOGRAM,
)  # fmt: skip


def _unravel_kernel(indices: Array, sizes: Array) -> Array:
    total = math.prod(vector("dims", sizes))
    if total > np.iinfo(sizes.dtype).max:
        raise invalid(f"Input dims product is causing integer overflow: {sizes.tolist()}")
    if indices.ndim > 1:
        raise invalid(f"The indices can only be scalar or vector, got shape {list(indices.shape)}")
    if indices.size and (indices.min() < 0 or indices.max() >= total):
        raise invalid("index is out of bound as with dims")
    return np.stack([i.astype(indices.dtype) for i in np.unravel_index(indices, tuple(sizes.tolist()))])


def _unravel_shape(n: Any) -> list[TensorShape]:
    count, inner = value_as_shape(n.inputs[1]).ndims, dims(n.inputs[0])
    return [TensorShape(None) if inner is None else TensorShape([count, *inner])]


_unravel_index = op(
    "UnravelIndex", "indices: I, dims: I -> output: I", shape=_unravel_shape, kernel=_unravel_kernel,
    grad=NO_GRAD("integer result"), samples=[Sample(ints(2, 5, 7), ints(3, 3)), Sample(np.int32(4), ints(3, 3))],
)  # fmt: skip


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The distinct values of a vector in order of appearance, and the place of each element among them."""
    return _unique(x, out_idx=out_idx, name=name)


def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """As unique, and how often each value occurs."""
    return _unique_with_counts(x, out_idx=out_idx, name=name)


def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The elements of x that are not in y, with repeats, and their places in x."""
    return _list_diff(x, y, out_idx=index_dtype, name=name)


def listdiff(x: Any, y: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """setdiff1d under its old name."""
    return _list_diff(x, y, out_idx=out_idx, name=name)


def _counted_to(arr: Tensor, minlength: Any, maxlength: Any) -> Any:
    """How many bins there are: one more than the largest number, held within the bounds."""
    known = constant_value(arr)
    size: Any
    if known is not None and not isinstance(minlength, Tensor) and not isinstance(maxlength, Tensor):
        size = int(known.max(initial=-1)) + 1
        size = size if minlength is None else max(size, int(minlength))
        return np.int32(size if maxlength is None else min(size, int(maxlength)))
    size = raw.Maximum(reduce_max(arr), -1) + 1
    if minlength is not None:
        size = raw.Maximum(convert_to_tensor(minlength, dtype=dtypes.int32), size)
    if maxlength is not None:
        size = raw.Minimum(convert_to_tensor(maxlength, dtype=dtypes.int32), size)
    return size


def bincount(
    arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = dtypes.int32
) -> Tensor:  # fmt: skip
    """How often 0, 1, ... occur in `arr`, up to the largest number; with `weights`, the sum of those.

    `minlength` and `maxlength` bound the number of bins; what lies beyond is left out.
    """
    arr = convert_to_tensor(arr, name="arr", dtype=None if isinstance(arr, Tensor) else dtypes.int32)
    arr = arr if arr.dtype.base_dtype is dtypes.int32 else cast(arr, dtypes.int32)
    with arr.graph.name_scope("bincount"):
        size = _counted_to(arr, minlength, maxlength)
        if weights is not None:
            weights = convert_to_tensor(weights, name="weights")
            if maxlength is None:
                return unsorted_segment_sum(weights, arr, size)
            return _bincount(arr, size, weights)
        return _bincount(arr, size, np.zeros(0, dtypes.as_dtype(dtype).np_dtype))


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """How many values lie in each of `nbins` equal parts of value_range; the outer parts take what is beyond."""
    values = convert_to_tensor(values, name="values")
    bounds = convert_to_tensor(value_range, dtype=values.dtype.base_dtype)
    return _histogram(values, bounds, nbins, dtype=dtype, name=name)


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """The part of value_range in which each value lies, as histogram_fixed_width counts them."""
    values = convert_to_tensor(values, name="values")
    bounds = convert_to_tensor(value_range, dtype=values.dtype.base_dtype)
    return _histogram_bins(values, bounds, nbins, dtype=dtype, name=name)


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """The coordinates, one row for each axis, of flat indices into a tensor of sizes `dims`."""
    indices = convert_to_tensor(indices)
    return _unravel_index(indices, convert_to_tensor(dims, dtype=indices.dtype.base_dtype), name=name)


def confusion_matrix(
    labels: Any, predictions: Any, num_classes: Any = None, dtype: Any = dtypes.int32, name: str | None = None,
    weights: Any = None,
) -> Tensor:  # fmt: skip
    """How often each class (row) was predicted to be each class (column); with `weights`, the sum of those.

    The step fails with InvalidArgumentError for a negative class, or one not below `num_classes`.
    """
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    known = constant_value(labels), constant_value(predictions)
    labels, predictions = without_extra_axis(labels, predictions)
    to = dtypes.as_dtype(dtype)
    graph = get_default_graph()
    with graph.name_scope(name or "confusion_matrix"):
        labels, predictions = cast(labels, dtypes.int64), cast(predictions, dtypes.int64)
        checks = [
            assert_non_negative(labels, message="`labels` contains negative values"),
            assert_non_negative(predictions, message="`predictions` contains negative values"),
        ]
        there = [k for k in known if k is not None]
        if num_classes is None and len(there) == len(known):
            num_classes = 1 + max((int(k.max()) for k in there if k.size), default=-1)
        elif num_classes is not None:
            count = cast(num_classes, dtypes.int64)
            checks += [
                assert_less(labels, count, message="`labels` out of bound"),
                assert_less(predictions, count, message="`predictions` out of bound"),
            ]
        with graph.control_dependencies(checks):
            labels, predictions = raw.Identity(labels), raw.Identity(predictions)
        if num_classes is None:
            num_classes = raw.Maximum(reduce_max(predictions), reduce_max(labels)) + 1
        if isinstance(num_classes, Tensor):
            size = cast(num_classes, dtypes.int64)
            shape = stack([size, size])
        else:
            shape = convert_to_tensor(np.array([num_classes, num_classes], np.int64))
        index = reshape(stack([labels, predictions], -1), [-1, 2])
        if weights is None:
            values = raw.OnesLike(cast(reshape(predictions, [-1]), to))
        else:
            values = reshape(cast(weights, to), [-1])
        return raw.ScatterNd(index, values, shape)
