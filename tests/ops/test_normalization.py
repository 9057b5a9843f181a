"""Batch normalization's derivatives, which differ from what differences over its outputs would say; moments; lrn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import batch_norm, nn, normalization
from dtfzmq.ops.constants import placeholder
from dtfzmq.ops.gradients import gradients
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import reduce_sum
from tests.kit.evaluate import evaluate

RNG = np.random.default_rng(8)
SHAPE = (2, 3, 4, 3)


def _normalized(x, scale, offset, mean, variance, epsilon=0.001):
    return (x - mean) / np.sqrt(variance + epsilon) * scale + offset


@pytest.mark.parametrize("shape", [SHAPE, (5, 7, 11, 3), (1, 1, 1, 3), (2, 2, 2, 2, 3)])
def test_statistics_and_output(shape):
    x, scale, offset = RNG.standard_normal(shape) + 3, RNG.random(3) + 0.5, RNG.standard_normal(3)
    axes = tuple(range(len(shape) - 1))
    count = x.size // 3
    with Graph().as_default():
        y, mean, variance = evaluate(
            list(batch_norm.fused_batch_norm(
                x, scale, offset, data_format="NHWC" if len(shape) == 4 else "NDHWC"
            ))
        )  # fmt: skip
        np.testing.assert_allclose(mean, x.mean(axes))
        np.testing.assert_allclose(variance, x.var(axes) * count / max(count - 1, 1), atol=1e-12)
        np.testing.assert_allclose(y, _normalized(x, scale, offset, x.mean(axes), x.var(axes)), atol=1e-9)


@pytest.mark.parametrize("far", [0, 3, 300])
@pytest.mark.parametrize("block", [1, 1 << 19])
def test_a_large_mean_takes_no_digits(far, block, monkeypatch):
    """Sums of squares and of products in single precision would have none left at the largest."""
    monkeypatch.setattr(batch_norm, "_BLOCK", block)
    x = (RNG.standard_normal((4, 9, 7, 3)) + [far, 0, -far]).astype(np.float32)
    dy = RNG.standard_normal(x.shape).astype(np.float32)
    scale, offset = np.array([1, 2, 3], np.float32), np.array([0, 1, 2], np.float32)
    with Graph().as_default():
        t, gain = convert_to_tensor(x), convert_to_tensor(scale)
        y, mean, variance = batch_norm.fused_batch_norm(t, gain, offset)
        dx, dgain = gradients(y, [t, gain], [dy])
        got = evaluate([y, mean, variance, dx, dgain])
    wide, g = x.astype(float), dy.astype(float)
    axes = (0, 1, 2)
    deviation = np.sqrt(wide.var(axes) + 0.001)
    unit = (wide - wide.mean(axes)) / deviation
    met = (g * unit).mean(axes)
    want = (
        unit * scale + offset, wide.mean(axes), wide.var(axes, ddof=1),
        scale / deviation * (g - g.mean(axes) - unit * met), met * (x.size // 3),
    )  # fmt: skip
    for found, right in zip(got, want):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=3e-4 + 6e-6 * far)


def test_given_statistics_and_mixed_ones():
    x, scale, offset = RNG.standard_normal(SHAPE), RNG.random(3) + 0.5, RNG.standard_normal(3)
    mean, variance = RNG.standard_normal(3), RNG.random(3) + 0.5
    with Graph().as_default():
        fixed = batch_norm.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)
        mixed = batch_norm.fused_batch_norm(x, scale, offset, mean, variance, exponential_avg_factor=0.25)
        plain = batch_norm.fused_batch_norm(x, scale, offset)
        a, b, c = (evaluate(list(f)) for f in (fixed, mixed, plain))
        np.testing.assert_allclose(a[0], _normalized(x, scale, offset, mean, variance))
        np.testing.assert_allclose(a[1], mean)
        np.testing.assert_allclose(b[0], c[0])
        np.testing.assert_allclose(b[1], 0.75 * mean + 0.25 * c[1])
        np.testing.assert_allclose(b[2], 0.75 * variance + 0.25 * c[2])


def _directional(loss, feeds, grads):
    """(analytic, numeric) derivative along a random direction."""
    directions = {t: RNG.standard_normal(np.shape(v)) for t, v in feeds.items()}
    values = evaluate(grads, feeds)
    analytic = sum(float(np.sum(g * d)) for g, d in zip(values, directions.values()))
    step = 1e-5
    ends = [
        float(evaluate(loss, {t: v + sign * step * directions[t] for t, v in feeds.items()})) for sign in (1, -1)
    ]
    return analytic, (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_first_and_second_derivatives(training, layout):
    shape = SHAPE if layout == "NHWC" else (2, 3, 3, 4)
    with Graph().as_default():
        x, scale, offset = (placeholder("float64", s) for s in (shape, (3,), (3,)))
        feeds = {x: RNG.standard_normal(shape), scale: RNG.random(3) + 0.5, offset: RNG.standard_normal(3)}
        given: dict[str, Any] = {} if training else {"mean": RNG.standard_normal(3), "variance": RNG.random(3) + 0.5}
        y = batch_norm.fused_batch_norm(x, scale, offset, is_training=training, data_format=layout, **given)[0]
        weights = RNG.standard_normal(shape)
        loss = reduce_sum(raw.Square(y) * weights)
        first = gradients(loss, list(feeds))
        analytic, numeric = _directional(loss, feeds, first)
        assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-6)
        twice = reduce_sum(first[0] * RNG.standard_normal(shape)) + reduce_sum(first[1] * RNG.standard_normal(3))
        analytic, numeric = _directional(twice, feeds, gradients(twice, list(feeds)))
        assert analytic == pytest.approx(numeric, rel=1e-5, abs=1e-6)


def test_nothing_flows_back_from_the_statistics():
    with Graph().as_default():
        x = convert_to_tensor(RNG.standard_normal(SHAPE))
        _, mean, variance = batch_norm.fused_batch_norm(x, np.ones(3), np.zeros(3))
        (got,) = gradients([mean, variance], [x])
        assert got is None or not evaluate(got).any()


def test_half_precision_keeps_statistics_in_single():
    with Graph().as_default():
        x = convert_to_tensor((RNG.standard_normal(SHAPE) + 100).astype(np.float16))
        y, mean, _ = batch_norm.fused_batch_norm(x, np.ones(3), np.zeros(3))
        assert (y.dtype.name, mean.dtype.name) == ("float16", "float32")
        value = evaluate(y)
        assert value.dtype == np.float16
        assert abs(value.astype(float).mean()) < 0.01


def test_needed_statistics_are_asked_for():
    with Graph().as_default():
        with pytest.raises(ValueError, match="must be a 1D tensor"):
            batch_norm.fused_batch_norm(np.zeros(SHAPE), np.ones(3), np.zeros(3), is_training=False)


@pytest.mark.parametrize("shift", [None, 0.5])
@pytest.mark.parametrize("known", [True, False])
def test_moments_in_pieces_are_moments(shift, known):
    value = RNG.standard_normal((3, 4, 5))
    with Graph().as_default():
        x = placeholder("float64", [3, 4, 5] if known else None)
        parts = normalization.sufficient_statistics(x, [0, 2], shift=shift)
        mean, variance = evaluate(list(normalization.normalize_moments(*parts)), {x: value})
        np.testing.assert_allclose(mean, value.mean((0, 2)))
        np.testing.assert_allclose(variance, value.var((0, 2)))


def test_weights_count_as_repetitions():
    value = RNG.standard_normal((3, 4))
    with Graph().as_default():
        weighted = normalization.weighted_moments(value, [0], [[1], [3], [2]])
        repeated = np.repeat(value, [1, 3, 2], 0)
        mean, variance = evaluate(list(weighted))
        np.testing.assert_allclose(mean, repeated.mean(0))
        np.testing.assert_allclose(variance, repeated.var(0))
        nothing = normalization.weighted_moments(value, [0], np.zeros((3, 1)), keep_dims=True)
        assert [v.tolist() for v in evaluate(list(nothing))] == [[[0.0] * 4]] * 2


def test_lrn_divides_by_its_neighbours():
    x = RNG.standard_normal((1, 1, 2, 6))
    with Graph().as_default():
        got = evaluate(normalization.lrn(x, 2, bias=1.5, alpha=0.3, beta=0.7))
    want = np.empty_like(x)
    for i in range(6):
        near = x[..., max(0, i - 2) : i + 3]
        want[..., i] = x[..., i] / (1.5 + 0.3 * np.sum(near**2, -1)) ** 0.7
    np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("full", [True, False])
def test_log_poisson_loss(full):
    targets, logs = np.array([0.0, 0.5, 1.0, 4.0]), np.array([0.1, -2.0, 1.0, 1.5])
    with Graph().as_default():
        got = evaluate(nn.log_poisson_loss(targets, logs, compute_full_loss=full))
        want = np.exp(logs) - logs * targets
        if full:
            want[3] += 4 * np.log(4) - 4 + 0.5 * np.log(8 * np.pi)  # Stirling's, for counts above 1 alone
        np.testing.assert_allclose(got, want)
        with pytest.raises(ValueError, match="must have the same shape"):
            nn.log_poisson_loss(targets, logs[:2])
