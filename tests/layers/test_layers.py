"""What layers promise beside their values: sharing, scopes, collections, errors."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def names() -> list[str]:
    return [v.op.name for v in tf.global_variables()]


def inputs(*shape: int | None) -> tf.Tensor:
    return tf.placeholder(tf.float32, shape)


def test_default_names_count_in_their_scope_and_ops_stand_in_the_layers_scope() -> None:
    x = inputs(None, 3)
    first, second = tf.layers.dense(x, 2), tf.layers.dense(x, 2)
    with tf.variable_scope("in"):
        tf.layers.dense(x, 2, use_bias=False)
    assert (first.op.name, second.op.name) == ("dense/BiasAdd", "dense_1/BiasAdd")
    assert names() == ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias", "in/dense/kernel"]


def test_a_layer_used_again_shares_its_variables_and_its_name_scope() -> None:
    layer = tf.layers.Dense(2, name="fc")
    with pytest.raises(ValueError, match='layer "fc" has not been used yet'):
        _ = layer.scope_name
    a, b = layer(inputs(None, 3)), layer(inputs(None, 3))
    assert (a.op.name, b.op.name, layer.scope_name) == ("fc/BiasAdd", "fc/BiasAdd_1", "fc")
    assert names() == ["fc/kernel", "fc/bias"]
    assert layer.weights == [layer.kernel, layer.bias] and layer.count_params() == 8


def test_the_same_name_needs_reuse() -> None:
    x = inputs(None, 3)
    tf.layers.dense(x, 2, name="fc")
    with pytest.raises(ValueError, match="Variable fc/kernel already exists"):
        tf.layers.dense(x, 2, name="fc")
    with tf.variable_scope("fc", reuse=tf.AUTO_REUSE):
        tf.layers.dense(x, 2, name="inner")
        tf.layers.dense(x, 2, name="inner")
    assert names() == ["fc/kernel", "fc/bias", "fc/inner/kernel", "fc/inner/bias"]


def test_reuse_regularizes_once() -> None:
    x = inputs(None, 3)
    for reuse in (None, True):
        tf.layers.dense(x, 2, kernel_regularizer=tf.nn.l2_loss, name="fc", reuse=reuse)
    assert [t.op.name for t in tf.losses.get_regularization_losses()] == ["fc/kernel/Regularizer/L2Loss"]


def test_partitioned_kernels_are_regularized_part_by_part() -> None:
    with tf.variable_scope("p", partitioner=tf.fixed_size_partitioner(3)):
        y = tf.layers.dense(inputs(None, 6), 3, use_bias=False, kernel_regularizer=tf.nn.l2_loss)
    assert y.shape.as_list() == [None, 3]
    assert len(tf.losses.get_regularization_losses()) == 3
    assert names() == [f"p/dense/kernel/part_{i}" for i in range(3)]


def test_what_is_not_trainable() -> None:
    tf.layers.dense(inputs(None, 3), 2, trainable=False)
    layer = tf.layers.BatchNormalization()
    layer(inputs(None, 3), training=True)
    assert tf.trainable_variables() == [layer.gamma, layer.beta] == layer.trainable_weights
    assert layer.non_trainable_weights == [layer.moving_mean, layer.moving_variance]
    assert layer.updates == tf.get_collection(tf.GraphKeys.UPDATE_OPS) != []
    assert layer.get_updates_for(None) == []


def test_batch_normalization_that_does_not_train_updates_nothing() -> None:
    tf.layers.batch_normalization(inputs(None, 3), training=False)
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


@pytest.mark.parametrize("shape", [(None, 3), (None, 2, 2, 3)])
def test_moving_averages_follow_where_training_holds(shape: tuple[int, ...]) -> None:
    training = tf.placeholder(tf.bool, [])
    x = inputs(*shape)
    layer = tf.layers.BatchNormalization(momentum=0.5)
    layer(x, training=training)
    update = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    value = np.full([2 if n is None else n for n in shape], 4, np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for on, want in ((False, 0.0), (True, 2.0), (True, 3.0), (False, 3.0)):
            session.run(update, {x: value, training: on})
            np.testing.assert_allclose(session.run(layer.moving_mean), [want] * 3)


def test_batch_renormalization_tends_to_the_averages() -> None:
    x = inputs(None, 2)
    y = tf.layers.batch_normalization(
        x, training=True, renorm=True, renorm_clipping={"rmax": 3.0, "rmin": 1 / 3, "dmax": 5.0}
    )
    assert [n.split("/")[1] for n in names()][4:] == ["renorm_mean", "renorm_stddev"]
    value = np.array([[1, 2], [3, 6]], np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        # at first the averages are mean 0 and deviation 1: (x - mean) / s * s + mean
        np.testing.assert_allclose(session.run(y, {x: value}), value, atol=1e-2)


def test_dropout_drops_in_training_alone() -> None:
    training = tf.placeholder(tf.bool, [])
    y = tf.layers.dropout(tf.ones([100, 10]), rate=0.25, noise_shape=[None, 1], training=training, seed=1)
    off = tf.layers.dropout(tf.ones([2]))
    with tf.Session() as session:
        assert session.run(off).tolist() == [1, 1]
        assert (session.run(y, {training: False}) == 1).all()
        dropped = session.run(y, {training: True})
    assert {tuple(row) for row in (dropped * 3).round().tolist()} == {(0.0,) * 10, (4.0,) * 10}


def test_channels_first_is_channels_last_turned() -> None:
    value = np.random.RandomState(0).standard_normal((2, 6, 5, 3)).astype(np.float32)
    last = tf.constant(value)
    first = tf.constant(value.transpose(0, 3, 1, 2).copy())
    makers: list[Any] = [
        lambda x, f, n: tf.layers.conv2d(x, 4, 3, data_format=f, name="c", reuse=n),
        lambda x, f, n: tf.layers.conv2d_transpose(x, 4, 3, 2, data_format=f, name="t", reuse=n),
        lambda x, f, n: tf.layers.separable_conv2d(x, 4, 3, data_format=f, name="s", reuse=n),
        lambda x, f, n: tf.layers.max_pooling2d(x, 2, 2, data_format=f),
        lambda x, f, n: tf.layers.batch_normalization(
            x, axis=-1 if f == "channels_last" else 1, name="b", reuse=n, training=True
        ),
    ]
    pairs = [(m(last, "channels_last", None), m(first, "channels_first", True)) for m in makers]
    flat = tf.layers.flatten(last), tf.layers.flatten(first, data_format="channels_first")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for a, b in session.run(pairs):
            np.testing.assert_allclose(a, b.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5)
        a, b = session.run(flat)
        assert (a == b).all()


def test_a_causal_convolution_sees_no_future() -> None:
    x = inputs(1, 5, 1)
    y = tf.layers.conv1d(x, 1, 3, padding="causal", kernel_initializer=tf.ones_initializer())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(y, {x: [[[1], [2], [3], [4], [5]]]}).ravel().tolist() == [1, 3, 6, 9, 12]


def test_output_shapes_are_known_beforehand() -> None:
    assert tf.layers.Conv2D(4, 3, strides=2).compute_output_shape([None, 9, 8, 3]).as_list() == [None, 4, 3, 4]
    turned = tf.layers.Conv2DTranspose(4, 3, 2, "same")
    assert turned.compute_output_shape([2, 9, None, 3]).as_list() == [2, 18, None, 4]
    assert tf.layers.MaxPooling2D(2, 2, "same").compute_output_shape([None, 5, 5, 3]).as_list() == [None, 3, 3, 3]
    assert tf.layers.Dense(7).compute_output_shape([None, 5, 3]).as_list() == [None, 5, 7]
    assert tf.layers.Flatten().compute_output_shape([None, 5, 3]).as_list() == [None, 15]


def test_a_layer_of_ones_own() -> None:
    class Scale(tf.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.factor = self.add_variable("factor", [input_shape[-1]], initializer="ones")
            super().build(input_shape)

        def call(self, inputs: Any, by: float = 1.0) -> Any:
            self.add_loss(tf.reduce_sum(inputs), inputs=inputs)
            return inputs * self.factor * by

    layer = Scale()
    y = layer(np.array([[1.0, 2.0]], np.float32), by=3.0)
    assert names() == ["scale/factor"]
    assert layer.losses == tf.losses.get_regularization_losses() == layer.get_losses_for(y)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(y).tolist() == [[3, 6]]


def test_a_custom_getter_sees_the_variables() -> None:
    seen = []

    def getter(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        seen.append(name)
        return getter(name, *args, **kwargs)

    with tf.variable_scope("s", custom_getter=getter):
        tf.layers.dense(inputs(None, 3), 2)
    assert seen == ["s/dense/kernel", "s/dense/bias"]


def test_a_copy_has_variables_of_its_own() -> None:
    cell = tf.nn.rnn_cell.GRUCell(2)
    other = copy.deepcopy(cell)
    x = inputs(2, 3)
    for c in (cell, other):
        c(x, c.zero_state(2, tf.float32))
    assert [n for n in names() if n.endswith("gates/kernel")] == ["gru_cell/gates/kernel", "gru_cell_1/gates/kernel"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.layers.dense(inputs(3), 2), "incompatible with the layer: expected min_ndim=2, found ndim=1"),
        (lambda: tf.layers.dense(inputs(None, None), 2), "The last dimension of the inputs to `Dense` should be defin"),
        (lambda: tf.layers.conv2d(inputs(None, 3), 2, 3), "expected ndim=4, found ndim=2"),
        (lambda: tf.layers.conv2d(inputs(1, 4, 4, 3), 2, 3, padding="full"), "`padding` argument must be one of"),
        (lambda: tf.layers.conv2d(inputs(1, 4, 4, 3), 2, (3, 3, 3)), "must be a tuple of 2 integers"),
        (lambda: tf.layers.conv2d(inputs(1, 4, 4, 3), 2, 3, 2, dilation_rate=2), "not supported in conjunction with"),
        (lambda: tf.layers.dense(inputs(1, 3), 2, activation="what"), "Unknown activation 'what'"),
        (lambda: tf.layers.batch_normalization(inputs(1, 3), axis=2), "Invalid axis 2 for inputs of rank 2"),
        (lambda: tf.layers.flatten(inputs(1, 3), data_format="NHWC"), "channels_first"),
    ],
)
def test_misuse(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_layer_called_with_other_inputs_later() -> None:
    layer = tf.layers.Dense(2)
    layer(inputs(None, 3))
    with pytest.raises(ValueError, match="expected axis -1 of input shape to have value 3 but received"):
        layer(inputs(None, 4))


@pytest.mark.parametrize("layer", [tf.layers.Dense(3), tf.layers.Conv2D(3, 3), tf.layers.MaxPooling2D(2, 2)])
def test_an_input_of_unknown_rank_is_refused_with_what_to_do(layer):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, name="images")
        with pytest.raises(ValueError, match=r"its rank is undefined, .* call set_shape on images:0"):
            layer(x)


def test_metrics_have_tensorflow_s_names() -> None:
    y, p = inputs(None, 3), inputs(None, 3)
    found = {
        "precision_at_thresholds": tf.metrics.precision_at_thresholds(y, p, [0.2, 0.7]),
        "recall_at_thresholds": tf.metrics.recall_at_thresholds(y, p, [0.2, 0.7]),
        "accuracy": tf.metrics.accuracy(y, p),
        "auc": tf.metrics.auc(y, p),
    }
    ends = {"precision_at_thresholds": "precision_", "recall_at_thresholds": "recall_"}
    for name, (value, update) in found.items():
        assert value.op.name == f"{name}/{ends.get(name, '')}value"
        assert update.op.name == f"{name}/{ends.get(name, '')}update_op"
