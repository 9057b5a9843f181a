"""Stateless random numbers: the seed alone decides the values, which are the same in every step and on every task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor, get_default_graph
from dtfzmq.graph.node import Node
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.static import value_as_shape
from dtfzmq.ops import philox, random
from dtfzmq.ops.arguments import vector
from dtfzmq.ops.array import int_vector
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat, pos


def _key(seed: Any) -> Any:
    return np.array(vector("seed", seed, 2), np.int64).astype(np.uint64)


def _generator(seed: Any) -> Any:
    return np.random.Generator(np.random.Philox(key=_key(seed)))


def _stream(seed: Any) -> philox.Stream:
    return philox.stateless(*vector("seed", seed, 2))


def _seeded(draw: Callable[..., Any]) -> Callable[..., Any]:
    def make(node: Node, env: Any) -> Any:
        to = node.dtypes[0].np_dtype
        return lambda shape, seed, *more: draw(_stream(seed), to, shape, *more)

    return make


def _stateless(name: str, draw: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = op(
        name, "shape: I, seed: I2; dtype: type = float32 -> output: dtype",
        shape=lambda n: [value_as_shape(n.inputs[0])], make=_seeded(draw), grad=NO_GRAD("random numbers"),
        samples=[Sample(ints(2, 3), ints(1, 2)), Sample(ints(2), np.array([1, -2]), dtype=dtypes.float64)],
    )  # fmt: skip
    return made


_stateless_uniform = _stateless("StatelessRandomUniform", random.shaped(philox.uniform))
_stateless_normal = _stateless("StatelessRandomNormal", random.shaped(philox.normal))
_stateless_truncated = _stateless("StatelessTruncatedNormal", random.shaped(philox.truncated))
_stateless_integers = op(
    "StatelessRandomUniformInt", "shape: I, seed: I2, minval: I3, maxval: I3 -> output: I3",
    shape=lambda n: [value_as_shape(n.inputs[0])], make=_seeded(random.integers), grad=NO_GRAD("random numbers"),
    samples=[Sample(ints(5), ints(1, 2), np.int64(-3), np.int64(9))],
)  # fmt: skip
_stateless_multinomial = op(
    "StatelessMultinomial",
    "logits: R, num_samples: int32, seed: I; output_dtype: type = int64 -> output: output_dtype",
    shape=random.multinomial_shape,
    make=lambda node, env: lambda logits, count, seed: random.classes(
        _stream(seed), node.dtypes[0].np_dtype, logits, count
    ),
    grad=NO_GRAD("random numbers"), samples=[Sample(mat(2, 3), np.int32(5), ints(1, 2))],
)  # fmt: skip


_stateless_full = op(
    "StatelessRandomUniformFullInt", "shape: I, seed: I2; dtype: type = int32 -> output: dtype",
    shape=lambda n: [value_as_shape(n.inputs[0])], make=_seeded(random.shaped(philox.whole)),
    grad=NO_GRAD("random numbers"),
    samples=[Sample(ints(5), ints(1, 2)), Sample(ints(2, 2), ints(1, 2), dtype=dtypes.uint64)],
)  # fmt: skip


def _of_parameters(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel maker of `draw(rng, *parameters)`: one value for each, none of which may be negative."""

    def make(node: Node, env: Any) -> Any:
        to = node.dtypes[0].np_dtype

        def kernel(seed: Any, *parameters: Any) -> Any:
            wide = [np.asarray(p, np.float64) for p in parameters]
            if not all((p >= 0).all() for p in wide):
                raise errors.InvalidArgumentError(None, None, f"The parameters of '{node.name}' must not be negative.")
            return np.asarray(draw(_generator(seed), *wide)).astype(to)

        return kernel

    return make


def _binomial(rng: Any, counts: Any, probs: Any) -> Any:
    if (probs > 1).any():
        raise errors.InvalidArgumentError(None, None, "Probabilities must not be more than 1.")
    return rng.binomial(counts.astype(np.int64), probs)


def _gamma_grad(n: Operation, g: Any) -> Any:
    return None, raw.Mul(g, raw.RandomGammaGrad(n.inputs[1], n.outputs[0]))


_stateless_gamma = op(
    "StatelessRandomGamma", "seed: I, alpha: E -> output: E", shape=lambda n: [n.inputs[1].shape],
    make=_of_parameters(lambda rng, alpha: rng.standard_gamma(alpha)), grad=_gamma_grad,
    samples=[Sample(ints(1, 2), pos(3, 2), differentiable=False)],
)  # fmt: skip
_stateless_poisson = op(
    "StatelessRandomPoisson", "seed: I, rate: E; dtype: type = int32 -> output: dtype",
    shape=lambda n: [n.inputs[1].shape], make=_of_parameters(lambda rng, rate: rng.poisson(rate)),
    grad=NO_GRAD("random numbers"), samples=[Sample(ints(1, 2), pos(3, 2))],
)  # fmt: skip
_stateless_binomial = op(
    "StatelessRandomBinomial", "seed: I, counts: float64, probs: float64; dtype: type = int32 -> output: dtype",
    shape=lambda n: [n.inputs[1].shape], make=_of_parameters(_binomial), grad=NO_GRAD("random numbers"),
    samples=[
        Sample(ints(1, 2), np.array([5.0, 9.0]), np.array([0.5, 0.25])),
        Sample(ints(1, 2), np.array([5.0]), np.array([1.5]), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def _pair(seed: Any) -> Tensor:
    """The two integers of a seed; of 64 bits unless they are a tensor."""
    return convert_to_tensor(seed, preferred_dtype=dtypes.int64, name="seed")


def _sizes(shape: Any) -> Tensor:
    return convert_to_tensor(int_vector(shape), preferred_dtype=dtypes.int32, name="shape")


def stateless_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Uniform values in [minval, maxval) that the seed, two integers, decides; the same in every step.

    Integers need a maxval, or both bounds None: all values of the type then. Raises ValueError.
    """
    kind = dtypes.as_dtype(dtype)
    if kind.is_integer and minval is None and maxval is None:
        full: Tensor = _stateless_full(_sizes(shape), _pair(seed), dtype=kind, name=name)
        return full
    if kind.is_integer:
        if minval is None or maxval is None:
            raise ValueError(f"Must specify maxval for integer dtype {kind.name}, or None for both minval and maxval.")
        low, high = convert_to_tensor(minval, kind), convert_to_tensor(maxval, kind)
        whole: Tensor = _stateless_integers(_sizes(shape), _pair(seed), low, high, name=name)
        return whole
    low, high = convert_to_tensor(minval, kind), convert_to_tensor(1 if maxval is None else maxval, kind)
    drawn = _stateless_uniform(_sizes(shape), _pair(seed), dtype=kind)
    made: Tensor = raw.Add(raw.Mul(drawn, high - low), low, name=name)
    return made


def stateless_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """`shape` values of gamma distributions whose alpha and beta (1) broadcast to it; differentiable in both."""
    kind = dtypes.as_dtype(dtype)
    with get_default_graph().name_scope(name or "stateless_gamma") as scope:
        a = raw.BroadcastTo(convert_to_tensor(alpha, kind, "alpha"), _sizes(shape))
        tiny = np.array(np.finfo(kind.as_numpy_dtype).tiny)
        drawn = raw.Maximum(tiny, _stateless_gamma(_pair(seed), a))
        made: Tensor = raw.RealDiv(drawn, convert_to_tensor(1 if beta is None else beta, kind, "beta"), name=scope)
        return made


def stateless_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """`shape` values of Poisson distributions whose rates `lam` broadcast to it."""
    with get_default_graph().name_scope(name or "stateless_poisson") as scope:
        rate = raw.BroadcastTo(convert_to_tensor(lam, preferred_dtype=dtypes.float32, name="lam"), _sizes(shape))
        made: Tensor = _stateless_poisson(_pair(seed), rate, dtype=dtypes.as_dtype(dtype), name=scope)
        return made


def stateless_binomial(
    shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """`shape` values of binomial distributions whose `counts` of trials and `probs` of success broadcast to it."""
    with get_default_graph().name_scope(name or "stateless_binomial") as scope:
        given = (convert_to_tensor(v, name=of) for v, of in ((counts, "counts"), (probs, "probs")))
        n, p = (raw.BroadcastTo(raw.Cast(t, DstT=dtypes.float64), _sizes(shape)) for t in given)
        made: Tensor = _stateless_binomial(_pair(seed), n, p, dtype=dtypes.as_dtype(output_dtype), name=scope)
        return made


def _scaled(draw: Any, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any, name: str | None) -> Tensor:
    kind = dtypes.as_dtype(dtype)
    values = draw(_sizes(shape), _pair(seed), dtype=kind)
    made: Tensor = raw.Add(
        raw.Mul(values, convert_to_tensor(stddev, kind)), convert_to_tensor(mean, kind), name=name
    )
    return made


def stateless_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Normally distributed values that the seed, two integers, decides."""
    return _scaled(_stateless_normal, shape, seed, mean, stddev, dtype, name)


def stateless_truncated_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Like stateless_normal, with no value more than two deviations from the mean."""
    return _scaled(_stateless_truncated, shape, seed, mean, stddev, dtype, name)


def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Like multinomial, decided by the seed, two integers."""
    made: Tensor = _stateless_multinomial(
        logits, num_samples, _pair(seed), output_dtype=dtypes.as_dtype(output_dtype), name=name
    )
    return made


def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """The same by another name."""
    return stateless_multinomial(logits, num_samples, seed, dtype, name)


__all__ = [
    "stateless_binomial", "stateless_categorical", "stateless_gamma", "stateless_multinomial", "stateless_normal",
    "stateless_poisson", "stateless_truncated_normal", "stateless_uniform",
]  # fmt: skip
