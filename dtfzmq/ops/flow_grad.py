"""Gradients of If and While: an If over the gradients of its branches, a While that runs the iterations backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.func_graph import FuncGraph
from dtfzmq.graph.graph import Graph, Operation, Tensor, get_default_graph
from dtfzmq.graph.registry import op
from dtfzmq.graph.shape_rules import unknown
from dtfzmq.graph.static import full_dims
from dtfzmq.ops.branching import BackwardGraph, BuiltIf, BuiltWhile, built, make_if, make_while, trainable, value_of
from dtfzmq.ops.gradients import backpropagate, influences
from dtfzmq.ops.indexed_slices import IndexedSlices, concat_rows
from dtfzmq.ops.list_ops import total, zeros_of
from dtfzmq.ops.raw import raw

ONE = np.ones(1, np.int32)


def _scope(outer: Graph, name: str) -> str:
    return f"{outer.unique_name(name)}"


def _dense(grads: Sequence[Any]) -> list[Any]:
    return [None if g is None else convert_to_tensor(g) for g in grads]


def _if_grad(n: Operation, *grads: Any, needed: Sequence[bool]) -> list[Any]:
    """Per capture: in the branch taken, what its results' gradients give; zeros where that branch does not use it."""
    info: BuiltIf = built(n)
    outer = get_default_graph()
    seeds = _dense(grads)
    captures = n.inputs[1:]
    wanted = [i for i, c in enumerate(captures) if needed[i + 1] and trainable(c.dtype)]
    nothing: list[Any] = [None] * len(n.inputs)
    if not wanted:
        return nothing
    scope = _scope(outer, "If")
    graphs: list[FuncGraph] = []
    found: list[dict[int, Any]] = []
    for label, branch, carried in zip(("then", "else"), info.branches, info.outputs):
        graph = BackwardGraph(outer, f"{scope}/{label}", n, branch)
        ys, given = [], []
        for t, k in carried.items():
            if seeds[k] is not None:
                ys.append(t)
                given.append(seeds[k])
        xs = [(i, branch.captures[captures[i]]) for i in wanted if captures[i] in branch.captures]
        with graph.as_default():
            results = backpropagate(graph, ys, given, [x for _, x in xs])
            found.append({i: r for (i, _), r in zip(xs, results) if r is not None})
        graphs.append(graph)
    used = [i for i in wanted if any(i in f for f in found)]
    if not used:
        return nothing
    sparse = {i for i in used if all(isinstance(f[i], IndexedSlices) for f in found if i in f)}
    rows: list[list[Tensor]] = []
    for g, have in zip(graphs, found):
        with g.as_default():
            row: list[Tensor] = []
            for i in used:
                if i in sparse:
                    kind = next(f[i].indices.dtype for f in found if i in f)
                    row += _slices_of(have.get(i), g.capture(captures[i]), kind)
                elif i in have:
                    row.append(convert_to_tensor(have[i]))
                else:
                    row.append(zeros_of(value_of(g.capture(captures[i]))))
            rows.append([_here(g, t) for t in row])
    made = make_if(outer, _here(outer, n.inputs[0]), graphs, rows, "If")
    outputs = iter(made.outputs)
    for i in used:
        values = next(outputs)
        nothing[i + 1] = _as_slices(values, next(outputs), captures[i]) if i in sparse else values
    return nothing


def _slices_of(found: IndexedSlices | None, capture: Tensor, kind: DType) -> list[Tensor]:
    """Values and indices of a sparse gradient of `capture`, a tensor of the default graph; None: no rows."""
    return _no_rows(capture, kind) if found is None else [found.values, found.indices]


def _no_rows(capture: Tensor, kind: DType) -> list[Tensor]:
    dtype = capture.dtype.base_dtype.np_dtype
    sizes = capture.shape.dims_or_none
    if sizes is not None and None not in sizes[1:]:
        values = convert_to_tensor(np.zeros((0, *sizes[1:]), dtype))
    else:
        row = raw.ConcatV2([np.array([0], np.int32), raw.Slice(raw.Shape(capture), ONE, -ONE)], 0)
        values = raw.Fill(row, np.zeros((), dtype))
    return [values, convert_to_tensor(np.zeros(0, kind.np_dtype))]


def _as_slices(values: Tensor, indices: Tensor, capture: Tensor) -> IndexedSlices:
    known = full_dims(capture)
    shape = raw.Shape(capture) if known is None else convert_to_tensor(np.array(known, np.int32))
    return IndexedSlices(values, indices, shape)


def _here(graph: Graph, tensor: Tensor) -> Tensor:
    return tensor if tensor.graph is graph else graph.capture(tensor)


def _while_grad(n: Operation, *grads: Any, needed: Sequence[bool]) -> list[Any]:
    """A loop over the iterations from the last to the first, with the gradients of variables and sums for captures."""
    info: BuiltWhile = built(n)
    count = n.attrs["n_vars"]
    if info.backward or any(g is not None for g in grads[count:]):
        raise TypeError("Second-order gradient for while loops not supported.")
    outer = get_default_graph()
    seeds = _dense(grads[:count])
    body = info.body
    nothing: list[Any] = [None] * len(n.inputs)
    active = _active(info, count, [i for i, g in enumerate(seeds) if g is not None])
    captures = n.inputs[count:]
    sums = [
        j
        for j, c in enumerate(captures)
        if needed[count + j]
        and trainable(c.dtype)
        and c in body.captures
        and influences(body.captures[c], [info.next[i] for i in active])
    ]
    if not any(needed[i] for i in active) and not sums:
        return nothing
    if not info.lists:  # built with back_prop=False
        return nothing
    scope = _scope(outer, "While")
    start: list[Tensor] = [_here(outer, n.outputs[-1])]
    for i in active:
        seed = seeds[i]
        start.append(zeros_of(_here(outer, n.outputs[i])) if seed is None else _here(outer, seed))
    shapes = [start[0].shape, *(body.args[i].shape for i in active)]

    test = FuncGraph(outer, f"{scope}/cond")
    graph = BackwardGraph(outer, f"{scope}/body", n, body)
    for t, shape in zip(start, shapes):
        test.add_arg(t.dtype.base_dtype, shape)
        graph.add_arg(t.dtype.base_dtype, shape)
    with test.as_default():
        pred = raw.Greater(test.args[0], np.int32(0))
    with graph.as_default():
        left = raw.Sub(graph.args[0], np.int32(1))
        graph.index = left
        ys = [info.next[i] for i in active]
        xs = [*(body.args[i] for i in active), *(body.captures[captures[j]] for j in sums)]
        results = backpropagate(graph, ys, graph.args[1 : 1 + len(active)], xs)
        following = [left]
        for i, found in zip(active, results):
            following.append(_zeros(graph, body.args[i]) if found is None else convert_to_tensor(found))
    summed = _Sums(outer, start, shapes, (test, graph))
    ends = [summed.add(captures[j], found, following) for j, found in zip(sums, results[len(active) :])]
    following = [_here(graph, t) for t in following]
    made = make_while(outer, start, test, pred, graph, following, shapes, "While", backward=True)
    for k, i in enumerate(active):
        nothing[i] = made.outputs[1 + k]
    for j, (first, sparse) in zip(sums, ends):
        if first >= 0:
            outputs = made.outputs[first : first + 2]
            nothing[count + j] = _as_slices(outputs[0], outputs[1], captures[j]) if sparse else outputs[0]
    return nothing


def _zeros(graph: FuncGraph, tensor: Tensor) -> Tensor:
    """Zeros like a tensor of the forward body. Of a list nothing needs to be kept for it."""
    return zeros_of(tensor if tensor.dtype is dtypes.variant else graph.capture(tensor))


class _Sums:
    """Loop variables of a gradient's loop that sum over the iterations what each gives for a capture."""

    def __init__(
        self, outer: Graph, start: list[Tensor], shapes: list[TensorShape], graphs: tuple[FuncGraph, FuncGraph]
    ) -> None:
        self.outer = outer
        self.start = start
        self.shapes = shapes
        self.graphs = graphs

    def _variable(self, first: Tensor, shape: TensorShape) -> Tensor:
        """A further loop variable; its value in the body."""
        position = len(self.start)
        self.start.append(first)
        self.shapes.append(shape)
        for graph in self.graphs:
            arg = graph.add_arg(first.dtype.base_dtype, shape)
            arg.op.attrs["index"] = position  # captures, which may have been added before, are counted behind it
        return arg

    def add(self, capture: Tensor, found: Any, following: list[Tensor]) -> tuple[int, bool]:
        """Sum `found`; (number of the variable or -1 if there is nothing, whether rows are kept as rows)."""
        if found is None:
            return -1, False
        at = len(self.start)
        graph = self.graphs[1]
        here = _here(self.outer, capture)
        if isinstance(found, IndexedSlices):
            values, indices = _no_rows(here, found.indices.dtype)
            row = capture.shape.dims_or_none
            rows = TensorShape(None if row is None else [None, *row[1:]])
            before = self._variable(values, rows), self._variable(indices, TensorShape([None]))
            with graph.as_default():
                joined = concat_rows([IndexedSlices(*before), found])
                following += [joined.values, joined.indices]
            return at, True
        before_sum = self._variable(zeros_of(value_of(here)), capture.shape)
        with graph.as_default():
            following.append(total([before_sum, found]))
        return at, False


def _active(info: BuiltWhile, count: int, seeded: Sequence[int]) -> list[int]:
    """Variables through which a gradient can come: those of `seeded`, and what these are computed from."""
    args = info.body.args
    found = list(seeded)
    for i in found:  # grows while it is walked
        for j in range(count):
            if j not in found and trainable(args[j].dtype) and influences(args[j], [info.next[i]]):
                found.append(j)
    return sorted(found)


_if = op(
    "If", "pred: bool, captures: any*; then_branch: graph, else_branch: graph -> results: any*", shape=unknown,
    grad=_if_grad,
)  # fmt: skip
_while = op(
    "While",
    "values: any*; cond: graph, body: graph, n_vars: int, saved: list(int), parallel_iterations: int = 10"
    " -> results: any*",
    shape=unknown, grad=_while_grad,
)  # fmt: skip
