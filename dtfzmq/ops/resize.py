"""Images of other sizes: nearest, bilinear, bicubic and area, with TF1's ways of laying the grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.graph.static import constant_value, value_as_shape
from dtfzmq.ops import windows
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat

Array = Any
Taps = tuple[Array, Array]  # for each output: which inputs [out, taps], and their weights
_TABLE = 1024


class ResizeMethod:
    """The methods of resize_images."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def _scale(size: int, out: int, corners: bool) -> Any:
    return np.float32((size - 1) / (out - 1)) if corners and out > 1 else np.float32(size / out)


def _places(size: int, out: int, corners: bool, centers: bool) -> Array:
    """Where the outputs lie among the inputs, in float32 as TensorFlow reckons it."""
    at = np.arange(out, dtype=np.float32)
    scale = _scale(size, out, corners)
    return (at + np.float32(0.5)) * scale - np.float32(0.5) if centers else at * scale


def nearest_taps(size: int, out: int, corners: bool, centers: bool) -> Taps:
    """One input per output."""
    at = _places(size, out, corners, False)
    if centers:
        at = (np.arange(out, dtype=np.float32) + np.float32(0.5)) * _scale(size, out, corners)
    at = np.floor(at + np.float32(0.5)) if corners else np.floor(at)
    return np.clip(at.astype(np.int64), 0, size - 1)[:, None], np.ones((out, 1), np.float32)


def bilinear_taps(size: int, out: int, corners: bool, centers: bool) -> Taps:
    """The two inputs next to each output."""
    at = _places(size, out, corners, centers)
    low = np.floor(at)
    share = at - low
    which = np.stack([np.maximum(low, 0), np.minimum(np.ceil(at), size - 1)], 1).astype(np.int64)
    return np.clip(which, 0, size - 1), np.stack([1 - share, share], 1)


def _cubic(a: float) -> Array:
    """[places, near and far]: the cubic at distances up to 1 and from 1 to 2, in steps of 1/1024."""
    x = np.arange(_TABLE + 1, dtype=np.float32) / np.float32(_TABLE)
    far = x + np.float32(1)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return np.stack([near, ((a * far - 5 * a) * far + 8 * a) * far - 4 * a], 1).astype(np.float32)


def bicubic_taps(size: int, out: int, corners: bool, centers: bool) -> Taps:
    """The four inputs around each output; with `centers` those outside the image do not count."""
    at = _places(size, out, corners, centers)
    low = np.floor(at)
    offset = np.rint((at - low) * np.float32(_TABLE)).astype(np.int64)
    table = _cubic(-0.5 if centers else -0.75)
    weights = np.stack(
        [table[offset, 1], table[offset, 0], table[_TABLE - offset, 0], table[_TABLE - offset, 1]], 1
    )
    which = low.astype(np.int64)[:, None] + np.arange(-1, 3)
    inside = np.clip(which, 0, size - 1)
    if centers:
        weights = np.where(inside == which, weights, np.float32(0))
        total = weights.sum(1, keepdims=True)
        weights = np.where(np.abs(total) >= 1000 * np.finfo(np.float32).tiny, weights / total, weights)
    return inside, weights


def area_matrix(size: int, out: int, corners: bool) -> Array:
    """The share of each input in each output [out, size]."""
    scale = _scale(size, out, corners)
    matrix = np.zeros((out, size), np.float32)
    for y in range(out):
        first, last = np.float32(y) * scale, np.float32(y + 1) * scale
        for i in range(int(np.floor(first)), int(np.ceil(last))):
            if i < first:
                share = scale if i + 1 > last else i + 1 - first
            else:
                share = last - i if i + 1 > last else np.float32(1)
            matrix[y, min(max(i, 0), size - 1)] += share / scale
    return matrix


def matrix_of(taps: Taps, size: int, dtype: Any) -> Array:
    """The same as a matrix [out, size]."""
    which, weights = taps
    matrix = np.zeros((len(which), size), dtype)
    np.add.at(matrix, (np.arange(len(which))[:, None], which), weights)
    return matrix


def _gathered(x: Array, axis: int, taps: Taps) -> Array:
    which, weights = taps
    shape = [1] * x.ndim
    shape[axis] = len(which)
    out: Any = None
    for k in range(which.shape[1]):
        part = np.take(x, which[:, k], axis) * weights[:, k].reshape(shape)
        out = part if out is None else out + part
    return out


def _product(x: Array, rows: Array, columns: Array) -> Array:
    """rows @ x @ columns.T over height and width of [batch, height, width, channels]."""
    batch, height, width, depth = x.shape
    tall = np.matmul(rows, x.reshape(batch, height, width * depth)).reshape(batch, len(rows), width, depth)
    return np.matmul(columns, tall)


def _checked(images: Array, size: Array) -> tuple[int, int]:
    if images.ndim != 4:
        raise errors.InvalidArgumentError(None, None, f"input must be 4-dimensional, not of shape {list(images.shape)}")
    if size.shape != (2,):
        raise errors.InvalidArgumentError(None, None, f"shape_t must have two elements, not shape {list(size.shape)}")
    height, width = (int(d) for d in size)
    if height <= 0 or width <= 0:
        raise errors.InvalidArgumentError(None, None, f"output dimensions must be positive, got {height} x {width}")
    if not images.shape[1] or not images.shape[2]:
        raise errors.InvalidArgumentError(None, None, "input image must be of non-zero size")
    return height, width


def _forward(law: Callable[..., Taps]) -> Any:
    """Bilinear and bicubic: the output is float32, or float64 of float64."""

    def make(node: Any, env: Any) -> Any:
        how = node.attrs["align_corners"], node.attrs["half_pixel_centers"]

        def kernel(images: Array, size: Array) -> Array:
            height, width = _checked(images, size)
            x = images.astype(np.float32)
            if images.shape[1:3] == (height, width) and how[0] is how[1]:
                return x
            x = _gathered(x, 1, law(x.shape[1], height, *how))
            return np.ascontiguousarray(_gathered(x, 2, law(x.shape[2], width, *how)))

        return kernel

    return make


def _backward(law: Callable[..., Taps]) -> Any:
    def make(node: Any, env: Any) -> Any:
        how = node.attrs["align_corners"], node.attrs["half_pixel_centers"]
        to = node.dtypes[0].np_dtype

        def kernel(g: Array, images: Array) -> Array:
            kind = np.float64 if to == np.float64 else np.float32
            turned = [
                matrix_of(law(images.shape[i], g.shape[i], *how), images.shape[i], kind).T for i in (1, 2)
            ]
            return np.ascontiguousarray(_product(g.astype(kind), *turned)).astype(to, copy=False)

        return kernel

    return make


def _nearest_make(node: Any, env: Any) -> Any:
    how = node.attrs["align_corners"], node.attrs["half_pixel_centers"]

    def kernel(images: Array, size: Array) -> Array:
        height, width = _checked(images, size)
        rows = nearest_taps(images.shape[1], height, *how)[0][:, 0]
        return images[:, rows][:, :, nearest_taps(images.shape[2], width, *how)[0][:, 0]]

    return kernel


def _nearest_back(node: Any, env: Any) -> Any:
    how = node.attrs["align_corners"], node.attrs["half_pixel_centers"]

    def kernel(g: Array, size: Array) -> Array:
        height, width = _checked(g, size)
        wide = windows.wide(g)
        turned = [matrix_of(nearest_taps(n, m, *how), n, wide.dtype).T
                  for n, m in ((height, g.shape[1]), (width, g.shape[2]))]  # fmt: skip
        return np.ascontiguousarray(_product(wide, *turned)).astype(g.dtype, copy=False)

    return kernel


def _area_make(node: Any, env: Any) -> Any:
    corners = node.attrs["align_corners"]

    def kernel(images: Array, size: Array) -> Array:
        height, width = _checked(images, size)
        x = images.astype(np.float32)
        rows, columns = area_matrix(x.shape[1], height, corners), area_matrix(x.shape[2], width, corners)
        return np.ascontiguousarray(_product(x, rows, columns))

    return kernel


def _shape(n: Operation) -> list[TensorShape]:
    images = windows.with_rank(n.inputs[0], 4, n)
    n.inputs[1].shape.merge_with([2])
    height, width = value_as_shape(n.inputs[1]).merge_with([None, None]).dims_or_none or (None, None)
    return [TensorShape([images[0], height, width, images[3]])]


_GRID = "align_corners: bool = False, half_pixel_centers: bool = False"
_HOW = ("align_corners", "half_pixel_centers")
_X, _SIZE = mat(1, 3, 4, 2), ints(5, 3)
_WAYS: list[dict[str, Any]] = [{}, {"align_corners": True}, {"half_pixel_centers": True}]
# float32 inside: too coarse for differences over float64 inputs; tests/ops/test_image.py checks derivatives.
_FORWARD = [Sample(_X, _SIZE, differentiable=False, **way) for way in _WAYS]
_BACK = [Sample(mat(1, 5, 3, 2, dtype="float32"), _X, differentiable=False, **way) for way in _WAYS]

for _name, _law in (("Bilinear", bilinear_taps), ("Bicubic", bicubic_taps)):
    op(
        f"Resize{_name}", f"images: R, size: int32; {_GRID} -> resized_images: float32", shape=_shape,
        make=_forward(_law), samples=_FORWARD,
        grad=lambda n, g, _name=_name: (
            getattr(raw, f"Resize{_name}Grad")(g, n.inputs[0], **n.attrs) if n.inputs[0].dtype.is_floating else None,
            None,
        ),
    )  # fmt: skip
    op(
        f"Resize{_name}Grad", f"grads: float32, original_image: E; {_GRID} -> output: E",
        shape=lambda n: [n.inputs[1].shape], make=_backward(_law), samples=_BACK,
        grad=lambda n, g, _name=_name: (
            getattr(raw, f"Resize{_name}")(g, raw.Shape(n.inputs[0])[1:3], **n.attrs), None,
        ),
    )  # fmt: skip
op(
    "ResizeNearestNeighbor", f"images: R, size: int32; {_GRID} -> resized_images: R", shape=_shape, make=_nearest_make,
    grad=lambda n, g: (raw.ResizeNearestNeighborGrad(g, raw.Shape(n.inputs[0])[1:3], **n.attrs), None),
    samples=[Sample(_X, _SIZE, **way) for way in _WAYS],
)  # fmt: skip
op(
    "ResizeNearestNeighborGrad", f"grads: R, size: int32; {_GRID} -> output: R", shape=_shape, make=_nearest_back,
    grad=lambda n, g: (raw.ResizeNearestNeighbor(g, raw.Shape(n.inputs[0])[1:3], **n.attrs), None),
    samples=[Sample(_X, _SIZE, **way) for way in _WAYS],
)  # fmt: skip
op(
    "ResizeArea", "images: R, size: int32; align_corners: bool = False -> resized_images: float32", shape=_shape,
    make=_area_make, grad=UNDEFINED("TensorFlow has none either"),
    samples=[Sample(_X, _SIZE), Sample(_X, ints(2, 2), align_corners=True)],
)  # fmt: skip


def _size(size: Any) -> Tensor:
    return convert_to_tensor(size, None if isinstance(size, Tensor) else dtypes.int32, "size")


def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """[batch, height, width, channels] of `size`, between the two nearest pixels each way, as float32."""
    return raw.ResizeBilinear(images, _size(size), align_corners, half_pixel_centers, name=name)


def resize_bicubic(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """[batch, height, width, channels] of `size`, by cubics through the four nearest pixels each way, as float32."""
    return raw.ResizeBicubic(images, _size(size), align_corners, half_pixel_centers, name=name)


def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """[batch, height, width, channels] of `size`, each pixel one of the input's."""
    return raw.ResizeNearestNeighbor(images, _size(size), align_corners, half_pixel_centers, name=name)


def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """[batch, height, width, channels] of `size`, each pixel the mean of the area it covers, as float32."""
    return raw.ResizeArea(images, _size(size), align_corners, name=name)


_METHODS = {
    ResizeMethod.BILINEAR: resize_bilinear, "bilinear": resize_bilinear,
    ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor, "nearest": resize_nearest_neighbor,
    ResizeMethod.BICUBIC: resize_bicubic, "bicubic": resize_bicubic, ResizeMethod.AREA: resize_area,
    "area": resize_area,
}  # fmt: skip


def resize_images(
    images: Any, size: Any, method: Any = ResizeMethod.BILINEAR, align_corners: bool = False,
    preserve_aspect_ratio: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """An image [height, width, channels] or a batch of them of `size` (height, width).

    float32, but of the input's type for the nearest neighbour and where the size is known not to change. With
    `preserve_aspect_ratio` the largest size of the input's proportions that fits into `size`. Raises ValueError for
    another rank, another method, or a size that is not two numbers.
    """
    images = convert_to_tensor(images, name="images")
    with images.graph.name_scope(name or "resize"):
        rank = images.shape.ndims
        if rank is None:
            raise ValueError("'images' contains no shape.")
        if rank not in (3, 4):
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        if method not in _METHODS:
            raise ValueError("Resize method is not implemented.")
        batch = images if rank == 4 else raw.ExpandDims(images, 0)
        wanted = _size(size)
        if not wanted.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        if preserve_aspect_ratio:
            wanted = _fitting(batch, wanted)
        known = constant_value(wanted)
        if known is not None and batch.shape.as_list()[1:3] == known.tolist():
            return images
        made = _METHODS[method](batch, wanted, align_corners)
        return made if rank == 4 else raw.Squeeze(made, squeeze_dims=[0])


def _fitting(images: Tensor, size: Tensor) -> Tensor:
    """The largest size of the images' proportions within `size`."""
    own = images.shape.as_list()[1:3]
    now: Any = raw.Shape(images)[1:3] if None in own else np.array(own, np.int32)
    known = constant_value(size)
    if known is not None and not isinstance(now, Tensor):
        scale = min(np.float32(known[0]) / np.float32(now[0]), np.float32(known[1]) / np.float32(now[1]))
        return convert_to_tensor(np.rint(scale * now.astype(np.float32)).astype(np.int32))
    wide = raw.Cast(now, DstT=dtypes.float32)
    ratio = raw.Min(raw.Cast(size, DstT=dtypes.float32) / wide, np.int32(0))
    return raw.Cast(raw.Round(wide * ratio), DstT=dtypes.int32)
