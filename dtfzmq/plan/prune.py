"""Keep what a step needs: fed outputs become `_Arg`, fetched ones `_Retval`, the rest goes if nothing leads to it.

One sweep backwards over the topological order, so linear and without recursion in the length of the graph. Outputs of
If and While that nobody reads go too, with everything inside and outside that served only them: a loop accumulates
what a gradient needs only if there is a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtfzmq.base import collecting, errors
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.plan import flow
from dtfzmq.plan.part import Pruned
from dtfzmq.plan.verify import check

Endpoint = tuple[int, int]


def prune(
    nodes: Sequence[Node], feeds: Sequence[Endpoint], fetches: Sequence[Endpoint], targets: Sequence[int]
) -> Pruned:
    """The part of `nodes` that `fetches` and `targets` need, given `feeds`.

    Only the fed output is replaced: the other outputs of a fed node, and control edges from it, still need the node
    itself, unless it is a placeholder. Raises InvalidArgumentError, with TensorFlow's texts, for impossible feeds and
    fetches.
    """
    if not fetches and not targets:
        raise errors.InvalidArgumentError(None, None, "Must specify at least one target to fetch or execute.")
    fed: dict[Endpoint, int] = {}
    for k, (index, out) in enumerate(feeds):
        _check_endpoint(nodes, index, out, "FeedInputs: ")
        if (index, out) in fed:
            raise errors.InvalidArgumentError(None, None, f'Endpoint "{_name(nodes, index, out)}" fed more than once.')
        fed[index, out] = k
    for index, out in fetches:
        _check_endpoint(nodes, index, out, "FetchOutputs ")
        if (index, out) in fed:
            raise errors.InvalidArgumentError(None, None, f"{_name(nodes, index, out)} is both fed and fetched.")
    with collecting.paused(len(nodes)):
        sweep = _Sweep(nodes, fed)
        sweep.run(fetches, targets)
        pruned = sweep.rebuild(fetches)
    check("prune", pruned.nodes)
    return pruned


def _name(nodes: Sequence[Node], index: int, out: int) -> str:
    return f"{nodes[index].name}:{out}"


def _check_endpoint(nodes: Sequence[Node], index: int, out: int, what: str) -> None:
    node = nodes[index]
    if not node.dtypes:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Tried to fetch data for '{node.name}:{out}', which produces no output. To run to a node but not fetch "
            "any data, pass it as an operation to run.",
        )
    if out >= len(node.dtypes):
        raise errors.InvalidArgumentError(
            None, None, f"{what}{node.name}:{out}: output index too large, must be < {len(node.dtypes)}"
        )


class _Sweep:
    """One node list on its way: what is needed, and what became of its If and While nodes."""

    def __init__(self, nodes: Sequence[Node], fed: dict[Endpoint, int]) -> None:
        self.nodes = nodes
        self.fed = fed
        self.needed = bytearray(len(nodes))
        # Read outputs of If and While nodes, and those on which something depends as a whole.
        self.used: dict[int, set[int]] = {}
        self.whole: set[int] = set()
        self.flow: dict[int, _Flow] = {}

    def run(self, wanted: Sequence[Endpoint], targets: Sequence[int]) -> None:
        """Mark everything from which `wanted` outputs or `targets` are reached."""
        nodes, needed, fed = self.nodes, self.needed, self.fed
        for index, out in wanted:
            if (index, out) not in fed:
                needed[index] = 1
                self._use(index, out)
        for index in targets:
            needed[index] = 1
            self._use(index, None)
        top = max((i for i, _ in wanted), default=-1)
        for i in range(max(top, max(targets, default=-1)), -1, -1):
            if not needed[i]:
                continue
            node = nodes[i]
            inputs: Sequence[Endpoint] = node.inputs
            if node.op in flow.SUBGRAPHS:
                self.flow[i] = inner = _Flow(node, self.used.get(i, set()), i in self.whole)
                inputs = inner.inputs
            for edge in inputs:
                if fed and edge in fed:
                    continue
                source = edge[0]
                needed[source] = 1
                if nodes[source].op in flow.SUBGRAPHS:
                    self._use(*edge)
            for source in node.control:
                if fed and nodes[source].op in ("Placeholder", "PlaceholderV2") and (source, 0) in fed:
                    continue
                needed[source] = 1
                if nodes[source].op in flow.SUBGRAPHS:
                    self._use(source, None)

    def _use(self, index: int, out: int | None) -> None:
        if self.nodes[index].op not in flow.SUBGRAPHS:
            return
        if out is None:
            self.whole.add(index)
        else:
            self.used.setdefault(index, set()).add(out)

    def rebuild(self, fetches: Sequence[Endpoint]) -> Pruned:
        """The kept nodes, renumbered, with `_Arg` first and a `_Retval` per fetch last."""
        nodes, needed, fed = self.nodes, self.needed, self.fed
        kept: list[Node] = []
        origins: list[int] = []
        nested: dict[tuple[int, str], Pruned] = {}
        arg_at: dict[Endpoint, int] = {}
        for (index, out), k in fed.items():
            arg_at[index, out] = len(kept)
            source = nodes[index]
            kept.append(flow.arg(f"_arg_{source.name}_{out}_{k}", k, source.dtypes[out].base_dtype))
            origins.append(-1)
        place = [-1] * len(nodes)

        def edge(source: int, out: int) -> Endpoint:
            if fed and (source, out) in arg_at:
                return arg_at[source, out], 0
            inner = self.flow.get(source)
            return place[source], out if inner is None else inner.out_map[out]

        plain = not fed and not self.flow
        for i, node in enumerate(nodes):
            if not needed[i]:
                continue
            here = place[i] = len(kept)
            origins.append(i)
            inner = self.flow.get(i)
            control = tuple([place[c] for c in node.control if place[c] >= 0]) if node.control else ()
            if inner is not None:
                kept.append(inner.node(tuple([edge(*e) for e in inner.inputs]), control))
                for attr, pruned in inner.nested.items():
                    nested[here, attr] = pruned
            elif plain:
                kept.append(node.moved(tuple([(place[s], o) for s, o in node.inputs]), control))
            else:
                kept.append(node.moved(tuple([edge(s, o) for s, o in node.inputs]), control))
        for k, (index, out) in enumerate(fetches):
            kept.append(flow.retval(k, edge(index, out)))
            origins.append(-1)
        return Pruned(kept, origins, nested)


class _Flow:
    """An If or While node reduced to the outputs that are read."""

    def __init__(self, node: Node, used: set[int], whole: bool) -> None:
        self.original = node
        self.kept = flow.kept_outputs(node, used, whole)
        self.out_map = {old: new for new, old in enumerate(self.kept)}
        skip = flow.skipped_inputs(node)
        n_vars = node.attrs["n_vars"] if node.op == "While" else 0
        sweeps: dict[str, tuple[_Sweep, dict[int, int]]] = {}
        taken = set(range(n_vars))
        for attr in flow.SUBGRAPHS[node.op]:
            inner: Subgraph = node.attrs[attr]
            outputs = {out: new for new, out in enumerate(flow.branch_outputs(node, attr, self.kept))}
            sweep = _Sweep(inner.nodes, {})
            ends = [i for i, n in enumerate(inner.nodes) if n.op == "_Retval" and n.attrs["index"] in outputs]
            sweep.run([], ends)
            sweeps[attr] = sweep, outputs
            for i, n in enumerate(inner.nodes):
                if n.op == "_Arg" and sweep.needed[i]:
                    taken.add(n.attrs["index"])
        order = sorted(taken)
        self.inputs = list(node.inputs[:skip]) + [node.inputs[skip + k] for k in order]
        renumbered = {old: new for new, old in enumerate(order)}
        self.nested: dict[str, Pruned] = {}
        self.subgraphs: dict[str, Subgraph] = {}
        for attr, (sweep, outputs) in sweeps.items():
            pruned = sweep.rebuild([])
            for n in pruned.nodes:
                if n.op == "_Arg":
                    n.attrs = {"index": renumbered[n.attrs["index"]]}
                elif n.op == "_Retval":
                    n.attrs = {"index": outputs[n.attrs["index"]]}
            self.nested[attr] = pruned
            types = tuple(node.attrs[attr].inputs[k] for k in order)
            self.subgraphs[attr] = Subgraph(pruned.nodes, types, len(outputs))

    def node(self, inputs: tuple[Endpoint, ...], control: tuple[int, ...]) -> Node:
        """The reduced node."""
        node = self.original
        n_vars = node.attrs["n_vars"] if node.op == "While" else 0
        return flow.rebuilt(node, inputs, control, node.device, self.subgraphs, self.kept, n_vars)
