"""tf.nn: layers' arithmetic, composed of ops."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.static import dims
from dtfzmq.ops import activations  # noqa: F401  # declares the ops used here
from dtfzmq.ops.bias import bias_add, relu_layer, xw_plus_b
from dtfzmq.ops.clip import l2_normalize
from dtfzmq.ops.elementwise import sigmoid, tanh
from dtfzmq.ops.matmul import l2_loss
from dtfzmq.ops.random import random_uniform
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of, reduce_mean

_log = logging.getLogger("dtfzmq")


def relu(features: Any, name: str | None = None) -> Tensor:
    """max(x, 0)."""
    return raw.Relu(features, name=name)


def relu6(features: Any, name: str | None = None) -> Tensor:
    """min(max(x, 0), 6)."""
    return raw.Relu6(features, name=name)


def elu(features: Any, name: str | None = None) -> Tensor:
    """x, and exp(x) - 1 below 0."""
    return raw.Elu(features, name=name)


def selu(features: Any, name: str | None = None) -> Tensor:
    """The self-normalising elu."""
    return raw.Selu(features, name=name)


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """x, and alpha * x below 0."""
    return raw.LeakyRelu(_floats(features), alpha=float(alpha), name=name)


def _floats(x: Any) -> Tensor:
    x = convert_to_tensor(x)
    return raw.Cast(x, DstT=dtypes.float32) if x.dtype.is_integer else x


def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """relu of x and of -x, side by side."""
    x = convert_to_tensor(features)
    return raw.Relu(raw.ConcatV2([x, -x], axis), name=name or "CRelu")


def swish(features: Any, beta: Any = 1.0) -> Tensor:
    """x * sigmoid(beta * x)."""
    x = convert_to_tensor(features, name="features")
    with x.graph.name_scope("swish") as scope:
        if isinstance(beta, (int, float)) and beta == 1:
            return raw.Mul(x, sigmoid(x), name=scope)
        return raw.Mul(x, sigmoid(raw.Cast(convert_to_tensor(beta), DstT=x.dtype.base_dtype) * x), name=scope)


silu = swish


def softplus(features: Any, name: str | None = None) -> Tensor:
    """log(exp(x) + 1)."""
    return raw.Softplus(features, name=name)


def softsign(features: Any, name: str | None = None) -> Tensor:
    """x / (|x| + 1)."""
    return raw.Softsign(features, name=name)


def _along(builder: Any, logits: Any, axis: int, name: str | None) -> Tensor:
    """Apply an op that works along the last axis along `axis`."""
    x = convert_to_tensor(logits)
    rank = x.shape.ndims
    if rank == 0:
        raise ValueError("Shape must be at least rank 1 but is rank 0 for logits.")
    if rank is not None and not -rank <= axis < rank:
        raise errors.InvalidArgumentError(
            None, None, f"`dim` must be in the range [{-rank}, {rank}) where {rank} is the number of dimensions in the "
            f"input. Received: dim={axis}",
        )  # fmt: skip
    if axis == -1 or rank is not None and axis == rank - 1:
        return builder(x, name=name)
    if rank is None:
        raise ValueError("softmax along an axis other than the last needs logits of known rank.")
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    perm = np.array(order, np.int32)
    return raw.Transpose(builder(raw.Transpose(x, perm)), perm, name=name)


def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis, the last if not given."""
    axis = one_of("axis", axis, "dim", dim)
    return _along(raw.Softmax, logits, -1 if axis is None else axis, name)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """x - log(sum(exp(x))) along an axis, the last if not given."""
    axis = one_of("axis", axis, "dim", dim)
    return _along(raw.LogSoftmax, logits, -1 if axis is None else axis, name)


def _labels_and_logits(fn: str, first: Any, labels: Any, logits: Any) -> tuple[Any, Any]:
    """Labels and logits as they were named; two positional arguments are (logits, labels), the order of before 1.0."""
    if first is not None:
        if labels is None or logits is not None:
            raise ValueError(f"Only call `{fn}` with named arguments (labels=..., logits=..., ...)")
        _log.warning("%s: positional arguments are taken as (logits, labels), the order before TensorFlow 1.0.", fn)
        return labels, first
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    return labels, logits


def _cross_entropy(labels: Any, logits: Any, axis: int, name: str) -> Tensor:
    logits = convert_to_tensor(logits, name="logits")
    labels = convert_to_tensor(
        labels, dtype=None if isinstance(labels, Tensor) else logits.dtype.base_dtype, name="labels"
    )
    if labels.dtype.base_dtype is not logits.dtype.base_dtype:
        labels = raw.Cast(labels, DstT=logits.dtype.base_dtype)
    rank = logits.shape.ndims
    with logits.graph.name_scope(name):
        half = logits.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16)
        kind = logits.dtype.base_dtype
        x, y = (raw.Cast(t, DstT=dtypes.float32) if half else t for t in (logits, labels))
        if axis != -1 and (rank is None or axis % rank != rank - 1):
            order = _to_the_end(x, axis)
            x, y = raw.Transpose(x, order), raw.Transpose(y, order)
        if rank == 2:
            loss = raw.SoftmaxCrossEntropyWithLogits(x, y)[0]
        else:
            lead = raw.Shape(x)[:-1]
            static = x.shape[:-1] if rank is not None else None
            x, y = _flat_rows(x), _flat_rows(y)
            loss = raw.Reshape(raw.SoftmaxCrossEntropyWithLogits(x, y)[0], lead)
            if static is not None:
                loss.set_shape(static)
        return raw.Cast(loss, DstT=kind) if half else loss


def _to_the_end(x: Tensor, axis: int) -> Any:
    """The order of the axes of `x` with `axis` last."""
    rank = x.shape.ndims
    if rank is not None:
        return np.array([*(i for i in range(rank) if i != axis % rank), axis % rank], np.int32)
    place: Any = axis if axis >= 0 else raw.Rank(x) + axis
    return raw.ConcatV2([raw.Range(0, place, 1), raw.Range(place + 1, raw.Rank(x), 1), raw.Pack([place], axis=0)], 0)


def _flat_rows(x: Tensor) -> Tensor:
    last = (dims(x) or (None,))[-1] if x.shape.ndims else None
    size: Any = np.array(last, np.int32) if last is not None else raw.Shape(x)[-1]
    return raw.Reshape(x, raw.Pack([np.array(-1, np.int32), size], axis=0))


def softmax_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """The cross-entropy of softmax(logits) against rows of class probabilities; derivatives go to labels too."""
    axis = one_of("axis", axis, "dim", dim)
    return _cross_entropy(labels, logits, -1 if axis is None else axis, name or "softmax_cross_entropy_with_logits")


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, dim: int = -1, name: str | None = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """The cross-entropy of softmax(logits) against rows of class probabilities, which are held constant."""
    labels, logits = _labels_and_logits("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    logits = convert_to_tensor(logits, name="logits")
    if not isinstance(labels, Tensor):
        labels = convert_to_tensor(labels, preferred_dtype=logits.dtype.base_dtype)
    fixed = raw.StopGradient(labels)
    return _cross_entropy(fixed, logits, dim if axis is None else axis, name or "softmax_cross_entropy_with_logits_sg")


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """The cross-entropy of softmax(logits) against class numbers; one that is out of range fails the step."""
    labels, logits = _labels_and_logits("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    logits = convert_to_tensor(logits, name="logits")
    labels = convert_to_tensor(labels, name="labels")
    if (
        labels.shape.ndims is not None
        and logits.shape.ndims is not None
        and logits.shape.ndims != labels.shape.ndims + 1
    ):
        raise ValueError(
            "Rank mismatch: Rank of labels (received "
            f"{labels.shape.ndims}) should equal rank of logits minus 1 (received {logits.shape.ndims})."
        )
    if labels.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
        labels = raw.Cast(labels, DstT=dtypes.int32)
    with logits.graph.name_scope(name or "SparseSoftmaxCrossEntropyWithLogits"):
        if logits.shape.ndims == 2:
            return raw.SparseSoftmaxCrossEntropyWithLogits(logits, labels)[0]
        flat = raw.Reshape(labels, np.array([-1], np.int32))
        loss = raw.Reshape(raw.SparseSoftmaxCrossEntropyWithLogits(_flat_rows(logits), flat)[0], raw.Shape(labels))
        loss.set_shape(labels.shape)
        return loss


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """-labels * log(sigmoid(x)) - (1 - labels) * log(1 - sigmoid(x)), in the form that cannot overflow."""
    labels, logits = _labels_and_logits("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    logits = convert_to_tensor(logits, name="logits")
    labels = convert_to_tensor(
        labels, dtype=None if isinstance(labels, Tensor) else logits.dtype.base_dtype, name="labels"
    )
    try:
        labels.shape.merge_with(logits.shape)
    except ValueError:
        raise ValueError(f"logits and labels must have the same shape ({logits.shape} vs {labels.shape})") from None
    with logits.graph.name_scope(name or "logistic_loss") as scope:
        zeros = raw.ZerosLike(logits)
        positive = raw.GreaterEqual(logits, zeros)
        high = raw.Select(positive, logits, zeros)
        away = raw.Select(positive, -logits, logits)
        return raw.Add(high - logits * labels, raw.Log1p(raw.Exp(away)), name=scope)


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, targets: Any = None
) -> Tensor:
    """sigmoid_cross_entropy_with_logits with positive labels weighted by pos_weight; `targets` are labels.

    Raises ValueError for logits and labels of different shapes.
    """
    targets = one_of("labels", labels, "targets", targets)
    logits = convert_to_tensor(logits, name="logits")
    targets = convert_to_tensor(targets, dtype=None if isinstance(targets, Tensor) else logits.dtype.base_dtype)
    if not targets.shape.is_compatible_with(logits.shape):
        raise ValueError(f"logits and targets must have the same shape ({logits.shape} vs {targets.shape})")
    with logits.graph.name_scope(name or "logistic_loss") as scope:
        weight = 1 + (pos_weight - 1) * targets
        tail = raw.Log1p(raw.Exp(-raw.Abs(logits))) + raw.Relu(-logits)
        return raw.Add((1 - targets) * logits, weight * tail, name=scope)


def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """exp(log_input) - log_input * targets, plus Stirling's approximation of log(targets!) if full.

    Raises ValueError for targets and log_input of different shapes.
    """
    log_input = convert_to_tensor(log_input, name="log_input")
    kind = log_input.dtype.base_dtype
    targets = convert_to_tensor(targets, None if isinstance(targets, Tensor) else kind, "targets")
    try:
        targets.shape.merge_with(log_input.shape)
    except ValueError:
        raise ValueError(
            f"`log_input` and `targets` must have the same shape, got ({log_input.shape} vs {targets.shape})"
        ) from None
    with log_input.graph.name_scope(name or "log_poisson_loss"):
        loss = raw.Exp(log_input) - log_input * targets
        if compute_full_loss:
            stirling = targets * raw.Log(targets) - targets + 0.5 * raw.Log(2 * np.pi * targets)
            few = raw.LogicalAnd(raw.GreaterEqual(targets, 0), raw.LessEqual(targets, 1))
            loss = loss + raw.Select(few, raw.ZerosLike(targets), stirling)
        return loss


def dropout(
    x: Any, keep_prob: Any = None, noise_shape: Any = None, seed: int | None = None, name: str | None = None,
    rate: Any = None,
) -> Tensor:  # fmt: skip
    """x / keep_prob with each element kept with that probability, else 0. `rate` is 1 - keep_prob.

    Raises ValueError if keep_prob is not in (0, 1] or both are given.
    """
    if rate is not None and keep_prob is not None:
        raise ValueError("Cannot specify both keep_prob and rate.")
    if rate is not None:
        keep_prob = 1 - rate
    if keep_prob is None:
        raise ValueError("You must provide a rate to dropout.")
    x = convert_to_tensor(x, name="x")
    if not x.dtype.is_floating:
        raise ValueError(f"x has to be a floating point tensor since it is scaled. Got a {x.dtype.name} tensor.")
    if isinstance(keep_prob, (int, float)):
        if not 0 < keep_prob <= 1:
            raise ValueError(f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {keep_prob}")
        if keep_prob == 1:
            return x
    with x.graph.name_scope(name or "dropout"):
        keep = convert_to_tensor(keep_prob, dtype=None if isinstance(keep_prob, Tensor) else x.dtype.base_dtype)
        if keep.dtype.base_dtype is not x.dtype.base_dtype:
            keep = raw.Cast(keep, DstT=x.dtype.base_dtype)
        shape = raw.Shape(x) if noise_shape is None else _noise_shape(x, noise_shape)
        mask = raw.Floor(keep + random_uniform(shape, seed=seed, dtype=x.dtype.base_dtype))
        out = x / keep * mask
        out.set_shape(x.shape)
        return out


def _noise_shape(x: Tensor, given: Any) -> Any:
    """`given` with the sizes that are not known taken from x, where they are."""
    try:
        wanted, known = as_shape(given).dims_or_none, dims(x)
    except (TypeError, ValueError):  # a tensor, or tensors among the sizes
        return given
    if wanted is None or known is None or len(wanted) != len(known):
        return given
    return TensorShape([own if size is None else size for size, own in zip(wanted, known)])


def in_top_k(predictions: Any, targets: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether each target's prediction is among the k largest of its row; ties count as in."""
    targets = convert_to_tensor(targets)
    return raw.InTopKV2(predictions, targets, convert_to_tensor(k, dtype=targets.dtype.base_dtype), name=name)


class TopK(NamedTuple):
    """What `top_k` gives."""

    values: Tensor
    indices: Tensor


def top_k(input: Any, k: Any = 1, sorted: bool = True, index_type: Any = dtypes.int32, name: str | None = None) -> TopK:
    """The k largest entries along the last axis, in descending order, and where they stand."""
    k = k if isinstance(k, Tensor) else convert_to_tensor(k, preferred_dtype=dtypes.int32, name="k")
    return TopK(*raw.TopKV2(input, k, sorted=bool(sorted), index_type=dtypes.as_dtype(index_type), name=name))


def moments(
    x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Mean and variance over `axes`."""
    x = convert_to_tensor(x, name="x")
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    with x.graph.name_scope(name or "moments"):
        wide = raw.Cast(x, DstT=dtypes.float32) if x.dtype.base_dtype is dtypes.float16 else x
        mean = reduce_mean(wide, axes, keepdims=True, name="mean")
        variance = reduce_mean(
            raw.SquaredDifference(wide, raw.StopGradient(mean)), axes, keepdims=True, name="variance"
        )
        if not keep:
            gone = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
            mean, variance = raw.Squeeze(mean, squeeze_dims=gone), raw.Squeeze(variance, squeeze_dims=gone)
        if wide is not x:
            mean, variance = (raw.Cast(t, DstT=x.dtype.base_dtype) for t in (mean, variance))
        return mean, variance


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon), times scale, plus offset; either of these two may be None."""
    x = convert_to_tensor(x)
    with x.graph.name_scope(name or "batchnorm"):
        factor = raw.Rsqrt(convert_to_tensor(variance) + variance_epsilon)
        if scale is not None:
            factor = factor * scale
        shift = (offset - mean * factor) if offset is not None else -(convert_to_tensor(mean) * factor)
        return x * factor + shift


def zero_fraction(value: Any, name: str | None = None) -> Tensor:
    """The share of elements that are zero, as float32."""
    value = convert_to_tensor(value, name="value")
    with value.graph.name_scope(name or "zero_fraction"):
        zero = raw.Equal(value, raw.ZerosLike(value))
        return reduce_mean(raw.Cast(zero, DstT=dtypes.float32), name="fraction")


__all__ = [
    "batch_normalization", "bias_add", "crelu", "dropout", "elu", "in_top_k", "l2_loss",
    "l2_normalize", "leaky_relu", "log_poisson_loss", "log_softmax", "moments", "relu", "relu6", "relu_layer", "selu",
    "sigmoid", "sigmoid_cross_entropy_with_logits", "softmax", "softmax_cross_entropy_with_logits",
    "softmax_cross_entropy_with_logits_v2", "softplus", "softsign", "sparse_softmax_cross_entropy_with_logits", "swish",
    "tanh", "top_k", "weighted_cross_entropy_with_logits", "xw_plus_b", "zero_fraction",
]  # fmt: skip
