"""The ops that join tensors and cut them up: concat, split, pack, unpack."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.arguments import single, vector
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid


def _concat_shape(n: Any) -> list[TensorShape]:
    parts, axis = n.inputs[:-1], constant_value(n.inputs[-1])
    rank = next((t.shape.ndims for t in parts if t.shape.ndims is not None), None)
    if rank is None:
        return [UNKNOWN]
    if axis is None:
        return [TensorShape([None] * rank)]
    a = int(axis)
    if not -rank <= a < rank or rank == 0:
        raise ValueError(f"concat axis {a} is out of range for tensors of rank {rank}.")
    a %= rank
    total: int | None = 0
    rest = TensorShape([None] * rank)
    for t in parts:
        known = dims(t)
        if known is None:
            total = None
            continue
        if len(known) != rank:
            raise ValueError(f"Shapes of all inputs must have one rank: {[str(p.shape) for p in parts]}.")
        size = known[a]
        total = None if total is None or size is None else total + size
        try:
            rest = rest.merge_with([None if i == a else d for i, d in enumerate(known)])
        except ValueError:
            raise ValueError(
                f"Dimension sizes besides axis {a} must be equal for concat: {[str(p.shape) for p in parts]}."
            ) from None
    return [TensorShape([total if i == a else d for i, d in enumerate(rest.dims_or_none or ())])]


def _concat_kernel(*inputs: np.ndarray) -> np.ndarray:
    *parts, axis = inputs
    a = single("concat_dim", axis)
    rank = parts[0].ndim
    if not -rank <= a < rank:
        raise invalid(f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got {a}")
    for i, p in enumerate(parts):
        if p.ndim != rank or any(d != e for j, (d, e) in enumerate(zip(p.shape, parts[0].shape)) if j != a % rank):
            raise invalid(
                "ConcatOp : Dimension mismatch between input shapes: "
                f"shape[0] = {list(parts[0].shape)} vs. shape[{i}] = {list(p.shape)}"
            )
    return np.concatenate(parts, a)


def _concat_grad(n: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    parts, axis = n.inputs[:-1], n.inputs[-1]
    if len(parts) == 1:
        return g, None
    a = constant_value(axis)
    sizes = [dims(t) for t in parts]
    if a is not None and all(s is not None and s[int(a)] is not None for s in sizes):
        lengths: Any = np.array([s[int(a)] for s in sizes if s is not None], np.int32)
    else:
        shapes = [raw.Shape(t) for t in parts]
        place = raw.FloorMod(axis, raw.Cast(raw.Rank(parts[0]), DstT=axis.dtype.base_dtype))
        lengths = raw.Reshape(raw.Pack([raw.GatherV2(s, place, 0) for s in shapes], axis=0), np.array([-1], np.int32))
    return (*raw.SplitV(g, lengths, axis, num_split=len(parts)), None)


_concat = op(
    "ConcatV2", "values: T*, axis: I -> output: T", shape=_concat_shape, kernel=_concat_kernel, grad=_concat_grad,
    samples=[
        Sample([mat(2, 3), mat(2, 1, seed=1)], np.int32(1)),
        Sample([mat(2, 3), mat(1, 3, seed=1), mat(2, 3, seed=2)], np.int32(0)),
        Sample([mat(2), mat(3, seed=1)], np.int32(-1)),
    ],
)  # fmt: skip


def _split_shape(n: Any) -> list[TensorShape]:
    count = n.attrs["num_split"]
    known, axis = dims(n.inputs[1]), constant_value(n.inputs[0])
    if known is None or axis is None:
        return [UNKNOWN if known is None else TensorShape([None] * len(known))] * count
    a = int(axis)
    if not -len(known) <= a < len(known):
        raise ValueError(f"split axis {a} is out of range for shape {n.inputs[1].shape}.")
    size = known[a]
    if size is not None and size % count:
        raise ValueError(f"Dimension size must be evenly divisible by {count} but is {size} in {n.inputs[1].shape}")
    part = None if size is None else size // count
    return [TensorShape([part if i == a % len(known) else d for i, d in enumerate(known)])] * count


def _split_kernel(node: Any, env: Any) -> Any:
    count = node.attrs["num_split"]

    def split(axis: np.ndarray, x: np.ndarray) -> Any:
        a = int(axis)
        if not -x.ndim <= a < x.ndim or x.shape[a] % count:
            raise invalid(
                f"Number of ways to split should evenly divide the split dimension, but got split_dim {a} "
                f"of shape {list(x.shape)} and num_split {count}"
            )
        return tuple(np.split(x, count, a)) if count > 1 else x

    return split


_split = op(
    "Split", "split_dim: int32, value: T; num_split: int -> output: T*num_split", shape=_split_shape,
    make=_split_kernel, grad=lambda n, *grads: (None, raw.ConcatV2(list(grads), n.inputs[0])),
    samples=[Sample(np.int32(1), mat(2, 6), num_split=3), Sample(np.int32(0), mat(2, 3), num_split=1)],
)  # fmt: skip


def _split_v_shape(n: Any) -> list[TensorShape]:
    count = n.attrs["num_split"]
    known, sizes, axis = dims(n.inputs[0]), constant_value(n.inputs[1]), constant_value(n.inputs[2])
    if known is None:
        return [UNKNOWN] * count
    if sizes is None or axis is None:
        return [TensorShape([None] * len(known))] * count
    a = int(axis) % max(1, len(known))
    lengths: list[int | None] = [None if int(s) < 0 else int(s) for s in sizes]
    whole = known[a]
    if lengths.count(None) > 1:
        raise ValueError(f"size_splits can only have one -1, not {sizes.tolist()}.")
    if lengths.count(None) == 1 and whole is not None:
        lengths[lengths.index(None)] = whole - sum(s for s in lengths if s is not None)
    if None not in lengths and whole is not None and sum(s or 0 for s in lengths) != whole:
        raise ValueError(f"The sizes {sizes.tolist()} do not add up to the split dimension's size {whole}.")
    return [TensorShape([s if i == a else d for i, d in enumerate(known)]) for s in lengths]


def _split_v_kernel(node: Any, env: Any) -> Any:
    count = node.attrs["num_split"]

    def split(x: np.ndarray, sizes: np.ndarray, axis: np.ndarray) -> Any:
        lengths, a = vector("size_splits", sizes, count), single("split_dim", axis)
        if not -x.ndim <= a < x.ndim:
            raise invalid(f"-input rank({-x.ndim}) <= split_dim < input rank ({x.ndim}), but got {a}")
        whole = x.shape[a]
        if lengths.count(-1) == 1:
            lengths[lengths.index(-1)] = whole - sum(s for s in lengths if s >= 0)
        if sum(lengths) != whole or min(lengths, default=0) < 0:
            raise invalid(f"Determined shape must match the split dimension: {lengths} against size {whole}")
        parts = np.split(x, np.cumsum(lengths)[:-1], a)
        return tuple(parts) if count > 1 else parts[0]

    return split


_split_v = op(
    "SplitV", "value: T, size_splits: I, split_dim: int32; num_split: int -> output: T*num_split",
    shape=_split_v_shape, make=_split_v_kernel,
    grad=lambda n, *grads: (raw.ConcatV2(list(grads), n.inputs[2]), None, None),
    samples=[Sample(mat(6, 2), ints(1, 2, 3), np.int32(0), num_split=3)],
)  # fmt: skip


def _pack_shape(n: Any) -> list[TensorShape]:
    shape = n.inputs[0].shape
    for t in n.inputs[1:]:
        try:
            shape = shape.merge_with(t.shape)
        except ValueError:
            raise ValueError(f"Shapes of all inputs must match: {[str(p.shape) for p in n.inputs]}.") from None
    known, a = shape.dims_or_none, n.attrs["axis"]
    if known is None:
        return [UNKNOWN]
    if not -len(known) - 1 <= a <= len(known):
        raise ValueError(f"axis = {a} not in [{-len(known) - 1}, {len(known) + 1})")
    a %= len(known) + 1
    return [TensorShape([*known[:a], len(n.inputs), *known[a:]])]


def _pack_kernel(node: Any, env: Any) -> Any:
    axis = node.attrs["axis"]

    def pack(*xs: np.ndarray) -> np.ndarray:
        try:
            return np.stack(xs, axis)
        except ValueError:
            raise invalid(f"Shapes of all inputs must match: {[list(np.shape(x)) for x in xs]}") from None

    return pack


_pack = op(
    "Pack", "values: T*; axis: int = 0 -> output: T", shape=_pack_shape, make=_pack_kernel,
    grad=lambda n, g: raw.Unpack(g, num=len(n.inputs), axis=n.attrs["axis"]),
    samples=[Sample([mat(2, 3), mat(2, 3, seed=1)]), Sample([mat(2), mat(2, seed=1)], axis=-1), Sample([mat()])],
)  # fmt: skip


def _unpack_shape(n: Any) -> list[TensorShape]:
    known, a, count = dims(n.inputs[0]), n.attrs["axis"], n.attrs["num"]
    if known is None:
        return [UNKNOWN] * count
    if not -len(known) <= a < len(known):
        raise ValueError(f"axis = {a} not in [{-len(known)}, {len(known)})")
    if known[a] not in (None, count):
        raise ValueError(f"Dimension must be {count} but is {known[a]} for shape {n.inputs[0].shape}")
    return [TensorShape([d for i, d in enumerate(known) if i != a % len(known)])] * count


def _unpack_kernel(node: Any, env: Any) -> Any:
    axis, count = node.attrs["axis"], node.attrs["num"]

    def unpack(x: np.ndarray) -> Any:
        if not -x.ndim <= axis < x.ndim or x.shape[axis] != count:
            raise invalid(f"Input shape axis {axis} must equal {count}, got shape {list(x.shape)}")
        moved = np.moveaxis(x, axis, 0)
        return tuple(moved) if count != 1 else moved[0]

    return unpack


_unpack = op(
    "Unpack", "value: T; num: int, axis: int = 0 -> output: T*num", shape=_unpack_shape, make=_unpack_kernel,
    grad=lambda n, *grads: (raw.Pack(list(grads), axis=n.attrs["axis"]),),
    samples=[Sample(mat(3, 2), num=3), Sample(mat(3, 2), num=2, axis=-1), Sample(mat(1, 2), num=1)],
)  # fmt: skip
