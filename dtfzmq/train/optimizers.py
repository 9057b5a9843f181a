"""TensorFlow 1's optimizers. Each names its slots and makes one fused op a variable.

The arithmetic is in ops/update_rules.
"""

from __future__ import annotations

from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.scopes import colocate_with, control_dependencies, name_scope
from dtfzmq.ops import array as array_ops
from dtfzmq.ops import constants, grouping, training
from dtfzmq.ops.cast import cast
from dtfzmq.train.optimizer import Optimizer, Setting
from dtfzmq.variables.initializers import Constant


class GradientDescentOptimizer(Optimizer):
    """var -= learning_rate * gradient."""

    def __init__(self, learning_rate: Setting, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self) -> None:
        self._rate = self._setting(self._learning_rate, "learning_rate")

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        made: Tensor = training.apply_gradient_descent(var._ref(), self._rate.beside(var), grad, self._use_locking)
        return made.op

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        with colocate_with(grad.values.op, ignore_existing=True):
            values = grad.values * self._rate.beside(grad.values)
        made: Tensor = var.scatter_sub(IndexedSlices(values, grad.indices, grad.dense_shape), self._use_locking)
        return made.op


class MomentumOptimizer(Optimizer):
    """accumulation = momentum * accumulation + gradient; var -= learning_rate * accumulation (Nesterov's by choice)."""

    def __init__(
        self,
        learning_rate: Setting,
        momentum: Setting,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        self._scalars = [
            self._setting(self._learning_rate, "learning_rate"),
            self._setting(self._momentum, "momentum"),
        ]

    def _apply(self, builder: Any, var: Any, *grad: Any) -> Operation:
        scalars = [s.beside(var) for s in self._scalars]
        made: Tensor = builder(
            var._ref(), self._slot(var, "momentum")._ref(), *scalars, *grad, self._use_locking, self._use_nesterov
        )
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_momentum, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply(training.sparse_apply_momentum, var, grad.values, grad.indices)


class AdagradOptimizer(Optimizer):
    """Rates shrink with the root of the summed squares of gradients."""

    def __init__(
        self,
        learning_rate: Setting,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            _constant_slot(self, var, self._initial_accumulator_value, "accumulator", self._name)

    def _prepare(self) -> None:
        self._rate = self._setting(self._learning_rate, "learning_rate")

    def _apply(self, builder: Any, var: Any, *grad: Any) -> Operation:
        made: Tensor = builder(
            var._ref(), self._slot(var, "accumulator")._ref(), self._rate.beside(var), *grad, self._use_locking
        )
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_adagrad, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply(training.sparse_apply_adagrad, var, grad.values, grad.indices)


def _constant_slot(optimizer: Optimizer, var: Any, value: float, slot_name: str, op_name: str) -> None:
    dtype = var.dtype.base_dtype
    shape = var.get_shape()
    if shape.is_fully_defined():
        optimizer._get_or_make_slot_with_initializer(var, Constant(value, dtype), shape, dtype, slot_name, op_name)
        return
    filled = constants.fill(array_ops.shape(var), cast(constants.constant(value), dtype))
    optimizer._get_or_make_slot(var, filled, slot_name, op_name)


class AdadeltaOptimizer(Optimizer):
    """Rates from the ratio of the roots of mean squared updates and gradients."""

    def __init__(
        self,
        learning_rate: Setting = 0.001,
        rho: Setting = 0.95,
        epsilon: Setting = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._settings = (learning_rate, rho, epsilon)

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _prepare(self) -> None:
        names = ("lr", "rho", "epsilon")
        self._scalars = [self._setting(s, n) for s, n in zip(self._settings, names, strict=True)]

    def _apply(self, builder: Any, var: Any, *grad: Any) -> Operation:
        states = [var._ref(), self._slot(var, "accum")._ref(), self._slot(var, "accum_update")._ref()]
        made: Tensor = builder(*states, *(s.beside(var) for s in self._scalars), *grad, self._use_locking)
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_adadelta, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply(training.sparse_apply_adadelta, var, grad.values, grad.indices)


class AdamOptimizer(Optimizer):
    """Moving averages of the gradient and of its square, corrected for their start at zero.

    A sparse gradient moves all rows, as if it were dense: the moments of every row decay in each step.
    """

    def __init__(
        self,
        learning_rate: Setting = 0.001,
        beta1: Setting = 0.9,
        beta2: Setting = 0.999,
        epsilon: Setting = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._beta1 = beta1
        self._beta2 = beta2
        self._epsilon = epsilon

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        return self._get_non_slot_variable("beta1_power"), self._get_non_slot_variable("beta2_power")

    def _create_slots(self, var_list: list[Any]) -> None:
        # the same variable on every replica, however the list is ordered
        first = min(var_list, key=lambda v: v.name)
        self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
        self._create_non_slot_variable(self._call_if_callable(self._beta2), "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._scalars = [
            self._setting(self._learning_rate, "learning_rate"),
            self._setting(self._beta1, "beta1"),
            self._setting(self._beta2, "beta2"),
            self._setting(self._epsilon, "epsilon"),
        ]

    def _apply(self, builder: Any, var: Any, *grad: Any) -> Operation:
        states = [var._ref(), self._slot(var, "m")._ref(), self._slot(var, "v")._ref()]
        powers = [cast(p.value(), var.dtype.base_dtype) for p in self._get_beta_accumulators()]
        made: Tensor = builder(*states, *powers, *(s.beside(var) for s in self._scalars), *grad, self._use_locking)
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_adam, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply(training.sparse_apply_adam, var, grad.values, grad.indices)

    def _finish(self, update_ops: list[Operation], scope: str) -> Operation:
        with control_dependencies(update_ops):
            power1, power2 = self._get_beta_accumulators()
            with colocate_with(power1):
                beta1, beta2 = (s.beside(power1) for s in self._scalars[1:3])
                first = power1.assign(power1 * beta1, use_locking=self._use_locking)
                second = power2.assign(power2 * beta2, use_locking=self._use_locking)
        return grouping.group(*update_ops, first, second, name=scope)


class RMSPropOptimizer(Optimizer):
    """Steps divided by the root of the mean square of gradients, with momentum; centered by choice."""

    def __init__(
        self,
        learning_rate: Setting,
        decay: Setting = 0.9,
        momentum: Setting = 0.0,
        epsilon: Setting = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._settings = (learning_rate, decay, momentum, epsilon)
        self._centered = centered

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            _constant_slot(self, var, 1.0, "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self) -> None:
        names = ("learning_rate", "decay", "momentum", "epsilon")
        self._scalars = [self._setting(s, n) for s, n in zip(self._settings, names, strict=True)]

    def _apply(self, plain: Any, centered: Any, var: Any, *grad: Any) -> Operation:
        names = ["mg", "rms", "momentum"] if self._centered else ["rms", "momentum"]
        states = [self._slot(var, name)._ref() for name in names]
        builder = centered if self._centered else plain
        scalars = [s.beside(var) for s in self._scalars]
        made: Tensor = builder(var._ref(), *states, *scalars, *grad, self._use_locking)
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_rms_prop, training.apply_centered_rms_prop, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        plain, centered = training.sparse_apply_rms_prop, training.sparse_apply_centered_rms_prop
        return self._apply(plain, centered, var, grad.values, grad.indices)


class FtrlOptimizer(Optimizer):
    """Follow the regularised leader: L1 keeps weights at exactly zero."""

    def __init__(
        self,
        learning_rate: Setting,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
    ) -> None:
        if initial_accumulator_value < 0.0:
            raise ValueError(f"initial_accumulator_value {initial_accumulator_value} needs to be positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        strengths = {
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        for setting, value in strengths.items():
            if value < 0.0:
                raise ValueError(f"{setting} {value} needs to be positive or zero")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._rest = (*strengths.values(), learning_rate_power)
        self._initial_accumulator_value = initial_accumulator_value
        self._accum_name = accum_name or name
        self._linear_name = linear_name or name

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            _constant_slot(self, var, self._initial_accumulator_value, "accum", self._accum_name)
            self._zeros_slot(var, "linear", self._linear_name)

    def _prepare(self) -> None:
        names = ("learning_rate", "l1_strength", "l2_strength", "l2_shrinkage", "learning_rate_power")
        values = (self._learning_rate, *self._rest)
        self._scalars = [self._setting(v, n) for v, n in zip(values, names, strict=True)]

    def _apply(self, builder: Any, var: Any, *grad: Any) -> Operation:
        states = [var._ref(), self._slot(var, "accum")._ref(), self._slot(var, "linear")._ref()]
        made: Tensor = builder(*states, *(s.beside(var) for s in self._scalars), *grad, self._use_locking)
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_ftrl_v2, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply(training.sparse_apply_ftrl_v2, var, grad.values, grad.indices)


class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent, then the proximal step of L1 and L2."""

    def __init__(
        self,
        learning_rate: Setting,
        l1_regularization_strength: Setting = 0.0,
        l2_regularization_strength: Setting = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(use_locking, name)
        self._settings = (learning_rate, l1_regularization_strength, l2_regularization_strength)

    def _prepare(self) -> None:
        names = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength")
        self._scalars = [self._setting(s, n) for s, n in zip(self._settings, names, strict=True)]

    def _apply(self, builder: Any, var: Any, *grad: Any) -> Operation:
        made: Tensor = builder(var._ref(), *(s.beside(var) for s in self._scalars), *grad, self._use_locking)
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_proximal_gradient_descent, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply(training.sparse_apply_proximal_gradient_descent, var, grad.values, grad.indices)


class ProximalAdagradOptimizer(Optimizer):
    """Adagrad, then the proximal step of L1 and L2."""

    def __init__(
        self,
        learning_rate: Setting,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Setting = 0.0,
        l2_regularization_strength: Setting = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._settings = (learning_rate, l1_regularization_strength, l2_regularization_strength)
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            _constant_slot(self, var, self._initial_accumulator_value, "accumulator", self._name)

    def _prepare(self) -> None:
        names = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength")
        self._scalars = [self._setting(s, n) for s, n in zip(self._settings, names, strict=True)]

    def _apply(self, builder: Any, var: Any, *grad: Any) -> Operation:
        states = [var._ref(), self._slot(var, "accumulator")._ref()]
        made: Tensor = builder(*states, *(s.beside(var) for s in self._scalars), *grad, self._use_locking)
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_proximal_adagrad, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply(training.sparse_apply_proximal_adagrad, var, grad.values, grad.indices)


class AdagradDAOptimizer(Optimizer):
    """Adagrad by dual averaging: the weights follow from the sums of all gradients, for sparse models with L1."""

    def __init__(
        self,
        learning_rate: Setting,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError(
                "initial_gradient_squared_accumulator_value must be positive: "
                f"{initial_gradient_squared_accumulator_value}"
            )
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._global_step = global_step
        self._initial_value = initial_gradient_squared_accumulator_value
        self._strengths = (l1_regularization_strength, l2_regularization_strength)

    def _create_slots(self, var_list: list[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "gradient_accumulator", self._name)
            _constant_slot(self, var, self._initial_value, "gradient_squared_accumulator", self._name)

    def _prepare(self) -> None:
        with name_scope(None, "step"):
            self._step = cast(constants.identity(self._global_step), dtypes.int64) + 1
        values = (self._learning_rate, *self._strengths)
        names = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength")
        self._scalars = [self._setting(v, n) for v, n in zip(values, names, strict=True)]

    def _apply(self, builder: Any, var: Any, *grad: Any) -> Operation:
        names = ("gradient_accumulator", "gradient_squared_accumulator")
        states = [var._ref(), *(self._slot(var, name)._ref() for name in names)]
        scalars = [s.beside(var) for s in self._scalars]
        made: Tensor = builder(*states, *scalars, self._step, *grad, self._use_locking)
        return made.op

    def _apply_dense(self, grad: Tensor, var: Any) -> Operation:
        return self._apply(training.apply_adagrad_da, var, grad)

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Operation:
        return self._apply(training.sparse_apply_adagrad_da, var, grad.values, grad.indices)
