"""`Supervisor`: a chief that makes ready, saves and summarizes, workers that wait, threads that stop."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import dtfzmq as tf
from tests.kit.waiting import wait_for


@pytest.fixture(autouse=True)
def in_own_graph_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        yield


def counting() -> Any:
    return tf.assign_add(tf.train.get_or_create_global_step(), 1)


def test_the_usual_loop_saves_and_summarizes_and_goes_on_where_it_was() -> None:
    step = counting()
    tf.summary.scalar("step", tf.train.get_global_step())
    sv = tf.train.Supervisor(logdir="log", save_model_secs=0.05, save_summaries_secs=0.05)
    with sv.managed_session() as sess:
        assert sess.graph.finalized and not sv.should_stop()
        while sess.run(step) < 20:
            pass
        wait_for(lambda: tf.train.latest_checkpoint("log") == "log/model.ckpt-20", 10)
        (path,) = [os.path.join("log", name) for name in os.listdir("log") if "tfevents" in name]
        writer = sv.summary_writer
        assert writer is not None

        def told() -> list[Any]:
            writer.flush()
            return [v.tag for event in tf.train.summary_iterator(path) for v in event.summary.value]

        wait_for(lambda: {"step", "global_step/sec"} <= set(told()), 10)
        sv.summary_computed(sess, tf.Summary(value=[tf.Summary.Value(tag="mine", simple_value=1.0)]))
    assert sv.should_stop()
    events = list(tf.train.summary_iterator(path))
    assert [e.step for e in events for v in e.summary.value if v.tag == "mine"] == [20]
    statuses = [event.session_log.status for event in events if event.HasField("session_log")]
    assert statuses[0] == tf.SessionLog.START and tf.SessionLog.CHECKPOINT in statuses
    assert statuses[-1] == tf.SessionLog.STOP
    again = tf.train.Supervisor(logdir="log", save_model_secs=0, save_summaries_secs=0)
    with again.managed_session() as sess:
        assert sess.run(again.global_step) >= 20
        assert again.saver is sv.saver and again.save_path == "log/model.ckpt"
    assert [t for t in threading.enumerate() if isinstance(t, tf.train.LooperThread)] == []


def test_what_is_left_out_and_what_is_none() -> None:
    v = tf.get_variable("v", initializer=2.0)
    tf.summary.scalar("v", v)
    sv = tf.train.Supervisor(summary_op=None, saver=None, init_op=v.initializer, local_init_op=None, ready_op=None)
    assert sv.summary_op is None and sv.saver is None and sv.save_path is None and sv.summary_writer is None
    assert sv.init_op is v.initializer and sv.global_step is None and sv.is_chief
    with sv.prepare_or_wait_for_session("", config=tf.ConfigProto()) as sess:
        assert sess.run(v) == 2
        with pytest.raises(RuntimeError, match="Writing a summary requires a summary writer"):
            sv.summary_computed(sess, b"")
    sv.stop()
    sv.Stop()


def test_an_error_in_a_block_is_raised_once_threads_have_ended() -> None:
    counting()
    sv = tf.train.Supervisor()
    ended = threading.Event()

    def work() -> None:
        sv.wait_for_stop()
        ended.set()

    with pytest.raises(ZeroDivisionError):
        with sv.managed_session():
            thread = sv.loop(None, work)
            raise ZeroDivisionError
    assert ended.is_set() and not thread.is_alive()
    with sv.managed_session():
        raise tf.errors.OutOfRangeError(None, None, "no more input")
    with pytest.raises(ValueError, match="in a thread"):
        with sv.managed_session() as sess:

            def fail() -> None:
                raise ValueError("in a thread")

            sv.loop(None, fail)
            while not sv.should_stop():
                sess.run(tf.train.get_global_step())


def test_queue_runners_are_started_and_end() -> None:
    queue = tf.FIFOQueue(3, tf.int32, [[]])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(7)] * 2))
    take = queue.dequeue()
    counting()
    sv = tf.train.Supervisor()
    with sv.managed_session() as sess:
        assert sess.run(take) == 7
    other = tf.train.Supervisor()
    with other.managed_session(start_standard_services=False) as sess:
        assert len(other.start_queue_runners(sess, tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS))) == 3
        assert sess.run(take) == 7


def test_replicas() -> None:
    server = tf.train.Server.create_local_server()
    try:
        with tf.device("/job:local/task:0"):
            step = counting()
        waiter = tf.train.Supervisor(is_chief=False, logdir="log", recovery_wait_secs=0.1)
        assert waiter.save_path is None and waiter.summary_writer is None and waiter.save_model_secs is None
        with pytest.raises(tf.errors.DeadlineExceededError, match="not ready after waiting 0.1 secs.*global_step"):
            waiter.prepare_or_wait_for_session(server.target, max_wait_secs=0.1)
        found: list[Any] = []

        def worker() -> None:
            with waiter.managed_session(server.target) as sess:
                found.append(sess.run(step))

        thread = threading.Thread(target=worker)
        thread.start()
        chief = tf.train.Supervisor(is_chief=True, save_model_secs=0)
        with chief.managed_session(server.target):
            thread.join(20)
        assert found == [1] and not os.path.exists("log")
        with pytest.raises(RuntimeError, match="Only chief supervisor can start standard services"):
            waiter.start_standard_services(None)  # type: ignore[arg-type]  # refused before it is used
    finally:
        server.stop()
    with tf.Graph().as_default():
        tf.get_variable("v", initializer=1.0)
        with pytest.raises(ValueError, match="all Variables must have their device set: .*v"):
            tf.train.Supervisor(is_chief=False)


def test_which_global_step_is_taken() -> None:
    for make, found in [
        (lambda: tf.get_variable("global_step", [], initializer=tf.zeros_initializer(), trainable=False), False),
        (lambda: tf.Variable(0, name="global_step"), True),
        (lambda: tf.Variable(0, name="other"), False),
        (lambda: tf.train.create_global_step(), True),
    ]:
        with tf.Graph().as_default():
            variable = make()
            sv = tf.train.Supervisor()
            assert (sv.global_step is not None) == found
            if found:
                assert sv.global_step.op is variable.op
                assert len(tf.get_collection(tf.GraphKeys.GLOBAL_STEP)) == 1
            with sv.managed_session() as sess:
                assert sess.run(variable) == 0
