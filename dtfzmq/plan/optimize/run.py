"""The switches of the passes, and their run over a graph with its subgraphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dtfzmq.base import collecting
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.plan import flow
from dtfzmq.plan.optimize import chains, common, folding, identities, narrow, waits
from dtfzmq.plan.optimize.passes import Options, Pass
from dtfzmq.plan.verify import check, check_lasting, lasting

#: Every pass by its name, in the order in which they run.
PASSES: Final[dict[str, Pass]] = {
    "folding": folding.fold,
    "identities": identities.leave_out,
    "common": common.share,
    "waits": waits.thin,
    "chains": chains.mark,
}
# A pass's own field among TF1's OptimizerOptions.
_FIELDS = {"folding": "do_constant_folding", "common": "do_common_subexpression_elimination"}


def options_of(config: Mapping[str, Any]) -> Options:
    """What a session's configuration asks for, in ``graph_options.optimizer_options`` and ``wire``.

    Level L1, the default, runs every pass, but for one whose own field says False. Level L0 runs none, but for one
    whose own field says True.
    """
    asked = (config.get("graph_options") or {}).get("optimizer_options") or {}
    on = asked.get("opt_level", 0) >= 0
    names = [name for name in PASSES if asked.get(_FIELDS.get(name, ""), on)]
    folded = max(0, int(asked.get("max_folded_constant_in_bytes", 0)))
    return Options(frozenset(names), folded, narrow.form_of(config))


def optimize(nodes: list[Node], options: Options) -> list[Node]:
    """A graph that computes what the placed graph `nodes` does, for less. `nodes` are no longer to be used."""
    names = [name for name in PASSES if options.only is None or name in options.only]
    with collecting.paused(len(nodes)):
        if names:
            nodes = _optimize(nodes, names, options, top=True)
        if options.gradients:
            nodes = narrow.narrow(nodes, options.gradients)
            check("optimize narrow", nodes)
    return nodes


def _optimize(nodes: list[Node], names: list[str], options: Options, top: bool) -> list[Node]:
    for node in nodes:
        for attr in flow.SUBGRAPHS.get(node.op, ()):
            inner: Subgraph = node.attrs[attr]
            better = _optimize(inner.nodes, names, options, top=False)
            if better is not inner.nodes:
                node.attrs = {**node.attrs, attr: Subgraph(better, inner.inputs, inner.outputs)}
    for name in names:
        keep = frozenset([n.inputs[0][0] for n in nodes if n.op == "_Retval"]) if top else frozenset()
        stay = lasting(nodes, keep)
        found = PASSES[name](nodes, keep, options)
        if found is not nodes:
            nodes = found
            check(f"optimize {name}", nodes)
            check_lasting(f"optimize {name}", stay, nodes)
    return nodes
