"""The convolution ops and their derivatives: 2-D, 3-D and depthwise, in both layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import full_dims, value_as_shape
from dtfzmq.ops import conv_kernels, depthwise_kernels, windows
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.windows import Axis

Array = Any


def _invalid(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


class _Layout:
    """The attributes of a convolution node, and arrays between the node's layout and channels last."""

    def __init__(self, op_type: str, attrs: dict[str, Any], rank: int) -> None:
        self.op_type, self.rank = op_type, rank
        self.first = windows.channels_first(attrs["data_format"], rank)
        self.strides = windows.spatial(attrs["strides"], self.first)
        self.dilations = windows.spatial(attrs["dilations"], self.first)
        self.padding = attrs["padding"]
        self.pairs = windows.spatial(windows.explicit_pairs(attrs, rank), self.first)

    def last(self, x: Array) -> Array:
        return np.moveaxis(x, 1, -1) if self.first else x

    def back(self, x: Array, to: Any) -> Array:
        if self.first:
            x = np.moveaxis(x, -1, 1)
        return np.ascontiguousarray(x).astype(to, copy=False)

    def sizes(self, shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
        """(sizes of space, channels) of a shape in the node's layout."""
        shape = tuple(int(d) for d in shape)
        return (shape[2:], shape[1]) if self.first else (shape[1:-1], shape[-1])

    def axes(self, sizes: Sequence[int], filter_sizes: Sequence[int], g: Array | None = None) -> list[Axis]:
        """The geometry for an input and a filter; InvalidArgumentError if `g` is not of the output's size."""
        found = [
            windows.axis(size, window, stride, dilation, self.padding, pair)
            for size, window, stride, dilation, pair in zip(
                sizes, filter_sizes, self.strides, self.dilations, self.pairs
            )
        ]
        if g is not None:
            for i, (a, got) in enumerate(zip(found, g.shape[1:-1])):
                if a.out != got:
                    raise _invalid(
                        f"{self.op_type}: Size of out_backprop doesn't match computed: actual = {got}, computed = "
                        f"{a.out} spatial_dim: {i} input: {a.size} filter: {a.window} output: {got} stride: {a.stride} "
                        f"dilation: {a.dilation}"
                    )
        return found

    def check(self, x: Array, w: Array) -> None:
        if x.ndim != self.rank or w.ndim != self.rank:
            raise _invalid(f"{self.op_type}: input and filter must be {self.rank}-dimensional, "
                           f"not of shapes {list(x.shape)} and {list(w.shape)}")  # fmt: skip
        depth = x.shape[1 if self.first else -1]
        if depth != w.shape[-2]:
            raise _invalid(f"{self.op_type}: input and filter must have the same depth: {depth} vs {w.shape[-2]}")


def _known(n: Operation, rank: int) -> bool:
    """Check the attributes; whether channels stand second."""
    windows.check_padding(n)
    first = windows.channels_first(n.attrs["data_format"], rank)
    windows.check_moves(n, ("strides", "dilations"), rank, first)
    return first


def _forward_shape(rank: int, depthwise: bool = False) -> Any:
    def rule(n: Operation) -> list[TensorShape]:
        first = _known(n, rank)
        x, w = windows.with_rank(n.inputs[0], rank, n), windows.with_rank(n.inputs[1], rank, n)
        channels = x[1 if first else -1]
        if channels is not None and w[-2] is not None and channels != w[-2]:
            shapes = ", ".join(str(t.shape) for t in n.inputs)
            raise ValueError(
                f"Dimensions must be equal, but are {channels} and {w[-2]} (the depths of input and filter) for "
                f"'{n.name}' (op: '{n.type}') with input shapes: {shapes}."
            )
        moves = (
            windows.spatial(x, first), w[:-2], windows.spatial(n.attrs["strides"], first),
            windows.spatial(n.attrs["dilations"], first),
            windows.spatial(windows.explicit_pairs(n.attrs, rank), first),
        )  # fmt: skip
        places = [windows.static_size(n, *one) for one in zip(*moves)]
        out = w[-1]
        if depthwise:
            depth = w[-2] if w[-2] is not None else channels
            out = None if out is None or depth is None else out * depth
        return [TensorShape([x[0], out, *places] if first else [x[0], *places, out])]

    return rule


def _sizes_shape(rank: int, which: int) -> Any:
    """The shape rule of derivatives: what the vector input `which` says."""

    def rule(n: Operation) -> list[TensorShape]:
        _known(n, rank)
        for i in range(3):
            if i != which:
                windows.with_rank(n.inputs[i], rank, n)
        return [value_as_shape(n.inputs[which]).merge_with(TensorShape([None] * rank))]

    return rule


def _forward(compute: Any, rank: int, depthwise: bool) -> Any:
    def make(node: Any, env: Any) -> Any:
        layout, to = _Layout(node.op, node.attrs, rank), node.dtypes[0].np_dtype

        def kernel(x: Array, w: Array) -> Array:
            layout.check(x, w)
            if not (depthwise or w.size or rank == 4 and all(w.shape[:-1])):
                raise _invalid(f"{node.op}: filter must not have zero elements, got shape {list(w.shape)}")
            x, w = windows.wide(layout.last(x)), windows.wide(w)
            return layout.back(compute(np.ascontiguousarray(x), w, layout.axes(x.shape[1:-1], w.shape[:-2])), to)

        return kernel

    return make


def _input_back(compute: Any, rank: int, depthwise: bool) -> Any:
    def make(node: Any, env: Any) -> Any:
        layout, to = _Layout(node.op, node.attrs, rank), node.dtypes[0].np_dtype

        def kernel(shape: Array, w: Array, g: Array) -> Array:
            g, w = windows.wide(layout.last(g)), windows.wide(w)
            if shape.shape == (2,) and g.ndim == w.ndim == rank == 4:  # of space alone
                sizes, depth, batch = tuple(shape.tolist()), w.shape[-2], g.shape[0]
            else:
                (sizes, depth), batch = layout.sizes(shape), shape[0]
            if g.ndim != rank or w.ndim != rank or depth != w.shape[-2] or g.shape[0] != batch:
                raise _invalid(
                    f"{node.op}: input and out_backprop must have the same batch size, and input and filter the same "
                    f"depth: input_sizes {shape.tolist()}, filter {list(w.shape)}, out_backprop {list(g.shape)}"
                )
            if g.shape[-1] != w.shape[-1] * (w.shape[-2] if depthwise else 1):
                raise _invalid(f"{node.op}: filter and out_backprop must have the same out_depth")
            axes = layout.axes(sizes, w.shape[:-2], g)
            return layout.back(compute(np.ascontiguousarray(g), w, axes), to)

        return kernel

    return make


def _filter_back(compute: Any, rank: int, depthwise: bool) -> Any:
    def make(node: Any, env: Any) -> Any:
        layout, to = _Layout(node.op, node.attrs, rank), node.dtypes[0].np_dtype

        def kernel(x: Array, shape: Array, g: Array) -> Array:
            x, g = windows.wide(layout.last(x)), windows.wide(layout.last(g))
            if x.ndim != rank or g.ndim != rank or x.shape[0] != g.shape[0] or x.shape[-1] != shape[-2]:
                raise _invalid(
                    f"{node.op}: input and out_backprop must have the same batch size, and input and filter the same "
                    f"depth: input {list(x.shape)}, filter_sizes {shape.tolist()}, out_backprop {list(g.shape)}"
                )
            if g.shape[-1] != shape[-1] * (shape[-2] if depthwise else 1):
                raise _invalid(f"{node.op}: filter and out_backprop must have the same out_depth")
            if not np.all(shape):
                return np.zeros(shape, to)
            axes = layout.axes(x.shape[1:-1], [int(d) for d in shape[:-2]], g)
            found = compute(np.ascontiguousarray(x), np.ascontiguousarray(g), axes)
            return np.ascontiguousarray(found).astype(to, copy=False)

        return kernel

    return make


def _shape_of(t: Tensor) -> Any:
    known = full_dims(t)
    return raw.Shape(t) if known is None else np.array(known, np.int32)


def _family(name: str, back_input: str, back_filter: str) -> tuple[Any, Any, Any]:
    """The gradients of a convolution, of its derivative by the input, and of that by the filter: each other's ops."""

    def conv(x: Any, w: Any, n: Operation) -> Tensor:
        return getattr(raw, name)(x, w, **n.attrs)

    def by_input(shape: Any, w: Any, g: Any, n: Operation) -> Tensor:
        return getattr(raw, back_input)(shape, w, g, **n.attrs)

    def by_filter(x: Any, shape: Any, g: Any, n: Operation) -> Tensor:
        return getattr(raw, back_filter)(x, shape, g, **n.attrs)

    def of_conv(n: Operation, g: Tensor) -> tuple[Tensor, Tensor]:
        x, w = n.inputs
        return by_input(_shape_of(x), w, g, n), by_filter(x, _shape_of(w), g, n)

    def of_input(n: Operation, g: Tensor) -> tuple[None, Tensor, Tensor]:
        _, w, dy = n.inputs
        return None, by_filter(g, _shape_of(w), dy, n), conv(g, w, n)

    def of_filter(n: Operation, g: Tensor) -> tuple[Tensor, None, Tensor]:
        x, _, dy = n.inputs
        return by_input(_shape_of(x), g, dy, n), None, conv(x, g, n)

    return of_conv, of_input, of_filter


def _attrs(rank: int) -> str:
    layout = "NHWC" if rank == 4 else "NDHWC"
    return (
        f"strides: list(int), padding: str, explicit_paddings: list(int) = [], data_format: str = '{layout}', "
        f"dilations: list(int) = {[1] * rank}"
    )


_ODD: dict[str, Any] = {"strides": [1, 2, 1, 1], "padding": "SAME"}
_HOLES: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "VALID", "dilations": [1, 2, 1, 1]}
_GIVEN: dict[str, Any] = {
    "strides": [1, 1, 2, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 2, 0, 1, 3, 0, 0],
}  # fmt: skip
_NCHW: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NCHW"}
_NCDHW: dict[str, Any] = {"strides": [1, 1, 1, 2, 1], "padding": "SAME", "data_format": "NCDHW"}
_DEEP: dict[str, Any] = {"strides": [1, 2, 1, 1, 1], "padding": "VALID", "dilations": [1, 1, 1, 2, 1]}


def _samples(kernels: Any, x: Any, w: Any, settings: Sequence[dict[str, Any]], first: Any) -> tuple[list[Any], ...]:
    """Samples of a convolution and its two derivatives; arrays are turned for a layout with channels second."""
    forward: list[Any] = []
    by_input: list[Any] = []
    by_filter: list[Any] = []
    for attrs in settings:
        one = np.ascontiguousarray(np.moveaxis(x, -1, 1)) if "NC" in attrs.get("data_format", "") else x
        forward.append(Sample(one, w, **attrs))
        full = {"explicit_paddings": [], "data_format": first, "dilations": [1] * x.ndim, **attrs}
        layout = _Layout("", full, x.ndim)
        axes = layout.axes(x.shape[1:-1], w.shape[:-2])
        y = kernels(x, w, axes)
        g = layout.back(mat(*y.shape, seed=3), y.dtype)
        by_input.append(Sample(ints(*one.shape), w, g, **attrs))
        by_filter.append(Sample(one, ints(*w.shape), g, **attrs))
    return forward, by_input, by_filter


def _declare(name: str, rank: int, names: tuple[str, str], kernels: tuple[Any, Any, Any], samples: Any) -> None:
    """Declare a convolution and its two derivatives."""
    grads = _family(name, *names)
    depthwise = name.startswith("Depthwise")
    op(
        name, f"input: R, filter: R; {_attrs(rank)} -> output: R", shape=_forward_shape(rank, depthwise),
        make=_forward(kernels[0], rank, depthwise), grad=grads[0], samples=samples[0],
    )  # fmt: skip
    op(
        names[0], f"input_sizes: int32, filter: R, out_backprop: R; {_attrs(rank)} -> output: R",
        shape=_sizes_shape(rank, 0), make=_input_back(kernels[1], rank, depthwise), grad=grads[1], samples=samples[1],
    )  # fmt: skip
    op(
        names[1], f"input: R, filter_sizes: int32, out_backprop: R; {_attrs(rank)} -> output: R",
        shape=_sizes_shape(rank, 1), make=_filter_back(kernels[2], rank, depthwise), grad=grads[2], samples=samples[2],
    )  # fmt: skip


_DENSE = (conv_kernels.forward, conv_kernels.input_gradient, conv_kernels.filter_gradient)
_DEPTHWISE = (depthwise_kernels.forward, depthwise_kernels.input_gradient, depthwise_kernels.filter_gradient)
_2D = (_ODD, _HOLES, _GIVEN, _NCHW)

_declare(
    "Conv2D", 4, ("Conv2DBackpropInput", "Conv2DBackpropFilter"), _DENSE,
    _samples(_DENSE[0], mat(2, 5, 4, 3), mat(3, 2, 3, 2, seed=1), _2D, "NHWC"),
)  # fmt: skip
_declare(
    "Conv3D", 5, ("Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"), _DENSE,
    _samples(_DENSE[0], mat(1, 4, 4, 3, 2), mat(2, 2, 1, 2, 3, seed=1), (_NCDHW, _DEEP), "NDHWC"),
)  # fmt: skip
_declare(
    "DepthwiseConv2dNative", 4, ("DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"),
    _DEPTHWISE, _samples(_DEPTHWISE[0], mat(2, 5, 4, 3), mat(3, 2, 3, 2, seed=1), _2D, "NHWC"),
)  # fmt: skip

