"""Roll, repeat, scatters by multi-index, further random numbers; expected values are TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.ops.distributions import _gamma_slope
from tests.kit.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def test_roll_repeat_and_shapes():
    assert evaluate(tf.roll([1, 2, 3], [1, 1], [0, 0])).tolist() == [2, 3, 1]
    assert evaluate(tf.repeat([1, 2, 3], [1, 0, 2])).tolist() == [1, 3, 3]
    assert evaluate(tf.repeat([[1, 2], [3, 4]], 2)).tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert evaluate(tf.repeat([[1, 2], [3, 4]], [1, 2], axis=-1)).tolist() == [[1, 2, 2], [3, 4, 4]]
    assert tf.repeat(tf.zeros([2, 3, 4]), 2, axis=1).shape.as_list() == [2, 6, 4]
    assert evaluate(tf.broadcast_dynamic_shape([2, 1, 3], [4, 1])).tolist() == [2, 4, 3]
    x = tf.placeholder(tf.float32)
    assert tf.ensure_shape(x, [2, None]).shape.as_list() == [2, None]
    with pytest.raises(errors.InvalidArgumentError, match="is not compatible with expected shape"):
        evaluate(tf.ensure_shape(x, [2]), {x: np.zeros(1)})
    with pytest.raises(ValueError):
        tf.ensure_shape(tf.zeros([2, 3]), [3, None])


def test_scatter_into_tensors():
    def scattered(fn, updates=(7, 8)):
        return evaluate(fn([1, 2, 3, 4], [[1], [2]], list(updates))).tolist()

    assert scattered(tf.tensor_scatter_update) == [1, 7, 8, 4]
    assert scattered(tf.tensor_scatter_nd_add) == [1, 9, 11, 4]
    assert scattered(tf.tensor_scatter_nd_sub) == [1, -5, -5, 4]
    assert scattered(tf.tensor_scatter_nd_max, (7, 0)) == [1, 7, 3, 4]
    assert scattered(tf.tensor_scatter_nd_min, (7, 0)) == [1, 2, 0, 4]
    assert evaluate(tf.tensor_scatter_nd_add([1, 2], [[1], [1]], [7, 8])).tolist() == [1, 17]
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[0\] = \[5\] does not index into shape \[3\]"):
        evaluate(tf.tensor_scatter_update([1, 2, 3], [[5]], [1]))
    with pytest.raises(errors.InvalidArgumentError, match="Must have updates.shape"):
        evaluate(tf.tensor_scatter_update([1, 2, 3], [[1]], [1, 2]))


def test_scatter_into_variables(graph):
    v = tf.Variable([1.0, 2.0, 3.0, 4.0])
    with tf.Session(graph=graph) as session:
        session.run(v.initializer)
        assert session.run(tf.scatter_nd_add(v, [[1], [1]], [5.0, 6.0])).tolist() == [1, 13, 3, 4]
        assert session.run(tf.scatter_nd_update(v, [[0]], [9.0])).tolist() == [9, 13, 3, 4]
        assert session.run(tf.scatter_nd_sub(v, [[0]], [1.0])).tolist() == [8, 13, 3, 4]
        with pytest.raises(errors.InvalidArgumentError, match="does not index"):
            session.run(tf.scatter_nd_sub(v, [[4]], [1.0]))
    with pytest.raises(TypeError, match="needs a variable"):
        tf.scatter_nd_add(tf.zeros([2]), [[1]], [1.0])


def test_draws():
    gamma = tf.random_gamma([20000], [1.0, 3.0], 2.0, seed=1)
    poisson = tf.random_poisson([1.0, 3.0], [20000], seed=1)
    assert gamma.shape.as_list() == poisson.shape.as_list() == [20000, 2] and poisson.dtype is tf.float32
    for draws, mean in ((gamma, [0.5, 1.5]), (poisson, [1, 3])):
        np.testing.assert_allclose(evaluate(draws).mean(0), mean, rtol=0.05)
    want = [0.789404403118272, 0.806979116825318, 1.3217985181779608, 1.112329443018088, 3.564110321246913]
    got = _gamma_slope(np.array([0.3, 1.0, 2.0, 10.0, 0.3]), np.array([0.1, 0.5, 3.0, 12.0, 2.0]))
    np.testing.assert_allclose(got, want, rtol=1e-12)
    alpha = tf.constant([2.0, 3.0])
    (g,) = tf.gradients(tf.reduce_mean(tf.random_gamma([5000], alpha, seed=3)), alpha)
    np.testing.assert_allclose(evaluate(g), [0.5, 0.5], rtol=0.05)
    with pytest.raises(errors.InvalidArgumentError, match="must not be negative"):
        evaluate(tf.random_poisson([-1.0], [2]))


def test_stateless_draws():
    first = tf.random.stateless_uniform([1000], [1, 2])
    again = tf.random.stateless_uniform([1000], [1, 2])
    other = tf.random.stateless_uniform([1000], [1, 3])
    a, b, c = evaluate([first, again, other])
    assert a.tolist() == b.tolist() != c.tolist() and a.min() >= 0 and a.max() < 1
    whole = evaluate(tf.random.stateless_uniform([1000], [1, 2], 3, 6, tf.int32))
    assert set(whole.tolist()) == {3, 4, 5}
    assert abs(evaluate(tf.random.stateless_normal([2000], [1, 2], mean=3.0)).mean() - 3) < 0.1
    assert np.abs(evaluate(tf.random.stateless_truncated_normal([2000], [1, 2]))).max() <= 2
    drawn = tf.random.stateless_categorical([[0.0, 0.0], [50.0, 0.0]], 50, [1, 2])
    assert set(evaluate(drawn)[0].tolist()) == {0, 1} and not evaluate(drawn)[1].any()
    assert set(evaluate(tf.random.categorical([[0.0, 0.0]], 50, seed=1))[0].tolist()) == {0, 1}


def test_switch_case():
    index = tf.placeholder(tf.int32, [])
    chosen = tf.switch_case(index, [lambda: 10, lambda: 20])
    named = tf.switch_case(index, {0: lambda: 1, 1: lambda: 2}, default=lambda: 9)
    for at, a, b in ((0, 10, 1), (1, 20, 2), (5, 20, 9), (-1, 20, 9)):
        assert evaluate([chosen, named], {index: at}) == [a, b]
    with pytest.raises(TypeError):
        tf.switch_case(index, [(0.5, lambda: 1)])
    with pytest.raises(ValueError, match="at least one"):
        tf.switch_case(index, [])


def test_questions():
    x = tf.constant([1.0])
    assert tf.is_tensor(x) and tf.is_tensor(tf.Variable(1.0)) and not tf.is_tensor(1)
    assert tf.get_static_value(x).tolist() == [1.0] and tf.get_static_value(tf.placeholder(tf.float32)) is None
    assert tf.dimension_value(x.shape[0]) == 1 and tf.dimension_at_index(tf.TensorShape(None), 1).value is None
    slices = tf.IndexedSlices(x, tf.constant([1]))
    assert tf.convert_to_tensor_or_indexed_slices(slices) is slices
    assert tf.convert_to_tensor_or_indexed_slices(1).dtype is tf.int32
    assert not tf.executing_eagerly()
    with pytest.raises(ValueError, match="no eager execution"):
        tf.enable_eager_execution()


def test_constants_of_no_elements():
    assert tf.constant([1], shape=[0]).dtype is tf.float32
    assert tf.constant([1], tf.int32, shape=[0]).dtype is tf.int32
    assert evaluate(tf.constant([], shape=[2])).tolist() == [0, 0]
    with pytest.raises(ValueError, match="Takes at most 2, but got 3"):
        tf.constant([1, 2, 3], shape=[2])


def test_files(graph, tmp_path):
    path = str(tmp_path / "deep" / "a.txt")
    with tf.Session(graph=graph) as session:
        session.run(tf.write_file(path, "h\0i"))
        found = tf.matching_files(str(tmp_path / "*" / "*"))
        read, names, now = session.run([tf.read_file(path), found, tf.timestamp()])
        assert read == b"h\0i" and names.tolist() == [path.encode()] and now > 1e9
        with pytest.raises(errors.NotFoundError, match="No such file"):
            session.run(tf.read_file(path + "x"))


def test_fake_quantization():
    args = evaluate(tf.fake_quant_with_min_max_args([-7.0, 0.3, 7.0]))
    np.testing.assert_allclose(args, [-6.0235295, 0.28235295, 5.9764705], rtol=1e-6)
    four = evaluate(tf.fake_quant_with_min_max_vars([-7.0, 0.3, 7.0], -1.0, 1.0, num_bits=4))
    np.testing.assert_allclose(four, [-0.9333334, 0.26666668, 1.0666667], rtol=1e-6)
    narrow = evaluate(tf.fake_quant_with_min_max_vars([-7.0, 0.3, 7.0], 0.1, 1.0, num_bits=4, narrow_range=True))
    np.testing.assert_allclose(narrow, [0, 0.32142854, 0.9], rtol=1e-6)
    x, low, high = tf.constant(np.arange(24, dtype=np.float32)), tf.constant(-1.0), tf.constant(1.0)
    found = evaluate(tf.gradients(tf.fake_quant_with_min_max_vars(x, low, high), [x, low, high]))
    assert found[0].tolist() == [1, 1] + [0] * 22 and found[1:] == [0, 22]
    assert evaluate(tf.gradients(tf.fake_quant_with_min_max_args(x), x)[0]).sum() == 6


def test_unconnected_gradients():
    x, y = tf.constant([1.0, 2.0]), tf.constant(3.0)
    assert tf.gradients(y, x) == [None]
    (g,) = tf.gradients(y, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert evaluate(g).tolist() == [0, 0]
