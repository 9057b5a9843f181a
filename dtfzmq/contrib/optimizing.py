"""optimize_loss: a training op from a loss, an optimizer by name, a learning rate and its decay."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import control_dependencies, get_collection
from dtfzmq.ops import clip, constants
from dtfzmq.train.optimizer import Optimizer
from dtfzmq.train.optimizers import (
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RMSPropOptimizer,
)
from dtfzmq.train.step import get_global_step
from dtfzmq.variables.initializers import Constant
from dtfzmq.variables.listing import trainable_variables
from dtfzmq.variables.scope import get_variable, variable_scope

OPTIMIZER_CLS_NAMES: dict[str, Callable[..., Optimizer]] = {
    "Adagrad": AdagradOptimizer,
    "Adam": AdamOptimizer,
    "Ftrl": FtrlOptimizer,
    "Momentum": lambda learning_rate: MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": RMSPropOptimizer,
    "SGD": GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm"]

Pairs = list[tuple[Any, Any]]


def _made(optimizer: Any, rate: Any) -> Optimizer:
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {optimizer}."
            )
        optimizer = OPTIMIZER_CLS_NAMES[optimizer]
    if isinstance(optimizer, Optimizer):
        return optimizer
    if inspect.isclass(optimizer) and issubclass(optimizer, Optimizer) or optimizer in OPTIMIZER_CLS_NAMES.values():
        if rate is None:
            raise ValueError("Learning rate is None, but should be specified if optimizer is a string or class.")
        made: Optimizer = optimizer(learning_rate=rate)
        return made
    if callable(optimizer):
        found = optimizer(rate) if rate is not None else optimizer()
        if isinstance(found, Optimizer):
            return found
    raise ValueError(
        "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of Optimizer or "
        f"function with one argument. Got {optimizer!r}."
    )


def scaled(pairs: Pairs, factors: dict[Any, Any]) -> Pairs:
    """Gradients multiplied by factors, given by variable or its name."""
    out: Pairs = []
    for grad, var in pairs:
        factor = factors.get(var, factors.get(var.name)) if grad is not None else None
        if factor is not None:
            factor = constants.constant(factor, dtype=grad.dtype.base_dtype)
            if isinstance(grad, IndexedSlices):
                grad = IndexedSlices(grad.values * factor, grad.indices, grad.dense_shape)
            else:
                grad = grad * factor
        out.append((grad, var))
    return out


def clipped(pairs: Pairs, norm: Any) -> Pairs:
    """Gradients scaled down together so that their global norm is at most `norm`."""
    grads = [g for g, _ in pairs]
    made, _ = clip.clip_by_global_norm(grads, norm)
    return list(zip(made, [v for _, v in pairs]))


def optimize_loss(
    loss: Any, global_step: Any, learning_rate: Any, optimizer: Any, gradient_noise_scale: Any = None,
    gradient_multipliers: dict[Any, Any] | None = None, clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None, update_ops: Iterable[Any] | None = None,
    variables: Any = None, name: str | None = None, summaries: Any = None,
    colocate_gradients_with_ops: bool = False, increment_global_step: bool = True,
) -> Tensor:  # fmt: skip
    """One training step: its value is the loss, after the update and the `update_ops` (default: UPDATE_OPS).

    `optimizer` is a name, a class, an instance or a function of the rate. A float rate is kept in the variable
    `learning_rate`. `summaries` is accepted. Raises ValueError for gradient_noise_scale, which is not supported.
    """
    if gradient_noise_scale is not None:
        raise ValueError("gradient_noise_scale is not supported: add noise to the gradients by compute_gradients.")
    loss = convert_to_tensor(loss)
    step = get_global_step() if global_step is None else global_step
    with variable_scope(name, "OptimizeLoss", [loss, step]):
        chosen = list(get_collection(GraphKeys.UPDATE_OPS) if update_ops is None else update_ops)
        if chosen:
            with control_dependencies(chosen):
                loss = constants.identity(loss)
        rate: Any = None
        if learning_rate is not None:
            if isinstance(learning_rate, Tensor) and learning_rate.shape.ndims == 0:
                rate = learning_rate
            elif isinstance(learning_rate, (int, float)):
                if learning_rate < 0.0:
                    raise ValueError(f"Invalid learning_rate {learning_rate}.")
                rate = get_variable("learning_rate", [], trainable=False, initializer=Constant(learning_rate))
            else:
                raise ValueError(f"Learning rate should be 0d Tensor or float. Got {learning_rate}.")
            if learning_rate_decay_fn is not None:
                if step is None:
                    raise ValueError("global_step is required for learning_rate_decay_fn.")
                rate = learning_rate_decay_fn(rate, step)
        made = _made(optimizer, rate)
        pairs = made.compute_gradients(
            loss, trainable_variables() if variables is None else variables,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )  # fmt: skip
        if gradient_multipliers is not None:
            pairs = scaled(pairs, gradient_multipliers)
        if callable(clip_gradients):
            pairs = clip_gradients(pairs)
        elif clip_gradients is not None:
            pairs = clipped(pairs, clip_gradients)
        update = made.apply_gradients(pairs, global_step=step if increment_global_step else None, name="train")
        with control_dependencies([update]):
            return constants.identity(loss, name="train_op" if name is None else None)
