"""Norms, and values held within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.ops.complex import complex, conj, imag, real
from dtfzmq.ops.indexed_slices import IndexedSlices
from dtfzmq.ops.matmul import l2_loss
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of, reduce_max, reduce_sum


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """t, but not below the minimum nor above the maximum. Raises ValueError if the bounds would widen the shape."""
    values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
    with values.graph.name_scope(name or "clip_by_value") as scope:
        low = raw.Minimum(values, clip_value_max)
        values.shape.merge_with(low.shape)
        out = raw.Maximum(low, clip_value_min, name=scope)
        values.shape.merge_with(out.shape)
    return IndexedSlices(out, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else out


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """t scaled down so that its L2 norm (over `axes`) is at most clip_norm."""
    values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t, name="t")
    with values.graph.name_scope(name or "clip_by_norm"):
        total = reduce_sum(values * values, axes, keepdims=True)
        positive = raw.Greater(total, 0)
        safe = raw.Select(positive, total, raw.OnesLike(total))
        norm = raw.Select(positive, raw.Sqrt(safe), total)
        limit = convert_to_tensor(clip_norm, dtype=values.dtype.base_dtype)
        scaled = raw.Identity((values * limit) / raw.Maximum(norm, limit))
    return IndexedSlices(scaled, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else scaled


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Tensor | None:
    """The L2 norm of all tensors together, None for no tensor at all. None in the list is passed over."""
    tensors = [
        convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t) for t in _checked(t_list) if t is not None
    ]
    if not tensors:
        return None
    with tensors[0].graph.name_scope(name or "global_norm"):
        halves = []
        for t in tensors:
            with t.graph.colocate_with(t):
                halves.append(l2_loss(t))
        half = raw.Sum(raw.Pack(halves, axis=0), np.array([0], np.int32))
        return raw.Sqrt(half * convert_to_tensor(2.0, dtype=half.dtype), name="global_norm")


def _checked(t_list: Any) -> Sequence[Any]:
    if not isinstance(t_list, (list, tuple)):
        raise TypeError(f"t_list should be a sequence, not {t_list!r}.")
    return t_list


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """All tensors times clip_norm / max(global norm, clip_norm), and the norm; one that is not finite gives nan."""
    norm = global_norm(_checked(t_list), name) if use_norm is None else convert_to_tensor(use_norm)
    if norm is None:
        return list(t_list), convert_to_tensor(0.0)
    with norm.graph.name_scope(name or "clip_by_global_norm"):
        one = convert_to_tensor(1.0, dtype=norm.dtype.base_dtype)
        limit = convert_to_tensor(clip_norm, dtype=norm.dtype.base_dtype)
        scale = limit * raw.Minimum(one / norm, one / limit)
        finite = raw.Select(raw.IsFinite(norm), scale, convert_to_tensor(float("nan"), dtype=norm.dtype.base_dtype))
        out: list[Any] = []
        for t in t_list:
            if t is None:
                out.append(None)
                continue
            values = convert_to_tensor(t.values if isinstance(t, IndexedSlices) else t)
            with values.graph.colocate_with(values):
                factor = (
                    finite
                    if finite.dtype is values.dtype.base_dtype
                    else raw.Cast(finite, DstT=values.dtype.base_dtype)
                )
                scaled = raw.Identity(values * factor)
            out.append(IndexedSlices(scaled, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else scaled)
    return out, norm


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """t scaled down so that its L2 norm over its number of elements is at most clip_norm."""
    t = convert_to_tensor(t, name="t")
    with t.graph.name_scope(name or "clip_by_average_norm"):
        count = raw.Cast(raw.Size(t), DstT=t.dtype.base_dtype)
        inverse = raw.Rsqrt(reduce_sum(t * t, keepdims=True))
        limit = convert_to_tensor(clip_norm, dtype=t.dtype.base_dtype)
        return raw.Identity(t * limit * raw.Minimum(inverse * count, convert_to_tensor(1.0, dtype=t.dtype) / limit))


def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None, name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The norm along `axis` (of all elements if None): "euclidean", 1, 2, np.inf or another positive number.

    A pair of axes holds matrices: "fro", 1, 2 or np.inf, the norms of what they do to vectors.
    """
    tensor = convert_to_tensor(tensor, name="tensor")
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    matrix = isinstance(axis, (list, tuple)) and len(axis) == 2
    if matrix and ord not in ("euclidean", "fro", 1, 2, np.inf):
        raise ValueError(f"'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got {ord}")
    with tensor.graph.name_scope(name or "norm"):
        if matrix and ord == 2:
            return _spectral(tensor, axis, keep)
        if ord in ("euclidean", "fro", 2):
            return raw.Sqrt(reduce_sum(tensor * conj(tensor), axis, keep))
        kind = tensor.dtype.base_dtype
        size = raw.ComplexAbs(tensor, Tout=kind.real_dtype) if kind.is_complex else raw.Abs(tensor)
        if matrix:
            first, second = (axis[0], axis[1]) if ord == 1 else (axis[1], axis[0])
            out = reduce_max(reduce_sum(size, first, keepdims=True), second, keepdims=True)
            return out if keep else raw.Squeeze(out, squeeze_dims=list(axis))
        if ord == 1:
            return reduce_sum(size, axis, keep)
        if ord == np.inf:
            return reduce_max(size, axis, keep)
        if isinstance(ord, (int, float)) and ord > 0:
            power = convert_to_tensor(float(ord), dtype=size.dtype.base_dtype)
            return raw.Pow(reduce_sum(raw.Pow(size, power), axis, keep), 1.0 / power)
        raise ValueError(f"'ord' must be 'euclidean', 1, np.inf or a positive number, got {ord}")


def _spectral(tensor: Tensor, axis: Sequence[int], keep: bool) -> Tensor:
    """The largest singular value of the matrices in two axes."""
    rank = tensor.shape.ndims
    if rank is None:
        places = raw.FloorMod(np.array(axis, np.int32), raw.Rank(tensor))
        order: Any = raw.ConcatV2([raw.ListDiff(raw.Range(0, raw.Rank(tensor), 1), places)[0], places], 0)
        inner: list[Any] = [raw.Min(places, 0), raw.Max(places, 0)]
    else:
        inner = sorted(a % rank for a in axis)
        order = np.array([*(i for i in range(rank) if i not in inner), *(a % rank for a in axis)], np.int32)
    moved = raw.Transpose(tensor, order)
    top = reduce_max(raw.Svd(moved, Ts=tensor.dtype.base_dtype.real_dtype, compute_uv=False)[0], -1)
    for a in inner if keep else ():
        top = raw.ExpandDims(top, a)
    return top


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """x / sqrt(max(sum(x ** 2), epsilon)) along `axis`."""
    x = convert_to_tensor(x, name="x")
    axis = one_of("axis", axis, "dim", dim)
    with x.graph.name_scope(name or "l2_normalize") as scope:
        squares = raw.Square(x)
        if x.dtype.is_complex:
            squares = real(x * conj(x))
        total = reduce_sum(squares, axis, keepdims=True)
        floor = convert_to_tensor(epsilon, dtype=total.dtype.base_dtype)
        scale = raw.Rsqrt(raw.Maximum(total, floor))
        if x.dtype.is_complex:
            return complex(real(x) * scale, imag(x) * scale, name=scope)
        return raw.Mul(x, scale, name=scope)
