"""Order: sorting, searching in what is sorted, the n-th smallest."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.array import transpose
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid

Array = np.ndarray


def _order(x: Array, descending: bool) -> Array:
    """The order along the last axis; equals keep theirs."""
    if x.ndim < 1:
        raise invalid("input must be at least 1-dim, got a scalar")
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    return x.shape[-1] - 1 - np.flip(np.argsort(np.flip(x, -1), axis=-1, kind="stable"), -1)


def _sort_kernel(node: Any, env: Any) -> Any:
    descending = node.attrs["descending"]

    def sort(x: Array) -> tuple[Array, Array]:
        order = _order(x, descending)
        return np.take_along_axis(x, order, -1), order.astype(np.int32)

    return sort


def _put(x: Array, order: Array) -> Array:
    out = np.zeros(x.shape, x.dtype)
    np.put_along_axis(out, order, x, -1)
    return out


_sort = op(
    "Sort", "values: R; descending: bool = False -> sorted: R, order: int32",
    shape=lambda n: [n.inputs[0].shape.with_rank_at_least(1)] * 2, make=_sort_kernel,
    grad=lambda n, g, order: (raw.Unsort(g, n.outputs[1]),),
    samples=[Sample(mat(2, 5)), Sample(mat(4), descending=True)],
)  # fmt: skip
_take_sorted = op(
    "TakeInOrder", "x: N, order: int32 -> y: N", shape=same, kernel=lambda x, order: np.take_along_axis(x, order, -1),
    grad=lambda n, g: (raw.Unsort(g, n.inputs[1]), None), samples=[Sample(mat(3), ints(2, 0, 1))],
)  # fmt: skip
_unsort = op(
    "Unsort", "x: N, order: int32 -> y: N", shape=same, kernel=_put,
    grad=lambda n, g: (raw.TakeInOrder(g, n.inputs[1]), None), samples=[Sample(mat(3), ints(2, 0, 1))],
)  # fmt: skip


def _bound_kernel(side: Any) -> Any:
    def make(node: Any, env: Any) -> Any:
        to = node.dtypes[0].np_dtype

        def bound(rows: Array, values: Array) -> Array:
            if rows.ndim != 2 or values.ndim != 2 or len(rows) != len(values):
                raise invalid(f"Leading dim_size of both tensors must match: {list(rows.shape)}, {list(values.shape)}")
            found = [np.searchsorted(row, value, side) for row, value in zip(rows, values)]
            return np.array(found, to).reshape(values.shape)

        return bound

    return make


_BOUND = "sorted_inputs: T, values: T; out_type: type = int32 -> output: out_type"
_BOUND_SAMPLES = [Sample(np.array([[1.0, 2, 2, 4]]), np.array([[2.0, 0, 9]])), Sample(ints(1, 3)[None], ints(2)[None])]


def _of_values(n: Any) -> list[TensorShape]:
    return [n.inputs[1].shape]


_lower_bound = op(
    "LowerBound", _BOUND, shape=_of_values, make=_bound_kernel("left"), grad=NO_GRAD("index"), samples=_BOUND_SAMPLES
)
_upper_bound = op(
    "UpperBound", _BOUND, shape=_of_values, make=_bound_kernel("right"), grad=NO_GRAD("index"), samples=_BOUND_SAMPLES
)


def _nth_shape(n: Any) -> list[TensorShape]:
    known = dims(n.inputs[0])
    return [UNKNOWN if known is None else TensorShape(known[:-1])]


def _nth_kernel(node: Any, env: Any) -> Any:
    backwards = node.attrs["reverse"]

    def nth(x: Array, n: Array) -> Array:
        at = int(n)
        if x.ndim < 1 or not 0 <= at < x.shape[-1]:
            raise invalid(f"Input must have last dimension > n = {at}, got shape {list(x.shape)}")
        at = x.shape[-1] - 1 - at if backwards else at
        return np.partition(x, at, -1)[..., at]

    return nth


def _nth_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    """Shared equally among the elements that are equal to the n-th."""
    x = n.inputs[0]
    hit = raw.Cast(raw.Equal(raw.ExpandDims(n.outputs[0], -1), x), DstT=x.dtype.base_dtype)
    share = g / raw.Sum(hit, ints(-1))
    return hit * raw.ExpandDims(share, -1), None


_nth_element = op(
    "NthElement", "input: R, n: int32; reverse: bool = False -> values: R", shape=_nth_shape, make=_nth_kernel,
    grad=_nth_grad, samples=[Sample(mat(2, 5), np.int32(1)), Sample(mat(4), np.int32(0), reverse=True)],
)  # fmt: skip


def _direction(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Argument `direction` should be one of 'ASCENDING' or 'DESCENDING'. Received: {direction}")
    return direction == "DESCENDING"


def _sorted(values: Any, axis: Any, direction: str, name: str | None, which: int) -> Tensor:
    descending = _direction(direction)
    values = convert_to_tensor(values, name="values")
    known = constant_value(axis) if isinstance(axis, Tensor) else axis
    if known is None:
        raise ValueError(f"axis must be known while the graph is built, not {axis}.")
    rank = values.shape.ndims
    axis = int(known)
    if axis == -1 or rank is not None and axis == rank - 1:
        return _sort(values, descending=descending, name=name)[which]
    if rank is None:
        return _sorted_along(values, axis, descending, name, which)
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for values of rank {rank}.")
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    with values.graph.name_scope(name or "sort"):
        return transpose(_sort(transpose(values, order), descending=descending)[which], order)


def _sorted_along(values: Tensor, axis: int, descending: bool, name: str | None, which: int) -> Tensor:
    """_sorted where the rank is not known yet: the axis is moved to the end and back."""
    with values.graph.name_scope(name or "sort"):
        rank = raw.Rank(values)
        at = raw.FloorMod(axis, rank) if axis < 0 else axis + raw.ZerosLike(rank)
        order = raw.ConcatV2([raw.Range(0, at, 1), raw.Range(at + 1, rank, 1), raw.ExpandDims(at, 0)], 0)
        found = _sort(transpose(values, order), descending=descending)[which]
        return transpose(found, raw.InvertPermutation(order))


def sort(values: Any, axis: Any = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """The values in order along an axis; direction is "ASCENDING" or "DESCENDING"."""
    return _sorted(values, axis, direction, name, 0)


def argsort(
    values: Any, axis: Any = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """The int32 indices that would sort the values along an axis. Equals always keep their order."""
    return _sorted(values, axis, direction, name, 1)


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """For each value the place in its row (the last axis) of `sorted_sequence` where it would keep the order.

    Before equals (side "left") or behind them ("right"). The axes before the last are the same in both.
    """
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left'. Received: `side` = '{side}'.")
    rows = convert_to_tensor(sorted_sequence, name="sorted_sequence")
    values = convert_to_tensor(values, dtype=None if isinstance(values, Tensor) else rows.dtype.base_dtype)
    builder = _lower_bound if side == "left" else _upper_bound
    with rows.graph.name_scope(name or "searchsorted"):
        flat = raw.Reshape(values, _last_apart(values))
        found = builder(raw.Reshape(rows, _last_apart(rows)), flat, out_type=dtypes.as_dtype(out_type))
        out = raw.Reshape(found, raw.Shape(values))
    out.set_shape(values.shape)
    return out


def _last_apart(x: Tensor) -> Tensor:
    last = raw.Slice(raw.Shape(x), raw.ExpandDims(raw.Rank(x) - 1, 0), ints(1))
    return raw.ConcatV2([ints(-1), last], 0)


def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """The element that would stand at place n (from the end, if reverse) if the last axis were sorted."""
    return _nth_element(input, n, reverse=reverse, name=name)
