"""tf.contrib: names, scopes, arg_scope, collections; numbers where contrib has its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq import contrib
from dtfzmq.contrib import collecting, slim

layers = contrib.layers


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def names(variables: Any = None) -> list[str]:
    return [v.op.name for v in (tf.global_variables() if variables is None else variables)]


def images() -> tf.Tensor:
    return tf.placeholder(tf.float32, [None, 8, 8, 3])


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session.run(list(fetches))


def test_it_loads_when_it_is_first_asked_for() -> None:
    code = "import sys, dtfzmq as tf; a = 'dtfzmq.contrib' in sys.modules; tf.contrib.slim.conv2d; print(a)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "False\n"


def test_layers_are_named_as_slim_names_them() -> None:
    x = slim.conv2d(images(), 4, [3, 3])
    x = slim.max_pool2d(slim.conv2d(x, 4, 3, normalizer_fn=slim.batch_norm, scope="second"), [2, 2])
    y = slim.fully_connected(slim.dropout(slim.flatten(x)), 10, activation_fn=None)
    assert y.shape.as_list() == [None, 10] and y.op.name == "fully_connected/BiasAdd"
    assert names() == [
        "Conv/weights", "Conv/biases", "second/weights", "second/BatchNorm/beta", "second/BatchNorm/moving_mean",
        "second/BatchNorm/moving_variance", "fully_connected/weights", "fully_connected/biases",
    ]  # fmt: skip
    assert slim.get_model_variables() == tf.global_variables()
    assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
    assert names(slim.get_variables("second", "weights")) == ["second/weights"]
    assert names(slim.get_variables_by_name("weights")) == ["Conv/weights", "second/weights", "fully_connected/weights"]
    assert names(slim.get_variables_to_restore(exclude=["second", "Conv"])) == names()[-2:]


def test_arg_scope_sets_defaults_that_calls_may_override() -> None:
    l2 = slim.l2_regularizer(0.1)
    with slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=None, weights_regularizer=l2):
        with slim.arg_scope([slim.conv2d], padding="VALID") as scope:
            a = slim.conv2d(images(), 2, 3)
            b = slim.conv2d(images(), 2, 3, padding="SAME", activation_fn=tf.nn.relu)
    with slim.arg_scope(scope):
        c = slim.conv2d(images(), 2, 3)
    d = slim.conv2d(images(), 2, 3)
    assert [t.shape.as_list()[1] for t in (a, b, c, d)] == [6, 8, 6, 8]
    assert [t.op.type for t in (a, b, c, d)] == ["BiasAdd", "Relu", "BiasAdd", "Relu"]
    losses = [t.op.name for t in tf.losses.get_regularization_losses()]
    assert losses == [f"{s}/kernel/Regularizer/l2_regularizer" for s in ("Conv", "Conv_1", "Conv_2")]
    with pytest.raises(ValueError, match="is not decorated with @add_arg_scope"):
        slim.arg_scope([tf.nn.relu], name="x").__enter__()


def test_arg_scope_of_ones_own_function() -> None:
    @slim.add_arg_scope
    def pair(a: int, b: int = 2) -> tuple[int, int]:
        return a, b

    with slim.arg_scope([pair], b=5):
        assert (pair(1), pair(1, b=7)) == ((1, 5), (1, 7))
    assert pair(1) == (1, 2)
    assert slim.has_arg_scope(pair) and slim.arg_scoped_arguments(pair) == ("a", "b")


def test_reuse_and_collections() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    for reuse in (None, True):
        layers.fully_connected(
            x, 2, scope="fc", reuse=reuse, outputs_collections="ends", variables_collections={"weights": ["mine"]}
        )
    assert names() == ["fc/weights", "fc/biases"]
    assert names(tf.get_collection("mine")) == ["fc/weights"]
    assert list(collecting.convert_collection_to_dict("ends")) == ["fc", "fc_1"]


def test_repeat_and_stack() -> None:
    x = slim.repeat(images(), 2, slim.conv2d, 4, [3, 3], scope="conv1")
    slim.stack(slim.flatten(x), slim.fully_connected, [6, 5], scope="fc")
    assert [n for n in names() if n.endswith("weights")] == [
        "conv1/conv1_1/weights", "conv1/conv1_2/weights", "fc/fc_1/weights", "fc/fc_2/weights",
    ]  # fmt: skip


def test_more_layers_make_what_they_say() -> None:
    x = images()
    made = [
        slim.conv2d_transpose(x, 4, 3, stride=2), slim.separable_conv2d(x, 4, 3, 2), slim.avg_pool2d(x, 2),
        slim.separable_conv2d(x, None, 3, 2), slim.layer_norm(x), slim.instance_norm(x), slim.bias_add(x),
        slim.unit_norm(x, 3), slim.maxout(x, 1), slim.convolution1d(x[:, 0], 3, 2),
        slim.one_hot_encoding(tf.constant([1, 0]), 3), layers.embed_sequence(tf.constant([[1, 2]]), 5, 4),
    ]  # fmt: skip
    assert [t.shape.as_list() for t in made] == [
        [None, 16, 16, 4], [None, 8, 8, 4], [None, 4, 4, 3], [None, 8, 8, 6], [None, 8, 8, 3], [None, 8, 8, 3],
        [None, 8, 8, 3], [None, 8, 8, 3], [None, 8, 8, 1], [None, 8, 3], [2, 3], [1, 2, 4],
    ]  # fmt: skip
    value = np.random.RandomState(0).standard_normal((2, 8, 8, 3)).astype(np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(made, {x: value})
    np.testing.assert_allclose(found[4].mean((1, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(found[5].std((1, 2)), 1, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(found[7], axis=3), 1, atol=1e-4)


def test_updates_of_batch_norm_in_place() -> None:
    y = slim.batch_norm(tf.constant([[2.0], [4.0]]), decay=0.5, updates_collections=None, is_training=True)
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(y)
        assert session.run(slim.get_variables(suffix="moving_mean")) == [[1.5]]


@pytest.mark.parametrize("mode", ["FAN_IN", "FAN_OUT", "FAN_AVG"])
def test_initializers_have_the_variance_they_promise(mode: str) -> None:
    n = {"FAN_IN": 9 * 20, "FAN_OUT": 9 * 40, "FAN_AVG": 9 * 30}[mode]
    for uniform in (True, False):
        value = run(slim.variance_scaling_initializer(2.0, mode, uniform, seed=1)([3, 3, 20, 40]))[0]
        assert value.var() == pytest.approx(2.0 / n, rel=0.08)
    glorot, xavier = run(tf.glorot_uniform_initializer(seed=3)([4, 5]), slim.xavier_initializer(seed=3)([4, 5]))
    np.testing.assert_allclose(glorot, xavier, rtol=1e-6)


def test_regularizers() -> None:
    w = tf.constant([1.0, -2.0, 3.0])
    l1, l2, both = layers.l1_regularizer(0.5), layers.l2_regularizer(0.5), layers.l1_l2_regularizer(0.5, 0.5)
    assert both is not None
    assert run(l1(w), l2(w), both(w)) == [3.0, 3.5, 6.5]
    assert layers.l2_regularizer(0.0)(w) is None
    total = layers.apply_regularization(l2, [w, w])
    assert tf.losses.get_regularization_losses() == [total] and run(total) == [7.0]
    for bad, message in ((1, "scale cannot be an integer"), (-1.0, "less than 0")):
        with pytest.raises(ValueError, match=message):
            layers.l2_regularizer(bad)


def test_framework() -> None:
    step = contrib.framework.get_or_create_global_step()
    assert step is tf.train.get_global_step() and contrib.framework.get_global_step() is step
    with tf.variable_scope("s"):
        v = contrib.framework.model_variable("v", [2], device="/job:ps")
        contrib.framework.local_variable(1.0, name="here")
    assert (v.device, names(tf.local_variables())) == ("/job:ps", ["s/here"])
    assign, feeds = contrib.framework.assign_from_values({"s/v": [3, 4]})
    assert list(feeds.values())[0].tolist() == [3, 4] and assign.graph is tf.get_default_graph()
    with pytest.raises(ValueError, match="Variable nope does not exist"):
        contrib.framework.get_unique_variable("nope")


@pytest.mark.parametrize("optimizer", ["SGD", tf.train.AdamOptimizer, tf.train.GradientDescentOptimizer(0.1),
                                       lambda rate: tf.train.MomentumOptimizer(rate, 0.5)])  # fmt: skip
def test_optimize_loss(optimizer: Any) -> None:
    w = tf.Variable(4.0)
    op = layers.optimize_loss(w * w, tf.train.get_or_create_global_step(), 0.1, optimizer, clip_gradients=1.0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(op) == 16
        assert session.run(w) == pytest.approx(3.9, abs=1e-4)
        assert session.run(tf.train.get_global_step()) == 1


def test_create_train_op_runs_updates_and_fails_on_what_is_not_finite() -> None:
    w, seen, x = tf.Variable(1.0), tf.Variable(0, trainable=False), tf.placeholder(tf.float32, [])
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, seen.assign_add(1))
    op = slim.learning.create_train_op(w * x, tf.train.GradientDescentOptimizer(0.5),
                                       transform_grads_fn=contrib.training.clip_gradient_norms_fn(1.0))  # fmt: skip
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(op, {x: 4.0}) == 4
        assert session.run([w, seen, tf.train.get_global_step()]) == [0.5, 1, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="LossTensor is inf or nan"):
            session.run(op, {x: np.inf})


def test_hyperparameters() -> None:
    found = contrib.training.HParams(rate=0.1, layers=[3, 4], name="a", deep=False)
    found.parse("rate=0.5,layers=[5, 6],deep=true").set_hparam("name", "b")
    assert found.values() == {"rate": 0.5, "layers": [5, 6], "name": "b", "deep": True}
    assert "rate" in found and found.get("other", 7) == 7 and '"rate": 0.5' in found.to_json()
    for text, message in (("what=1", "Unknown hyperparameter"), ("rate=x", "Could not parse"), ("rate", "Malformed")):
        with pytest.raises(ValueError, match=message):
            found.parse(text)


def test_block_cells_are_the_plain_ones_under_other_names() -> None:
    x = tf.constant(np.random.RandomState(0).standard_normal((2, 3)).astype(np.float32))
    cells = [contrib.rnn.LSTMBlockCell(4), tf.nn.rnn_cell.BasicLSTMCell(4, name="lstm_cell", reuse=True)]
    outputs = [cell(x, cell.zero_state(2, tf.float32))[0] for cell in cells]
    assert names() == ["lstm_cell/kernel", "lstm_cell/bias"]
    a, b = run(*outputs)
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_an_lstm_with_layer_norm() -> None:
    cell = contrib.rnn.LayerNormBasicLSTMCell(4, dropout_keep_prob=0.9)
    out, _ = tf.nn.dynamic_rnn(cell, tf.ones([2, 3, 5]), dtype=tf.float32)
    assert names()[:3] == [f"rnn/layer_norm_basic_lstm_cell/{n}" for n in ("kernel", "input/gamma", "input/beta")]
    assert np.isfinite(run(out)[0]).all() and len(tf.trainable_variables()) == 11


def test_layers_both_ways() -> None:
    def cells() -> list[Any]:
        return [contrib.rnn.GRUCell(2), contrib.rnn.GRUCell(3)]

    out, fw, bw = contrib.rnn.stack_bidirectional_dynamic_rnn(cells(), cells(), tf.ones([2, 4, 5]), dtype=tf.float32)
    assert out.shape.as_list() == [2, 4, 6] and len(fw) == len(bw) == 2
    assert names()[0] == "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/gru_cell/gates/kernel"


def test_losses_take_predictions_first() -> None:
    logits, classes = tf.constant([[2.0, -1.0]]), tf.constant([[1.0, 0.0]])
    a, b = slim.losses.softmax_cross_entropy(logits, classes), tf.losses.softmax_cross_entropy(classes, logits)
    x, y = run(a, b)
    assert x == y and tf.losses.get_losses() == [a, b]


def test_sequence_losses_agree() -> None:
    random = np.random.RandomState(0)
    logits = tf.constant(random.standard_normal((2, 3, 4)).astype(np.float32))
    targets, weights = tf.constant([[1, 2, 3], [0, 0, 1]]), tf.constant([[1.0, 1.0, 0.0], [1.0, 0.5, 0.0]])
    whole = contrib.seq2seq.sequence_loss(logits, targets, weights)
    by_row = contrib.legacy_seq2seq.sequence_loss_by_example(
        tf.unstack(logits, axis=1), tf.unstack(targets, axis=1), tf.unstack(weights, axis=1), False
    )
    a, b = run(whole, by_row)
    assert a == pytest.approx(b.sum() / 3.5, rel=1e-5)


def test_streaming_metrics_take_predictions_first() -> None:
    value, update = contrib.metrics.streaming_precision(tf.constant([1, 1, 0]), tf.constant([1, 0, 1]))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(update) == 0.5 and session.run(value) == 0.5
