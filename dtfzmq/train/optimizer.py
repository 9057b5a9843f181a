"""`Optimizer`: gradients of a loss and the ops that apply them, one fused update a variable.

The update of a variable runs where the variable lives: what crosses the wire is its gradient. A subclass says what
slots it keeps (`_create_slots`), converts its settings (`_prepare`) and makes the update ops (`_apply_dense`,
`_apply_sparse`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.graph import convert
from dtfzmq.graph.graph import Graph, Operation, Tensor, get_default_graph
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import (
    colocate_with,
    control_dependencies,
    device,
    get_collection,
    get_collection_ref,
    init_scope,
    name_scope,
)
from dtfzmq.ops import constants, grouping, nest, state, training
from dtfzmq.ops import gradients as gradients_ops
from dtfzmq.ops.cast import cast
from dtfzmq.train import slots
from dtfzmq.variables.partitions import PartitionedVariable
from dtfzmq.variables.scope import make_variable, making
from dtfzmq.variables.variable import Variable

GradAndVar = tuple[Any, Any]


class Scalar:
    """A setting of an optimizer as update ops take it.

    A number is a constant on each device where variables are, so that it never crosses the wire; a tensor is
    converted and cast where it is used. A Python float is one of float32, also beside float64 variables: what
    optimizers keep between steps, such as Adam's powers, then fits it.
    """

    def __init__(self, value: Any, name: str) -> None:
        self._name = name
        self._scope = get_default_graph().get_name_scope()
        self._value = float(np.float32(value)) if type(value) is float else value
        self._made: dict[tuple[str, DType], Tensor] = {}
        if not isinstance(value, (int, float, np.number)):
            self._value = convert.convert_to_tensor(value, name=name)

    def beside(self, var: Any) -> Tensor:
        """The setting in the dtype of `var`; called in a scope that stands with `var`."""
        dtype = var.dtype.base_dtype
        if isinstance(self._value, Tensor):
            return cast(self._value, dtype)
        found = self._made.get((var.device, dtype))
        if found is None:
            with name_scope(self._scope + "/" if self._scope else None):
                found = self._made[var.device, dtype] = constants.constant(self._value, dtype, name=self._name)
        return found


class Optimizer:
    """Base of all optimizers. Not safe for building from several threads at once, like graphs."""

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        # slot name -> variable -> slot
        self._slots: dict[str, dict[Variable, Variable]] = {}
        self._non_slots: dict[tuple[str, Graph], Variable] = {}

    def get_name(self) -> str:
        return self._name

    # -- the three steps --------------------------------------------------------------------------------------------
    def minimize(
        self,
        loss: Tensor,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """The op that does one step: `compute_gradients`, then `apply_gradients`. Adds one to `global_step` last.

        Raises ValueError if no variable of `var_list` (default: all trainable ones) has a gradient.
        """
        pairs = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if all(g is None for g, _ in pairs):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {[str(v) for _, v in pairs]} and loss {loss}."
            )
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Tensor,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[GradAndVar]:
        """Pairs (gradient, variable); the gradient is None where the loss does not depend on the variable."""
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH.  Not "
                f"{gate_gradients}"
            )
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        given = get_collection(GraphKeys.TRAINABLE_VARIABLES) if var_list is None else nest.flatten(var_list)
        variables: list[Any] = []
        for item in given:
            variables.extend(item if isinstance(item, PartitionedVariable) else [item])
        if not variables:
            raise ValueError("No variables to optimize.")
        grads = gradients_ops.gradients(
            loss,
            [_target(v) for v in variables],
            grad_ys=grad_loss,
            # what an op reads of a variable is a lease that no update changes: gradients of one op need no gate
            gate_gradients=False,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == self.GATE_GRAPH:
            grads = _together(grads)
        pairs = list(zip(grads, variables, strict=True))
        self._assert_valid_dtypes([v for g, v in pairs if g is not None])
        return pairs

    def apply_gradients(
        self, grads_and_vars: Iterable[GradAndVar], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """The op that updates each variable by its gradient; pairs without a gradient are left out."""
        pairs = []
        for grad, variable in grads_and_vars:
            if grad is not None:
                try:
                    grad = grad if isinstance(grad, IndexedSlices) else convert.convert_to_tensor(grad)
                except TypeError:
                    raise TypeError(
                        f"Gradient must be convertible to a Tensor or IndexedSlices, or None: {grad}"
                    ) from None
            pairs.append((grad, variable))
        if not pairs:
            raise ValueError("No variables provided.")
        trained = [v for g, v in pairs if g is not None]
        if not trained:
            raise ValueError(f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.")
        with init_scope(), making():
            self._create_slots(trained)
        with name_scope(name, self._name) as scope:
            self._prepare()
            updates = [self._update(grad, variable) for grad, variable in pairs if grad is not None]
            if global_step is None:
                done = self._finish(updates, scope)
            else:
                with device(global_step.device):
                    updated = self._finish(updates, "update")
                with control_dependencies([updated]), colocate_with(global_step):
                    done = state.assign_add(_target(global_step), 1, name=scope).op
            train_ops = get_collection_ref(GraphKeys.TRAIN_OP)
            if done not in train_ops:
                train_ops.append(done)
            return done

    def _update(self, grad: Any, variable: Any) -> Operation:
        slices = isinstance(grad, IndexedSlices)
        if slices:
            # summed where the gradient is made, so that each row crosses the wire once
            grad = self._ready_slices(grad)
        constraint = getattr(variable, "constraint", None)
        if slices and constraint is not None:
            raise RuntimeError("Cannot use a constraint function on a sparse variable.")
        with name_scope("update_" + variable.op.name), colocate_with(variable):
            if slices:
                return self._apply_sparse(grad, variable)
            update = self._apply_dense(grad, variable)
            if constraint is None:
                return update
            with control_dependencies([update]):
                made: Tensor = variable.assign(constraint(variable.read_value()))
                return made.op

    def _ready_slices(self, grad: IndexedSlices) -> IndexedSlices:
        """`grad` with distinct indices, the rows of equal ones summed."""
        with colocate_with(grad.values.op, ignore_existing=True):
            values, indices = training.sum_duplicate_slices(grad.values, grad.indices)
        return IndexedSlices(values, indices, grad.dense_shape)

    # -- slots ------------------------------------------------------------------------------------------------------
    def get_slot(self, var: Any, name: str) -> Variable | None:
        """The slot `name` of `var`, or None if there is none (yet)."""
        return self._slots.get(name, {}).get(var)

    def get_slot_names(self) -> list[str]:
        """Names of the slots that this optimizer makes."""
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """Slots and other variables of this optimizer in the default graph, by name."""
        graph = get_default_graph()
        found = [v for (_, owner), v in self._non_slots.items() if owner is graph]
        found += [s for slot in self._slots.values() for s in slot.values() if s.graph is graph]
        return sorted(found, key=lambda v: v.name)

    def _slot_dict(self, slot_name: str) -> dict[Variable, Variable]:
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var: Any, val: Tensor, slot_name: str, op_name: str) -> Variable:
        named = self._slot_dict(slot_name)
        if var not in named:
            named[var] = slots.create_slot(var, val, op_name)
        return named[var]

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Variable:
        named = self._slot_dict(slot_name)
        if var not in named:
            named[var] = slots.create_slot_with_initializer(var, initializer, shape, dtype, op_name)
        return named[var]

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Variable:
        named = self._slot_dict(slot_name)
        if var not in named:
            named[var] = slots.create_zeros_slot(var, op_name)
        return named[var]

    def _slot(self, var: Any, name: str) -> Variable:
        return self._slots[name][var]

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with_var: Any) -> Variable:
        key = (name, colocate_with_var.graph)
        if key not in self._non_slots:
            with colocate_with(colocate_with_var):
                self._non_slots[key] = make_variable(initial_value, name=name, trainable=False)
        return self._non_slots[key]

    def _get_non_slot_variable(self, name: str) -> Variable:
        return self._non_slots[name, get_default_graph()]

    # -- what a subclass says ---------------------------------------------------------------------------------------
    def _valid_dtypes(self) -> set[DType]:
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    def _assert_valid_dtypes(self, tensors: Iterable[Any]) -> None:
        valid = self._valid_dtypes()
        for tensor in tensors:
            if tensor.dtype.base_dtype not in valid:
                raise ValueError(
                    f"Invalid type {tensor.dtype.base_dtype!r} for {tensor.name}, expected: "
                    f"{sorted(d.name for d in valid)}."
                )

    def _create_slots(self, var_list: list[Any]) -> None:
        """Make the slots of the variables; none by default."""

    def _prepare(self) -> None:
        """Convert settings to tensors, once for all variables of one `apply_gradients`."""

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        raise TypeError(f"{type(self).__name__} does not say how a dense gradient updates a variable.")

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        raise TypeError(f"{type(self).__name__} does not say how a sparse gradient updates a variable.")

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        """The op that ends the step: all updates, and what must follow them."""
        return grouping.group(*update_ops, name=name_scope)

    @staticmethod
    def _call_if_callable(param: Any) -> Any:
        return param() if callable(param) else param

    def _setting(self, value: Any, name: str) -> Scalar:
        """`value`, or what it returns when called, for use in update ops."""
        return Scalar(self._call_if_callable(value), name)


def _together(grads: list[Any]) -> list[Any]:
    """The gradients again, none of them usable before all are there."""
    plain = [g.values if isinstance(g, IndexedSlices) else g for g in grads]
    if all(g is None for g in plain):
        return grads
    gated = grouping.tuple(plain)
    return [
        IndexedSlices(new, old.indices, old.dense_shape) if isinstance(old, IndexedSlices) else new
        for old, new in zip(grads, gated, strict=True)
    ]


def _target(variable: Any) -> Tensor:
    """What gradients are taken of and updates write to: the reference of a variable, a plain tensor itself."""
    if isinstance(variable, Variable):
        return variable._ref()
    if isinstance(variable, Tensor):
        return variable
    raise NotImplementedError(f"Trying to optimize unsupported type {variable!r}: pass a tf.Variable.")


Setting = float | Tensor | Callable[[], Any]
