"""What must hold of a node list after each pass, as a table; an error names pass, rule and node.

The passes call `check`, which does nothing unless `switch` turned it on: in tests always, elsewhere to hunt a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtfzmq.base import errors, names
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.plan import flow

# A rule yields the names of nodes that break it.
Rule = Callable[[Sequence[Node]], "list[str]"]


def _ordered(nodes: Sequence[Node]) -> list[str]:
    return [
        n.name
        for i, n in enumerate(nodes)
        if any(not 0 <= s < i for s, _ in n.inputs) or any(not 0 <= s < i for s in n.control)
    ]


def _outputs_exist(nodes: Sequence[Node]) -> list[str]:
    return [n.name for n in nodes if any(s >= len(nodes) or not 0 <= o < len(nodes[s].dtypes) for s, o in n.inputs)]


def _ends_have_index(nodes: Sequence[Node]) -> list[str]:
    ends = [n for n in nodes if n.op in ("_Arg", "_Retval")]
    return [n.name for n in ends if len(n.attrs) != 1 or not isinstance(n.attrs.get("index"), int)]


def _retvals_distinct(nodes: Sequence[Node]) -> list[str]:
    seen: dict[int, str] = {}
    bad = []
    for n in nodes:
        if n.op == "_Retval":
            if n.attrs["index"] in seen:
                bad.append(n.name)
            seen[n.attrs["index"]] = n.name
    return bad


def _flow_fits(nodes: Sequence[Node]) -> list[str]:
    """Subgraphs take what their node passes and return what it yields."""
    bad = []
    for n in nodes:
        if n.op not in flow.SUBGRAPHS:
            continue
        taken = len(n.inputs) - flow.skipped_inputs(n)
        for attr in flow.SUBGRAPHS[n.op]:
            inner = n.attrs[attr]
            returned = sorted(m.attrs["index"] for m in inner.nodes if m.op == "_Retval")
            fits = len(inner.inputs) == taken and returned == list(range(inner.outputs))
            fits &= all(m.attrs["index"] < taken for m in inner.nodes if m.op == "_Arg")
            if attr == "cond":
                fits &= inner.outputs == 1
            elif attr == "body":
                n_vars, saved = n.attrs["n_vars"], n.attrs["saved"]
                fits &= inner.outputs == n_vars + len(saved) and len(n.dtypes) == inner.outputs + 1
            else:
                fits &= inner.outputs == len(n.dtypes)
            if not fits:
                bad.append(f"{n.name}.{attr}")
    return bad


def _placed(nodes: Sequence[Node]) -> list[str]:
    loose = ("_Arg", "_Retval", *flow.SUBGRAPHS)
    return [n.name for n in nodes if n.op not in loose and not names.is_full_device(n.device)]


def _one_task(nodes: Sequence[Node]) -> list[str]:
    return _one_place(nodes, names.task_of)


def _one_device(nodes: Sequence[Node]) -> list[str]:
    return _one_place(nodes, lambda device: device)


def _one_place(nodes: Sequence[Node], where: Callable[[str], str]) -> list[str]:
    home = None
    bad = []
    for n in nodes:
        if not n.device or n.op in ("_Arg", "_Retval", *flow.SUBGRAPHS):
            continue
        place = where(n.device)
        if home is None:
            home = place
        elif place != home:
            bad.append(n.name)
    return bad


def _pairs_face_right(nodes: Sequence[Node]) -> list[str]:
    """A `_Send` stands on its send_device, a `_Recv` on its recv_device, and the key says so."""
    bad = []
    for n in nodes:
        if n.op in ("_Send", "_Recv"):
            a = n.attrs
            mine = a["send_device"] if n.op == "_Send" else a["recv_device"]
            start = f"{a['send_device']};{a['send_device_incarnation']:016x};{a['recv_device']};{a['tensor_name']};"
            if n.device != mine or a["key"] != start or a["send_device"] == a["recv_device"]:
                bad.append(n.name)
    return bad


def _keys_distinct(nodes: Sequence[Node]) -> list[str]:
    seen: set[tuple[str, str]] = set()
    bad = []
    for n in nodes:
        if n.op in ("_Send", "_Recv"):
            key = n.op, n.attrs["key"]
            if key in seen:
                bad.append(n.name)
            seen.add(key)
    return bad


def _no_ref_received(nodes: Sequence[Node]) -> list[str]:
    return [n.name for n in nodes if n.op == "_Recv" and n.dtypes[0].is_ref]


_ALWAYS: list[tuple[str, Rule]] = [
    ("sources stand before their consumers", _ordered),
    ("every input is an output that exists", _outputs_exist),
    ("_Arg and _Retval have an index and nothing else", _ends_have_index),
    ("no output is returned twice", _retvals_distinct),
    ("subgraphs fit their If or While", _flow_fits),
]
_SPLIT: list[tuple[str, Rule]] = [
    ("every node has a full device", _placed),
    ("every _Send and _Recv stands on its own side of its key", _pairs_face_right),
    ("no key is used twice", _keys_distinct),
    ("a received tensor is a value", _no_ref_received),
]
RULES: dict[str, list[tuple[str, Rule]]] = {
    "prune": _ALWAYS,
    "place": [*_ALWAYS, ("every node has a full device", _placed)],
    "optimize": [*_ALWAYS, ("every node has a full device", _placed)],
    "partition": [*_ALWAYS, *_SPLIT, ("every node is on this task", _one_task)],
    "device": [*_ALWAYS, *_SPLIT, ("every node is on this device", _one_device)],
}


_state = {"on": False}


def switch(on: bool) -> bool:
    """Have every pass checked from now on, in this process. Returns how it was."""
    before, _state["on"] = _state["on"], on
    return before


def check(stage: str, nodes: Sequence[Node]) -> None:
    """`verify` if it is switched on."""
    if _state["on"]:
        verify(stage, nodes)


def verify(stage: str, nodes: Sequence[Node]) -> None:
    """Hold `nodes`, those of subgraphs too, against the rules of `stage`. Raises InternalError for the first breach.

    What follows the first word of `stage` says more of it: which pass of several.
    """
    for rule, breaks in RULES[stage.partition(" ")[0]]:
        bad = breaks(nodes)
        if bad:
            raise errors.InternalError(None, None, f"After {stage}: node '{bad[0]}' breaks the rule \"{rule}\".")
    for n in nodes:
        for attr in flow.SUBGRAPHS.get(n.op, ()):
            verify(stage, n.attrs[attr].nodes)


def lasting(nodes: Sequence[Node], keep: frozenset[int]) -> frozenset[str] | None:
    """Names that no pass of optimize may lose: of kept and stateful nodes, targets and ends. None: not checked."""
    if not _state["on"]:
        return None
    read = {s for n in nodes for s in [*[s for s, _ in n.inputs], *n.control]}
    stay = (n.name for i, n in enumerate(nodes) if i in keep or i not in read or n.op == "_Arg" or _has_effects(n))
    return frozenset(stay)


def check_lasting(stage: str, names: frozenset[str] | None, nodes: Sequence[Node]) -> None:
    """Raise InternalError if one of `names`, as `lasting` gave them, is missing among `nodes`."""
    missing = sorted((names or frozenset()) - {n.name for n in nodes})
    if missing:
        raise errors.InternalError(
            None, None, f"After {stage}: node '{missing[0]}' is lost, which has effects or is asked for."
        )


def _has_effects(node: Node) -> bool:
    definition = opdef.find(node.op)
    return definition is None or definition.stateful or definition.start is not None
