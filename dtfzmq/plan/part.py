"""What planning hands on: the pruned graph of a step, and the part of each task."""

from __future__ import annotations

import dataclasses

from dtfzmq.graph.node import Node


@dataclasses.dataclass
class Pruned:
    """The nodes that a step needs, in order, and where each was in the whole graph.

    Feeds are `_Arg` nodes (attr ``index``: position among the feeds), fetches `_Retval` nodes. `origins[i]` is the
    index of node i in the list it was pruned from, -1 for nodes that pruning made. `nested` maps (index of an If or
    While, its attribute) to the same for the subgraph there. The nodes belong to this object alone until it is
    partitioned.
    """

    nodes: list[Node]
    origins: list[int]
    nested: dict[tuple[int, str], Pruned]


@dataclasses.dataclass(frozen=True)
class Part:
    """What one task runs of a step.

    `feeds` and `fetches` are positions among the step's feeds and fetches; the `_Arg` and `_Retval` nodes carry as
    ``index`` the position in these tuples.
    """

    task: str
    nodes: list[Node]
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
