"""Functions that say what their gradient is."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, Operation, Tensor, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.registry import graph_of
from dtfzmq.ops import nest
from dtfzmq.ops.constants import identity
from dtfzmq.ops.gradient_rules import RegisterGradient
from dtfzmq.ops.gradients import gradients
from dtfzmq.ops.raw import raw

_numbers = itertools.count()


def _variables_used(graph: Graph, since: int) -> list[Any]:
    """Trainable variables that operations from number `since` on take."""
    variables = [v for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES) if hasattr(v, "_ref")]
    known = {t: v for v in variables for t in (v._ref(), v.value())}
    outside = {inner: outer for outer, inner in getattr(graph, "captures", {}).items()}
    found: dict[int, Any] = {}
    for op in graph.get_operations()[since:]:
        for t in op.inputs:
            variable = known.get(outside.get(t, t))
            if variable is not None:
                found.setdefault(id(variable), variable)
    return list(found.values())


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: `f(*tensors)` returns its result and a function that gives the gradients.

    ``grad_fn(*d_results)`` returns the gradient of each argument. If f uses trainable variables it is called with
    ``variables=[...]`` as well and returns two lists: of the arguments and of the variables. Raises ValueError for
    keyword arguments of f, TypeError for a grad_fn that takes no variables where there are some.
    """

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ValueError(
                "The custom_gradient decorator currently supports keywords arguments only when eager execution is "
                "enabled."
            )
        given = [convert_to_tensor(a) for a in args]
        graph = graph_of(given)
        since = len(graph.get_operations())
        returned = f(*given)
        if not isinstance(returned, (tuple, list)) or len(returned) != 2 or not callable(returned[1]):
            raise TypeError(f"A function with a custom gradient returns its result and a grad_fn, not {returned!r}.")
        result, grad_fn = returned
        results = [convert_to_tensor(r) for r in nest.flatten(result)]
        variables = _variables_used(graph, since)
        if variables and not _takes_variables(grad_fn):
            raise TypeError(
                "If using @custom_gradient with a function that uses variables, then grad_fn must accept a 'variables' "
                "keyword argument."
            )
        name = f"CustomGradient-{next(_numbers)}"
        RegisterGradient(name)(_rule(grad_fn, len(results), variables))
        with graph.gradient_override_map({"IdentityN": name}):
            outputs = raw.IdentityN([*results, *given, *(v._ref() for v in variables)])
        for made, of in zip(outputs, results):
            made.set_shape(of.shape)
        return nest.pack_like(result, list(outputs[: len(results)]))

    return decorated


def _takes_variables(fn: Any) -> bool:
    code = getattr(fn, "__code__", None)
    if code is None:
        return True
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return "variables" in names or bool(code.co_flags & 0x08)  # **kwargs


def _rule(grad_fn: Callable[..., Any], count: int, variables: list[Any]) -> Callable[..., Any]:
    def rule(op: Operation, *grads: Any) -> list[Any]:
        if not variables:
            return [None] * count + nest.flatten(grad_fn(*grads[:count]))
        of_inputs, of_variables = grad_fn(*grads[:count], variables=variables)
        of_variables = nest.flatten(of_variables)
        if len(of_variables) != len(variables):
            raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        return [None] * count + nest.flatten(of_inputs) + of_variables

    return rule


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """f with the gradient of the identity: what arrives at its results goes to its arguments as it is."""

    @custom_gradient
    def passing(*args: Any) -> Any:
        def grad(*grads: Any, variables: Any = None) -> Any:
            return (list(grads), [None] * len(variables)) if variables else list(grads)

        return f(*args), grad

    return functools.wraps(f)(lambda *args: passing(*args))


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """f that keeps nothing for its gradient: it is computed once more when the gradient is."""

    @custom_gradient
    def recomputing(*args: Tensor) -> Any:
        result = f(*args)

        def grad(*grads: Any, variables: Any = None) -> Any:
            with get_default_graph().control_dependencies([g for g in grads if g is not None]):
                again = [identity(a) for a in args]
                outcome = nest.flatten(f(*again))
            found = gradients(outcome, [*again, *(variables or [])], list(grads))
            return (found[: len(again)], found[len(again) :]) if variables else found

        return result, grad

    return functools.wraps(f)(lambda *args: recomputing(*args))


__all__ = ["custom_gradient", "grad_pass_through", "recompute_grad"]
