"""Candidate samplers: a few classes drawn of many, and how often each was to be expected."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.ops import random
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints

Array = Any
_LEAST = np.finfo(np.float32).min


class Candidates(NamedTuple):
    """What a sampler gives: classes, and the expected counts of the true ones and of the sampled ones."""

    sampled_candidates: Tensor
    true_expected_count: Tensor
    sampled_expected_count: Tensor


class _Uniform:
    """A law over range(size): here, each as likely."""

    def __init__(self, size: int) -> None:
        self.size = size

    def draw(self, rng: Any, count: int) -> Array:
        """`count` classes, drawn independently."""
        return rng.integers(0, self.size, count)

    def odds(self, classes: Array) -> Array:
        """The probability of each."""
        return np.full(classes.shape, 1 / self.size)

    def learn(self, classes: Array) -> None:
        """Take note of classes that occurred."""


class _LogUniform(_Uniform):
    """Class k with probability log((k + 2) / (k + 1)) / log(size + 1): for classes by falling frequency."""

    def draw(self, rng: Any, count: int) -> Array:
        drawn = np.exp(rng.random(count) * np.log(self.size + 1)).astype(np.int64) - 1
        return drawn % self.size

    def odds(self, classes: Array) -> Array:
        return np.log((classes + 2.0) / (classes + 1.0)) / np.log(self.size + 1)


class _Weighted(_Uniform):
    """Classes by given weights."""

    def __init__(self, weights: Array) -> None:
        super().__init__(len(weights))
        self.weights = weights
        self.edges = np.cumsum(weights)

    def draw(self, rng: Any, count: int) -> Array:
        return np.searchsorted(self.edges, rng.random(count) * self.edges[-1], side="right")

    def odds(self, classes: Array) -> Array:
        return self.weights[classes] / self.edges[-1]


class _Learned(_Weighted):
    """Each class as often as it was seen, and once more."""

    def __init__(self, size: int) -> None:
        super().__init__(np.ones(size))

    def learn(self, classes: Array) -> None:
        weights = self.weights.copy()  # another step may be reading the old ones
        np.add.at(weights, classes, 1)
        self.weights, self.edges = weights, np.cumsum(weights)


def _distinct(sampler: _Uniform, rng: Any, count: int) -> tuple[Array, int]:
    """(the first `count` distinct classes drawn, how many draws it took)."""
    possible = np.count_nonzero(sampler.odds(np.arange(sampler.size)))
    if count > possible:
        raise errors.InvalidArgumentError(
            None, None, f"Sampler's range is too small: {count} distinct classes wanted, {possible} are possible."
        )
    drawn = sampler.draw(rng, 2 * count)
    while True:
        _, first = np.unique(drawn, return_index=True)
        if len(first) >= count:
            first.sort()
            return drawn[first[:count]], int(first[count - 1]) + 1 if count else 0
        drawn = np.concatenate([drawn, sampler.draw(rng, len(drawn))])


def _expected(odds: Array, unique: bool, count: int, tries: int) -> Array:
    found = -np.expm1(tries * np.log1p(-np.minimum(odds, 1 - 1e-16))) if unique else odds * count
    return found.astype(np.float32)


def _make(law: Callable[[Any], _Uniform]) -> Any:
    """A kernel factory: the sampler and its stream live in the kernel."""

    def make(node: Any, env: Any) -> Any:
        attrs = node.attrs
        sampler, rng = law(attrs), random.generator(attrs["seed"], attrs["seed2"])
        count, unique = attrs["num_sampled"], attrs["unique"] or isinstance(sampler, _All)

        def kernel(true: Array) -> tuple[Array, Array, Array]:
            if true.ndim != 2 or true.shape[1] != attrs["num_true"]:
                raise errors.InvalidArgumentError(
                    None, None, f"true_classes must be a matrix with num_true = {attrs['num_true']} columns, "
                    f"not of shape {list(true.shape)}"
                )  # fmt: skip
            if true.size and not 0 <= true.min() <= true.max() < sampler.size:
                raise errors.InvalidArgumentError(
                    None, None, f"`true_candidate` out of range [0, {sampler.size}), received "
                    f"{int(true.min() if true.min() < 0 else true.max())}"
                )  # fmt: skip
            if unique:
                drawn, tries = _distinct(sampler, rng, count)
            else:
                drawn, tries = sampler.draw(rng, count), count
            drawn = drawn.astype(np.int64)
            counts = (_expected(sampler.odds(c), unique, count, tries) for c in (true, drawn))
            out = (drawn, *counts)
            sampler.learn(true.reshape(-1))
            return out

        return kernel

    return make


def _weights(attrs: Any) -> _Uniform:
    """The law of a fixed unigram sampler: by list or file, of one shard, after the reserved numbers."""
    if attrs["vocab_file"]:
        with open(attrs["vocab_file"], encoding="utf-8", newline="") as file:
            given = [float(row[-1]) for row in csv.reader(file) if row]
    else:
        given = attrs["unigrams"]
    full = np.concatenate([np.zeros(attrs["num_reserved_ids"]), np.asarray(given, float) ** attrs["distortion"]])
    size = attrs["range_max"]
    if len(full) != size:
        raise errors.InvalidArgumentError(
            None, None, f"range_max is {size} and does not match the {len(full)} classes that were loaded"
        )
    mine = np.zeros_like(full)
    mine[attrs["shard"] :: attrs["num_shards"]] = full[attrs["shard"] :: attrs["num_shards"]]
    return _Weighted(mine)


class _All(_Uniform):
    """Every class, once, in order."""

    def draw(self, rng: Any, count: int) -> Array:
        return np.arange(count)

    def odds(self, classes: Array) -> Array:
        return np.ones(classes.shape)


def _shape(n: Operation) -> list[TensorShape]:
    true = n.inputs[0].shape.with_rank(2).merge_with([None, n.attrs["num_true"]])
    drawn = TensorShape([n.attrs["num_sampled"]])
    if n.attrs["unique"] and n.attrs["num_sampled"] > n.attrs.get("range_max", n.attrs["num_sampled"]):
        raise ValueError(f"num_sampled {n.attrs['num_sampled']} must be at most range_max {n.attrs['range_max']}")
    return [drawn, true, drawn]


_OUT = "sampled_candidates: int64, true_expected_count: float32, sampled_expected_count: float32"
_ATTRS = "num_true: int, num_sampled: int, unique: bool"
_SEEDS = "seed: int = 0, seed2: int = 0"
_RANDOM = NO_GRAD("classes are drawn at random")
_TRUE = np.array([[0, 3], [2, 2]], np.int64)
_SETTING: dict[str, Any] = {"num_true": 2, "num_sampled": 3, "unique": True, "values": False}

for _name, _law in (
    ("UniformCandidateSampler", lambda attrs: _Uniform(attrs["range_max"])),
    ("LogUniformCandidateSampler", lambda attrs: _LogUniform(attrs["range_max"])),
    ("LearnedUnigramCandidateSampler", lambda attrs: _Learned(attrs["range_max"])),
):
    op(
        _name, f"true_classes: int64; {_ATTRS}, range_max: int, {_SEEDS} -> {_OUT}", shape=_shape, make=_make(_law),
        grad=_RANDOM, stateful=True, samples=[Sample(_TRUE, range_max=5, **_SETTING)],
    )  # fmt: skip
op(
    "FixedUnigramCandidateSampler",
    f"true_classes: int64; {_ATTRS}, range_max: int, vocab_file: str = '', distortion: float = 1.0, "
    f"num_reserved_ids: int = 0, num_shards: int = 1, shard: int = 0, unigrams: list(float) = [], {_SEEDS} -> {_OUT}",
    shape=_shape, make=_make(_weights), grad=_RANDOM, stateful=True,
    samples=[Sample(_TRUE, range_max=5, num_reserved_ids=1, unigrams=[1.0, 2.0, 0.5, 4.0], **_SETTING)],
)  # fmt: skip
op(
    "AllCandidateSampler", f"true_classes: int64; {_ATTRS}, {_SEEDS} -> {_OUT}", shape=_shape,
    make=_make(lambda attrs: _All(attrs["num_sampled"])), grad=_RANDOM, stateful=True,
    samples=[Sample(_TRUE, **{**_SETTING, "num_sampled": 4})],
)  # fmt: skip


def _hits(true: Array, sampled: Array) -> tuple[Array, Array, Array]:
    place = {int(c): i for i, c in enumerate(sampled)}
    found = [(i, place[c]) for i, row in enumerate(true.tolist()) for c in row if c in place]
    rows, ids = zip(*found) if found else ((), ())
    return np.array(rows, np.int32), np.array(ids, np.int64), np.full(len(rows), _LEAST, np.float32)


op(
    "ComputeAccidentalHits",
    f"true_classes: int64, sampled_candidates: int64; num_true: int, {_SEEDS} -> indices: int32, ids: int64, "
    "weights: float32",
    shape=lambda n: [TensorShape([None])] * 3, kernel=_hits, grad=NO_GRAD("places are whole numbers"),
    samples=[Sample(_TRUE, ints(3, 1, 2, dtype="int64"), num_true=2), Sample(_TRUE[:0], _TRUE[0], num_true=2)],
)  # fmt: skip


def _sampled(builder: Any, true_classes: Any, seed: int | None, name: str | None, **attrs: Any) -> Candidates:
    true_classes = convert_to_tensor(true_classes, None if isinstance(true_classes, Tensor) else dtypes.int64)
    return Candidates(*builder(true_classes, name=name, **attrs, **random.op_seeds(seed)))


def uniform_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int | None = None,
    name: str | None = None,
) -> Candidates:  # fmt: skip
    """Classes of range(range_max), each as likely. `true_classes` [batch, num_true] are int64."""
    return _sampled(raw.UniformCandidateSampler, true_classes, seed, name, num_true=num_true, num_sampled=num_sampled,
                    unique=unique, range_max=range_max)  # fmt: skip


def log_uniform_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int | None = None,
    name: str | None = None,
) -> Candidates:  # fmt: skip
    """Classes of range(range_max), by Zipf's law: they must be numbered by falling frequency."""
    return _sampled(raw.LogUniformCandidateSampler, true_classes, seed, name, num_true=num_true,
                    num_sampled=num_sampled, unique=unique, range_max=range_max)  # fmt: skip


def learned_unigram_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, seed: int | None = None,
    name: str | None = None,
) -> Candidates:  # fmt: skip
    """Classes of range(range_max), as often as they were true classes so far in this session."""
    return _sampled(raw.LearnedUnigramCandidateSampler, true_classes, seed, name, num_true=num_true,
                    num_sampled=num_sampled, unique=unique, range_max=range_max)  # fmt: skip


def fixed_unigram_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, range_max: int, vocab_file: str = "",
    distortion: float = 1.0, num_reserved_ids: int = 0, num_shards: int = 1, shard: int = 0,
    unigrams: Sequence[float] = (), seed: int | None = None, name: str | None = None,
) -> Candidates:  # fmt: skip
    """Classes by weights: `unigrams`, or the last field of each line of `vocab_file` where the op runs.

    A weight is raised to `distortion`; the first `num_reserved_ids` classes are never drawn, nor those of other shards.
    """
    if bool(vocab_file) == bool(len(unigrams)):
        raise ValueError("Must provide either vocab_file or unigrams, and not both.")
    return _sampled(
        raw.FixedUnigramCandidateSampler, true_classes, seed, name, num_true=num_true, num_sampled=num_sampled,
        unique=unique, range_max=range_max, vocab_file=vocab_file, distortion=distortion,
        num_reserved_ids=num_reserved_ids, num_shards=num_shards, shard=shard, unigrams=list(unigrams),
    )  # fmt: skip


def all_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None = None, name: str | None = None
) -> Candidates:
    """All classes of range(num_sampled), for tests against the full loss."""
    return _sampled(raw.AllCandidateSampler, true_classes, seed, name, num_true=num_true, num_sampled=num_sampled,
                    unique=unique)  # fmt: skip


class AccidentalHits(NamedTuple):
    """Where sampled classes are true ones: rows, places among the samples, and the least number as a weight."""

    indices: Tensor
    ids: Tensor
    weights: Tensor


def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> AccidentalHits:
    """Which of the sampled candidates are true classes of which rows."""
    return AccidentalHits(*raw.ComputeAccidentalHits(
        true_classes, sampled_candidates, num_true=num_true, name=name, **random.op_seeds(seed)
    ))  # fmt: skip
