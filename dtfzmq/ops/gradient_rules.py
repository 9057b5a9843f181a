"""Gradients by name: what programs register beside or instead of the rules that the ops declare.

A rule is looked up by an operation's attribute ``_gradient_op_type`` (set by ``Graph.gradient_override_map``), else by
what its type declares, else by its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dtfzmq.graph import registry
from dtfzmq.graph.graph import Operation

Rule = Callable[..., Any]
_Fn = TypeVar("_Fn", bound=Rule)

_RULES: dict[str, Rule | None] = {}


def _enter(name: str, rule: Rule | None) -> None:
    if name in _RULES or registry.find(name) is not None:
        raise KeyError(f"Registering two gradient with name '{name}'!")
    _RULES[name] = rule


class RegisterGradient:
    """Decorator: ``@RegisterGradient("Type")`` makes ``fn(op, *grads)`` the gradient of that type of operation.

    `fn` returns one gradient per input (None where there is none), alone if there is one input. Raises TypeError
    unless the type is text, KeyError if it has a gradient already.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: _Fn) -> _Fn:
        _enter(self._op_type, f)
        return f


def NotDifferentiable(op_type: str) -> None:  # TensorFlow's name
    """Say that operations of a type have no gradient. Raises as RegisterGradient does."""
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    _enter(op_type, None)


NoGradient = NotDifferentiable


def rule_of(op: Operation) -> Rule | None:
    """The gradient function of an operation; None if it has none. LookupError if nothing was decided for its type."""
    name = op.attrs.get("_gradient_op_type")
    if name is None:
        definition = registry.find(op.type)
        if definition is not None and not isinstance(definition.grad, registry.UNDEFINED):
            return definition.grad if callable(definition.grad) else None
        name = op.type
    try:
        return _RULES[name]
    except KeyError:
        raise LookupError(
            f"No gradient defined for operation '{op.name}' (op type: {op.type}). In general every operation must have "
            "an associated `@tf.RegisterGradient` for correct autodiff, which this op is lacking. If you want to "
            "pretend this operation is a constant in your program, you may insert `tf.stop_gradient`."
        ) from None


__all__ = ["NoGradient", "NotDifferentiable", "RegisterGradient"]
