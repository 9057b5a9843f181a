"""The colours of images: types and ranges, grey, brightness, contrast, hue and saturation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import dims
from dtfzmq.ops import windows
from dtfzmq.ops.cast import saturate_cast
from dtfzmq.ops.gradients import gradients
from dtfzmq.ops.matmul import tensordot
from dtfzmq.ops.random import random_uniform
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_mean
from dtfzmq.ops.samples import mat

Array = Any


def _to_hsv(x: Array) -> Array:
    to, x = x.dtype, windows.wide(x)
    r, g, b = (x[..., i] for i in range(3))
    value = x.max(-1)
    spread = value - x.min(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        saturation = np.where(value > 0, spread / value, 0)
        unit = 1 / (6 * spread)
        hue = np.where(
            r == value, unit * (g - b), np.where(g == value, unit * (b - r) + 2 / 6, unit * (r - g) + 4 / 6)
        )
    hue = np.where(spread > 0, hue, 0)
    return np.stack([np.where(hue < 0, hue + 1, hue), saturation, value], -1).astype(to)


def _to_rgb(x: Array) -> Array:
    to, x = x.dtype, windows.wide(x)
    hue, saturation, value = x[..., 0] * 6, x[..., 1], x[..., 2]
    full = (np.abs(hue - 3) - 1, 2 - np.abs(hue - 2), 2 - np.abs(hue - 4))
    return np.stack([(1 - saturation + saturation * np.clip(c, 0, 1)) * value for c in full], -1).astype(to)


def _parts(x: Tensor) -> list[Tensor]:
    return list(raw.Unpack(x, num=3, axis=-1))


def _hsv_of(x: Tensor) -> Tensor:
    """_to_hsv in ops, to be differentiated."""
    r, g, b = _parts(x)
    value = raw.Maximum(raw.Maximum(r, g), b)
    spread = value - raw.Minimum(raw.Minimum(r, g), b)
    one, zero = raw.OnesLike(value), raw.ZerosLike(value)
    grey, dark = raw.LessEqual(spread, zero), raw.LessEqual(value, zero)
    saturation = raw.Select(dark, zero, spread / raw.Select(dark, one, value))
    unit = one / (6 * raw.Select(grey, one, spread))
    other = raw.Select(raw.Equal(g, value), unit * (b - r) + 2 / 6, unit * (r - g) + 4 / 6)
    hue = raw.Select(grey, zero, raw.Select(raw.Equal(r, value), unit * (g - b), other))
    return raw.Pack([raw.Select(raw.Less(hue, zero), hue + 1, hue), saturation, value], axis=-1)


def _hsv_grad(n: Operation, g: Tensor) -> tuple[Any]:
    x = n.inputs[0]
    return (gradients(_hsv_of(x), [x], [g], stop_gradients=[x])[0],)


def _three(n: Operation) -> Any:
    known = dims(n.inputs[0])
    if known is not None and (not known or known[-1] not in (3, None)):
        raise ValueError(f"Dimension must be 3 but is {known[-1] if known else 'missing'} for '{n.name}' "
                         f"(op: '{n.type}') with input shape {n.inputs[0].shape}")  # fmt: skip
    return same(n)


_PIXELS = [Sample(mat(2, 3, lo=0.05, hi=0.95)), Sample(mat(2, 2, 3, lo=0.05, hi=0.95, seed=3))]
op("RGBToHSV", "images: E -> output: E", shape=_three, kernel=_to_hsv, grad=_hsv_grad, samples=_PIXELS)
op(
    "HSVToRGB", "images: E -> output: E", shape=_three, kernel=_to_rgb, samples=_PIXELS,
    grad=NO_GRAD("TensorFlow says that it has none"),
)  # fmt: skip


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Red, green and blue in [0, 1] along the last axis as hue, saturation and value in [0, 1]."""
    return raw.RGBToHSV(images, name=name)


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """What rgb_to_hsv does, undone."""
    return raw.HSVToRGB(images, name=name)


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """The image in another type, in that type's range: [0, 1] for floats, [0, max] for integers.

    `saturate` clips values outside of the range before the cast.
    """
    image = convert_to_tensor(image, name="image")
    kind, to = image.dtype.base_dtype, dtypes.as_dtype(dtype).base_dtype
    for what in (to, kind):
        if not what.is_floating and not what.is_integer:
            raise AttributeError(f"image dtypes must be either floating point or integer, not {what.name}")
    if kind is to:
        return raw.Identity(image, name=name)
    with image.graph.name_scope(name or "convert_image") as scope:
        cast = saturate_cast if saturate else _cast
        if kind.is_floating and to.is_floating:
            return _cast(image, to, scope)
        if kind.is_floating:
            with np.errstate(over="ignore"):  # float16 has no such numbers as the largest of int32
                return cast(raw.Mul(image, convert_to_tensor(to.max + 0.5, kind)), to, scope)
        if to.is_floating:
            return raw.Mul(_cast(image, to, None), convert_to_tensor(1.0 / kind.max, to), name=scope)
        if kind.max > to.max:
            return cast(raw.FloorDiv(image, convert_to_tensor((kind.max + 1) // (to.max + 1), kind)), to, scope)
        factor = convert_to_tensor((to.max + 1) // (kind.max + 1), to)
        return raw.Mul(cast(image, to, None), factor, name=scope)


def _cast(x: Tensor, to: DType, name: str | None) -> Tensor:
    return raw.Cast(x, DstT=to, name=name)


def _as_float(image: Any, scope: str, change: Callable[[Tensor], Tensor], narrow: bool = True) -> Tensor:
    """`change` made to the image as floats in [0, 1] (float32, unless it is float16 and `narrow`), and back."""
    image = convert_to_tensor(image, name="image")
    kind = image.dtype.base_dtype
    with image.graph.name_scope(scope):
        fits = kind is dtypes.float32 or narrow and kind is dtypes.float16
        wide = image if fits else convert_image_dtype(image, dtypes.float32)
        return convert_image_dtype(change(wide), kind, saturate=True)


def _number(value: Any, like: Tensor) -> Tensor:
    kind = like.dtype.base_dtype
    if not isinstance(value, Tensor):
        return convert_to_tensor(value, kind)
    return value if value.dtype.base_dtype is kind else raw.Cast(value, DstT=kind)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """`delta` added to the image in its range of [0, 1]; integers are clipped to theirs."""
    return _as_float(image, "adjust_brightness", lambda x: x + _number(delta, x))


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """(x - mean) * contrast_factor + mean, with each channel's own mean over height and width."""

    def change(x: Tensor) -> Tensor:
        mean = reduce_mean(x, [-3, -2], keepdims=True)
        return (x - mean) * _number(contrast_factor, x) + mean

    return _as_float(images, "adjust_contrast", change)


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """gain * image ** gamma. ValueError for a negative gamma."""
    if not isinstance(gamma, Tensor) and gamma < 0:
        raise ValueError("Gamma should be a non-negative real number.")
    return _as_float(image, "adjust_gamma", lambda x: _number(gain, x) * raw.Pow(x, _number(gamma, x)))


def _in_hsv(image: Any, scope: str, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    def changed(x: Tensor) -> Tensor:
        hue, saturation, value = _parts(raw.RGBToHSV(x))
        return raw.HSVToRGB(raw.Pack([*change(hue, saturation), value], axis=-1))

    return _as_float(image, scope, changed)


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """The image's colours turned by `delta` of the whole circle."""
    return _in_hsv(
        image, name or "adjust_hue",
        lambda hue, s: (raw.FloorMod(hue + _number(delta, hue), raw.OnesLike(hue)), s),
    )  # fmt: skip


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """The image's saturation times a factor, at most 1."""

    def change(hue: Tensor, saturation: Tensor) -> tuple[Tensor, Tensor]:
        more = saturation * _number(saturation_factor, hue)
        return hue, raw.Minimum(raw.Maximum(more, raw.ZerosLike(more)), raw.OnesLike(more))

    return _in_hsv(image, name or "adjust_saturation", change)


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """adjust_brightness by a number from [-max_delta, max_delta)."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """adjust_contrast by a factor from [lower, upper)."""
    _range(lower, upper)
    return adjust_contrast(image, random_uniform([], lower, upper, seed=seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """adjust_hue by a number from [-max_delta, max_delta)."""
    if max_delta > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """adjust_saturation by a factor from [lower, upper)."""
    _range(lower, upper)
    return adjust_saturation(image, random_uniform([], lower, upper, seed=seed))


def _range(lower: float, upper: float) -> None:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """One channel: 0.2989 red + 0.587 green + 0.114 blue."""
    images = convert_to_tensor(images, name="images")
    with images.graph.name_scope(name or "rgb_to_grayscale") as scope:
        wide = convert_image_dtype(images, dtypes.float32)
        grey = tensordot(wide, np.array([0.2989, 0.5870, 0.1140], np.float32), [[-1], [-1]])
        return convert_image_dtype(raw.ExpandDims(grey, -1), images.dtype.base_dtype, name=scope)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """The one channel three times."""
    images = convert_to_tensor(images, name="images")
    known = dims(images)
    if known is None:
        with images.graph.name_scope(name or "grayscale_to_rgb") as scope:
            ones = raw.Fill(raw.ExpandDims(raw.Rank(images) - 1, 0), np.int32(1))
            return raw.Tile(images, raw.ConcatV2([ones, np.array([3], np.int32)], 0), name=scope)
    if known[-1] not in (1, None):
        raise ValueError(f"Last dimension of a grayscale image should be size 1, not {known[-1]}.")
    with images.graph.name_scope(name or "grayscale_to_rgb") as scope:
        out = raw.Tile(images, np.array([1] * (len(known) - 1) + [3], np.int32), name=scope)
        out.set_shape([*known[:-1], 3])
        return out


_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]
_FROM_YIQ = [[1.0, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
_FROM_YUV = [[1.0, 1, 1], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0]]


def _mixed(images: Any, matrix: Any) -> Tensor:
    images = convert_to_tensor(images, name="images")
    return tensordot(images, convert_to_tensor(matrix, images.dtype.base_dtype, "kernel"), [[-1], [0]])


def rgb_to_yiq(images: Any) -> Tensor:
    """Red, green and blue along the last axis as luma and two chroma channels (NTSC)."""
    return _mixed(images, _YIQ)


def yiq_to_rgb(images: Any) -> Tensor:
    """What rgb_to_yiq does, undone."""
    return _mixed(images, _FROM_YIQ)


def rgb_to_yuv(images: Any) -> Tensor:
    """Red, green and blue along the last axis as luma and two chroma channels (PAL)."""
    return _mixed(images, _YUV)


def yuv_to_rgb(images: Any) -> Tensor:
    """What rgb_to_yuv does, undone."""
    return _mixed(images, _FROM_YUV)
