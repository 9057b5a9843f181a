"""Operations that compute the same from the same are computed once."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.node import Node
from dtfzmq.plan.optimize.edits import Edits, pure_definition
from dtfzmq.plan.optimize.passes import Options

# Larger constants are not compared.
_CONSTANT_BYTES = 1 << 10
# Nodes that differ in their attributes alone are compared with so many of each other.
_OTHERS = 16


def share(nodes: list[Node], keep: frozenset[int], options: Options) -> list[Node]:
    """Merge nodes of one type, device and attributes that read and wait for the same into the first of them."""
    edits = Edits(nodes, keep)
    edges = edits.edges
    # By all but attributes: the nodes that differ in them. Equal keys are rare, so these are compared only then.
    seen: dict[Any, list[int]] = {}
    first: dict[Any, int] = {}
    for i, node in enumerate(nodes):
        key: Any
        if node.inputs:
            inputs = tuple([edges.get(e, e) for e in node.inputs]) if edges else node.inputs
            key = node.op, inputs, node.device, node.control
        elif node.op == "Const":
            key = _constant_key(node)
            if key is None:
                continue
        else:
            continue
        other = first.setdefault(key, i)
        if other == i:
            continue
        others = seen.setdefault(key, [other])
        if not _may_merge(nodes, node):
            continue
        match = next((k for k in others if _same(nodes[k], node)), None)
        if match is None:
            if len(others) < _OTHERS:
                others.append(i)
        elif edits.goes(i):
            edits.merge(i, match)
    return edits.done()


def _constant_key(node: Node) -> Any:
    value = node.attrs["value"]
    if value.nbytes > _CONSTANT_BYTES or value.dtype == object:
        return None
    return node.dtypes, value.shape, value.tobytes(), node.device


def _may_merge(nodes: list[Node], node: Node) -> bool:
    """True if the node computes values from values: not from references, nor lists."""
    if pure_definition(node.op) is None:
        return False
    types = [*node.dtypes, *(nodes[s].dtypes[out] for s, out in node.inputs)]
    return bool(node.dtypes) and not any(t.is_ref or t is dtypes.variant or t is dtypes.resource for t in types)


def _same(a: Node, b: Node) -> bool:
    if a.dtypes != b.dtypes or a.control != b.control:
        return False
    if a.op == "Const":
        return True
    return _equal(_public(a.attrs), _public(b.attrs))


def _public(attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes that tell what is computed: not where, nor how it is differentiated."""
    return {k: v for k, v in attrs.items() if k[0] != "_"}


def _equal(a: Any, b: Any) -> bool:
    """True only if two attribute values are certainly the same."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (bool, int, float, str, bytes, DType)):
        return bool(a == b)
    if isinstance(a, TensorShape):
        return a.dims_or_none == b.dims_or_none
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(v, b[k]) for k, v in a.items())
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.dtype != object and a.shape == b.shape and a.tobytes() == b.tobytes()
    return False
