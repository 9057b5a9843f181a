"""What a pass wants changed in a node list, and the list with the changes made."""

from __future__ import annotations

from collections.abc import Iterable

from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.graph.opdef import OpDef

Edge = tuple[int, int]


class Edits:
    """Changes to one node list, collected front to back."""

    def __init__(self, nodes: list[Node], keep: frozenset[int]) -> None:
        self.nodes = nodes
        self.keep = keep
        # Where the readers of an output, and those who wait for a node, look instead.
        self.edges: dict[Edge, Edge] = {}
        self.waits: dict[int, tuple[int, ...]] = {}
        # Nodes that go if nobody reads them any more.
        self.loose: set[int] = set()
        self._replaced = False
        self._read: bytearray | None = None

    def goes(self, i: int) -> bool:
        """True if node i may be taken out: it is not kept, and somebody reads it or waits for it."""
        if i in self.keep:
            return False
        if self._read is None:
            self._read = _sources(self.nodes)
        return bool(self._read[i])

    def now(self, edge: Edge) -> Edge:
        """Where an input of the list comes from after the changes so far."""
        return self.edges.get(edge, edge) if self.edges else edge

    def bypass(self, i: int, source: Edge) -> None:
        """Give the readers of node i's one output `source` instead, which stands before it, and take it out."""
        source = self.now(source)
        self.edges[i, 0] = source
        self.waits[i] = self.waits.get(source[0], (source[0],))
        self._loosen(self.nodes[i].inputs)

    def merge(self, i: int, other: int) -> None:
        """Give the readers of node i the outputs of `other`, which stands before it, and take it out."""
        for out in range(len(self.nodes[i].dtypes)):
            self.edges[i, out] = other, out
        self.waits[i] = (other,)
        self._loosen(self.nodes[i].inputs)

    def replace(self, i: int, node: Node) -> None:
        """Put a node without sources in the place of node i."""
        self._loosen(self.nodes[i].inputs)
        self.nodes[i] = node
        self._replaced = True

    def _loosen(self, inputs: Iterable[Edge]) -> None:
        for s, _ in inputs:
            s, _ = self.now((s, 0))
            if s not in self.keep and is_pure(self.nodes[s]):
                self.loose.add(s)

    def done(self) -> list[Node]:
        """The list with all changes; the same list if there are none."""
        nodes, edges, waits = self.nodes, self.edges, self.waits
        if not edges and not self.loose:
            return list(nodes) if self._replaced else nodes
        count = len(nodes)
        read = bytearray(count)
        gone = bytearray(count)
        loose = self.loose
        for i in range(count - 1, -1, -1):
            node = nodes[i]
            if i in waits or (i in loose and not read[i]):
                gone[i] = 1
                if i not in waits:
                    self._loosen(node.inputs)
                continue
            for edge in node.inputs:
                read[edges.get(edge, edge)[0]] = 1
            for s in node.control:
                for target in waits.get(s, (s,)):
                    read[target] = 1
        place = [-1] * count
        kept: list[Node] = []
        for i, node in enumerate(nodes):
            if gone[i]:
                continue
            place[i] = len(kept)
            if node.inputs:
                node.inputs = tuple([(place[s], o) for s, o in [edges.get(e, e) for e in node.inputs]])
            if node.control:
                targets = [place[t] for s in node.control for t in waits.get(s, (s,))]
                node.control = tuple(dict.fromkeys(targets))
            kept.append(node)
        return kept


def _sources(nodes: list[Node]) -> bytearray:
    read = bytearray(len(nodes))
    for node in nodes:
        for s, _ in node.inputs:
            read[s] = 1
        for s in node.control:
            read[s] = 1
    return read


def is_pure(node: Node) -> bool:
    """True if all that a node does is to compute values from values: it may be left out if nobody wants them."""
    definition = pure_definition(node.op)
    return definition is not None and not any(t.is_ref for t in node.dtypes)


def pure_definition(op: str) -> OpDef | None:
    """The declaration of an op that computes values at once and has no state; None for any other."""
    found = _PURE.get(op)
    if found is None and op not in _PURE:
        found = opdef.find(op)
        if found is not None and (
            found.stateful or found.start is not None or found.holds or not (found.kernel or found.make)
        ):
            found = None
        if opdef.find(op) is not None:
            _PURE[op] = found
    return found


_PURE: dict[str, OpDef | None] = {}
