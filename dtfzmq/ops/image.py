"""Images cut, padded, flipped and turned. An image is [height, width, channels], or a batch of such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.control import case, cond
from dtfzmq.ops.random import random_uniform
from dtfzmq.ops.raw import raw
from dtfzmq.ops.resize import ResizeMethod, resize_images
from dtfzmq.ops.slicing import pad

Size = Any  # int, or a scalar Tensor where it is not known while building


def _image(image: Any) -> tuple[Tensor, int]:
    """(tensor, rank). One of unknown rank, as from decode_image, counts as one image.

    Raises ValueError for another rank than 3 or 4, or a size that is 0.
    """
    image = convert_to_tensor(image, name="image")
    if image.shape.ndims is None:
        image = raw.Identity(image)
        image.set_shape([None, None, None])
    rank = image.shape.ndims
    if rank not in (3, 4):
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    if 0 in image.shape.as_list()[-3:]:
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {image.shape}")
    return image, rank


def _sizes(image: Tensor) -> list[Size]:
    known: Any = dims(image)
    if None not in known:
        return list(known)
    shape = raw.Shape(image)
    return [size if size is not None else shape[i] for i, size in enumerate(known)]


def _vector(values: Sequence[Size]) -> Any:
    if any(isinstance(v, Tensor) for v in values):
        return raw.Pack([v if isinstance(v, Tensor) else np.int32(v) for v in values], axis=0)
    return np.array(values, np.int32)


def _static(value: Size) -> int | None:
    return None if isinstance(value, Tensor) else int(value)


def _require(text: str, *values: Size) -> None:
    """ValueError if a value that is known while building is negative. Others fail the step."""
    if any(not isinstance(v, Tensor) and v < 0 for v in values):
        raise ValueError(text)


def crop_to_bounding_box(
    image: Any, offset_height: Size, offset_width: Size, target_height: Size, target_width: Size
) -> Tensor:
    """The part of the image at the offsets, of the target's size. ValueError if it is not inside."""
    image, rank = _image(image)
    with image.graph.name_scope("crop_to_bounding_box"):
        height, width = _sizes(image)[-3:-1]
        _require("offset_width must be >= 0.", offset_width)
        _require("offset_height must be >= 0.", offset_height)
        _require("target_width must be > 0.", target_width - 1)
        _require("target_height must be > 0.", target_height - 1)
        _require("width must be >= target + offset.", width - (target_width + offset_width))
        _require("height must be >= target + offset.", height - (target_height + offset_height))
        lead = [0] * (rank - 3)
        begin = _vector([*lead, offset_height, offset_width, 0])
        out = raw.Slice(image, begin, _vector([*[-1] * (rank - 3), target_height, target_width, -1]))
        return _shaped(out, image, target_height, target_width)


def _shaped(out: Tensor, image: Tensor, height: Size, width: Size) -> Tensor:
    known = image.shape.as_list()
    out.set_shape([*known[:-3], _static(height), _static(width), known[-1]])
    return out


def pad_to_bounding_box(
    image: Any, offset_height: Size, offset_width: Size, target_height: Size, target_width: Size
) -> Tensor:
    """Zeros of the target's size with the image in them, at the offsets. ValueError if it does not fit."""
    image, rank = _image(image)
    with image.graph.name_scope("pad_to_bounding_box"):
        height, width = _sizes(image)[-3:-1]
        below, right = target_height - offset_height - height, target_width - offset_width - width
        _require("offset_height must be >= 0", offset_height)
        _require("offset_width must be >= 0", offset_width)
        _require("width must be <= target - offset", right)
        _require("height must be <= target - offset", below)
        amounts = [*[0, 0] * (rank - 3), offset_height, below, offset_width, right, 0, 0]
        out = pad(image, raw.Reshape(_vector(amounts), np.array([rank, 2], np.int32)))
        return _shaped(out, image, target_height, target_width)


def central_crop(image: Any, central_fraction: Any) -> Tensor:
    """The middle of the image: `central_fraction` of its height and width. ValueError outside (0, 1]."""
    fraction = constant_value(central_fraction) if isinstance(central_fraction, Tensor) else central_fraction
    if fraction is not None and not 0 < fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]")
    if convert_to_tensor(image).shape.ndims is None:
        raise ValueError("central_crop needs an image or a batch of images of known rank.")
    image, rank = _image(image)
    if fraction is not None and fraction == 1:
        return image
    with image.graph.name_scope("central_crop"):
        starts = [_margin(size, central_fraction if fraction is None else float(fraction))
                  for size in _sizes(image)[-3:-1]]  # fmt: skip
        height, width = (size - 2 * start for size, start in zip(_sizes(image)[-3:-1], starts))
        begin = _vector([*[0] * (rank - 3), *starts, 0])
        out = raw.Slice(image, begin, _vector([*[-1] * (rank - 3), height, width, -1]))
        return _shaped(out, image, height, width)


def _margin(size: Size, fraction: Any) -> Size:
    if not isinstance(size, Tensor) and not isinstance(fraction, Tensor):
        return int((float(size) - float(size) * fraction) / 2)
    wide = raw.Cast(size, DstT=dtypes.float64)
    share = raw.Cast(fraction, DstT=dtypes.float64) if isinstance(fraction, Tensor) else np.float64(fraction)
    return raw.Cast((wide - wide * share) / np.float64(2), DstT=dtypes.int32)


def _lesser(a: Size, b: Size) -> Size:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return raw.Minimum(a, b)
    return min(a, b)


def _positive(a: Size) -> Size:
    return raw.Maximum(a, np.int32(0)) if isinstance(a, Tensor) else max(a, 0)


def resize_image_with_crop_or_pad(image: Any, target_height: Size, target_width: Size) -> Tensor:
    """The image cut around its middle, or padded evenly with zeros, to the target's size."""
    image, _ = _image(image)
    with image.graph.name_scope("resize_image_with_crop_or_pad"):
        _require("target_width must be > 0.", target_width - 1)
        _require("target_height must be > 0.", target_height - 1)
        height, width = _sizes(image)[-3:-1]
        over_height, over_width = target_height - height, target_width - width
        cropped = crop_to_bounding_box(
            image, _positive(-over_height // 2), _positive(-over_width // 2), _lesser(target_height, height),
            _lesser(target_width, width),
        )  # fmt: skip
        return pad_to_bounding_box(
            cropped, _positive(over_height // 2), _positive(over_width // 2), target_height, target_width
        )


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def resize_image_with_pad(
    image: Any, target_height: int, target_width: int, method: Any = ResizeMethod.BILINEAR, align_corners: bool = False
) -> Tensor:
    """The image resized in its proportions to fit, and padded with zeros to the target's size."""
    image, _ = _image(image)
    with image.graph.name_scope("resize_image_with_pad"):
        _require("target_width must be > 0.", target_width - 1)
        _require("target_height must be > 0.", target_height - 1)
        target = np.array([target_height, target_width], np.float32)
        now = raw.Cast(raw.Shape(image)[-3:-1], DstT=dtypes.float32)
        new = now / raw.Max(now / target, np.array([0], np.int32))
        before = raw.Cast(raw.Maximum(raw.Floor((target - new) / 2.0), 0.0), DstT=dtypes.int32)
        resized = resize_images(image, raw.Cast(raw.Floor(new), DstT=dtypes.int32), method, align_corners)
        return pad_to_bounding_box(resized, before[0], before[1], target_height, target_width)


def _turned(image: Any) -> tuple[Tensor, Size]:
    """(tensor, rank); of unknown rank it may be one image or a batch, the rank a tensor. Raises as `_image` does."""
    image = convert_to_tensor(image, name="image")
    return (image, raw.Rank(image)) if image.shape.ndims is None else _image(image)


def _reversed(image: Any, axis: int, scope: str) -> Tensor:
    """The image with its height (-3) or width (-2) reversed."""
    image, rank = _turned(image)
    with image.graph.name_scope(scope) as name:
        return raw.ReverseV2(image, _vector([rank + axis]), name=name)


def flip_left_right(image: Any) -> Tensor:
    """The image mirrored left to right."""
    return _reversed(image, -2, "flip_left_right")


def flip_up_down(image: Any) -> Tensor:
    """The image upside down."""
    return _reversed(image, -3, "flip_up_down")


def _random_flip(image: Any, axis: int, seed: int | None, scope: str) -> Tensor:
    image, rank = _turned(image)
    where = _vector([rank + axis])

    def one() -> Tensor:
        drawn = raw.Less(random_uniform([], seed=seed), np.float32(0.5))
        return cond(drawn, lambda: raw.ReverseV2(image, where), lambda: raw.Identity(image))

    def each() -> Tensor:
        flips = raw.Round(random_uniform(raw.Shape(image)[:1], seed=seed))
        flips = raw.Cast(raw.Reshape(flips, np.array([-1, 1, 1, 1], np.int32)), DstT=image.dtype.base_dtype)
        return flips * raw.ReverseV2(image, where) + (1 - flips) * image

    with image.graph.name_scope(scope):
        if isinstance(rank, Tensor):
            return cond(raw.Equal(rank, np.int32(3)), one, each)
        out = one() if rank == 3 else each()
        out.set_shape(image.shape)
        return out


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """The image, or its mirror image with probability 1/2; each of a batch for itself."""
    return _random_flip(image, -2, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """The image, or upside down with probability 1/2; each of a batch for itself."""
    return _random_flip(image, -3, seed, "random_flip_up_down")


def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """Height and width exchanged."""
    image, rank = _turned(image)
    with image.graph.name_scope(name or "transpose_image") as scope:
        return raw.Transpose(image, _exchanged(rank), name=scope)


def _exchanged(rank: Size) -> Any:
    """The order of axes that exchanges height and width."""
    inner = _vector([rank - 2, rank - 3, rank - 1])
    if isinstance(rank, Tensor):
        return raw.ConcatV2([raw.Range(0, rank - 3, 1), inner], 0)
    return np.array([*range(rank - 3), *inner], np.int32)


transpose = transpose_image


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """The image turned counter-clockwise k times by a quarter."""
    image, rank = _turned(image)
    tall, wide, order = _vector([rank - 3]), _vector([rank - 2]), _exchanged(rank)

    def turned(times: int) -> Tensor:
        if times == 0:
            return raw.Identity(image)
        if times == 1:
            return raw.ReverseV2(raw.Transpose(image, order), tall)
        if times == 2:
            return raw.ReverseV2(raw.ReverseV2(image, wide), tall)
        return raw.ReverseV2(raw.Transpose(image, order), wide)

    with image.graph.name_scope(name or "rot90"):
        static = constant_value(k) if isinstance(k, Tensor) else k
        if static is not None:
            return turned(int(static) % 4)
        times = raw.FloorMod(raw.Cast(k, DstT=dtypes.int32), np.int32(4))
        pairs = [(raw.Equal(times, np.int32(i)), lambda i=i: turned(i)) for i in (1, 2, 3)]
        out = case(pairs, default=lambda: turned(0))
        known = image.shape.as_list()
        out.set_shape([*known[:-3], None, None, known[-1]])
        return out
