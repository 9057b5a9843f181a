"""Random numbers: one stream per op and session, from the graph's seed and the op's, the same on every task.

Without any seed a stream starts from the system's entropy. With a graph seed alone the op's seed is its place in the
graph, so that equal programs draw equal numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor, get_default_graph
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.scopes import DEFAULT_GRAPH_SEED, get_seed, set_random_seed
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import constant_value, value_as_shape
from dtfzmq.ops import philox
from dtfzmq.ops.arguments import scalar, sizes
from dtfzmq.ops.array import int_vector
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat

_MASK = 2**64 - 1


def op_seeds(seed: int | None) -> dict[str, int]:
    """The attributes `seed` and `seed2` of a random op made now; both 0 if there is no seed."""
    first, second = get_seed(seed)
    if first is None or second is None:
        return {"seed": 0, "seed2": 0}
    first, second = int(first), int(second)
    # (0, 0) would mean "no seed"
    return {"seed": first, "seed2": second if (first, second) != (0, 0) else 2**31 - 1}


def generator(seed: int, seed2: int) -> Any:
    """numpy's Generator for a pair of seeds; (0, 0) draws from the system's entropy. Its methods lock themselves."""
    if seed == 0 and seed2 == 0:
        return np.random.Generator(np.random.Philox())
    return np.random.Generator(np.random.Philox(key=np.array([seed & _MASK, seed2 & _MASK], np.uint64)))


def _drawing(draw: Callable[..., Any]) -> Any:
    """A kernel factory: `draw(stream, numpy dtype, *inputs)`, with the stream kept in the kernel."""

    def make(node: Any, env: Any) -> Any:
        stream = philox.seeded(node.attrs["seed"], node.attrs["seed2"])
        to = node.dtypes[0].np_dtype
        return lambda *inputs: draw(stream, to, *inputs)

    return make


def shaped(law: Callable[..., Any]) -> Callable[..., Any]:
    """Numbers of a law of `philox`, as many as a shape has elements."""

    def fill(stream: philox.Stream, to: Any, shape: Any) -> Any:
        wanted = sizes("shape", shape)
        count = math.prod(wanted)
        return law(philox.draw(stream, count), to, count).reshape(wanted)

    return fill


def integers(stream: philox.Stream, to: Any, shape: Any, low: Any, high: Any) -> Any:
    """Integers from `low` up to, not with, `high`. Raises InvalidArgumentError if there are none."""
    low, high = scalar("minval", low), scalar("maxval", high)
    if not low < high:
        raise errors.InvalidArgumentError(None, None, f"Need minval < maxval, got {low} >= {high}")
    return shaped(lambda s, to, count: philox.integers(s, to, low, high, count))(stream, to, shape)


def _shuffle(stream: philox.Stream, to: Any, x: Any) -> Any:
    if not np.ndim(x) or len(x) < 2 or not np.size(x):
        return x
    return x[stream.reserve(-(-(len(x) - 1) // 4)).order(len(x))]


def classes(stream: philox.Stream, to: Any, logits: Any, count: Any) -> Any:
    """For each row of logits, `count` classes. Raises InvalidArgumentError for logits of another rank, or none."""
    if logits.ndim != 2:
        raise errors.InvalidArgumentError(None, None, f"logits should be a matrix, got shape {list(logits.shape)}")
    if logits.shape[1] == 0:
        raise errors.InvalidArgumentError(None, None, "num_classes should be positive, got 0")
    wide = logits.astype(np.float64)
    odds = np.cumsum(np.exp(wide - np.max(wide, 1, keepdims=True)), 1)
    number = int(count)
    mine = philox.draw(stream, 2 * len(logits) * (-(-number // 4) * 4))
    drawn = philox.uniform(mine, odds.dtype, len(logits) * number).reshape(len(logits), number) * odds[:, -1:]
    out = np.empty(drawn.shape, to)
    for row, edges in enumerate(odds):
        out[row] = np.searchsorted(edges, drawn[row], side="right")
    return out


_SEED = "seed: int = 0, seed2: int = 0"
_NONE = NO_GRAD("random numbers")
_SHAPE = [Sample(ints(2, 3), dtype=d, values=False) for d in (dtypes.float32, dtypes.float64, dtypes.float16)]


def _first(n: Any) -> list[TensorShape]:
    return [value_as_shape(n.inputs[0])]


_uniform_op = op(
    "RandomUniform", f"shape: I; dtype: type = float32, {_SEED} -> output: dtype", shape=_first,
    make=_drawing(shaped(philox.uniform)), grad=_NONE, stateful=True, samples=_SHAPE,
)  # fmt: skip
_normal_op = op(
    "RandomStandardNormal", f"shape: I; dtype: type = float32, {_SEED} -> output: dtype", shape=_first,
    make=_drawing(shaped(philox.normal)), grad=_NONE, stateful=True, samples=_SHAPE,
)  # fmt: skip
_truncated_op = op(
    "TruncatedNormal", f"shape: I; dtype: type = float32, {_SEED} -> output: dtype", shape=_first,
    make=_drawing(shaped(philox.truncated)), grad=_NONE, stateful=True,
    samples=[*_SHAPE, Sample(ints(1)[:0], values=False)],
)  # fmt: skip
_integers_op = op(
    "RandomUniformInt", f"shape: I, minval: I2, maxval: I2; {_SEED} -> output: I2", shape=_first,
    make=_drawing(integers), grad=_NONE, stateful=True,
    samples=[Sample(ints(4), np.int64(-3), np.int64(9), seed=3, values=False)],
)  # fmt: skip
_shuffle_op = op(
    "RandomShuffle", f"value: T; {_SEED} -> output: T", shape=same, make=_drawing(_shuffle), grad=_NONE, stateful=True,
    samples=[Sample(mat(5, 2), seed=1, values=False)],
)  # fmt: skip


def multinomial_shape(n: Any) -> list[TensorShape]:
    """A row of draws, as many as the second input says, for each row of logits."""
    count = constant_value(n.inputs[1])
    return [n.inputs[0].shape.with_rank(2)[:1].concatenate([None if count is None else int(count)])]


_multinomial_op = op(
    "Multinomial", f"logits: R, num_samples: int32; output_dtype: type = int64, {_SEED} -> output: output_dtype",
    shape=multinomial_shape, make=_drawing(classes), grad=_NONE,
    stateful=True, samples=[Sample(mat(2, 3), np.int32(5), values=False)],
)  # fmt: skip


def _scaled(draw: Tensor, factor: Any, shift: Any, name: str | None) -> Tensor:
    kind = draw.dtype
    factor, shift = (v if isinstance(v, Tensor) else convert_to_tensor(v, dtype=kind) for v in (factor, shift))
    return raw.Add(raw.Mul(draw, factor), shift, name=name)


def _make(
    builder: Any, scope: str, shape: Any, factor: Any, shift: Any, dtype: Any, seed: int | None, name: str | None
) -> Tensor:
    kind = dtypes.as_dtype(dtype).base_dtype
    if not kind.is_floating:
        raise TypeError(f"{scope} needs a floating dtype, not {kind.name}.")
    with get_default_graph().name_scope(name or scope) as prefix:
        sizes = convert_to_tensor(int_vector(shape), preferred_dtype=dtypes.int32, name="shape")
        draw = builder(sizes, dtype=kind, **op_seeds(seed))
        return _scaled(draw, factor, shift, prefix)


def random_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Normally distributed values."""
    return _make(_normal_op, "random_normal", shape, stddev, mean, dtype, seed, name)


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Normally distributed values, none more than two deviations from the mean."""
    return _make(_truncated_op, "truncated_normal", shape, stddev, mean, dtype, seed, name)


def random_uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Uniform values in [minval, maxval); integers need a maxval (ValueError), floats have 1."""
    kind = dtypes.as_dtype(dtype).base_dtype
    if kind.is_integer:
        if maxval is None:
            raise ValueError(f"Must specify maxval for integer dtype {kind.name}")
        with get_default_graph().name_scope(name or "random_uniform") as prefix:
            sizes = convert_to_tensor(int_vector(shape), preferred_dtype=dtypes.int32, name="shape")
            low, high = convert_to_tensor(minval, dtype=kind), convert_to_tensor(maxval, dtype=kind)
            return _integers_op(sizes, low, high, name=prefix, **op_seeds(seed))
    top = 1 if maxval is None else maxval
    if _is_tensor(minval, top):
        top = convert_to_tensor(top, dtype=None if isinstance(top, Tensor) else kind)
    return _make(_uniform_op, "random_uniform", shape, top - minval, minval, kind, seed, name)


def _is_tensor(*values: Any) -> bool:
    return any(isinstance(v, Tensor) for v in values)


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """The entries along the first axis in random order."""
    return _shuffle_op(value, name=name, **op_seeds(seed))


def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = None
) -> Tensor:
    """For each row of logits, `num_samples` class numbers drawn with probabilities softmax(row)."""
    kind = dtypes.int64 if output_dtype is None else dtypes.as_dtype(output_dtype)
    out = _multinomial_op(logits, num_samples, output_dtype=kind, name=name, **op_seeds(seed))
    if isinstance(num_samples, int):
        out.set_shape([None, num_samples])
    return out


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A slice of `size` at a random place, the same for every axis's offset law: uniform over what fits."""
    value = convert_to_tensor(value, name="value")
    with value.graph.name_scope(name or "random_crop"):
        size = convert_to_tensor(int_vector(size), dtype=dtypes.int32)
        limit = raw.Shape(value) - size + 1
        draw = _integers_op(raw.Shape(limit), np.int32(0), np.int32(2**31 - 1), **op_seeds(seed))
        return raw.Slice(value, raw.FloorMod(draw, limit), size)


__all__ = [
    "DEFAULT_GRAPH_SEED", "generator", "get_seed", "multinomial", "random_crop", "random_normal", "random_shuffle",
    "random_uniform", "set_random_seed", "truncated_normal",
]  # fmt: skip
