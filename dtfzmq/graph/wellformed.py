"""What must hold of node lists that came from elsewhere, so that whoever works on them need not look again.

All functions raise InvalidArgumentError, which names the node. Op types that are not declared here pass: they fail
where their kernel is asked for, and only if a step needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dtfzmq.base import errors
from dtfzmq.graph import opdef
from dtfzmq.graph.node import MOST_NESTED, Node, Subgraph

# What only plans hold: values brought in and taken out, and transfers.
_INTERNAL = frozenset({"_Arg", "_Retval", "_Send", "_Recv"})
_TRANSFER = ("tensor_name", "send_device", "recv_device", "key")


def check_sources(nodes: Sequence[Node], before: Sequence[Node] = ()) -> None:
    """Sources stand before their consumers, and have the outputs that are read. `nodes` follow upon `before`."""
    start = len(before)
    for i, node in enumerate(nodes, start):
        for source, output in node.inputs:
            if not 0 <= source < i:
                raise _malformed(node, f"Incomplete graph, an input of '{node.name}' is not in it.")
            made = before[source] if source < start else nodes[source - start]
            count = len(made.dtypes)
            if not 0 <= output < count:
                raise _malformed(node, f"'{node.name}' reads output {output} of '{made.name}', which has {count}.")
        for source in node.control:
            if not 0 <= source < i:
                raise _malformed(node, f"Incomplete graph, a control input of '{node.name}' is not in it.")


def check_graph(nodes: Iterable[Node]) -> None:
    """The nodes of a client's graph have what their ops are declared with."""
    for node in nodes:
        if node.op in _INTERNAL:
            raise _malformed(node, f"'{node.name}' is of the type {node.op}, which no graph of a client holds.")
        _check_op(node)


def check_part(nodes: Sequence[Node], feeds: int, fetches: int) -> None:
    """A part brings in exactly `feeds` values and takes out exactly `fetches`."""
    check_sources(nodes)
    _check_ends(nodes, feeds, fetches)
    brought = len({node.attrs["index"] for node in nodes if node.op == "_Arg"})
    if brought != feeds:
        raise errors.InvalidArgumentError(None, None, f"A part of a graph brings {brought} values in and not {feeds}.")
    taken = sum(node.op == "_Retval" for node in nodes)
    if taken != fetches:
        raise errors.InvalidArgumentError(None, None, f"A part of a graph takes {taken} values out and not {fetches}.")
    for node in nodes:
        _check_node(node)


def _check_function(function: Subgraph, depth: int) -> None:
    check_sources(function.nodes)
    _check_ends(function.nodes, len(function.inputs), function.outputs)
    for node in function.nodes:
        _check_node(node, depth)


def _check_node(node: Node, depth: int = 0) -> None:
    if node.op == "_Send" or node.op == "_Recv":
        _check_transfer(node)
    elif node.op not in _INTERNAL:
        _check_op(node, depth)


def _check_ends(nodes: Iterable[Node], feeds: int, fetches: int) -> None:
    taken = set()
    for node in nodes:
        op = node.op
        if op == "_Arg":
            if not _is_index(node.attrs.get("index"), feeds) or len(node.dtypes) != 1:
                raise _malformed(node, f"'{node.name}' brings in none of the {feeds} values that come.")
        elif op == "_Retval":
            index = node.attrs.get("index")
            if not _is_index(index, fetches) or index in taken or len(node.inputs) != 1:
                raise _malformed(node, f"'{node.name}' takes out none of the {fetches} values that go.")
            taken.add(index)


def _check_transfer(node: Node) -> None:
    ends = (len(node.inputs), len(node.dtypes))
    # a _Send without an input stands for a control edge
    fits = ends in ((0, 0), (1, 0)) if node.op == "_Send" else ends == (0, 1)
    if not fits or any(type(node.attrs.get(name)) is not str for name in _TRANSFER):
        raise _malformed(node, f"'{node.name}' is no {node.op} that carries a tensor.")


class _Rule(NamedTuple):
    """What an op's declaration says of its nodes."""

    least_inputs: int
    most_inputs: float
    least_outputs: int
    most_outputs: float
    graphs: tuple[str, ...]
    text: str


_rules: dict[str, _Rule] = {}


def _rule(op: str) -> _Rule | None:
    found = _rules.get(op)
    if found is not None:
        return found
    definition = opdef.find(op)
    if definition is None:
        return None
    signature = definition.signature
    graphs = tuple(attr.name for attr in signature.attrs if attr.kind == "graph")
    text = f"{op} is declared as '{signature.text}'."
    made = _rules[op] = _Rule(*_bounds(signature.inputs), *_bounds(signature.outputs), graphs, text)
    return made


def _bounds(items: Sequence[opdef.Arg]) -> tuple[int, float]:
    single = sum(not item.list for item in items)
    return single, single if single == len(items) else float("inf")


def _check_op(node: Node, depth: int = 0) -> None:
    """All but the attributes that the maker of a kernel asks for. `depth`: of the function that holds the node."""
    rule = _rule(node.op)
    if rule is None:
        return
    attrs = node.attrs
    if not rule.least_inputs <= len(node.inputs) <= rule.most_inputs:
        raise _malformed(node, f"'{node.name}' has {len(node.inputs)} inputs; {rule.text}")
    if not rule.least_outputs <= len(node.dtypes) <= rule.most_outputs:
        raise _malformed(node, f"'{node.name}' has {len(node.dtypes)} outputs; {rule.text}")
    if "_class" in attrs:
        group = attrs["_class"]
        if type(group) not in (list, tuple) or not all(type(item) is str for item in group):
            raise _malformed(node, f"The attribute '_class' of '{node.name}' is no list of texts.")
    if node.op == "Const" and attrs.get("value") is None:
        raise _malformed(node, f"'{node.name}' is a constant without a value.")
    for name in rule.graphs:
        function = attrs.get(name)
        if type(function) is not Subgraph:
            raise _malformed(node, f"The attribute '{name}' of '{node.name}' is no graph.")
        if depth == MOST_NESTED:
            raise _malformed(node, f"'{node.name}' lies in {depth} branches and bodies, and cannot have more of them.")
        _check_function(function, depth + 1)


def _is_index(value: Any, count: int) -> bool:
    return type(value) is int and 0 <= value < count


def _malformed(node: Node, text: str) -> errors.OpError:
    return errors.with_node(errors.InvalidArgumentError(None, None, text), node.name)
