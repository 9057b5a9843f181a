"""First values that depend on other variables: right in whatever order initializers run.

In one step the initializers of `a` and of `b = a + 1` run in any order. So where the first value of `b` reads `a`, it
is made to take the first value of `a` if `a` has none yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.graph.graph import Operation, Tensor

_GUARDED = frozenset({"IsVariableInitialized", "InitializedValue", "If", "While"})


def guarded(value: Tensor, owner_of: Callable[[Operation], Any]) -> Tensor:
    """`value`, computed from `initialized_value()` where it would read a variable.

    The ops between are copied. `owner_of` gives the Variable of a `VariableV2` op, or None: then, and if no variable
    is read, `value` itself is returned.
    """
    order = _ops_above_variables(value.op)
    if order is None:
        return value
    replaced: dict[tuple[Operation, int], Tensor] = {}
    for op in order:
        if op.type == "VariableV2":
            owner = owner_of(op)
            if owner is None:
                return value
            replaced[op, 0] = owner.initialized_value()
            continue
        inputs = [replaced.get((t.op, t.value_index), t) for t in op.inputs]
        if all(a is b for a, b in zip(inputs, op.inputs, strict=True)):
            continue
        copy = op.graph.create_op(
            op.type,
            inputs,
            dict(op.attrs),
            [t.dtype for t in op.outputs],
            name=f"{op.name.rsplit('/', 1)[-1]}_guarded",
            shapes=[t.get_shape() for t in op.outputs],
        )
        for old, new in zip(op.outputs, copy.outputs, strict=True):
            replaced[old.op, old.value_index] = new
    return replaced.get((value.op, value.value_index), value)


def _ops_above_variables(top: Operation) -> list[Operation] | None:
    """Ops reachable backwards from `top`, inputs first; None if no variable is among them or an op has state.

    Updates of variables are never copied: the caller keeps the value as it is. Ops that look after missing values
    themselves, and control flow, are taken as they are.
    """
    order: list[Operation] = []
    found = False
    done: set[Operation] = set()
    stack: list[tuple[Operation, bool]] = [(top, False)]
    while stack:
        op, expanded = stack.pop()
        if expanded:
            order.append(op)
            continue
        if op in done:
            continue
        done.add(op)
        if op.type == "VariableV2":
            found = True
            order.append(op)
            continue
        if op.type in _GUARDED:
            order.append(op)
            continue
        if any(t.dtype.is_ref for t in op.outputs):
            return None
        stack.append((op, True))
        stack.extend((t.op, False) for t in op.inputs)
    return order if found else None
