"""Labels, predictions and weights made to go together: extra axes of one element, weights that broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat


def _broadcasts(weights: tuple[Any, ...], values: tuple[Any, ...]) -> bool | None:
    """Whether weights go with values, by their sizes: a scalar, or of the same rank with 1 or the size of the values.

    None if sizes that are unknown decide it.
    """
    if not weights:
        return True
    if len(weights) != len(values):
        return False
    pairs = [(w, v) for w, v in zip(weights, values) if w != 1]
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return False
    return None if any(None in pair for pair in pairs) else True


def _refusal(weights: Any, values: Any) -> str:
    return (
        f"weights can not be broadcast to values: weights.shape={weights}, values.shape={values}. Weights are "
        "a scalar, or of the rank of the values with sizes that are 1 or theirs."
    )


def _checked(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    if not _broadcasts(weights.shape, values.shape):
        raise errors.InvalidArgumentError(None, None, _refusal(list(weights.shape), list(values.shape)))
    return weights


op(
    "BroadcastableWeights", "weights: T, values: T2 -> output: T", shape=same, kernel=_checked,
    grad=lambda n, g: (g, None),
    samples=[
        Sample(mat(2, 1), mat(2, 3)), Sample(np.float64(2), mat(2, 3)),
        Sample(mat(3), mat(2, 3), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def broadcastable(weights: Any, values: Tensor) -> Tensor:
    """`weights`, which must be a scalar or have the rank of `values` and sizes that are 1 or theirs.

    ValueError for static shapes that are otherwise; where they are not known, the step fails with InvalidArgumentError.
    """
    weights = convert_to_tensor(weights)
    mine, yours = weights.shape.dims_or_none, values.shape.dims_or_none
    fits = True if mine == () else None if mine is None or yours is None else _broadcasts(mine, yours)
    if fits is False:
        raise ValueError(_refusal(weights.shape, values.shape))
    made: Tensor = weights if fits else raw.BroadcastableWeights(weights, values)
    return made


def _may_go(x: Tensor) -> bool:
    """Whether the last axis of `x` may be of one element."""
    rank = x.shape.ndims
    return rank is None or rank > 0 and bool(x.shape[-1].is_compatible_with(1))


def _less_if(x: Tensor, extra: Tensor) -> Tensor:
    """`x` without its last axis, of one element, in steps where `extra` holds."""
    kept = raw.Sub(raw.Rank(x), raw.Cast(extra, DstT=raw.Rank(x).dtype))
    made: Tensor = raw.Reshape(x, raw.Shape(x)[:kept])
    return made


def without_extra_axis(labels: Tensor, predictions: Tensor, more: int = 0) -> tuple[Tensor, Tensor]:
    """Both, a last axis of one element gone from the one that has it beyond what is due.

    Due is that predictions have `more` axes than labels. Ranks that are not known are looked at in each step.
    """
    mine, yours = labels.shape.ndims, predictions.shape.ndims
    if mine is not None and yours is not None:
        if yours - mine == more + 1 and _may_go(predictions):
            predictions = raw.Squeeze(predictions, squeeze_dims=[-1])
        elif yours - mine == more - 1 and _may_go(labels):
            labels = raw.Squeeze(labels, squeeze_dims=[-1])
        return labels, predictions
    beyond = raw.Rank(predictions) - raw.Rank(labels) - more
    if _may_go(predictions):
        predictions = _less_if(predictions, raw.Equal(beyond, 1))
    if _may_go(labels):
        labels = _less_if(labels, raw.Equal(beyond, -1))
    return labels, predictions


def weights_without_extra_axis(weights: Tensor, values: Tensor) -> Tensor:
    """`weights`, a last axis of one element gone if they have one axis more than `values`."""
    mine, yours = weights.shape.ndims, values.shape.ndims
    if mine is not None and yours is not None:
        return raw.Squeeze(weights, squeeze_dims=[-1]) if mine - yours == 1 else weights
    if mine == 0 or not _may_go(weights):
        return weights
    return _less_if(weights, raw.Equal(raw.Rank(weights) - raw.Rank(values), 1))


def _unsqueezed_if(x: Tensor, short: Tensor) -> Tensor:
    ones = raw.Fill(raw.Pack([raw.Cast(short, DstT=raw.Rank(x).dtype)], axis=0), np.int32(1))
    made: Tensor = raw.Reshape(x, raw.ConcatV2([raw.Shape(x), ones], 0))
    return made


def weights_of_rank(weights: Tensor, values: Tensor) -> Tensor:
    """weights_without_extra_axis, and with a last axis more if they have one less than `values`; scalars stay."""
    mine, yours = weights.shape.ndims, values.shape.ndims
    weights = weights_without_extra_axis(weights, values)
    if mine == 0:
        return weights
    if mine is not None and yours is not None:
        return raw.ExpandDims(weights, -1) if yours - mine == 1 else weights
    return _unsqueezed_if(weights, raw.Equal(raw.Rank(values) - raw.Rank(weights), 1))
