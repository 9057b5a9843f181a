"""Random numbers: seeds give sequences, shapes and bounds hold."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import dtypes, errors
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import constants as c
from dtfzmq.ops import control, families, random, reductions
from tests.kit.evaluate import Env, evaluate

assert families.DECLARED


def draw(seed, op_seed, count=2):
    """Two runs of one op in one session."""
    with Graph().as_default() as graph:
        graph.seed = seed
        x = random.random_normal([4], seed=op_seed)
        env = Env()
        return [evaluate(x, env=env) for _ in range(count)]


def test_equal_seeds_give_equal_sequences():
    first, second = draw(1, 2), draw(1, 2)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize("other", [(1, 3), (2, 2), (None, 2), (1, None)])
def test_other_seeds_give_other_sequences(other):
    assert not np.array_equal(draw(1, 2)[0], draw(*other)[0])


def test_a_graph_seed_alone_repeats_the_program():
    np.testing.assert_array_equal(draw(5, None), draw(5, None))


def test_without_seeds_nothing_repeats():
    assert not np.array_equal(draw(None, None)[0], draw(None, None)[0])


def test_each_op_has_its_own_stream():
    with Graph().as_default() as graph:
        graph.seed = 9
        a, b = random.random_uniform([6]), random.random_uniform([6])
        p = c.placeholder("bool", [])
        inside = control.cond(p, lambda: random.random_uniform([6]), lambda: random.random_uniform([6]))
        drawn = [*evaluate([a, b]), evaluate(inside, {p: True}), evaluate(inside, {p: False})]
        assert len({d.tobytes() for d in drawn}) == 4


def test_seeds_of_zero_are_seeds():
    np.testing.assert_array_equal(draw(0, 0), draw(0, 0))


def test_the_seeds_of_an_op_are_those_of_tensorflow():
    with Graph().as_default() as graph:
        assert [tf.get_seed(s) for s in (None, 5, -1)] == [(None, None), (87654321, 5), (87654321, 2**31 - 2)]
        graph.seed = 0
        seeds = lambda: tf.constant(tf.get_seed(None))
        first = control.cond(tf.constant(True), seeds, seeds)
        assert evaluate(first).tolist() == [0, 2**31 - 1]
        assert [tf.get_seed(s) for s in (None, 2**31 - 1, None)] == [(0, 2), (0, 2**31 - 1), (0, 3)]


@pytest.mark.parametrize(
    ("seed", "cut"),
    [
        (1.5, 1), (-1.5, 2**31 - 3), (np.float32(2.5), 2), (np.array(3), 3),
        (True, 1), (np.int8(-1), 2**31 - 2), (2**70, 256),
    ],
)  # fmt: skip
def test_seeds_of_other_types_of_numbers_are_cut_as_tensorflow_does(seed, cut):
    with Graph().as_default():
        assert tf.get_seed(seed) == (87654321, cut)
        tf.set_random_seed(seed)
        assert tf.get_seed(0) == (cut, 0)


@pytest.mark.parametrize(
    "seed", ["x", "5", b"5", "", float("nan"), float("inf"), [1], (), {}, np.array([3]), np.str_("5"), 1j, object()]
)
def test_what_is_no_seed_is_named(seed):
    with Graph().as_default():
        with pytest.raises(TypeError, match="seed of an operation must be an integer, not"):
            random.random_uniform([2], seed=seed)
        tf.set_random_seed(seed)
        with pytest.raises(TypeError, match=r"seed of the graph, tf\.set_random_seed, must be an integer, not"):
            random.random_shuffle([2, 3])


SEEDED = {
    "box": lambda **seeds: tf.image.sample_distorted_bounding_box([8, 8, 3], np.zeros((1, 1, 4), "f"), **seeds)[0],
    "max": lambda **seeds: tf.nn.fractional_max_pool(np.zeros((1, 4, 4, 1), "f"), [1, 1.5, 1.5, 1], **seeds)[0],
    "avg": lambda **seeds: tf.nn.fractional_avg_pool(np.zeros((1, 4, 4, 1), "f"), [1, 1.5, 1.5, 1], **seeds)[0],
}


@pytest.mark.parametrize("build", SEEDED.values(), ids=SEEDED)
def test_seeds_that_stand_in_an_op_as_they_are_given_lose_their_fraction_too(build):
    with Graph().as_default():
        for seed, cut in ((1.5, 1), (-1.5, -1), (np.float32(2.7), 2), (np.array(3), 3), (True, 1)):
            for name in ("seed", "seed2"):
                assert build(**{name: seed}).op.get_attr(name) == cut
        for none in ("5", [1], float("nan"), float("inf"), 1j):
            with pytest.raises(TypeError, match="Attribute 'seed2' of op .* must be of kind int, not"):
                build(seed2=none)


@pytest.mark.parametrize("dtype", ["int16", "uint32", "bool", "complex64"])
def test_other_types_are_not_drawn(dtype):
    with Graph().as_default(), pytest.raises(ValueError, match=f"Invalid dtype {dtype}"):
        random.random_uniform([2], 0, 1, dtype)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16"])
def test_bounds_and_moments(name):
    with Graph().as_default():
        u = evaluate(random.random_uniform([4000], -2, 3, name, seed=1)).astype(np.float64)
        t = evaluate(random.truncated_normal([4000], 1.0, 2.0, name, seed=1)).astype(np.float64)
        n = evaluate(random.random_normal([4000], 1.0, 2.0, name, seed=1)).astype(np.float64)
    assert u.min() >= -2 and u.max() <= 3 and abs(u.mean() - 0.5) < 0.1
    assert np.abs(t - 1).max() <= 4.02 and abs(t.mean() - 1) < 0.1
    assert abs(n.mean() - 1) < 0.15 and abs(n.std() - 2) < 0.15


def test_integers():
    with Graph().as_default():
        x = random.random_uniform([3000], -1, 3, "int32", seed=4)
        assert set(evaluate(x).tolist()) == {-1, 0, 1, 2}
        with pytest.raises(ValueError, match="Must specify maxval"):
            random.random_uniform([2], dtype=dtypes.int64)
        with pytest.raises(errors.InvalidArgumentError, match="minval < maxval"):
            evaluate(random.random_uniform([2], 3, 3, "int64"))


def test_shuffle_and_multinomial():
    with Graph().as_default():
        rows = evaluate(random.random_shuffle(np.arange(20).reshape(10, 2), seed=3))
        assert sorted(rows[:, 0].tolist()) == list(range(0, 20, 2))
        np.testing.assert_array_equal(rows[:, 1], rows[:, 0] + 1)
        drawn = evaluate(random.multinomial(np.log([[0.5, 0.5, 1e-9], [1e-9, 1e-9, 1.0]]), 400, seed=1))
        assert drawn.dtype == np.int64 and drawn.shape == (2, 400)
        assert set(drawn[0].tolist()) == {0, 1} and set(drawn[1].tolist()) == {2}


def test_shapes_known_and_not():
    with Graph().as_default():
        size = c.placeholder("int32", [2])
        x = random.random_normal(size)
        assert x.shape.as_list() == [None, None]
        assert evaluate(x, {size: [2, 3]}).shape == (2, 3)
        y = random.random_normal([tf.shape(c.placeholder("float32", [None, 7]))[0], 4])
        assert y.shape.as_list() == [None, 4]
        assert evaluate(reductions.reduce_sum(random.truncated_normal([]))).shape == ()


@pytest.mark.parametrize(
    ("draw", "mean", "deviation"),
    [
        (lambda shape: tf.random.stateless_gamma(shape, [1, 2], [2.0, 5.0], 2.0), [1, 2.5], [0.5**0.5, 1.25**0.5]),
        (lambda shape: tf.random.stateless_poisson(shape, [1, 2], [2.0, 50.0]), [2, 50], [2**0.5, 50**0.5]),
        (lambda shape: tf.random.stateless_binomial(shape, [1, 2], [10, 40], [0.5, 0.25]), [5, 10], [1.58, 2.74]),
    ],
    ids=["gamma", "poisson", "binomial"],
)  # fmt: skip
def test_stateless_draws_have_the_moments_of_their_law_and_stay_the_same(draw, mean, deviation):
    with tf.Graph().as_default(), tf.Session() as session:
        made = draw([20000, 2])
        values = session.run(made)
        np.testing.assert_allclose(values.mean(0), mean, rtol=0.03)
        np.testing.assert_allclose(values.std(0), deviation, rtol=0.05)
        np.testing.assert_array_equal(session.run(made), values)


def test_stateless_gamma_is_derived_in_both_parameters():
    with tf.Graph().as_default(), tf.Session() as session:
        alpha, beta = tf.constant([2.0, 5.0]), tf.constant(2.0)
        made = tf.random.stateless_gamma([20000, 2], [1, 2], alpha, beta)
        by_alpha, by_beta, values = session.run([*tf.gradients(made, [alpha, beta]), made])
    np.testing.assert_allclose(by_alpha / 20000, 0.5, rtol=0.05)  # of the means, alpha / beta
    np.testing.assert_allclose(by_beta, -values.sum() / 2, rtol=1e-3)


def test_stateless_integers_of_the_full_range():
    with tf.Graph().as_default(), tf.Session() as session:
        signed = session.run(tf.random.stateless_uniform([4000], [1, 2], None, None, tf.int32))
        assert signed.min() < -(2**30) and signed.max() > 2**30
        assert session.run(tf.random.stateless_uniform([4000], [1, 2], None, None, tf.uint64)).max() > 2**63
        with pytest.raises(ValueError, match="Must specify maxval"):
            tf.random.stateless_uniform([2], [1, 2], None, 5, tf.int32)
