"""Arithmetic of the fused updates: what one optimizer step does to a variable and its slots.

Each dense rule is a function `rule(s, states, grad, scalars)`: it works on one block, a run of elements small enough
to stay in cache. `states` is a list of (old, out) array pairs, one for the variable and one for each slot; `out` may
be `old`, so a rule reads `old` before it writes `out` of the same state. `s` is a list of scratch arrays. So an update
makes no temporary as large as the variable. Scalars are Python numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Pair = tuple[Array, Array]
Rule = Callable[[Sequence[Array], Sequence[Pair], Array, Sequence[Any]], None]

BLOCK = 1 << 14
"""Elements in a block: with four states and two scratch arrays of float32 this is 384 KiB, within L2."""


def run_blocks(rule: Rule, scratch: int, pairs: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """Apply `rule` to all elements, block by block. Old and new arrays are C-contiguous; `grad` need not be."""
    size = grad.size
    dtype = pairs[0][0].dtype
    if size <= BLOCK:
        rule([np.empty(grad.shape, dtype) for _ in range(scratch)], pairs, grad, scalars)
        return
    flat = [(old.reshape(-1), out.reshape(-1)) for old, out in pairs]
    gradient = grad.reshape(-1)
    room = [np.empty(BLOCK, dtype) for _ in range(scratch)]
    for start in range(0, size, BLOCK):
        stop = min(start + BLOCK, size)
        part = [(old[start:stop], out[start:stop]) for old, out in flat]
        rule([r[: stop - start] for r in room], part, gradient[start:stop], scalars)


def run_rows(
    rule: Rule, scratch: int, outs: Sequence[Array], grad: Array, indices: Array, scalars: Sequence[Any]
) -> None:
    """Apply `rule` to the rows `indices` (distinct) of the arrays `outs`, which hold the current values."""
    rows = [out[indices] for out in outs]
    pairs = [(r, r) for r in rows]
    run_blocks(rule, scratch, pairs, np.ascontiguousarray(grad), scalars)
    for out, new in zip(outs, rows, strict=True):
        out[indices] = new


def decayed(old: Array, out: Array, rate: Any, target: Array, scratch: Array) -> None:
    """out = old + (target - old) * rate; `scratch` may be `target`."""
    np.subtract(target, old, out=scratch)
    scratch *= rate
    np.add(old, scratch, out=out)


def gradient_descent(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """var -= alpha * delta."""
    ((var, new_var),) = states
    np.multiply(grad, scalars[0], out=s[0])
    np.subtract(var, s[0], out=new_var)


def momentum(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """accum = accum * momentum + grad; var -= lr * accum."""
    (var, new_var), (accum, new_accum) = states
    lr, rate = scalars
    np.multiply(accum, rate, out=new_accum)
    new_accum += grad
    np.multiply(new_accum, lr, out=s[0])
    np.subtract(var, s[0], out=new_var)


def nesterov_momentum(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """As momentum, with var -= lr * (grad + momentum * accum)."""
    (var, new_var), (accum, new_accum) = states
    lr, rate = scalars
    np.multiply(accum, rate, out=new_accum)
    new_accum += grad
    np.multiply(new_accum, rate, out=s[0])
    s[0] += grad
    s[0] *= lr
    np.subtract(var, s[0], out=new_var)


def adam(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """Scalars: alpha (bias-corrected rate), 1 - beta1, 1 - beta2, epsilon."""
    (var, new_var), (m, new_m), (v, new_v) = states
    alpha, one_minus_beta1, one_minus_beta2, epsilon = scalars
    decayed(m, new_m, one_minus_beta1, grad, s[0])
    np.multiply(grad, grad, out=s[0])
    decayed(v, new_v, one_minus_beta2, s[0], s[0])
    _adam_step(s, var, new_var, new_m, new_v, alpha, epsilon)


def _adam_step(s: Sequence[Array], var: Array, new_var: Array, m: Array, v: Array, alpha: Any, epsilon: Any) -> None:
    np.sqrt(v, out=s[0])
    s[0] += epsilon
    np.divide(m, s[0], out=s[0])
    s[0] *= alpha
    np.subtract(var, s[0], out=new_var)


def nesterov_adam(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """Adam whose step uses grad * (1 - beta1) + beta1 * m."""
    (var, new_var), (m, new_m), (v, new_v) = states
    alpha, one_minus_beta1, one_minus_beta2, epsilon = scalars
    decayed(m, new_m, one_minus_beta1, grad, s[0])
    np.multiply(grad, grad, out=s[0])
    decayed(v, new_v, one_minus_beta2, s[0], s[0])
    np.subtract(grad, new_m, out=s[1])
    s[1] *= one_minus_beta1
    s[1] += new_m
    _adam_step(s, var, new_var, s[1], new_v, alpha, epsilon)


def adam_from_moments(s: Sequence[Array], states: Sequence[Pair], _: Array, scalars: Sequence[Any]) -> None:
    """The step of Adam alone, the moments being up to date."""
    (var, new_var), (m, _m), (v, _v) = states
    _adam_step(s, var, new_var, m, v, scalars[0], scalars[1])


def adagrad(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """accum += grad^2; var -= lr * grad / sqrt(accum)."""
    (var, new_var), (accum, new_accum) = states
    np.multiply(grad, grad, out=s[0])
    np.add(accum, s[0], out=new_accum)
    np.sqrt(new_accum, out=s[0])
    np.divide(grad, s[0], out=s[0])
    s[0] *= scalars[0]
    np.subtract(var, s[0], out=new_var)


def adagrad_fixed(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """Adagrad with `update_slots=False`: the accumulator stays."""
    (var, new_var), (accum, new_accum) = states
    np.sqrt(accum, out=s[0])
    np.divide(grad, s[0], out=s[0])
    s[0] *= scalars[0]
    np.subtract(var, s[0], out=new_var)
    if new_accum is not accum:
        np.copyto(new_accum, accum)


def adadelta(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """Scalars: lr, rho, epsilon; states: var, accum, accum_update."""
    (var, new_var), (accum, new_accum), (updates, new_updates) = states
    lr, rho, epsilon = scalars
    np.multiply(grad, grad, out=s[0])
    decayed(accum, new_accum, 1 - rho, s[0], s[0])
    np.add(updates, epsilon, out=s[0])
    np.add(new_accum, epsilon, out=s[1])
    s[0] /= s[1]
    np.sqrt(s[0], out=s[0])
    s[0] *= grad
    np.multiply(s[0], s[0], out=s[1])
    decayed(updates, new_updates, 1 - rho, s[1], s[1])
    s[0] *= lr
    np.subtract(var, s[0], out=new_var)


def rms_prop(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """States: var, ms, mom; scalars: lr, rho, momentum, epsilon."""
    (var, new_var), (ms, new_ms), (mom, new_mom) = states
    lr, rho, rate, epsilon = scalars
    np.multiply(grad, grad, out=s[0])
    decayed(ms, new_ms, 1 - rho, s[0], s[0])
    np.add(new_ms, epsilon, out=s[0])
    _rms_step(s, (var, new_var), (mom, new_mom), grad, lr, rate)


def centered_rms_prop(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """States: var, mg, ms, mom: the mean gradient's square is taken off the mean square."""
    (var, new_var), (mg, new_mg), (ms, new_ms), (mom, new_mom) = states
    lr, rho, rate, epsilon = scalars
    np.multiply(grad, grad, out=s[0])
    decayed(ms, new_ms, 1 - rho, s[0], s[0])
    decayed(mg, new_mg, 1 - rho, grad, s[0])
    np.multiply(new_mg, new_mg, out=s[0])
    np.subtract(new_ms, s[0], out=s[0])
    s[0] += epsilon
    _rms_step(s, (var, new_var), (mom, new_mom), grad, lr, rate)


def _rms_step(s: Sequence[Array], var: Pair, mom: Pair, grad: Array, lr: Any, rate: Any) -> None:
    """mom = mom * rate + lr * grad / sqrt(s[0]); var -= mom."""
    np.sqrt(s[0], out=s[0])
    np.divide(grad, s[0], out=s[0])
    s[0] *= lr
    old, new = mom
    np.multiply(old, rate, out=new)
    new += s[0]
    np.subtract(var[0], new, out=var[1])


def ftrl(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """States: var, accum, linear; scalars: lr, l1, l2, l2_shrinkage, -lr_power."""
    (var, new_var), (accum, new_accum), (linear, new_linear) = states
    lr, l1, l2, shrinkage, power = scalars
    np.power(accum, power, out=s[0])
    np.multiply(grad, grad, out=s[1])
    np.add(accum, s[1], out=new_accum)
    np.power(new_accum, power, out=s[1])
    np.subtract(s[1], s[0], out=s[0])
    s[0] /= lr
    s[0] *= var
    np.subtract(linear, s[0], out=new_linear)
    new_linear += grad
    if shrinkage:
        np.multiply(var, 2 * shrinkage, out=s[0])
        new_linear += s[0]
    s[1] /= lr
    s[1] += 2 * l2
    np.clip(new_linear, -l1, l1, out=s[0])
    s[0] -= new_linear
    np.divide(s[0], s[1], out=new_var)


def _shrunk(s: Array, sign: Array, threshold: Any) -> None:
    """s = sign(s) * max(|s| - threshold, 0); `sign` is scratch."""
    np.sign(s, out=sign)
    np.abs(s, out=s)
    s -= threshold
    np.maximum(s, 0, out=s)
    s *= sign


def proximal_gradient_descent(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """Scalars: alpha, l1, l2."""
    ((var, new_var),) = states
    alpha, l1, l2 = scalars
    np.multiply(grad, alpha, out=s[0])
    np.subtract(var, s[0], out=s[0])
    if l1 > 0:
        _shrunk(s[0], s[1], alpha * l1)
    np.divide(s[0], 1 + l2 * alpha, out=new_var)


def proximal_adagrad(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """Scalars: lr, l1, l2; states: var, accum."""
    (var, new_var), (accum, new_accum) = states
    lr, l1, l2 = scalars
    np.multiply(grad, grad, out=s[0])
    np.add(accum, s[0], out=new_accum)
    np.sqrt(new_accum, out=s[1])
    np.divide(lr, s[1], out=s[1])
    np.multiply(grad, s[1], out=s[0])
    np.subtract(var, s[0], out=s[0])
    if l1 > 0:
        np.multiply(s[1], l1, out=s[2])
        _shrunk(s[0], s[3], s[2])
    s[1] *= l2
    s[1] += 1
    np.divide(s[0], s[1], out=new_var)


def adagrad_da(s: Sequence[Array], states: Sequence[Pair], grad: Array, scalars: Sequence[Any]) -> None:
    """States: var, gradient accumulator, squared accumulator; scalars: lr, l1, l2, step (the variable's dtype)."""
    (_, new_var), (total, new_total), (squares, new_squares) = states
    lr, l1, l2, step = scalars
    np.add(total, grad, out=new_total)
    np.multiply(grad, grad, out=s[0])
    np.add(squares, s[0], out=new_squares)
    np.copyto(s[0], new_total)
    if l1 > 0:
        _shrunk(s[0], s[1], l1 * step)
    s[0] *= -lr
    np.sqrt(new_squares, out=s[1])
    s[1] += l2 * step * lr
    np.divide(s[0], s[1], out=new_var)
