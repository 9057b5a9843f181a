"""Further random numbers: gamma, Poisson and categorical."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor, get_default_graph
from dtfzmq.graph.node import Node
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.graph.static import value_as_shape
from dtfzmq.ops import random
from dtfzmq.ops.array import int_vector
from dtfzmq.ops.random import generator, op_seeds
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, pos
from dtfzmq.ops.special_numpy import psi


def _outer_shape(n: Operation) -> list[TensorShape]:
    return [value_as_shape(n.inputs[0]).concatenate(n.inputs[1].shape)]


def _drawn(draw: Callable[..., Any]) -> Callable[..., Any]:
    def make(node: Node, env: Any) -> Any:
        rng = generator(node.attrs["seed"], node.attrs["seed2"])
        to = node.dtypes[0].np_dtype

        def kernel(shape: Any, parameter: Any) -> Any:
            sizes = (*shape.tolist(), *np.shape(parameter))
            if np.size(parameter) and not bool(np.all(np.asarray(parameter, np.float64) >= 0)):
                raise errors.InvalidArgumentError(None, None, f"The parameters of '{node.name}' must not be negative.")
            return np.asarray(draw(rng, np.asarray(parameter, np.float64), sizes)).astype(to)

        return kernel

    return make


def _gamma_slope(alpha: Any, sample: Any) -> Any:
    """d sample / d alpha at a fixed quantile: minus the derivative of the distribution function over the density.

    Both are had from the series of the lower incomplete gamma function and its derivative in alpha.
    """
    a, x = np.broadcast_arrays(np.asarray(alpha, np.float64), np.asarray(sample, np.float64))
    x = np.maximum(x, 1e-300)
    # P(a, x) = x^a e^-x sum_k x^k / Gamma(a + k + 1); the ratio to the density x^(a-1) e^-x / Gamma(a) has no powers.
    term = x / a
    slope = np.zeros_like(x)
    harmonic = np.zeros_like(x)  # sum of 1 / (a + i), the derivative of log(a (a + 1) ... (a + k))
    base = np.log(x) - psi(a)
    total = np.zeros_like(x)
    for k in range(2000):
        harmonic += 1 / (a + k)
        total += term
        slope += term * (base - harmonic)
        term = term * x / (a + k + 1)
        if not np.any(term > 1e-16 * total):
            break
    return (-slope).astype(np.asarray(sample).dtype)


def _gamma_grad(n: Operation, g: Any) -> Any:
    count = raw.Size(n.inputs[0])
    part = raw.Mul(g, raw.RandomGammaGrad(n.inputs[1], n.outputs[0]))
    return None, raw.Sum(part, raw.Range(np.int32(0), count, np.int32(1)))


_SEED = "seed: int = 0, seed2: int = 0"
_gamma = op(
    "RandomGamma", f"shape: I, alpha: E; {_SEED} -> output: E", shape=_outer_shape,
    make=_drawn(lambda rng, alpha, sizes: rng.standard_gamma(alpha, sizes)), grad=_gamma_grad, stateful=True,
    samples=[Sample(ints(4), pos(2), differentiable=False, values=False, seed=1)],
)  # fmt: skip
_gamma_slope_op = op(
    "RandomGammaGrad", "alpha: E, sample: E -> output: E", shape=lambda n: [n.inputs[1].shape], kernel=_gamma_slope,
    grad=UNDEFINED("no second derivative of a draw"), samples=[Sample(pos(2), pos(3, 2, seed=1))],
)  # fmt: skip
_poisson = op(
    "RandomPoissonV2", f"shape: I, rate: E; dtype: type = int64, {_SEED} -> output: dtype", shape=_outer_shape,
    make=_drawn(lambda rng, rate, sizes: rng.poisson(rate, sizes)), grad=UNDEFINED("random numbers"), stateful=True,
    samples=[Sample(ints(4), pos(2), values=False, seed=1)],
)  # fmt: skip


def random_gamma(
    shape: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """`shape` draws for each alpha (shape) and beta (rate, 1) of a gamma distribution; differentiable in both."""
    kind = dtypes.as_dtype(dtype)
    with get_default_graph().name_scope(name or "random_gamma"):
        sizes = convert_to_tensor(int_vector(shape), preferred_dtype=dtypes.int32, name="shape")
        a = convert_to_tensor(alpha, kind, "alpha")
        b = convert_to_tensor(1 if beta is None else beta, kind, "beta")
        full = raw.Add(a, raw.ZerosLike(b)) if b.shape.ndims != 0 else a
        tiny = np.array(np.finfo(kind.as_numpy_dtype).tiny)
        return raw.RealDiv(raw.Maximum(tiny, _gamma(sizes, full, **op_seeds(seed))), b)


def random_poisson(
    lam: Any, shape: Any, dtype: Any = dtypes.float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """`shape` draws for each rate in `lam` of a Poisson distribution."""
    with get_default_graph().name_scope(name or "random_poisson"):
        sizes = convert_to_tensor(int_vector(shape), preferred_dtype=dtypes.int32, name="shape")
        rate = convert_to_tensor(lam, preferred_dtype=dtypes.float32, name="rate")
        made: Tensor = _poisson(sizes, rate, dtype=dtypes.as_dtype(dtype), **op_seeds(seed))
        return made


def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """For each row of logits, `num_samples` class numbers drawn with probabilities softmax(row)."""
    return random.multinomial(logits, num_samples, seed, name, dtype)


__all__ = ["categorical", "random_gamma", "random_poisson"]
