"""Local response normalization, and moments in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.graph.static import dims
from dtfzmq.ops import windows
from dtfzmq.ops.nn import batch_normalization
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of, reduce_sum
from dtfzmq.ops.samples import mat

Array = Any


def _band(channels: int, radius: int, dtype: Any) -> Array:
    """The matrix that sums over neighbours no further than `radius`."""
    away = np.arange(channels)
    return (np.abs(away[:, None] - away) <= radius).astype(dtype)


def _norms(x: Array, attrs: dict[str, Any]) -> Array:
    kind = x.dtype.type
    sums = np.square(x) @ _band(x.shape[-1], attrs["depth_radius"], x.dtype)
    sums *= kind(attrs["alpha"])
    sums += kind(attrs["bias"])
    return sums


def _lrn_make(node: Any, env: Any) -> Any:
    def kernel(x: Array) -> Array:
        wide = windows.wide(x)
        return (wide * _norms(wide, node.attrs) ** wide.dtype.type(-node.attrs["beta"])).astype(x.dtype, copy=False)

    return kernel


def _lrn_grad_make(node: Any, env: Any) -> Any:
    alpha, beta, radius = (node.attrs[k] for k in ("alpha", "beta", "depth_radius"))

    def kernel(g: Array, x: Array, y: Array) -> Array:
        to = g.dtype
        g, x, y = (windows.wide(v) for v in (g, x, y))
        kind = x.dtype.type
        norms = _norms(x, node.attrs)
        across = (g * y / norms) @ _band(x.shape[-1], radius, x.dtype)
        return (g * norms ** kind(-beta) - kind(2 * alpha * beta) * x * across).astype(to, copy=False)

    return kernel


def _lrn_shape(n: Operation) -> list[TensorShape]:
    shape = n.inputs[0].shape
    for t in n.inputs:
        shape = shape.merge_with(TensorShape(windows.with_rank(t, 4, n)))
    return [shape]


_LRN = "depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5"
_SETTING: dict[str, Any] = {"depth_radius": 1, "bias": 1.5, "alpha": 0.25, "beta": 0.75}


def _lrn_sample(**attrs: Any) -> Sample:
    x = mat(1, 2, 2, 4)
    full = {"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5, **attrs}
    return Sample(mat(1, 2, 2, 4, seed=2), x, x * _norms(x, full) ** -full["beta"], **attrs)


op(
    "LRN", f"input: E; {_LRN} -> output: E", shape=_lrn_shape, make=_lrn_make,
    grad=lambda n, g: (raw.LRNGrad(g, n.inputs[0], n.outputs[0], **n.attrs),),
    samples=[Sample(mat(1, 2, 2, 4)), Sample(mat(2, 1, 2, 5), **_SETTING)],
)  # fmt: skip
op(
    "LRNGrad", f"input_grads: E, input_image: E, output_image: E; {_LRN} -> output: E", shape=_lrn_shape,
    make=_lrn_grad_make, grad=UNDEFINED("TensorFlow gives no second derivative of lrn either"),
    samples=[_lrn_sample(), _lrn_sample(**_SETTING)],
)  # fmt: skip


def local_response_normalization(
    input: Any, depth_radius: int = 5, bias: float = 1, alpha: float = 1, beta: float = 0.5, name: str | None = None
) -> Tensor:
    """x / (bias + alpha * sum of squares over the channels no further than depth_radius) ** beta."""
    return raw.LRN(input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name)


lrn = local_response_normalization


def sufficient_statistics(
    x: Any, axes: Any, shift: Any = None, keep_dims: bool | None = None, name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    """(count, sum, sum of squares, shift) over `axes`, of x - shift if a shift is given."""
    x = convert_to_tensor(x, name="x")
    axes = sorted({int(a) for a in ([axes] if isinstance(axes, (int, np.integer)) else axes)})
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    kind = x.dtype.base_dtype
    with x.graph.name_scope(name or "sufficient_statistics"):
        known = dims(x)
        sizes = [known[a] for a in axes] if known is not None else [None]
        if None not in sizes:
            counts = convert_to_tensor(int(np.prod(sizes)), dtype=kind, name="Const")  # type: ignore[arg-type]  # known
        else:
            picked = raw.GatherV2(raw.Shape(x), np.array(axes, np.int32), 0)
            counts = raw.Prod(raw.Cast(picked, DstT=kind), np.array([0], np.int32), name="count")
        if shift is not None:
            shift = convert_to_tensor(shift, None if isinstance(shift, Tensor) else kind, "shift")
            first, second = x - shift, raw.SquaredDifference(x, shift)
        else:
            first, second = x, raw.Square(x)
        return (
            counts,
            reduce_sum(first, axes, keepdims=keep, name="mean_ss"),
            reduce_sum(second, axes, keepdims=keep, name="var_ss"),
            shift,
        )


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(mean, variance) from what sufficient_statistics gives."""
    counts = convert_to_tensor(counts)
    with counts.graph.name_scope(name or "normalize"):
        divisor = raw.Reciprocal(counts, name="divisor")
        if shift is not None:
            shifted = raw.Mul(mean_ss, divisor, name="shifted_mean")
            mean = raw.Add(shifted, shift, name="mean")
        else:
            shifted = mean = raw.Mul(mean_ss, divisor, name="mean")
        return mean, raw.Sub(raw.Mul(variance_ss, divisor), raw.Square(shifted), name="variance")


def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, name: str | None = None, keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Mean and variance over `axes` of values that count `frequency_weights` times; 0 where the weights sum to 0."""
    x = convert_to_tensor(x, name="x")
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    kind = x.dtype.base_dtype
    weights = convert_to_tensor(
        frequency_weights, None if isinstance(frequency_weights, Tensor) else kind, "frequency_weights"
    )
    with x.graph.name_scope(name or "weighted_moments"):
        wide = raw.Cast(x, DstT=dtypes.float32) if kind is dtypes.float16 else x
        if weights.dtype.base_dtype is not wide.dtype.base_dtype:
            weights = raw.Cast(weights, DstT=wide.dtype.base_dtype)
        total = reduce_sum(weights * wide, axes, keepdims=True, name="weighted_input_sum")
        count = reduce_sum(weights + raw.ZerosLike(wide), axes, keepdims=True, name="sum_of_weights")
        mean = raw.DivNoNan(total, count)
        away = reduce_sum(weights * raw.SquaredDifference(wide, mean), axes, keepdims=True, name="weighted_distsq")
        variance = raw.DivNoNan(away, count)
        if not keep:
            gone = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
            mean, variance = (raw.Squeeze(t, squeeze_dims=gone) for t in (mean, variance))
        if wide is not x:
            mean, variance = (raw.Cast(t, DstT=kind) for t in (mean, variance))
        return mean, variance


def batch_norm_with_global_normalization(
    t: Any = None, m: Any = None, v: Any = None, beta: Any = None, gamma: Any = None,
    variance_epsilon: float | None = None, scale_after_normalization: bool | None = None, name: str | None = None,
    input: Any = None, mean: Any = None, variance: Any = None,
) -> Tensor:  # fmt: skip
    """batch_normalization, with gamma as the scale if scale_after_normalization."""
    t, m, v = one_of("input", input, "t", t), one_of("mean", mean, "m", m), one_of("variance", variance, "v", v)
    if variance_epsilon is None:
        raise ValueError("batch_norm_with_global_normalization() is missing its argument 'variance_epsilon'.")
    return batch_normalization(t, m, v, beta, gamma if scale_after_normalization else None, variance_epsilon, name)
