"""Operations that give back what they are given are left out.

Left out is only what certainly changes nothing: multiplying by a scalar 1, adding a scalar that leaves even negative
zeros alone, undoing what the operation before did.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dtfzmq.graph.node import Node
from dtfzmq.plan.optimize.edits import Edge, Edits
from dtfzmq.plan.optimize.passes import Options

_PASSING = frozenset(["Identity", "StopGradient", "PreventGradient", "PlaceholderWithDefault"])
# Twice is not at all.
_INVOLUTIONS = frozenset(["Neg", "LogicalNot", "Invert", "Conj"])


def leave_out(nodes: list[Node], keep: frozenset[int], options: Options) -> list[Node]:
    """Give the readers of operations that change nothing what those were given."""
    edits = Edits(nodes, keep)
    find = _RULES.get
    for i, node in enumerate(nodes):
        rule = find(node.op)
        if rule is None or node.control:
            continue
        source = rule(edits, node)
        if source is None:
            continue
        # What comes from outside is everywhere; the node says where it is wanted.
        origin = nodes[source[0]]
        if origin.op == "_Arg" or origin.device != node.device or origin.dtypes[source[1]] is not node.dtypes[0]:
            continue
        if edits.goes(i):
            edits.bypass(i, source)
    return edits.done()


def _first(edits: Edits, node: Node) -> Edge | None:
    return edits.now(node.inputs[0])


def _scalar(edits: Edits, edge: Edge) -> np.ndarray | None:
    """The value of a scalar constant that is a real number."""
    node = edits.nodes[edge[0]]
    if node.op != "Const" or node.control:
        return None
    value = node.attrs["value"]
    return value if value.shape == () and value.dtype.kind in "iuf" else None


def _is_one(value: np.ndarray | None) -> bool:
    return value is not None and bool(value == 1)


def _leaves_sums(value: np.ndarray | None, negative: bool) -> bool:
    """True for a zero that leaves every number as it is when added: of floats, that is -0.0; `negative`: subtracted."""
    if value is None or value != 0:
        return False
    return value.dtype.kind in "iu" or bool(np.signbit(value)) is not negative


def _product(edits: Edits, node: Node) -> Edge | None:
    x, y = map(edits.now, node.inputs)
    if _is_one(_scalar(edits, y)):
        return x
    return y if _is_one(_scalar(edits, x)) else None


def _quotient(edits: Edits, node: Node) -> Edge | None:
    x, y = map(edits.now, node.inputs)
    return x if _is_one(_scalar(edits, y)) else None


def _sum(edits: Edits, node: Node) -> Edge | None:
    x, y = map(edits.now, node.inputs)
    if _leaves_sums(_scalar(edits, y), False):
        return x
    return y if _leaves_sums(_scalar(edits, x), False) else None


def _difference(edits: Edits, node: Node) -> Edge | None:
    x, y = map(edits.now, node.inputs)
    return x if _leaves_sums(_scalar(edits, y), True) else None


def _undone(edits: Edits, node: Node) -> Edge | None:
    before = edits.nodes[edits.now(node.inputs[0])[0]]
    if before.op != node.op or before.control:
        return None
    return edits.now(before.inputs[0])


def _transposed_back(edits: Edits, node: Node) -> Edge | None:
    before = edits.nodes[edits.now(node.inputs[0])[0]]
    if before.op != "Transpose" or before.control:
        return None
    first, second = (edits.nodes[edits.now(n.inputs[1])[0]] for n in (before, node))
    if first.op != "Const" or second.op != "Const" or first.control or second.control:
        return None
    p, q = first.attrs["value"], second.attrs["value"]
    if p.ndim != 1 or p.shape != q.shape or sorted(p.tolist()) != list(range(len(p))):
        return None
    return edits.now(before.inputs[0]) if np.array_equal(np.argsort(p), q) else None


_RULES: dict[str, Callable[[Edits, Node], Edge | None]] = {
    **dict.fromkeys(_PASSING, _first),
    **dict.fromkeys(_INVOLUTIONS, _undone),
    "Cast": _first,  # to the type that it has; `leave_out` compares them
    "Mul": _product,
    "RealDiv": _quotient,
    "Add": _sum,
    "Sub": _difference,
    "Transpose": _transposed_back,
}
