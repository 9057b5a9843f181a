"""Gradients in fewer bytes between tasks, where the session asks for it: this changes what is computed.

An edge is narrowed if it comes from another task and leads to the gradient of an update of a variable or of an
accumulator, directly or through sums, means and scalings of it at the variable's task. Others, activations above all,
stay exact. See ops/wire_forms for the forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dtfzmq.base import dtypes, names
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.plan import flow

FORMS: Final = ("float16", "bfloat16", "int8")
_GRADIENT: Final = frozenset({"grad", "delta", "gradient", "gradient_values"})
_UPDATES: Final = ("Apply", "SparseApply", "Accumulator", "SparseAccumulator")
_THROUGH: Final = frozenset({"Add", "AddN", "Identity", "Mul", "Neg", "RealDiv", "Reshape", "Sub"})

# (consumer, which of its inputs)
_Use = tuple[int, int]


def form_of(config: Mapping[str, Any]) -> str:
    """The form that a session's configuration asks for; "" for none. Raises ValueError for an unknown one."""
    form = str((config.get("wire") or {}).get("gradients", ""))
    if form in ("", "float32"):
        return ""
    if form not in FORMS:
        raise ValueError(f"wire.gradients is one of {', '.join(FORMS)}, not '{form}'.")
    return form


def narrow(nodes: list[Node], form: str) -> list[Node]:
    """The placed graph `nodes` with gradients between tasks in `form`; the same list if there are none."""
    uses = _uses(nodes)
    if not uses:
        return nodes
    wanted: dict[tuple[int, int], dict[str, list[tuple[_Use, bool]]]] = {}
    for (consumer, which), rows in uses.items():
        where = nodes[consumer].device
        wanted.setdefault(nodes[consumer].inputs[which], {}).setdefault(where, []).append(((consumer, which), rows))
    made: list[Node] = []
    place = [0] * len(nodes)
    instead: dict[_Use, int] = {}
    for i, node in enumerate(nodes):
        sources = [
            (instead[i, k], 0) if (i, k) in instead else (place[s], o) for k, (s, o) in enumerate(node.inputs)
        ]
        place[i] = len(made)
        made.append(node.moved(tuple(sources), tuple(place[s] for s in node.control)))
        for out in range(len(node.dtypes)):
            for device, users in wanted.get((i, out), {}).items():
                _pair(made, node, place[i], out, device, form, users, instead)
    return made


def _pair(
    made: list[Node], source: Node, at: int, out: int, device: str, form: str, users: list[tuple[_Use, bool]],
    instead: dict[_Use, int],
) -> None:  # fmt: skip
    """Append what packs an output where it is made and unpacks it on `device`, for `users`."""
    # rows of a sparse gradient are others in each step: what one lost is nothing to the next
    feedback = form == "int8" and not any(rows for _, rows in users)
    stem = f"{source.name}/_narrow_{out}_{names.task_of(device).strip('/').replace(':', '_').replace('/', '_')}"
    attrs = {"form": form, "feedback": feedback}
    packed = Node(f"{stem}_pack", "PackGradient", ((at, out),), (), source.device, attrs, (dtypes.uint8,))
    made.append(packed)
    made.append(Node(f"{stem}_unpack", "UnpackGradient", ((len(made) - 1, 0),), (), device, {}, (dtypes.float32,)))
    for use, _ in users:
        instead[use] = len(made) - 1


def _uses(nodes: list[Node]) -> dict[_Use, bool]:
    """The edges to narrow, as inputs of their consumers; True: rows of a sparse gradient."""
    found: dict[_Use, bool] = {}
    for i, node in enumerate(nodes):
        if node.op.startswith(_UPDATES):
            definition = opdef.find(node.op)
            if definition is None:
                continue
            for k, arg in enumerate(definition.signature.inputs):
                if arg.name in _GRADIENT and k < len(node.inputs):
                    _follow(nodes, (i, k), node.op.startswith("Sparse"), found)
    return found


def _follow(nodes: list[Node], start: _Use, rows: bool, found: dict[_Use, bool]) -> None:
    stack, seen = [start], {start}
    while stack:
        use = stack.pop()
        consumer, which = use
        s, out = nodes[consumer].inputs[which]
        source = nodes[s]
        if source.op in ("_Arg", *flow.SUBGRAPHS) or source.dtypes[out] is not dtypes.float32:
            continue
        if names.task_of(source.device) != names.task_of(nodes[consumer].device):
            found[use] = rows
        elif source.op in _THROUGH:
            further = [(s, k) for k in range(len(source.inputs)) if (s, k) not in seen]
            seen.update(further)
            stack += further
