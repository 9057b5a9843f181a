"""Over which places an If or While spreads, before anything is split.

A place is a task or a device, as `where(device)` says. Values that come into a subgraph (`_Arg`) are everywhere, as
each share of the node is handed them; a reference is where its variable is. The functions here only look; recursion
goes as deep as Ifs and Whiles are nested, never along the graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from dtfzmq.graph.node import Node
from dtfzmq.plan import flow

# A set of places, each with the first device that was met there, in the order they were met.
Places = dict[str, str]


@dataclasses.dataclass
class Stand:
    """Where one If or While stands."""

    places: Places
    # Per output: the device whose share yields it.
    owners: list[str]
    # Per input: the places whose share takes it.
    uses: list[Places]
    # Devices of reference inputs of the subgraphs, by their index.
    homes: dict[int, str]


class Region:
    """One node list as seen by `Spread`: the device of every source, and who takes the values that come in."""

    def __init__(self, spread: Spread, nodes: Sequence[Node], homes: dict[int, str], fallback: str) -> None:
        self.spread = spread
        self.nodes = nodes
        self.homes = homes
        self.fallback = fallback
        self.places: Places = {}
        self.arg_uses: dict[int, Places] = {}
        # By index of a `_Retval`: its source.
        self.ends: dict[int, tuple[int, int]] = {}
        where = spread.where
        places = self.places
        args: dict[int, int] = {}
        for i, node in enumerate(nodes):
            if node.op == "_Arg":
                args[i] = node.attrs["index"]
                continue
            if node.op == "_Retval":
                self.ends[node.attrs["index"]] = node.inputs[0]
                continue
            if node.op in flow.SUBGRAPHS:
                stand = spread.stand(self, node)
                for place, device in stand.places.items():
                    places.setdefault(place, device)
                for (source, _), uses in zip(node.inputs, stand.uses):
                    if source in args:
                        for device in uses.values():
                            self.use(args[source], device)
                continue
            places.setdefault(where(node.device), node.device)
            if args:
                for source, _ in node.inputs:
                    if source in args:
                        self.use(args[source], node.device)

    def use(self, index: int, device: str) -> None:
        """Argument `index` is taken at `device`; a reference is taken at home and sent from there."""
        device = self.homes.get(index, device)
        place = self.spread.where(device)
        self.arg_uses.setdefault(index, {}).setdefault(place, device)
        if index in self.homes:
            self.places.setdefault(place, device)

    def device(self, source: tuple[int, int]) -> str | None:
        """The device that yields an output of this list; None if it is everywhere."""
        node = self.nodes[source[0]]
        if node.op == "_Arg":
            return self.homes.get(node.attrs["index"])
        if node.op in flow.SUBGRAPHS:
            return self.spread.stands[id(node)].owners[source[1]]
        return node.device

    def arg_index(self, source: tuple[int, int]) -> int:
        """The index of the `_Arg` that `source` is."""
        index: int = self.nodes[source[0]].attrs["index"]
        return index


class Spread:
    """The stands of all If and While nodes of a plan, by identity of the node."""

    def __init__(self, where: Callable[[str], str]) -> None:
        self.where = where
        self.stands: dict[int, Stand] = {}

    def stand(self, outer: Region, node: Node) -> Stand:
        """Where `node` of the list `outer` stands; computed once."""
        known = self.stands.get(id(node))
        if known is None:
            skip = flow.skipped_inputs(node)
            homes: dict[int, str] = {}
            for i, source in enumerate(node.inputs[skip:]):
                if outer.nodes[source[0]].dtypes[source[1]].is_ref:
                    home = outer.device(source)
                    if home is not None:
                        homes[i] = home
            if node.op == "While":
                for k in range(node.attrs["n_vars"]):
                    homes.pop(k, None)
            fallback = node.device
            if not fallback:
                fallback = next((d for d in map(outer.device, node.inputs) if d), outer.fallback)
            make = self._if if node.op == "If" else self._while
            known = self.stands[id(node)] = make(node, homes, fallback)
        return known

    def _regions(self, node: Node, homes: dict[int, str], fallback: str) -> tuple[list[Region], Places]:
        regions = [Region(self, node.attrs[attr].nodes, homes, fallback) for attr in flow.SUBGRAPHS[node.op]]
        places: Places = {}
        for region in regions:
            for place, device in region.places.items():
                places.setdefault(place, device)
        return regions, places

    def _home(self, node: Node, places: Places, fallback: str) -> str:
        """A device for what may be anywhere: the node's own, else one where it stands anyway."""
        if node.device:
            return node.device
        return next(iter(places.values()), fallback)

    def _if(self, node: Node, homes: dict[int, str], fallback: str) -> Stand:
        regions, places = self._regions(node, homes, fallback)
        home = self._home(node, places, fallback)
        owners: list[str] = []
        for j in range(len(node.dtypes)):
            first, second = (region.device(region.ends[j]) for region in regions)
            if first is None or second is None:
                owner = first or second or home
            else:
                owner = first if self.where(first) == self.where(second) or not node.device else home
            owners.append(owner)
            for region in regions:
                source = region.ends[j]
                if region.nodes[source[0]].op == "_Arg":
                    region.use(region.arg_index(source), owner)
            places.setdefault(self.where(owner), owner)
        if not places:
            places[self.where(home)] = home
        for region in regions:
            for place, device in region.places.items():
                places.setdefault(place, device)
        uses: list[Places] = [places]
        for i in range(len(node.inputs) - 1):
            taken: Places = {}
            for region in regions:
                taken.update(region.arg_uses.get(i, {}))
            uses.append(taken)
        return Stand(places, owners, uses, homes)

    def _while(self, node: Node, homes: dict[int, str], fallback: str) -> Stand:
        regions, places = self._regions(node, homes, fallback)
        cond, body = regions
        where = self.where
        home = self._home(node, places, fallback)
        n_vars: int = node.attrs["n_vars"]
        total = len(body.ends)
        owners = [body.device(body.ends[k]) or home for k in range(total)]
        for owner in owners:
            places.setdefault(where(owner), owner)
        places.setdefault(where(home), home)
        uses: list[Places] = []
        for i in range(len(node.inputs)):
            taken: Places = dict(cond.arg_uses.get(i, {}))
            taken.update(body.arg_uses.get(i, {}))
            uses.append(taken)
        for k in range(n_vars):
            uses[k].setdefault(where(owners[k]), owners[k])

        def passed(source: tuple[int, int], region: Region) -> int | None:
            return region.arg_index(source) if region.nodes[source[0]].op == "_Arg" else None

        for k in range(n_vars, total):
            index = passed(body.ends[k], body)
            if index is not None:
                uses[index].setdefault(where(homes.get(index, owners[k])), homes.get(index, owners[k]))
        # References come into cond or body places of their own: where their variable is.
        for region in regions:
            for place, device in region.places.items():
                places.setdefault(place, device)
        index = passed(cond.ends[0], cond)
        if index is not None:
            uses[index].update({where(homes[index]): homes[index]} if index in homes else places)
            for place, device in uses[index].items():
                places.setdefault(place, device)
        # A variable that takes over another's value is carried wherever the other is taken from.
        moved = True
        while moved:
            moved = False
            for k in range(n_vars):
                index = passed(body.ends[k], body)
                if index is None or index == k:
                    continue
                wanted = {where(homes[index]): homes[index]} if index in homes else uses[k]
                for place, device in wanted.items():
                    if place not in uses[index]:
                        uses[index][place] = device
                        moved = True
                    places.setdefault(place, device)
        outputs = [*owners, home]
        return Stand(places, outputs, uses, homes)
