"""Coordinator and QueueRunner: threads that end together, and the error that is raised where they are joined."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.base import threads
from dtfzmq.client.standing import StandingRun
from dtfzmq.train import coordinator
from tests.kit.servers import start
from tests.kit.waiting import wait_for


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def test_a_stop_ends_all() -> None:
    coord = tf.train.Coordinator()

    def work() -> None:
        while not coord.should_stop():
            coord.wait_for_stop(0.01)

    workers = [threads.start(work, f"worker-{i}") for i in range(3)]
    assert not coord.should_stop() and not coord.joined
    coord.request_stop()
    coord.join(workers)
    assert coord.joined and not any(w.is_alive() for w in workers)
    coord.clear_stop()
    assert not coord.should_stop() and not coord.joined


def test_the_first_error_is_raised_by_join() -> None:
    coord = tf.train.Coordinator()

    def fail(text: str) -> None:
        with coord.stop_on_exception():
            raise ValueError(text)

    threads.start(fail, "first", "first").join(10)
    threads.start(fail, "second", "second").join(10)
    with pytest.raises(ValueError, match="first"):
        coord.raise_requested_exception()
    with pytest.raises(ValueError, match="first"):
        coord.join()
    with pytest.raises(KeyError):
        coord.request_stop(KeyError("after the join"))


def test_the_end_of_input_is_a_clean_stop() -> None:
    coord = tf.train.Coordinator()
    with coord.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "end of input")
    assert coord.should_stop()
    coord.join()
    other = tf.train.Coordinator(clean_stop_exception_types=(StopIteration,))
    other.request_stop(StopIteration())
    other.join()


def test_threads_that_do_not_end_are_named() -> None:
    coord, release = tf.train.Coordinator(), threading.Event()

    def hold() -> None:
        release.wait(20)

    stuck = threads.start(hold, "stuck")
    coord.register_thread(stuck)
    coord.request_stop()
    with pytest.raises(RuntimeError, match="threads still running: stuck"):
        coord.join(stop_grace_period_secs=0.01)
    coord.clear_stop()
    coord.request_stop()
    coord.join([stuck], stop_grace_period_secs=0.01, ignore_live_threads=True)
    release.set()
    stuck.join(10)


def test_threads_that_ended_by_themselves_are_joined_without_a_stop() -> None:
    coord = tf.train.Coordinator()
    coord.join([threads.start(lambda: None, "short")])
    assert not coord.should_stop()


def test_a_looper_calls_until_the_stop_or_its_error() -> None:
    coord = tf.train.Coordinator()
    calls: list[int] = []
    tf.train.LooperThread.loop(coord, 0.001, calls.append, args=[1])
    tf.train.LooperThread.loop(coord, None, lambda: calls.append(2))
    wait_for(lambda: calls.count(1) >= 3 and calls.count(2) >= 3, what="three calls of each")
    coord.request_stop()
    coord.join(stop_grace_period_secs=20)

    def fail() -> None:
        raise KeyError("in the loop")

    other = tf.train.Coordinator()
    tf.train.LooperThread.loop(other, 0.001, fail)
    with pytest.raises(KeyError):
        other.join(stop_grace_period_secs=20)
    with pytest.raises(ValueError, match="must be a Coordinator"):
        tf.train.LooperThread(None, 1.0)  # type: ignore[arg-type]  # on purpose


def test_a_runner_feeds_its_queue_until_the_stop(graph: tf.Graph) -> None:
    queue = tf.FIFOQueue(5, tf.int32, shapes=[[]])
    count = tf.Variable(0)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(count.count_up_to(1000000))] * 2)
    tf.train.add_queue_runner(runner)
    get = queue.dequeue()
    coord = tf.train.Coordinator()
    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        started = tf.train.start_queue_runners(session, coord=coord)
        assert len(started) == 3 and all(t.daemon for t in started)
        assert runner.create_threads(session) == [], "threads of this session still run"
        got = [session.run(get) for _ in range(20)]
        assert len(set(got)) == 20
        coord.request_stop()
        coord.join(stop_grace_period_secs=20)
        assert not any(t.is_alive() for t in started)


@pytest.mark.parametrize("remote", [False, True])
def test_what_a_runner_waits_for_beside_its_queue_ends_at_the_join(
    graph: tf.Graph, remote: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "_PATIENCE_S", 0.1)
    queue, never = tf.FIFOQueue(5, tf.int32, shapes=[[]]), tf.FIFOQueue(5, tf.int32, shapes=[[]])
    began = tf.Variable(0)
    with tf.control_dependencies([began.assign_add(1)]):
        step = queue.enqueue(never.dequeue())
    runner = tf.train.QueueRunner(queue, [step, step])
    coord = tf.train.Coordinator()
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(start({"worker": 1}))["worker:0"].target if remote else ""
        stack.enter_context(caplog.at_level(logging.INFO))
        session = stack.enter_context(tf.Session(target, graph=graph))
        session.run(tf.global_variables_initializer())
        started = runner.create_threads(session, coord=coord, start=True)
        wait_for(lambda: session.run(began) == 2, what="the runs to wait")
        coord.request_stop()
        coord.join(stop_grace_period_secs=20)  # RuntimeError if a thread is left
        assert not any(t.is_alive() for t in started)
        assert session.run(never.size()) == 0, "the session is still there"
    assert "CancelledError" not in caplog.text


def test_a_run_that_is_cancelled_before_it_began_does_not_begin(graph: tf.Graph) -> None:
    count = tf.Variable(0)
    with tf.Session(graph=graph) as session:
        session.run(count.initializer)
        run = StandingRun(session, count.assign_add(1))
        assert [run(), run()] == [1, 2]
        run.cancel()
        with pytest.raises(tf.errors.CancelledError, match="asked to stop"):
            run()
        assert session.run(count) == 2
    with pytest.raises(RuntimeError, match="closed Session"):
        run()


def test_a_runner_that_is_cancelled_before_the_stop_is_an_error(graph: tf.Graph) -> None:
    queue, never = tf.FIFOQueue(5, tf.int32, shapes=[[]]), tf.FIFOQueue(5, tf.int32, shapes=[[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(never.dequeue())])
    coord = tf.train.Coordinator()
    session = tf.Session(graph=graph)
    session.run(never.size())
    runner.create_threads(session, coord=coord, start=True)
    session.close()
    with pytest.raises((tf.errors.CancelledError, RuntimeError)):
        coord.join(stop_grace_period_secs=20)


def test_the_last_thread_closes_the_queue_at_the_end_of_input(graph: tf.Graph) -> None:
    queue = tf.FIFOQueue(100, tf.int32, shapes=[[]])
    count = tf.Variable(0)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(count.count_up_to(10))] * 3)
    get = queue.dequeue()
    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        for thread in runner.create_threads(session, start=True):
            thread.join(20)
        got = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                got.append(session.run(get))
        assert sorted(got) == list(range(10))
        assert runner.exceptions_raised == []


def test_an_error_of_a_runner_goes_to_the_coordinator_or_is_kept(graph: tf.Graph) -> None:
    queue = tf.FIFOQueue(100, tf.float32, shapes=[[]])
    missing = tf.Variable(0.0, name="missing")
    runner = tf.train.QueueRunner(queue, [queue.enqueue(missing)])
    coord = tf.train.Coordinator()
    with tf.Session(graph=graph) as session:
        runner.create_threads(session, coord=coord, start=True)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value missing"):
            coord.join(stop_grace_period_secs=20)
        wait_for(lambda: runner.create_threads(session, start=True), what="the runner to be free")
        wait_for(lambda: runner.exceptions_raised, what="the error")
        assert isinstance(runner.exceptions_raised[0], tf.errors.FailedPreconditionError)


def test_bad_runners(graph: tf.Graph) -> None:
    queue = tf.FIFOQueue(1, tf.int32)
    with pytest.raises(ValueError, match="Must provide queue and enqueue_ops"):
        tf.train.QueueRunner(queue, [])
    with pytest.raises(TypeError, match="must be a tuple of error types"):
        no_tuple: Any = [ValueError]
        tf.train.QueueRunner(queue, [queue.enqueue(1)], queue_closed_exception_types=no_tuple)
    with pytest.raises(ValueError, match="No default session is registered"):
        tf.train.start_queue_runners()
