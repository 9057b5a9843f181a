"""Slots: variables that an optimizer or a moving average keeps beside another variable, on its device.

A slot of `w` made by 'Adam' is called 'w/Adam', the next one 'w/Adam_1'.
"""

from __future__ import annotations

from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.scopes import colocate_with
from dtfzmq.variables.initializers import Zeros
from dtfzmq.variables.scope import get_variable, get_variable_scope, variable_scope
from dtfzmq.variables.variable import Variable


def _make(primary: Any, value: Any, validate_shape: bool, shape: TensorShape | None, dtype: Any) -> Variable:
    """The slot, in the scope that was opened for it alone."""
    get_variable_scope().set_partitioner(None)
    slot: Variable = get_variable(
        "", initializer=value, trainable=False, shape=shape, dtype=dtype, validate_shape=validate_shape
    )
    info = primary._get_save_slice_info() if isinstance(primary, Variable) else None
    if info is not None:
        # the slot of one part of a partitioned variable is the same part of a partitioned slot
        whole = slot.op.name.removeprefix(primary.op.name)
        slot._set_save_slice_info(
            Variable.SaveSliceInfo(f"{info.full_name}{whole}", info.full_shape, info.var_offset, info.var_shape)
        )
    return slot


def create_slot(primary: Any, val: Any, name: str, colocate_with_primary: bool = True) -> Variable:
    """A slot of `primary` whose first value is the tensor `val`."""
    validate = val.get_shape().is_fully_defined()
    with variable_scope(None, f"{primary.op.name}/{name}"):
        if not colocate_with_primary:
            return _make(primary, val, validate, None, None)
        with colocate_with(primary):
            return _make(primary, val, validate, None, None)


def create_slot_with_initializer(
    primary: Any, initializer: Any, shape: TensorShape, dtype: Any, name: str, colocate_with_primary: bool = True
) -> Variable:
    """A slot of `primary` of the given shape and dtype, first value by `initializer`."""
    with variable_scope(None, f"{primary.op.name}/{name}"):
        if not colocate_with_primary:
            return _make(primary, initializer, shape.is_fully_defined(), shape, dtype)
        with colocate_with(primary):
            return _make(primary, initializer, shape.is_fully_defined(), shape, dtype)


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Variable:
    """A slot of zeros like `primary`, whose static shape must be known."""
    wanted = primary.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype)
    shape = primary.get_shape()
    return create_slot_with_initializer(primary, Zeros(), shape, wanted, name, colocate_with_primary)
