"""Fractional pooling: each window against the plain maximum or mean over it, the laws of the windows, misuse."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf

X = np.random.default_rng(0).integers(-9, 9, (2, 11, 13, 3)).astype(np.float32)
RATIO = [1.0, 1.44, 2.73, 1.0]


def _run(name, overlapping=False, pseudo_random=False, **options):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(X)
        made = getattr(tf.nn, name)(x, RATIO, pseudo_random, overlapping, **options)
        assert made.output.shape.as_list() == [2, 7, 4, 3]
        weights = np.random.default_rng(1).random((2, 7, 4, 3)).astype(np.float32)
        (slope,) = tf.gradients(made.output, x, weights)
        return *session.run([*made, slope]), weights


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("name", ["fractional_max_pool", "fractional_avg_pool"])
def test_windows_are_pooled_and_derived_each(name, overlapping):
    pooled, rows, columns, slope, weights = _run(name, overlapping)
    wanted = np.zeros_like(X)
    for i, j, n, c in np.ndindex(7, 4, 2, 3):
        window = np.s_[n, rows[i] : rows[i + 1] + overlapping, columns[j] : columns[j + 1] + overlapping, c]
        part = X[window]
        if name == "fractional_max_pool":
            assert pooled[n, i, j, c] == part.max()
            at = np.unravel_index(part.argmax(), part.shape)
            wanted[window][at] += weights[n, i, j, c]  # the first of equals has it all
        else:
            np.testing.assert_allclose(pooled[n, i, j, c], part.mean(), 1e-5, 1e-6)
            wanted[window] += weights[n, i, j, c] / part.size
    np.testing.assert_allclose(slope, wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("pseudo_random", [False, True])
def test_windows_are_of_two_neighbouring_sizes_and_fill_the_image(pseudo_random):
    for seed in range(1, 20):
        _, rows, columns, _, _ = _run("fractional_max_pool", pseudo_random=pseudo_random, seed=seed, seed2=1)
        for edges, size, least in ((rows, 11, 1), (columns, 13, 3)):
            assert edges[0] == 0 and edges[-1] == size
            assert set(np.diff(edges)) <= {least, least + 1}


def test_a_deterministic_op_draws_once_and_seeds_decide():
    def drawn(**options):
        with tf.Graph().as_default(), tf.Session() as session:
            made = tf.nn.fractional_avg_pool(X, RATIO, seed=5, seed2=7, **options)
            return [tuple(session.run(made.row_pooling_sequence)) for _ in range(6)]

    assert len(set(drawn(deterministic=True))) == 1
    assert len(set(drawn())) > 1
    assert drawn() == drawn()
    assert drawn()[:1] == drawn(deterministic=True)[:1]


def test_ratios_that_are_none_are_refused():
    with tf.Graph().as_default(), tf.Session() as session:
        for ratio, text in (([1.0, 0.5, 1.0, 1.0], "smaller than 1"), ([1.0, 1.0, 1.0], "4 numbers")):
            with pytest.raises(ValueError, match=text):
                tf.nn.fractional_max_pool(X, ratio)
        with pytest.raises(tf.errors.UnimplementedError, match="height and width alone"):
            session.run(tf.nn.fractional_max_pool(X, [2.0, 1.0, 1.0, 1.0]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="leaves nothing"):
            session.run(tf.nn.fractional_max_pool(X, [1.0, 12.0, 1.0, 1.0]))
