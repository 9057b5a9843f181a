"""Boxes in images: the best ones that do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.graph.static import constant_value
from dtfzmq.ops.arguments import scalar
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
    if scalar("max_output_size", most) < 0:
        raise errors.InvalidArgumentError(None, None, f"max_output_size must be non-negative, got {most}")
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
    if n.type != "NonMaxSuppressionWithOverlaps":
        boxes[1:].merge_with([4])
    return [TensorShape([None])]


_BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [1, 3, 0, 2]], np.float64)
_SCORES = np.array([0.5, 0.75, 0.25, 0.9])
_REST = (np.int32(3), np.float32(0.5), np.float32(0.1))
_NONE = UNDEFINED("which boxes are best does not change smoothly")
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


def _soft(boxes: Array, scores: Array, most: int, limit: float, least: float, sigma: float) -> tuple[Array, Array]:
    """_best where a box that overlaps better ones is not dropped, but counts less: exp(-overlap ** 2 / 2 sigma)."""
    overlaps = _overlaps(boxes)
    chosen: list[int] = []
    now = scores.astype(np.float64)
    left = scores > least
    while len(chosen) < most and left.any():
        i = int(np.argmax(np.where(left, now, -np.inf)))
        left[i] = False
        chosen.append(i)
        now = np.where(left, now * np.exp(-0.5 / sigma * overlaps[i] ** 2), now)
        left &= (now > least) & (overlaps[i] <= limit)
    return np.array(chosen, np.int32), now[chosen].astype(scores.dtype)


def _v5_shape(n: Operation) -> list[TensorShape]:
    most = constant_value(n.inputs[2]) if n.attrs["pad_to_max_output_size"] else None
    _shape(n)
    return [TensorShape([None if most is None else int(most)])] * 2 + [TensorShape([])]


def _v5_make(node: Any, env: Any) -> Any:
    padded = node.attrs["pad_to_max_output_size"]

    def kernel(boxes: Array, scores: Array, most: Array, limit: Array, least: Array, sigma: Array) -> Any:
        if sigma > 0:
            wide = boxes.astype(np.float64)
            chosen, best = _soft(wide, scores, int(most), float(limit), float(least), float(sigma))
        else:
            chosen = _kernel(boxes, scores, most, limit, least)
            best = scores[chosen]
        count = np.int32(len(chosen))
        if padded:
            missing = (0, max(0, int(most) - len(chosen)))
            chosen, best = np.pad(chosen, missing), np.pad(best, missing)
        return chosen, best, count

    return kernel


op(
    "NonMaxSuppressionV5",
    "boxes: E, scores: E, max_output_size: int32, iou_threshold: float32, score_threshold: float32, "
    "soft_nms_sigma: float32; pad_to_max_output_size: bool = False -> selected_indices: int32, selected_scores: E, "
    "valid_outputs: int32",
    shape=_v5_shape, make=_v5_make, grad=_NONE,
    samples=[
        Sample(_BOXES, _SCORES, *_REST, np.float32(0.5)),
        Sample(_BOXES, _SCORES, *_REST, np.float32(0), pad_to_max_output_size=True),
    ],
)  # fmt: skip


def _v5(
    boxes: Any, scores: Any, most: Any, limit: Any, least: Any, sigma: Any, padded: bool, name: str
) -> tuple[Tensor, Tensor, Tensor]:
    boxes = convert_to_tensor(boxes, name="boxes")
    scores = convert_to_tensor(scores, None if isinstance(scores, Tensor) else boxes.dtype.base_dtype, "scores")
    found: tuple[Tensor, Tensor, Tensor] = raw.NonMaxSuppressionV5(
        boxes, scores, _number(most, dtypes.int32), _number(limit, dtypes.float32), _number(least, dtypes.float32),
        _number(sigma, dtypes.float32), pad_to_max_output_size=padded, name=name,
    )  # fmt: skip
    return found


def non_max_suppression_with_scores(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5, score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0, name: str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """non_max_suppression, and the scores of the boxes kept. With a sigma > 0 scores fall with the overlap instead."""
    name = name or "non_max_suppression_with_scores"
    return _v5(boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma, False, name)[:2]


def non_max_suppression_padded(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any = 0.5, score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False, name: str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(the indices of non_max_suppression, filled up with zeros to max_output_size if so asked, how many count)."""
    name = name or "non_max_suppression_padded"
    found = _v5(boxes, scores, max_output_size, iou_threshold, score_threshold, 0.0, pad_to_max_output_size, name)
    return found[0], found[2]


def _per_class_make(node: Any, env: Any) -> Any:
    clip, padded = node.attrs["clip_boxes"], node.attrs["pad_per_class"]

    def kernel(boxes: Array, scores: Array, per_class: Array, total: Array, limit: Array, least: Array) -> Any:
        batch, _, classes = scores.shape
        if boxes.ndim != 4 or boxes.shape[2] not in (1, classes) or boxes.shape[3] != 4:
            raise errors.InvalidArgumentError(
                None, None, f"boxes must be [batch, n, 1 or {classes}, 4], got {list(boxes.shape)}"
            )
        size = min(int(total), int(per_class) * classes) if padded else int(total)
        found = np.zeros((batch, size, 4), np.float32)
        best, kind = np.zeros((batch, size), np.float32), np.zeros((batch, size), np.float32)
        count = np.zeros(batch, np.int32)
        for b in range(batch):
            picked = [
                _kernel(boxes[b, :, c % boxes.shape[2]], scores[b, :, c], per_class, limit, least)
                for c in range(classes)
            ]
            of = np.repeat(np.arange(classes), [len(p) for p in picked])
            at = np.concatenate(picked)
            order = np.argsort(-scores[b, at, of], kind="stable")[:size]
            at, of = at[order], of[order]
            count[b] = n = len(order)
            found[b, :n] = boxes[b, at, of % boxes.shape[2]]
            best[b, :n], kind[b, :n] = scores[b, at, of], of
        return np.clip(found, 0, 1) if clip else found, best, kind, count

    return kernel


def _per_class_shape(n: Operation) -> list[TensorShape]:
    boxes, scores = n.inputs[0].shape.with_rank(4), n.inputs[1].shape.with_rank(3)
    batch = boxes[:1].merge_with(scores[:1])
    per_class, total = (constant_value(t) for t in n.inputs[2:4])
    size = None if total is None else int(total)
    if n.attrs["pad_per_class"]:
        classes = scores.dims_or_none[2] if scores.dims_or_none else None
        if size is None or per_class is None or classes is None:
            size = None
        else:
            size = min(size, int(per_class) * classes)
    rows = batch.concatenate([size])
    return [rows.concatenate([4]), rows, rows, batch]


op(
    "CombinedNonMaxSuppression",
    "boxes: float32, scores: float32, max_output_size_per_class: int32, max_total_size: int32, iou_threshold: float32, "
    "score_threshold: float32; pad_per_class: bool = False, clip_boxes: bool = True -> nmsed_boxes: float32, "
    "nmsed_scores: float32, nmsed_classes: float32, valid_detections: int32",
    shape=_per_class_shape, make=_per_class_make, grad=_NONE,
    samples=[
        Sample(
            _BOXES.astype(np.float32)[None, :, None], np.stack([_SCORES, _SCORES[::-1]], -1).astype(np.float32)[None],
            np.int32(2), np.int32(3), np.float32(0.5), np.float32(0.1),
        ),
        Sample(
            np.stack([_BOXES, _BOXES / 2], 1).astype(np.float32)[None],
            np.stack([_SCORES, _SCORES[::-1]], -1).astype(np.float32)[None], np.int32(1), np.int32(5), np.float32(0.5),
            np.float32(-1), pad_per_class=True, clip_boxes=False,
        ),
    ],
)  # fmt: skip


def combined_non_max_suppression(
    boxes: Any, scores: Any, max_output_size_per_class: Any, max_total_size: Any, iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"), pad_per_class: bool = False, clip_boxes: bool = True, name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The best boxes of each image over all classes: (boxes, scores, classes, how many count), float32, int32 the last.

    `boxes` are [batch, n, 1 or classes, 4] and `scores` [batch, n, classes]. Each class is suppressed for itself; what
    is left is ordered by score and filled up with zeros to max_total_size, with pad_per_class to no more than
    max_output_size_per_class of each class. clip_boxes cuts the boxes to [0, 1].
    """
    made: tuple[Tensor, Tensor, Tensor, Tensor] = raw.CombinedNonMaxSuppression(
        boxes, scores, _number(max_output_size_per_class, dtypes.int32), _number(max_total_size, dtypes.int32),
        _number(iou_threshold, dtypes.float32), _number(score_threshold, dtypes.float32),
        pad_per_class=pad_per_class, clip_boxes=clip_boxes, name=name or "combined_non_max_suppression",
    )  # fmt: skip
    return made
