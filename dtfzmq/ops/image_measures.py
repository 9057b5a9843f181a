"""Measures of images: standard scale, differences between neighbours, and how much two images differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.static import dims
from dtfzmq.ops.cast import cast
from dtfzmq.ops.conv_layers import depthwise_conv2d
from dtfzmq.ops.image_color import convert_image_dtype
from dtfzmq.ops.pooling import avg_pool
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_mean, reduce_prod, reduce_sum
from dtfzmq.ops.slicing import pad

_IMAGE = [-3, -2, -1]


def per_image_standardization(image: Any) -> Tensor:
    """(x - mean) / max(deviation, 1 / sqrt(size)) over each image, as float32."""
    image = convert_to_tensor(image, name="image")
    if image.shape.ndims is not None and image.shape.ndims < 3:
        raise ValueError(f"'image' (shape {image.shape}) must be at least three-dimensional.")
    with image.graph.name_scope("per_image_standardization") as scope:
        wide = raw.Cast(image, DstT=dtypes.float32)
        size = reduce_prod(raw.Cast(raw.Shape(wide)[-3:], DstT=dtypes.float32))
        away = wide - reduce_mean(wide, _IMAGE, keepdims=True)
        deviation = raw.Sqrt(reduce_mean(raw.Square(away), _IMAGE, keepdims=True))
        return raw.RealDiv(away, raw.Maximum(deviation, raw.Rsqrt(size)), name=scope)


def _differences(images: Tensor) -> tuple[Tensor, Tensor]:
    """Each pixel from the one below it, and from the one right of it."""
    if images.shape.ndims == 3:
        return images[1:] - images[:-1], images[:, 1:] - images[:, :-1]
    return images[:, 1:] - images[:, :-1], images[:, :, 1:] - images[:, :, :-1]


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """The sum of absolute differences between neighbours: a scalar, or one number per image of a batch."""
    images = convert_to_tensor(images, name="images")
    with images.graph.name_scope(name or "total_variation"):
        if images.shape.ndims not in (3, 4):
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        axes = None if images.shape.ndims == 3 else [1, 2, 3]
        down, right = _differences(images)
        return reduce_sum(raw.Abs(down), axes) + reduce_sum(raw.Abs(right), axes)


def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """(dy, dx) of [batch, height, width, channels]: differences to the next pixel, 0 at the far edges."""
    image = convert_to_tensor(image, name="image")
    if image.shape.ndims != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {image.shape}.")
    down, right = _differences(image)
    amounts = np.zeros((2, 4, 2), np.int32)
    amounts[0, 1, 1] = amounts[1, 2, 1] = 1
    dy, dx = (pad(d, a) for d, a in zip((down, right), amounts))
    dy.set_shape(image.shape)
    dx.set_shape(image.shape)
    return dy, dx


def sobel_edges(image: Any) -> Tensor:
    """[batch, height, width, channels, 2]: the edges along height and width by Sobel's filters."""
    image = convert_to_tensor(image, name="image")
    down = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], float).astype(image.dtype.base_dtype.np_dtype)
    filters = _per_channel(np.stack([down, down.T], -1)[:, :, None, :], image)
    padded = raw.MirrorPad(image, np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32), mode="REFLECT")
    edges = depthwise_conv2d(padded, filters, [1, 1, 1, 1], "VALID")
    shape = raw.ConcatV2([raw.Shape(image), np.array([2], np.int32)], 0)
    out = raw.Reshape(edges, shape)
    out.set_shape(image.shape.concatenate([2]))
    return out


def _per_channel(filter: Any, images: Tensor) -> Any:
    """A filter [height, width, 1, multiplier] for each of the channels of the images."""
    known = dims(images)
    if known is not None and known[-1] is not None:
        return np.tile(filter, [1, 1, known[-1], 1])
    return raw.Tile(filter, raw.Pack([1, 1, raw.Shape(images)[-1], 1], axis=0))


def _pair(a: Any, b: Any, max_val: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Both images and the largest value as float32. ValueError for images of different shapes."""
    a = convert_to_tensor(a, name="a")
    kind = a.dtype.base_dtype
    b = convert_to_tensor(b, None if isinstance(b, Tensor) else kind, "b")
    if not a.shape.is_compatible_with(b.shape):
        raise ValueError(f"Shapes {a.shape} and {b.shape} are incompatible")
    if a.shape.ndims is not None and a.shape.ndims < 3:
        raise ValueError(f"images must be at least three-dimensional, not {a.shape}.")
    top = cast(max_val, kind)
    return tuple(convert_image_dtype(t, dtypes.float32) for t in (a, b, top))  # type: ignore[return-value]  # three


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """The peak signal-to-noise ratio of each image in decibels."""
    first = convert_to_tensor(a, name="a")
    with first.graph.name_scope(name or "PSNR"):
        a, b, top = _pair(first, b, max_val)
        error = reduce_mean(raw.SquaredDifference(a, b), _IMAGE)
        return np.float32(20 / np.log(10)) * raw.Log(top) - np.float32(10 / np.log(10)) * raw.Log(error)


def _likeness(a: Tensor, b: Tensor, top: Tensor, size: int, sigma: float, k1: float, k2: float) -> Any:
    """(luminance and contrast, contrast alone) at each place of a Gaussian window, per channel."""
    at = np.arange(size, dtype=np.float32) - (size - 1) / 2
    weight = np.exp(-(at[:, None] ** 2 + at**2) / (2 * sigma**2))
    weight = (weight / weight.sum()).astype(np.float32)
    window = _per_channel(weight[:, :, None, None], a)

    def blurred(x: Tensor) -> Tensor:
        return depthwise_conv2d(x, window, [1, 1, 1, 1], "VALID")

    c1, c2 = raw.Square(k1 * top), raw.Square(k2 * top)
    mean_a, mean_b = blurred(a), blurred(b)
    both, squares = mean_a * mean_b * 2, raw.Square(mean_a) + raw.Square(mean_b)
    luminance = (both + c1) / (squares + c1)
    contrast = (blurred(a * b) * 2 - both + c2) / (blurred(raw.Square(a) + raw.Square(b)) - squares + c2)
    return luminance * contrast, contrast


def _batched(x: Tensor) -> Tensor:
    """Images [..., height, width, channels] with one axis before them."""
    known = dims(x)
    if known is not None and len(known) == 4:
        return x
    shape = raw.ConcatV2([np.array([-1], np.int32), raw.Shape(x)[-3:]], 0)
    out = raw.Reshape(x, shape)
    out.set_shape([None, *(known[-3:] if known is not None else [None] * 3)])
    return out


def ssim(
    img1: Any, img2: Any, max_val: Any, filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01,
    k2: float = 0.03, return_index_map: bool = False,
) -> Tensor:  # fmt: skip
    """The structural similarity of each pair of images: the mean over windows and channels, or a map of windows."""
    first = convert_to_tensor(img1, name="img1")
    with first.graph.name_scope("SSIM"):
        a, b, top = _pair(first, img2, max_val)
        lead = raw.Shape(a)[:-3]
        whole, _ = _likeness(_batched(a), _batched(b), top, filter_size, filter_sigma, k1, k2)
        over = reduce_mean(whole, [3]) if return_index_map else reduce_mean(whole, [1, 2, 3])
        if a.shape.ndims == 4:
            return over
        out = raw.Reshape(over, raw.ConcatV2([lead, raw.Shape(over)[1:]], 0))
        if a.shape.ndims is not None:
            out.set_shape(a.shape[:-3].concatenate(over.shape[1:]))
        return out


def ssim_multiscale(
    img1: Any, img2: Any, max_val: Any, power_factors: Any = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
    filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03,
) -> Tensor:  # fmt: skip
    """The structural similarity over scales, each half of the one before; [batch, height, width, channels] alone."""
    first = convert_to_tensor(img1, name="img1")
    with first.graph.name_scope("MS-SSIM"):
        a, b, top = _pair(first, img2, max_val)
        if a.shape.ndims != 4:
            raise ValueError(f"ssim_multiscale needs images of rank 4, not {a.shape}.")
        parts = []
        for scale in range(len(power_factors)):
            if scale:
                a, b = (avg_pool(_even(x), [1, 2, 2, 1], [1, 2, 2, 1], "VALID") for x in (a, b))
            whole, contrast = _likeness(a, b, top, filter_size, filter_sigma, k1, k2)
            last = scale == len(power_factors) - 1
            parts.append(raw.Relu(reduce_mean(whole if last else contrast, [1, 2])))
        powers = np.asarray(power_factors, np.float32)
        product = reduce_prod(raw.Pow(raw.Pack(parts, axis=-1), powers), [-1])
        return reduce_mean(product, [-1])


def _even(x: Tensor) -> Tensor:
    """Height and width padded to even numbers by the mirror image."""
    odd = raw.FloorMod(raw.Shape(x)[1:3], np.int32(2))
    zero = np.zeros(2, np.int32)
    amounts = raw.Pack([zero, raw.Pack([np.int32(0), odd[0]], axis=0), raw.Pack([np.int32(0), odd[1]], axis=0), zero],
                       axis=0)  # fmt: skip
    out = raw.MirrorPad(x, amounts, mode="SYMMETRIC")
    known = x.shape.as_list()
    out.set_shape([known[0], *(None if d is None else d + d % 2 for d in known[1:3]), known[3]])
    return out
