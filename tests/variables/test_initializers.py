"""First values: shapes, variance, seeds, settings that make an equal initializer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.variables import initializers


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def draw(initializer: Any, shape: list[int], dtype: Any = None) -> np.ndarray:
    with tf.Session() as session:
        return np.asarray(session.run(initializer(shape, dtype)))


DRAWS = [
    (initializers.RandomNormal(1.0, 2.0, seed=1), 1.0, 2.0),
    (initializers.RandomUniform(-1.0, 3.0, seed=1), 1.0, 4 / math.sqrt(12)),
    (initializers.TruncatedNormal(0.0, 1.0, seed=1), 0.0, 0.87962566),
    (initializers.GlorotUniform(seed=1), 0.0, math.sqrt(2 / 300)),
    (initializers.GlorotNormal(seed=1), 0.0, math.sqrt(2 / 300)),
    (initializers.VarianceScaling(2.0, "fan_in", "uniform", seed=1), 0.0, math.sqrt(2 / 100)),
    (initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal", seed=1), 0.0, math.sqrt(2 / 200)),
    (initializers.he_normal(seed=1), 0.0, math.sqrt(2 / 100)),
    (initializers.he_uniform(seed=1), 0.0, math.sqrt(2 / 100)),
    (initializers.lecun_normal(seed=1), 0.0, math.sqrt(1 / 100)),
    (initializers.lecun_uniform(seed=1), 0.0, math.sqrt(1 / 100)),
    (initializers.UniformUnitScaling(1.0, seed=1), 0.0, math.sqrt(1 / 100)),
]


@pytest.mark.parametrize(("initializer", "mean", "deviation"), DRAWS, ids=lambda v: type(v).__name__)
def test_mean_and_deviation(initializer: Any, mean: float, deviation: float) -> None:
    value = draw(initializer, [100, 200])
    assert value.dtype == np.float32 and value.shape == (100, 200)
    assert value.mean() == pytest.approx(mean, abs=4 * deviation / math.sqrt(value.size))
    assert value.std() == pytest.approx(deviation, rel=0.03)


@pytest.mark.parametrize("initializer", [d[0] for d in DRAWS], ids=lambda v: type(v).__name__)
def test_an_equal_initializer_from_its_settings_draws_the_same(initializer: Any) -> None:
    again = type(initializer).from_config(initializer.get_config())
    assert again.get_config() == initializer.get_config()
    np.testing.assert_array_equal(draw(initializer, [3, 4]), draw(again, [3, 4]))


def test_without_a_seed_two_variables_differ() -> None:
    a, b = (tf.get_variable(name, [5], initializer=tf.random_normal_initializer()) for name in "ab")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second = session.run([a, b])
    assert first.tolist() != second.tolist()


def test_a_graph_seed_repeats_the_run() -> None:
    found = []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            v = tf.get_variable("v", [5])
            with tf.Session() as session:
                session.run(v.initializer)
                found.append(session.run(v).tolist())
    assert found[0] == found[1]


def test_constants() -> None:
    assert draw(tf.constant_initializer(3), [2]).tolist() == [3.0, 3.0]
    assert draw(tf.constant_initializer([1, 2, 3, 4]), [2, 2]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert draw(tf.constant_initializer(3), [2], tf.int64).dtype == np.int64
    assert draw(tf.zeros_initializer(), [2], tf.string).tolist() == [b"", b""]
    assert draw(tf.ones_initializer(), [2], tf.int32).tolist() == [1, 1]
    assert draw(tf.identity_initializer(2.0), [2, 3]).tolist() == [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    with pytest.raises(TypeError, match="Invalid type for initial value"):
        tf.constant_initializer(tf.constant(1.0))


@pytest.mark.parametrize("shape", [[4, 4], [3, 5], [5, 3], [2, 2, 3]])
def test_orthogonal(shape: list[int]) -> None:
    value = draw(tf.orthogonal_initializer(gain=2.0, seed=1), shape).reshape(-1, shape[-1])
    product = value.T @ value if value.shape[0] >= value.shape[1] else value @ value.T
    np.testing.assert_allclose(product, 4.0 * np.eye(len(product)), atol=1e-5)
    with pytest.raises(ValueError, match="at least two-dimensional"):
        tf.orthogonal_initializer()([3])


def test_fans_count_the_receptive_field() -> None:
    assert initializers.compute_fans([]) == (1.0, 1.0)
    assert initializers.compute_fans([7]) == (7.0, 7.0)
    assert initializers.compute_fans([3, 4, 5, 6]) == (60.0, 72.0)


def test_bad_settings() -> None:
    with pytest.raises(ValueError, match="scale"):
        tf.variance_scaling_initializer(0.0)
    with pytest.raises(ValueError, match="mode"):
        tf.variance_scaling_initializer(mode="fan")
    with pytest.raises(ValueError, match="distribution"):
        tf.variance_scaling_initializer(distribution="flat")
    with pytest.raises(ValueError, match="Expected floating point type"):
        tf.random_normal_initializer(dtype=tf.int32)


def test_templates_share_their_variables() -> None:
    def layer(x: Any, scale: float) -> Any:
        return x * tf.get_variable("w", [], initializer=tf.constant_initializer(scale))

    double = tf.make_template("layer", layer, scale=2.0)
    other = tf.make_template("layer", layer, create_scope_now_=True, scale=3.0)
    a, b, c = double(1.0), double(2.0), other(1.0)
    assert [v.op.name for v in tf.global_variables()] == ["layer_1/w", "layer/w"]
    assert [v.op.name for v in double.variables] == ["layer_1/w"]
    assert other.trainable_variables == other.global_variables
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([a, b, c]) == [2.0, 4.0, 3.0]
    with pytest.raises(ValueError, match="has no variable scope before it is called"):
        _ = tf.make_template("late", layer).variable_scope
