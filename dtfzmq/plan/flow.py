"""How If and While nodes lay out their inputs, outputs and subgraphs; everything else in planning asks here.

``If(pred, *captures; then_branch, else_branch, n_results) -> outputs of the branch taken``
``While(*variables, *captures; cond, body, n_vars, saved) -> final variables, one variant list per saved output, int32
count``

Both subgraphs of a node take the same inputs: the captures (If), the variables and captures (While). A body returns the
next variables, then the saved values; ``saved`` holds the indices of these among its outputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.graph.node import Node, Subgraph

SUBGRAPHS = {"If": ("then_branch", "else_branch"), "While": ("cond", "body")}


def skipped_inputs(node: Node) -> int:
    """Number of inputs that stand before those which the subgraphs take."""
    return 1 if node.op == "If" else 0


def kept_outputs(node: Node, used: set[int], whole: bool) -> list[int]:
    """Outputs that stay if only `used` are read; `whole`: something also depends on the node itself.

    Outputs that are there for gradients alone (of an If, those from ``n_results`` on) do not count as the node itself.
    """
    total = len(node.dtypes)
    if node.op == "If":
        results = range(node.attrs.get("n_results", total))
        return sorted(used.union(results) if whole else used)
    return sorted({*range(node.attrs["n_vars"]), *used, total - 1})


def branch_outputs(node: Node, attr: str, kept: Iterable[int]) -> list[int]:
    """Outputs of the subgraph `attr` that are needed for the kept outputs of the node."""
    if attr == "cond":
        return [0]
    if node.op == "If":
        return list(kept)
    return [out for out in kept if out < len(node.dtypes) - 1]


def rebuilt(
    node: Node,
    inputs: tuple[tuple[int, int], ...],
    control: tuple[int, ...],
    device: str,
    subgraphs: dict[str, Subgraph],
    kept: list[int],
    n_vars: int = 0,
) -> Node:
    """The node with other subgraphs and only the `kept` outputs; of these the first `n_vars` are a While's variables.

    """
    attrs: dict[str, Any] = {**node.attrs, **subgraphs}
    if node.op == "While":
        count = len(node.dtypes) - 1
        attrs["n_vars"] = n_vars
        attrs["saved"] = tuple(range(n_vars, sum(out != count for out in kept)))
    elif "n_results" in attrs:
        attrs["n_results"] = sum(out < attrs["n_results"] for out in kept)
    return Node(node.name, node.op, inputs, control, device, attrs, tuple(node.dtypes[out] for out in kept))


def arg(name: str, index: int, dtype: DType) -> Node:
    """An `_Arg` node."""
    return Node(name, "_Arg", (), (), "", {"index": index}, (dtype,))


def retval(index: int, source: tuple[int, int], device: str = "") -> Node:
    """A `_Retval` node."""
    return Node(f"_retval_{index}", "_Retval", (source,), (), device, {"index": index}, ())


COUNT = dtypes.int32
