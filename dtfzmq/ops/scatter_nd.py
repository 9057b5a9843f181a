"""Scatters by multi-index: into a tensor, giving another; into a variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat

Change = Callable[[Any, Any, Any], None]


def _place(indices: Any, updates: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """`indices` as numpy takes them. Raises InvalidArgumentError for one outside, or updates of another shape."""
    depth = indices.shape[-1] if indices.ndim else 0
    if depth > len(shape):
        raise errors.InvalidArgumentError(
            None, None, f"The last dimension of indices, {depth}, is larger than the rank of {list(shape)}."
        )
    want = (*indices.shape[:-1], *shape[depth:])
    if np.shape(updates) != want:
        raise errors.InvalidArgumentError(
            None, None,
            "Must have updates.shape = indices.shape[:-1] + params.shape[indices.shape[-1]:], got updates.shape: "
            f"{list(np.shape(updates))}, indices.shape: {list(indices.shape)}, params.shape: {list(shape)}",
        )  # fmt: skip
    bad = np.argwhere(((indices < 0) | (indices >= np.array(shape[:depth], np.int64))).any(-1))
    if len(bad):
        where = tuple(bad[0])
        raise errors.InvalidArgumentError(
            None, None,
            f"indices{[int(i) for i in where]} = {indices[where].tolist()} does not index into shape {list(shape)}",
        )  # fmt: skip
    return tuple(np.moveaxis(indices, -1, 0))


def _put(array: Any, place: Any, updates: Any) -> None:
    array[place] = updates


def _at(ufunc: np.ufunc) -> Change:
    return lambda array, place, updates: ufunc.at(array, place, updates)


def _into_tensor(change: Change) -> Callable[..., Any]:
    def kernel(tensor: Any, indices: Any, updates: Any) -> Any:
        out = np.array(tensor)
        change(out, _place(np.asarray(indices), updates, out.shape), updates)
        return out

    return kernel


def _into_variable(change: Change) -> Callable[..., Any]:
    def kernel(ref: Any, indices: Any, updates: Any) -> Any:
        return ref.modify(lambda array: change(array, _place(np.asarray(indices), updates, array.shape), updates))

    return kernel


def _update_grad(n: Operation, g: Any) -> Any:
    updates = raw.GatherNd(g, n.inputs[1])
    return raw.TensorScatterUpdate(g, n.inputs[1], raw.ZerosLike(n.inputs[2])), None, updates


def _extreme_grad(n: Operation, g: Any) -> Any:
    """The gradient goes where the result came from, in equal parts if from several places."""
    tensor, indices, updates = n.inputs
    kind = g.dtype.base_dtype
    of_tensor = raw.Cast(raw.Equal(tensor, n.outputs[0]), DstT=kind)
    of_updates = raw.Cast(raw.Equal(updates, raw.GatherNd(n.outputs[0], indices)), DstT=kind)
    count = raw.TensorScatterAdd(of_tensor, indices, of_updates)
    share = raw.RealDiv(g, count)
    return raw.Mul(share, of_tensor), None, raw.Mul(raw.GatherNd(share, indices), of_updates)


_IN = np.array([[0], [2]], np.int32)
_DEEP = np.array([[0, 1], [2, 0]], np.int64)
_SAMPLES = [Sample(mat(3, 2), _IN, mat(2, 2, seed=1)), Sample(mat(3, 2), _DEEP, mat(2, seed=1))]


def _tensor_op(name: str, kind: str, change: Change, grad: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = op(
        name, f"tensor: {kind}, indices: I, updates: {kind} -> output: {kind}", shape=same, kernel=_into_tensor(change),
        grad=grad, samples=_SAMPLES,
    )  # fmt: skip
    return made


def _signed_grad(sign: int) -> Callable[..., Any]:
    def grad(n: Operation, g: Any) -> Any:
        rows = raw.GatherNd(g, n.inputs[1])
        return g, None, rows if sign > 0 else raw.Neg(rows)

    return grad


tensor_scatter_nd_update = _tensor_op("TensorScatterUpdate", "T", _put, _update_grad)
tensor_scatter_nd_add = _tensor_op("TensorScatterAdd", "N", _at(np.add), _signed_grad(1))
tensor_scatter_nd_sub = _tensor_op("TensorScatterSub", "N", _at(np.subtract), _signed_grad(-1))
tensor_scatter_nd_min = _tensor_op("TensorScatterMin", "R", _at(np.minimum), _extreme_grad)
tensor_scatter_nd_max = _tensor_op("TensorScatterMax", "R", _at(np.maximum), _extreme_grad)
tensor_scatter_update = tensor_scatter_nd_update
tensor_scatter_add = tensor_scatter_nd_add
tensor_scatter_sub = tensor_scatter_nd_sub


def _variable_op(name: str, kind: str, change: Change) -> Callable[..., Any]:
    signature = f"ref: ref({kind}), indices: I, updates: {kind}; use_locking: bool = True -> output_ref: ref({kind})"
    made: Callable[..., Any] = op(
        name, signature, shape=_ref_shape, kernel=_into_variable(change), stateful=True,
        grad=NO_GRAD("changes a variable"), samples=_SAMPLES,
    )  # fmt: skip
    return made


def _ref_shape(n: Operation) -> list[TensorShape]:
    return [n.inputs[0].shape]


_UPDATES = {
    "scatter_nd_update": _variable_op("ScatterNdUpdate", "T", _put),
    "scatter_nd_add": _variable_op("ScatterNdAdd", "N", _at(np.add)),
    "scatter_nd_sub": _variable_op("ScatterNdSub", "N", _at(np.subtract)),
}


def _scatter(what: str, ref: Any, indices: Any, updates: Any, use_locking: bool, name: str | None) -> Tensor:
    element = ref._ref() if hasattr(ref, "_ref") else ref
    if not isinstance(element, Tensor) or not element.dtype.is_ref:
        raise TypeError(f"{what} needs a variable (a mutable tensor), not {ref!r}.")
    made: Tensor = _UPDATES[what](element, indices, updates, use_locking, name=name)
    return made


def scatter_nd_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Replace the elements or slices of a variable at ``indices[i, :]`` by ``updates[i]``."""
    return _scatter("scatter_nd_update", ref, indices, updates, use_locking, name)


def scatter_nd_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """Add ``updates[i]`` to a variable at ``indices[i, :]``; repeats add up."""
    return _scatter("scatter_nd_add", ref, indices, updates, use_locking, name)


def scatter_nd_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """Subtract ``updates[i]`` from a variable at ``indices[i, :]``; repeats add up."""
    return _scatter("scatter_nd_sub", ref, indices, updates, use_locking, name)


def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Replace the rows ``indices[..., i]`` of each entry of a variable's first axes, which are those of `indices`."""
    indices = convert_to_tensor(indices, name="indices")
    with indices.graph.name_scope(name or "batch_scatter_update") as scope:
        shape = raw.Shape(indices)
        places = raw.Where(raw.Fill(shape, True))  # [elements, rank], of which the last is not where but which
        entries = places[:, : raw.Sub(raw.Rank(indices), 1)]
        rows = raw.Reshape(raw.Cast(indices, DstT=dtypes.int64), ints(-1, 1))
        whole = raw.ConcatV2([shape, raw.Pack([raw.Rank(indices)], axis=0)], 0)
        nested = raw.Reshape(raw.ConcatV2([entries, rows], 1), whole)
        return scatter_nd_update(ref, nested, updates, use_locking, name=scope)


__all__ = [
    "batch_scatter_update", "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update", "tensor_scatter_add",
    "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min", "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update", "tensor_scatter_sub", "tensor_scatter_update",
]  # fmt: skip
