"""The ops that change a shape and nothing else: shape, reshape, transpose, squeeze, tile, broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import scalar
from dtfzmq.graph.static import constant_value, dims, full_dims, value_as_shape
from dtfzmq.ops.arguments import single, sizes, vector
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat

_SHAPES = NO_GRAD("depends on the shape alone")


def invalid(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


def _sized(fn: Any) -> Any:
    def make(node: Any, env: Any) -> Any:
        to = node.dtypes[0].np_dtype
        return lambda x: np.array(fn(x), to)

    return make


_shape_op = op(
    "Shape", "input: T; out_type: type = int32 -> output: out_type",
    shape=lambda n: [TensorShape([n.inputs[0].shape.ndims])], make=_sized(np.shape), grad=_SHAPES,
    samples=[Sample(mat(2, 3)), Sample(mat(), out_type=dtypes.int64)],
)  # fmt: skip
_size_op = op(
    "Size", "input: T; out_type: type = int32 -> output: out_type", shape=scalar, make=_sized(np.size), grad=_SHAPES,
    samples=[Sample(mat(2, 3)), Sample(mat(0, 3))],
)  # fmt: skip
_rank_op = op(
    "Rank", "input: T -> output: int32", shape=scalar, make=_sized(np.ndim), grad=_SHAPES, samples=[Sample(mat(2, 3))]
)


def _shape_n_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[0].np_dtype
    if len(node.dtypes) == 1:
        return lambda x: np.array(x.shape, to)
    return lambda *xs: tuple(np.array(x.shape, to) for x in xs)


_shape_n = op(
    "ShapeN", "input: T*; out_type: type = int32 -> output: out_type*n_input",
    shape=lambda n: [TensorShape([t.shape.ndims]) for t in n.inputs],
    make=_shape_n_kernel,
    grad=_SHAPES, samples=[Sample([mat(2, 3), mat(4)])],
)  # fmt: skip


def shape_like(n: Any, g: Tensor) -> Any:
    """The shape of the first input, a constant if known."""
    known = full_dims(n.inputs[0])
    return raw.Shape(n.inputs[0]) if known is None else np.array(known, np.int32)


def _reshape_shape(n: Any) -> list[TensorShape]:
    if n.inputs[1].shape.ndims not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is rank {n.inputs[1].shape.ndims} for the new shape of Reshape")
    wanted = value_as_shape(n.inputs[1])
    sizes, known = wanted.dims_or_none, full_dims(n.inputs[0])
    value = constant_value(n.inputs[1])
    if sizes is None or known is None:
        return [wanted]
    total = int(np.prod(known, dtype=np.int64))
    fixed = int(np.prod([d for d in sizes if d is not None], dtype=np.int64))
    holes = sizes.count(None)
    if holes == 0 and fixed != total or holes == 1 and value is not None and fixed and total % fixed:
        raise ValueError(
            f"Cannot reshape a tensor with {total} elements to shape {_text(sizes)} ({fixed} elements)"
            f" for input shape {n.inputs[0].shape}"
        )
    if holes == 1 and fixed:
        return [TensorShape([total // fixed if d is None else d for d in sizes])]
    return [wanted]


def _text(sizes: Sequence[Any]) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in sizes) + "]"


def _reshape_kernel(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    if shape.ndim != 1:
        raise invalid(f"shape must be a vector of integers, got shape {list(shape.shape)}")
    to = tuple(shape.tolist())
    for i, d in enumerate(to):
        if d < -1:
            raise invalid(f"Size {i} must be non-negative, not {d}")
    try:
        if 0 in to and -1 in to and x.size == 0:
            raise ValueError
        return np.reshape(x, to)
    except ValueError:
        if to.count(-1) > 1:
            raise invalid(f"Only one input size may be -1, not both {to.index(-1)} and later in {list(to)}") from None
        fixed = int(np.prod([d for d in to if d >= 0], dtype=np.int64))
        if -1 in to:
            if x.size == 0 and 0 in to:  # what is left of the sizes that are not 0
                rest = math.prod(d for d in x.shape if d) // math.prod(d for d in to if d > 0)
                return np.reshape(x, tuple(rest if d == -1 else d for d in to))
            raise invalid(
                f"Input to reshape is a tensor with {x.size} values, but the requested shape requires a multiple of "
                f"{fixed}"
            ) from None
        raise invalid(
            f"Input to reshape is a tensor with {x.size} values, but the requested shape has {fixed}"
        ) from None


_reshape = op(
    "Reshape", "tensor: T, shape: I -> output: T", shape=_reshape_shape, kernel=_reshape_kernel,
    grad=lambda n, g: (raw.Reshape(g, shape_like(n, g)), None),
    samples=[Sample(mat(2, 6), ints(3, 4)), Sample(mat(2, 6), ints(-1, 2)), Sample(mat(1), np.zeros(0, np.int32))],
)  # fmt: skip


def _transpose_shape(n: Any) -> list[TensorShape]:
    known, perm = dims(n.inputs[0]), constant_value(n.inputs[1])
    if perm is not None and known is not None:
        if sorted(a + len(known) if a < 0 else a for a in perm.tolist()) != list(range(len(known))):
            raise ValueError(f"perm must be a permutation of the axes of {n.inputs[0].shape}, not {perm.tolist()}.")
        return [TensorShape([known[i] for i in perm.tolist()])]
    count = len(known) if known is not None else None if perm is None else len(perm)
    return [UNKNOWN if count is None else TensorShape([None] * count)]


def _transpose_kernel(x: np.ndarray, perm: np.ndarray) -> np.ndarray:
    order = [a + x.ndim if a < 0 else a for a in perm.tolist()]
    if sorted(order) != list(range(x.ndim)):
        raise invalid(f"transpose expects a vector of size {x.ndim}, a permutation of the axes. But perm is {order}")
    return np.transpose(x, order)


def _inverse(perm: Tensor) -> Any:
    value = constant_value(perm)
    if value is None:
        return raw.InvertPermutation(raw.FloorMod(perm, raw.Size(perm, out_type=perm.dtype.base_dtype)))
    return np.argsort(value % max(1, value.size)).astype(np.int32)


_transpose = op(
    "Transpose", "x: T, perm: I -> y: T", shape=_transpose_shape, kernel=_transpose_kernel,
    grad=lambda n, g: (raw.Transpose(g, _inverse(n.inputs[1])), None),
    samples=[Sample(mat(2, 3, 4), ints(2, 0, 1)), Sample(mat(2, 3), ints(1, 0)), Sample(mat(2, 3, 4), ints(-2, -1, 0))],
)  # fmt: skip


def _invert_permutation_kernel(x: np.ndarray) -> np.ndarray:
    if sorted(x.tolist()) != list(range(len(x))):
        raise invalid(f"{x.tolist()} is not a permutation of 0..{len(x) - 1}")
    return np.argsort(x).astype(x.dtype)


_invert_permutation = op(
    "InvertPermutation", "x: I -> y: I", shape=lambda n: [n.inputs[0].shape.with_rank(1)],
    kernel=_invert_permutation_kernel, grad=NO_GRAD("integer result"), samples=[Sample(ints(2, 0, 1))],
)  # fmt: skip


def _expand_shape(n: Any) -> list[TensorShape]:
    known, axis = dims(n.inputs[0]), constant_value(n.inputs[1])
    if known is None:
        return [UNKNOWN]
    if axis is None:
        return [TensorShape([None] * (len(known) + 1))]
    a = int(np.ravel(axis)[0])
    if not -len(known) - 1 <= a <= len(known):
        raise ValueError(f"dim {a} not in the interval [{-len(known) - 1}, {len(known)}].")
    a %= len(known) + 1
    return [TensorShape([*known[:a], 1, *known[a:]])]


def _expand_kernel(x: np.ndarray, axis: np.ndarray) -> np.ndarray:
    a = single("dim", axis)
    if not -x.ndim - 1 <= a <= x.ndim:
        raise invalid(f"Tried to expand dim index {a} for tensor with {x.ndim} dimensions.")
    return np.expand_dims(x, a)


_expand_dims = op(
    "ExpandDims", "input: T, dim: I -> output: T", shape=_expand_shape, kernel=_expand_kernel,
    grad=lambda n, g: (raw.Reshape(g, shape_like(n, g)), None),
    samples=[Sample(mat(2, 3), np.int32(1)), Sample(mat(2), np.int32(-1)), Sample(mat(), np.int32(0))],
)  # fmt: skip


def _squeeze_shape(n: Any) -> list[TensorShape]:
    known, axes = dims(n.inputs[0]), n.attrs["squeeze_dims"]
    if known is None:
        return [UNKNOWN]
    if not axes:
        return [UNKNOWN if None in known else TensorShape([d for d in known if d != 1])]
    gone = set()
    for a in axes:
        if not -len(known) <= a < len(known):
            raise ValueError(f"squeeze axis {a} not in [{-len(known)}, {len(known)}).")
        if known[a] not in (None, 1):
            raise ValueError(
                f"Can not squeeze dim[{a}], expected a dimension of 1, got {known[a]} in {n.inputs[0].shape}"
            )
        gone.add(a % len(known))
    return [TensorShape([d for i, d in enumerate(known) if i not in gone])]


def _squeeze_kernel(node: Any, env: Any) -> Any:
    axes = tuple(node.attrs["squeeze_dims"] or ())

    def squeeze(x: np.ndarray) -> np.ndarray:
        if not axes:
            return np.squeeze(x)
        for a in axes:
            if not -x.ndim <= a < x.ndim or x.shape[a] != 1:
                raise invalid(f"Can not squeeze dim[{a}] of shape {list(x.shape)}, expected a dimension of 1")
        return np.squeeze(x, tuple({a % x.ndim for a in axes}))

    return squeeze


_squeeze = op(
    "Squeeze", "input: T; squeeze_dims: list(int) = [] -> output: T", shape=_squeeze_shape, make=_squeeze_kernel,
    grad=lambda n, g: (raw.Reshape(g, shape_like(n, g)),),
    samples=[Sample(mat(1, 3, 1)), Sample(mat(1, 3, 1), squeeze_dims=[-1]), Sample(mat(2, 3))],
)  # fmt: skip


def _tile_shape(n: Any) -> list[TensorShape]:
    known, by = dims(n.inputs[0]), constant_value(n.inputs[1])
    if known is None:
        return [UNKNOWN if by is None else TensorShape([None] * by.size)]
    if by is None:
        return [TensorShape([None] * len(known))]
    if by.size != len(known):
        raise ValueError(f"multiples must have one number per axis of {n.inputs[0].shape}, not {by.tolist()}.")
    return [TensorShape([0 if m == 0 else None if d is None else d * int(m) for d, m in zip(known, by)])]


def _tile_grad_kernel(g: np.ndarray, multiples: np.ndarray, shape: np.ndarray) -> np.ndarray:
    split: list[int] = []
    for m, d in zip(multiples.tolist(), shape.tolist()):
        split += [m, d]
    return np.add.reduce(g.reshape(split), tuple(range(0, len(split), 2)), dtype=g.dtype)


def _tile_kernel(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    multiples = vector("multiples", by, x.ndim)
    for i, m in enumerate(multiples):
        if m < 0:
            raise invalid(f"Expected multiples[{i}] >= 0, but got {m}")
    return np.tile(x, tuple(multiples))


_tile = op(
    "Tile", "input: T, multiples: I -> output: T", shape=_tile_shape, kernel=_tile_kernel,
    grad=lambda n, g: (raw.TileGrad(g, n.inputs[1], shape_like(n, g)), None),
    samples=[Sample(mat(2, 3), ints(2, 2)), Sample(mat(2), ints(1))],
)  # fmt: skip
_tile_grad = op(
    "TileGrad", "grad: N, multiples: I, shape: I2 -> output: N", shape=lambda n: [value_as_shape(n.inputs[2])],
    kernel=_tile_grad_kernel, grad=lambda n, g: (raw.Tile(g, n.inputs[1]), None, None),
    samples=[Sample(mat(4, 6), ints(2, 3), ints(2, 2))],
)  # fmt: skip


def _broadcast_to_kernel(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    try:
        return np.broadcast_to(x, sizes("shape", shape))
    except ValueError:
        raise invalid(f"Incompatible shapes: {list(np.shape(x))} vs. {shape.tolist()}") from None


def _broadcast_to_shape(n: Any) -> list[TensorShape]:
    to = value_as_shape(n.inputs[1])
    a, b = full_dims(n.inputs[0]), to.dims_or_none
    if a is not None and b is not None:
        tail = (None,) * (len(a) - len(b)) + b[max(0, len(b) - len(a)) :]
        if len(a) > len(b) or any(p not in (1, q) for p, q in zip(a, tail) if q is not None):
            raise ValueError(f"Incompatible shapes: {n.inputs[0].shape} cannot be broadcast to {to}.")
    return [to]


_broadcast_to = op(
    "BroadcastTo", "input: T, shape: I -> output: T", shape=_broadcast_to_shape, kernel=_broadcast_to_kernel,
    grad=lambda n, g: (raw.SumToShape(g, shape_like(n, g)), None),
    samples=[Sample(mat(3), ints(2, 3)), Sample(mat(2, 1), ints(4, 2, 3)), Sample(mat(), ints(2))],
)  # fmt: skip
