"""Sessions optimize what they run, and TF1's options say how far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfzmq as tf


def ops_run(config: Any) -> list[str]:
    """The ops of a step that has something to fold, to share and to leave out, as the partition graphs tell."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None], name="x")
        total = tf.constant(1.0) + tf.constant(2.0)
        y = tf.exp(x) * total + tf.exp(x)
        z = tf.reduce_sum(tf.identity(y), name="z")
        with tf.Session(config=config) as sess:
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
            metadata = tf.RunMetadata()
            value = sess.run(z, {x: [0.0, 1.0]}, options=options, run_metadata=metadata)
            assert value == pytest.approx(4 * (1 + np.e))
    return sorted(n.op for g in metadata.partition_graphs for n in g.node if n.op in ("Add", "Exp", "Identity"))


def optimizer(**fields: Any) -> Any:
    return tf.ConfigProto(graph_options=tf.GraphOptions(optimizer_options=tf.OptimizerOptions(**fields)))


def test_levels_and_single_passes() -> None:
    assert ops_run(None) == ops_run(optimizer(opt_level=tf.OptimizerOptions.L1)) == ["Add", "Exp"]
    assert ops_run(optimizer(opt_level=tf.OptimizerOptions.L0)) == ["Add", "Add", "Exp", "Exp", "Identity"]
    folding = optimizer(opt_level=tf.OptimizerOptions.L0, do_constant_folding=True)
    assert ops_run(folding) == ["Add", "Exp", "Exp", "Identity"]
    common = optimizer(opt_level=tf.OptimizerOptions.L0, do_common_subexpression_elimination=True)
    assert ops_run(common) == ["Add", "Add", "Exp", "Identity"]


def test_an_optimized_step_names_the_users_node_in_errors() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        y = tf.identity(tf.tanh(tf.negative(tf.add(x, [1.0, 2.0], name="total"))))
        with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=r"\{\{node total\}\}"):
            sess.run(y, {x: [1.0, 2.0, 3.0]})


def test_partial_runs_of_optimized_steps() -> None:
    with tf.Graph().as_default():
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        first = tf.identity(tf.exp(a) * 1.0 + tf.exp(a))
        second = first * b - tf.constant(0.0)
        with tf.Session() as sess:
            handle = sess.partial_run_setup([first, second], [a, b])
            one = sess.partial_run(handle, first, {a: 0.0})
            assert one == 2
            assert sess.partial_run(handle, second, {b: 3.0}) == 6


def test_two_fetches_of_equal_operations_are_the_callers_own() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        constant = tf.constant([1.0, 2.0]) + tf.constant([1.0, 1.0])
        with tf.Session() as sess:
            for _ in range(2):
                p, q, c = sess.run([tf.exp(x), tf.exp(x), constant], {x: [0.0, 0.0]})
                assert c.tolist() == [2, 3]
                p += 1
                c += 1
                assert q.tolist() == [1, 1]
