"""``tf.contrib.seq2seq``: the loss of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtfzmq.base import absent, dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import name_scope
from dtfzmq.ops import array, nn, reductions
from dtfzmq.ops.cast import cast

_TINY = 1e-12  # keeps weights of zero from dividing by zero


def sequence_loss(
    logits: Any, targets: Any, weights: Any, average_across_timesteps: bool = True, average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Tensor] | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The weighted cross-entropy of [batch, time, classes] logits against [batch, time] class numbers.

    Averaged over time and batch, over one of them, or (neither) not at all. Raises ValueError for other ranks.
    """
    x, y, w = convert_to_tensor(logits), convert_to_tensor(targets), convert_to_tensor(weights)
    for found, rank, text in ((x, 3, "Logits must be a [batch_size x sequence_length x logits] tensor"),
                              (y, 2, "Targets must be a [batch_size x sequence_length] tensor"),
                              (w, 2, "Weights must be a [batch_size x sequence_length] tensor")):  # fmt: skip
        if found.shape.ndims not in (None, rank):
            raise ValueError(text)
    with name_scope(name, "sequence_loss", [x, y, w]):
        flat = array.reshape(x, [-1, array.shape(x)[2] if x.shape.as_list()[2] is None else x.shape.as_list()[2]])
        flat_y = array.reshape(y, [-1])
        if softmax_loss_function is None:
            crossent = nn.sparse_softmax_cross_entropy_with_logits(labels=flat_y, logits=flat)
        else:
            crossent = softmax_loss_function(labels=flat_y, logits=flat)
        crossent = crossent * array.reshape(w, [-1])
        if average_across_timesteps and average_across_batch:
            return reductions.reduce_sum(crossent) / (reductions.reduce_sum(w) + _TINY)
        crossent = array.reshape(crossent, array.shape(x)[0:2])
        crossent.set_shape(y.shape)
        if average_across_timesteps or average_across_batch:
            axis = 1 if average_across_timesteps else 0
            total = cast(reductions.reduce_sum(w, axis=axis), dtypes.float32) + _TINY
            return reductions.reduce_sum(crossent, axis=axis) / total
        return crossent


if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        raise absent.lacking("contrib.seq2seq", name)
