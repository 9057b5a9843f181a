"""Batch normalization as one op, with its derivative.

Each pass goes over the arrays in blocks that stay in the processor's cache from one of numpy's functions to the next;
sums over rows are products with a row of ones, which BLAS does. The blocks are shared out among threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.ops import scratch, windows
from dtfzmq.ops.gradients import gradients
from dtfzmq.ops.parallel import split
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat, pos

Array = Any
_ROW = 1024  # elements that a row should have for sums over rows to run at full speed
_LONG = 8192  # and for numpy's functions of two arrays, with a row as one of them
_BLOCK = 1 << 19  # bytes of an array at a time, so that a block stays in the cache from one pass to the next
_FAR = 16  # how many variances the mean of squares may be: above that, sums of what is not centred lose digits


class _Rows:
    """An array of channels last as a matrix whose rows hold the channels several times over."""

    def __init__(self, x: Array, long: int) -> None:
        channels = x.shape[-1]
        count = x.size // channels if channels else 0
        times = next((t for t in range(min(max(long // max(channels, 1), 1), count), 0, -1) if count % t == 0), 1)
        self.count, self.times, self.channels = count, times, channels
        self.width = times * channels
        self.height = count // times
        self.blocks = list(scratch.runs(self.height, self.width * x.itemsize, _BLOCK))
        self.highest = max((b.stop - b.start for b in self.blocks), default=0)

    def matrix(self, x: Array) -> Array:
        return x.reshape(self.height, self.width)

    def tile(self, vector: Array) -> Array:
        return np.tile(vector, self.times)

    def folded(self, rows: Array) -> Array:
        """The sum per channel of rows."""
        return np.add.reduce(rows.reshape(-1, self.channels), 0, dtype=rows.dtype)

    def each(self, cost: float, fn: Callable[[slice, int], None]) -> None:
        """Call fn(block, its number) for all blocks; `cost` is nanoseconds an element, roughly."""

        def part(numbers: slice) -> None:
            for number in range(numbers.start, numbers.stop):
                fn(self.blocks[number], number)

        split(len(self.blocks), cost * self.count * self.channels, part)

    def totals(self, a: Array, b: Array, less: Sequence[Array | None] = (None, None)) -> tuple[Array, Array]:
        """(the sum of a, the sum of a * b) per channel; `less`: vectors over the channels that are taken off each."""
        a, b = self.matrix(a), self.matrix(b)
        tiles = [None if vector is None else self.tile(vector) for vector in less]
        ones = np.ones(self.highest, a.dtype)
        sums = np.zeros((2, len(self.blocks), self.width), a.dtype)

        def part(block: slice, number: int) -> None:
            one, other = (x[block] if tile is None else x[block] - tile for x, tile in zip((a, b), tiles))
            np.matmul(ones[: len(one)], one, out=sums[0, number])
            np.einsum("ij,ij->j", one, other, out=sums[1, number])

        self.each(0.4, part)
        return self.folded(sums[0]), self.folded(sums[1])

    def moments(self, x: Array) -> tuple[Array, Array]:
        """(mean, variance) per channel."""
        count = x.dtype.type(max(self.count, 1))
        total, squares = self.totals(x, x)
        mean, square = total / count, squares / count
        variance = square - mean * mean
        if not (variance * _FAR >= square).all():
            variance = self.totals(x, x, (mean, mean))[1] / count
        return mean, variance


def _last(x: Array, first: bool) -> Array:
    return np.ascontiguousarray(windows.wide(np.moveaxis(x, 1, -1) if first else x))


def _back(x: Array, shape: Any, first: bool, to: Any) -> Array:
    x = x.reshape(shape)
    return np.ascontiguousarray(np.moveaxis(x, -1, 1) if first else x).astype(to, copy=False)


def _first(attrs: dict[str, Any]) -> bool:
    return attrs["data_format"] in ("NCHW", "NCDHW")


def _make(node: Any, env: Any) -> Any:
    attrs = node.attrs
    first, training, factor = _first(attrs), attrs["is_training"], attrs["exponential_avg_factor"]
    to, kind = node.dtypes[0].np_dtype, node.dtypes[1].np_dtype

    def kernel(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        if x.ndim not in (4, 5):
            raise errors.InvalidArgumentError(
                None, None, f"input must be 4 or 5-dimensional, not of shape {list(x.shape)}"
            )
        wide = _last(x, first)
        scale, offset, mean, variance = (windows.wide(v) for v in (scale, offset, mean, variance))
        number = scale.dtype.type
        if training:
            sums = _Rows(wide, _ROW)
            used, biased = sums.moments(wide)
            found = used, biased * number(sums.count / max(sums.count - 1, 1))
            if factor != 1:
                keep, new = number(1 - factor), number(factor)
                found = keep * mean + new * found[0], keep * variance + new * found[1]
            saved = used, biased
        else:
            found = saved = mean, variance
        rows = _Rows(wide, _LONG)
        flat = rows.matrix(wide)
        slope = scale / np.sqrt(saved[1] + number(attrs["epsilon"]))
        gain, shift = rows.tile(slope), rows.tile(offset - saved[0] * slope)
        out = np.empty(flat.shape, flat.dtype)

        def part(block: slice, _: int) -> None:
            here = np.multiply(flat[block], gain, out=out[block])
            np.add(here, shift, out=here)

        rows.each(0.4, part)
        vectors = [v.astype(kind, copy=False) for v in (*found, *saved)]
        return (_back(out, wide.shape, first, to), *vectors, np.zeros(0, kind))

    return kernel


def _grad_make(node: Any, env: Any) -> Any:
    attrs = node.attrs
    first, training = _first(attrs), attrs["is_training"]
    to, kind = node.dtypes[0].np_dtype, node.dtypes[1].np_dtype

    def kernel(dy: Array, x: Array, scale: Array, mean: Array, variance: Array, _: Array) -> tuple[Array, ...]:
        wide, g = _last(x, first), _last(dy, first)
        scale, mean, variance = (windows.wide(v) for v in (scale, mean, variance))
        number = scale.dtype.type
        near = bool((mean * mean <= _FAR * variance).all())
        d_offset, d_gain = _Rows(wide, _ROW).totals(g, wide, (None, None if near else mean))
        if near:
            d_gain -= mean * d_offset
        inverse = 1 / np.sqrt(variance + number(attrs["epsilon"]))
        rows = _Rows(wide, _LONG)
        x, g = rows.matrix(wide), rows.matrix(g)
        count = number(max(rows.count, 1))
        slope = d_gain * inverse * inverse / count
        gain, shift, factor = (rows.tile(v) for v in (slope, d_offset / count - mean * slope, scale * inverse))
        out = np.empty(x.shape, x.dtype)

        def part(block: slice, _: int) -> None:
            here = out[block]
            if training:
                np.multiply(x[block], gain, out=here)
                np.add(here, shift, out=here)
                np.subtract(g[block], here, out=here)
                np.multiply(here, factor, out=here)
            else:
                np.multiply(g[block], factor, out=here)

        rows.each(0.6 if training else 0.3, part)
        none = np.zeros(0, kind)
        dx = _back(out, wide.shape, first, to)
        return dx, (d_gain * inverse).astype(kind, copy=False), d_offset.astype(kind, copy=False), none, none

    return kernel


def _channels(n: Operation, x: TensorShape, vectors: list[Tensor]) -> tuple[TensorShape, TensorShape]:
    """The shape of the images `x`, of a rank that the data format tells, and that of a vector over the channels."""
    if x.ndims is not None and x.ndims not in (4, 5):
        raise ValueError(f"Shape must be rank 4 or 5 but is rank {x.ndims} for '{n.name}' (op: '{n.type}')")
    if x.ndims is not None:
        windows.channels_first(n.attrs["data_format"], x.ndims, n.type)
    sizes: list[Any] = [None] * len(n.attrs["data_format"]) if x.ndims is None else x.as_list()
    place = 1 if _first(n.attrs) else -1
    found = TensorShape([sizes[place]])
    for vector in vectors:
        found = found.merge_with(vector.shape)
    sizes[place] = found.as_list()[0]
    return TensorShape(sizes), found


def _shape(n: Operation) -> list[TensorShape]:
    x = n.inputs[0].shape
    vectors = list(n.inputs[1:3] if n.attrs["is_training"] else n.inputs[1:])
    x, vector = _channels(n, x, vectors)
    return [x, *[vector] * 4, TensorShape([None])]


def _grad_shape(n: Operation) -> list[TensorShape]:
    x = n.inputs[0].shape.merge_with(n.inputs[1].shape)
    x, vector = _channels(n, x, list(n.inputs[2:5]))
    return [x, vector, vector, TensorShape([0]), TensorShape([0])]


def _grad(n: Operation, g: Tensor, *_: Any) -> tuple[Any, ...]:
    """Of y alone: nothing flows back from the statistics."""
    x, scale = n.inputs[:2]
    training = n.attrs["is_training"]
    mean, variance = (n.outputs[3], n.outputs[4]) if training else (n.inputs[3], n.inputs[4])
    attrs = {k: n.attrs[k] for k in ("epsilon", "data_format", "is_training")}
    dx, d_scale, d_offset, _, _ = raw.FusedBatchNormGradV3(g, x, scale, mean, variance, n.outputs[5], **attrs)
    return dx, d_scale, d_offset, None, None


def _grad_grad(n: Operation, *grads: Tensor) -> tuple[Any, ...]:
    """The derivative written with plain ops, differentiated."""
    dy, x, scale, mean, variance, _ = n.inputs
    first, rank = _first(n.attrs), x.shape.ndims or 4
    axes = np.array([i for i in range(rank) if i != (1 if first else rank - 1)], np.int32)
    place = np.array([1, -1, *[1] * (rank - 2)] if first else [1] * (rank - 1) + [-1], np.int32)
    kind = scale.dtype.base_dtype

    def mean_of(t: Tensor) -> Tensor:
        return raw.Mean(t, axes, keep_dims=True)

    g, v = (raw.Cast(t, DstT=kind) for t in (dy, x))
    gain = raw.Reshape(scale, place)
    if n.attrs["is_training"]:
        centred = v - mean_of(v)
        inverse = raw.Rsqrt(mean_of(raw.Square(centred)) + n.attrs["epsilon"])
        unit = centred * inverse
        dx = gain * inverse * (g - mean_of(g) - unit * mean_of(g * unit))
    else:
        inverse = raw.Rsqrt(raw.Reshape(variance, place) + n.attrs["epsilon"])
        unit = (v - raw.Reshape(mean, place)) * inverse
        dx = gain * inverse * g
    ys = [raw.Cast(dx, DstT=x.dtype.base_dtype), raw.Sum(g * unit, axes), raw.Sum(g, axes)]
    own = [dy, x, scale]  # each may depend on another, which is not ours to follow
    return (*gradients(ys, own, list(grads[:3]), stop_gradients=own), None, None, None)


_ATTRS = "data_format: str = 'NHWC', is_training: bool = True"
_X, _GAIN, _SHIFT = mat(2, 3, 2, 3), pos(3), mat(3, seed=2)
_NONE = mat(0)
op(
    "FusedBatchNormV3",
    "x: E, scale: E2, offset: E2, mean: E2, variance: E2; epsilon: float = 0.0001, exponential_avg_factor: float = 1.0,"
    f" {_ATTRS} -> y: E, batch_mean: E2, batch_variance: E2, reserve_space_1: E2, reserve_space_2: E2, "
    "reserve_space_3: E2",
    shape=_shape, make=_make, grad=_grad,
    samples=[
        # Nothing flows back from the statistics, though they do depend on x: not what differences would say.
        Sample(_X, _GAIN, _SHIFT, _NONE, _NONE, differentiable=False),
        Sample(_X, _GAIN, _SHIFT, mat(3), pos(3), exponential_avg_factor=0.25, differentiable=False),
        Sample(mat(2, 3, 2, 2), _GAIN, _SHIFT, mat(3), pos(3), is_training=False, data_format="NCHW",
               differentiable=False),
    ],
)  # fmt: skip
op(
    "FusedBatchNormGradV3",
    "y_backprop: E, x: E, scale: E2, reserve_space_1: E2, reserve_space_2: E2, reserve_space_3: E2; "
    f"epsilon: float = 0.0001, {_ATTRS} -> x_backprop: E, scale_backprop: E2, offset_backprop: E2, "
    "reserve_space_4: E2, reserve_space_5: E2",
    shape=_grad_shape, make=_grad_make, grad=_grad_grad,
    samples=[
        Sample(mat(2, 3, 2, 3, seed=5), _X, _GAIN, _X.mean((0, 1, 2)), _X.var((0, 1, 2)), _NONE, differentiable=False),
        Sample(mat(2, 3, 2, 2, seed=5), mat(2, 3, 2, 2), _GAIN, mat(3), pos(3), _NONE, is_training=False,
               data_format="NCHW"),
    ],
)  # fmt: skip


def fused_batch_norm(
    x: Any, scale: Any, offset: Any, mean: Any = None, variance: Any = None, epsilon: float = 0.001,
    data_format: str = "NHWC", is_training: bool = True, name: str | None = None, exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(y, mean, variance): x normalized over all axes but the channels', times scale, plus offset.

    In training by the statistics of x, which are returned (the variance divided by count - 1), mixed with the given
    ones by `exponential_avg_factor`; else by the given ones. Statistics are float32 for the half types. Nothing flows
    back from the statistics. Raises ValueError if statistics are needed and not given.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False or `exponential_avg_factor` "
            "!= 1.0."
        )
    x = convert_to_tensor(x, name="input")
    kind = x.dtype.base_dtype
    kind = dtypes.float32 if kind.size == 2 else kind
    scale, offset, mean, variance = (
        np.zeros(0, kind.np_dtype) if v is None else v if isinstance(v, Tensor) else convert_to_tensor(v, kind)
        for v in (scale, offset, mean, variance)
    )
    found = raw.FusedBatchNormV3(
        x, scale, offset, mean, variance, epsilon=max(float(epsilon), 1.001e-5), data_format=data_format,
        is_training=bool(is_training), exponential_avg_factor=exponential_avg_factor, name=name,
    )  # fmt: skip
    return found[:3]
