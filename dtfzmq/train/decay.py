"""Learning rate schedules: functions of a step tensor that return the rate as a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import name_scope
from dtfzmq.ops import elementwise, random, slicing
from dtfzmq.ops import math as math_ops
from dtfzmq.ops.cast import cast


def _needs_step(global_step: Any, what: str) -> None:
    if global_step is None:
        raise ValueError(f"global_step is required for {what}.")


def _rate_and_step(learning_rate: Any, global_step: Any, decay_steps: Any) -> tuple[Tensor, Tensor, Tensor]:
    rate = convert_to_tensor(learning_rate, name="learning_rate")
    dtype = rate.dtype.base_dtype
    return rate, cast(convert_to_tensor(global_step), dtype), cast(convert_to_tensor(decay_steps), dtype)


def _periods(rate: Tensor, step: Tensor, steps: Tensor, decay_rate: Any, staircase: bool) -> tuple[Tensor, Tensor]:
    """(periods that have passed, whole ones with `staircase`; the decay rate in the dtype of the learning rate)."""
    passed = step / steps
    factor = cast(convert_to_tensor(decay_rate), rate.dtype.base_dtype)
    return elementwise.floor(passed) if staircase else passed, factor


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * decay_rate ^ (global_step / decay_steps); whole powers with `staircase`."""
    _needs_step(global_step, "exponential_decay")
    with name_scope(name, "ExponentialDecay", [learning_rate, global_step, decay_steps, decay_rate]) as scope:
        rate, step, steps = _rate_and_step(learning_rate, global_step, decay_steps)
        power, base = _periods(rate, step, steps, decay_rate, staircase)
        return math_ops.multiply(rate, math_ops.pow(base, power), name=scope)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * exp(-decay_rate * global_step / decay_steps)."""
    _needs_step(global_step, "natural_exp_decay")
    with name_scope(name, "NaturalExpDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate, step, steps = _rate_and_step(learning_rate, global_step, decay_steps)
        power, factor = _periods(rate, step, steps, decay_rate, staircase)
        return math_ops.multiply(rate, elementwise.exp(-factor * power), name=scope)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate / (1 + decay_rate * global_step / decay_steps)."""
    _needs_step(global_step, "inverse_time_decay")
    with name_scope(name, "InverseTimeDecay", [learning_rate, global_step, decay_rate]) as scope:
        rate, step, steps = _rate_and_step(learning_rate, global_step, decay_steps)
        power, factor = _periods(rate, step, steps, decay_rate, staircase)
        return math_ops.divide(rate, factor * power + 1.0, name=scope)


def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Tensor:
    """values[0] while x <= boundaries[0], values[1] while x <= boundaries[1], ..., then the last value."""
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    with name_scope(name, "PiecewiseConstant", [x, *boundaries, *values]):
        point = convert_to_tensor(x)
        limits = []
        for boundary in boundaries:
            limit = convert_to_tensor(boundary)
            if limit.dtype.base_dtype is not point.dtype.base_dtype:
                if point.dtype.base_dtype is dtypes.int64 and limit.dtype.base_dtype is dtypes.int32:
                    limit = cast(limit, dtypes.int64)
                else:
                    raise ValueError(
                        f"Boundaries ({limit.dtype.base_dtype.name}) must have the same dtype as x "
                        f"({point.dtype.base_dtype.name})."
                    )
            limits.append(limit)
        levels = [convert_to_tensor(value) for value in values]
        if any(level.dtype.base_dtype is not levels[0].dtype.base_dtype for level in levels):
            raise ValueError("Values must have elements all with the same dtype")
        result = levels[-1]
        for limit, level in zip(reversed(limits), reversed(levels[:-1])):
            result = slicing.where(math_ops.less_equal(point, limit), level, result)
        return result


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """From learning_rate to end_learning_rate in `decay_steps` steps; `cycle` stretches the span to go on."""
    _needs_step(global_step, "polynomial_decay")
    values = [learning_rate, global_step, decay_steps, end_learning_rate, power]
    with name_scope(name, "PolynomialDecay", values) as scope:
        rate, step, steps = _rate_and_step(learning_rate, global_step, decay_steps)
        dtype = rate.dtype.base_dtype
        end = cast(convert_to_tensor(end_learning_rate), dtype)
        exponent = cast(convert_to_tensor(power), dtype)
        if cycle:
            turns = slicing.where(math_ops.equal(step, 0.0), step + 1.0, elementwise.ceil(step / steps))
            steps = steps * turns
        else:
            step = math_ops.minimum(step, steps)
        left = math_ops.pow(1.0 - step / steps, exponent)
        return math_ops.add((rate - end) * left, end, name=scope)


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Tensor:
    """Half a cosine wave from learning_rate to alpha * learning_rate."""
    _needs_step(global_step, "cosine decay")
    with name_scope(name, "CosineDecay", [learning_rate, global_step]):
        rate, step, steps = _rate_and_step(learning_rate, global_step, decay_steps)
        done = math_ops.minimum(step, steps) / steps
        wave = (elementwise.cos(done * math.pi) + 1.0) * 0.5
        return rate * (wave * (1 - alpha) + alpha)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """`cosine_decay` again and again: each period `t_mul` times as long and `m_mul` times as high as the one before."""
    _needs_step(global_step, "cosine decay restarts")
    with name_scope(name, "SGDRDecay", [learning_rate, global_step]) as scope:
        rate, step, steps = _rate_and_step(learning_rate, global_step, first_decay_steps)
        dtype = rate.dtype.base_dtype
        stretch, height = cast(convert_to_tensor(t_mul), dtype), cast(convert_to_tensor(m_mul), dtype)
        done = step / steps
        if isinstance(t_mul, (int, float)) and t_mul == 1.0:
            period = elementwise.floor(done)
            done = done - period
        else:
            period = elementwise.floor(
                elementwise.log(1.0 - done * (1.0 - stretch)) / elementwise.log(stretch)
            )
            grown = math_ops.pow(stretch, period)
            done = (done - (1.0 - grown) / (1.0 - stretch)) / grown
        peak = math_ops.pow(height, period)
        wave = peak * 0.5 * (elementwise.cos(done * math.pi) + 1.0)
        return math_ops.multiply(rate, wave * (1 - alpha) + alpha, name=scope)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Tensor:
    """A cosine of `num_periods` under a line that falls to zero."""
    _needs_step(global_step, "linear cosine decay")
    with name_scope(name, "LinearCosineDecay", [learning_rate, global_step]) as scope:
        rate, step, steps = _rate_and_step(learning_rate, global_step, decay_steps)
        step = math_ops.minimum(step, steps)
        return _under_line(rate, step, steps, (steps - step) / steps, num_periods, alpha, beta, scope)


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Tensor:
    """`linear_cosine_decay` with normal noise on the line, of variance initial_variance / (1 + step)^variance_decay."""
    _needs_step(global_step, "noisy linear cosine decay")
    with name_scope(name, "NoisyLinearCosineDecay", [learning_rate, global_step]) as scope:
        rate, step, steps = _rate_and_step(learning_rate, global_step, decay_steps)
        step = math_ops.minimum(step, steps)
        spread = elementwise.sqrt(initial_variance / math_ops.pow(step + 1.0, variance_decay))
        line = (steps - step) / steps + random.random_normal([], dtype=rate.dtype.base_dtype) * spread
        return _under_line(rate, step, steps, line, num_periods, alpha, beta, scope)


def _under_line(
    rate: Tensor, step: Tensor, steps: Tensor, line: Tensor, num_periods: float, alpha: float, beta: float, name: str
) -> Tensor:
    """The rate on a cosine of `num_periods` whose height falls as `line` does."""
    wave = (elementwise.cos(step / steps * (2.0 * num_periods * math.pi)) + 1.0) * 0.5
    return math_ops.multiply(rate, (line + alpha) * wave + beta, name=name)
