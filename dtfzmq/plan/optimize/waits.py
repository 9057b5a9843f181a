"""Control edges that say nothing new go, so that fewer signals travel between tasks."""

from __future__ import annotations

from dtfzmq.graph.node import Node
from dtfzmq.plan import flow
from dtfzmq.plan.optimize.passes import Options

# Sources of sources that are looked at per control edge of the list, on average.
_EFFORT = 8


def thin(nodes: list[Node], keep: frozenset[int], options: Options) -> list[Node]:
    """Remove waits for what is there from the start, is read anyhow, or was waited for by another source."""
    total = sum([len(node.control) for node in nodes])
    if not total:
        return nodes
    effort = _EFFORT * (total + len(nodes))
    changed = False
    for node in nodes:
        # A reference is read where its variable is, after what the reader itself waits for: it says that in full.
        if not node.control or any(nodes[s].dtypes[out].is_ref for s, out in node.inputs):
            continue
        # Of an If or While on several tasks, its outputs tell of one of its shares, and its end of all.
        read = {s for s, _ in node.inputs if nodes[s].op not in flow.SUBGRAPHS}
        before: set[int] = set()
        for d in {*read, *node.control}:
            source = nodes[d]
            cost = len(source.inputs) + len(source.control)
            if cost > effort:
                continue
            effort -= cost
            before.update(source.control)
            before.update([s for s, _ in source.inputs if nodes[s].op not in flow.SUBGRAPHS])
        control = tuple(
            [c for c in dict.fromkeys(node.control) if c not in read and c not in before and not _there(nodes[c])]
        )
        if control != node.control:
            node.control = control
            changed = True
    return list(nodes) if changed else nodes


def _there(node: Node) -> bool:
    return node.op == "_Arg" or (node.op == "Const" and not node.control)
