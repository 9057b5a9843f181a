"""Updates of optimizers, each one op where the variable lives: exact under concurrency, no temporaries of full size.

The first inputs are references: the variable, then its slots. The op holds the variable's lock, then the slots', for
the whole update, so any number of concurrent updates give the result of some order of them. `use_locking` is accepted
and always in force. A gradient of `SparseApply*` has distinct indices (see `sum_duplicate_slices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.ops import update_rules as rules
from dtfzmq.ops.samples import ints, mat, pos
from dtfzmq.ops.state import check_rows

_UPDATE = NO_GRAD("changes a variable")
Scalars = Callable[..., Sequence[Any]]


def _numbers(scalars: Sequence[Any]) -> list[float]:
    """Python numbers from numpy scalars or 0-d arrays: faster, and arrays keep their type with them."""
    return [s.item() for s in scalars]


def _holding(cells: Sequence[Any], pairs: list[rules.Pair], work: Callable[[list[rules.Pair]], None]) -> None:
    """Call `work(pairs)` holding the locks of all cells, taken in order; `pairs` collects their (old, out) arrays."""
    if len(pairs) == len(cells):
        work(pairs)
        return

    def level(old: Any, out: Any = None) -> Any:
        if out is None:
            fresh = np.array(old)
            pairs.append((fresh, fresh))
            _holding(cells, pairs, work)
            return fresh[()]
        pairs.append((old, out))
        _holding(cells, pairs, work)
        return out

    cells[len(pairs)].update(level)


def _update_cells(cells: Sequence[Any], work: Callable[[list[rules.Pair]], None]) -> None:
    pairs: list[rules.Pair] = []
    try:
        _holding(cells, pairs, work)
    finally:
        # a reference kept here, even by a traceback, would be a lease on the arrays
        pairs.clear()


def _dense(cells: Sequence[Any], rule: rules.Rule, scratch: int, grad: Any, scalars: Sequence[Any]) -> Any:
    def work(pairs: list[rules.Pair]) -> None:
        for old, _ in pairs:
            if old.shape != grad.shape:
                raise errors.InvalidArgumentError(
                    None, None, f"var and grad do not have the same shape {list(old.shape)} {list(grad.shape)}"
                )
        rules.run_blocks(rule, scratch, pairs, np.asarray(grad), scalars)

    _update_cells(cells, work)
    return cells[0]


def _rows(cells: Sequence[Any], rule: rules.Rule, scratch: int, grad: Any, indices: Any, scalars: Sequence[Any]) -> Any:
    def work(pairs: list[rules.Pair]) -> None:
        _check_slices(pairs, grad, indices)
        for old, out in pairs:
            if out is not old:
                np.copyto(out, old)
        rules.run_rows(rule, scratch, [out for _, out in pairs], grad, indices, scalars)

    _update_cells(cells, work)
    return cells[0]


def _check_slices(pairs: Sequence[rules.Pair], grad: Any, indices: Any) -> None:
    for old, _ in pairs:
        if not old.ndim or grad.shape != indices.shape + old.shape[1:]:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"grad of shape {list(grad.shape)} with indices of shape {list(indices.shape)} does not fit a variable "
                f"of shape {list(old.shape)}",
            )
        check_rows(indices, old.shape[0])


def _shape(node: Operation) -> list[TensorShape]:
    """The variable's shape, which its slots share."""
    found = node.inputs[0].shape
    for tensor in node.inputs[1:]:
        if tensor.dtype.is_ref:
            found = found.merge_with(tensor.shape)
    return [found]


def _declare(
    name: str,
    states: Sequence[str],
    scalars: Sequence[str],
    rule: Callable[[Any], rules.Rule],
    scratch: int,
    *,
    attrs: str = "",
    order: Callable[..., Sequence[Any]] = lambda *values: values,
    shared: str = "",
    sparse: bool = True,
) -> tuple[Any, Any]:
    """Declare `Apply<name>` and `SparseApply<name>`.

    `rule(attrs)` chooses the arithmetic; `order(*scalars)` gives what the rule calls its scalars. `shared` are further
    inputs of other types after the scalars.
    """
    refs = ", ".join(f"{s}: ref(F)" for s in states)
    numbers = "".join(f", {s}: F" for s in scalars) + shared
    extra = f", {attrs}" if attrs else ""
    n, m = len(states), len(states) + len(scalars) + (1 if shared else 0)

    def dense(node: Any, env: Any) -> Callable[..., Any]:
        chosen = rule(node.attrs)
        return lambda *v: _dense(v[:n], chosen, scratch, v[m], order(*_numbers(v[n:m])))

    def rows(node: Any, env: Any) -> Callable[..., Any]:
        chosen = rule(node.attrs)
        return lambda *v: _rows(v[:n], chosen, scratch, v[m], v[m + 1], order(*_numbers(v[n:m])))

    # a mean gradient is well below the root of the mean square: their difference is well conditioned
    state = [pos(3, 2, seed=i) * (0.1 if s == "mg" else 1.0) for i, s in enumerate(states)]
    fixed = [np.float64(0.1 + 0.1 * i) for i in range(len(scalars))] + ([np.int64(2)] if shared else [])
    made = op(
        f"Apply{name}",
        f"{refs}{numbers}, grad: F; use_locking: bool = False{extra} -> out: ref(F)",
        shape=_shape,
        make=dense,
        stateful=True,
        grad=_UPDATE,
        samples=[Sample(*state, *fixed, mat(3, 2))],
    )
    if not sparse:
        return made, None
    made_sparse = op(
        f"SparseApply{name}",
        f"{refs}{numbers}, grad: F, indices: I; use_locking: bool = False{extra} -> out: ref(F)",
        shape=_shape,
        make=rows,
        stateful=True,
        grad=_UPDATE,
        samples=[Sample(*state, *fixed, mat(2, 2), ints(2, 0))],
    )
    return made, made_sparse


def _adam_scalars(b1_power: Any, b2_power: Any, lr: Any, b1: Any, b2: Any, epsilon: Any) -> Sequence[Any]:
    second, first = 1 - b2_power, 1 - b1_power
    alpha = lr * math.sqrt(second) / first if second >= 0 and first else math.nan
    return alpha, 1 - b1, 1 - b2, epsilon


def _descend(old: Any, delta: Any, alpha: Any, out: Any = None) -> Any:
    if out is None or delta.size <= rules.BLOCK:
        return np.subtract(old, delta * alpha, out=out)
    rules.run_blocks(rules.gradient_descent, 1, [(old, out)], delta, (alpha,))
    return out


def _apply_descent(var: Any, alpha: Any, delta: Any) -> Any:
    return var.update(_descend, delta, alpha)


apply_gradient_descent = op(
    "ApplyGradientDescent", "var: ref(N), alpha: N, delta: N; use_locking: bool = False -> out: ref(N)", shape=_shape,
    kernel=_apply_descent, stateful=True, grad=_UPDATE, samples=[Sample(pos(3, 2), np.float64(0.1), mat(3, 2))],
)  # fmt: skip
apply_momentum, sparse_apply_momentum = _declare(
    "Momentum", ["var", "accum"], ["lr", "momentum"],
    lambda attrs: rules.nesterov_momentum if attrs["use_nesterov"] else rules.momentum, 1,
    attrs="use_nesterov: bool = False",
)  # fmt: skip
apply_adagrad, sparse_apply_adagrad = _declare(
    "Adagrad", ["var", "accum"], ["lr"],
    lambda attrs: rules.adagrad if attrs["update_slots"] else rules.adagrad_fixed, 1, attrs="update_slots: bool = True",
)  # fmt: skip
apply_adadelta, sparse_apply_adadelta = _declare(
    "Adadelta", ["var", "accum", "accum_update"], ["lr", "rho", "epsilon"], lambda _: rules.adadelta, 2
)
apply_rms_prop, sparse_apply_rms_prop = _declare(
    "RMSProp", ["var", "ms", "mom"], ["lr", "rho", "momentum", "epsilon"], lambda _: rules.rms_prop, 1
)
apply_centered_rms_prop, sparse_apply_centered_rms_prop = _declare(
    "CenteredRMSProp", ["var", "mg", "ms", "mom"], ["lr", "rho", "momentum", "epsilon"],
    lambda _: rules.centered_rms_prop, 1,
)  # fmt: skip
apply_ftrl_v2, sparse_apply_ftrl_v2 = _declare(
    "FtrlV2", ["var", "accum", "linear"], ["lr", "l1", "l2", "l2_shrinkage", "lr_power"], lambda _: rules.ftrl, 2,
    order=lambda lr, l1, l2, shrinkage, power: (lr, l1, l2, shrinkage, -power),
)  # fmt: skip
apply_proximal_gradient_descent, sparse_apply_proximal_gradient_descent = _declare(
    "ProximalGradientDescent", ["var"], ["alpha", "l1", "l2"], lambda _: rules.proximal_gradient_descent, 2
)
apply_proximal_adagrad, sparse_apply_proximal_adagrad = _declare(
    "ProximalAdagrad", ["var", "accum"], ["lr", "l1", "l2"], lambda _: rules.proximal_adagrad, 4
)
apply_adagrad_da, sparse_apply_adagrad_da = _declare(
    "AdagradDA", ["var", "gradient_accumulator", "gradient_squared_accumulator"], ["lr", "l1", "l2"],
    lambda _: rules.adagrad_da, 2, shared=", global_step: int64",
    order=lambda lr, l1, l2, step: (lr, l1, l2, float(step)),
)  # fmt: skip
apply_adam, _no_sparse_adam = _declare(
    "Adam", ["var", "m", "v"], ["beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"],
    lambda attrs: rules.nesterov_adam if attrs["use_nesterov"] else rules.adam, 2,
    attrs="use_nesterov: bool = False", order=_adam_scalars, sparse=False,
)  # fmt: skip


def _sparse_adam(var: Any, m: Any, v: Any, *rest: Any) -> Any:
    """Adam with a sparse gradient: every row's moments decay and every row moves; the rest of the gradient is zero."""
    scalars, grad, indices = _numbers(rest[:6]), rest[6], rest[7]
    alpha, one_minus_beta1, one_minus_beta2, epsilon = _adam_scalars(*scalars)

    def work(pairs: list[rules.Pair]) -> None:
        _check_slices(pairs, grad, indices)
        (_, new_m), (_, new_v) = pairs[1:]
        np.multiply(pairs[1][0], scalars[3], out=new_m)
        new_m[indices] += grad * one_minus_beta1
        np.multiply(pairs[2][0], scalars[4], out=new_v)
        new_v[indices] += grad * grad * one_minus_beta2
        moments = [pairs[0], (new_m, new_m), (new_v, new_v)]
        rules.run_blocks(rules.adam_from_moments, 1, moments, new_m, (alpha, epsilon))

    _update_cells((var, m, v), work)
    return var


sparse_apply_adam = op(
    "SparseApplyAdam",
    "var: ref(F), m: ref(F), v: ref(F), beta1_power: F, beta2_power: F, lr: F, beta1: F, beta2: F, epsilon: F, "
    "grad: F, indices: I; use_locking: bool = False -> out: ref(F)",
    shape=_shape, kernel=_sparse_adam, stateful=True, grad=_UPDATE,
    samples=[
        Sample(
            pos(3, 2), pos(3, 2, seed=1), pos(3, 2, seed=2),
            *(np.float64(x) for x in (0.9, 0.99, 0.1, 0.9, 0.99, 1e-3)), mat(2, 2), ints(2, 0),
        )
    ],
)  # fmt: skip


def _moving_average(s: Any, states: Sequence[rules.Pair], value: np.ndarray, scalars: Sequence[Any]) -> None:
    ((old, out),) = states
    rules.decayed(old, out, scalars[0], value, s[0])


assign_moving_average = op(
    "AssignMovingAverage", "variable: ref(F), value: F, decay: F; use_locking: bool = True -> out: ref(F)",
    shape=_shape, kernel=lambda ref, value, decay: _dense((ref,), _moving_average, 1, value, (1 - decay[()],)),
    stateful=True, grad=_UPDATE, samples=[Sample(mat(3, 2), mat(3, 2, seed=1), np.float64(0.9))],
)  # fmt: skip


def _sum_duplicates(values: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distinct, first, position = np.unique(indices, return_index=True, return_inverse=True)
    if len(distinct) == len(indices):
        return values, indices
    # in order of first appearance, as TensorFlow's unique
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    summed = np.zeros((len(distinct), *values.shape[1:]), values.dtype)
    np.add.at(summed, rank[position.reshape(-1)], values)
    return summed, distinct[order]


_sum_duplicate_slices = op(
    "SumDuplicateSlices", "values: N, indices: I -> summed: N, distinct: I",
    shape=lambda n: [TensorShape([None]).concatenate(n.inputs[0].shape[1:]), TensorShape([None])],
    kernel=_sum_duplicates, grad=NO_GRAD("a step of an optimizer"),
    samples=[Sample(mat(4, 2), ints(2, 0, 2, 1)), Sample(mat(2, 2), ints(2, 0))],
)  # fmt: skip


def sum_duplicate_slices(values: Tensor, indices: Tensor, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(values, indices) with every index once, the values of equal indices summed."""
    made: tuple[Tensor, Tensor] = _sum_duplicate_slices(values, indices, name=name)
    return made
