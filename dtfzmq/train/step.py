"""The global step: one variable of the graph that counts training steps, found through its collection or name."""

from __future__ import annotations

from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.graph import Graph, Tensor, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import name_scope
from dtfzmq.variables.initializers import Zeros
from dtfzmq.variables.scope import get_variable, making
from dtfzmq.variables.variable import Variable


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The value of the global step, as a Python int."""
    return int(sess.run(global_step_tensor))


def get_global_step(graph: Graph | None = None) -> Any:
    """The global step variable of the graph, or None if it has none.

    It is the one item of GLOBAL_STEP, or the tensor 'global_step:0'. Raises TypeError if that is no integer scalar.
    """
    owner = get_default_graph() if graph is None else graph
    found = owner.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise ValueError(f"Multiple items found in collection GLOBAL_STEP: {found}")
    if found:
        step = found[0]
    else:
        named = [v for v in owner.get_collection(GraphKeys.GLOBAL_VARIABLES) if v.name == "global_step:0"]
        if named:
            step = named[0]
        else:
            try:
                step = owner.get_tensor_by_name("global_step:0")
            except KeyError:
                return None
    assert_global_step(step)
    return step


def assert_global_step(global_step_tensor: Any) -> None:
    """Raise TypeError unless it is an integer scalar variable or tensor."""
    if not isinstance(global_step_tensor, (Variable, Tensor)):
        raise TypeError(f"Existing 'global_step' must be a Variable or Tensor: {global_step_tensor}.")
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(f"Existing 'global_step' does not have integer type: {global_step_tensor.dtype.name}")
    shape = global_step_tensor.get_shape()
    if shape.ndims != 0 and shape.is_fully_defined():
        raise TypeError(f"Existing 'global_step' is not scalar: {shape}")


def create_global_step(graph: Graph | None = None) -> Variable:
    """A new int64 variable 'global_step', zero at first. Raises ValueError if the graph has one."""
    owner = get_default_graph() if graph is None else graph
    with making(owner), owner.as_default(), name_scope(None):
        if get_global_step(owner) is not None:
            raise ValueError('"global_step" already exists.')
        made: Variable = get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=dtypes.int64,
            initializer=Zeros(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )
    return made


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The global step of the graph, made if it has none."""
    owner = get_default_graph() if graph is None else graph
    with making(owner):
        found = get_global_step(owner)
        return create_global_step(owner) if found is None else found
