"""tf.metrics that count true and false, positive and negative: precision, recall, and over thresholds, auc."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import control_dependencies
from dtfzmq.layers.metrics import Metric, collected, metric_variable, ratio, same_rank
from dtfzmq.ops import array, checks, constants, elementwise, extremes, reductions, slicing
from dtfzmq.ops import math as math_ops
from dtfzmq.ops.cast import cast
from dtfzmq.variables.scope import variable_scope

# what each count counts: (label, prediction)
_KINDS = {
    "true_positives": (True, True),
    "false_negatives": (True, False),
    "true_negatives": (False, False),
    "false_positives": (False, True),
}
_EPSILON = 1e-7


def _count(kind: str, labels: Any, predictions: Any, weights: Any, metrics: Any, updates: Any, name: Any) -> Metric:
    with variable_scope(name, kind, (predictions, labels, weights)):
        y, p, w = same_rank(
            cast(convert_to_tensor(labels), dtypes.bool_), cast(convert_to_tensor(predictions), dtypes.bool_), weights
        )
        label, guess = _KINDS[kind]
        both = math_ops.logical_and(_is(y, label), _is(p, guess))
        counted = metric_variable([], dtypes.float32, name="count")
        values = cast(both, dtypes.float32)
        if w is not None:
            values = values * w
        value = constants.identity(counted)
        return collected(value, counted.assign_add(reductions.reduce_sum(values)), metrics, updates)


def _is(x: Tensor, wanted: bool) -> Tensor:
    return x if wanted else elementwise.logical_not(x)


def true_positives(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """How many predictions and labels are both true."""
    return _count("true_positives", labels, predictions, weights, metrics_collections, updates_collections, name)


def false_negatives(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """How many predictions are false where labels are true."""
    return _count("false_negatives", labels, predictions, weights, metrics_collections, updates_collections, name)


def true_negatives(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """How many predictions and labels are both false."""
    return _count("true_negatives", labels, predictions, weights, metrics_collections, updates_collections, name)


def false_positives(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """How many predictions are true where labels are false."""
    return _count("false_positives", labels, predictions, weights, metrics_collections, updates_collections, name)


def _share(name: str, scope: Any, missed: str, given: tuple[Any, ...], metrics: Any, updates: Any) -> Metric:
    labels, predictions, weights = given
    with variable_scope(scope, name, given):
        tp, more_tp = _count("true_positives", labels, predictions, weights, None, None, None)
        other, more_other = _count(missed, labels, predictions, weights, None, None, None)
        return collected(
            ratio(tp, tp + other, "value"), ratio(more_tp, more_tp + more_other, "update_op"), metrics, updates
        )


def precision(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The share of true predictions that are right."""
    given = (labels, predictions, weights)
    return _share("precision", name, "false_positives", given, metrics_collections, updates_collections)


def recall(
    labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The share of true labels that are predicted."""
    given = (labels, predictions, weights)
    return _share("recall", name, "false_negatives", given, metrics_collections, updates_collections)


Counts = tuple[dict[str, Tensor], dict[str, Tensor]]


def _at_thresholds(
    labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any, kinds: Sequence[str],
    within_unit: bool = False,
) -> Counts:  # fmt: skip
    """(values, updates) by kind: counts at each threshold, predictions above it being positive."""
    p = cast(convert_to_tensor(predictions), dtypes.float32)
    if within_unit:
        zero, one = constants.constant(0.0), constants.constant(1.0)
        with control_dependencies(
            [
                checks.assert_greater_equal(p, zero, message="predictions must be in [0, 1]"),
                checks.assert_less_equal(p, one, message="predictions must be in [0, 1]"),
            ]
        ):
            p = constants.identity(p)
    y, p, w = same_rank(cast(convert_to_tensor(labels), dtypes.bool_), p, weights)
    rows = array.reshape(p, [1, -1])
    positive = math_ops.greater(rows, np.array(thresholds, np.float32).reshape(-1, 1))
    truth = array.reshape(y, [1, -1])
    if w is not None:
        w = array.reshape(w * constants.ones_like(p), [1, -1])
    values, updates = {}, {}
    for kind in kinds:
        label, guess = _KINDS[kind]
        counted = metric_variable([len(thresholds)], dtypes.float32, name=kind)
        found = cast(math_ops.logical_and(_is(truth, label), _is(positive, guess)), dtypes.float32)
        updates[kind] = counted.assign_add(reductions.reduce_sum(found if w is None else found * w, 1))
        values[kind] = counted.value()
    return values, updates


def _counts_at(
    kind: str, labels: Any, predictions: Any, thresholds: Any, weights: Any, metrics: Any, updates: Any, name: Any
) -> Metric:
    with variable_scope(name, kind, (predictions, labels, weights)):
        found, more = _at_thresholds(labels, predictions, thresholds, weights, [kind])
        return collected(found[kind], more[kind], metrics, updates)


def true_positives_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """`true_positives` at each threshold."""
    return _counts_at("true_positives", labels, predictions, thresholds, weights, metrics_collections,
                      updates_collections, name)  # fmt: skip


def false_negatives_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """`false_negatives` at each threshold."""
    return _counts_at("false_negatives", labels, predictions, thresholds, weights, metrics_collections,
                      updates_collections, name)  # fmt: skip


def true_negatives_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """`true_negatives` at each threshold."""
    return _counts_at("true_negatives", labels, predictions, thresholds, weights, metrics_collections,
                      updates_collections, name)  # fmt: skip


def false_positives_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """`false_positives` at each threshold."""
    return _counts_at("false_positives", labels, predictions, thresholds, weights, metrics_collections,
                      updates_collections, name)  # fmt: skip


def _over_thresholds(
    default: str, given: tuple[Any, ...], thresholds: Sequence[float], kinds: Sequence[str],
    compute: Callable[[dict[str, Tensor], str], Tensor], metrics: Any, updates: Any, name: Any, unit: bool = False,
) -> Metric:  # fmt: skip
    labels, predictions, weights = given
    with variable_scope(name, default, given):
        found, more = _at_thresholds(labels, predictions, thresholds, weights, kinds, unit)
        return collected(compute(found, "value"), compute(more, "update_op"), metrics, updates)


def precision_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """`precision` at each threshold."""

    def compute(c: dict[str, Tensor], op: str) -> Tensor:
        total = c["true_positives"] + c["false_positives"]
        return math_ops.div(c["true_positives"], _EPSILON + total, name=f"precision_{op}")

    return _over_thresholds(
        "precision_at_thresholds", (labels, predictions, weights), thresholds, ["true_positives", "false_positives"],
        compute, metrics_collections, updates_collections, name,
    )  # fmt: skip


def recall_at_thresholds(
    labels: Any, predictions: Any, thresholds: Any, weights: Any = None, metrics_collections: Any = None,
    updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """`recall` at each threshold."""

    def compute(c: dict[str, Tensor], op: str) -> Tensor:
        total = c["true_positives"] + c["false_negatives"]
        return math_ops.div(c["true_positives"], _EPSILON + total, name=f"recall_{op}")

    return _over_thresholds(
        "recall_at_thresholds", (labels, predictions, weights), thresholds, ["true_positives", "false_negatives"],
        compute, metrics_collections, updates_collections, name,
    )  # fmt: skip


def _spread(count: int) -> list[float]:
    """`count` thresholds from just below 0 to just above 1."""
    return [-_EPSILON, *((i + 1) / (count - 1) for i in range(count - 2)), 1.0 + _EPSILON]


def auc(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200, metrics_collections: Any = None,
    updates_collections: Any = None, curve: str = "ROC", name: str | None = None,
    summation_method: str = "trapezoidal", thresholds: Any = None,
) -> Metric:  # fmt: skip
    """The area under the curve "ROC" or "PR", by sums over thresholds in [0, 1].

    `summation_method`: "trapezoidal", "minoring", "majoring", or "careful_interpolation" (for PR; ROC: trapezoidal).
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"Curve must be either ROC or PR. Curve {curve} is unknown.")
    if summation_method not in ("trapezoidal", "minoring", "majoring", "careful_interpolation"):
        raise ValueError(f"Invalid summation_method: {summation_method}")
    if thresholds is None:
        levels = _spread(num_thresholds)
    else:
        levels = [-_EPSILON, *sorted(t for t in thresholds if 0.0 < t < 1.0), 1.0 + _EPSILON]
    tiny = 1.0e-6

    def compute(c: dict[str, Tensor], op: str) -> Tensor:
        tp, fn, tn, fp = (c[kind] for kind in _KINDS)
        if curve == "PR" and summation_method == "careful_interpolation":
            return _interpolated(tp, fp, fn, op)
        rec = (tp + tiny) / (tp + fn + tiny)
        x, y = (fp / (fp + tn + tiny), rec) if curve == "ROC" else (rec, (tp + tiny) / (tp + fp + tiny))
        step, a, b = x[:-1] - x[1:], y[:-1], y[1:]
        if summation_method == "minoring":
            height = math_ops.minimum(a, b)
        else:
            height = math_ops.maximum(a, b) if summation_method == "majoring" else (a + b) / 2.0
        return reductions.reduce_sum(step * height, name=op)

    return _over_thresholds(
        "auc", (labels, predictions, weights), levels, list(_KINDS), compute, metrics_collections,
        updates_collections, name, unit=True,
    )  # fmt: skip


def _interpolated(tp: Tensor, fp: Tensor, fn: Tensor, name: str) -> Tensor:
    """The area under the precision-recall curve with true positives interpolated (Davis and Goadrich, 2006)."""
    more, positives = tp[:-1] - tp[1:], tp + fp
    slope = ratio(more, positives[:-1] - positives[1:])
    intercept = tp[1:] - slope * positives[1:]
    known = math_ops.logical_and(positives[:-1] > 0.0, positives[1:] > 0.0)
    quotient = slicing.where(known, ratio(positives[:-1], positives[1:]), constants.ones_like(positives[1:]))
    area = ratio(slope * (more + intercept * elementwise.log(quotient)), tp[1:] + fn[1:])
    return reductions.reduce_sum(area, name=name)


def _at_nearest(part: Tensor, rest: Tensor, measured: Tensor, wanted: float, name: str) -> Tensor:
    at = cast(extremes.argmin(elementwise.abs(measured - wanted), 0), dtypes.int32)
    return math_ops.div(slicing.gather(part, at), slicing.gather(part, at) + slicing.gather(rest, at) + _EPSILON,
                        name=name)  # fmt: skip


def sensitivity_at_specificity(
    labels: Any, predictions: Any, specificity: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The recall at the threshold whose specificity is nearest to the given one."""
    if not 0 <= specificity <= 1:
        raise ValueError("`specificity` must be in the range [0, 1].")

    def compute(c: dict[str, Tensor], op: str) -> Tensor:
        tp, fn, tn, fp = (c[kind] for kind in _KINDS)
        return _at_nearest(tp, fn, tn / (tn + fp + _EPSILON), specificity, op)

    return _over_thresholds(
        "sensitivity_at_specificity", (labels, predictions, weights), _spread(num_thresholds), list(_KINDS), compute,
        metrics_collections, updates_collections, name,
    )  # fmt: skip


def specificity_at_sensitivity(
    labels: Any, predictions: Any, sensitivity: float, weights: Any = None, num_thresholds: int = 200,
    metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None,
) -> Metric:  # fmt: skip
    """The specificity at the threshold whose recall is nearest to the given one."""
    if not 0 <= sensitivity <= 1:
        raise ValueError("`sensitivity` must be in the range [0, 1].")

    def compute(c: dict[str, Tensor], op: str) -> Tensor:
        tp, fn, tn, fp = (c[kind] for kind in _KINDS)
        return _at_nearest(tn, fp, tp / (tp + fn + _EPSILON), sensitivity, op)

    return _over_thresholds(
        "specificity_at_sensitivity", (labels, predictions, weights), _spread(num_thresholds), list(_KINDS), compute,
        metrics_collections, updates_collections, name,
    )  # fmt: skip
