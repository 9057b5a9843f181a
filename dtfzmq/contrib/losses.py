"""``tf.contrib.losses``: tf.losses with the predictions first."""

from __future__ import annotations

from typing import Any

from dtfzmq.graph.graph import Tensor
from dtfzmq.ops import losses
from dtfzmq.ops.losses import (
    add_loss,
    compute_weighted_loss,
    get_losses,
    get_regularization_losses,
    get_total_loss,
)


def absolute_difference(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """See tf.losses."""
    return losses.absolute_difference(labels, predictions, weights, scope)


def mean_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """See tf.losses."""
    return losses.mean_squared_error(labels, predictions, weights, scope)


def log_loss(
    predictions: Any, labels: Any = None, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None
) -> Tensor:
    """See tf.losses."""
    return losses.log_loss(labels, predictions, weights, epsilon, scope)


def hinge_loss(logits: Any, labels: Any = None, scope: str | None = None) -> Tensor:
    """See tf.losses; here of each element."""
    return losses.hinge_loss(labels, logits, 1.0, scope, None, losses.Reduction.NONE)


def softmax_cross_entropy(
    logits: Any, onehot_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Tensor:
    """See tf.losses."""
    return losses.softmax_cross_entropy(onehot_labels, logits, weights, label_smoothing, scope)


def sparse_softmax_cross_entropy(logits: Any, labels: Any, weights: Any = 1.0, scope: str | None = None) -> Tensor:
    """See tf.losses."""
    return losses.sparse_softmax_cross_entropy(labels, logits, weights, scope)


def sigmoid_cross_entropy(
    logits: Any, multi_class_labels: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None
) -> Tensor:
    """See tf.losses."""
    return losses.sigmoid_cross_entropy(multi_class_labels, logits, weights, label_smoothing, scope)


def cosine_distance(
    predictions: Any, labels: Any = None, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
    dim: int | None = None,
) -> Tensor:  # fmt: skip
    """See tf.losses."""
    return losses.cosine_distance(labels, predictions, axis, weights, scope, dim=dim)
