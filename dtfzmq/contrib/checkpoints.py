"""Variables that take their values from a checkpoint of another graph, as where a trained model is tuned further."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dtfzmq.graph.graph import Operation
from dtfzmq.ops.constants import placeholder
from dtfzmq.ops.grouping import group
from dtfzmq.train.checkpoints.reader import NewCheckpointReader, load_checkpoint
from dtfzmq.train.checkpoints.saver import Saver, saved_as

_log = logging.getLogger("dtfzmq")


def assign_from_checkpoint(
    model_path: Any, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Operation, dict[Any, Any]]:
    """(op, feeds) that set variables to a checkpoint's values.

    `var_list` is a list of variables, or a map of names in the checkpoint to variables. ValueError for one that the
    checkpoint has not, unless such are to be left as they are, or has in another shape.
    """
    reader = load_checkpoint(model_path)
    feeds: dict[Any, Any] = {}
    ops = []
    for one in saved_as(var_list):
        if not reader.has_tensor(one.name):
            text = f"Checkpoint is missing variable [{one.name}]"
            if not ignore_missing_vars:
                raise ValueError(text)
            _log.warning(text)
            continue
        var, value = one.variable, reader.get_tensor(one.name)
        if one.part is not None:
            value = value[one.part.place]
        if not var.get_shape().is_compatible_with(np.shape(value)):
            raise ValueError(
                f"Variable {var.op.name} has the shape {var.get_shape()}, and {one.name} in the checkpoint the shape "
                f"{list(np.shape(value))}."
            )
        fed = placeholder(var.dtype.base_dtype, var.get_shape(), name=f"placeholder/{var.op.name}")
        feeds[fed] = value
        ops.append(var.assign(fed))
    return group(*ops), feeds


def assign_from_checkpoint_fn(
    model_path: Any, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Callable[[Any], None] | None:
    """A function of a session that sets variables to a checkpoint's values. `var_list`: see assign_from_checkpoint.

    None if variables that the checkpoint has not are to be left as they are and it has none. ValueError for no
    variables; the function raises what `Saver.restore` does.
    """
    if not var_list:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = NewCheckpointReader(model_path)
        named = var_list if isinstance(var_list, Mapping) else {var.op.name: var for var in var_list}
        var_list = {name: var for name, var in named.items() if reader.has_tensor(name)}
        for name in sorted(set(named) - set(var_list)):
            _log.warning("Variable %s missing in checkpoint %s", name, model_path)
    if not var_list:
        _log.warning("No Variables to restore")
        return None
    saver = Saver(var_list, reshape=reshape_variables)

    def restore(session: Any) -> None:
        saver.restore(session, model_path)

    return restore
