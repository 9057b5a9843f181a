"""Split a placed graph by place: tasks at the master, devices at a worker. The same routine does both.

A value that crosses becomes one `_Send` and `_Recv` for each (output, destination); a control edge that crosses rides
on such a pair of its source or gets an empty one. A reference that crosses is read and sent for each reader, after
what that reader waits for, as far as the reader's control inputs and the variable's own place say. Feeds are
everywhere: no part gets them from another. If and While are split like everything else: each place runs its share
under the same predicate, which its owner sends to the others, each iteration for a While; `key` of a `_Send` or
`_Recv` inside is completed by frame and iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dtfzmq.base import collecting, dtypes, names
from dtfzmq.base.dtypes import DType
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.plan import flow, windows
from dtfzmq.plan.part import Part
from dtfzmq.plan.spread import Places, Region, Spread, Stand
from dtfzmq.plan.verify import check

Edge = tuple[int, int]
Incarnation = Callable[[str], int]


def partition_by_task(nodes: list[Node], home: str, incarnation: Incarnation) -> list[Part]:
    """One part per task that runs a node of `nodes`, which all carry full devices.

    `home` is the device for what is nowhere in particular (a fed tensor that is fetched), `incarnation(device)` goes
    into the keys. Each feed is a feed of every part that consumes it.
    """
    parts = []
    for task, share in _split(nodes, names.task_of, home, incarnation, "edge").items():
        feeds: list[int] = []
        fetches: list[int] = []
        for i, node in enumerate(share):
            if node.op in ("_Arg", "_Retval"):
                numbers = feeds if node.op == "_Arg" else fetches
                numbers.append(node.attrs["index"])
                share[i] = _indexed(node, len(numbers) - 1)
        check("partition", share)
        parts.append(Part(task, share, tuple(feeds), tuple(fetches)))
    return parts


def partition_by_device(nodes: list[Node], home: str, incarnation: Incarnation) -> dict[str, list[Node]]:
    """The nodes of one part by device; `_Arg` and `_Retval` keep their indices in the part."""
    shares = _split(nodes, _same, home, incarnation, "edge_d")
    for share in shares.values():
        check("device", share)
    return shares


def _same(device: str) -> str:
    return device


def _indexed(node: Node, index: int) -> Node:
    return Node(node.name, node.op, node.inputs, node.control, node.device, {"index": index}, node.dtypes)


def _split(
    nodes: list[Node], where: Callable[[str], str], home: str, incarnation: Incarnation, prefix: str
) -> dict[str, list[Node]]:
    with collecting.paused(len(nodes)):
        spread = Spread(where)
        region = Region(spread, nodes, {}, home)
        if len(region.places) <= 1:
            return {next(iter(region.places), where(home)): list(nodes)}
        context = _Context(spread, incarnation, prefix)
        return _Splitter(context, region, None).shares


class _Context:
    """What all regions of one plan share."""

    def __init__(self, spread: Spread, incarnation: Incarnation, prefix: str) -> None:
        self.spread = spread
        self.where = spread.where
        self.incarnation = incarnation
        self.prefix = prefix
        self.numbers: Iterator[int] = itertools.count()
        self._routes: dict[tuple[str, str], tuple[int, str]] = {}

    def route(self, origin: str, device: str) -> tuple[int, str]:
        """The incarnation of `origin`, and how keys from there to `device` begin."""
        known = self._routes.get((origin, device))
        if known is None:
            incarnation = self.incarnation(origin)
            known = self._routes[origin, device] = incarnation, f"{origin};{incarnation:016x};{device};"
        return known


class _Splitter:
    """Splits one node list; `needs` says at which places each `_Retval` is wanted (None: where its source is)."""

    def __init__(self, context: _Context, region: Region, needs: dict[int, Places] | None) -> None:
        self.context = context
        self.where = where = context.where
        self.region = region
        self.needs = needs
        self.nodes = list(region.nodes)
        self.shares: dict[str, list[Node]] = {place: [] for place in region.places}
        # Per node that stands at one place: the place, its device aside, and the index in the share there.
        self.spots: list[str | None] = []
        self.local: list[int] = [-1] * len(self.nodes)
        # Copies of an `_Arg`; shares of an If or While with new numbers of outputs; what was received.
        self.arg_at: dict[tuple[int, str], int] = {}
        self.flow_at: dict[tuple[int, str], tuple[int, dict[int, int]]] = {}
        self.received: dict[tuple[int, int, str], int] = {}
        self.pulsed: dict[tuple[tuple[int, ...], str, str], int] = {}
        self.solid_of: dict[Edge, int] = {}
        for node in self.nodes:
            special = node.op in flow.SUBGRAPHS or node.op in ("_Arg", "_Retval")
            self.spots.append(None if special else where(node.device))
        self.riders = self._riders()
        for i in range(len(region.nodes)):
            self._add(i, self.nodes[i])

    def _riders(self) -> dict[tuple[int, str], int]:
        """By (source, destination): an output that crosses anyway, so that a control edge can ride on it."""
        spots, nodes = self.spots, self.nodes
        riders: dict[tuple[int, str], int] = {}
        waited_for = {source for node in nodes for source in node.control}
        if not waited_for:
            return riders
        for node, spot in zip(nodes, spots):
            if spot is None:
                continue
            for source, out in node.inputs:
                if source in waited_for and spots[source] != spot and not nodes[source].dtypes[out].is_ref:
                    riders.setdefault((source, spot), out)
        return riders

    def _add(self, i: int, node: Node) -> None:
        op = node.op
        if op == "_Arg":
            return
        if op == "_Retval":
            self._add_retval(node)
            return
        if op in flow.SUBGRAPHS:
            self._add_flow(i, node)
            return
        spot = self.spots[i]
        assert spot is not None
        spots, local = self.spots, self.local
        inputs = tuple(
            [
                (local[s], o) if spots[s] == spot else self._value((s, o), spot, node.device, node)
                for s, o in node.inputs
            ]
        )
        control = self._controls(node.control, spot, node.device) if node.control else ()
        share = self.shares[spot]
        local[i] = len(share)
        share.append(node.moved(inputs, control))

    # -- edges --------------------------------------------------------------------------------------------------------

    def _value(self, source: Edge, spot: str, device: str, reader: Node) -> Edge:
        """The local form, in the share of `spot`, of an output that `reader` takes at `device`."""
        s, out = source
        known = self.received.get((s, out, spot))
        if known is not None:
            return known, 0
        node = self.nodes[s]
        if node.op == "_Arg" and node.attrs["index"] not in self.region.homes:
            return self._arg(s, spot), 0
        origin = self._origin(source)
        if self.where(origin) == spot:
            return self._here(source, spot)
        if node.dtypes[out].is_ref:
            return self._read(source, origin, spot, device, reader), 0
        here = self._here(source, self.where(origin))
        known = self.received[s, out, spot] = self._pair(node, here, (), origin, device, node.dtypes[out])
        return known, 0

    def _origin(self, source: Edge) -> str:
        device = self.region.device(source) if source[0] < len(self.region.nodes) else self.nodes[source[0]].device
        assert device is not None
        return device

    def _here(self, source: Edge, spot: str) -> Edge:
        """An output as its own place knows it."""
        s, out = source
        if self.nodes[s].op == "_Arg":
            return self._arg(s, spot), 0
        if self.nodes[s].op in flow.SUBGRAPHS:
            index, outputs = self.flow_at[s, spot]
            return index, outputs[out]
        return self.local[s], out

    def _arg(self, s: int, spot: str) -> int:
        known = self.arg_at.get((s, spot))
        if known is None:
            node = self.nodes[s]
            dtype = node.dtypes[0]
            if node.attrs["index"] not in self.region.homes:
                dtype = dtype.base_dtype
            share = self._share(spot)
            known = self.arg_at[s, spot] = len(share)
            share.append(flow.arg(node.name, node.attrs["index"], dtype))
        return known

    def _share(self, spot: str) -> list[Node]:
        return self.shares.setdefault(spot, [])

    def _read(self, source: Edge, origin: str, spot: str, device: str, reader: Node) -> int:
        """A pair of its own for a reader of a reference: read and sent after what the reader waits for."""
        place = self.where(origin)
        waits = list(self._controls(reader.control, place, origin))
        for s, out in reader.inputs:
            if self.spots[s] == place and not self.nodes[s].dtypes[out].is_ref and self.local[s] >= 0:
                waits.append(self.local[s])
        node = self.nodes[source[0]]
        here = self._here(source, place)
        return self._pair(node, here, tuple(waits), origin, device, node.dtypes[source[1]].base_dtype)

    def _solid(self, source: Edge) -> Edge:
        """For a reference whose value several places must agree on: one read of it, an Identity at its place."""
        node = self.nodes[source[0]]
        if not node.dtypes[source[1]].is_ref:
            return source
        known = self.solid_of.get(source)
        if known is None:
            origin = self._origin(source)
            place = self.where(origin)
            dtype = node.dtypes[source[1]].base_dtype
            name = f"{node.name}/_read_{next(self.context.numbers)}"
            share = self._share(place)
            known = self.solid_of[source] = len(self.nodes)
            made = Node(name, "Identity", (self._here(source, place),), (), origin, {"T": dtype}, (dtype,))
            self.nodes.append(made)
            self.spots.append(place)
            self.local.append(len(share))
            share.append(made)
        return known, 0

    def _controls(self, sources: Sequence[int], spot: str, device: str) -> tuple[int, ...]:
        """Control inputs in the share of `spot` that stand for `sources`."""
        found: dict[int, None] = {}
        # By place: a device there, and the nodes of its share that must be heard of.
        away: dict[str, tuple[str, dict[int, int]]] = {}
        for s in sources:
            node = self.nodes[s]
            if node.op in flow.SUBGRAPHS:
                for place, origin in self.context.spread.stands[id(node)].places.items():
                    index = self.flow_at[s, place][0]
                    if place == spot:
                        found[index] = None
                    else:
                        away.setdefault(place, (origin, {}))[1][index] = s
            elif node.op != "_Arg":
                place = self.spots[s] or ""
                if place == spot:
                    found[self.local[s]] = None
                elif (s, spot) in self.riders:
                    found[self._value((s, self.riders[s, spot]), spot, device, node)[0]] = None
                else:
                    away.setdefault(place, (node.device, {}))[1][self.local[s]] = s
        for place, (origin, waits) in away.items():
            found[self._pulse(place, origin, waits, spot, device)] = None
        return tuple(found)

    def _pulse(self, place: str, origin: str, waits: dict[int, int], spot: str, device: str) -> int:
        """An empty pair that tells `spot` that some nodes of the share of `place` have run: one for all of them."""
        key = tuple(waits), place, spot
        known = self.pulsed.get(key)
        if known is None:
            node = self.nodes[next(iter(waits.values()))]
            known = self.pulsed[key] = self._pair(node, None, tuple(waits), origin, device, dtypes.float32)
        return known

    def _pair(
        self,
        node: Node,
        here: Edge | None,
        waits: tuple[int, ...],
        origin: str,
        device: str,
        dtype: DType,
        window: int = 0,
    ) -> int:
        """Append `_Send` at `origin` and `_Recv` at `device`; the index of what is received in its share.

        With `window`, what is received in an iteration is what was sent so many before.
        """
        context = self.context
        number = next(context.numbers)
        listed = dtype is dtypes.variant
        if listed and here is not None:  # only arrays travel: a loop's list becomes bytes
            dtype = dtypes.uint8
            share = self._share(self.where(origin))
            share.append(Node(f"{node.name}_S{number}_pack", "ListPack", (here,), (), origin, {}, (dtype,)))
            here = len(share) - 1, 0
        tensor_name = f"{context.prefix}_{number}_{node.name}"
        incarnation, start = context.route(origin, device)
        attrs: dict[str, Any] = {
            "tensor_name": tensor_name,
            "send_device": origin,
            "recv_device": device,
            "send_device_incarnation": incarnation,
            "key": f"{start}{tensor_name};",
            "T": dtype,
        }
        if window:
            attrs["window"] = window
        stem = f"{node.name}_S{number}" if context.prefix == "edge" else f"{node.name}_G{number}"
        inputs: tuple[Edge, ...] = () if here is None else (here,)
        self._share(self.where(origin)).append(Node(f"{stem}_send", "_Send", inputs, waits, origin, attrs, ()))
        share = self._share(self.where(device))
        share.append(Node(f"{stem}_recv", "_Recv", (), (), device, attrs, (dtype,)))
        if listed:
            got = len(share) - 1, 0
            share.append(Node(f"{stem}_unpack", "ListUnpack", (got,), (), device, {}, (dtypes.variant,)))
        return len(share) - 1

    # -- ends and subgraphs -------------------------------------------------------------------------------------------

    def _add_retval(self, node: Node) -> None:
        source = node.inputs[0]
        if self.needs is None:
            device = self.region.device(source) or self.region.fallback
            wanted: Places = {self.where(device): device}
        else:
            wanted = self.needs[node.attrs["index"]]
            if len(wanted) > 1:
                source = self._solid(source)
        for spot, device in wanted.items():
            local = self._value(source, spot, device, node)
            self._share(spot).append(flow.retval(node.attrs["index"], local, device))

    def _add_flow(self, i: int, node: Node) -> None:
        stand = self.context.spread.stands[id(node)]
        inners: dict[str, dict[str, list[Node]]] = {}
        splitter: _Splitter | None = None
        for attr in flow.SUBGRAPHS[node.op]:
            region = Region(self.context.spread, node.attrs[attr].nodes, stand.homes, next(iter(stand.places.values())))
            splitter = _Splitter(self.context, region, _needs(node, attr, stand, self.where))
            inners[attr] = splitter.shares
        if node.op == "While" and splitter is not None:
            window = int(node.attrs.get("parallel_iterations", windows.WINDOW))
            for ahead, behind in windows.unheld(list(inners.values()), self.where):
                splitter._pair(node, None, (), stand.places[behind], stand.places[ahead], dtypes.float32, window)
        skip = flow.skipped_inputs(node)
        sources = list(node.inputs)
        agreed = skip if node.op == "If" else node.attrs["n_vars"]
        for k in range(agreed):
            if len(stand.uses[k]) > 1:
                sources[k] = self._solid(sources[k])
        for place, device in stand.places.items():
            taken = [k for k in range(len(sources)) if place in stand.uses[k]]
            inputs = tuple(self._value(sources[k], place, device, node) for k in taken)
            control = self._controls(node.control, place, device)
            kept = [out for out, owner in enumerate(stand.owners) if self.where(owner) == place]
            n_vars = 0
            if node.op == "While":
                total = len(node.dtypes) - 1
                carried = [k for k in taken if k < node.attrs["n_vars"]]
                n_vars = len(carried)
                kept = [*carried, *(out for out in kept if node.attrs["n_vars"] <= out < total), total]
            numbers = {k - skip: n - skip for n, k in enumerate(taken)}
            types = tuple(
                self._arg_type(node, k - skip, stand) for k in taken[skip:]
            )
            subgraphs = {}
            for attr, shares in inners.items():
                outputs = {out: n for n, out in enumerate(flow.branch_outputs(node, attr, kept))}
                share = shares.get(place, [])
                for n in share:
                    if n.op == "_Arg":
                        n.attrs = {"index": numbers[n.attrs["index"]]}
                    elif n.op == "_Retval":
                        n.attrs = {"index": outputs[n.attrs["index"]]}
                subgraphs[attr] = Subgraph(share, types, len(outputs))
            share = self._share(place)
            self.flow_at[i, place] = len(share), {out: n for n, out in enumerate(kept)}
            share.append(flow.rebuilt(node, inputs, control, device, subgraphs, kept, n_vars))

    def _arg_type(self, node: Node, index: int, stand: Stand) -> DType:
        dtype: DType = node.attrs[flow.SUBGRAPHS[node.op][0]].inputs[index]
        return dtype if index in stand.homes else dtype.base_dtype


def _needs(node: Node, attr: str, stand: Stand, where: Callable[[str], str]) -> dict[int, Places]:
    """Where the outputs of a subgraph are wanted."""
    if attr == "cond":
        return {0: stand.places}
    if node.op == "If":
        return {j: {where(owner): owner} for j, owner in enumerate(stand.owners)}
    n_vars = node.attrs["n_vars"]
    needs: dict[int, Places] = {}
    for k, owner in enumerate(stand.owners[:-1]):
        needs[k] = stand.uses[k] if k < n_vars else {where(owner): owner}
    return needs
