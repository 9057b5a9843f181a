"""Boxes in images: the best ones that do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.ops.raw import raw

Array = Any


def _overlaps(boxes: Array) -> Array:
    """The share of their union that two boxes have in common [n, n]; 0 for boxes without area."""
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    common = np.maximum(np.minimum(high[:, None], high) - np.maximum(low[:, None], low), 0).prod(-1)
    areas = (high - low).prod(-1)
    union = areas[:, None] + areas - common
    flat = (areas[:, None] <= 0) | (areas <= 0)
    return np.where(flat, 0, common / np.where(flat, 1, union))


def _best(scores: Array, overlaps: Array, most: Array, limit: Array, least: Array) -> Array:
    """Take the best that is left, drop what overlaps it too much, and so on."""
    chosen: list[int] = []
    left = scores > least
    for i in np.argsort(-scores, kind="stable"):
        if len(chosen) >= most:
            break
        if left[i]:
            chosen.append(int(i))
            left &= ~(overlaps[:, i] > limit)
    return np.array(chosen, np.int32)


def _kernel(boxes: Array, scores: Array, most: Array, limit: Array, least: Array) -> Array:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        raise errors.InvalidArgumentError(
            None, None, f"boxes must be [n, 4] and scores [n], got {list(boxes.shape)} and {list(scores.shape)}"
        )
    if not 0 <= limit <= 1:
        raise errors.InvalidArgumentError(None, None, f"iou_threshold must be in [0, 1], got {limit}")
    wide = boxes.astype(np.float64 if boxes.dtype == np.float64 else np.float32)
    return _best(scores, _overlaps(wide), most, limit, least)


def _overlap_kernel(overlaps: Array, scores: Array, most: Array, limit: Array, least: Array) -> Array:
    if overlaps.ndim != 2 or overlaps.shape != (len(scores),) * 2:
        raise errors.InvalidArgumentError(
            None, None, f"overlaps must be [n, n] and scores [n], got {list(overlaps.shape)} and {list(scores.shape)}"
        )
    return _best(scores, overlaps, most, limit, least)


def _shape(n: Operation) -> list[TensorShape]:
    boxes, scores = n.inputs[0].shape.with_rank(2), n.inputs[1].shape.with_rank(1)
    boxes[:1].merge_with(scores)
    if n.type == "NonMaxSuppressionV3":
        boxes[1:].merge_with([4])
    return [TensorShape([None])]


_BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [1, 3, 0, 2]], np.float64)
_SCORES = np.array([0.5, 0.75, 0.25, 0.9])
_REST = (np.int32(3), np.float32(0.5), np.float32(0.1))
_NONE = NO_GRAD("which boxes are best does not change smoothly")
op(
    "NonMaxSuppressionV3",
    "boxes: E, scores: E, max_output_size: int32, iou_threshold: float32, score_threshold: float32 -> "
    "selected_indices: int32",
    shape=_shape, kernel=_kernel, grad=_NONE, samples=[Sample(_BOXES, _SCORES, *_REST)],
)  # fmt: skip
op(
    "NonMaxSuppressionWithOverlaps",
    "overlaps: float32, scores: float32, max_output_size: int32, overlap_threshold: float32, "
    "score_threshold: float32 -> selected_indices: int32",
    shape=_shape, kernel=_overlap_kernel, grad=_NONE,
    samples=[Sample(np.eye(4, dtype=np.float32), _SCORES.astype(np.float32), *_REST)],
)  # fmt: skip


def _number(value: Any, dtype: Any) -> Tensor:
    return convert_to_tensor(value, None if isinstance(value, Tensor) else dtype)


def non_max_suppression(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5, score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Which of `boxes` [n, (y1, x1, y2, x2)] to keep, best first: none overlaps a better one by more than the limit."""
    boxes = convert_to_tensor(boxes, name="boxes")
    scores = convert_to_tensor(scores, None if isinstance(scores, Tensor) else boxes.dtype.base_dtype, "scores")
    return raw.NonMaxSuppressionV3(
        boxes, scores, _number(max_output_size, dtypes.int32), _number(iou_threshold, dtypes.float32),
        _number(score_threshold, dtypes.float32), name=name or "non_max_suppression",
    )  # fmt: skip


def non_max_suppression_overlaps(
    overlaps: Any, scores: Any, max_output_size: Any, overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"), name: str | None = None,
) -> Tensor:  # fmt: skip
    """non_max_suppression by a matrix of overlaps that is given."""
    return raw.NonMaxSuppressionWithOverlaps(
        overlaps, scores, _number(max_output_size, dtypes.int32), _number(overlap_threshold, dtypes.float32),
        _number(score_threshold, dtypes.float32), name=name or "non_max_suppression_overlaps",
    )  # fmt: skip
