"""Barrier: components by key, whole elements out, closing, cancelling, sharing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import threads
from tests.kit.servers import start
from tests.kit.waiting import wait_for


@pytest.fixture
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def barrier(**settings: Any) -> tf.Barrier:
    return tf.Barrier([tf.float32, tf.int64], shapes=[[], [2]], name="b", **settings)


def test_elements_are_taken_once_all_components_are_there(session: tf.Session) -> None:
    b = barrier()
    sizes = [b.ready_size(), b.incomplete_size()]
    session.run(b.insert_many(0, ["x", "y", "z"], [1.0, 2.0, 3.0]))
    assert session.run(sizes) == [0, 3]
    session.run(b.insert_many(1, ["z", "x"], [[5, 6], [7, 8]]))
    assert session.run(sizes) == [2, 1]
    take = b.take_many(2)
    assert [t.shape.as_list() for t in (take.indices, *take.values)] == [[2], [2], [2, 2]]
    indices, keys, (floats, ints) = session.run(take)
    assert dict(zip(keys, floats)) == {b"x": 1.0, b"z": 3.0}
    assert {k: v.tolist() for k, v in zip(keys, ints)} == {b"x": [7, 8], b"z": [5, 6]}
    assert indices.tolist() == [-(2**63)] * 2  # both keys came by the first insertion
    assert session.run(sizes) == [0, 1]


def test_keys_come_out_in_the_order_of_their_first_insertion(session: tf.Session) -> None:
    b = tf.Barrier(tf.int64)
    for key in ("one", "two", "three"):
        session.run(b.insert_many(0, [key], [1]))
    assert session.run(b.take_many(3).keys).tolist() == [b"one", b"two", b"three"]


def test_what_cannot_be_inserted(session: tf.Session) -> None:
    b = barrier()
    session.run(b.insert_many(0, ["x"], [1.0]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Key x already has a value for component 0 in barrier b"):
        session.run(b.insert_many(0, ["w", "x"], [1.0, 2.0]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch in component 1"):
        session.run(b.insert_many(1, ["x"], [[1, 2, 3]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="2 keys were given for values"):
        session.run(b.insert_many(0, ["u", "v"], [1.0]))
    assert session.run(b.incomplete_size()) == 1


def test_a_closed_barrier_lets_what_is_there_be_completed_and_taken(session: tf.Session) -> None:
    b = barrier()
    small = b.take_many(5, allow_small_batch=True).keys
    session.run(b.insert_many(0, ["x"], [1.0]))
    session.run(b.close())
    with pytest.raises(tf.errors.CancelledError, match="Barrier b is closed.  Pending enqueues cancelled: 0"):
        session.run(b.insert_many(0, ["new"], [1.0]))
    with pytest.raises(tf.errors.OutOfRangeError, match=r"insufficient elements \(requested 2, total size 1\)"):
        session.run(b.take_many(2).keys)
    session.run(b.insert_many(1, ["x"], [[1, 2]]))
    assert session.run(small).tolist() == [b"x"]
    with pytest.raises(tf.errors.OutOfRangeError, match=r"requested 5, total size 0"):
        session.run(small)
    with pytest.raises(tf.errors.CancelledError, match="Barrier 'b' is already closed"):
        session.run(b.close())
    session.run(b.close(cancel_pending_enqueues=True))
    with pytest.raises(tf.errors.CancelledError, match="Pending enqueues cancelled: 1"):
        session.run(b.insert_many(1, ["x"], [[1, 2]]))


def test_a_take_waits_and_can_be_cancelled(session: tf.Session) -> None:
    b = tf.Barrier(tf.float32)
    take, insert = b.take_many(2).values[0], b.insert_many(0, tf.placeholder(tf.string, [None], "k"), [1.0])
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(take, options=tf.RunOptions(timeout_in_ms=50))
    got: list[Any] = []
    waiting = threads.start(lambda: got.append(session.run(take)), "take")
    session.run(insert, {"k:0": ["a"]})
    session.run(insert, {"k:0": ["b"]})
    waiting.join(10)
    np.testing.assert_array_equal(got[0], [1, 1])


def test_a_barrier_is_shared_by_name_between_tasks() -> None:
    with start({"ps": 1, "worker": 2}) as servers, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            b = barrier(shared_name="meeting")
            half = [b.insert_many(0, ["k"], [1.0]), b.insert_many(1, ["k"], [[2, 3]])]
            take, ready = b.take_many(1).values[1], b.ready_size()
        with tf.Session(servers["worker:0"].target) as one, tf.Session(servers["worker:1"].target) as two:
            one.run(half[0])
            two.run(half[1])
            wait_for(lambda: one.run(ready) == 1, 5, "a complete element")
            assert one.run(take).tolist() == [[2, 3]]
