"""tf.losses: the names that TensorFlow 1 gives them."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf

REFUSALS = ValueError, tf.errors.InvalidArgumentError  # while building, and in the step


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("absolute_difference", "absolute_difference"),
        ("hinge_loss", "hinge_loss"),
        ("huber_loss", "huber_loss"),
        ("log_loss", "log_loss"),
        ("mean_squared_error", "mean_squared_error"),
        ("sigmoid_cross_entropy", "sigmoid_cross_entropy_loss"),
        ("softmax_cross_entropy", "softmax_cross_entropy_loss"),
    ],
)
def test_a_loss_is_named_value_in_its_scope(function, name):
    with tf.Graph().as_default():
        x = tf.constant([[1.0, 0.0]])
        assert getattr(tf.losses, function)(x, x).op.name == f"{name}/value"
        assert getattr(tf.losses, function)(x, x).op.name == f"{name}_1/value"
        assert getattr(tf.losses, function)(x, x, scope="mine").op.name == "mine/value"


def test_the_pairwise_loss_counts_the_quotients_in_it():
    with tf.Graph().as_default():
        x = tf.constant([[1.0, 0.0]])
        assert tf.losses.mean_pairwise_squared_error(x, x).op.name == "mean_pairwise_squared_error/value_2"


@pytest.mark.parametrize("shape", [(2, 3), (None, None), None], ids=["known", "sizes", "rank"])
@pytest.mark.parametrize("weights", [[1.0, 0.0, 2.0], [[1.0, 0.0]], [[[1.0]]]])
def test_weights_that_do_not_broadcast_are_refused(shape, weights):
    """Numpy would broadcast the first and the last; losses take weights of the rank of the values alone."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, shape)
        w = tf.placeholder(tf.float32, None if shape is None else np.shape(weights))
        with pytest.raises(REFUSALS, match="weights can not be broadcast to values"):
            loss = tf.losses.mean_squared_error(x, 2 * x, w)
            session.run(loss, {x: np.ones((2, 3)), w: weights})
