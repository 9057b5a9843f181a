"""Gradients of If and While: an If over the gradients of its branches, a While that runs the iterations backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.func_graph import FuncGraph
from dtfzmq.graph.graph import Graph, Operation, Tensor, get_default_graph
from dtfzmq.graph.registry import op
from dtfzmq.graph.shape_rules import unknown
from dtfzmq.ops.branching import BackwardGraph, BuiltIf, BuiltWhile, built, make_if, make_while, trainable, value_of
from dtfzmq.ops.constants import zeros_like
from dtfzmq.ops.gradients import backpropagate, influences
from dtfzmq.ops.raw import raw


def _scope(outer: Graph, name: str) -> str:
    return f"{outer.unique_name(name)}"


def _dense(grads: Sequence[Any]) -> list[Tensor | None]:
    return [None if g is None else convert_to_tensor(g) for g in grads]


def _if_grad(n: Operation, *grads: Any, needed: Sequence[bool]) -> list[Tensor | None]:
    """Per capture: in the branch taken, what its results' gradients give; zeros where that branch does not use it."""
    info: BuiltIf = built(n)
    outer = get_default_graph()
    seeds = _dense(grads)
    captures = n.inputs[1:]
    wanted = [i for i, c in enumerate(captures) if needed[i + 1] and trainable(c.dtype)]
    nothing: list[Tensor | None] = [None] * len(n.inputs)
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
            found.append({i: convert_to_tensor(r) for (i, _), r in zip(xs, results) if r is not None})
        graphs.append(graph)
    used = [i for i in wanted if any(i in f for f in found)]
    if not used:
        return nothing
    rows: list[list[Tensor]] = []
    for g, have in zip(graphs, found):
        with g.as_default():
            row = [have[i] if i in have else zeros_like(value_of(g.capture(captures[i]))) for i in used]
            rows.append([_here(g, t) for t in row])
    made = make_if(outer, _here(outer, n.inputs[0]), graphs, rows, "If")
    for k, i in enumerate(used):
        nothing[i + 1] = made.outputs[k]
    return nothing


def _here(graph: Graph, tensor: Tensor) -> Tensor:
    return tensor if tensor.graph is graph else graph.capture(tensor)


def _while_grad(n: Operation, *grads: Any, needed: Sequence[bool]) -> list[Tensor | None]:
    """A loop over the iterations from the last to the first, with the gradients of variables and sums for captures."""
    info: BuiltWhile = built(n)
    count = n.attrs["n_vars"]
    if info.backward or any(g is not None for g in grads[count:]):
        raise TypeError("Second-order gradient for while loops not supported.")
    outer = get_default_graph()
    seeds = _dense(grads[:count])
    body = info.body
    nothing: list[Tensor | None] = [None] * len(n.inputs)
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
    if not info.lists:
        raise LookupError(f"The loop '{n.name}' was built with back_prop=False and has no gradient.")
    scope = _scope(outer, "While")
    start: list[Tensor] = [_here(outer, n.outputs[-1])]
    for i in active:
        seed = seeds[i]
        start.append(zeros_like(_here(outer, n.outputs[i])) if seed is None else _here(outer, seed))
    start += [zeros_like(value_of(_here(outer, captures[j]))) for j in sums]
    shapes = [start[0].shape, *(body.args[i].shape for i in active), *(captures[j].shape for j in sums)]

    test = FuncGraph(outer, f"{scope}/cond")
    graph = BackwardGraph(outer, f"{scope}/body", n, body)
    graphs: tuple[FuncGraph, FuncGraph] = test, graph
    for g in graphs:
        for t, shape in zip(start, shapes):
            g.add_arg(t.dtype.base_dtype, shape)
    with test.as_default():
        pred = raw.Greater(test.args[0], np.int32(0))
    with graph.as_default():
        left = raw.Sub(graph.args[0], np.int32(1))
        graph.index = left
        given = graph.args[1 : 1 + len(active)]
        totals = graph.args[1 + len(active) :]
        ys = [info.next[i] for i in active]
        xs = [*(body.args[i] for i in active), *(body.captures[captures[j]] for j in sums)]
        results = backpropagate(graph, ys, given, xs)
        following = [left]
        for i, found in zip(active, results):
            following.append(zeros_like(graph.capture(body.args[i])) if found is None else convert_to_tensor(found))
        for total, found in zip(totals, results[len(active) :]):
            following.append(total if found is None else raw.Add(total, convert_to_tensor(found)))
        following = [t if t.graph is graph else graph.capture(t) for t in following]
    made = make_while(outer, start, test, pred, graph, following, shapes, "While", backward=True)
    for k, i in enumerate(active):
        nothing[i] = made.outputs[1 + k]
    for k, j in enumerate(sums):
        nothing[count + j] = made.outputs[1 + len(active) + k]
    return nothing


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
    "While", "values: any*; cond: graph, body: graph, n_vars: int, saved: list(int) -> results: any*", shape=unknown,
    grad=_while_grad,
)  # fmt: skip
