"""What a pass is, and what it may do.

A pass gets a node list that carries full devices and returns one: the same, if it found nothing. It may merge, replace
and remove operations that are neither stateful nor asynchronous and read no reference. Three kinds stay whatever they
are: nodes whose outputs leave the graph (`keep`), nodes that nobody reads (a step's targets), and `_Arg` and `_Retval`.
What stays keeps its name, so that errors name nodes of the user.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from dtfzmq.graph.node import Node

#: TensorFlow's bound for a constant that folding makes.
MAX_FOLDED_BYTES = 10 << 20


@dataclasses.dataclass(frozen=True)
class Options:
    """Which passes run, by name; None: all of them.

    `max_folded`: bytes of a constant that folding makes; 0: as it sees fit. `gradients`: the form of gradients between
    tasks, see narrow; "": as they are.
    """

    only: frozenset[str] | None = None
    max_folded: int = 0
    gradients: str = ""


Pass = Callable[[list[Node], "frozenset[int]", Options], list[Node]]
