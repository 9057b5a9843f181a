"""Model variables, and ways to find variables by scope, suffix and name."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dtfzmq.contrib.arg_scope import add_arg_scope
from dtfzmq.graph.convert import as_array
from dtfzmq.graph.graph import Operation
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import add_to_collection, device, get_collection
from dtfzmq.ops.constants import placeholder
from dtfzmq.ops.grouping import group
from dtfzmq.variables.scope import VariableScope, get_variable, get_variable_scope, making
from dtfzmq.variables.variable import Variable


@add_arg_scope
def variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
    trainable: bool = True, collections: Any = None, caching_device: Any = None, device: Any = "",
    partitioner: Any = None, custom_getter: Any = None, use_resource: Any = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """`get_variable`, on a device."""
    keys = list(dict.fromkeys([GraphKeys.GLOBAL_VARIABLES] if collections is None else collections))
    getter: Callable[..., Any] = get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, reuse=get_variable_scope().reuse)
    with _on(device):
        return getter(
            name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
            collections=keys, caching_device=caching_device, partitioner=partitioner, use_resource=use_resource,
            **kwargs,
        )  # fmt: skip


def _on(where: Any) -> Any:
    return device(where if where is not None else "")


@add_arg_scope
def model_variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
    trainable: bool = True, collections: Any = None, caching_device: Any = None, device: Any = None,
    partitioner: Any = None, custom_getter: Any = None, use_resource: Any = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """`variable`, also in the collection MODEL_VARIABLES."""
    keys = [*(collections or ()), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return variable(
        name, shape=shape, dtype=dtype, initializer=initializer, regularizer=regularizer, trainable=trainable,
        collections=keys, caching_device=caching_device, device=device, partitioner=partitioner,
        custom_getter=custom_getter, use_resource=use_resource, **kwargs,
    )  # fmt: skip


def local_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: Any = None
) -> Any:
    """A variable of this process: in LOCAL_VARIABLES, not trained."""
    return Variable(
        initial_value, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], validate_shape=validate_shape,
        name=name,
    )  # fmt: skip


def add_model_variable(var: Any) -> None:
    """Put a variable into MODEL_VARIABLES, once."""
    with making():
        if all(var is not other for other in get_collection(GraphKeys.MODEL_VARIABLES)):
            add_to_collection(GraphKeys.MODEL_VARIABLES, var)


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """Variables of a collection whose names begin with a scope and end with a suffix."""
    if isinstance(scope, VariableScope):
        scope = scope.name
    if suffix is not None:
        suffix = suffix if ":" in suffix else suffix + ":0"
        scope = (scope or "") + ".*" + suffix
    return get_collection(collection, scope)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` of MODEL_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` of LOCAL_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """`get_variables` of TRAINABLE_VARIABLES."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """Variables whose names end with a suffix."""
    return get_variables(scope=scope, suffix=suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Variables whose names are, or end with '/' and, a name."""
    exact = re.compile(rf"({re.escape(given_name)}|.*/{re.escape(given_name)}):0$")
    return [v for v in get_variables(scope) if exact.match(v.name)]


def get_unique_variable(var_op_name: str) -> Any:
    """The variable of exactly this name. Raises ValueError if there is none."""
    for found in get_collection(GraphKeys.GLOBAL_VARIABLES, var_op_name):
        if found.op.name == var_op_name:
            return found
    raise ValueError(f"Variable {var_op_name} does not exist.")


def get_variables_to_restore(include: Sequence[str] | None = None, exclude: Sequence[str] | None = None) -> list[Any]:
    """Variables in any scope of `include` (default: all) and in none of `exclude`."""
    if include is None:
        found = get_variables()
    else:
        found = [v for scope in _listed(include, "include") for v in get_variables(scope)]
    left_out = {id(v) for scope in _listed(exclude or [], "exclude") for v in get_variables(scope)}
    return [v for v in found if id(v) not in left_out]


def _listed(scopes: Any, name: str) -> Sequence[str]:
    if not isinstance(scopes, (list, tuple)):
        raise TypeError(f"{name} is provided but is not a list or a tuple.")
    return scopes


def filter_variables(
    var_list: Iterable[Any], include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None, reg_search: bool = True,
) -> list[Any]:  # fmt: skip
    """Variables whose op names match one of the patterns to include (default: all) and none of those to exclude."""
    match = re.search if reg_search else re.match
    found = list(var_list)
    if include_patterns is not None:
        found = [v for v in found if any(match(p, v.op.name) for p in include_patterns)]
    if exclude_patterns is not None:
        found = [v for v in found if not any(match(p, v.op.name) for p in exclude_patterns)]
    return found


def assign_from_values(var_names_to_values: dict[str, Any]) -> tuple[Operation, dict[Any, Any]]:
    """(op, feeds) that set variables, by name, to arrays. Raises ValueError for an unknown name or another size."""
    feeds: dict[Any, Any] = {}
    ops = []
    for name, value in var_names_to_values.items():
        var = get_unique_variable(name)
        array = as_array(value)
        if array.size != var.get_shape().num_elements():
            raise ValueError(f"Variable {name} has {var.get_shape().num_elements()} elements, not {array.size}.")
        fed = placeholder(var.dtype.base_dtype, var.get_shape(), name=f"placeholder/{var.op.name}")
        feeds[fed] = array.reshape(var.get_shape().as_list())
        ops.append(var.assign(fed))
    return group(*ops), feeds


def assign_from_values_fn(var_names_to_values: dict[str, Any]) -> Callable[[Any], None]:
    """A function of a session that sets variables, by name, to arrays."""
    op, feeds = assign_from_values(var_names_to_values)

    def assign(session: Any) -> None:
        session.run(op, feeds)

    return assign
