"""tf.losses: weighted losses, kept in the collection "losses"."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.ops import nn
from dtfzmq.ops.alignment import broadcastable, weights_without_extra_axis, without_extra_axis
from dtfzmq.ops.cast import cast
from dtfzmq.ops.math import add_n
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_sum


class Reduction:
    """How the losses of single elements become one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"


def compute_weighted_loss(
    losses: Any, weights: Any = 1.0, scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """Losses times weights (broadcast), reduced and added to `loss_collection`; ValueError if they cannot be."""
    losses = convert_to_tensor(losses)
    with losses.graph.name_scope(scope or "weighted_loss"):
        kind = losses.dtype.base_dtype
        x, w = cast(losses, dtypes.float32), cast(weights, dtypes.float32)
        w = broadcastable(w, x)
        weighted = x * w
        if reduction == Reduction.NONE:
            out = weighted
        else:
            out = reduce_sum(weighted)
            if reduction == Reduction.MEAN:
                out = _ratio(out, reduce_sum(raw.OnesLike(x) * w))
            elif reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
                present = raw.Cast(raw.NotEqual(w, raw.ZerosLike(w)), DstT=x.dtype.base_dtype)
                out = _ratio(out, reduce_sum(raw.OnesLike(x) * present))
            elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
                out = _ratio(out, raw.Cast(raw.Size(x), DstT=x.dtype.base_dtype))
            elif reduction != Reduction.SUM:
                raise ValueError(f"Invalid Reduction Key {reduction}.")
        if out.dtype.base_dtype is not kind:
            out = raw.Cast(out, DstT=kind)
        add_loss(out, loss_collection)
        return out


def _ratio(total: Tensor, count: Tensor) -> Tensor:
    return raw.DivNoNan(total, count, name="value")


def add_loss(loss: Tensor, loss_collection: Any = GraphKeys.LOSSES) -> None:
    """Add a loss to a collection of the default graph, unless that is None."""
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES) -> list[Tensor]:
    """The losses collected so far."""
    return get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """The regularization losses collected so far."""
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Tensor:
    """The sum of the regularization losses, 0 if there is none."""
    found = get_regularization_losses(scope)
    return add_n(found, name=name) if found else convert_to_tensor(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """The sum of all losses collected so far."""
    found = get_losses(scope=scope)
    if add_regularization_losses:
        found = found + get_regularization_losses(scope=scope)
    return add_n(found, name=name)


def _pair(first: Any, second: Any, names: str, kind: Any = dtypes.float32) -> tuple[Tensor, Tensor]:
    """Both as `kind`, by default what TensorFlow counts most losses in."""
    if first is None or second is None:
        raise ValueError(f"{names} must not be None.")
    prediction, label = cast(second, kind), cast(first, kind)
    label.shape.assert_is_compatible_with(prediction.shape)
    return label, prediction


def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """The mean of (predictions - labels) ** 2."""
    y, p = _pair(labels, predictions, "labels and predictions")
    with p.graph.name_scope(scope or "mean_squared_error") as scope:
        return compute_weighted_loss(raw.SquaredDifference(p, y), weights, scope, loss_collection, reduction)


def absolute_difference(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """The mean of |predictions - labels|."""
    y, p = _pair(labels, predictions, "labels and predictions")
    with p.graph.name_scope(scope or "absolute_difference") as scope:
        return compute_weighted_loss(raw.Abs(p - y), weights, scope, loss_collection, reduction)


def log_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """The mean cross-entropy of probabilities against 0/1 labels."""
    y, p = _pair(labels, predictions, "labels and predictions")
    with p.graph.name_scope(scope or "log_loss") as scope:
        losses = -(y * raw.Log(p + epsilon)) - (1 - y) * raw.Log(1 - p + epsilon)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def hinge_loss(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """The mean of max(0, 1 - (2 * labels - 1) * logits)."""
    y, x = _pair(labels, logits, "labels and logits")
    with x.graph.name_scope(scope or "hinge_loss") as scope:
        return compute_weighted_loss(raw.Relu(1 - (2 * y - 1) * x), weights, scope, loss_collection, reduction)


def huber_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """The mean of a loss that is quadratic up to `delta` and linear beyond."""
    y, p = _pair(labels, predictions, "labels and predictions")
    with p.graph.name_scope(scope or "huber_loss") as scope:
        away = raw.Abs(p - y)
        near = raw.Minimum(away, delta)
        losses = 0.5 * near * near + delta * (away - near)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """The mean cross-entropy of softmax(logits) against one-hot labels, which may be smoothed toward the uniform."""
    logits = convert_to_tensor(logits)
    y, x = _pair(onehot_labels, logits, "onehot_labels and logits", logits.dtype.base_dtype)
    with x.graph.name_scope(scope or "softmax_cross_entropy_loss") as scope:
        if label_smoothing > 0:
            classes = raw.Cast(raw.Shape(y)[1], DstT=x.dtype.base_dtype)
            y = y * (1 - label_smoothing) + label_smoothing / classes
        losses = nn.softmax_cross_entropy_with_logits_v2(labels=raw.StopGradient(y), logits=x)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any, logits: Any, weights: Any = 1.0, scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """The mean cross-entropy of softmax(logits) against class numbers; a last axis of size 1 of labels is dropped."""
    x, y = convert_to_tensor(logits), convert_to_tensor(labels)
    with x.graph.name_scope(scope or "sparse_softmax_cross_entropy_loss") as scope:
        y, x = without_extra_axis(y, x, more=1)
        weights = weights_without_extra_axis(convert_to_tensor(weights), y)
        losses = nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:  # fmt: skip
    """The mean cross-entropy of sigmoid(logits) against labels in [0, 1]."""
    logits = convert_to_tensor(logits)
    y, x = _pair(multi_class_labels, logits, "multi_class_labels and logits", logits.dtype.base_dtype)
    with x.graph.name_scope(scope or "sigmoid_cross_entropy_loss") as scope:
        if label_smoothing > 0:
            y = y * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def cosine_distance(
    labels: Any, predictions: Any, axis: int | None = None, weights: Any = 1.0, scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS, dim: int | None = None,
) -> Tensor:  # fmt: skip
    """1 - the dot product along `axis`, for inputs that are unit vectors already."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    y, p = _pair(labels, predictions, "labels and predictions")
    with p.graph.name_scope(scope or "cosine_distance_loss") as scope:
        losses = 1 - raw.Sum(p * y, np.array([axis], np.int32), keep_dims=True)
        return compute_weighted_loss(losses, weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES
) -> Tensor:
    """For each entry of the batch the mean of (d_i - d_j) ** 2 over pairs of its errors d; weighted and summed.

    Raises ValueError for weights that are not a scalar nor broadcast to `labels`.
    """
    y, p = _pair(labels, predictions, "labels and predictions")
    with p.graph.name_scope(scope or "mean_pairwise_squared_error") as scope:
        w = broadcastable(cast(weights, dtypes.float32), y)
        away = p - y
        axes = raw.Range(1, raw.Rank(away), 1)
        present = raw.Cast(raw.NotEqual(w, raw.ZerosLike(w)), DstT=dtypes.float32)
        count = raw.Sum(raw.OnesLike(away) * present, axes, keep_dims=True)
        fewer = raw.Maximum(count - 1, 0.0)
        squares = _ratio(raw.Sum(raw.Square(away), axes, keep_dims=True), fewer)
        crossed = _ratio(raw.Square(raw.Sum(away, axes, keep_dims=True)), raw.Maximum(count * (count - 1), 0.0))
        loss = reduce_sum((2.0 * squares - 2.0 * crossed) * w)
        loss = raw.Select(raw.Greater(reduce_sum(count), 0.0), loss, raw.ZerosLike(loss), name="value")
        add_loss(loss, loss_collection)
        return loss
