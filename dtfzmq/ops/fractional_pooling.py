"""Pooling by ratios that need not be whole: windows of two neighbouring sizes, in an order drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import UNDEFINED, Sample, op
from dtfzmq.graph.static import value_as_shape
from dtfzmq.ops import windows
from dtfzmq.ops.random import generator
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat

Array = Any


def _invalid(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


def _edges(rng: Any, size: int, count: int, pseudo: bool) -> Array:
    """Where the windows begin, and the end of the last: `count` windows of size // count or one more, over `size`.

    At random their order is shuffled; pseudorandom, they begin at the multiples of size / count, shifted and rounded.
    """
    least = size // count
    if size % count == 0:
        lengths: Array = np.full(count, least)
    elif pseudo:
        alpha = size / count
        shift = rng.random() * min((least + 2) / alpha - 1, (size + 1 - least) / alpha - (count - 1))
        inner = np.ceil(alpha * (np.arange(1, count) + shift)).astype(np.int64)
        lengths = np.diff(np.concatenate([[1], inner, [size + 1]]))
    else:
        lengths = np.full(count, least)
        lengths[: size % count] += 1
        rng.shuffle(lengths)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _ends(edges: Array, overlapping: bool) -> Array:
    """The ends of the windows; of overlapping ones, one further, so that a boundary belongs to both."""
    return np.minimum(edges[1:] + 1, edges[-1]) if overlapping else edges[1:]


def _best(x: Array, rows: Array, columns: Array, overlapping: bool) -> tuple[Array, Array]:
    """(the largest of each window, where in an image it is first): all windows at once, one of their places a time."""
    bottoms, rights = _ends(rows, overlapping), _ends(columns, overlapping)
    tops, lefts = rows[:-1], columns[:-1]
    best = x[:, tops[:, None], lefts]
    width = x.shape[2]
    at = np.broadcast_to((tops[:, None] * width + lefts)[None, :, :, None], best.shape).copy()
    for down in range(int((bottoms - tops).max())):
        for along in range(int((rights - lefts).max())):
            inside = (tops + down < bottoms)[:, None] & (lefts + along < rights)
            i, j = np.minimum(tops + down, bottoms - 1), np.minimum(lefts + along, rights - 1)
            found = x[:, i[:, None], j]
            better = (found > best) & inside[None, :, :, None]
            np.copyto(best, found, where=better)
            np.copyto(at, (i[:, None] * width + j)[None, :, :, None], where=better)
    return best, at


def _summed(x: Array, axis: int, edges: Array, overlapping: bool) -> Array:
    out = np.add.reduceat(x, edges[:-1], axis)
    if overlapping:
        lead = (slice(None),) * axis
        inside, shared = (*lead, slice(None, -1)), (*lead, edges[1:-1])
        out[inside] += x[shared]
    return out


def _spread(g: Array, axis: int, edges: Array, overlapping: bool) -> Array:
    """The way back of _summed."""
    out = np.repeat(g, np.diff(edges), axis)
    if overlapping:
        lead = (slice(None),) * axis
        inside, shared = (*lead, slice(None, -1)), (*lead, edges[1:-1])
        out[shared] += g[inside]
    return out


def _counts(rows: Array, columns: Array, overlapping: bool) -> Array:
    heights, widths = (_ends(e, overlapping) - e[:-1] for e in (rows, columns))
    return (heights[:, None] * widths)[None, :, :, None]


def _largest(x: Array, rows: Array, columns: Array, overlapping: bool) -> Array:
    return _best(x, rows, columns, overlapping)[0]


def _mean(x: Array, rows: Array, columns: Array, overlapping: bool) -> Array:
    total = _summed(_summed(windows.wide(x), 1, rows, overlapping), 2, columns, overlapping)
    return (total / _counts(rows, columns, overlapping)).astype(x.dtype)


def _pooling(compute: Callable[..., Array]) -> Any:
    def make(node: Any, env: Any) -> Any:
        attrs = node.attrs
        ratio, pseudo, overlapping = attrs["pooling_ratio"], attrs["pseudo_random"], attrs["overlapping"]
        rng = generator(attrs["seed"], attrs["seed2"])
        kept: dict[tuple[int, int], tuple[Array, Array]] = {}  # of a deterministic op: what was drawn once

        def kernel(x: Array) -> tuple[Array, Array, Array]:
            if x.ndim != 4:
                raise _invalid(f"value must be 4-dimensional, not of shape {list(x.shape)}")
            if ratio[0] != 1 or ratio[3] != 1:
                raise errors.UnimplementedError(None, None, "Fractional pooling is of height and width alone.")
            sizes = x.shape[1:3]
            edges = kept.get(sizes)
            if edges is None:
                counts = [int(size / r) for size, r in zip(sizes, ratio[1:3])]
                if min(counts) < 1:
                    raise _invalid(f"pooling_ratio {list(ratio)} leaves nothing of an image of {list(sizes)}.")
                edges = tuple(_edges(rng, size, count, pseudo) for size, count in zip(sizes, counts))
                if attrs["deterministic"]:
                    kept[sizes] = edges
            return compute(x, *edges, overlapping), *edges

        return kernel

    return make


def _pool_shape(n: Operation) -> list[TensorShape]:
    ratio = n.attrs["pooling_ratio"]
    known = windows.with_rank(n.inputs[0], 4, n)
    if len(ratio) != 4:
        raise ValueError(f"pooling_ratio needs 4 numbers, not {list(ratio)}.")
    if min(ratio) < 1:
        raise ValueError(f"pooling_ratio cannot be smaller than 1, got: {min(ratio)}")
    sizes = [None if size is None else int(size / r) for size, r in zip(known, ratio)]
    return [TensorShape(sizes), *(TensorShape([None if s is None else s + 1]) for s in sizes[1:3])]


def _max_grad_kernel(node: Any, env: Any) -> Any:
    overlapping = node.attrs["overlapping"]

    def kernel(x: Array, y: Array, g: Array, rows: Array, columns: Array) -> Array:
        at = _best(x, rows, columns, overlapping)[1]
        batch, height, width, depth = x.shape
        n, _, _, c = np.indices(g.shape, sparse=True)
        place = (n * (height * width) + at) * depth + c
        out = np.bincount(place.ravel(), g.astype(np.float64).ravel(), batch * height * width * depth)
        return out.reshape(x.shape).astype(g.dtype)

    return kernel


def _average_grad_kernel(node: Any, env: Any) -> Any:
    overlapping = node.attrs["overlapping"]

    def kernel(shape: Array, g: Array, rows: Array, columns: Array) -> Array:
        share = g / _counts(rows, columns, overlapping)
        return _spread(_spread(share, 1, rows, overlapping), 2, columns, overlapping).astype(g.dtype)

    return kernel


def _max_grad(n: Operation, g: Tensor, *_: Any) -> tuple[Tensor]:
    (x,) = n.inputs
    y, *edges = n.outputs
    return (raw.FractionalMaxPoolGrad(x, y, g, *edges, overlapping=n.attrs["overlapping"]),)


def _average_grad(n: Operation, g: Tensor, *_: Any) -> tuple[Tensor]:
    shape = raw.Shape(n.inputs[0])
    return (raw.FractionalAvgPoolGrad(shape, g, *n.outputs[1:], overlapping=n.attrs["overlapping"]),)


_ATTRS = (
    "pooling_ratio: any, pseudo_random: bool = False, overlapping: bool = False, deterministic: bool = False, "
    "seed: int = 0, seed2: int = 0"
)
_OUT = "output: R, row_pooling_sequence: int64, col_pooling_sequence: int64"
_SETTING: dict[str, Any] = {"pooling_ratio": [1.0, 1.5, 1.25, 1.0], "deterministic": True, "seed": 3, "seed2": 4}
_EDGES = np.array([0, 2, 3], np.int64), np.array([0, 1, 3, 4], np.int64)


def _declare(name: str, compute: Callable[..., Array], grad: Any) -> Any:
    return op(
        name, f"value: R; {_ATTRS} -> {_OUT}", shape=_pool_shape, make=_pooling(compute), grad=grad, stateful=True,
        samples=[
            Sample(mat(2, 5, 7, 2), **_SETTING), Sample(mat(2, 5, 7, 2), overlapping=True, **_SETTING),
            Sample(mat(1, 5, 7, 1), pseudo_random=True, **_SETTING),
        ],
    )  # fmt: skip


_max_pool = _declare("FractionalMaxPool", _largest, _max_grad)
_avg_pool = _declare("FractionalAvgPool", _mean, _average_grad)
op(
    "FractionalMaxPoolGrad",
    "orig_input: R, orig_output: R, out_backprop: R, row_pooling_sequence: int64, col_pooling_sequence: int64; "
    "overlapping: bool = False -> output: R",
    shape=lambda n: [n.inputs[0].shape], make=_max_grad_kernel,
    grad=UNDEFINED("TensorFlow gives no second derivative of it either"),
    samples=[
        Sample(mat(1, 3, 4, 2), mat(1, 2, 3, 2), mat(1, 2, 3, 2, seed=2), *_EDGES, overlapping=o) for o in (False, True)
    ],
)  # fmt: skip
op(
    "FractionalAvgPoolGrad",
    "orig_input_tensor_shape: I, out_backprop: R, row_pooling_sequence: int64, col_pooling_sequence: int64; "
    "overlapping: bool = False -> output: R",
    shape=lambda n: [value_as_shape(n.inputs[0])], make=_average_grad_kernel,
    grad=UNDEFINED("TensorFlow gives no second derivative of it either"),
    samples=[
        Sample(np.array([1, 3, 4, 2], np.int32), mat(1, 2, 3, 2), *_EDGES, overlapping=o) for o in (False, True)
    ],
)  # fmt: skip


class Pooled(NamedTuple):
    """What fractional pooling gives: the pooled images, and where in height and width the windows lay."""

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


def _pool(
    build: Any, value: Any, ratio: Sequence[float], pseudo: bool, overlapping: bool, deterministic: bool,
    seeds: tuple[int, int], name: str | None,
) -> Pooled:  # fmt: skip
    attrs = dict(zip(("seed", "seed2"), seeds))
    return Pooled(*build(
        convert_to_tensor(value, name="value"), pooling_ratio=[float(r) for r in ratio], pseudo_random=bool(pseudo),
        overlapping=bool(overlapping), deterministic=bool(deterministic), name=name, **attrs,
    ))  # fmt: skip


def fractional_max_pool(
    value: Any, pooling_ratio: Sequence[float], pseudo_random: bool = False, overlapping: bool = False,
    deterministic: bool = False, seed: int = 0, seed2: int = 0, name: str | None = None,
) -> Pooled:  # fmt: skip
    """The largest of windows of [batch, height, width, channels] whose sizes come near `pooling_ratio`, drawn anew.

    `pooling_ratio` has 4 numbers of 1 or more, 1 for batch and channels. `overlapping` windows share their borders.
    A `deterministic` op draws its windows once; seeds that are not 0 decide them. Raises ValueError for other ratios.
    """
    return _pool(_max_pool, value, pooling_ratio, pseudo_random, overlapping, deterministic, (seed, seed2), name)


def fractional_avg_pool(
    value: Any, pooling_ratio: Sequence[float], pseudo_random: bool = False, overlapping: bool = False,
    deterministic: bool = False, seed: int = 0, seed2: int = 0, name: str | None = None,
) -> Pooled:  # fmt: skip
    """As fractional_max_pool, the mean of each window."""
    return _pool(_avg_pool, value, pooling_ratio, pseudo_random, overlapping, deterministic, (seed, seed2), name)


__all__ = ["fractional_avg_pool", "fractional_max_pool"]
