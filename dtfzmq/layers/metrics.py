"""tf.metrics: means over many steps. Each metric is (value, update_op), its sums being local variables.

Run `local_variables_initializer` first, then `update_op` each step; `value` is what was gathered so far. The variables
are in LOCAL_VARIABLES and METRIC_VARIABLES.
"""

from __future__ import annotations

from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import add_to_collections, control_dependencies
from dtfzmq.ops import array, constants, elementwise, reductions, slicing
from dtfzmq.ops import math as math_ops
from dtfzmq.ops.alignment import broadcastable, weights_of_rank, without_extra_axis
from dtfzmq.ops.cast import cast
from dtfzmq.variables.scope import make_variable, variable_scope

Metric = tuple[Tensor, Tensor]


def metric_variable(shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None) -> Any:
    """A variable of zeros that belongs to a metric of this process."""
    return make_variable(
        lambda: constants.zeros(shape, dtype), dtype=dtype, trainable=False, name=name, validate_shape=validate_shape,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
    )  # fmt: skip


def collected(value: Tensor, update: Tensor, metrics_collections: Any, updates_collections: Any) -> Metric:
    """The metric, put in the collections that the caller named."""
    for names, item in ((metrics_collections, value), (updates_collections, update)):
        if names:
            add_to_collections([names] if isinstance(names, str) else names, item)
    return value, update


def ratio(part: Any, whole: Any, name: str | None = None) -> Tensor:
    """part / whole, and 0 where the whole is 0."""
    return math_ops.div_no_nan(part, whole, name=name)


def same_rank(labels: Any, predictions: Any, weights: Any = None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Labels, predictions and weights with a last axis of one element dropped or added where ranks differ by it.

    Raises ValueError for static shapes that do not go together.
    """
    p, y = convert_to_tensor(predictions), convert_to_tensor(labels)
    y, p = without_extra_axis(y, p)
    p.shape.assert_is_compatible_with(y.shape)
    return y, p, fitting(weights, p)


def fitting(weights: Any, values: Tensor) -> Tensor | None:
    """Weights as float32 with the rank of `values`, unless they are a scalar (or None).

    Raises ValueError for weights that do not broadcast to the values; see ops.alignment.
    """
    if weights is None:
        return None
    return broadcastable(weights_of_rank(cast(convert_to_tensor(weights), dtypes.float32), values), values)


def _mean_in_scope(values: Any, weights: Any, metrics: Any, updates: Any) -> Metric:
    x = cast(convert_to_tensor(values), dtypes.float32)
    total, count = metric_variable([], dtypes.float32, name="total"), metric_variable([], dtypes.float32, name="count")
    w = fitting(weights, x)
    if w is None:
        number: Tensor = cast(array.size(x), dtypes.float32)
    else:
        w = w * constants.ones_like(x)
        x, number = x * w, reductions.reduce_sum(w)
    more = total.assign_add(reductions.reduce_sum(x))
    with control_dependencies([x]):
        further = count.assign_add(number)
    value = ratio(total, math_ops.maximum(count, 0.0), "value")
    return collected(value, ratio(more, math_ops.maximum(further, 0.0), "update_op"), metrics, updates)


def mean(
    values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Metric:  # fmt: skip
    """The (weighted) mean of all values."""
    with variable_scope(name, "mean", (values, weights)):
        return _mean_in_scope(values, weights, metrics_collections, updates_collections)


def accuracy(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """How often predictions equal labels."""
    y, p, w = same_rank(labels, predictions, weights)
    if y.dtype.base_dtype is not p.dtype.base_dtype:
        p = cast(p, y.dtype.base_dtype)
    right = cast(math_ops.equal(p, y), dtypes.float32)
    return mean(right, w, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The mean of |predictions - labels|."""
    y, p, w = same_rank(labels, predictions, weights)
    return mean(elementwise.abs(p - y), w, metrics_collections, updates_collections, name or "mean_absolute_error")


def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The mean of (labels - predictions) ** 2."""
    y, p, w = same_rank(labels, predictions, weights)
    return mean(elementwise.square(y - p), w, metrics_collections, updates_collections, name or "mean_squared_error")


def root_mean_squared_error(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The square root of the mean of (labels - predictions) ** 2."""
    y, p, w = same_rank(labels, predictions, weights)
    squared, update = mean(elementwise.square(y - p), w, None, None, name or "root_mean_squared_error")
    return collected(elementwise.sqrt(squared), elementwise.sqrt(update), metrics_collections, updates_collections)


def mean_relative_error(
    labels: Any, predictions: Any, normalizer: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The mean of |labels - predictions| / normalizer, 0 where the normalizer is."""
    y, p, w = same_rank(labels, predictions, weights)
    n = convert_to_tensor(normalizer, dtype=None if isinstance(normalizer, Tensor) else p.dtype.base_dtype)
    zero = math_ops.equal(n, constants.zeros_like(n))
    errors = slicing.where(zero, constants.zeros_like(y), math_ops.div(elementwise.abs(y - p), n))
    return mean(errors, w, metrics_collections, updates_collections, name or "mean_relative_error")


def mean_cosine_distance(
    labels: Any, predictions: Any, dim: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """1 - the mean dot product along `dim` of labels and predictions, which are unit vectors already."""
    y, p, w = same_rank(labels, predictions, weights)
    dot = reductions.reduce_sum(p * y, axis=[dim], keepdims=True)
    found, update = mean(dot, w, None, None, name or "mean_cosine_distance")
    return collected(1 - found, 1 - update, metrics_collections, updates_collections)


def percentage_below(
    values: Any, threshold: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Metric:  # fmt: skip
    """The share of values below a threshold."""
    below = cast(math_ops.less(convert_to_tensor(values), threshold), dtypes.float32)
    return mean(below, weights, metrics_collections, updates_collections, name or "percentage_below_threshold")


def mean_tensor(
    values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None,
    name: str | None = None,
) -> Metric:  # fmt: skip
    """The (weighted) mean of each element over the steps."""
    with variable_scope(name, "mean", (values, weights)):
        x = cast(convert_to_tensor(values), dtypes.float32)
        total = metric_variable(x.shape, dtypes.float32, name="total_tensor")
        count = metric_variable(x.shape, dtypes.float32, name="count_tensor")
        number, w = constants.ones_like(x), fitting(weights, x)
        if w is not None:
            x, number = x * w, number * w
        more = total.assign_add(x)
        with control_dependencies([x]):
            further = count.assign_add(number)
        value, update = ratio(total, count, "value"), ratio(more, further, "update_op")
        return collected(value, update, metrics_collections, updates_collections)


def _confusion(labels: Any, predictions: Any, classes: int, weights: Any) -> tuple[Any, Tensor]:
    """(variable, update) of the matrix that counts [label, prediction]."""
    y, p = (array.reshape(cast(convert_to_tensor(t), dtypes.int64), [-1]) for t in (labels, predictions))
    w = None if weights is None else array.reshape(cast(convert_to_tensor(weights), dtypes.float64), [-1])
    kept = metric_variable([classes, classes], dtypes.float64, name="total_confusion_matrix")
    ones = constants.ones_like(p, dtypes.float64) if w is None else w
    counted = slicing.scatter_nd(array.stack([y, p], axis=1), ones, [classes, classes])
    return kept, kept.assign_add(counted)


def mean_iou(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> tuple[Tensor, Any]:  # fmt: skip
    """The mean over classes of intersection over union; its update is that of the confusion matrix."""
    with variable_scope(name, "mean_iou", (predictions, labels, weights)):
        matrix, update = _confusion(labels, predictions, num_classes, weights)
        counts = cast(matrix.value(), dtypes.float32)
        right = _diagonal(counts)
        union = reductions.reduce_sum(counts, 0) + reductions.reduce_sum(counts, 1) - right
        there = reductions.reduce_sum(cast(math_ops.not_equal(union, constants.zeros_like(union)), dtypes.float32))
        value = ratio(reductions.reduce_sum(ratio(right, union)), there, "mean_iou")
        return collected(value, update, metrics_collections, updates_collections)


def _diagonal(matrix: Tensor) -> Tensor:
    """The diagonal of a square matrix of known size."""
    size = matrix.shape.as_list()[0] or 0
    index = constants.range(size)
    return slicing.gather_nd(matrix, array.stack([index, index], axis=1))


def mean_per_class_accuracy(
    labels: Any, predictions: Any, num_classes: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The mean over classes of how often a class is predicted right; `update_op` gives the classes apart."""
    with variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        y = array.reshape(cast(convert_to_tensor(labels), dtypes.int64), [-1])
        p = array.reshape(cast(convert_to_tensor(predictions), dtypes.int64), [-1])
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        ones, right = constants.ones_like(p, dtypes.float32), cast(math_ops.equal(p, y), dtypes.float32)
        if weights is not None:
            w = array.reshape(cast(convert_to_tensor(weights), dtypes.float32), [-1])
            ones, right = ones * w, right * w
        at = array.expand_dims(y, 1)
        further = total.assign_add(slicing.scatter_nd(at, ones, [num_classes]))
        more = count.assign_add(slicing.scatter_nd(at, right, [num_classes]))
        value = reductions.reduce_mean(ratio(count, total), name="mean_accuracy")
        return collected(value, ratio(more, further, "update_op"), metrics_collections, updates_collections)
