"""Which shares of a split While would run ahead of others without bound.

Every share runs the iterations one after the other and takes what others send it in each. One that sends to another
and takes nothing from it, directly or by way of third ones, is not held up by it: the values that it sends would pile
up there. Such a pair gets a signal back per iteration, and the first waits in iteration i for the one of i - window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dtfzmq.graph.node import Node

#: Iterations that one share may be ahead of another; TensorFlow's default for parallel_iterations.
WINDOW = 10


def unheld(shares: Sequence[Mapping[str, list[Node]]], where: Callable[[str], str]) -> list[tuple[str, str]]:
    """Pairs (ahead, behind) of places that need a window, given the shares of cond and of body by place."""
    takes: dict[str, dict[str, None]] = {}
    for region in shares:
        for place, nodes in region.items():
            found = takes.setdefault(place, {})
            for node in nodes:
                if node.op == "_Recv":
                    found[where(node.attrs["send_device"])] = None
    pairs = []
    for behind, sources in takes.items():
        for ahead in sources:
            if ahead in takes and behind not in _all_sources(ahead, takes):
                pairs.append((ahead, behind))
    return pairs


def _all_sources(place: str, takes: Mapping[str, Mapping[str, None]]) -> set[str]:
    """The places whose values `place` takes in each iteration, directly or not."""
    found: set[str] = set()
    left = [place]
    while left:
        for source in takes.get(left.pop(), ()):
            if source not in found:
                found.add(source)
                left.append(source)
    return found
