"""``tf.contrib.framework``: public names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtfzmq.base import absent
from dtfzmq.contrib.arg_scope import (
    add_arg_scope,
    arg_scope,
    arg_scoped_arguments,
    current_arg_scope,
    has_arg_scope,
)
from dtfzmq.contrib.checkpoints import assign_from_checkpoint, assign_from_checkpoint_fn
from dtfzmq.contrib.variables import (
    add_model_variable,
    assign_from_values,
    assign_from_values_fn,
    filter_variables,
    get_local_variables,
    get_model_variables,
    get_trainable_variables,
    get_unique_variable,
    get_variables,
    get_variables_by_name,
    get_variables_by_suffix,
    get_variables_to_restore,
    local_variable,
    model_variable,
    variable,
)
from dtfzmq.graph.graph import Graph, Tensor
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops import nest
from dtfzmq.train.checkpoints.reader import list_variables, load_checkpoint, load_variable
from dtfzmq.train.step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)
from dtfzmq.variables.variable import Variable


def assert_or_get_global_step(graph: Graph | None = None, global_step_tensor: Any = None) -> Any:
    """The global step given, checked, else that of the graph."""
    if global_step_tensor is None:
        return get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor


def is_tensor(x: Any) -> bool:
    """True of tensors, sparse tensors and variables."""
    return isinstance(x, (Tensor, SparseTensor, Variable))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        raise absent.lacking("contrib.framework", name)
