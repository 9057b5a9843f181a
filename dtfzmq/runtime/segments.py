"""Cuts a node list into segments: nodes that wait for the same asynchronous ops, directly or not.

A node never waits for more than it depends on, since what it would send meanwhile may be what others wait for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dtfzmq.graph.node import Node

# Sets of more asynchronous ops than this are not kept per node.
EXACT = 2048
_SMALL = 1 << 60


@dataclasses.dataclass
class Segments:
    """`of`: the segment of each node. `waits`: how many asynchronous ops and segments each segment waits for.

    `followers`: the segments that wait for each segment; `dependents`: those that wait for each asynchronous op, in the
    order of these.
    """

    of: list[int]
    waits: list[int]
    followers: list[tuple[int, ...]]
    dependents: list[tuple[int, ...]]


def cut(nodes: Sequence[Node], is_async: Sequence[int], exact: int = EXACT) -> Segments:
    """The segments of `nodes`; segment 0 waits for nothing. `is_async[i]` is true for asynchronous ops.

    With more than `exact` of them it takes time that grows with the edges alone, and there may be more segments than
    need be.
    """
    count = sum(map(bool, is_async))
    if not count:
        return Segments([0] * len(nodes), [0], [()], [])
    numbers: dict[int, int] = {}
    of = (_by_sources if count > exact else _by_sets)(nodes, is_async, numbers)
    return _linked(nodes, of, numbers)


def _by_sets(nodes: Sequence[Node], is_async: Sequence[int], numbers: dict[int, int]) -> list[int]:
    of: list[int] = []
    masks = [0] * len(nodes)
    segments: dict[int | bytes, int] = {0: 0}
    for i, node in enumerate(nodes):
        mask = 0
        for s, _ in node.inputs:
            mask |= masks[s]
        for s in node.control:
            mask |= masks[s]
        # Large ints such as 2**k - 1 share few hashes, their bytes do not.
        key = mask if mask < _SMALL else mask.to_bytes((mask.bit_length() + 7) // 8, "little")
        of.append(segments.setdefault(key, len(segments)))
        if is_async[i]:
            mask |= 1 << len(numbers)
            numbers[i] = len(numbers)
        masks[i] = mask
    return of


def _by_sources(nodes: Sequence[Node], is_async: Sequence[int], numbers: dict[int, int]) -> list[int]:
    """A node joins the segment of one of its sources if that waits for all others anyway."""
    of: list[int] = []
    # Per segment: the segments and (as ~number) the asynchronous ops that it waits for.
    waits: list[frozenset[int]] = [frozenset()]
    segments: dict[frozenset[int], int] = {waits[0]: 0}
    for i, node in enumerate(nodes):
        found: set[int] = set()
        for s, _ in node.inputs:
            found.add(~numbers[s] if s in numbers else of[s])
        for s in node.control:
            found.add(~numbers[s] if s in numbers else of[s])
        found.discard(0)
        if len(found) > 1:
            for source in tuple(found):
                if source > 0:
                    found -= waits[source]
        if len(found) == 1 and min(found) > 0:
            of.append(found.pop())
        else:
            key = frozenset(found)
            here = segments.setdefault(key, len(waits))
            if here == len(waits):
                waits.append(key)
            of.append(here)
        if is_async[i]:
            numbers[i] = len(numbers)
    return of


def _linked(nodes: Sequence[Node], of: list[int], numbers: dict[int, int]) -> Segments:
    """A segment waits for every asynchronous op and every other segment that its nodes depend on."""
    waits: list[set[int]] = [set() for _ in range(max(of) + 1)]
    for i, node in enumerate(nodes):
        here = of[i]
        for s in [*[s for s, _ in node.inputs], *node.control]:
            if s in numbers:
                waits[here].add(~numbers[s])
            elif of[s] != here and (nodes[s].control or nodes[s].op not in ("Const", "_Arg")):
                waits[here].add(of[s])
    dependents: list[list[int]] = [[] for _ in numbers]
    followers: list[list[int]] = [[] for _ in waits]
    for segment, sources in enumerate(waits):
        for source in sources:
            (followers[source] if source >= 0 else dependents[~source]).append(segment)
    return Segments(
        of, [len(sources) for sources in waits], [tuple(f) for f in followers], [tuple(d) for d in dependents]
    )
