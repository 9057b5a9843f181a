"""What a real cluster says, captured on both ways at one task, fits the published schemas."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.cli.ask import ask
from dtfzmq.wire import codec, messages
from schemas import generate
from tests.kit.captures import Checker
from tests.kit.cluster import Cluster

PS, MINE, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    """Every message body that leaves or enters this process from now on, as msgpack carries it."""
    found: list[list[Any]] = []
    monkeypatch.setattr(codec, "body", leaving(codec.body, found))
    monkeypatch.setattr(codec, "message", entering(codec.message, found))
    return found


def leaving(encode: Callable[..., list[Any]], found: list[list[Any]]) -> Callable[..., list[Any]]:
    def encoded(*arguments: Any) -> list[Any]:
        made = encode(*arguments)
        found.append(codec.unpack(codec.pack(made)))
        return made

    return encoded


def entering(decode: Callable[..., Any], found: list[list[Any]]) -> Callable[..., Any]:
    def decoded(data: Any, *arguments: Any) -> Any:
        found.append(copy.deepcopy(data))
        return decode(data, *arguments)

    return decoded


def exercise(target: str) -> None:
    """A session that says a bit of everything, over three tasks."""
    with tf.Graph().as_default():
        with tf.device(PS):
            v = tf.Variable(tf.zeros([3]), name="v")
            queue = tf.FIFOQueue(4, [tf.float32, tf.string], shapes=[[], []])
            x = tf.placeholder(tf.float32, [None], name="x")
            words = tf.constant([b"a", b"\xff\0"])
        with tf.device(MINE):
            grown = v + x
            total = tf.reduce_sum(tf.cast(grown > 0.0, tf.int64), name="total")
            either = tf.cond(total > 1, lambda: grown * 2.0, lambda: grown)
        with tf.device(OTHER):
            shifted = tf.reshape(tf.transpose(either), [-1]) + np.float32(1)
            counted = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.reduce_sum(shifted)), [0, 0.0])
            taken = queue.dequeue()
            wide = tf.fill([40000], x[0])
        with tf.device(MINE):
            joined = tf.concat([wide, wide], 0)
        with tf.Session(target) as session:
            session.run(v.initializer)
            feed = {x: [1.0, 2.0, 3.0]}
            out = session.run([shifted, counted, words, joined], feed)
            assert out[0].tolist() == [3.0, 5.0, 7.0]
            assert out[1][1] == 45.0
            assert out[3].shape == (80000,)
            session.run(queue.enqueue([1.5, "text"]))
            assert session.run(taken) == [1.5, b"text"]
            options = tf.RunOptions(timeout_in_ms=200)
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(taken, options=options)
            traced, metadata = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata()
            session.run(shifted, feed, options=traced, run_metadata=metadata)
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(grown, {x: [1.0, 2.0]})
            added = v * 3.0
            assert session.run(added).tolist() == [0.0, 0.0, 0.0]
            handle = session.partial_run_setup([grown, added], [x])
            assert session.partial_run(handle, grown, {x: [1.0, 1.0, 1.0]}).tolist() == [1.0, 1.0, 1.0]
            assert session.partial_run(handle, added).tolist() == [0.0, 0.0, 0.0]
            blocked = threading.Thread(target=pytest.raises, args=(tf.errors.CancelledError, session.run, taken))
            assert len(session.list_devices()) == 3
            blocked.start()
            session.run(shifted, feed)
        blocked.join()
    tf.Session.reset(target, ["nothing"])


def test_a_cluster_speaks_by_the_schemas(processes: Callable[..., Cluster], captured: list[list[Any]]) -> None:
    cluster = processes({"ps": 1, "worker": 2})
    cluster.start("ps")
    cluster.start("worker", 1)
    mine = tf.train.Server(cluster.spec, job_name="worker", task_index=0)
    try:
        exercise(mine.target)
        exercise(cluster.target("worker", 1))
        ask([cluster.target("ps")], messages.Status(), 5.0)
        ask([cluster.target("ps")], messages.Shutdown(force=True), 5.0)
        assert cluster.tasks["ps/0"].wait() == 0
    finally:
        mine.stop()
    checker = Checker(generate.documents())
    problems = {checker.problem(body) for body in captured} - {""}
    assert problems == set()
    said = {body[0] for body in captured}
    assert said >= {
        "CloseSession", "CreateSession", "Devices", "Done", "ExtendSession", "GraphDone", "GraphRegistered", "Hello",
        "CleanupGraph", "CancelStep", "PartialRunSetup", "PartialRunStep", "RegisterGraph", "Reset", "RunGraph",
        "RunStep", "SessionCreated", "Shutdown", "Status", "StatusReport", "StepDone", "Welcome",
    }  # fmt: skip
