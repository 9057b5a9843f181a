"""Moving averages of variables and tensors, each kept in a slot beside what it averages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import (
    add_to_collection,
    colocate_with,
    get_collection,
    get_collection_ref,
    init_scope,
    name_scope,
)
from dtfzmq.ops import grouping, training
from dtfzmq.ops import math as math_ops
from dtfzmq.ops.cast import cast
from dtfzmq.train import slots
from dtfzmq.variables.initializers import Zeros
from dtfzmq.variables.listing import global_variables, moving_average_variables, trainable_variables
from dtfzmq.variables.scope import get_variable, making, variable_scope
from dtfzmq.variables.variable import Variable


def assign_moving_average(
    variable: Variable, value: Any, decay: Any, zero_debias: bool = False, name: str | None = None
) -> Tensor:
    """variable = decay * variable + (1 - decay) * value, as one update where the variable lives.

    With `zero_debias` the variable holds the average corrected for having started at zero.
    """
    with name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope, colocate_with(variable):
        dtype = variable.dtype.base_dtype
        rate = cast(convert_to_tensor(decay, name="decay"), dtype)
        taken = convert_to_tensor(value)
        if zero_debias:
            return _debiased(variable, taken, rate, scope)
        made: Tensor = training.assign_moving_average(variable._ref(), taken, rate, name=scope)
        return made


def _debiased(variable: Variable, value: Tensor, decay: Tensor, scope: str) -> Tensor:
    """variable = biased average / (1 - decay ^ steps), the biased average and the steps being variables beside it."""
    with variable_scope(variable.op.name, values=[variable, value, decay]):
        biased = get_variable("biased", initializer=Zeros(), shape=variable.get_shape(), dtype=value.dtype.base_dtype,
                              trainable=False)  # fmt: skip
        steps = get_variable("local_step", shape=[], dtype=value.dtype.base_dtype, initializer=Zeros(), trainable=False)
    new: Tensor = training.assign_moving_average(biased._ref(), value, decay)
    count = steps.assign_add(1.0)
    return variable.assign(new / (1.0 - math_ops.pow(decay, count)), name=scope)


class ExponentialMovingAverage:
    """Averages that forget: average = decay * average + (1 - decay) * value at each run of the op of `apply`.

    With `num_updates` the decay is at most (1 + num_updates) / (10 + num_updates), so that averages follow fast first.
    """

    def __init__(
        self, decay: Any, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"
    ) -> None:
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages: dict[Any, Variable] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Operation:
        """The op that updates the averages of `var_list` (default: all trainable variables).

        An average of a variable starts at its initial value, of a tensor at zero. Raises TypeError for other than
        floats, ValueError if an average is kept already.
        """
        chosen = trainable_variables() if var_list is None else list(var_list)
        corrected = set()
        with making():
            for var in chosen:
                if not var.dtype.base_dtype.is_floating:
                    raise TypeError(f"The variables must be half, float, or double: {var.name}")
                if var in self._averages:
                    raise ValueError(f"Moving average already computed for: {var.name}")
                with init_scope():
                    if isinstance(var, Variable):
                        average = slots.create_slot(var, var.initialized_value(), self._name)
                        averaged = get_collection_ref(GraphKeys.MOVING_AVERAGE_VARIABLES)
                        if var not in averaged:
                            add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
                    else:
                        average = slots.create_zeros_slot(var, self._name, colocate_with_primary=False)
                        if self._zero_debias:
                            corrected.add(average)
                self._averages[var] = average
        with name_scope(self._name) as scope:
            decay = convert_to_tensor(self._decay, name="decay")
            if self._num_updates is not None:
                updates = cast(convert_to_tensor(self._num_updates), dtypes.float32, name="num_updates")
                decay = math_ops.minimum(decay, (1.0 + updates) / (10.0 + updates))
            made = []
            for var in chosen:
                average = self._averages[var]
                made.append(assign_moving_average(average, var, decay, average in corrected))
            return grouping.group(*made, name=scope)

    def average(self, var: Any) -> Variable | None:
        """The variable that holds the average of `var`; None if none is kept."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """Name of the op of the average of `var`, also before `apply` made it."""
        if var in self._averages:
            return self._averages[var].op.name
        return get_default_graph().unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables: Iterable[Any] | None = None) -> dict[str, Any]:
        """Checkpoint names to variables, so that restoring puts the averages in the place of the variables."""
        if moving_avg_variables is None:
            averaged = {*trainable_variables(), *moving_average_variables()}
        else:
            averaged = set(moving_avg_variables)
        names = {self.average_name(var): var for var in averaged}
        taken = {var.name for var in averaged}
        rest = {*global_variables(), *get_collection(GraphKeys.MODEL_VARIABLES)}
        for var in rest:
            if var.name not in taken and var.op.name not in names:
                names[var.op.name] = var
        return names
