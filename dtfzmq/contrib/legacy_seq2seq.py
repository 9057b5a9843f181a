"""``tf.contrib.legacy_seq2seq``: losses of lists over time, and a decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dtfzmq.base import absent
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import name_scope
from dtfzmq.ops import array, math, nn, reductions
from dtfzmq.ops.cast import cast
from dtfzmq.variables.scope import get_variable_scope, variable_scope


def sequence_loss_by_example(
    logits: Sequence[Any], targets: Sequence[Any], weights: Sequence[Any], average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., Tensor] | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The weighted cross-entropy of each row, summed (or averaged) over a list of times."""
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(
            f"Lengths of logits, weights, and targets must be the same {len(logits)}, {len(weights)}, {len(targets)}."
        )
    with name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        terms = []
        for x, y, w in zip(logits, targets, weights):
            if softmax_loss_function is None:
                flat = array.reshape(y, [-1])
                found = nn.sparse_softmax_cross_entropy_with_logits(labels=flat, logits=x)
            else:
                found = softmax_loss_function(labels=y, logits=x)
            terms.append(found * w)
        total = math.add_n(terms)
        if average_across_timesteps:
            total = total / (math.add_n(list(weights)) + 1e-12)
        return total


def sequence_loss(
    logits: Sequence[Any], targets: Sequence[Any], weights: Sequence[Any], average_across_timesteps: bool = True,
    average_across_batch: bool = True, softmax_loss_function: Callable[..., Tensor] | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """`sequence_loss_by_example`, summed (or averaged) over the rows."""
    with name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        cost = reductions.reduce_sum(
            sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
        )
        if average_across_batch:
            rows = array.shape(targets[0])[0]
            return cost / cast(rows, cost.dtype.base_dtype)
        return cost


def rnn_decoder(
    decoder_inputs: Sequence[Any], initial_state: Any, cell: Any,
    loop_function: Callable[[Any, int], Any] | None = None, scope: Any = None,
) -> tuple[list[Any], Any]:  # fmt: skip
    """(outputs, state): the cell over a list of inputs; with `loop_function` an input comes from the output before."""
    with variable_scope(scope or "rnn_decoder"):
        state, outputs, before = initial_state, [], None
        for i, value in enumerate(decoder_inputs):
            if loop_function is not None and before is not None:
                with variable_scope("loop_function", reuse=True):
                    value = loop_function(before, i)
            if i > 0:
                get_variable_scope().reuse_variables()
            output, state = cell(value, state)
            outputs.append(output)
            if loop_function is not None:
                before = output
        return outputs, state


if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        raise absent.lacking("contrib.legacy_seq2seq", name)
