"""Parts of a tensor: slice, strided slice and [], gather, scatter, select, one-hot."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import broadcast
from dtfzmq.graph.static import constant_value, dims, value_as_shape
from dtfzmq.ops.arguments import scalar, sizes
from dtfzmq.ops.indexed_slices import rows
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import bits, ints, mat
from dtfzmq.ops.shaping import invalid, shape_like
from dtfzmq.ops.strided import StridedSpec


def _slice_shape(n: Any) -> list[TensorShape]:
    known, begin, sizes = dims(n.inputs[0]), constant_value(n.inputs[1]), constant_value(n.inputs[2])
    if sizes is None:
        count = (dims(n.inputs[2]) or (None,))[0] if known is None else len(known)
        return [UNKNOWN if count is None else TensorShape([None] * count)]
    if known is None:
        known = (None,) * sizes.size
    if sizes.size != len(known):
        raise ValueError(f"size must have one number per axis of {n.inputs[0].shape}, not {sizes.tolist()}.")
    out: list[int | None] = []
    for i, length in enumerate(sizes.tolist()):
        whole = known[i]
        if length >= 0:
            out.append(length)
            if whole is not None and begin is not None and begin[i] + length > whole:
                raise ValueError(f"A slice of {length} from {begin[i]} is out of range for axis {i} of size {whole}.")
        else:
            out.append(None if whole is None or begin is None else whole - int(begin[i]))
    return [TensorShape(out)]


def _slices(x: np.ndarray, begin: np.ndarray, size: np.ndarray) -> tuple[slice, ...]:
    if begin.shape != (x.ndim,) or size.shape != (x.ndim,):
        raise invalid(
            f"Expected begin and size arguments to be 1-D tensors of size {x.ndim}, but got shapes "
            f"{list(begin.shape)} and {list(size.shape)} instead."
        )
    out = []
    for i, (b, length, whole) in enumerate(zip(begin.tolist(), size.tolist(), x.shape)):
        length = whole - b if length == -1 else length
        if not 0 <= b <= whole or not 0 <= length <= whole - b:
            raise invalid(f"Expected size[{i}] in [0, {max(whole - b, 0)}], but got {length}")
        out.append(slice(b, b + length))
    return tuple(out)


def _slice_grad_kernel(g: np.ndarray, shape: np.ndarray, begin: np.ndarray) -> np.ndarray:
    out = np.zeros(tuple(shape.tolist()), g.dtype)
    out[tuple(slice(b, b + d) for b, d in zip(begin.tolist(), g.shape))] = g
    return out


_slice = op(
    "Slice", "input: T, begin: I, size: I -> output: T", shape=_slice_shape,
    kernel=lambda x, begin, size: x[_slices(x, begin, size)],
    grad=lambda n, g: (raw.SliceGrad(g, shape_like(n, g), n.inputs[1]), None, None),
    samples=[Sample(mat(3, 4), ints(1, 2), ints(2, 2)), Sample(mat(3, 4), ints(1, 0), ints(-1, 2))],
)  # fmt: skip
_slice_grad = op(
    "SliceGrad", "grad: N, shape: I, begin: I2 -> output: N", shape=lambda n: [value_as_shape(n.inputs[1])],
    kernel=_slice_grad_kernel,
    grad=lambda n, g: (raw.Slice(g, n.inputs[2], raw.Shape(n.inputs[0], out_type=n.inputs[2].dtype)), None, None),
    samples=[Sample(mat(2, 2), ints(3, 4), ints(1, 2))],
)  # fmt: skip

_MASKS = (
    "begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0"
)


def _masks(n: Any) -> dict[str, int]:
    return {k: n.attrs[k] for k in ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")}


def _strided_shape(n: Any) -> list[TensorShape]:
    known = dims(n.inputs[0])
    bounds = [constant_value(t) for t in n.inputs[1:4]]
    if known is None:
        return [UNKNOWN]
    if any(b is None for b in bounds):
        count = next((b.size for b in bounds if b is not None), None) or (dims(n.inputs[1]) or (None,))[0]
        if count is None or n.attrs["ellipsis_mask"] or n.attrs["new_axis_mask"]:
            return [UNKNOWN]
        gone = bin(n.attrs["shrink_axis_mask"]).count("1")
        free = [None] * (count - gone)
        return [TensorShape([*free, *known[count:]])]
    return [TensorShape(StridedSpec(n.attrs).static(known, *bounds))]


def _strided_kernel(node: Any, env: Any) -> Any:
    spec = StridedSpec(node.attrs)
    memo: list[Any] = [None, None]

    def strided(x: np.ndarray, begin: np.ndarray, end: np.ndarray, strides: np.ndarray) -> np.ndarray:
        key = (begin.tobytes(), end.tobytes(), strides.tobytes(), begin.ndim, end.ndim, strides.ndim, x.shape)
        if memo[0] != key:
            memo[1] = spec.index(x.shape, begin, end, strides)
            memo[0] = key
        return x[memo[1]]

    return strided


def _strided_grad(n: Any, g: Tensor) -> tuple[Tensor, None, None, None]:
    shape = shape_like(n, g)
    return raw.StridedSliceGrad(shape, *n.inputs[1:4], g, **_masks(n)), None, None, None


def _strided_grad_kernel(node: Any, env: Any) -> Any:
    spec = StridedSpec(node.attrs)

    def back(shape: Any, begin: np.ndarray, end: np.ndarray, strides: np.ndarray, dy: np.ndarray) -> np.ndarray:
        dy = np.asarray(dy)
        out = np.zeros(tuple(shape.tolist()), dy.dtype)
        out[spec.index(out.shape, begin, end, strides)] = dy
        return out

    return back


def _strided_grad_grad(n: Any, g: Tensor) -> tuple[None, None, None, None, Tensor]:
    return None, None, None, None, raw.StridedSlice(g, *n.inputs[1:4], **_masks(n))


_strided_slice = op(
    "StridedSlice", f"input: T, begin: I, end: I, strides: I; {_MASKS} -> output: T", shape=_strided_shape,
    make=_strided_kernel, grad=_strided_grad,
    samples=[
        Sample(mat(4, 5), ints(1, 0), ints(3, 5), ints(1, 2)),
        Sample(mat(4, 5), ints(-1), ints(0), ints(1), shrink_axis_mask=1),
        Sample(mat(4, 5), ints(0, 0), ints(0, 2), ints(1, 1), ellipsis_mask=1),
        Sample(mat(4, 5), ints(3, 0), ints(0, 0), ints(-1, 1), end_mask=2, new_axis_mask=0),
        Sample(mat(3), ints(0, 0), ints(0, 0), ints(1, 1), new_axis_mask=2, begin_mask=1, end_mask=1),
    ],
)  # fmt: skip
_strided_slice_grad = op(
    "StridedSliceGrad", f"shape: I, begin: I2, end: I2, strides: I2, dy: N; {_MASKS} -> output: N",
    shape=lambda n: [value_as_shape(n.inputs[0])], make=_strided_grad_kernel, grad=_strided_grad_grad,
    samples=[Sample(ints(4, 5), ints(1, 0), ints(3, 5), ints(1, 2), mat(2, 3))],
)  # fmt: skip


def _gather_shape(n: Any) -> list[TensorShape]:
    known, inner, axis = dims(n.inputs[0]), dims(n.inputs[1]), constant_value(n.inputs[2])
    if known is None or inner is None:
        return [UNKNOWN]
    if axis is None:
        return [TensorShape([None] * (len(known) - 1 + len(inner) - n.attrs["batch_dims"]))]
    a = int(axis)
    if not -len(known) <= a < len(known):
        raise ValueError(f"gather axis {a} is out of range for params of shape {n.inputs[0].shape}.")
    a %= len(known)
    batch = n.attrs["batch_dims"]
    if not 0 <= batch <= min(a, len(inner)):
        raise ValueError(f"batch_dims {batch} must be at most the axis {a} and the rank {len(inner)} of indices.")
    return [TensorShape([*known[:a], *inner[batch:], *known[a + 1 :]])]


def _gather_kernel(node: Any, env: Any) -> Any:
    batch = node.attrs["batch_dims"]
    return functools.partial(_gather_batches, batch=batch) if batch else _gathered


def _split(shape: tuple[int, ...], axis: int, batch: int) -> tuple[int, int, int, int]:
    """The shape in four: entries of the batch, what lies before the axis, along it, after it."""
    counts = [math.prod(part) for part in (shape[:batch], shape[batch:axis], shape[axis : axis + 1], shape[axis + 1 :])]
    return counts[0], counts[1], counts[2], counts[3]


def _gather_batches(params: np.ndarray, indices: np.ndarray, axis: np.ndarray, batch: int) -> np.ndarray:
    a = int(axis) % params.ndim
    _in_range(indices, params.shape[a])
    first = params.shape[:batch]
    if indices.shape[:batch] != first:
        raise invalid(f"params.shape[:{batch}] = {list(first)} is not indices.shape, {list(indices.shape)}, that far")
    blocks = params.reshape(_split(params.shape, a, batch))
    found = np.take_along_axis(blocks, indices.reshape(len(blocks), 1, -1, 1), 2)
    return found.reshape((*params.shape[:a], *indices.shape[batch:], *params.shape[a + 1 :]))


def _gathered(params: np.ndarray, indices: np.ndarray, axis: np.ndarray) -> np.ndarray:
    a = int(axis)
    indices = np.asarray(indices)
    _in_range(indices, params.shape[a])
    return np.take(params, indices, a)


def _in_range(indices: np.ndarray, size: int) -> None:
    """Raise InvalidArgumentError, naming the first, if an index is outside."""
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        flat = indices.reshape(-1)
        where = int(np.flatnonzero((flat < 0) | (flat >= size))[0])
        at = ",".join(str(i) for i in np.unravel_index(where, indices.shape)) if indices.ndim else ""
        raise invalid(f"indices{f'[{at}]' if at else ''} = {flat[where]} is not in [0, {size})")


def _gather_grad(n: Any, g: Tensor) -> tuple[Any, None, None]:
    params, indices, axis = n.inputs
    batch = n.attrs["batch_dims"]
    if axis_is(axis, 0) and not batch:
        return rows(g, indices, shape_like(n, g)), None, None
    return raw.GatherGrad(g, shape_like(n, g), indices, axis, batch_dims=batch), None, None


def axis_is(axis: Tensor, value: int) -> bool:
    """True if an axis is known while building to be `value`."""
    known = constant_value(axis)
    return known is not None and int(known) == value


def _gather_grad_kernel(node: Any, env: Any) -> Any:
    batch = node.attrs["batch_dims"]

    def back(g: np.ndarray, shape: np.ndarray, indices: np.ndarray, axis: np.ndarray) -> np.ndarray:
        out = np.zeros(tuple(shape.tolist()), g.dtype)
        blocks = out.reshape(_split(out.shape, int(axis) % out.ndim, batch))
        many, before, _, after = _split(out.shape, int(axis) % out.ndim, batch)
        at = np.asarray(indices).reshape(many, -1)
        moved = np.asarray(g).reshape(many, before, at.shape[1], after).transpose(0, 2, 1, 3)
        np.add.at(blocks.transpose(0, 2, 1, 3), (np.arange(many)[:, None], at), moved)
        return out

    return back


_gather = op(
    "GatherV2", "params: T, indices: I, axis: I2; batch_dims: int = 0 -> output: T", shape=_gather_shape,
    make=_gather_kernel, grad=_gather_grad,
    samples=[
        Sample(mat(4, 3), ints(2, 0, 2), np.int32(0)),
        Sample(mat(3, 4), ints(1, 3), np.int32(1)),
        Sample(mat(3, 4), np.array([[1, 3], [0, 0]], np.int64), np.int32(-1)),
        Sample(mat(4), np.int32(2), np.int32(0)),
        Sample(mat(2, 3, 4), np.array([[1, 3], [0, 0]], np.int32), np.int32(2), batch_dims=1),
    ],
)  # fmt: skip
_gather_grad_op = op(
    "GatherGrad", "grad: N, shape: I, indices: I2, axis: I3; batch_dims: int = 0 -> output: N",
    shape=lambda n: [value_as_shape(n.inputs[1])], make=_gather_grad_kernel,
    grad=lambda n, g: (raw.GatherV2(g, *n.inputs[2:], batch_dims=n.attrs["batch_dims"]), None, None, None),
    samples=[Sample(mat(3, 2), ints(3, 4), ints(1, 1), np.int32(1))],
)  # fmt: skip


def _gather_nd_shape(n: Any) -> list[TensorShape]:
    known, inner = dims(n.inputs[0]), dims(n.inputs[1])
    if known is None or inner is None or not inner or inner[-1] is None:
        return [UNKNOWN]
    if inner[-1] > len(known):
        raise ValueError(f"indices.shape[-1] must be <= params.rank, but are {inner[-1]} and {len(known)}")
    return [TensorShape([*inner[:-1], *known[inner[-1] :]])]


def _nd_index(indices: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    index = tuple(np.moveaxis(indices, -1, 0))
    if not index:  # each of the vectors points at the whole
        return (np.zeros(indices.shape[:-1], np.intp),)
    for i, part in enumerate(index):
        if part.size and (part.min() < 0 or part.max() >= shape[i]):
            flat = indices.reshape(-1, indices.shape[-1])
            bad = int(np.flatnonzero(((flat < 0) | (flat >= np.array(shape[: flat.shape[-1]]))).any(-1))[0])
            raise invalid(f"indices[{bad}] = {flat[bad].tolist()} does not index into shape {list(shape)}")
    return index


def _scatter_nd_kernel(indices: np.ndarray, updates: np.ndarray, shape: np.ndarray) -> np.ndarray:
    updates, to = np.asarray(updates), sizes("shape", shape)
    depth = indices.shape[-1] if indices.ndim else 1
    if depth > len(to) or updates.shape != (*indices.shape[:-1], *to[depth:]):
        raise invalid(
            "Must have updates.shape = indices.shape[:-1] + shape[indices.shape[-1]:], got updates.shape "
            f"{list(updates.shape)}, indices.shape {list(indices.shape)}, shape {list(to)}"
        )
    out = np.full(to, b"" if updates.dtype == object else 0, updates.dtype)
    np.add.at(out if depth else out[None], _nd_index(indices, out.shape), updates)
    return out


def _scatter_nd_shape(n: Any) -> list[TensorShape]:
    inner, given = dims(n.inputs[0]), dims(n.inputs[1])
    if inner and given is not None and not n.inputs[0].shape[:-1].is_compatible_with(given[: len(inner) - 1]):
        raise ValueError(f"Dimensions of indices {n.inputs[0].shape} must match those of updates {n.inputs[1].shape}.")
    return [value_as_shape(n.inputs[2])]


def _gather_nd_grad(n: Any, g: Tensor) -> tuple[Any, None]:
    """Rows that were picked by one index each stay rows."""
    params, indices = n.inputs
    known = dims(indices)
    if known is not None and len(known) == 2 and known[1] == 1:
        return rows(g, raw.Squeeze(indices, squeeze_dims=[-1]), shape_like(n, g)), None
    return raw.ScatterNd(indices, g, raw.Shape(params, out_type=indices.dtype.base_dtype)), None


def _gather_nd_kernel(params: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return (params if indices.shape[-1] else params[None])[_nd_index(indices, params.shape)]


_gather_nd = op(
    "GatherNd", "params: T, indices: I -> output: T", shape=_gather_nd_shape, kernel=_gather_nd_kernel,
    grad=_gather_nd_grad,
    samples=[
        Sample(mat(3, 4), np.array([[0, 1], [2, 3]], np.int32)),
        Sample(mat(3, 4), np.array([[2], [2]], np.int64)), Sample(mat(3), np.zeros((2, 0), np.int32)),
    ],
)  # fmt: skip
_scatter_nd = op(
    "ScatterNd", "indices: I, updates: T, shape: I -> output: T", shape=_scatter_nd_shape,
    kernel=_scatter_nd_kernel, grad=lambda n, g: (None, raw.GatherNd(g, n.inputs[0]), None),
    samples=[Sample(np.array([[0, 1], [2, 3], [0, 1]], np.int32), mat(3), ints(3, 4))],
)  # fmt: skip


def _one_hot_shape(n: Any) -> list[TensorShape]:
    known, depth, axis = dims(n.inputs[0]), constant_value(n.inputs[1]), n.attrs["axis"]
    if known is None:
        return [UNKNOWN]
    a = axis % (len(known) + 1)
    return [TensorShape([*known[:a], None if depth is None else int(depth), *known[a:]])]


def _one_hot_kernel(node: Any, env: Any) -> Any:
    axis, to = node.attrs["axis"], node.dtypes[0].np_dtype

    def one_hot(indices: np.ndarray, depth: np.ndarray, on: np.ndarray, off: np.ndarray) -> np.ndarray:
        indices = np.asarray(indices)
        a, number = axis % (indices.ndim + 1), scalar("depth", depth)
        if number < 0:
            raise invalid(f"depth must be non-negative, got: {number}")
        out = np.full((*indices.shape[:a], number, *indices.shape[a:]), scalar("off_value", off), to)
        blocks = out.reshape(math.prod(indices.shape[:a]), number, math.prod(indices.shape[a:]))
        places = indices.reshape(len(blocks), blocks.shape[2])
        before, after = np.nonzero((places >= 0) & (places < number))
        blocks[before, places[before, after], after] = scalar("on_value", on)
        return out

    return one_hot


_one_hot = op(
    "OneHot", "indices: I, depth: int32, on_value: T, off_value: T; axis: int = -1 -> output: T",
    shape=_one_hot_shape, make=_one_hot_kernel, grad=NO_GRAD("of integer indices"),
    samples=[
        Sample(ints(0, 2, -1), np.int32(3), np.float32(1), np.float32(0)),
        Sample(ints(0, 2), np.int32(3), np.float32(5), np.float32(-1), axis=0),
    ],
)  # fmt: skip


def _select_shape(n: Any) -> list[TensorShape]:
    condition, x, y = (t.shape for t in n.inputs)
    merged = x.merge_with(y)
    if condition.ndims not in (None, 0, 1) and merged.ndims is not None:
        merged = merged.merge_with(condition)
    elif condition.ndims == 1 and merged.ndims is not None and merged.ndims >= 1:
        merged = merged.merge_with(condition.concatenate(TensorShape([None] * (merged.ndims - 1))))
    return [merged]


def _select_kernel(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if condition.ndim == 0:
        return x if condition else y
    if condition.shape != x.shape:
        if condition.ndim != 1 or x.ndim < 1 or len(condition) != x.shape[0]:
            raise invalid(
                f"Inputs to operation Select must have the same size and shape. Input 0: {list(condition.shape)} "
                f"!= input 1: {list(x.shape)}"
            )
        condition = condition.reshape((-1,) + (1,) * (x.ndim - 1))
    if x.shape != y.shape:
        raise invalid(f"Inputs to operation Select must have the same shape, not {list(x.shape)} and {list(y.shape)}")
    return np.where(condition, x, y)


def _select_grad(n: Any, g: Tensor) -> tuple[None, Tensor, Tensor]:
    zeros = raw.ZerosLike(g)
    return None, raw.Select(n.inputs[0], g, zeros), raw.Select(n.inputs[0], zeros, g)


_select = op(
    "Select", "condition: bool, t: T, e: T -> output: T", shape=_select_shape, kernel=_select_kernel,
    grad=_select_grad,
    samples=[
        Sample(bits(2, 3), mat(2, 3), mat(2, 3, seed=1)),
        Sample(bits(2, seed=1), mat(2, 3), mat(2, 3, seed=1)),
        Sample(np.bool_(True), mat(2), mat(2, seed=1)),
    ],
)  # fmt: skip


def _where_kernel(x: np.ndarray) -> np.ndarray:
    if not np.ndim(x):
        raise invalid("Where needs input of rank 1 or more, got a scalar")
    return np.argwhere(x)


_where_op = op(
    "Where", "input: T -> index: int64", shape=lambda n: [TensorShape([None, n.inputs[0].shape.ndims])],
    kernel=_where_kernel, grad=NO_GRAD("index"), samples=[Sample(bits(2, 3))],
)  # fmt: skip


def _select_v2_grad(n: Any, g: Tensor) -> tuple[None, Tensor, Tensor]:
    zeros = raw.ZerosLike(g)
    both = raw.SelectV2(n.inputs[0], g, zeros), raw.SelectV2(n.inputs[0], zeros, g)
    return None, *(raw.SumToShape(part, raw.Shape(t)) for part, t in zip(both, n.inputs[1:]))


_select_v2 = op(
    "SelectV2", "condition: bool, t: T, e: T -> output: T", shape=broadcast, kernel=np.where, grad=_select_v2_grad,
    samples=[Sample(bits(2, 1), mat(3), mat(2, 3, seed=1)), Sample(bits(3), mat(), mat(2, 1, seed=1))],
)  # fmt: skip
