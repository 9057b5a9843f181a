"""tf.test on this library's own ops."""

from __future__ import annotations

import unittest

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.compat import test as tf_test
from dtfzmq.compat import test_case


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def test_compute_gradient():
    x = tf.placeholder(tf.float64, [2, 3])
    w = tf.placeholder(tf.float64, [3])
    y = tf.reduce_sum(tf.square(x) * w, 1)
    start = [np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])]
    (tx, nx), (tw, nw) = tf_test.compute_gradient([x, w], [[2, 3], [3]], y, [2], start)
    assert tx.shape == (6, 2) and tw.shape == (3, 2)
    np.testing.assert_allclose(tx, nx, atol=1e-6)
    np.testing.assert_allclose(tw, nw, atol=1e-6)
    assert tf_test.compute_gradient_error(x, [2, 3], y, [2], extra_feed_dict={w: start[1]}) < 1e-6


def test_rows_and_complex_numbers():
    table = tf.placeholder(tf.float64, [4, 2])
    assert tf_test.compute_gradient_error(table, [4, 2], tf.gather(table, [1, 1, 3]), [3, 2]) < 1e-6
    z = tf.placeholder(tf.complex128, [3])
    assert tf_test.compute_gradient_error(z, [3], z * z, [3]) < 1e-3


def test_a_wrong_gradient_shows():
    @tf.custom_gradient
    def wrong(a):
        return tf.square(a), lambda d: d

    x = tf.placeholder(tf.float64, [2])
    assert tf_test.compute_gradient_error(x, [2], wrong(x), [2], np.array([3.0, 4.0])) == pytest.approx(7, abs=1e-3)


def test_a_local_cluster():
    workers, ps = tf_test.create_local_cluster(1, 1)
    try:
        with tf.Graph().as_default() as graph:
            with tf.device("/job:ps/task:0"):
                x = tf.constant(2.0)
            with tf.Session(workers[0].target, graph=graph) as made:
                assert made.run(x * 2.0) == 4.0
    finally:
        for server in [*workers, *ps]:
            server.stop()


def test_the_test_case(monkeypatch):
    monkeypatch.setattr(test_case, "reset_default_graph", lambda: None)  # this test has a graph of its own

    class Inner(tf_test.TestCase):
        def runTest(self):
            with self.test_session() as made:
                x = tf.constant([1.0, 2.0])
                self.assertAllEqual(x, [1.0, 2.0])
                self.assertAllClose(made.run({"a": x}), {"a": [1.0, 2.0000001]})
                self.assertNotAllClose([1.0], [1.1])
                self.assertShapeEqual(np.ones(2), x)
                self.assertDTypeEqual(x, tf.float32)
                self.assertAllInRange(x, 1, 2)
                self.assertDeviceEqual("/cpu:0", "/device:CPU:0")
                with self.assertRaisesOpError("Expected"):
                    tf.Assert(tf.constant(False), ["Expected"]).run()
            with pytest.raises(AssertionError):
                self.assertAllEqual([1], [2])
            with pytest.raises(AssertionError):
                with self.assertRaisesOpError("other"):
                    raise tf.errors.NotFoundError(None, None, "this")

    result = unittest.TestResult()
    Inner().run(result)
    assert result.wasSuccessful(), result.errors + result.failures
