"""Small models in TensorFlow 1's API, each a function of the module `tf` that gives what it computes.

TensorFlow's own answers for them, with variables set by `value_of`, are in data/answers.json.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

Model = Callable[[Any], Any]
MODELS: dict[str, Model] = {}


def model(make: Model) -> Model:
    MODELS[make.__name__] = make
    return make


def value_of(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """What a variable is set to: by its name; positive where a variance is meant."""
    drawn = np.random.RandomState(zlib.crc32(name.encode())).uniform(-0.5, 0.5, shape).astype(np.float32)
    return np.abs(drawn) + 0.5 if "variance" in name or "stddev" in name else drawn


def weight_of(index: int, shape: tuple[int, ...]) -> np.ndarray:
    """What output `index` is multiplied with before all are summed, for gradients."""
    return np.random.RandomState(1000 + index).uniform(-1, 1, shape).astype(np.float32)


def data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype(np.float32)


def batch(tf: Any, *shape: int, seed: int = 0) -> Any:
    """A constant whose first size is not known statically."""
    return tf.placeholder_with_default(data(*shape, seed=seed), [None, *shape[1:]])


@model
def dense_layers(tf: Any) -> Any:
    x = tf.layers.dense(batch(tf, 4, 3), 5, activation=tf.nn.relu)
    with tf.variable_scope("head"):
        x = tf.layers.dense(x, 4, activation=tf.nn.tanh, use_bias=False)
    return tf.layers.dense(x, 2, name="out"), tf.layers.dense(x, 2, name="out", reuse=True)


@model
def dense_over_time(tf: Any) -> Any:
    layer = tf.layers.Dense(3, activation=tf.nn.sigmoid)
    x = batch(tf, 2, 3, 4)
    return layer(x), layer(x * 2.0), layer.apply(x[:, 0])


@model
def convolutions(tf: Any) -> Any:
    x = batch(tf, 2, 7, 6, 3)
    y = tf.layers.conv2d(x, 4, 3, strides=2, padding="same", activation=tf.nn.relu)
    z = tf.layers.conv2d(x, 2, [3, 2], dilation_rate=2, use_bias=False)
    return y, z, tf.layers.conv2d(y, 3, (2, 2), name="last")


@model
def convolutions_1d_3d(tf: Any) -> Any:
    line = tf.layers.conv1d(batch(tf, 2, 8, 3), 4, 3, strides=2, padding="same")
    wide = tf.layers.conv1d(batch(tf, 2, 8, 3), 4, 3, dilation_rate=2)
    block = tf.layers.conv3d(batch(tf, 1, 4, 5, 4, 2), 3, 2, strides=(1, 2, 1), padding="same")
    return line, wide, block


@model
def transposed(tf: Any) -> Any:
    x = batch(tf, 2, 3, 4, 2)
    y = tf.layers.conv2d_transpose(x, 3, 3, strides=2, padding="same")
    z = tf.layers.conv2d_transpose(x, 2, (2, 4), strides=(3, 2), padding="valid", activation=tf.nn.relu)
    return y, z, tf.layers.conv3d_transpose(batch(tf, 1, 2, 3, 2, 2), 2, 3, strides=2)


@model
def separable(tf: Any) -> Any:
    x = batch(tf, 2, 6, 5, 3)
    y = tf.layers.separable_conv2d(x, 4, 3, depth_multiplier=2, padding="same", activation=tf.nn.relu)
    return y, tf.layers.separable_conv2d(x, 2, 2, strides=2), tf.layers.separable_conv1d(batch(tf, 2, 7, 3), 4, 3)


@model
def pooling(tf: Any) -> Any:
    x, line, block = batch(tf, 2, 7, 6, 3), batch(tf, 2, 7, 3), batch(tf, 1, 4, 5, 4, 2)
    return (
        tf.layers.max_pooling2d(x, 2, 2), tf.layers.average_pooling2d(x, (3, 2), 2, padding="same"),
        tf.layers.max_pooling1d(line, 3, 2), tf.layers.average_pooling1d(line, 2, 2, padding="same"),
        tf.layers.max_pooling3d(block, 2, 2), tf.layers.average_pooling3d(block, 2, 1), tf.layers.flatten(x),
    )  # fmt: skip


@model
def batch_norm_training(tf: Any) -> Any:
    x = batch(tf, 4, 3, 2, 3)
    y = tf.layers.batch_normalization(x, training=True)
    z = tf.layers.batch_normalization(batch(tf, 5, 3), momentum=0.9, scale=False, training=True)
    return y, z, tf.layers.batch_normalization(batch(tf, 3, 4, 2), axis=1, center=False, training=True)


@model
def batch_norm_inference(tf: Any) -> Any:
    x = batch(tf, 4, 3, 2, 3)
    return tf.layers.batch_normalization(x), tf.layers.batch_normalization(x, fused=False, epsilon=0.1, name="plain")


@model
def batch_norm_by_tensor(tf: Any) -> Any:
    x, yes, no = batch(tf, 4, 3, 2, 3), tf.constant(True) | tf.constant(False), tf.constant(True) & tf.constant(False)
    flat = batch(tf, 5, 3)
    yes, no = tf.placeholder_with_default(True, []), tf.placeholder_with_default(False, [])
    return (
        tf.layers.batch_normalization(x, training=yes), tf.layers.batch_normalization(x, training=no),
        tf.layers.batch_normalization(flat, training=yes), tf.layers.batch_normalization(flat, training=no),
    )  # fmt: skip


@model
def regularized(tf: Any) -> Any:
    def square(v: Any) -> Any:
        return tf.reduce_sum(tf.square(v))

    x = tf.layers.dense(batch(tf, 4, 3), 2, kernel_regularizer=square, bias_regularizer=square, name="fc")
    y = tf.layers.dense(batch(tf, 4, 3), 2, kernel_regularizer=square, name="fc", reuse=True)
    with tf.variable_scope("s", regularizer=lambda v: 0.5 * square(v)):
        z = tf.layers.dense(x, 2, activity_regularizer=square)
    return x, y, z, tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))


@model
def basic_rnn(tf: Any) -> Any:
    out, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(4), batch(tf, 3, 5, 2), dtype=tf.float32)
    return out, state


@model
def lstm_with_lengths(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.BasicLSTMCell(4)
    out, state = tf.nn.dynamic_rnn(cell, batch(tf, 3, 5, 2), sequence_length=[3, 0, 4], dtype=tf.float32)
    return out, state.c, state.h


@model
def lstm_full(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.LSTMCell(4, use_peepholes=True, cell_clip=0.4, num_proj=3, proj_clip=0.3, forget_bias=0.5)
    first = cell.zero_state(3, tf.float32)
    first = tf.nn.rnn_cell.LSTMStateTuple(first.c + 0.1, first.h - 0.1)
    out, state = tf.nn.dynamic_rnn(cell, batch(tf, 5, 3, 2), initial_state=first, time_major=True, scope="lstm")
    return out, state.c, state.h


@model
def stacked(tf: Any) -> Any:
    cells = [tf.nn.rnn_cell.GRUCell(3), tf.nn.rnn_cell.ResidualWrapper(tf.nn.rnn_cell.GRUCell(3))]
    cell = tf.nn.rnn_cell.MultiRNNCell([*cells, tf.nn.rnn_cell.LSTMCell(2)])
    out, state = tf.nn.dynamic_rnn(cell, batch(tf, 3, 4, 2), sequence_length=[1, 4, 2], dtype=tf.float32)
    return out, state[0], state[1], state[2].h


@model
def states_side_by_side(tf: Any) -> Any:
    cells = [tf.nn.rnn_cell.BasicLSTMCell(3, state_is_tuple=False), tf.nn.rnn_cell.GRUCell(2)]
    cell = tf.nn.rnn_cell.MultiRNNCell(cells, state_is_tuple=False)
    out, state = tf.nn.static_rnn(cell, tf.unstack(data(3, 2, 2)), dtype=tf.float32)
    return (*out, state)


@model
def static_with_lengths(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.GRUCell(3)
    out, state = tf.nn.static_rnn(cell, tf.unstack(data(4, 2, 2)), dtype=tf.float32, sequence_length=[2, 4])
    return (*out, state)


@model
def both_ways(tf: Any) -> Any:
    cells = tf.nn.rnn_cell.BasicLSTMCell(3), tf.nn.rnn_cell.GRUCell(2)
    (a, b), (c, d) = tf.nn.bidirectional_dynamic_rnn(
        *cells, batch(tf, 3, 4, 2), sequence_length=[2, 4, 3], dtype=tf.float32
    )
    x = batch(tf, 4, 3, 2)
    (e, f), _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, dtype=tf.float32, time_major=True, scope="t")
    return a, b, c.h, d, e, f


@model
def both_ways_static(tf: Any) -> Any:
    cells = tf.nn.rnn_cell.BasicRNNCell(3), tf.nn.rnn_cell.BasicRNNCell(2)
    out, fw, bw = tf.nn.static_bidirectional_rnn(
        *cells, tf.unstack(data(4, 2, 2)), dtype=tf.float32, sequence_length=[3, 4]
    )
    return (*out, fw, bw)


@model
def one_cell_twice(tf: Any) -> Any:
    cell = tf.nn.rnn_cell.BasicLSTMCell(3)
    first, state = cell(tf.constant(data(2, 4)), cell.zero_state(2, tf.float32))
    second, state = cell(tf.constant(data(2, 4, seed=1)), state)
    return first, second, state.c


@model
def steered(tf: Any) -> Any:
    cell, x = tf.nn.rnn_cell.GRUCell(3), tf.constant(data(4, 2, 2))
    lengths = tf.constant([2, 4])

    def loop(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        ended = time >= lengths
        following = tf.cond(tf.reduce_all(ended), lambda: tf.zeros([2, 2]), lambda: x[time])
        following.set_shape([2, 2])
        return ended, following, cell.zero_state(2, tf.float32) if state is None else state, output, None

    arrays, state, _ = tf.nn.raw_rnn(cell, loop)
    return arrays.stack(), state


# -- metrics: (values, update ops); the updates run twice --------------------------------------------------------------
METRICS: dict[str, Model] = {}


def metric(make: Model) -> Model:
    METRICS[make.__name__] = make
    return make


LABELS = [1, 0, 1, 1, 0, 1, 0, 1]
GUESSES = [0.9, 0.4, 0.3, 0.8, 0.7, 0.55, 0.1, 0.6]
WEIGHTS = [1.0, 0.5, 2.0, 0.0, 1.0, 3.0, 1.0, 1.0]


@metric
def means(tf: Any) -> Any:
    x, y, w = tf.constant(GUESSES), tf.constant(LABELS, tf.float32), tf.constant(WEIGHTS)
    return [
        tf.metrics.mean(x), tf.metrics.mean(x, weights=w), tf.metrics.mean_squared_error(y, x),
        tf.metrics.root_mean_squared_error(y, x, w), tf.metrics.mean_absolute_error(y, x, w),
        tf.metrics.mean_relative_error(y, x, normalizer=y), tf.metrics.percentage_below(x, 0.5),
        tf.metrics.mean_tensor(x), tf.metrics.mean_tensor(x, w),
        tf.metrics.mean_cosine_distance(tf.reshape(y, [4, 2]), tf.reshape(x, [4, 2]), 1),
    ]  # fmt: skip


@metric
def accuracies(tf: Any) -> Any:
    y, p = tf.constant(LABELS), tf.cast(tf.constant(GUESSES) > 0.5, tf.int32)
    w = tf.constant(WEIGHTS)
    return [
        tf.metrics.accuracy(y, p), tf.metrics.accuracy(tf.reshape(y, [-1, 1]), p, weights=w),
        tf.metrics.mean_per_class_accuracy(y, p, 2), tf.metrics.mean_iou(y, p, 3), tf.metrics.mean_iou(y, p, 2, w),
    ]  # fmt: skip


@metric
def counts(tf: Any) -> Any:
    y, p, w = tf.constant(LABELS), tf.cast(tf.constant(GUESSES) > 0.5, tf.int32), tf.constant(WEIGHTS)
    m = tf.metrics
    return [
        m.precision(y, p), m.recall(y, p), m.precision(y, p, w), m.recall(y, p, w), m.true_positives(y, p),
        m.false_positives(y, p, w), m.true_negatives(y, p), m.false_negatives(y, p),
    ]  # fmt: skip


@metric
def thresholds(tf: Any) -> Any:
    y, x, w, m, at = tf.constant(LABELS), tf.constant(GUESSES), tf.constant(WEIGHTS), tf.metrics, [0.2, 0.5, 0.75]
    return [
        m.auc(y, x), m.auc(y, x, w, num_thresholds=20), m.auc(y, x, curve="PR"),
        m.auc(y, x, curve="PR", summation_method="careful_interpolation"), m.auc(y, x, summation_method="minoring"),
        m.auc(y, x, summation_method="majoring"), m.precision_at_thresholds(y, x, at),
        m.recall_at_thresholds(y, x, at, w), m.true_positives_at_thresholds(y, x, at),
        m.false_positives_at_thresholds(y, x, at), m.true_negatives_at_thresholds(y, x, at, w),
        m.false_negatives_at_thresholds(y, x, at), m.sensitivity_at_specificity(y, x, 0.6),
        m.specificity_at_sensitivity(y, x, 0.7),
    ]  # fmt: skip


@metric
def best_of_classes(tf: Any) -> Any:
    x = tf.constant([[0.1, 0.5, 0.2, 0.9], [0.7, 0.3, 0.6, 0.2], [0.1, 0.2, 0.3, 0.4]])
    one, many = tf.constant([3, 1, 0], tf.int64), tf.constant([[1, 3], [0, 3], [2, 2]], tf.int64)
    few = tf.SparseTensor([[0, 0], [2, 0], [2, 1]], tf.constant([2, 3, 0], tf.int64), [3, 2])
    w, m = tf.constant([1.0, 2.0, 0.5]), tf.metrics
    strangers = tf.constant([[1, 9], [0, -1], [7, 2]], tf.int64)
    found = []
    for labels in (one, many, few, strangers):
        found += [
            m.recall_at_k(labels, x, 2), m.recall_at_k(labels, x, 1, class_id=3),
            m.recall_at_k(labels, x, 3, weights=w), m.precision_at_k(labels, x, 2),
            m.precision_at_k(labels, x, 3, class_id=2, weights=w), m.average_precision_at_k(labels, x, 3),
            m.average_precision_at_k(labels, x, 2, w),
        ]  # fmt: skip
    best = tf.nn.top_k(x, 2).indices
    wide = tf.reshape(tf.concat([x, x[:1]], 0), [2, 2, 4])
    return found + [
        m.recall_at_top_k(many, best), m.recall_at_top_k(one, best, 2, name="mine"), m.precision_at_top_k(few, best, 2),
        m.precision_at_top_k(many, best, class_id=0), m.sparse_precision_at_k(one, x, 1),
        m.recall_at_k(tf.constant([[[0], [1]], [[2], [3]]], tf.int64), wide, 2, weights=[[1.0, 2.0]]),
        m.average_precision_at_k(tf.constant([[[0, 1], [1, 2]], [[2, 3], [3, 0]]], tf.int64), wide, 3),
    ]  # fmt: skip
