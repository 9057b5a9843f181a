"""tf.metrics of the k best predictions of each example: precision, recall and average precision at k."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.sparse import SparseTensor, SparseTensorValue
from dtfzmq.layers.metrics import Metric, collected, metric_variable, ratio
from dtfzmq.ops import array, constants, reductions, set_ops, slicing, sparse
from dtfzmq.ops import math as math_ops
from dtfzmq.ops.alignment import broadcastable
from dtfzmq.ops.cast import cast
from dtfzmq.ops.nn import top_k
from dtfzmq.variables.scope import variable_scope


def _at(what: str, k: int | None, class_id: int | None = None) -> str:
    name = f"{what}_at_k" if k is None else f"{what}_at_{k}"
    return name if class_id is None else f"{name}_class{class_id}"


def _listed(labels: Any, predictions: Tensor) -> Any:
    """Labels, int64, with an axis for the labels of each example, even where an example has but one."""
    rank = predictions.shape.ndims
    if isinstance(labels, (SparseTensor, SparseTensorValue)):
        sp = SparseTensor.from_value(labels)
        sp = SparseTensor(sp.indices, cast(sp.values, dtypes.int64), sp.dense_shape)
        short = rank is not None and sp.shape.ndims == rank - 1
        return sparse.sparse_expand_dims(sp, -1) if short else sp
    y = cast(convert_to_tensor(labels), dtypes.int64)
    if rank is None or y.shape.ndims in (None, rank):
        return y
    if y.shape.ndims != rank - 1:
        raise ValueError(
            f"Unexpected labels shape {y.shape} for predictions shape {predictions.shape}: labels need the rank of the "
            "predictions, or one less."
        )
    return array.expand_dims(y, -1)


def _of_class(labels: Any, best: Tensor, class_id: int | None) -> tuple[Any, Any]:
    """Both with `class_id` alone left, where they have it."""
    if class_id is None:
        return labels, best
    alone = constants.fill(array.concat([array.shape(best)[:-1], [1]], 0), np.int64(class_id))
    return set_ops.set_intersection(alone, labels), set_ops.set_intersection(alone, best)


def _counted(found: SparseTensor, weights: Any, what: str) -> tuple[Tensor, Tensor]:
    """(gathered, update) of how many elements the sets have."""
    count = cast(set_ops.set_size(found), dtypes.float64)
    if weights is not None:
        count = count * broadcastable(cast(weights, dtypes.float64), count)
    total = metric_variable([], dtypes.float64, name=what)
    return constants.identity(total), total.assign_add(reductions.reduce_sum(count))


def _share(
    what: str, missed: str, labels: Any, best: Tensor, k: int | None, class_id: int | None, weights: Any, metrics: Any,
    updates: Any,
) -> Metric:  # fmt: skip
    best = cast(best, dtypes.int64)
    y, p = _of_class(_listed(labels, best), best, class_id)
    right, more_right = _counted(set_ops.set_intersection(p, y), weights, _at("true_positive", k, class_id))
    others = set_ops.set_difference(p, y, aminusb=what == "precision")
    wrong, more_wrong = _counted(others, weights, _at(missed, k, class_id))
    return collected(
        math_ops.divide(right, right + wrong), math_ops.divide(more_right, more_right + more_wrong, "update"), metrics,
        updates,
    )  # fmt: skip


def recall_at_top_k(
    labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """`recall_at_k` of predictions that are classes already, the best of each example; `k` is for the names alone."""
    best = convert_to_tensor(predictions_idx)
    with variable_scope(name, _at("recall", k, class_id), (best, labels, weights)):
        return _share("recall", "false_negative", labels, best, k, class_id, weights, metrics_collections,
                      updates_collections)  # fmt: skip


def recall_at_k(
    labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The share of labels that are among the `k` classes predicted highest; of `class_id` alone, if given.

    `labels` are class numbers [..., labels] or [...], dense or sparse, `predictions` values [..., classes], `weights`
    a scalar or [...]. nan, as float64, while there are no labels.
    """
    with variable_scope(name, _at("recall", k, class_id), (predictions, labels, weights)):
        return _share("recall", "false_negative", labels, top_k(predictions, k).indices, k, class_id, weights,
                      metrics_collections, updates_collections)  # fmt: skip


def precision_at_top_k(
    labels: Any, predictions_idx: Any, k: int | None = None, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """`precision_at_k` of predictions that are classes already, the best of each example; `k` is for the names."""
    best = convert_to_tensor(predictions_idx)
    with variable_scope(name, _at("precision", k, class_id), (best, labels, weights)):
        return _share("precision", "false_positive", labels, best, k, class_id, weights, metrics_collections,
                      updates_collections)  # fmt: skip


def precision_at_k(
    labels: Any, predictions: Any, k: int, class_id: int | None = None, weights: Any = None,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The share of the `k` classes predicted highest that are among the labels; see recall_at_k."""
    with variable_scope(name, _at("precision", k, class_id), (predictions, labels, weights)):
        return _share("precision", "false_positive", labels, top_k(predictions, k).indices, k, class_id, weights,
                      metrics_collections, updates_collections)  # fmt: skip


def _without_strangers(labels: Any, classes: Tensor) -> Any:
    """Labels with -1 for those that are no class."""
    if isinstance(labels, SparseTensor):
        return SparseTensor(labels.indices, _without_strangers(labels.values, classes), labels.dense_shape)
    return slicing.where(math_ops.greater_equal(labels, classes), -constants.ones_like(labels), labels)


def _average_precisions(labels: Any, best: Tensor, k: int) -> Tensor:
    """Of each example: the mean of the precisions at the places of its right predictions, over min(labels, k)."""
    if isinstance(labels, SparseTensor):
        relevant = set_ops.set_size(labels)
        labels = sparse.sparse_tensor_to_dense(labels, np.int64(-1), validate_indices=False)
    else:
        relevant = reductions.reduce_sum(cast(math_ops.greater_equal(labels, np.int64(0)), dtypes.int32), -1)
    same = math_ops.equal(array.expand_dims(best, -1), array.expand_dims(labels, -2))
    right = cast(reductions.reduce_any(same, -1), dtypes.float64)
    precisions = slicing.cumsum(right, axis=-1) / np.arange(1.0, k + 1)
    count = cast(math_ops.minimum(relevant, np.int32(k)), dtypes.float64)
    return math_ops.divide(reductions.reduce_sum(precisions * right, -1), count)


def average_precision_at_k(
    labels: Any, predictions: Any, k: int, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The (weighted) mean over examples of the average precision of the `k` classes predicted highest.

    Arguments as of recall_at_k; labels that are no class count as labels that are never predicted.
    """
    if k < 1:
        raise ValueError(f"Invalid k={k}. `k` should be >= 1.")
    predictions = convert_to_tensor(predictions)
    with variable_scope(name, _at("average_precision", k), (predictions, labels, weights)):
        best = cast(top_k(predictions, k).indices, dtypes.int64)
        classes = array.shape(predictions, out_type=dtypes.int64)[-1]
        found = _average_precisions(_without_strangers(_listed(labels, best), classes), best, k)
        number = cast(array.size(found), dtypes.float64)
        if weights is not None:
            w = broadcastable(cast(weights, dtypes.float64), found) * constants.ones_like(found)
            found, number = found * w, reductions.reduce_sum(w)
        most = metric_variable([], dtypes.float64, name="max_1")  # the name that TensorFlow comes to
        total = metric_variable([], dtypes.float64, name="total")
        more, further = total.assign_add(reductions.reduce_sum(found)), most.assign_add(number)
        value = ratio(constants.identity(total), constants.identity(most), "mean")
        return collected(value, ratio(more, further), metrics_collections, updates_collections)


sparse_average_precision_at_k = average_precision_at_k
sparse_precision_at_k = precision_at_k
