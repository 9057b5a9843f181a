"""Ops on the indices of sparse tensors, which have no gradient: order, union, slices, shapes.

What they say is applied to the values by gathers and sums over segments, which have.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, UNDEFINED, Sample, op
from dtfzmq.graph.sparse import row_major
from dtfzmq.graph.static import constant_value, dims, value_as_shape
from dtfzmq.ops.arguments import scalar, vector
from dtfzmq.ops.arguments import sizes as sizes_of
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid

Array = np.ndarray
INDEX = NO_GRAD("of indices")
_PLACES = TensorShape([None])


def grid(*rows: tuple[int, ...]) -> Array:
    """An int64 matrix of index rows."""
    return np.array(rows, np.int64).reshape(len(rows), -1)


def sizes(*numbers: int) -> Array:
    """An int64 vector."""
    return np.array(numbers, np.int64)


def flat(indices: Array, shape: Array) -> Array:
    """One number for each index row. Raises InvalidArgumentError for a row that is out of bounds."""
    if math.prod(shape.tolist()) >= 2**63:
        raise invalid(f"The shape {_row(shape)} has more elements than can be counted")
    bad = np.flatnonzero(np.any((indices < 0) | (indices >= shape), axis=1))
    if len(bad):
        row = int(bad[0])
        raise invalid(
            f"indices[{row}] = {_row(indices[row])} is out of bounds: need 0 <= index < {_row(shape)}"
        )
    strides = np.cumprod(np.concatenate([[1], shape[:0:-1]]))[::-1] if len(shape) else np.zeros(0, np.int64)
    return indices @ strides.astype(np.int64)


def check_ranks(indices: Array, values: Array, shape: Array) -> None:
    """Raise InvalidArgumentError unless these are a matrix, a vector and a vector."""
    if indices.ndim != 2:
        raise invalid(f"Input indices should be a matrix but received shape {list(indices.shape)}")
    if values.ndim != 1:
        raise invalid(f"Input values should be a vector but received shape {list(values.shape)}")
    if shape.ndim != 1:
        raise invalid(f"Input shape should be a vector but received shape {list(shape.shape)}")


def check_parts(indices: Array, values: Array, shape: Array) -> None:
    """Raise InvalidArgumentError unless these are a matrix, a vector and a vector that belong together."""
    check_ranks(indices, values, shape)
    if indices.shape != (len(values), len(shape)):
        raise invalid(
            f"Indices of shape {list(indices.shape)} do not go with {len(values)} values of a tensor of rank "
            f"{len(shape)}"
        )


def _row(numbers: Array) -> str:
    return "[" + ",".join(str(int(n)) for n in numbers) + "]"


def check_order(indices: Array, keys: Array) -> None:
    """Raise InvalidArgumentError unless the rows with these keys are in order and distinct."""
    bad = np.flatnonzero(keys[1:] <= keys[:-1])
    if len(bad):
        row = int(bad[0]) + 1
        if keys[row] == keys[row - 1]:
            raise invalid(f"indices[{row}] = {_row(indices[row])} is repeated")
        raise invalid(
            f"indices[{row}] = {_row(indices[row])} is out of order. Many sparse ops require sorted indices; "
            "use `tf.sparse.reorder` to create a correctly ordered copy."
        )


_ROWS = grid((1, 0), (0, 2), (0, 0))
sparse_order = op(
    "SparseOrder", "indices: int64 -> order: int64", shape=lambda n: [TensorShape([(dims(n.inputs[0]) or (None,))[0]])],
    kernel=lambda indices: row_major(indices).astype(np.int64), grad=INDEX, samples=[Sample(_ROWS)],
)  # fmt: skip


def _checked_kernel(node: Any, env: Any) -> Any:
    sized = node.attrs["sized"]

    def checked(indices: Array, values: Array, shape: Array) -> Array:
        check_parts(indices, values, shape)
        if sized:
            sizes_of("dense_shape", shape)
        return indices

    return checked


sparse_checked = op(
    "SparseChecked", "indices: int64, values: T, shape: int64; sized: bool = False -> output: int64",
    shape=lambda n: [n.inputs[0].shape], make=_checked_kernel, grad=INDEX,
    samples=[
        Sample(_ROWS, mat(3), sizes(2, 3), sized=True), Sample(_ROWS, mat(3), sizes(2, -3)),
        Sample(_ROWS, mat(3), sizes(2, -3), sized=True, fails=errors.InvalidArgumentError),
        Sample(_ROWS, mat(2), sizes(2, 3), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def _union(a: Array, b: Array, shape: Array, other: Array) -> tuple[Array, Array, Array]:
    if shape.tolist() != other.tolist():
        raise invalid(f"Operands' shapes do not match: {_row(shape)} and {_row(other)}")
    both = np.concatenate([a, b])
    keys = flat(both, shape)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    place = place.reshape(-1).astype(np.int64)
    return both[first], place[: len(a)], place[len(a) :]


def _union_shape(n: Any) -> list[TensorShape]:
    a, b = (dims(t) or (None, None) for t in n.inputs[:2])
    return [TensorShape([None, a[1]]), TensorShape([a[0]]), TensorShape([b[0]])]


sparse_union = op(
    "SparseUnion",
    "a_indices: int64, b_indices: int64, a_shape: int64, b_shape: int64 "
    "-> indices: int64, a_place: int64, b_place: int64",
    shape=_union_shape, kernel=_union, grad=INDEX,
    samples=[
        Sample(_ROWS, grid((0, 0), (1, 1)), sizes(2, 3), sizes(2, 3)),
        Sample(_ROWS, grid((0, 0), (1, 1)), sizes(2, 3), sizes(2, 4), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def _inside(indices: Array, start: Array, size: Array) -> Array:
    for what, numbers in (("start", start), ("size", size)):
        if numbers.shape != (indices.shape[1],):
            raise invalid(f"Expected {what} to be a vector of length {indices.shape[1]}, got {list(numbers.shape)}")
    if size.size and size.min() < 0:
        raise invalid(f"Expected sizes >= 0, got {_row(size)}")
    within = np.all((indices >= start) & (indices < start + size), axis=1)
    return np.flatnonzero(within).astype(np.int64)


sparse_inside = op(
    "SparseInside", "indices: int64, start: int64, size: int64 -> places: int64", shape=lambda n: [_PLACES],
    kernel=_inside, grad=INDEX, samples=[Sample(_ROWS, sizes(0, 0), sizes(1, 3))],
)  # fmt: skip


def _reshape(indices: Array, shape: Array, wanted: Array) -> tuple[Array, Array]:
    total = math.prod(shape.tolist())
    for i, d in enumerate(vector("new_shape", wanted)):
        if d < -1:
            raise invalid(f"size {i} must be non-negative, not {d}")
    new = wanted.astype(np.int64)
    open_axes = np.flatnonzero(new == -1)
    if len(open_axes) > 1:
        raise invalid("only one output dimension may be -1")
    if len(open_axes):
        rest = int(np.prod(new[new != -1], dtype=np.int64))
        if not rest or total % rest:
            raise invalid(f"Input to reshape is a SparseTensor with {total} dense values, not a multiple of {rest}")
        new = np.where(new == -1, total // rest, new)
    if int(np.prod(new, dtype=np.int64)) != total:
        raise invalid(
            f"Input to reshape is a tensor with {total} dense values, but the requested shape has "
            f"{int(np.prod(new, dtype=np.int64))}. input_shape={_row(shape)} output_shape={_row(new)}"
        )
    keys = flat(indices, shape)
    rows = np.stack(np.unravel_index(keys, [int(n) for n in new]), 1) if len(new) else np.zeros((len(keys), 0))
    return rows.astype(np.int64), new


def _reshape_shape(n: Any) -> list[TensorShape]:
    count, rank = (dims(n.inputs[0]) or (None,))[0], (dims(n.inputs[2]) or (None,))[0]
    return [TensorShape([count, rank]), TensorShape([rank])]


sparse_reshaped = op(
    "SparseReshape", "indices: int64, shape: int64, new_shape: int64 -> output_indices: int64, output_shape: int64",
    shape=_reshape_shape, kernel=_reshape, grad=INDEX, samples=[Sample(_ROWS, sizes(2, 3), sizes(3, -1))],
)  # fmt: skip


def _groups(indices: Array, shape: Array) -> tuple[Array, Array]:
    """For each element the number of its row (all axes but the last), and how many rows there are."""
    return flat(indices[:, :-1], shape[:-1]), np.asarray(np.prod(shape[:-1], dtype=np.int64))


sparse_groups = op(
    "SparseGroups", "indices: int64, shape: int64 -> rows: int64, count: int64", kernel=_groups, grad=INDEX,
    shape=lambda n: [TensorShape([(dims(n.inputs[0]) or (None,))[0]]), TensorShape([])],
    samples=[Sample(_ROWS, sizes(2, 3))],
)  # fmt: skip


def _fill_rows(indices: Array, values: Array, shape: Array, default: Array) -> tuple[Array, ...]:
    check_parts(indices, values, shape)
    scalar("default_value", default)
    rows = int(shape[0])
    if len(indices) and (indices[:, 0].min() < 0 or indices[:, 0].max() >= rows):
        raise invalid(f"An index is out of bounds: need 0 <= indices[..., 0] < {rows}")
    empty = np.ones(rows, bool)
    empty[indices[:, 0]] = False
    added = np.zeros((int(empty.sum()), indices.shape[1]), np.int64)
    added[:, 0] = np.flatnonzero(empty)
    every = np.concatenate([indices, added])
    filled = np.concatenate([values, np.full(len(added), default, values.dtype)])
    order = np.argsort(every[:, 0], kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return every[order], filled[order], empty, place[: len(indices)]


def _fill_rows_shape(n: Any) -> list[TensorShape]:
    known: Any = dims(n.inputs[0]) or (None, None)
    rows: Any = value_as_shape(n.inputs[2]).dims_or_none or (None,)
    return [TensorShape([None, known[1]]), _PLACES, TensorShape([rows[0]]), TensorShape([known[0]])]


def _fill_rows_grad(n: Any, gi: Any, g: Tensor, ge: Any, gp: Any) -> tuple[None, Tensor, None, Tensor]:
    mine = raw.GatherV2(g, n.outputs[3], 0)
    return None, mine, None, raw.Sum(g, ints(0)) - raw.Sum(mine, ints(0))


fill_empty_rows = op(
    "SparseFillEmptyRows",
    "indices: int64, values: T, dense_shape: int64, default_value: T -> output_indices: int64, output_values: T, "
    "empty_row_indicator: bool, reverse_index_map: int64",
    shape=_fill_rows_shape, kernel=_fill_rows, grad=_fill_rows_grad,
    samples=[Sample(grid((0, 1), (2, 0)), mat(2), sizes(4, 3), mat())],
)  # fmt: skip


def _to_dense_kernel(node: Any, env: Any) -> Any:
    validate = node.attrs["validate_indices"]

    def to_dense(indices: Array, shape: Array, values: Array, default: Array) -> Array:
        rank = len(shape)
        rows: Any = indices.reshape(-1, 1) if indices.ndim < 2 else indices
        if rows.shape[1] != rank:
            raise invalid(f"output_shape has {rank} elements, but an index {rows.shape[1]}")
        if values.ndim and values.shape != (len(rows),):
            raise invalid(f"sparse_values has incorrect shape {list(values.shape)}, should be [] or [{len(rows)}]")
        scalar("default_value", default)
        keys = flat(rows, shape)
        if validate:
            check_order(rows, keys)
        out = np.full(tuple(shape.tolist()), default, values.dtype)
        out.reshape(-1)[keys] = values
        return out

    return to_dense


def _to_dense_shape(n: Any) -> list[TensorShape]:
    return [value_as_shape(n.inputs[1])]


def _to_dense_grad(n: Any, g: Tensor) -> tuple[None, None, Tensor, Tensor]:
    indices, _, values, _ = n.inputs
    known = dims(indices)
    if known is None or len(known) != 2:
        indices = raw.Reshape(indices, raw.Pack([np.int32(-1), raw.Size(n.inputs[1])], axis=0))
    taken = raw.GatherNd(g, indices)
    axes = raw.Range(0, raw.Rank(g), 1)
    total = raw.Sum(taken, ints(0))
    return None, None, total if values.shape.ndims == 0 else taken, raw.Sum(g, axes) - total


sparse_to_dense_op = op(
    "SparseToDense",
    "sparse_indices: I, output_shape: I, sparse_values: T, default_value: T; validate_indices: bool = True -> dense: T",
    shape=_to_dense_shape, make=_to_dense_kernel, grad=_to_dense_grad,
    samples=[
        Sample(grid((0, 1), (1, 0)), sizes(2, 3), mat(2), mat()), Sample(sizes(0, 2), sizes(4), mat(), mat(seed=1)),
        Sample(np.int64(1), sizes(3), mat(), mat(seed=1)),
    ],
)  # fmt: skip


def _dense_product_kernel(node: Any, env: Any) -> Any:
    adjoint_a, adjoint_b = node.attrs["adjoint_a"], node.attrs["adjoint_b"]

    def product(indices: Array, values: Array, shape: Array, b: Array) -> Array:
        if b.ndim != 2 or len(shape) != 2:
            raise invalid("Both factors must be matrices")
        check_parts(indices, values, shape)
        flat(indices, shape)
        rows, columns, height, depth = indices[:, 0], indices[:, 1], int(shape[0]), int(shape[1])
        if adjoint_a:
            rows, columns, height, depth = columns, rows, depth, height
            values = values.conj() if values.dtype.kind == "c" else values
        b = (b.conj() if b.dtype.kind == "c" else b).T if adjoint_b else b
        if len(b) != depth:
            raise invalid(f"Cannot multiply A and B because inner dimension does not match: {depth} vs. {len(b)}")
        out = np.zeros((height, b.shape[1]), b.dtype)
        np.add.at(out, rows, values[:, None] * b[columns])
        return out

    return product


def _dense_product_shape(n: Any) -> list[TensorShape]:
    a: Any = value_as_shape(n.inputs[2]).dims_or_none or (None, None)
    b: Any = dims(n.inputs[3]) or (None, None)
    rows, inner = (a[1], a[0]) if n.attrs["adjoint_a"] else (a[0], a[1])
    also, columns = (b[1], b[0]) if n.attrs["adjoint_b"] else (b[0], b[1])
    if inner is not None and also is not None and inner != also:
        raise ValueError(f"Dimensions must be equal, but are {inner} and {also}")
    return [TensorShape([rows, columns])]


def _dense_product_grad(n: Any, g: Tensor) -> tuple[None, Tensor, None, Tensor]:
    indices, values, shape, b = n.inputs
    adjoint_a, adjoint_b = n.attrs["adjoint_a"], n.attrs["adjoint_b"]
    to_b = raw.SparseTensorDenseMatMul(indices, values, shape, g, adjoint_a=not adjoint_a, adjoint_b=False)
    columns = (ints(1), ints(0)) if adjoint_a else (ints(0), ints(1))
    row, column = (raw.Squeeze(raw.GatherV2(indices, c, 1), squeeze_dims=[1]) for c in columns)
    right = _adjoint(b) if adjoint_b else b
    right = raw.Conj(right) if right.dtype.is_complex else right
    to_values = raw.Sum(raw.GatherV2(g, row, 0) * raw.GatherV2(right, column, 0), ints(1))
    if adjoint_a and to_values.dtype.is_complex:
        to_values = raw.Conj(to_values)
    return None, to_values, None, _adjoint(to_b) if adjoint_b else to_b


def _adjoint(x: Tensor) -> Tensor:
    turned = raw.Transpose(x, ints(1, 0))
    return raw.Conj(turned) if turned.dtype.is_complex else turned


_FACTOR = (grid((0, 1), (1, 0), (1, 2)), mat(3), sizes(2, 3))
dense_product = op(
    "SparseTensorDenseMatMul",
    "a_indices: int64, a_values: N, a_shape: int64, b: N; "
    "adjoint_a: bool = False, adjoint_b: bool = False -> product: N",
    shape=_dense_product_shape, make=_dense_product_kernel, grad=_dense_product_grad,
    samples=[
        Sample(*_FACTOR, mat(3, 2, seed=4)), Sample(*_FACTOR, mat(2, 2, seed=4), adjoint_a=True),
        Sample(*_FACTOR, mat(4, 3, seed=4), adjoint_b=True),
    ],
)  # fmt: skip


def _extreme_kernel(node: Any, env: Any) -> Any:
    keep = node.attrs["keep_dims"]

    def largest(indices: Array, values: Array, shape: Array, axes: Array) -> Array:
        rank = len(shape)
        gone = {int(a) % rank for a in np.asarray(axes).reshape(-1).tolist()}
        kept = [i for i in range(rank) if i not in gone]
        size = shape[kept]
        keys = flat(indices[:, kept], size)
        count = int(np.prod(size, dtype=np.int64))
        out = np.zeros(count, values.dtype)
        order = np.argsort(keys, kind="stable")
        if len(keys):
            starts = np.flatnonzero(np.concatenate([[True], keys[order][1:] != keys[order][:-1]]))
            out[keys[order][starts]] = np.maximum.reduceat(values[order], starts)
        full = [1 if i in gone else int(shape[i]) for i in range(rank)]
        return out.reshape(full if keep else size)

    return largest


def _extreme_shape(n: Any) -> list[TensorShape]:
    known, axes = value_as_shape(n.inputs[2]).dims_or_none, constant_value(n.inputs[3])
    if known is None or axes is None:
        return [TensorShape(None)]
    gone = {int(a) % len(known) for a in np.asarray(axes).reshape(-1).tolist()}
    if n.attrs["keep_dims"]:
        return [TensorShape([1 if i in gone else d for i, d in enumerate(known)])]
    return [TensorShape([d for i, d in enumerate(known) if i not in gone])]


reduce_max_op = op(
    "SparseReduceMax",
    "indices: int64, values: R, shape: int64, axes: int32; keep_dims: bool = False -> output: R",
    shape=_extreme_shape, make=_extreme_kernel, grad=UNDEFINED("as in TensorFlow"),
    samples=[Sample(*_FACTOR, ints(1)), Sample(*_FACTOR, ints(0, 1), keep_dims=True)],
)  # fmt: skip
