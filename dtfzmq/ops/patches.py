"""Patches of images laid side by side, and the grey-scale morphology that slides over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.graph.static import full_dims, value_as_shape
from dtfzmq.ops import windows
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.windows import Axis

Array = Any


def _padded(x: Array, axes: Sequence[Axis], value: Any = 0) -> Array:
    """The array with the padding of its axes of space; the array itself if there is none."""
    if not any(a.before or a.after for a in axes):
        return x
    shape = (x.shape[0], *(a.before + a.size + a.after for a in axes), *x.shape[1 + len(axes) :])
    out = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
    out[_inner(axes)] = x
    return out


def _inner(axes: Sequence[Axis]) -> tuple[slice, ...]:
    """What of a padded array is not padding."""
    return (slice(None), *(slice(a.before, a.before + a.size) for a in axes))


def _patches(x: Array, axes: Sequence[Axis]) -> Array:
    """A view [batch, places..., windows..., channels] of a padded array. Read only."""
    steps = x.strides
    moves = [a.stride * s for a, s in zip(axes, steps[1:])]
    inside = [a.dilation * s for a, s in zip(axes, steps[1:])]
    shape = (x.shape[0], *(a.out for a in axes), *(a.window for a in axes), x.shape[-1])
    return as_strided(x, shape, (steps[0], *moves, *inside, steps[-1]), writeable=False)


def _at(batch: slice, axes: Sequence[Axis], place: Sequence[int], rows: slice) -> tuple[slice, ...]:
    """Where in the padded input the places of a window's one offset lie; of the first axis only those of `rows`."""
    out = [batch]
    for i, (a, p) in enumerate(zip(axes, place)):
        first, last = (rows.start, rows.stop) if i == 0 else (0, a.out)
        start = p * a.dilation + first * a.stride
        out.append(slice(start, start + (last - first - 1) * a.stride + 1, a.stride))
    return tuple(out)


def _checked(n: Operation, names: tuple[str, ...]) -> None:
    windows.check_padding(n)
    windows.check_moves(n, names, 4, False)


def _axes(attrs: dict[str, Any], shape: Any, sizes: Any) -> list[Axis]:
    """The geometry over height and width, for windows of `sizes`."""
    return [
        windows.axis(int(shape[1 + i]), int(sizes[i]), attrs["strides"][1 + i], attrs["rates"][1 + i], attrs["padding"])
        for i in range(2)
    ]


def _four(x: Array, what: str) -> None:
    if x.ndim != 4:
        raise errors.InvalidArgumentError(None, None, f"{what} must be 4-dimensional, not of shape {list(x.shape)}")


def _patches_shape(n: Operation) -> list[TensorShape]:
    _checked(n, ("ksizes", "strides", "rates"))
    x = windows.with_rank(n.inputs[0], 4, n)
    sizes, strides, rates = (n.attrs[k][1:3] for k in ("ksizes", "strides", "rates"))
    places = [windows.static_size(n, *one) for one in zip(x[1:3], sizes, strides, rates)]
    depth = None if x[3] is None else x[3] * sizes[0] * sizes[1]
    return [TensorShape([x[0], *places, depth])]


def _patches_make(node: Any, env: Any) -> Any:
    attrs = node.attrs

    def kernel(x: Array) -> Array:
        _four(x, "images")
        axes = _axes(attrs, x.shape, attrs["ksizes"][1:3])
        found = _patches(_padded(x, axes), axes)
        return found.reshape(*found.shape[:3], -1)

    return kernel


def _from_patches_make(node: Any, env: Any) -> Any:
    attrs = node.attrs

    def kernel(shape: Array, g: Array) -> Array:
        sizes = [int(d) for d in shape]
        axes = _axes(attrs, sizes, attrs["ksizes"][1:3])
        rows, columns = axes
        parts = g.reshape(sizes[0], rows.out, columns.out, rows.window, columns.window, sizes[3])
        out = np.zeros((sizes[0], *(a.before + a.size + a.after for a in axes), sizes[3]), g.dtype)
        everything = slice(0, sizes[0])
        for i, j in product(range(rows.window), range(columns.window)):
            out[_at(everything, axes, (i, j), slice(0, rows.out))] += parts[:, :, :, i, j]
        return np.ascontiguousarray(out[_inner(axes)])

    return kernel


_ATTRS = "ksizes: list(int), strides: list(int), rates: list(int), padding: str"
_SETTINGS: list[dict[str, Any]] = [
    {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME"},
    {"ksizes": [1, 3, 2, 1], "strides": [1, 1, 2, 1], "rates": [1, 1, 1, 1], "padding": "VALID"},
]


def _shape_of(t: Tensor) -> Any:
    known = full_dims(t)
    return raw.Shape(t) if known is None else np.array(known, np.int32)


_extract = op(
    "ExtractImagePatches", f"images: T; {_ATTRS} -> patches: T", shape=_patches_shape, make=_patches_make,
    grad=lambda n, g: (raw.SumImagePatches(_shape_of(n.inputs[0]), g, **n.attrs),),
    samples=[Sample(mat(2, 4, 5, 2), **s) for s in _SETTINGS],
)  # fmt: skip
op(
    "SumImagePatches", f"image_sizes: int32, patches: N; {_ATTRS} -> images: N",
    shape=lambda n: [value_as_shape(n.inputs[0])], make=_from_patches_make,
    grad=lambda n, g: (None, raw.ExtractImagePatches(g, **n.attrs)),
    samples=[Sample(ints(2, 4, 5, 2), mat(2, 2, 5, 12), **_SETTINGS[0]),
             Sample(ints(2, 4, 5, 2), mat(2, 2, 2, 12), **_SETTINGS[1])],
)  # fmt: skip


def extract_image_patches(
    images: Any, ksizes: Any = None, strides: Any = None, rates: Any = None, padding: str | None = None,
    name: str | None = None, sizes: Any = None,
) -> Tensor:  # fmt: skip
    """The values under each window, row by row, as the channels of one pixel per window."""
    ksizes = one_of("sizes", sizes, "ksizes", ksizes)
    given = {"ksizes": ksizes, "strides": strides, "rates": rates, "padding": padding}
    for key, value in given.items():
        if value is None:
            raise ValueError(f"extract_image_patches() is missing its argument '{key}'.")
    return _extract(images, name=name, **given)


def extract_patches(images: Any, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """extract_image_patches, under its later name."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)


def _volume_shape(n: Operation) -> list[TensorShape]:
    windows.check_padding(n)
    windows.check_moves(n, ("ksizes", "strides"), 5, False)
    x = windows.with_rank(n.inputs[0], 5, n)
    sizes, strides = (n.attrs[k][1:4] for k in ("ksizes", "strides"))
    places = [windows.static_size(n, *one, 1) for one in zip(x[1:4], sizes, strides)]
    return [TensorShape([x[0], *places, None if x[4] is None else x[4] * math.prod(sizes)])]


def _volume_axes(attrs: dict[str, Any], shape: Any) -> list[Axis]:
    sizes, strides = attrs["ksizes"], attrs["strides"]
    return [windows.axis(int(shape[i]), sizes[i], strides[i], 1, attrs["padding"]) for i in (1, 2, 3)]


def _volume_make(node: Any, env: Any) -> Any:
    def kernel(x: Array) -> Array:
        axes = _volume_axes(node.attrs, x.shape)
        found = _patches(_padded(x, axes), axes)
        return found.reshape(*found.shape[:4], -1)

    return kernel


_ALL = (slice(None),)


def _from_volumes_make(node: Any, env: Any) -> Any:
    def kernel(shape: Array, g: Array) -> Array:
        sizes = [int(d) for d in shape]
        axes = _volume_axes(node.attrs, sizes)
        parts = g.reshape(*g.shape[:4], *(a.window for a in axes), sizes[4])
        out = np.zeros((sizes[0], *(a.before + a.size + a.after for a in axes), sizes[4]), g.dtype)
        for at in product(*(range(a.window) for a in axes)):
            where = tuple(slice(i, i + a.stride * (a.out - 1) + 1, a.stride) for i, a in zip(at, axes))
            out[_ALL + where] += parts[_ALL * 4 + tuple(at)]
        return np.ascontiguousarray(out[_inner(axes)])

    return kernel


_VOLUME_ATTRS = "ksizes: list(int), strides: list(int), padding: str"
_VOLUME: dict[str, Any] = {"ksizes": [1, 2, 2, 3, 1], "strides": [1, 1, 2, 1, 1], "padding": "SAME"}
op(
    "ExtractVolumePatches", f"input: N; {_VOLUME_ATTRS} -> patches: N", shape=_volume_shape, make=_volume_make,
    grad=lambda n, g: (raw.SumVolumePatches(_shape_of(n.inputs[0]), g, **n.attrs),),
    samples=[Sample(mat(1, 3, 4, 3, 2), **_VOLUME), Sample(mat(1, 3, 4, 3, 2), **{**_VOLUME, "padding": "VALID"})],
)  # fmt: skip
op(
    "SumVolumePatches", f"sizes: int32, patches: N; {_VOLUME_ATTRS} -> volumes: N",
    shape=lambda n: [value_as_shape(n.inputs[0])], make=_from_volumes_make,
    grad=lambda n, g: (None, raw.ExtractVolumePatches(g, **n.attrs)),
    samples=[Sample(ints(1, 3, 4, 3, 2), mat(1, 3, 2, 3, 24), **_VOLUME)],
)  # fmt: skip


def extract_volume_patches(input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None) -> Tensor:
    """extract_image_patches of volumes [n, planes, height, width, channels]."""
    return raw.ExtractVolumePatches(input, ksizes=ksizes, strides=strides, padding=padding, name=name)


def _dilation_shape(n: Operation) -> list[TensorShape]:
    _checked(n, ("strides", "rates"))
    x, w = windows.with_rank(n.inputs[0], 4, n), windows.with_rank(n.inputs[1], 3, n)
    if x[3] is not None and w[2] is not None and x[3] != w[2]:
        raise ValueError(f"Dimensions must be equal, but are {x[3]} and {w[2]} for '{n.name}' (op: '{n.type}')")
    moves = zip(x[1:3], w[:2], n.attrs["strides"][1:3], n.attrs["rates"][1:3])
    return [TensorShape([x[0], *(windows.static_size(n, *one) for one in moves), x[3] if x[3] is not None else w[2]])]


def _reached(x: Array, w: Array, attrs: dict[str, Any]) -> tuple[list[Axis], Array, Array]:
    """(geometry, the largest x + w of each window, the flat number of the window's place that gives it)."""
    _four(x, "input")
    axes = _axes(attrs, x.shape, w.shape)
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    high = _padded(x, axes, lowest)
    best = np.full((x.shape[0], *(a.out for a in axes), x.shape[3]), lowest, x.dtype)
    which = np.zeros(best.shape, np.int32)
    everything = slice(0, x.shape[0])
    for k, (i, j) in enumerate(product(range(w.shape[0]), range(w.shape[1]))):
        here = high[_at(everything, axes, (i, j), slice(0, axes[0].out))] + w[i, j]
        more = here > best
        np.copyto(best, here, where=more)
        which[more] = k
    return axes, best, which


def _dilation_make(node: Any, env: Any) -> Any:
    return lambda x, w: _reached(windows.wide(x), windows.wide(w), node.attrs)[1].astype(x.dtype, copy=False)


def _dilation_grad_make(by_filter: bool) -> Any:
    def make(node: Any, env: Any) -> Any:
        def kernel(x: Array, w: Array, g: Array) -> Array:
            axes, _, which = _reached(windows.wide(x), windows.wide(w), node.attrs)
            g = windows.wide(g)
            filters = np.zeros(w.shape, g.dtype)
            out = np.zeros((x.shape[0], *(a.before + a.size + a.after for a in axes), x.shape[3]), g.dtype)
            everything = slice(0, x.shape[0])
            for k, (i, j) in enumerate(product(range(w.shape[0]), range(w.shape[1]))):
                mine = g * (which == k)
                filters[i, j] = mine.sum((0, 1, 2))
                out[_at(everything, axes, (i, j), slice(0, axes[0].out))] += mine
            found = filters if by_filter else np.ascontiguousarray(out[_inner(axes)])
            return found.astype(x.dtype, copy=False)

        return kernel

    return make


_MOVES = "strides: list(int), rates: list(int), padding: str"
_MORPH: dict[str, Any] = {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME"}
_NONE = UNDEFINED("which values are largest does not change smoothly; TensorFlow has none either")
op(
    "Dilation2D", f"input: R, filter: R; {_MOVES} -> output: R", shape=_dilation_shape, make=_dilation_make,
    grad=lambda n, g: (
        raw.Dilation2DBackpropInput(*n.inputs, g, **n.attrs), raw.Dilation2DBackpropFilter(*n.inputs, g, **n.attrs),
    ),
    samples=[Sample(mat(2, 4, 5, 2), mat(2, 2, 2, seed=1), **_MORPH)],
)  # fmt: skip
op(
    "Dilation2DBackpropInput", f"input: R, filter: R, out_backprop: R; {_MOVES} -> in_backprop: R",
    shape=lambda n: [n.inputs[0].shape], make=_dilation_grad_make(False), grad=_NONE,
    samples=[Sample(mat(2, 4, 5, 2), mat(2, 2, 2, seed=1), mat(2, 2, 5, 2, seed=2), **_MORPH)],
)  # fmt: skip
op(
    "Dilation2DBackpropFilter", f"input: R, filter: R, out_backprop: R; {_MOVES} -> filter_backprop: R",
    shape=lambda n: [n.inputs[1].shape], make=_dilation_grad_make(True), grad=_NONE,
    samples=[Sample(mat(2, 4, 5, 2), mat(2, 2, 2, seed=1), mat(2, 2, 5, 2, seed=2), **_MORPH)],
)  # fmt: skip


def dilation2d(
    input: Any, filter: Any = None, strides: Any = None, rates: Any = None, padding: str | None = None,
    name: str | None = None, filters: Any = None, dilations: Any = None,
) -> Tensor:  # fmt: skip
    """Grey-scale dilation: the largest of input + filter [height, width, channels] under each window."""
    filter = one_of("filters", filters, "filter", filter)
    rates = one_of("dilations", dilations, "rates", rates)
    return raw.Dilation2D(input, filter, strides=strides, rates=rates, padding=padding, name=name)


def erosion2d(value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None) -> Tensor:
    """Grey-scale erosion: the smallest of value - kernel under each window."""
    value = convert_to_tensor(value, name="value")
    with value.graph.name_scope(name or "erosion2d") as scope:
        mirrored = raw.ReverseV2(kernel, ints(0, 1))
        return -raw.Dilation2D(-value, mirrored, strides=strides, rates=rates, padding=padding, name=scope)
