"""Random numbers: one stream per op and session, from the graph's seed and the op's, the same on every task.

Without any seed a stream starts from the system's entropy. With a graph seed alone the op's seed is its number among
the random ops, so that equal programs draw equal numbers.
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
    return {"seed": first, "seed2": second}


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
    """Integers from `low` up to, not with, `high`. Raises InvalidArgumentError if there are none and any is wanted."""
    low, high = scalar("minval", low), scalar("maxval", high)
    if not np.all(shape):
        low, high = 0, 1  # none is drawn, whatever the bounds
    if not low < high:
        raise errors.InvalidArgumentError(None, None, f"Need minval < maxval, got {low} >= {high}")
    return shaped(lambda s, to, count: philox.integers(s, to, low, high, count))(stream, to, shape)


def _shuffle(stream: philox.Stream, to: Any, x: Any) -> Any:
    if not np.ndim(x) or len(x) < 2 or not np.size(x):
        return x
    return x[stream.reserve(-(-(len(x) - 1) // 4)).order(len(x))]


def classes(stream: philox.Stream, to: Any, logits: Any, count: Any) -> Any:
    """For each row of logits, `count` classes; none whose logit is no finite number, unless all are so.

    Raises InvalidArgumentError for logits of another rank or without classes, and for a count that is none.
    """
    number = scalar("num_samples", count)
    if number < 0:
        raise errors.InvalidArgumentError(None, None, f"num_samples should be nonnegative, got {number}")
    if logits.ndim != 2:
        raise errors.InvalidArgumentError(None, None, f"logits should be a matrix, got shape {list(logits.shape)}")
    if logits.shape[1] == 0:
        raise errors.InvalidArgumentError(None, None, "num_classes should be positive, got 0")
    wide = logits.astype(np.float64)
    wide[~np.isfinite(wide)] = -np.inf
    wide -= np.max(wide, 1, keepdims=True, initial=np.finfo(np.float64).min)
    odds = np.cumsum(np.exp(wide, out=wide), 1)
    mine = philox.draw(stream, 2 * len(logits) * (-(-number // 4) * 4))
    drawn = philox.uniform(mine, odds.dtype, len(logits) * number).reshape(len(logits), number)
    drawn *= odds[:, -1:]
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


def _tensors(shape: Any, kind: dtypes.DType, **values: Any) -> list[Tensor]:
    """The shape and the values as tensors, by TensorFlow's names."""
    sizes = convert_to_tensor(int_vector(shape), preferred_dtype=dtypes.int32, name="shape")
    return [sizes, *(convert_to_tensor(value, kind, name) for name, value in values.items())]


def _scaled(
    builder: Any, scope: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None, name: str | None
) -> Tensor:
    kind = dtypes.as_dtype(dtype).base_dtype
    if not kind.is_floating:
        raise TypeError(f"{scope} needs a floating dtype, not {kind.name}.")
    with get_default_graph().name_scope(name or scope) as prefix:
        sizes, shift, factor = _tensors(shape, kind, mean=mean, stddev=stddev)
        return raw.Add(raw.Mul(builder(sizes, dtype=kind, **op_seeds(seed)), factor), shift, name=prefix)


def random_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Normally distributed values."""
    return _scaled(_normal_op, "random_normal", shape, mean, stddev, dtype, seed, name)


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Normally distributed values, none more than two deviations from the mean."""
    return _scaled(_truncated_op, "truncated_normal", shape, mean, stddev, dtype, seed, name)


def random_uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Uniform values in [minval, maxval); integers, int32 or int64, need a maxval, floats have 1. Raises ValueError."""
    kind = dtypes.as_dtype(dtype).base_dtype
    if not kind.is_floating and kind not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"Invalid dtype {kind.name}: random_uniform draws floating numbers, int32 and int64.")
    if maxval is None and kind.is_integer:
        raise ValueError(f"Must specify maxval for integer dtype {kind.name}")
    with get_default_graph().name_scope(name or "random_uniform") as prefix:
        sizes, low, high = _tensors(shape, kind, min=minval, max=1 if maxval is None else maxval)
        if kind.is_integer:
            return _integers_op(sizes, low, high, name=prefix, **op_seeds(seed))
        draw = _uniform_op(sizes, dtype=kind, **op_seeds(seed))
        return raw.Add(raw.Mul(draw, raw.Sub(high, low)), low, name=prefix)


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
