"""Operations that stand for several: group and tuple."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, get_default_graph
from dtfzmq.ops.constants import identity, no_op


def _operation(item: Any) -> Operation:
    found = item if isinstance(item, Operation) else getattr(item, "op", None)
    if not isinstance(found, Operation):
        raise TypeError(f"Expected tf.group() expected Tensor objects not None with type '{type(item)}'")
    return found


def group(*inputs: Any, name: str | None = None, **kwargs: Any) -> Operation:
    """An operation that is done when all `inputs` (tensors, operations, nested lists of them) are.

    With inputs on several devices one NoOp stands on each of them, so that only one signal per device travels.
    """
    if kwargs:
        raise ValueError("Unknown keyword arguments: " + ", ".join(kwargs))
    flat: list[Operation] = []
    pending = list(reversed(inputs))
    while pending:
        item = pending.pop()
        if isinstance(item, Sequence) and not hasattr(item, "op"):
            pending.extend(reversed(item))
        else:
            flat.append(_operation(item))
    graph = flat[0].graph if flat else get_default_graph()
    by_device: dict[str, list[Operation]] = {}
    for operation in flat:
        by_device.setdefault(operation.device, []).append(operation)
    with graph.name_scope(name or "group_deps") as scope:
        final = scope.rstrip("/")
        if len(by_device) <= 1:
            device = next(iter(by_device), None)
            with graph.control_dependencies(flat):
                if not device:
                    return no_op(name=final + "/")
                with graph.device(device):
                    return no_op(name=final + "/")
        parts = []
        for device in sorted(by_device):
            with graph.control_dependencies(by_device[device]), graph.device(device or None):
                parts.append(no_op(name="group_deps"))
        with graph.control_dependencies(parts):
            return no_op(name=final + "/")


def tuple(tensors: Sequence[Any], name: str | None = None, control_inputs: Any = None) -> list[Any]:
    """The tensors again, none of which can be used before all (and control_inputs) are there. None stays None."""
    ready = (Operation, type(None))
    tensors = [t if isinstance(t, ready) or hasattr(t, "op") else convert_to_tensor(t) for t in tensors]
    gates = [_operation(t) for t in tensors if t is not None]
    gates += [_operation(c) for c in control_inputs or ()]
    if not gates:
        raise ValueError("Must have at least one Tensor: " + repr(tensors))
    graph = gates[0].graph
    with graph.name_scope(name or "tuple"):
        gate = group(*gates)
        out: list[Any] = []
        for t in tensors:
            with graph.control_dependencies([gate]):
                if t is None:
                    out.append(None)
                elif isinstance(t, Operation):
                    out.append(t if not t.outputs else t)
                else:
                    with graph.colocate_with(t.op):
                        out.append(identity(t, name="control_dependency"))
        return out
