"""Cells and loops beside their values: dropout, devices, projections, errors, learning through time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import dtfzmq as tf

cells = tf.nn.rnn_cell


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def run(*fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(list(fetches))


class Adder(cells.RNNCell):
    """Adds its inputs up."""

    state_size = 2
    output_size = 2

    def call(self, inputs: Any, state: Any) -> Any:
        return inputs + state, inputs + state


def test_a_cell_of_ones_own_runs_over_time() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    outputs, last = run(*tf.nn.dynamic_rnn(Adder(), x, dtype=tf.float32))
    np.testing.assert_array_equal(outputs, x.cumsum(1))
    np.testing.assert_array_equal(last, x.sum(1))


def test_variables_that_a_cell_gets_itself_are_in_its_scope_and_its_lists() -> None:
    class Getter(Adder):
        def call(self, inputs: Any, state: Any) -> Any:
            return super().call(inputs * tf.get_variable("w", [2]), state)

    cell = Getter()
    tf.nn.dynamic_rnn(cell, np.zeros([1, 3, 2], np.float32), dtype=tf.float32)
    assert [v.op.name for v in cell.trainable_weights] == ["rnn/getter/w"]


def test_lengths_of_another_number_fail_the_step() -> None:
    lengths = tf.placeholder(tf.int32, [None])
    outputs, _ = tf.nn.dynamic_rnn(Adder(), tf.ones([2, 3, 2]), sequence_length=lengths, dtype=tf.float32)
    with tf.Session() as session:
        assert session.run(outputs, {lengths: [1, 2]})[:, :, 0].tolist() == [[1, 0, 0], [1, 2, 0]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Expected shape for Tensor rnn/sequence_length:0 is"):
            session.run(outputs, {lengths: [1, 2, 3]})


def test_states_may_nest() -> None:
    class Two(Adder):
        state_size: Any = ({"a": 2}, tf.TensorShape([2]))

        def call(self, inputs: Any, state: Any) -> Any:
            (first, second) = state
            return inputs + second, ({"a": first["a"] + 1}, inputs + second)

    _, last = tf.nn.dynamic_rnn(Two(), tf.ones([1, 3, 2]), dtype=tf.float32)
    assert run(last[0]["a"], last[1])[0].tolist() == [[3, 3]]


def test_dropout_of_a_cell() -> None:
    def wrapped(**settings: Any) -> Any:
        cell = cells.DropoutWrapper(Adder(), seed=3, **settings)
        return tf.nn.dynamic_rnn(cell, tf.ones([50, 4, 2]), dtype=tf.float32)

    outputs, last = run(*wrapped(output_keep_prob=0.5))
    assert set(np.unique(outputs[:, 0])) == {0.0, 2.0}
    assert (last == 4).all()  # states are not dropped
    outputs, _ = run(*wrapped(input_keep_prob=tf.constant(1.0), output_keep_prob=1.0))
    assert (outputs[:, -1] == 4).all()
    with pytest.raises(ValueError, match="Parameter output_keep_prob must be between 0 and 1"):
        wrapped(output_keep_prob=1.5)


def test_variational_dropout_draws_one_mask_for_all_times() -> None:
    cell = cells.DropoutWrapper(
        Adder(), output_keep_prob=0.5, variational_recurrent=True, dtype=tf.float32, seed=1
    )
    outputs, _ = run(*tf.nn.dynamic_rnn(cell, tf.ones([5, 6, 2]), dtype=tf.float32))
    kept = outputs != 0
    assert (kept == kept[0, 0]).all()


def test_the_memory_of_an_lstm_is_not_dropped() -> None:
    lstm = cells.BasicLSTMCell(3)
    cell = cells.DropoutWrapper(lstm, state_keep_prob=1e-6, seed=1)
    x = tf.ones([2, 2])
    _, dropped = cell(x, cell.zero_state(2, tf.float32))
    _, plain = lstm(x, cell.zero_state(2, tf.float32))
    a, b = run(dropped, plain)
    np.testing.assert_array_equal(a.c, b.c)
    assert (a.h == 0).all()


def test_a_device_for_a_cell() -> None:
    cell = cells.DeviceWrapper(cells.GRUCell(2), "/job:worker/task:1")
    out, _ = cell(tf.ones([1, 3]), cell.zero_state(1, tf.float32))
    assert out.device == "/job:worker/task:1"


def test_embedding_and_projections() -> None:
    cell = cells.OutputProjectionWrapper(cells.EmbeddingWrapper(cells.GRUCell(3), 10, 4), 5)
    out, _ = cell(tf.constant([1, 2]), cell.zero_state(2, tf.float32))
    assert out.shape.as_list() == [2, 5]
    shapes = {v.op.name: v.shape.as_list() for v in tf.global_variables()}
    assert shapes["output_projection_wrapper/embedding_wrapper/embedding"] == [10, 4]
    assert shapes["output_projection_wrapper/kernel"] == [3, 5]
    assert run(out)[0].shape == (2, 5)


def test_residual_of_ones_own() -> None:
    cell = cells.ResidualWrapper(Adder(), residual_fn=lambda i, o: o - i)
    out, _ = cell(tf.ones([1, 2]), tf.ones([1, 2]))
    assert run(out)[0].tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: tf.nn.dynamic_rnn(object(), tf.ones([1, 2, 2]), dtype=tf.float32), TypeError, "RNNCell: 'out"),
        (lambda: tf.nn.dynamic_rnn(Adder, tf.ones([1, 2, 2]), dtype=tf.float32), TypeError, "is not an RNNCell"),
        (lambda: tf.nn.dynamic_rnn(Adder(), tf.ones([1, 2, 2])), ValueError, "`dtype` must be specified"),
        (
            lambda: tf.nn.dynamic_rnn(Adder(), tf.placeholder(tf.float32, [1, 2, None]), dtype=tf.float32),
            ValueError, "must be accessible via shape inference",
        ),
        (lambda: tf.nn.static_rnn(Adder(), cast(Any, tf.ones([2])), dtype=tf.float32), TypeError, "must be a sequence"),
        (lambda: tf.nn.static_rnn(Adder(), [], dtype=tf.float32), ValueError, "must not be empty"),
        (lambda: cells.MultiRNNCell([]), ValueError, "at least one cell"),
        (lambda: cells.MultiRNNCell([cells.BasicLSTMCell(2)], state_is_tuple=False), ValueError, "return tuples"),
    ],
)  # fmt: skip
def test_misuse(make: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_an_lstm_learns_to_remember() -> None:
    """The first input comes back after six steps: gradients reach through the loop, lengths included."""
    random = np.random.RandomState(0)
    tf.set_random_seed(1)
    x, lengths = tf.placeholder(tf.float32, [None, 6, 1]), tf.placeholder(tf.int32, [None])
    _, state = tf.nn.dynamic_rnn(cells.BasicLSTMCell(8), x, sequence_length=lengths, dtype=tf.float32)
    logits = tf.layers.dense(state.h, 1)[:, 0]
    y = tf.cast(x[:, 0, 0] > 0, tf.float32)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(150):
            feed = {x: random.uniform(-1, 1, (32, 6, 1)), lengths: random.randint(1, 7, 32)}
            _, value = session.run([train, loss], feed)
    assert value < 0.2
