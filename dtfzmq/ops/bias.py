"""Biases along the channels, and the linear layers made with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import dims
from dtfzmq.ops.matmul import matmul
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat


def _bias_shape(n: Any) -> list[TensorShape]:
    value, bias = n.inputs[0].shape, n.inputs[1].shape
    bias.with_rank(1)
    if value.ndims is None:
        return [value]
    if value.ndims < 2:
        raise ValueError(f"Shape must be at least rank 2 but is rank {value.ndims} for BiasAdd with shape {value}")
    axis = 1 if n.attrs["data_format"] == "NCHW" else -1
    sizes = value.as_list()
    sizes[axis] = value[axis].merge_with(bias[0]).value
    return [TensorShape(sizes)]


def _bias_view(bias: Any, rank: int, first: bool) -> Any:
    return bias.reshape((-1,) + (1,) * (rank - 2)) if first else bias


def _bias_kernel(node: Any, env: Any) -> Any:
    if node.attrs["data_format"] != "NCHW":
        return np.add
    return lambda x, b, out=None: np.add(x, _bias_view(b, x.ndim, True), out=out)


def _sum_per_channel(g: Any) -> Any:
    """The sum over all axes but the last, as a product with ones: BLAS takes a tenth of the time of a reduction."""
    channels = g.shape[-1]
    count = g.size // channels
    times = math.gcd(count, 64)  # rows that hold the channels several times over are read faster
    row = np.ones(count // times, g.dtype) @ g.reshape(count // times, times * channels)
    return np.add.reduce(row.reshape(times, channels), 0, dtype=g.dtype)


def _bias_grad_kernel(node: Any, env: Any) -> Any:
    first = node.attrs["data_format"] == "NCHW"
    real = node.dtypes[0].is_floating and node.dtypes[0].size >= 4

    def back(g: Any) -> Any:
        if real and not first and g.ndim > 1 and g.size and g.flags.c_contiguous:
            return _sum_per_channel(g)
        axes = tuple(i for i in range(g.ndim) if i != (1 if first else g.ndim - 1))
        return np.add.reduce(g, axes, dtype=g.dtype)

    return back


def _bias_grad_shape(n: Any) -> list[TensorShape]:
    known = dims(n.inputs[0])
    return [TensorShape([None if known is None else known[1 if n.attrs["data_format"] == "NCHW" else -1]])]


def _bias_grad_grad(n: Any, g: Tensor) -> tuple[Tensor]:
    x = n.inputs[0]
    if n.attrs["data_format"] == "NCHW":
        rank = x.shape.ndims or 4
        g = raw.Reshape(g, np.array([-1] + [1] * (rank - 2), np.int32))
    return (raw.BroadcastTo(g, raw.Shape(x)),)


_bias_add = op(
    "BiasAdd", "value: N, bias: N; data_format: str = 'NHWC' -> output: N", shape=_bias_shape, make=_bias_kernel,
    out=True, inplace=(0,), grad=lambda n, g: (g, raw.BiasAddGrad(g, data_format=n.attrs["data_format"])),
    samples=[Sample(mat(2, 3), mat(3, seed=1)), Sample(mat(2, 3, 2, 2), mat(3, seed=1), data_format="NCHW")],
)  # fmt: skip
_bias_add_grad = op(
    "BiasAddGrad", "out_backprop: N; data_format: str = 'NHWC' -> output: N", shape=_bias_grad_shape,
    make=_bias_grad_kernel, grad=_bias_grad_grad,
    samples=[Sample(mat(2, 3)), Sample(mat(2, 3, 2, 2), data_format="NCHW")],
)  # fmt: skip


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """value + bias along the last axis, or the second for formats "NC...". ValueError for other formats."""
    if data_format is not None and not (data_format[:1] == "N" and (data_format[1:2] == "C" or data_format[-1] == "C")):
        raise ValueError(f"`data_format` must be of the form `N...C` or `NC...`. Received: data_format={data_format}")
    second = data_format is not None and data_format[1:2] == "C"
    return _bias_add(value, bias, data_format="NCHW" if second else "NHWC", name=name)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """matmul(x, weights) + biases."""
    x = convert_to_tensor(x, name="x")
    with x.graph.name_scope(name or "xw_plus_b") as scope:
        return _bias_add(matmul(x, weights), biases, name=scope)


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """relu(matmul(x, weights) + biases)."""
    x = convert_to_tensor(x, name="x")
    with x.graph.name_scope(name or "relu_layer") as scope:
        return raw.Relu(_bias_add(matmul(x, weights), biases), name=scope)
