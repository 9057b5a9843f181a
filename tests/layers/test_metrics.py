"""tf.metrics: weights and ranks that do not go together. What they compute is in test_answers."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf

REFUSALS = ValueError, tf.errors.InvalidArgumentError  # while building, and in the step


@pytest.mark.parametrize("shape", [(2, 3), (None, None), None], ids=["known", "sizes", "rank"])
@pytest.mark.parametrize("weights", [[[1.0, 0.0]], [1.0, 2.0, 3.0]])
def test_weights_that_do_not_broadcast_are_refused(shape, weights):
    """Those of three rows for two, and those of two columns for three."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, shape)
        with pytest.raises(REFUSALS, match="weights can not be broadcast to values"):
            _, update = tf.metrics.mean(x, weights=weights)
            session.run(tf.local_variables_initializer())
            session.run(update, {x: np.ones((2, 3))})
