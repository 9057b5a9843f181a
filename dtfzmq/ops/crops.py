"""Parts of images: boxes resized to one size, glimpses, boxes drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, UNDEFINED, Sample, op
from dtfzmq.graph.static import value_as_shape
from dtfzmq.ops.arguments import vector
from dtfzmq.ops.random import generator, op_seeds
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid

Array = Any


def _crop_shape(n: Operation) -> list[TensorShape]:
    image, boxes = n.inputs[0].shape.with_rank(4), n.inputs[1].shape.with_rank(2)
    boxes[1:].merge_with([4])
    count = boxes[:1].merge_with(n.inputs[2].shape.with_rank(1))
    return [count.concatenate(value_as_shape(n.inputs[3]).with_rank(2)).concatenate(image[3:])]


def _places(low: Array, high: Array, out: int, size: int) -> Array:
    """Where in an axis of `size` pixels the `out` pixels of each crop lie [boxes, out]."""
    low, high = low[:, None].astype(np.float32), high[:, None].astype(np.float32)
    if out == 1:
        return (low + high) * np.float32(0.5 * (size - 1))
    step = (high - low) * np.float32(size - 1) / (out - 1)
    return low * np.float32(size - 1) + np.arange(out, dtype=np.float32) * step


class _Taps:
    """The two pixels along an axis between which each pixel of a crop lies, and its share of the second."""

    def __init__(self, low: Array, high: Array, out: int, size: int, nearest: bool) -> None:
        at = _places(low, high, out, size)
        self.inside = (at >= 0) & (at <= size - 1)
        at = np.where(self.inside, at, 0)
        if nearest:
            at = np.floor(at + np.float32(0.5))
        self.first, self.second = np.floor(at).astype(np.intp), np.ceil(at).astype(np.intp)
        self.share = at - self.first


def _taps(boxes: Array, indices: Array, crop: tuple[int, ...], shape: tuple[int, ...], nearest: bool) -> Any:
    if indices.size and (indices.min() < 0 or indices.max() >= shape[0]):
        raise errors.OutOfRangeError(None, None, f"box_index has values outside [0, {shape[0]})")
    if min(crop) <= 0 or min(shape[1:3]) <= 0:
        raise invalid(f"crop dimensions and image sizes must be positive, got {list(crop)} and {list(shape[1:3])}")
    rows = _Taps(boxes[:, 0], boxes[:, 2], crop[0], shape[1], nearest)
    columns = _Taps(boxes[:, 1], boxes[:, 3], crop[1], shape[2], nearest)
    return rows, columns, rows.inside[:, :, None] & columns.inside[:, None, :]


def _corners(rows: _Taps, columns: _Taps) -> Any:
    """For each of the four pixels: its row, its column, and its share [boxes, height, width, 1]."""
    for r, down in ((rows.first, 1 - rows.share), (rows.second, rows.share)):
        for c, across in ((columns.first, 1 - columns.share), (columns.second, columns.share)):
            yield r[:, :, None], c[:, None, :], (down[:, :, None] * across[:, None, :])[..., None]


def _crop_make(node: Any, env: Any) -> Any:
    nearest, beyond = node.attrs["method"] == "nearest", np.float32(node.attrs["extrapolation_value"])

    def kernel(image: Array, boxes: Array, indices: Array, crop: Array) -> Array:
        if image.ndim != 4 or boxes.shape != (len(boxes), 4) or indices.shape != (len(boxes),):
            raise invalid(
                f"image must be [batch, height, width, depth], boxes [n, 4] and box_ind [n], got shapes "
                f"{list(image.shape)}, {list(boxes.shape)} and {list(indices.shape)}"
            )
        wanted = tuple(vector("crop_size", crop, 2))
        if min(wanted) <= 0:
            raise invalid(f"crop dimensions must be positive, got {list(wanted)}")
        rows, columns, inside = _taps(boxes, indices, wanted, image.shape, nearest)
        which = indices[:, None, None]
        out = np.zeros((*inside.shape, image.shape[3]), np.float32)
        for r, c, share in _corners(rows, columns):
            out += share * image[which, r, c].astype(np.float32)
        return np.where(inside[..., None], out, beyond)

    return kernel


def _image_grad_make(node: Any, env: Any) -> Any:
    nearest, to = node.attrs["method"] == "nearest", node.dtypes[0].np_dtype

    def kernel(g: Array, boxes: Array, indices: Array, shape: Array) -> Array:
        out = np.zeros(tuple(shape.tolist()), np.float32)
        rows, columns, inside = _taps(boxes, indices, g.shape[1:3], out.shape, nearest)
        g = np.where(inside[..., None], g, 0)
        for r, c, share in _corners(rows, columns):
            np.add.at(out, (indices[:, None, None], r, c), share * g)
        return out.astype(to, copy=False)

    return kernel


def _boxes_grad(g: Array, image: Array, boxes: Array, indices: Array) -> Array:
    """Of the bilinear crop alone, as in TensorFlow, whichever way the pixels were chosen."""
    rows, columns, inside = _taps(boxes, indices, g.shape[1:3], image.shape, False)
    which = indices[:, None, None]
    (a, b), (c, d) = (
        [image[which, r[:, :, None], k[:, None, :]].astype(np.float32) for k in (columns.first, columns.second)]
        for r in (rows.first, rows.second)
    )
    down, across = rows.share[:, :, None, None], columns.share[:, None, :, None]
    g = np.where(inside[..., None], g, 0)
    by_row = (g * ((1 - across) * (c - a) + across * (d - b))).sum(3).sum(2)
    by_column = (g * ((1 - down) * (b - a) + down * (d - c))).sum(3).sum(1)
    out = np.zeros((len(boxes), 4), np.float32)
    for i, moved in enumerate((by_row, by_column)):
        count, size = moved.shape[1], image.shape[1 + i]
        part = np.linspace(0, 1, count, dtype=np.float32) if count > 1 else np.full(1, 0.5, np.float32)
        out[:, i] = (moved * (1 - part)).sum(1) * (size - 1)
        out[:, 2 + i] = (moved * part).sum(1) * (size - 1)
    return out


def _crop_grad(n: Operation, g: Tensor) -> tuple[Tensor | None, Tensor, None, None]:
    image, boxes, indices, _ = n.inputs
    kind = image.dtype.base_dtype
    to_image = None
    if kind.is_floating:
        to_image = raw.CropAndResizeGradImage(
            g, boxes, indices, raw.Shape(image), T=kind, method=n.attrs["method"]
        )
    return to_image, raw.CropAndResizeGradBoxes(g, image, boxes, indices), None, None


_BOXES = np.array([[0.1, 0.2, 0.7, 0.9], [-0.2, 0.0, 1.1, 1.0]], np.float32)
_IMAGE, _WHICH = mat(2, 4, 5, 2, dtype="float32"), ints(1, 0)
_NO_SECOND = UNDEFINED("as in TensorFlow")
op(
    "CropAndResize",
    "image: R, boxes: float32, box_ind: int32, crop_size: int32; method: str = 'bilinear', "
    "extrapolation_value: float = 0.0 -> crops: float32",
    shape=_crop_shape, make=_crop_make, grad=_crop_grad,
    samples=[
        Sample(_IMAGE, _BOXES, _WHICH, ints(3, 2), differentiable=False),
        Sample(_IMAGE, _BOXES, _WHICH, ints(1, 3), method="nearest", extrapolation_value=9.0, differentiable=False),
    ],
)  # fmt: skip
op(
    "CropAndResizeGradImage",
    "grads: float32, boxes: float32, box_ind: int32, image_size: int32; T: type, method: str = 'bilinear' -> "
    "output: T",
    shape=lambda n: [value_as_shape(n.inputs[3])], make=_image_grad_make, grad=_NO_SECOND,
    samples=[Sample(mat(2, 3, 2, 2, dtype="float32"), _BOXES, _WHICH, ints(2, 4, 5, 2), T=dtypes.float32)],
)  # fmt: skip
op(
    "CropAndResizeGradBoxes", "grads: float32, image: R, boxes: float32, box_ind: int32 -> output: float32",
    shape=lambda n: [n.inputs[2].shape], kernel=_boxes_grad, grad=_NO_SECOND,
    samples=[Sample(mat(2, 3, 2, 2, dtype="float32"), _IMAGE, _BOXES, _WHICH)],
)  # fmt: skip


def crop_and_resize(
    image: Any, boxes: Any, box_ind: Any = None, crop_size: Any = None, method: str = "bilinear",
    extrapolation_value: float = 0, name: str | None = None, box_indices: Any = None,
) -> Tensor:  # fmt: skip
    """Parts of images [n, height, width, channels] resized to `crop_size`: box i of image box_ind[i].

    Boxes (y1, x1, y2, x2) are in shares of the image less one pixel; what is outside gets `extrapolation_value`.
    """
    if method not in ("bilinear", "nearest"):
        raise ValueError(f"method must be 'bilinear' or 'nearest', not {method!r}.")
    return raw.CropAndResize(
        image, convert_to_tensor(boxes, dtypes.float32), one_of("box_indices", box_indices, "box_ind", box_ind),
        crop_size, method=method, extrapolation_value=float(extrapolation_value), name=name or "CropAndResize",
    )  # fmt: skip


_COLORS = np.array(
    [
        [1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1], [0.5, 0.5, 0, 1], [0.5, 0, 0, 1],
        [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1],
    ],
    np.float32,
)  # fmt: skip


def _draw(images: Array, boxes: Array, colors: Array) -> Array:
    """One pixel wide; what of a box is outside is not drawn, and a box that is outside whole not at all."""
    out = images.copy()
    _, height, width, depth = images.shape
    colors = colors if colors.size else (np.ones((1, 4), np.float32) if depth == 1 else _COLORS)
    for picture, part in zip(out, boxes):
        for i, (y1, x1, y2, x2) in enumerate(part.astype(np.float32)):
            color = colors[i % len(colors)][:depth].astype(out.dtype)
            top, bottom = (int(v * np.float32(height - 1)) for v in (y1, y2))
            left, right = (int(v * np.float32(width - 1)) for v in (x1, x2))
            if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
                continue
            rows = slice(max(top, 0), min(bottom, height - 1) + 1)
            columns = slice(max(left, 0), min(right, width - 1) + 1)
            for y in (top, bottom):
                if 0 <= y < height:
                    picture[y, columns] = color
            for x in (left, right):
                if 0 <= x < width:
                    picture[rows, x] = color
    return out


op(
    "DrawBoundingBoxesV2", "images: E, boxes: float32, colors: float32 -> output: E",
    shape=lambda n: [n.inputs[0].shape.with_rank(4)], kernel=_draw, grad=UNDEFINED("as in TensorFlow"),
    samples=[Sample(_IMAGE, _BOXES[:, None].clip(0, 1), np.zeros((0, 4), np.float32))],
)  # fmt: skip


def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Tensor:
    """The images with `boxes` [n, boxes, (y1, x1, y2, x2)], in shares of the image, drawn in `colors` in turn."""
    given = np.zeros((0, 4), np.float32) if colors is None else colors
    return raw.DrawBoundingBoxesV2(
        images, convert_to_tensor(boxes, dtypes.float32), convert_to_tensor(given, dtypes.float32),
        name=name or "DrawBoundingBoxes",
    )  # fmt: skip


def _glimpse_shape(n: Operation) -> list[TensorShape]:
    image = n.inputs[0].shape.with_rank(4)
    n.inputs[2].shape.with_rank(2)[1:].merge_with([2])
    return [image[:1].concatenate(value_as_shape(n.inputs[1]).with_rank(2)).concatenate(image[3:])]


def _glimpse_make(node: Any, env: Any) -> Any:
    attrs = node.attrs
    rng = generator(attrs["seed"], attrs["seed2"])

    def kernel(image: Array, size: Array, offsets: Array) -> Array:
        if image.ndim != 4 or offsets.shape != (len(image), 2):
            raise invalid(
                f"input must be [batch, height, width, depth] and offsets [batch, 2], got shapes {list(image.shape)} "
                f"and {list(offsets.shape)}"
            )
        sizes, whole = vector("size", size, 2), image.shape[1:3]
        shape = (len(image), *sizes, image.shape[3])
        out = rng.random(shape, np.float32) if attrs["uniform_noise"] else rng.standard_normal(shape, np.float32)
        for picture, glimpse, offset in zip(image, out, offsets.astype(np.float32)):
            to, source = [], []
            for at, part, length in zip(offset, sizes, whole):
                at = at * length if attrs["normalized"] else at
                at = at / 2 + np.float32(length / 2) if attrs["centered"] else at
                start = int(at - np.float32(part / 2))
                low, high = max(start, 0), min(start + part, length)
                to.append(slice(low - start, max(high, low) - start))
                source.append(slice(low, max(high, low)))
            glimpse[tuple(to)] = picture[tuple(source)]
        return out

    return kernel


op(
    "ExtractGlimpse",
    "input: float32, size: int32, offsets: float32; centered: bool = True, normalized: bool = True, "
    "uniform_noise: bool = True, seed: int = 0, seed2: int = 0 -> glimpse: float32",
    shape=_glimpse_shape, make=_glimpse_make, grad=NO_GRAD("as in TensorFlow"), stateful=True,
    samples=[Sample(_IMAGE, ints(2, 2), np.zeros((2, 2), np.float32))],
)  # fmt: skip


def extract_glimpse(
    input: Any, size: Any, offsets: Any, centered: bool = True, normalized: bool = True, uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """A window of `size` around the offset (y, x) of each image; noise where it reaches beyond.

    Offsets are shares of the image (normalized) or pixels, from its middle (centered) or its first corner.
    """
    return raw.ExtractGlimpse(
        input, size, offsets, centered=centered, normalized=normalized, uniform_noise=uniform_noise, **op_seeds(None),
        name=name or "ExtractGlimpse",
    )  # fmt: skip


def _covered(box: tuple[float, ...], others: Array, least: float) -> bool:
    """Whether the box holds at least that share of one of the others (y1, x1, y2, x2), or there are none."""
    y1, x1, y2, x2 = box
    rows = np.minimum(y2, others[:, 2]) - np.maximum(y1, others[:, 0])
    columns = np.minimum(x2, others[:, 3]) - np.maximum(x1, others[:, 1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    return least <= 0 or not len(others) or bool((np.maximum(rows, 0) * np.maximum(columns, 0) >= least * areas).any())


def _sample_make(node: Any, env: Any) -> Any:
    attrs = node.attrs
    rng = generator(attrs["seed"], attrs["seed2"])

    def kernel(image_size: Array, boxes: Array, least: Array) -> tuple[Array, Array, Array]:
        height, width = int(image_size[0]), int(image_size[1])
        others = boxes.reshape(-1, 4).astype(np.float64)
        if not len(others) and not attrs["use_image_if_no_bounding_boxes"]:
            raise invalid("No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes.")
        y, x, rows, columns = 0, 0, height, width
        for _ in range(attrs["max_attempts"]):
            aspect, share = rng.uniform(*attrs["aspect_ratio_range"]), rng.uniform(*attrs["area_range"])
            h = round((share * height * width / aspect) ** 0.5)
            w = round(h * aspect)
            if not (0 < h <= height and 0 < w <= width):
                continue
            top, left = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
            if _covered((top / height, left / width, (top + h) / height, (left + w) / width), others, float(least)):
                y, x, rows, columns = top, left, h, w
                break
        kind = image_size.dtype
        box = np.array([[[y / height, x / width, (y + rows) / height, (x + columns) / width]]], np.float32)
        return np.array([y, x, 0], kind), np.array([rows, columns, -1], kind), box

    return kernel


op(
    "SampleDistortedBoundingBoxV2",
    "image_size: Z, bounding_boxes: float32, min_object_covered: float32; seed: int = 0, seed2: int = 0, "
    "aspect_ratio_range: list(float) = [0.75, 1.33], area_range: list(float) = [0.05, 1.0], max_attempts: int = 100, "
    "use_image_if_no_bounding_boxes: bool = False -> begin: Z, size: Z, bboxes: float32",
    shape=lambda n: [TensorShape([3]), TensorShape([3]), TensorShape([1, 1, 4])], make=_sample_make,
    grad=NO_GRAD("random numbers"), stateful=True,
    samples=[Sample(ints(8, 8, 3), _BOXES[None], np.float32(0.1), values=False, seed=1)],
)  # fmt: skip


def sample_distorted_bounding_box(
    image_size: Any, bounding_boxes: Any, seed: int | None = None, seed2: int | None = None,
    min_object_covered: Any = 0.1, aspect_ratio_range: Any = None, area_range: Any = None,
    max_attempts: int | None = None, use_image_if_no_bounding_boxes: bool | None = None, name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """A random part of an image, as (begin, size) for tf.slice and as a box [1, 1, 4]; the whole after failures.

    It has an aspect (width / height) and a share of the image within the ranges, and holds at least
    `min_object_covered` of one of the `bounding_boxes` [1, n, (y1, x1, y2, x2)].
    """
    boxes, least = (convert_to_tensor(v, dtypes.float32) for v in (bounding_boxes, min_object_covered))
    given = {"seed": seed or 0, "seed2": seed2 or 0} if seed or seed2 else op_seeds(None)
    made: tuple[Tensor, Tensor, Tensor] = raw.SampleDistortedBoundingBoxV2(
        image_size, boxes, least, aspect_ratio_range=list(aspect_ratio_range or (0.75, 1.33)),
        area_range=list(area_range or (0.05, 1.0)),
        max_attempts=max_attempts or 100, use_image_if_no_bounding_boxes=bool(use_image_if_no_bounding_boxes),
        name=name or "sample_distorted_bounding_box", **given,
    )  # fmt: skip
    return made
