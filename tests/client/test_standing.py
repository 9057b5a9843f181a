"""Standing runs, as those of queue runners: what stops a runner, the program's own runs hear of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.client.runs import End
from dtfzmq.client.standing import StandingRun
from tests.kit import servers
from tests.kit.waiting import wait_for

PS = "/job:ps/replica:0/task:0"
LIMIT = tf.RunOptions(timeout_in_ms=20_000)


class Program:
    """A runner at the worker that waits at the ps, and a queue of the worker that it fills."""

    def __init__(self, network: bool, *closed: type[Exception], shared: str | None = None) -> None:
        with tf.device("/job:ps/task:0"):
            theirs = tf.FIFOQueue(1, tf.float32, [[]])
        with tf.device("/job:worker/task:0"):
            ours, other = tf.FIFOQueue(1, tf.float32, [[]], shared_name=shared), tf.FIFOQueue(1, tf.float32, [[]])
            self.here = tf.random_uniform([])
        self.closed = ours.is_closed()
        self.next, self.waits = ours.dequeue(), other.dequeue()
        self.runner = tf.train.QueueRunner(
            ours, [ours.enqueue(theirs.dequeue())], queue_closed_exception_types=closed or (tf.errors.OutOfRangeError,)
        )
        self.coord = tf.train.Coordinator()
        self.config = tf.ConfigProto()
        self.config.rpc_options.use_rpc_for_inprocess_master = network


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def made() -> Iterator[dict[str, tf.train.Server]]:
    with servers.start({"ps": 1, "worker": 1}) as made:
        yield made


def caught(fn: Any) -> tuple[threading.Thread, list[BaseException]]:
    """Call `fn` on a thread, which is started; a list that gets what it raises."""
    found: list[BaseException] = []

    def work() -> None:
        try:
            fn()
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, found


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
@pytest.mark.parametrize("waits", [True, False], ids=["a run waits", "no run is under way"])
def test_a_task_that_a_runner_lost_is_an_error_of_the_programs_run(
    made: dict[str, tf.train.Server], waits: bool, network: bool
) -> None:
    program = Program(network)
    running = made["worker:0"].core.master._by_step
    with tf.Session(made["worker:0"].target, config=program.config) as session:
        session.run(program.here)
        threads = program.runner.create_threads(session, coord=program.coord, start=True)
        waiting = caught(lambda: session.run(program.waits, options=LIMIT)) if waits else None
        wait_for(lambda: len(running) == 1 + waits)
        made["ps:0"].stop()
        with pytest.raises(tf.errors.UnavailableError, match=PS):
            program.coord.join(stop_grace_period_secs=20)
        assert not any(thread.is_alive() for thread in threads)
        if waiting is not None:
            thread, found = waiting
            thread.join(20)
            assert len(found) == 1 and isinstance(found[0], tf.errors.UnavailableError) and PS in str(found[0])
        with pytest.raises(tf.errors.UnavailableError, match=PS):  # this thread has not heard it yet
            session.run(program.here)
        assert 0 <= session.run(program.here) < 1, "told once"
        with pytest.raises(tf.errors.OutOfRangeError):  # the runner has closed its queue
            session.run(program.next, options=LIMIT)
        assert not running


def test_new_runners_begin_without_what_the_old_ones_lost(made: dict[str, tf.train.Server]) -> None:
    program = Program(False)
    with tf.Session(made["worker:0"].target) as session:
        session.run(program.here)
        program.runner.create_threads(session, coord=program.coord, start=True)
        made["ps:0"].stop()
        with pytest.raises(tf.errors.UnavailableError, match=PS):
            program.coord.join(stop_grace_period_secs=20)
        program.runner.create_threads(session, coord=program.coord)  # as the next of several of one coordinator
        for _ in range(2):
            thread, found = caught(lambda: session.run(program.here))
            thread.join(20)
            assert len(found) == 1 and isinstance(found[0], tf.errors.UnavailableError), "each thread hears it"
    with tf.Session(made["worker:0"].target) as session:
        StandingRun(session, program.here).tell(tf.errors.UnavailableError(None, None, "lost"), program.coord)
        program.runner.create_threads(session, coord=tf.train.Coordinator())
        assert 0 <= session.run(program.here) < 1


@pytest.mark.parametrize("shared", [None, "q"])
def test_a_queue_that_outlives_the_session_is_not_closed_for_a_lost_task(
    made: dict[str, tf.train.Server], shared: str | None
) -> None:
    program = Program(False, shared=shared)
    with tf.Session(made["worker:0"].target) as session:
        session.run(program.here)
        program.runner.create_threads(session, coord=program.coord, start=True)
        wait_for(lambda: made["worker:0"].core.master._by_step)
        made["ps:0"].stop()
        with pytest.raises(tf.errors.UnavailableError, match=PS):
            program.coord.join(stop_grace_period_secs=20)
        with pytest.raises(tf.errors.UnavailableError, match=PS):
            session.run(program.here)
        assert session.run(program.closed) == (shared is None)


def test_a_thread_that_hears_by_its_next_run_goes_on_with_the_one_after_it(made: dict[str, tf.train.Server]) -> None:
    program = Program(False)
    with tf.Session(made["worker:0"].target) as session:
        runs = session._runs
        lost = tf.errors.UnavailableError(None, None, "lost")
        with session._loop.held():  # what tells it has left its news, and cannot go on yet
            teller = threading.Thread(target=StandingRun(session, program.here).tell, args=(lost, None))
            teller.start()
            wait_for(lambda: runs._news is not None)
            with pytest.raises(tf.errors.UnavailableError, match="lost"):
                runs.begin("a session", None)
            run, answer = runs.begin("a session", None)
        teller.join(20)
        assert not answer.done
        runs.over(run)


def test_a_loss_that_is_a_runners_end_is_no_error_of_the_program(made: dict[str, tf.train.Server]) -> None:
    program = Program(False, tf.errors.UnavailableError)
    with tf.Session(made["worker:0"].target) as session:
        session.run(program.here)
        program.runner.create_threads(session, coord=program.coord, start=True)
        wait_for(lambda: made["worker:0"].core.master._by_step)
        made["ps:0"].stop()
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(program.next, options=LIMIT)
        assert not program.coord.should_stop() and 0 <= session.run(program.here) < 1
        program.coord.request_stop()
        program.coord.join(stop_grace_period_secs=20)


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
def test_a_run_that_is_ended_before_it_was_asked_for_is_not_asked_for(
    made: dict[str, tf.train.Server], network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(network)
    with tf.Session(made["worker:0"].target, config=program.config) as session:
        session.run(program.here)
        begin = session._runs.begin
        before = made["worker:0"].core.master.steps_run

        def ended(handle: str, watch: Any) -> Any:
            ends: list[End] = []
            begun = begin(handle, ends.append)
            ends[0](tf.errors.CancelledError(None, None, "at once"))
            return begun

        monkeypatch.setattr(session._runs, "begin", ended)
        with pytest.raises(tf.errors.CancelledError, match="at once"):
            StandingRun(session, program.waits)()
        monkeypatch.undo()
        session.run(program.here)
        assert made["worker:0"].core.master.steps_run == before + 1
