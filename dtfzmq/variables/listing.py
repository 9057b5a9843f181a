"""The variables of a graph, and ops over all of them: initialise, ask which have no value, assert that all do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import device, get_collection, name_scope
from dtfzmq.ops import array as array_ops
from dtfzmq.ops import constants, elementwise, grouping, slicing, state
from dtfzmq.variables.partitions import PartitionedVariable


def global_variables(scope: str | None = None) -> list[Any]:
    """Variables shared over the cluster (the default collection of `Variable`)."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Any]:
    """Variables of one process, usually not saved."""
    return get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Any]:
    return get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Variables that optimizers train by default."""
    return get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    return get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def all_variables() -> list[Any]:
    """Old name of `global_variables`."""
    return global_variables()


def _flat(variables: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for variable in variables:
        found.extend(variable if isinstance(variable, PartitionedVariable) else [variable])
    return found


def variables_initializer(var_list: Iterable[Any], name: str = "init") -> Operation:
    """One op that runs the initializer of each variable."""
    found = _flat(var_list) if var_list else []
    if not found:
        return constants.no_op(name=name)
    return grouping.group(*[v.initializer for v in found], name=name)


def initialize_variables(var_list: Iterable[Any], name: str = "init") -> Operation:
    """Old name of `variables_initializer`."""
    return variables_initializer(var_list, name=name)


def global_variables_initializer() -> Operation:
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    return variables_initializer(local_variables())


def initialize_all_variables() -> Operation:
    """Old name of `global_variables_initializer`."""
    return global_variables_initializer()


def initialize_local_variables() -> Operation:
    """Old name of `local_variables_initializer`."""
    return local_variables_initializer()


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """One op that runs what the collection TABLE_INITIALIZERS holds."""
    found = get_collection(GraphKeys.TABLE_INITIALIZERS)
    return grouping.group(*found, name=name) if found else constants.no_op(name=name)


def initialize_all_tables(name: str = "init_all_tables") -> Operation:
    """Old name of `tables_initializer`."""
    return tables_initializer(name)


def is_variable_initialized(variable: Any) -> Tensor:
    """A bool scalar: has the variable a value?"""
    return state.is_variable_initialized(variable)


def report_uninitialized_variables(
    var_list: Iterable[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """A string vector: names of the variables (default: global and local ones) that have no value yet."""
    chosen = _flat(global_variables() + local_variables() if var_list is None else var_list)
    with name_scope(name):
        if not chosen:
            with device("/cpu:0"):
                return constants.constant(np.array([], dtype=object), dtype=dtypes.string, name="Const")
        flags = [state.is_variable_initialized(v) for v in chosen]
        # names travel as part of the graph; only one bool a variable crosses the wire
        with device("/cpu:0"):
            missing = elementwise.logical_not(array_ops.stack(flags))
            names = constants.constant([v.op.name for v in chosen], dtype=dtypes.string)
            return slicing.boolean_mask(names, missing)


def assert_variables_initialized(var_list: Iterable[Any] | None = None) -> Tensor | None:
    """An op that fails with FailedPreconditionError if a variable has no value; None without variables."""
    chosen = _flat(global_variables() + local_variables() if var_list is None else var_list)
    if not chosen:
        return None
    ranks = []
    for variable in chosen:
        with name_scope("assert_variables_initialized"):
            ranks.append(array_ops.rank(variable.value()))
    return array_ops.stack(ranks)
