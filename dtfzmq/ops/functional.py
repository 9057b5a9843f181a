"""map_fn, scan, foldl and foldr: loops over the first axis of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base.dtypes import as_dtype
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, Tensor, get_default_graph
from dtfzmq.graph.registry import graph_of
from dtfzmq.ops import nest
from dtfzmq.ops.control import while_loop
from dtfzmq.ops.raw import raw
from dtfzmq.ops.tensor_array import TensorArray


def _elements(elems: Any) -> list[Tensor]:
    """The tensors to walk over. Raises ValueError for scalars and for none."""
    flat = [convert_to_tensor(e, name="elem") for e in nest.flatten(elems)]
    if not flat:
        raise ValueError(
            f"elems must be a Tensor or (possibly nested) sequence of Tensors. Got {elems}, which does not contain any "
            "Tensors."
        )
    for t in flat:
        if t.shape.ndims == 0:
            raise ValueError("Elements in elems must be 1+ dimensional Tensors, not scalars")
    return flat


def _count(flat: Sequence[Tensor]) -> tuple[int | None, Any]:
    """How many there are: if it is known now, and as a value. Raises ValueError for tensors that differ in it."""
    sizes = [t.shape.dims_or_none for t in flat]
    known = {row[0] for row in sizes if row and row[0] is not None}
    if len(known) > 1:
        raise ValueError(f"The tensors of elems differ in their first dimension: {sorted(known)}.")
    if known:
        size = known.pop()
        return size, np.int32(size)
    return None, raw.StridedSlice(raw.Shape(flat[0]), [0], [1], [1], shrink_axis_mask=1)


def _rows(flat: Sequence[Tensor], n: Any, infer_shape: bool) -> list[TensorArray]:
    arrays = []
    for t in flat:
        array = TensorArray(t.dtype.base_dtype, n, infer_shape=infer_shape, element_shape=t.shape[1:])
        arrays.append(array.unstack(t))
    return arrays


def _graph_for(flat: Sequence[Tensor]) -> Graph:
    """The graph of a branch or body that is being built, else that of the tensors."""
    graph = get_default_graph()
    return graph if hasattr(graph, "outer") else graph_of(flat)


def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """fn of each row of `elems` (a tensor, or a nested structure of them), the results stacked.

    `dtype` is the structure of the result's types if it differs from that of `elems`. Raises TypeError and ValueError
    for misuse. One iteration runs after the other: parallel_iterations and swap_memory are accepted.
    """
    if not callable(fn):
        raise TypeError(f"The provided function {fn!r} is not callable. fn must be callable.")
    flat = _elements(elems)
    wanted = fn_output_signature if fn_output_signature is not None else dtype
    graph = _graph_for(flat)
    with graph.as_default(), graph.name_scope(name or "map"):
        static, n = _count(flat)
        given = _rows(flat, n, infer_shape)
        structure = elems if wanted is None else wanted
        types = [t.dtype.base_dtype for t in flat] if wanted is None else [as_dtype(d) for d in nest.flatten(wanted)]
        results = [TensorArray(t, n, infer_shape=infer_shape) for t in types]

        def step(i: Tensor, arrays: list[TensorArray]) -> Any:
            value = fn(nest.pack_like(elems, [a.read(i) for a in given]))
            nest.assert_same_structure(structure, value)
            return i + 1, [a.write(i, v) for a, v in zip(arrays, nest.flatten(value))]

        limit = convert_to_tensor(n)
        _, done = while_loop(
            lambda i, _: i < limit, step, (np.int32(0), results), parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop, swap_memory=swap_memory,
        )  # fmt: skip
        stacked = [_known(a.stack(), static) for a in done]
    return nest.pack_like(structure, stacked)


def _known(value: Tensor, size: int | None) -> Tensor:
    if value.shape.ndims is not None:
        value.set_shape([size, *value.shape.as_list()[1:]])
    return value


def _fold(
    fn: Callable[..., Any], elems: Any, initializer: Any, parallel_iterations: int, back_prop: bool, swap_memory: bool,
    name: str, backwards: bool,
) -> Any:  # fmt: skip
    if not callable(fn):
        raise TypeError(f"{fn!r} is not callable. fn must be callable.")
    flat = _elements(elems)
    graph = _graph_for(flat)
    with graph.as_default(), graph.name_scope(name):
        n = convert_to_tensor(_count(flat)[1])
        given = _rows(flat, n, True)
        last = n - 1

        def row(i: Any) -> Any:
            return nest.pack_like(elems, [a.read(i) for a in given])

        if initializer is None:
            value, start = row(last if backwards else np.int32(0)), np.int32(1)
        else:
            value, start = nest.map_structure(convert_to_tensor, initializer), np.int32(0)

        def step(k: Tensor, folded: Any) -> Any:
            return k + 1, fn(folded, row(last - k if backwards else k))

        _, value = while_loop(
            lambda k, _: k < n, step, [convert_to_tensor(start), value], parallel_iterations=parallel_iterations,
            back_prop=back_prop, swap_memory=swap_memory,
        )  # fmt: skip
    return value


def vectorized_map(fn: Callable[..., Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """map_fn with the structure and types of what fn gives; one row after the other, whatever the arguments."""
    firsts = [t[0] for t in _elements(elems)]
    with firsts[0].graph.name_scope("vectorized_map"):
        value = fn(nest.pack_like(elems, firsts))  # for its types alone: never run
    types = [convert_to_tensor(v).dtype.base_dtype for v in nest.flatten(value)]
    return map_fn(fn, elems, nest.pack_like(value, types))


def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """fn(fn(initializer, first row), second row)...; without initializer it starts with the first row itself."""
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name or "foldl", False)


def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """As foldl, from the last row to the first."""
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name or "foldr", True)


def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All values that foldl (or with `reverse` foldr) takes on its way, stacked, in the order of the rows.

    The structure of the result is that of `initializer`, else that of `elems`.
    """
    if not callable(fn):
        raise TypeError(f"The provided function {fn!r} is not callable. fn must be callable.")
    flat = _elements(elems)
    graph = _graph_for(flat)
    with graph.as_default(), graph.name_scope(name or "scan"):
        static, size = _count(flat)
        n = convert_to_tensor(size)
        given = _rows(flat, size, infer_shape)
        last = n - 1

        def row(i: Any) -> Any:
            return nest.pack_like(elems, [a.read(i) for a in given])

        def place(k: Any) -> Any:
            return last - k if reverse else k

        if initializer is None:
            structure, begin = elems, [a.read(place(np.int32(0))) for a in given]
        else:
            structure, begin = initializer, [convert_to_tensor(v) for v in nest.flatten(initializer)]
        shapes = [t.shape if infer_shape else None for t in begin]
        results = [
            TensorArray(t.dtype.base_dtype, size, infer_shape=infer_shape, element_shape=shape)
            for t, shape in zip(begin, shapes)
        ]
        if initializer is None:
            results = [a.write(place(np.int32(0)), t) for a, t in zip(results, begin)]

        def step(k: Tensor, before: list[Tensor], arrays: list[TensorArray]) -> Any:
            value = fn(nest.pack_like(structure, before), row(place(k)))
            nest.assert_same_structure(structure, value)
            now = [convert_to_tensor(v) for v in nest.flatten(value)]
            return k + 1, now, [a.write(place(k), t) for a, t in zip(arrays, now)]

        start = np.int32(initializer is None)
        _, _, done = while_loop(
            lambda k, *_: k < n, step, (convert_to_tensor(start), begin, results),
            parallel_iterations=parallel_iterations, back_prop=back_prop, swap_memory=swap_memory,
        )  # fmt: skip
        stacked = [_known(a.stack(), static) for a in done]
    return nest.pack_like(structure, stacked)


__all__ = ["foldl", "foldr", "map_fn", "scan", "vectorized_map"]
