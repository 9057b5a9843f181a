"""Shapes and their change: shape, reshape, transpose, concat, split, stack, pad, tile, broadcast, reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape, as_shape
from dtfzmq.base.shapes import broadcast as broadcast_shapes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same, scalar
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.static import constant_value, dims, full_dims, value_as_shape

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
_shape_n = op(
    "ShapeN", "input: T*; out_type: type = int32 -> output: out_type*n_input",
    shape=lambda n: [TensorShape([t.shape.ndims]) for t in n.inputs],
    make=lambda node, env: lambda *xs: tuple(np.array(x.shape, node.dtypes[0].np_dtype) for x in xs),
    grad=_SHAPES, samples=[Sample([mat(2, 3), mat(4)])],
)  # fmt: skip


def shape_like(n: Any, g: Tensor) -> Any:
    """The shape of the first input, a constant if known."""
    known = full_dims(n.inputs[0])
    return raw.Shape(n.inputs[0]) if known is None else np.array(known, np.int32)


def _reshape_shape(n: Any) -> list[TensorShape]:
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
    to = tuple(shape.tolist())
    try:
        if 0 in to and -1 in to and x.size == 0:
            raise ValueError
        return np.reshape(x, to)
    except ValueError:
        if to.count(-1) > 1:
            raise invalid(f"Only one input size may be -1, not both {to.index(-1)} and later in {list(to)}") from None
        fixed = int(np.prod([d for d in to if d >= 0], dtype=np.int64))
        if -1 in to:
            if x.size == 0 and 0 in to:
                return np.reshape(x, tuple(0 if d == -1 else d for d in to))
            raise invalid(
                f"Input to reshape is a tensor with {x.size} values, but the requested shape requires a multiple of {fixed}"
            ) from None
        raise invalid(f"Input to reshape is a tensor with {x.size} values, but the requested shape has {fixed}") from None


_reshape = op(
    "Reshape", "tensor: T, shape: I -> output: T", shape=_reshape_shape, kernel=_reshape_kernel,
    grad=lambda n, g: (raw.Reshape(g, shape_like(n, g)), None),
    samples=[Sample(mat(2, 6), ints(3, 4)), Sample(mat(2, 6), ints(-1, 2)), Sample(mat(1), np.zeros(0, np.int32))],
)  # fmt: skip


def _transpose_shape(n: Any) -> list[TensorShape]:
    known, perm = dims(n.inputs[0]), constant_value(n.inputs[1])
    if perm is not None and known is not None:
        if sorted(perm.tolist()) != list(range(len(known))):
            raise ValueError(f"perm must be a permutation of the axes of shape {n.inputs[0].shape}, not {perm.tolist()}.")
        return [TensorShape([known[i] for i in perm.tolist()])]
    return [TensorShape([None] * (len(known) if known is not None else len(perm)))] if (
        known is not None or perm is not None
    ) else [UNKNOWN]  # type: ignore[arg-type]  # one of the two is there


def _transpose_kernel(x: np.ndarray, perm: np.ndarray) -> np.ndarray:
    order = perm.tolist()
    if sorted(order) != list(range(x.ndim)):
        raise invalid(f"transpose expects a vector of size {x.ndim}, a permutation of the axes. But perm is {order}")
    return np.transpose(x, order)


def _inverse(perm: Tensor) -> Any:
    value = constant_value(perm)
    return raw.InvertPermutation(perm) if value is None else np.argsort(value).astype(np.int32)


_transpose = op(
    "Transpose", "x: T, perm: I -> y: T", shape=_transpose_shape, kernel=_transpose_kernel,
    grad=lambda n, g: (raw.Transpose(g, _inverse(n.inputs[1])), None),
    samples=[Sample(mat(2, 3, 4), ints(2, 0, 1)), Sample(mat(2, 3), ints(1, 0))],
)  # fmt: skip


def _invert_permutation_kernel(x: np.ndarray) -> np.ndarray:
    if sorted(x.tolist()) != list(range(len(x))):
        raise invalid(f"{x.tolist()} is not a permutation of 0..{len(x) - 1}")
    return np.argsort(x).astype(x.dtype)


_invert_permutation = op(
    "InvertPermutation", "x: I -> y: I", shape=same, kernel=_invert_permutation_kernel,
    grad=NO_GRAD("integer result"), samples=[Sample(ints(2, 0, 1))],
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
    a = int(np.ravel(axis)[0])
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
            raise ValueError(f"Can not squeeze dim[{a}], expected a dimension of 1, got {known[a]} in {n.inputs[0].shape}")
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
    a = int(axis)
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
        lengths = raw.Reshape(raw.Pack([raw.GatherV2(s, axis, 0) for s in shapes], axis=0), np.array([-1], np.int32))
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
        raise ValueError(f"Dimension size must be evenly divisible by {count} but is {size} for shape {n.inputs[1].shape}")
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
    if lengths.count(None) == 1 and whole is not None:
        lengths[lengths.index(None)] = whole - sum(s for s in lengths if s is not None)
    if None not in lengths and whole is not None and sum(s or 0 for s in lengths) != whole:
        raise ValueError(f"The sizes {sizes.tolist()} do not add up to the split dimension's size {whole}.")
    return [TensorShape([s if i == a else d for i, d in enumerate(known)]) for s in lengths]


def _split_v_kernel(node: Any, env: Any) -> Any:
    count = node.attrs["num_split"]

    def split(x: np.ndarray, sizes: np.ndarray, axis: np.ndarray) -> Any:
        lengths = sizes.tolist()
        whole = x.shape[int(axis)]
        if lengths.count(-1) == 1:
            lengths[lengths.index(-1)] = whole - sum(s for s in lengths if s >= 0)
        if sum(lengths) != whole or min(lengths, default=0) < 0:
            raise invalid(f"Determined shape must match the split dimension: {lengths} against size {whole}")
        parts = np.split(x, np.cumsum(lengths)[:-1], int(axis))
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


def _tile_shape(n: Any) -> list[TensorShape]:
    known, by = dims(n.inputs[0]), constant_value(n.inputs[1])
    if known is None:
        return [UNKNOWN if by is None else TensorShape([None] * by.size)]
    if by is None:
        return [TensorShape([None] * len(known))]
    if by.size != len(known):
        raise ValueError(f"multiples must have one number per axis of {n.inputs[0].shape}, not {by.tolist()}.")
    return [TensorShape([None if d is None else d * int(m) for d, m in zip(known, by)])]


def _tile_grad_kernel(g: np.ndarray, multiples: np.ndarray) -> np.ndarray:
    split: list[int] = []
    for d, m in zip(g.shape, multiples.tolist()):
        split += [m, d // m if m else 0]
    return np.add.reduce(g.reshape(split), tuple(range(0, len(split), 2)), dtype=g.dtype)


_tile = op(
    "Tile", "input: T, multiples: I -> output: T", shape=_tile_shape,
    kernel=lambda x, by: np.tile(x, tuple(by.tolist())),
    grad=lambda n, g: (raw.TileGrad(g, n.inputs[1]), None),
    samples=[Sample(mat(2, 3), ints(2, 2)), Sample(mat(2), ints(1))],
)  # fmt: skip
_tile_grad = op(
    "TileGrad", "grad: N, multiples: I -> output: N",
    shape=lambda n: [TensorShape([None] * n.inputs[0].shape.ndims) if n.inputs[0].shape.ndims is not None else UNKNOWN],
    kernel=_tile_grad_kernel, grad=lambda n, g: (raw.Tile(g, n.inputs[1]), None),
    samples=[Sample(mat(4, 6), ints(2, 3))],
)  # fmt: skip


def _broadcast_to_kernel(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    try:
        return np.broadcast_to(x, tuple(shape.tolist()))
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


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32, optimize: bool = True) -> Tensor:
    """The shape as an integer vector; a constant if it is known while building."""
    return _sizes(_shape_op, input, name or "Shape", out_type, optimize)


def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32, optimize: bool = True) -> Tensor:
    """The number of elements."""
    return _sizes(_size_op, input, name or "Size", out_type, optimize)


def _sizes(builder: Any, x: Any, name: str, out_type: Any, optimize: bool) -> Tensor:
    x = convert_to_tensor(x)
    to = dtypes.as_dtype(out_type)
    known = full_dims(x)
    if optimize and known is not None:
        value = known if builder is _shape_op else int(np.prod(known, dtype=np.int64))
        return convert_to_tensor(np.array(value, to.np_dtype), name=name)
    return builder(x, out_type=to, name=name)


def shape_n(input: Sequence[Any], out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """The shapes of several tensors."""
    return list(_shape_n(list(input), out_type=dtypes.as_dtype(out_type), name=name))


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of axes."""
    x = convert_to_tensor(input)
    known = dims(x)
    if known is not None:
        return convert_to_tensor(np.array(len(known), np.int32), name=name or "Rank")
    return _rank_op(x, name=name)


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1. Raises ValueError if the counts are known to differ."""
    return _reshape(tensor, int_vector(shape), name=name)


def int_vector(value: Any) -> Any:
    """Lists of ints, Dimensions and scalar tensors as something that converts to an integer vector."""
    if isinstance(value, TensorShape):
        return np.array([int(d) for d in value], np.int32)
    if isinstance(value, (list, tuple)):
        if any(isinstance(v, Tensor) for v in value):
            kinds = {v.dtype.base_dtype for v in value if isinstance(v, Tensor)}
            return raw.Pack([v if isinstance(v, Tensor) else np.array(int(v), next(iter(kinds)).np_dtype) for v in value])
        if all(hasattr(v, "__index__") for v in value):
            wide = any(int(v) > 2**31 - 1 for v in value)
            return np.array([int(v) for v in value], np.int64 if wide else np.int32)
    return value


def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """The axes in another order; reversed if `perm` is not given."""
    a = convert_to_tensor(a, name="a")
    if conjugate and a.dtype.is_complex:
        a = raw.Conj(a)
    if perm is None:
        known = dims(a)
        if known is not None:
            perm = np.arange(len(known) - 1, -1, -1, dtype=np.int32)
        else:
            last = raw.Rank(a)
            perm = last - 1 - raw.Range(0, last, 1)
    return _transpose(a, int_vector(perm), name=name)


def matrix_transpose(a: Any, name: str = "matrix_transpose") -> Tensor:
    """The last two axes swapped. The rank must be known while building."""
    a = convert_to_tensor(a)
    if a.shape.ndims is None or a.shape.ndims < 2:
        raise ValueError(f"Argument `a` should be a (batch) matrix with rank >= 2, not {a.shape}.")
    order = list(range(a.shape.ndims))
    order[-1], order[-2] = order[-2], order[-1]
    return _transpose(a, np.array(order, np.int32), name=name)


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """The permutation that undoes x."""
    return _invert_permutation(x, name=name)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """A new axis of size 1 before `axis` (-1: at the end)."""
    axis = one_of("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return _expand_dims(input, axis, name=name)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Without axes of size 1: all of them, or those in `axis`."""
    axis = one_of("axis", axis, "squeeze_dims", squeeze_dims)
    axes = [] if axis is None else [axis] if isinstance(axis, (int, np.integer)) else list(axis)
    return _squeeze(input, squeeze_dims=axes, name=name)


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Tensors joined along an axis. The order of before 1.0, concat(axis, values), is understood too."""
    if isinstance(values, (int, np.integer)) and isinstance(axis, (list, tuple, Tensor)):
        values, axis = axis, values
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        return raw.Identity(convert_to_tensor(values[0]), name=name)
    return _concat(list(values), axis if isinstance(axis, Tensor) else np.int32(axis), name=name)


def split(
    value: Any, num_or_size_splits: Any = None, axis: Any = 0, num: int | None = None, name: str = "split",
    split_dim: Any = None, num_split: Any = None,
) -> list[Tensor]:  # fmt: skip
    """Pieces along an axis: a number of equal ones, or one for each size in a list (-1: the rest).

    The order of before 1.0, split(axis, number, value), is understood too.
    """
    if isinstance(value, int) and isinstance(num_or_size_splits, int) and not isinstance(axis, int):
        value, num_or_size_splits, axis = axis, num_or_size_splits, value
    num_or_size_splits = one_of("num_or_size_splits", num_or_size_splits, "num_split", num_split)
    axis = axis if split_dim is None else split_dim
    if not isinstance(axis, Tensor):
        axis = np.int32(axis)
    if isinstance(num_or_size_splits, (int, np.integer)):
        return list(_split(axis, value, num_split=int(num_or_size_splits), name=name))
    sizes = convert_to_tensor(int_vector(num_or_size_splits))
    if num is None:
        known = dims(sizes)
        if known is None or len(known) != 1 or known[0] is None:
            raise ValueError(f"Cannot infer num from shape {num_or_size_splits}")
        num = known[0]
    return list(_split_v(value, sizes, axis, num_split=num, name=name))


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape along a new axis."""
    if axis == 0 and not isinstance(values, Tensor):
        items = list(values) if isinstance(values, (list, tuple)) else values
        if not isinstance(items, list) or not any(isinstance(v, Tensor) for v in items):
            try:
                return convert_to_tensor(items, name=name)
            except (TypeError, ValueError):
                pass
    return _pack(list(values), axis=axis, name=name)


def pack(values: Any, axis: int = 0, name: str = "pack") -> Tensor:
    """`stack` under its name of before 1.0."""
    return stack(values, axis, name)


parallel_stack = stack


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """The pieces along an axis, without it. Raises ValueError if their number is not known and not given."""
    value = convert_to_tensor(value)
    if num is None:
        known = dims(value)
        if known is not None and not -len(known) <= axis < len(known):
            raise ValueError(f"axis = {axis} not in [{-len(known)}, {len(known)})")
        if known is None or known[axis] is None:
            raise ValueError(f"Cannot infer num from shape {value.shape}")
        num = known[axis]
    return list(_unpack(value, num=num, axis=axis, name=name))


unpack = unstack


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeated `multiples[i]` times along axis i."""
    return _tile(input, int_vector(multiples), name=name)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeated to a shape, by the rules of broadcasting."""
    return _broadcast_to(input, int_vector(shape), name=name)


def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """The static shape of x combined with y. Raises ValueError if they cannot be."""
    return broadcast_shapes(as_shape(shape_x), as_shape(shape_y))
