"""Activation functions, and softmax with its cross-entropies."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import broadcast, same
from dtfzmq.graph.static import constant_value, full_dims
from dtfzmq.ops import softmax_kernels
from dtfzmq.ops.arguments import scalar
from dtfzmq.ops.broadcasting import unbroadcast
from dtfzmq.ops.elementwise import exp, sigmoid
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat

Array = Any
_AWAY = [Sample(mat(2, 3)), Sample(mat(4, seed=3, lo=-4, hi=8))]
_TWO = [Sample(mat(2, 3, seed=1), mat(2, 3))]

SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.7580993408473768599402175208123  # scale * alpha


def _relu(x: Array, out: Array | None = None) -> Array:
    return np.maximum(x, x.dtype.type(0), out=out)


def _relu6(x: Array, out: Array | None = None) -> Array:
    zero, six = x.dtype.type(0), x.dtype.type(6)
    return np.minimum(np.maximum(x, zero, out=out), six, out=out)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, x.dtype.type(0)).astype(x.dtype, copy=False)


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, x.dtype.type(0))))


def _selu(x: Array) -> Array:
    kind = x.dtype.type
    return np.where(x > 0, x * kind(SELU_SCALE), np.expm1(np.minimum(x, kind(0))) * kind(SELU_ALPHA))


_relu_op = op(
    "Relu", "features: R -> activations: R", shape=same, kernel=_relu, out=True, inplace=(0,),
    grad=lambda n, g: (raw.ReluGrad(g, n.outputs[0]),), samples=_AWAY,
)  # fmt: skip
_relu_grad = op(
    "ReluGrad", "gradients: R, features: R -> backprops: R", shape=same,
    kernel=lambda g, y, out=None: np.multiply(g, y > 0, out=out), out=True, inplace=(0,),
    grad=lambda n, g: (raw.ReluGrad(g, n.inputs[1]), raw.ZerosLike(n.inputs[1])), samples=_TWO,
)  # fmt: skip
_relu6_op = op(
    "Relu6", "features: R -> activations: R", shape=same, kernel=_relu6, out=True, inplace=(0,),
    grad=lambda n, g: (raw.Relu6Grad(g, n.outputs[0]),), samples=_AWAY,
)  # fmt: skip
_relu6_grad = op(
    "Relu6Grad", "gradients: R, features: R -> backprops: R", shape=same,
    kernel=lambda g, y, out=None: np.multiply(g, (y > 0) & (y < 6), out=out), out=True, inplace=(0,),
    grad=lambda n, g: (raw.Relu6Grad(g, n.inputs[1]), raw.ZerosLike(n.inputs[1])), samples=_TWO,
)  # fmt: skip
_leaky_op = op(
    "LeakyRelu", "features: E; alpha: float = 0.2 -> activations: E", shape=same,
    make=lambda node, env: lambda x: np.where(x > 0, x, x * x.dtype.type(node.attrs["alpha"])),
    grad=lambda n, g: (raw.LeakyReluGrad(g, n.inputs[0], alpha=n.attrs["alpha"]),),
    samples=[Sample(mat(2, 3)), Sample(mat(2, 3), alpha=0.5)],
)  # fmt: skip
_leaky_grad = op(
    "LeakyReluGrad", "gradients: E, features: E; alpha: float = 0.2 -> backprops: E", shape=same,
    make=lambda node, env: lambda g, x: np.where(x > 0, g, g * g.dtype.type(node.attrs["alpha"])),
    grad=lambda n, g: (raw.LeakyReluGrad(g, n.inputs[1], alpha=n.attrs["alpha"]), raw.ZerosLike(n.inputs[1])),
    samples=_TWO,
)  # fmt: skip
_elu_op = op(
    "Elu", "features: E -> activations: E", shape=same, kernel=_elu,
    grad=lambda n, g: (raw.EluGrad(g, n.outputs[0]),), samples=_AWAY,
)  # fmt: skip


def _elu_grad_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    dy, y = n.inputs
    return raw.EluGrad(g, y), raw.Select(raw.Less(y, 0), g * dy, raw.ZerosLike(y))


_elu_grad = op(
    "EluGrad", "gradients: E, outputs: E -> backprops: E", shape=same,
    kernel=lambda g, y: np.where(y < 0, g * (y + y.dtype.type(1)), g), grad=_elu_grad_grad, samples=_TWO,
)  # fmt: skip
_selu_op = op(
    "Selu", "features: E -> activations: E", shape=same, kernel=_selu,
    grad=lambda n, g: (raw.SeluGrad(g, n.outputs[0]),), samples=_AWAY,
)  # fmt: skip


def _selu_grad_kernel(g: Array, y: Array) -> Array:
    kind = y.dtype.type
    return g * np.where(y < 0, y + kind(SELU_ALPHA), kind(SELU_SCALE))


def _selu_grad_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    dy, y = n.inputs
    return raw.SeluGrad(g, y), raw.Select(raw.Less(y, 0), g * dy, raw.ZerosLike(y))


_selu_grad = op(
    "SeluGrad", "gradients: E, outputs: E -> backprops: E", shape=same, kernel=_selu_grad_kernel,
    grad=_selu_grad_grad, samples=_TWO,
)  # fmt: skip
_softplus_op = op(
    "Softplus", "features: E -> activations: E", shape=same, kernel=_softplus,
    grad=lambda n, g: (g * sigmoid(n.inputs[0]),), samples=_AWAY,
)  # fmt: skip


def _softsign_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    return (g / raw.Square(raw.Abs(n.inputs[0]) + 1),)


_softsign_op = op(
    "Softsign", "features: E -> activations: E", shape=same, kernel=lambda x: x / (np.abs(x) + x.dtype.type(1)),
    grad=_softsign_grad, samples=_AWAY,
)  # fmt: skip


def _softmax(x: Array) -> Array:
    if x.ndim < 1:
        raise errors.InvalidArgumentError(None, None, "logits must have >= 1 dimension, got []")
    return softmax_kernels.softmax(x)


def _log_softmax(x: Array) -> Array:
    if x.ndim < 1:
        raise errors.InvalidArgumentError(None, None, "logits must have >= 1 dimension, got []")
    return softmax_kernels.log_softmax(x)


_LAST = ints(-1)


def _softmax_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    y = n.outputs[0]
    return ((g - raw.Sum(g * y, _LAST, keep_dims=True)) * y,)


def _log_softmax_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    return (g - raw.Sum(g, _LAST, keep_dims=True) * exp(n.outputs[0]),)


_softmax_op = op(
    "Softmax", "logits: E -> softmax: E", shape=same, kernel=_softmax, grad=_softmax_grad,
    samples=[Sample(mat(2, 3)), Sample(mat(4)), Sample(mat(2, 2, 3))],
)  # fmt: skip
_log_softmax_op = op(
    "LogSoftmax", "logits: E -> logsoftmax: E", shape=same, kernel=_log_softmax, grad=_log_softmax_grad,
    samples=[Sample(mat(2, 3)), Sample(mat(2, 2, 3))],
)  # fmt: skip


def _xent_shape(n: Any) -> list[TensorShape]:
    whole = broadcast(n)[0]
    if whole.ndims not in (None, 2):
        raise ValueError(f"Shape must be rank 2 but is rank {whole.ndims} for shape {whole}")
    return [whole[:1] if whole.ndims else TensorShape([None]), whole if whole.ndims else TensorShape([None, None])]


def _xent(logits: Array, labels: Array) -> tuple[Array, Array]:
    if logits.shape != labels.shape:
        if logits.ndim != 2 or labels.ndim != 2:
            raise errors.InvalidArgumentError(
                None, None,
                f"logits and labels must be broadcastable: logits_size={list(logits.shape)} "
                f"labels_size={list(labels.shape)}",
            )  # fmt: skip
        logits, labels = np.broadcast_arrays(logits, labels)
    return softmax_kernels.cross_entropy(logits, labels)


def _logits_grad(n: Any, g_loss: Tensor | None, g_back: Tensor | None) -> Tensor | None:
    """From the loss, and (second order) from the output that is itself the derivative of the loss."""
    parts = []
    if g_loss is not None:
        parts.append(raw.ExpandDims(g_loss, -1) * n.outputs[1])
    if g_back is not None:
        p = raw.Softmax(n.inputs[0])
        parts.append((g_back - raw.Sum(g_back * p, _LAST, keep_dims=True)) * p)
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _xent_grad(n: Any, g_loss: Tensor | None, g_back: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    logits, labels = n.inputs
    to_labels = None if g_back is None else -g_back
    if g_loss is not None:
        from_loss = -(raw.ExpandDims(g_loss, -1) * raw.LogSoftmax(logits))
        to_labels = from_loss if to_labels is None else to_labels + from_loss
    return _fitted(_logits_grad(n, g_loss, g_back), logits, labels), _fitted(to_labels, labels, logits)


def _fitted(g: Tensor | None, x: Tensor, other: Tensor) -> Tensor | None:
    """Logits and labels may be broadcast against each other where their shapes are known to differ."""
    if g is None or full_dims(x) is None or full_dims(x) == full_dims(other):
        return g
    return unbroadcast(g, x, other)


_xent_op = op(
    "SoftmaxCrossEntropyWithLogits", "features: E, labels: E -> loss: E, backprop: E", shape=_xent_shape, kernel=_xent,
    grad=_xent_grad,
    samples=[
        Sample(mat(3, 4), np.eye(3, 4)),
        Sample(mat(2, 3), _softmax(mat(2, 3, seed=2))),
        Sample(mat(2, 3), _softmax(mat(1, 3))),
    ],
)  # fmt: skip


def _sparse_xent_shape(n: Any) -> list[TensorShape]:
    logits, labels = n.inputs[0].shape, n.inputs[1].shape
    return [labels.merge_with(logits[:1]) if logits.ndims is not None else labels, logits]


def _sparse_xent(logits: Array, labels: Array) -> tuple[Array, Array]:
    if logits.ndim != 2 or labels.ndim != 1 or len(labels) != len(logits):
        raise errors.InvalidArgumentError(
            None, None,
            "logits and labels must have the same first dimension, got logits shape "
            f"{list(logits.shape)} and labels shape {list(labels.shape)}",
        )  # fmt: skip
    classes = logits.shape[1]
    if labels.size and (labels.min() < 0 or labels.max() >= classes):
        bad = int(labels[(labels < 0) | (labels >= classes)][0])
        raise errors.InvalidArgumentError(
            None, None,
            f"Received a label value of {bad} which is outside the valid range of [0, {classes}).  "
            f"Label values: {' '.join(str(v) for v in labels[:20])}",
        )  # fmt: skip
    return softmax_kernels.sparse_cross_entropy(logits, labels)


def _sparse_xent_grad(n: Any, g_loss: Tensor | None, g_back: Tensor | None) -> tuple[Tensor | None, None]:
    return _logits_grad(n, g_loss, g_back), None


_sparse_xent_op = op(
    "SparseSoftmaxCrossEntropyWithLogits", "features: E, labels: I -> loss: E, backprop: E", shape=_sparse_xent_shape,
    kernel=_sparse_xent, grad=_sparse_xent_grad, samples=[Sample(mat(3, 4), ints(0, 3, 1))],
)  # fmt: skip


def _in_top_k(predictions: Array, targets: Array, k: Array) -> Array:
    most = scalar("k", k)
    if predictions.ndim != 2 or targets.shape != (len(predictions),):
        raise errors.InvalidArgumentError(
            None, None,
            "predictions must be a matrix and targets a vector of as many, got shapes "
            f"{list(predictions.shape)} and {list(targets.shape)}",
        )  # fmt: skip
    if not predictions.size:
        return np.zeros(len(targets), np.bool_)
    rows = np.arange(len(targets))
    valid = (targets >= 0) & (targets < predictions.shape[1])
    chosen = predictions[rows, np.where(valid, targets, 0)]
    finite = np.isfinite(predictions).all(-1)
    better = np.add.reduce(predictions > chosen[:, None], -1, dtype=np.int64)
    return valid & finite & (better < most)


def _top_k_shape(n: Any) -> list[TensorShape]:
    shape = n.inputs[0].shape
    n.inputs[1].shape.with_rank(0)
    k = constant_value(n.inputs[1])
    if shape.ndims is None:
        return [shape, shape]
    if shape.ndims < 1:
        raise ValueError(f"top_k needs input of rank 1 or more, not {shape}")
    last = shape.dims_or_none[-1]
    if k is not None and k < 0:
        raise ValueError(f"Need k >= 0, got {k}")
    if last is not None and k is not None and last < k:
        raise ValueError(f"input must have last dimension >= k = {k} but is {last}")
    return [shape[:-1].concatenate([None if k is None else int(k)])] * 2


def _falling(x: Array) -> Array:
    """Numbers that rise as those of `x` fall."""
    if x.dtype.kind in "iu":
        return np.invert(x)
    return np.negative(x if x.dtype.kind == "f" else x.astype(np.float32))


def _top_k_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[1].np_dtype

    def top_k(x: Array, k: Array) -> tuple[Array, Array]:
        most = scalar("k", k)
        if most < 0:
            raise errors.InvalidArgumentError(None, None, f"Need k >= 0, got {most}")
        if x.ndim < 1 or x.shape[-1] < most:
            raise errors.InvalidArgumentError(None, None, f"input must have at least k({most}) columns")
        order = np.argsort(_falling(x), axis=-1, kind="stable")[..., :most]
        return np.take_along_axis(x, order, -1), order.astype(to)

    return top_k


def _top_k_grad(n: Any, g: Tensor, g_index: Any) -> tuple[Tensor, None]:
    x, index = n.inputs[0], n.outputs[1]
    spread = raw.OneHot(index, raw.Shape(x)[-1], 1.0, 0.0)
    spread = spread if spread.dtype is g.dtype.base_dtype else raw.Cast(spread, DstT=g.dtype.base_dtype)
    return raw.Sum(raw.ExpandDims(g, -1) * spread, ints(-2)), None


_in_top_k_op = op(
    "InTopKV2", "predictions: float32, targets: I, k: I -> precision: bool",
    shape=lambda n: [n.inputs[1].shape.with_rank(1)],
    kernel=_in_top_k, grad=NO_GRAD("boolean result"),
    samples=[Sample(mat(3, 4, dtype="float32"), ints(0, 3, 9), ints(2)[0])],
)  # fmt: skip
_top_k_op = op(
    "TopKV2", "input: R, k: I; sorted: bool = True, index_type: type = int32 -> values: R, indices: index_type",
    shape=_top_k_shape,
    make=_top_k_kernel, grad=_top_k_grad,
    samples=[
        Sample(mat(2, 5), np.int32(2)), Sample(mat(4), np.int64(4)),
        Sample(np.array([1, 2**64 - 1, 3], np.uint64), np.int32(2)),
    ],
)  # fmt: skip
