"""The plainest execution of a graph: every kernel in order, in this thread. An oracle for the runtime's plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.graph import registry
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.graph.serial import graph_nodes


class Env:
    """What kernels are made with, without a task behind it."""

    xp = np
    device = "/job:localhost/replica:0/task:0/device:CPU:0"
    task = "/job:localhost/replica:0/task:0"

    def __init__(self) -> None:
        self.kept: dict[Any, Any] = {}
        self.resources = self



def _needed(nodes: list[Node], wanted: list[int], fed: set[tuple[int, int]]) -> set[int]:
    needed: set[int] = set()
    stack = list(wanted)
    while stack:
        i = stack.pop()
        if i in needed:
            continue
        needed.add(i)
        stack.extend(nodes[i].control)
        stack.extend(s for s, o in nodes[i].inputs if (s, o) not in fed)
    return needed


def run_nodes(nodes: list[Node], args: list[Any], env: Env) -> dict[int, Any]:
    """A branch or body: the values of its _Retval nodes by index."""
    values: dict[tuple[int, int], Any] = {}
    results: dict[int, Any] = {}
    for i, node in enumerate(nodes):
        if node.op == "_Arg":
            values[i, 0] = args[node.attrs["index"]]
        elif node.op == "_Retval":
            results[node.attrs["index"]] = values[node.inputs[0]]
        else:
            for k, v in enumerate(_call(node, [values[key] for key in node.inputs], env)):
                values[i, k] = v
    return results


def _branch(graph: Subgraph, args: list[Any], env: Env, count: int) -> list[Any]:
    out = run_nodes(graph.nodes, args, env)
    return [out.get(i) for i in range(count)]


def _call(node: Node, inputs: list[Any], env: Env) -> list[Any]:
    if node.op == "If":
        taken = node.attrs["then_branch" if inputs[0] else "else_branch"]
        return _branch(taken, inputs[1:], env, len(node.dtypes))
    if node.op == "While":
        return _loop(node, inputs, env)
    definition = registry.lookup(node.op)
    key = node.name if definition.stateful else id(node)
    fn: Any = env.kept.get(("kernel", key))
    if fn is None:
        fn = definition.kernel_of(node, env)
        env.kept["kernel", key] = fn
        env.kept["alive", key] = node
    out = fn(*inputs)
    if len(node.dtypes) == 0:
        return []
    out = (out,) if len(node.dtypes) == 1 else out
    return [x if isinstance(x, (list, np.generic)) or not node.dtypes[k].is_numpy_compatible else np.asarray(x)
            for k, x in enumerate(out)]  # fmt: skip


def _loop(node: Node, inputs: list[Any], env: Env) -> list[Any]:
    n = node.attrs["n_vars"]
    cond, body = node.attrs["cond"], node.attrs["body"]
    state, captures = inputs[:n], inputs[n:]
    saved: list[list[Any]] = [[] for _ in range(body.outputs - n)]
    count = 0
    while run_nodes(cond.nodes, [*state, *captures], env)[0]:
        out = _branch(body, [*state, *captures], env, body.outputs)
        state = out[:n]
        for keep, value in zip(saved, out[n:]):
            keep.append(value)
        count += 1
    return [*state, *saved, np.int32(count)]


def evaluate(fetches: Any, feeds: dict[Tensor, Any] | None = None, env: Env | None = None) -> Any:
    """The values of tensors (a list gives a list). Feeds are by tensor."""
    many = isinstance(fetches, (list, tuple))
    wanted = list(fetches) if many else [fetches]
    if not wanted:
        return []
    graph = wanted[0].graph
    nodes = graph_nodes(graph)
    env = env or Env()
    values: dict[tuple[int, int], Any] = {}
    for t, v in (feeds or {}).items():
        values[t.op._id, t.value_index] = np.asarray(v, t.dtype.np_dtype)
    fed = set(values)
    ops = [f if isinstance(f, Operation) else f.op for f in wanted]
    keys = [None if isinstance(f, Operation) else (f.op._id, f.value_index) for f in wanted]
    with np.errstate(all="ignore"):
        for i in sorted(_needed(nodes, [o._id for o, k in zip(ops, keys) if k not in fed], fed)):
            node = nodes[i]
            try:
                out = _call(node, [values[key] for key in node.inputs], env)
            except errors.OpError as error:
                raise errors.with_node(error, node.name) from None
            for k, v in enumerate(out):
                values.setdefault((i, k), v)
    got = [None if k is None else values[k] for k in keys]
    return got if many else got[0]
