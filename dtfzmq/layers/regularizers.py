"""Regularizers: functions of a variable that give a loss, as `get_variable` and layers take them."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import add_to_collection, get_collection, name_scope
from dtfzmq.ops import constants, elementwise, math, matmul, reductions

Regularizer = Callable[[Any], Any]


def _scale(scale: Any) -> float:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real):
        if scale < 0.0:
            raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}.")
        return float(scale)
    raise ValueError(f"The scale of a regularizer must be a float, not {scale!r}.")


def _none(_: Any) -> None:
    return None


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """scale * sum(|weights|). Raises ValueError for an integer or negative scale; 0.0 gives none."""
    factor = _scale(scale)
    if factor == 0.0:
        return _none

    def l1(weights: Any) -> Tensor:
        with name_scope(scope, "l1_regularizer", [weights]) as opened:
            total = reductions.reduce_sum(elementwise.abs(convert_to_tensor(weights)))
            return math.multiply(constants.constant(factor, total.dtype.base_dtype, name="scale"), total, name=opened)

    return l1


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """scale * sum(weights ** 2) / 2. Raises ValueError for an integer or negative scale; 0.0 gives none."""
    factor = _scale(scale)
    if factor == 0.0:
        return _none

    def l2(weights: Any) -> Tensor:
        with name_scope(scope, "l2_regularizer", [weights]) as opened:
            half = matmul.l2_loss(convert_to_tensor(weights))
            return math.multiply(constants.constant(factor, half.dtype.base_dtype, name="scale"), half, name=opened)

    return l2


def sum_regularizer(regularizers: Sequence[Regularizer | None], scope: str | None = None) -> Regularizer | None:
    """All of them added up; None if there are none."""
    chosen = [r for r in regularizers if r is not None]
    if not chosen:
        return None

    def added(weights: Any) -> Any:
        with name_scope(scope, "sum_regularizer", [weights]) as opened:
            found = [loss for loss in (r(weights) for r in chosen) if loss is not None]
            return math.add_n(found, name=opened) if found else None

    return added


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Regularizer | None:
    """`l1_regularizer` and `l2_regularizer`, added."""
    name = scope or "l1_l2_regularizer"
    both = [l1_regularizer(scale_l1), l2_regularizer(scale_l2)]
    kept = [r for r, scale in zip(both, (scale_l1, scale_l2)) if scale != 0.0]
    return sum_regularizer(kept, scope=name) if kept else _none


def apply_regularization(regularizer: Regularizer, weights_list: Iterable[Any] | None = None) -> Tensor:
    """The sum of a regularizer over weights (default: the collection "weights"), kept as a regularization loss."""
    weights = list(get_collection(GraphKeys.WEIGHTS) if weights_list is None else weights_list)
    if not weights:
        raise ValueError("No weights to regularize.")
    with name_scope("get_regularization_penalty", values=weights) as scope:
        penalties = [loss for loss in (regularizer(w) for w in weights) if loss is not None]
        for loss in penalties:
            if loss.get_shape().ndims != 0:
                raise ValueError(f"regularizer must return a scalar Tensor instead of a Tensor with rank "
                                 f"{loss.get_shape().ndims}.")  # fmt: skip
        total = math.add_n(penalties, name=scope) if penalties else constants.constant(0.0)
        add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total
