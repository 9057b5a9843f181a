"""Where each node runs: colocation groups over the whole graph, kept as it grows, and a device per group.

Groups arise from reference and resource inputs and from `_class` (``loc:@name``). A problem of a group is raised only
when a step needs a node of it. The rules are TensorFlow 1.x's: an unconstrained node goes to the first device of the
cluster by name; a constant or placeholder follows its consumers; Shape, Size and Rank follow their input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtfzmq.base import collecting, dtypes, errors, names
from dtfzmq.base.dtypes import DType
from dtfzmq.base.names import OPEN, Device
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.plan import flow
from dtfzmq.plan.devices import DeviceTable
from dtfzmq.plan.part import Pruned
from dtfzmq.plan.verify import check

_METADATA = {"Shape", "Size", "Rank"}
_FIELDS = ("jobs", "replicas", "tasks", "types", "ids")
_CONFLICT = "?"


class Placer:
    """Groups and placements of one session's graph. One thread at a time.

    `soft` is allow_soft_placement; `log`, if given, hears of each placement once (log_device_placement).
    """

    def __init__(self, devices: DeviceTable, soft: bool = False, log: Callable[[str], None] | None = None) -> None:
        self.devices = devices
        self.soft = soft
        self.log = log
        # Per entry; an entry is a node of the graph or of a subgraph in it, or a group that is named before its node
        # is known.
        self._parent: list[int] = []
        self._names: list[str] = []
        self._types: list[tuple[DType, ...]] = []
        # Per root of a group.
        self._spec: list[Device] = []
        self._alone: list[bool] = []
        self._trouble: dict[int, str] = {}
        self._fixed: dict[int, str] = {}
        self._found: dict[Device, str] = {}
        self._logged: set[int] = set()
        # Entries of the nodes of the graph, and the first entry of each subgraph by (entry of its node, attribute).
        self._top: list[int] = []
        self._bases: dict[tuple[int, str], int] = {}
        self._scope: dict[str, int] = {}

    # -- the whole graph ----------------------------------------------------------------------------------------------

    def extend(self, nodes: Sequence[Node]) -> None:
        """Take in the nodes that the graph grew by; their inputs are indices in the whole graph."""
        top, scopes = self._top, [self._scope]
        with collecting.paused(len(nodes)):
            for node in nodes:
                top.append(self._new(node))
                self._enter(node, top[-1], top, scopes)

    def _enter(self, node: Node, entry: int, entries: Sequence[int], scopes: list[dict[str, int]]) -> None:
        if node.device:
            try:
                self._spec[entry] = names.parse_device(node.device)
            except ValueError:
                self._trouble[entry] = f"Malformed device specification '{node.device}' in node: {node.name}"
        known = scopes[-1].setdefault(node.name, entry)
        if known != entry and len(scopes) == 1:
            self._unite(known, entry, strict=True)
        if node.op in flow.SUBGRAPHS:
            self._enter_subgraphs(node, entry, entries, scopes)
            return
        types = self._types
        for index, (source, out) in enumerate(node.inputs):
            dtype = types[entries[source]][out]
            if dtype.is_ref:
                if index in _ref_inputs(node.op):
                    self._unite(entries[source], entry, strict=False)
            elif dtype is dtypes.resource:
                self._unite(entries[source], entry, strict=False)
        group = node.attrs.get("_class")
        if group:
            for text in group:
                text = text.decode() if isinstance(text, bytes) else text
                if text.startswith("loc:@"):
                    self._join(text[5:], entry, scopes)

    def _enter_subgraphs(
        self, node: Node, entry: int, entries: Sequence[int], scopes: list[dict[str, int]]
    ) -> None:
        skip = flow.skipped_inputs(node)
        for attr in flow.SUBGRAPHS[node.op]:
            inner = node.attrs[attr].nodes
            base = self._bases[entry, attr] = len(self._parent)
            for n in inner:
                self._new(n)
            here = range(base, base + len(inner))
            deeper: list[dict[str, int]] = [*scopes, {}]
            for n, made in zip(inner, here):
                if n.op == "_Arg":
                    if n.dtypes[0].is_ref or n.dtypes[0] is dtypes.resource:
                        self._unite(entries[node.inputs[skip + n.attrs["index"]][0]], made, strict=False)
                elif n.op != "_Retval":
                    self._enter(n, made, here, deeper)

    def _join(self, name: str, entry: int, scopes: list[dict[str, int]]) -> None:
        for scope in reversed(scopes):
            if name in scope:
                self._unite(scope[name], entry, strict=True)
                return
        pseudo = self._scope[name] = self._new(Node(name, ""))
        self._unite(pseudo, entry, strict=True)

    def _new(self, node: Node) -> int:
        entry = len(self._parent)
        self._parent.append(entry)
        self._names.append(node.name)
        self._types.append(node.dtypes)
        self._spec.append(OPEN)
        self._alone.append(True)
        return entry

    def _root(self, entry: int) -> int:
        parent = self._parent
        while parent[entry] != entry:
            parent[entry] = parent[parent[entry]]
            entry = parent[entry]
        return entry

    def _unite(self, first: int, second: int, strict: bool) -> None:
        """One group. On a conflict of devices the first wins, silently unless `strict`."""
        a, b = self._root(first), self._root(second)
        if a == b:
            return
        left, right = self._spec[a], self._spec[b]
        trouble = self._trouble.pop(b, None)
        if trouble is not None:
            self._trouble.setdefault(a, trouble)
        if left is not right:
            clash = [k for k in range(5) if left[k] is not None and right[k] is not None and left[k] != right[k]]
            if not clash:
                self._spec[a] = left.merged(right)
            elif not strict:
                pass
            elif self.soft and clash[0] >= 3:
                merged = left.merged(right)
                self._spec[a] = merged._replace(**{Device._fields[k]: None for k in clash})
            else:
                self._trouble.setdefault(
                    a,
                    f"Cannot colocate nodes {{{{colocation_node {self._names[second]}}}}} and "
                    f"{{{{colocation_node {self._names[first]}}}}}: Cannot merge devices with incompatible "
                    f"{_FIELDS[clash[0]]}: '{right.text()}' and '{left.text()}'",
                )
        self._parent[b] = a
        self._alone[a] = False
        fixed = self._fixed.pop(b, None)
        if fixed is not None and a not in self._fixed and self._spec[a].matches(names.parse_device(fixed)):
            self._fixed[a] = fixed

    # -- one step -----------------------------------------------------------------------------------------------------

    def place(self, pruned: Pruned) -> None:
        """Write a full device into every node of `pruned`, those of subgraphs too.

        `_Arg` and `_Retval` get none; If and While only what they were given, for they stand wherever their insides do.
        Raises InvalidArgumentError if a node cannot be placed, DevicesNeeded if tasks must be asked first.
        """
        self._place(pruned, self._top)
        check("place", pruned.nodes)

    def _place(self, pruned: Pruned, entries: Sequence[int]) -> dict[int, str]:
        """Place one node list.

        Returns, by index of an `_Arg`, where its consumers are (`_CONFLICT`: several places).
        """
        nodes, origins = pruned.nodes, pruned.origins
        generators: dict[int, str] = {}
        args: dict[int, int] = {}
        votes: dict[int, str] = {}
        later: list[int] = []
        fixed, parent = self._fixed, self._parent
        for i, node in enumerate(nodes):
            op = node.op
            if op == "_Arg":
                args[i] = node.attrs["index"]
                continue
            if op == "_Retval":
                continue
            entry = entries[origins[i]]
            if op in flow.SUBGRAPHS:
                self._place_flow(pruned, i, entry, generators, args, votes)
                continue
            root = entry if parent[entry] == entry else self._root(entry)
            device = fixed.get(root)
            if device is None:
                types = node.dtypes
                if not node.inputs and len(types) == 1 and not types[0].is_ref and self._alone[root]:
                    generators[i] = ""
                    continue
                if op in _METADATA and self._alone[root] and self._spec[root] is OPEN:
                    later.append(i)
                    continue
                device = self._decide(root, node)
            node.device = device
            if self.log is not None:
                self._report(entry, node)
            for source, _ in node.inputs:
                if source in generators:
                    _vote(generators, source, device)
                elif source in args:
                    _vote(votes, args[source], device)
        for i, wish in generators.items():
            self._place_generator(nodes[i], entries[origins[i]], wish)
        for i in later:
            self._place_metadata(nodes, i, entries[origins[i]])
            for source, _ in nodes[i].inputs:
                if source in args:
                    _vote(votes, args[source], nodes[i].device)
        return votes

    def _place_flow(
        self,
        pruned: Pruned,
        i: int,
        entry: int,
        generators: dict[int, str],
        args: dict[int, int],
        votes: dict[int, str],
    ) -> None:
        node = pruned.nodes[i]
        skip = flow.skipped_inputs(node)
        root = self._root(entry)
        node.device = self._decide(root, node) if self._spec[root] is not OPEN or root in self._trouble else ""
        for attr in flow.SUBGRAPHS[node.op]:
            inner = pruned.nested[i, attr]
            base = self._bases[entry, attr]
            wishes = self._place(inner, range(base, base + max(inner.origins, default=0) + 1))
            for index, device in wishes.items():
                source = node.inputs[skip + index][0]
                if source in generators:
                    _vote(generators, source, device)
                elif source in args:
                    _vote(votes, args[source], device)

    def _place_generator(self, node: Node, entry: int, wish: str) -> None:
        root = self._root(entry)
        follow = wish and wish != _CONFLICT and root not in self._trouble
        if follow and self._spec[root].matches(names.parse_device(wish)):
            node.device = wish
        else:
            node.device = self._decide(root, node, remember=False)
        definition = opdef.find(node.op)
        if definition is not None and definition.stateful:
            self._fixed[root] = node.device
        self._report(entry, node)

    def _place_metadata(self, nodes: Sequence[Node], i: int, entry: int) -> None:
        node = nodes[i]
        node.device = nodes[node.inputs[0][0]].device
        if not node.device or not names.is_full_device(node.device):
            node.device = self._decide(self._root(entry), node, remember=False)
        self._report(entry, node)

    def _decide(self, root: int, node: Node, remember: bool = True) -> str:
        trouble = self._trouble.get(root)
        if trouble is not None:
            raise errors.with_node(errors.InvalidArgumentError(None, None, trouble), node.name)
        spec = self._spec[root]
        device = self._found.get(spec)
        if device is None:
            found = self.devices.find(spec)
            if found is None and self.soft:
                found = self.devices.find(Device(spec.job, spec.replica, spec.task))
            if found is None:
                raise errors.with_node(self.devices.refuse(node.name, spec), node.name)
            device = self._found[spec] = found
        if remember:
            self._fixed[root] = device
        return device

    def _report(self, entry: int, node: Node) -> None:
        if self.log is not None and entry not in self._logged:
            self._logged.add(entry)
            self.log(f"{node.name}: ({node.op}): {node.device}")


def _vote(table: dict[int, str], key: int, device: str) -> None:
    known = table.get(key, "")
    if known != device:
        table[key] = _CONFLICT if known else device


_REF_INPUTS: dict[str, frozenset[int]] = {}


def _ref_inputs(op: str) -> frozenset[int]:
    """Positions of an op's inputs that are references or resources."""
    found = _REF_INPUTS.get(op)
    if found is None:
        definition = opdef.find(op)
        if definition is None:
            return frozenset()
        found = frozenset(
            i for i, a in enumerate(definition.signature.inputs) if a.ref or a.type is dtypes.resource
        )
        _REF_INPUTS[op] = found
    return found
