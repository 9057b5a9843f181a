"""``tf.contrib.metrics``: tf.metrics with the predictions first, under "streaming" names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers import metrics, metrics_counts
from dtfzmq.layers.metrics import Metric
from dtfzmq.ops import math, reductions
from dtfzmq.ops.cast import cast

streaming_mean = metrics.mean
streaming_mean_tensor = metrics.mean_tensor
streaming_percentage_less = metrics.percentage_below


def _turned(metric: Callable[..., Metric]) -> Callable[..., Metric]:
    def streaming(predictions: Any, labels: Any, weights: Any = None, *args: Any, **kwargs: Any) -> Metric:
        return metric(labels, predictions, weights, *args, **kwargs)

    streaming.__name__ = streaming.__qualname__ = "streaming_" + metric.__name__
    streaming.__doc__ = f"`tf.metrics.{metric.__name__}`, the predictions first."
    return streaming


streaming_accuracy = _turned(metrics.accuracy)
streaming_mean_absolute_error = _turned(metrics.mean_absolute_error)
streaming_mean_squared_error = _turned(metrics.mean_squared_error)
streaming_root_mean_squared_error = _turned(metrics.root_mean_squared_error)
streaming_precision = _turned(metrics_counts.precision)
streaming_recall = _turned(metrics_counts.recall)
streaming_auc = _turned(metrics_counts.auc)
streaming_true_positives = _turned(metrics_counts.true_positives)
streaming_false_positives = _turned(metrics_counts.false_positives)
streaming_true_negatives = _turned(metrics_counts.true_negatives)
streaming_false_negatives = _turned(metrics_counts.false_negatives)


def streaming_mean_iou(predictions: Any, labels: Any, num_classes: int, *args: Any, **kwargs: Any) -> Any:
    """`tf.metrics.mean_iou`, the predictions first."""
    return metrics.mean_iou(labels, predictions, num_classes, *args, **kwargs)


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Tensor:
    """The share of predictions of one step that equal labels."""
    p, y = convert_to_tensor(predictions), convert_to_tensor(labels)
    p.shape.assert_is_compatible_with(y.shape)
    right = cast(math.equal(p, y), "float32")
    if weights is None:
        return reductions.reduce_mean(right, name=name)
    w = cast(convert_to_tensor(weights), "float32")
    return math.div(reductions.reduce_sum(right * w), reductions.reduce_sum(w), name=name)


def aggregate_metrics(*value_update_tuples: Metric) -> tuple[list[Tensor], list[Tensor]]:
    """(values, updates) of several metrics."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: dict[str, Metric]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(values by name, updates by name) of several metrics."""
    names: Sequence[str] = list(names_to_tuples)
    return {n: names_to_tuples[n][0] for n in names}, {n: names_to_tuples[n][1] for n in names}
