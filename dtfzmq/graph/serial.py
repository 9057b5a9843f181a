"""Node lists as plain data for the wire, and back.

Plain data is what msgpack knows: lists, text, numbers, bytes. Arrays (constants) go beside it, by index. A value that
msgpack would not give back as it was is a list that starts with a one-letter tag.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dtfzmq.base import collecting, dtypes, errors
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.node import Node, Subgraph

_Arrays = list[npt.NDArray[Any]]


def graph_nodes(graph: Graph, start: int = 0) -> list[Node]:
    """The operations from number `start` on, as nodes that name their sources by number in the whole graph."""
    return [op.node_def for op in graph._ops[start:]]


def nodes_to_wire(nodes: list[Node]) -> tuple[list[Any], _Arrays]:
    """Plain data and the arrays it points to."""
    arrays: _Arrays = []
    with collecting.paused(len(nodes)):
        return [_node_out(node, arrays) for node in nodes], arrays


def nodes_from_wire(plain: Any, arrays: _Arrays) -> list[Node]:
    """The node list that `nodes_to_wire` described. Raises InvalidArgumentError for anything else."""
    try:
        with collecting.paused(len(plain)):
            return [_node_in(item, arrays) for item in plain]
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise errors.InvalidArgumentError(None, None, f"A graph on the wire is malformed: {error}") from None


def _node_out(node: Node, arrays: _Arrays) -> list[Any]:
    attrs: Any = None
    if node.attrs:
        attrs = {k: v if type(v) in _PLAIN else _value_out(v, arrays) for k, v in node.attrs.items()}
    flat = [number for edge in node.inputs for number in edge]
    return [node.name, node.op, flat, list(node.control), node.device, attrs, [d.name for d in node.dtypes]]


def _node_in(item: Any, arrays: _Arrays) -> Node:
    name, op, flat, control, device, attrs, types = item
    if type(name) is not str or type(op) is not str or type(device) is not str:
        raise TypeError("a name is not text")
    if not _INT.issuperset(map(type, flat)) or not _INT.issuperset(map(type, control)):
        raise TypeError("an index is not an integer")
    return Node(
        name,
        op,
        tuple(zip(flat[::2], flat[1::2])),
        tuple(control),
        device,
        {k: v if type(v) is not list else _value_in(v, arrays) for k, v in attrs.items()} if attrs else None,
        tuple([_types.get(t) or _type(t) for t in types]) if types else (),
    )


def _type(name: Any) -> DType:
    """A type by the name under which it travels; remembered, since a graph has few."""
    if type(name) is not str:
        raise TypeError("a type is not text")
    found = _types[name] = dtypes.as_dtype(name)
    return found


_types: dict[Any, DType] = {}
_INT = frozenset([int])
_PLAIN = frozenset([int, float, bool, str, bytes, type(None)])


def _value_out(value: Any, arrays: _Arrays) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is DType:
        return ["d", value.name]
    if kind is TensorShape:
        return ["s", value.as_proto()]
    if isinstance(value, (list, tuple)):
        return ["l", [_value_out(v, arrays) for v in value]]
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return ["a", len(arrays) - 1]
    if isinstance(value, np.generic):
        return value.item()
    if kind is Subgraph:
        nodes = [_node_out(n, arrays) for n in value.nodes]
        return ["g", [nodes, [d.name for d in value.inputs], value.outputs]]
    if isinstance(value, dict):
        return ["m", [[str(k), _value_out(v, arrays)] for k, v in value.items()]]
    raise TypeError(f"An attribute of type {type(value).__name__} cannot travel.")


def _value_in(value: Any, arrays: _Arrays) -> Any:
    if type(value) is not list:
        return value
    tag, body = value
    if tag == "d":
        return dtypes.as_dtype(body)
    if tag == "s":
        return TensorShape(None if body is None else [None if d < 0 else d for d in body])
    if tag == "l":
        return [_value_in(v, arrays) for v in body]
    if tag == "a":
        return arrays[body]
    if tag == "g":
        nodes, inputs, outputs = body
        return Subgraph([_node_in(n, arrays) for n in nodes], tuple(dtypes.as_dtype(d) for d in inputs), int(outputs))
    if tag == "m":
        return {k: _value_in(v, arrays) for k, v in body}
    raise ValueError(f"unknown tag {tag!r}")
