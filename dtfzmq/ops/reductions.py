"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.static import constant_value, dims, full_dims
from dtfzmq.ops.elementwise import exp, is_finite, log
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import bits, ints, mat

_SAMPLES = [
    Sample(mat(2, 3, 4), ints(1)),
    Sample(mat(2, 3, 4), ints(0, -1), keep_dims=True),
    Sample(mat(3, 2), np.int32(1)),
    Sample(mat(3, 2), ints(0, 1)),
    Sample(mat(3), np.zeros(0, np.int32)),
]
_FLAGS = [Sample(bits(2, 3), ints(1)), Sample(bits(2, 3, seed=4), ints(0, 1), keep_dims=True)]


_add: Any = np.add.reduce
_multiply: Any = np.multiply.reduce


def axes_of(axis: np.ndarray, rank: int) -> tuple[int, ...]:
    """Reduction axes without negative ones and repeats. Raises InvalidArgumentError for one that does not exist."""
    out: dict[int, None] = {}
    for a in np.asarray(axis).reshape(-1).tolist():
        if not -rank <= a < rank:
            raise errors.InvalidArgumentError(
                None, None, f"Invalid reduction dimension ({a} for input with {rank} dimension(s))"
            )
        out[a % rank] = None
    return tuple(out)


def _shape(n: Any) -> list[TensorShape]:
    known = dims(n.inputs[0])
    keep = n.attrs["keep_dims"]
    if known is None:
        return [UNKNOWN]
    axis = constant_value(n.inputs[1])
    if axis is None:
        return [TensorShape([None] * len(known)) if keep else UNKNOWN]
    try:
        gone = axes_of(axis, len(known))
    except errors.InvalidArgumentError as error:
        raise ValueError(f"{error.message} for shape {n.inputs[0].shape}") from None
    if keep:
        return [TensorShape([1 if i in gone else d for i, d in enumerate(known)])]
    return [TensorShape([d for i, d in enumerate(known) if i not in gone])]


def _kernel(reduce: Callable[..., Any]) -> Any:
    """Make a kernel of `reduce(x, axes, keep)`; the axes are worked out again only when they change."""

    def make(node: Any, env: Any) -> Any:
        keep = bool(node.attrs["keep_dims"])
        memo: dict[Any, tuple[int, ...]] = {}

        def kernel(x: np.ndarray, axis: np.ndarray) -> np.ndarray:
            axis = np.asarray(axis)
            key = (axis.tobytes(), axis.dtype.itemsize, x.ndim)
            axes = memo.get(key)
            if axes is None:
                memo.clear()
                axes = axes_of(axis, x.ndim)
                if len(axes) != axis.size:
                    raise errors.InvalidArgumentError(
                        None, None, f"Invalid reduction arguments: Axes contains duplicate dimension: {axis.tolist()}"
                    )
                memo[key] = axes
            return reduce(x, axes, keep)

        return kernel

    return make


def _wide(x: np.ndarray) -> Any:
    """The type to add up in: float32 for the half types, else the type itself."""
    return np.float32 if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype


def _sum(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    return _add(x, axes, dtype=_wide(x), keepdims=keep).astype(x.dtype, copy=False)


def _norm(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    wide = x.astype(_wide(x), copy=False)
    squares = _add(wide.conj() * wide, axes, dtype=wide.dtype, keepdims=keep)  # integers may run over, as TensorFlow's
    return np.sqrt(squares, dtype=np.float64 if x.dtype.kind in "iu" else None).astype(x.dtype, copy=False)


def _prod(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    return _multiply(x, axes, dtype=_wide(x), keepdims=keep).astype(x.dtype, copy=False)


def _mean(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
    count = 1
    for a in axes:
        count *= x.shape[a]
    if x.dtype.kind in "iu":
        if count == 0:
            return _add(x, axes, dtype=x.dtype, keepdims=keep)
        total = _add(x, axes, dtype=np.int64, keepdims=keep)
        return np.trunc(total / count).astype(x.dtype)
    wide = _wide(x)
    total = _add(x, axes, dtype=wide, keepdims=keep)
    return np.divide(total, np.asarray(count, total.dtype)).astype(x.dtype, copy=False)


def _extreme(ufunc: Any, lowest: bool) -> Any:
    """max or min; of nothing it is the identity (-inf or the smallest integer for max), as in TensorFlow."""

    def reduce(x: np.ndarray, axes: tuple[int, ...], keep: bool) -> np.ndarray:
        if x.size:
            return ufunc.reduce(x, axes, keepdims=keep)
        if x.dtype.kind in "iu":
            info = np.iinfo(x.dtype)
            start: float = info.min if lowest else info.max
        else:
            start = -np.inf if lowest else np.inf
        return ufunc.reduce(x, axes, keepdims=keep, initial=x.dtype.type(start))

    return reduce


def _restore(n: Any, g: Tensor) -> Tensor:
    """g with the reduced axes back, of size 1."""
    if n.attrs["keep_dims"]:
        return g
    return raw.Reshape(g, _kept_shape(n))


def _kept_shape(n: Any) -> Any:
    x, axis = n.inputs
    known, value = dims(x), constant_value(axis)
    if known is not None and value is not None:
        gone = axes_of(value, len(known))
        kept = [1 if i in gone else d for i, d in enumerate(known)]
        if kept.count(None) <= 1:  # one size may be left to Reshape
            return np.array([-1 if d is None else d for d in kept], np.int32)
    return raw.KeptShape(raw.Shape(x), axis)


def _sum_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    x = n.inputs[0]
    known = full_dims(x)
    shape = raw.Shape(x) if known is None else np.array(known, np.int32)
    return raw.BroadcastTo(_restore(n, g), shape), None


def _mean_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    x, y = n.inputs[0], n.outputs[0]
    spread = _sum_grad(n, g)[0]
    many, few = full_dims(x), full_dims(y)
    if many is not None and few is not None:
        factor = int(np.prod(many, dtype=np.int64)) // max(1, int(np.prod(few, dtype=np.int64)))
        return spread / convert_to_tensor(float(max(factor, 1)), dtype=spread.dtype), None
    count = raw.FloorDiv(raw.Size(x), raw.Maximum(raw.Size(y), 1))
    return spread / raw.Cast(count, DstT=spread.dtype), None


def _extreme_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    """Shared equally among the elements that reach the extreme."""
    x, axis = n.inputs
    hit = raw.Cast(raw.Equal(_restore(n, n.outputs[0]), x), DstT=x.dtype.base_dtype)
    share = raw.Sum(hit, axis, keep_dims=True)
    return hit / share * _restore(n, g), None


def _norm_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    """nan where all elements are zero. A norm is a real number, so of a complex gradient the real part counts."""
    if g.dtype.is_complex:
        g = raw.Cast(raw.Real(g, Tout=g.dtype.real_dtype), DstT=g.dtype)
    return n.inputs[0] / (_restore(n, n.outputs[0]) / _restore(n, g)), None


def _prod_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    return raw.ProdGrad(n.inputs[0], n.inputs[1], _restore(n, g)), None


def _prod_grad_kernel(x: np.ndarray, axis: np.ndarray, g: np.ndarray) -> np.ndarray:
    """g (axes kept) times, for each element, the product of the others along the axes; exact with zeros in it."""
    axes = axes_of(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in axes]
    order = (*kept, *axes)
    moved = np.transpose(x, order)
    if not x.size:
        return np.zeros_like(x)
    flat = moved.reshape((*(x.shape[i] for i in kept), -1))
    ones = np.ones((*flat.shape[:-1], 1), x.dtype)
    before, after = flat, flat
    if flat.shape[-1]:
        tail = np.flip(flat, -1)
        before = np.concatenate([ones, np.multiply.accumulate(flat[..., :-1], -1, dtype=x.dtype)], -1)
        after = np.concatenate([ones, np.multiply.accumulate(tail[..., :-1], -1, dtype=x.dtype)], -1)
    others = (before * np.flip(after, -1)).reshape(moved.shape)
    return np.transpose(others, np.argsort(order)) * g


def _prod_grad_grad(n: Any, g: Tensor) -> tuple[Tensor, None, Tensor]:
    """From d(prod)/dx_i = prod / x_i; 0 where an element is zero, as in TensorFlow."""
    x, axis, dy = n.inputs
    mine = raw.ProdGrad(x, axis, dy)
    weighted = g * mine
    total = raw.Sum(weighted, axis, keep_dims=True)
    to_dy = raw.Sum(g * raw.ProdGrad(x, axis, raw.OnesLike(dy)), axis, keep_dims=True)
    return raw.DivNoNan(total - weighted, x), None, to_dy


def _declare(name: str, types: str, reduce: Any, grad: Any, samples: list[Sample]) -> Any:
    return op(
        name, f"input: {types}, axis: I; keep_dims: bool = False -> output: {types}", shape=_shape,
        make=_kernel(reduce), grad=grad, samples=samples,
    )  # fmt: skip


_sum_op = _declare("Sum", "N", _sum, _sum_grad, _SAMPLES)
_mean_op = _declare("Mean", "N", _mean, _mean_grad, _SAMPLES)
_max_op = _declare("Max", "R", _extreme(np.maximum, True), _extreme_grad, _SAMPLES)
_min_op = _declare("Min", "R", _extreme(np.minimum, False), _extreme_grad, _SAMPLES)
_norm_op = _declare("EuclideanNorm", "N", _norm, _norm_grad, _SAMPLES)
_prod_op = _declare("Prod", "N", _prod, _prod_grad, _SAMPLES)
_all_op = _declare(
    "All", "bool", lambda x, axes, keep: np.logical_and.reduce(x, axes, keepdims=keep), NO_GRAD("boolean"), _FLAGS
)
_any_op = _declare(
    "Any", "bool", lambda x, axes, keep: np.logical_or.reduce(x, axes, keepdims=keep), NO_GRAD("boolean"), _FLAGS
)
_prod_grad_op = op(
    "ProdGrad", "x: N, axis: I, g: N -> dx: N", shape=lambda n: [n.inputs[0].shape], kernel=_prod_grad_kernel,
    grad=_prod_grad_grad, samples=[Sample(mat(2, 3), ints(1), mat(2, 1, seed=3))],
)  # fmt: skip


def _kept_shape_kernel(shape: np.ndarray, axis: np.ndarray) -> np.ndarray:
    out = shape.copy()
    for a in axes_of(axis, len(shape)):
        out[a] = 1
    return out


_kept_shape_op = op(
    "KeptShape", "shape: int32, axis: I -> kept: int32", shape=lambda n: [n.inputs[0].shape],
    kernel=_kept_shape_kernel, grad=NO_GRAD("integer result"), samples=[Sample(ints(2, 3, 4), ints(-1, 0))],
)  # fmt: skip


def one_of(name: str, value: Any, old_name: str, old: Any) -> Any:
    """`value`, or `old` given under its deprecated name. Raises ValueError if both are given."""
    if old is None:
        return value
    if value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{name}'")
    return old


def _axis(x: Tensor, axis: Any) -> Any:
    if axis is not None:
        if isinstance(axis, Tensor):
            return axis
        if isinstance(axis, (int, np.integer)):
            return np.array(axis, np.int32)
        return np.array([int(a) for a in axis], np.int32) if isinstance(axis, (list, tuple)) else np.asarray(axis)
    known = dims(x)
    return raw.Range(0, raw.Rank(x), 1) if known is None else np.arange(len(known), dtype=np.int32)


def _reduction(builder: Any, what: str) -> Any:
    def reduce(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        x = convert_to_tensor(input_tensor)
        keep = one_of("keepdims", keepdims, "keep_dims", keep_dims)
        axis = one_of("axis", axis, "reduction_indices", reduction_indices)
        return _whole(builder(x, _axis(x, axis), keep_dims=bool(keep), name=name), axis, bool(keep))

    reduce.__doc__ = f"{what} over `axis` (an int, a list, None for all); `keepdims` keeps the axes with size 1."
    return reduce


reduce_sum = _reduction(_sum_op, "The sum")
reduce_mean = _reduction(_mean_op, "The mean (of integers cut off)")
reduce_max = _reduction(_max_op, "The largest element")
reduce_min = _reduction(_min_op, "The smallest element")
reduce_prod = _reduction(_prod_op, "The product")
reduce_all = _reduction(_all_op, "Whether all are true")
reduce_any = _reduction(_any_op, "Whether any is true")


def _whole(out: Tensor, axis: Any, keep: bool) -> Tensor:
    """`out`; it is known to be a scalar if all axes went, even of an input of unknown rank."""
    if axis is None and not keep:
        out.set_shape(())
    return out


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The square root of the sum of squares over `axis`; `keepdims` keeps the axes with size 1."""
    x = convert_to_tensor(input_tensor)
    return _whole(_norm_op(x, _axis(x, axis), keep_dims=bool(keepdims), name=name), axis, bool(keepdims))


def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """log(sum(exp(x))) over `axis`, safe for large x."""
    x = convert_to_tensor(input_tensor)
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    given = one_of("axis", axis, "reduction_indices", reduction_indices)
    axis = _axis(x, given)
    with x.graph.name_scope(name or "ReduceLogSumExp") as scope:
        top = _max_op(x, axis, keep_dims=True)
        top = raw.StopGradient(raw.Select(is_finite(top), top, raw.ZerosLike(top)))
        if keep:
            return raw.Add(log(_sum_op(exp(x - top), axis, keep_dims=True)), top, name=scope)
        low = raw.Reshape(top, raw.Shape(_sum_op(x, axis)))
        return _whole(raw.Add(log(_sum_op(exp(x - top), axis)), low, name=scope), given, keep)


def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The mean squared distance from the mean over `axis`; a real number. Raises TypeError for integers."""
    x = convert_to_tensor(input_tensor)
    if x.dtype.is_integer:
        raise TypeError(f"Input must be either real or complex. Received integer type {x.dtype}.")
    given, axis = axis, _axis(x, axis)
    with x.graph.name_scope(name or "reduce_variance"):
        mean = _mean_op(x, axis, keep_dims=True)
        if x.dtype.is_complex:
            away = x - mean
            squares = raw.Real(raw.Conj(away) * away, Tout=x.dtype.base_dtype.real_dtype)
        else:
            squares = raw.SquaredDifference(x, mean)
        return _whole(_mean_op(squares, axis, keep_dims=bool(keepdims)), given, keepdims)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The square root of the variance over `axis`."""
    x = convert_to_tensor(input_tensor)
    with x.graph.name_scope(name or "reduce_std"):
        return raw.Sqrt(reduce_variance(x, axis, keepdims))


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
    input: Any = None,
) -> Tensor:
    """The number of elements that are not zero over `axis`."""
    x = convert_to_tensor(one_of("input", input, "input_tensor", input_tensor))
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    given = one_of("axis", axis, "reduction_indices", reduction_indices)
    axis = _axis(x, given)
    with x.graph.name_scope(name or "count_nonzero"):
        hit = raw.Cast(raw.NotEqual(x, raw.ZerosLike(x)), DstT=dtypes.int64)
        total = _whole(_sum_op(hit, axis, keep_dims=keep), given, keep)
        to = dtypes.as_dtype(dtype)
        return total if to is dtypes.int64 else raw.Cast(total, DstT=to)
