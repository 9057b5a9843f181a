"""The baton: who runs the core, and that callers are answered whoever it is."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dtfzmq.base import errors, threads
from dtfzmq.base.completion import Completion
from dtfzmq.base.gate import Gate
from dtfzmq.base.loop import Loop
from dtfzmq.base.threads import Pool


@pytest.fixture(params=[0.0, 0.005], ids=["server", "client"])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    loop = Loop(grace=request.param)
    loop.add_ref()
    yield loop
    loop.release()


def answered_by_pool(loop: Loop, pool: Pool, value: int) -> int:
    done = Completion()
    pool.submit(lambda: loop.call_soon(done.set, value))
    return loop.wait(done, 10.0)


def test_a_caller_runs_core_code_on_its_own_thread(loop: Loop) -> None:
    ran: list[int] = []
    with loop.held():
        assert loop.held_here()
        loop.call_soon(lambda: ran.append(threading.get_ident()))
    assert ran == [threading.get_ident()]
    assert not loop.held_here()


def test_many_callers_are_all_answered(loop: Loop) -> None:
    pool = Pool("answers")
    wrong: list[tuple[int, int]] = []

    def caller(k: int) -> None:
        for i in range(200):
            got = answered_by_pool(loop, pool, k * 1000 + i)
            if got != k * 1000 + i:
                wrong.append((k, i))

    callers = [threading.Thread(target=caller, args=(k,)) for k in range(8)]
    for c in callers:
        c.start()
    for c in callers:
        c.join(30)
    pool.close()
    assert not wrong
    assert not any(c.is_alive() for c in callers)


def test_core_code_is_never_run_by_two_threads_at_once(loop: Loop) -> None:
    inside = 0
    most = 0

    def enter() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(50):
            pass
        inside -= 1

    def caller() -> None:
        for _ in range(300):
            with loop.held():
                enter()
            loop.call_soon(enter)

    callers = [threading.Thread(target=caller) for _ in range(6)]
    for c in callers:
        c.start()
    for c in callers:
        c.join(30)
    assert most == 1


def test_a_wait_ends_at_its_deadline_and_leaves_the_loop_usable(loop: Loop) -> None:
    with pytest.raises(errors.DeadlineExceededError):
        loop.wait(Completion(), 0.02)
    done = Completion()
    loop.call_soon(done.set, 5)
    assert loop.wait(done, 10.0) == 5


@pytest.mark.parametrize("seconds", [3e6, 1e12, 1e300, float("inf")])
def test_no_limit_is_too_long(loop: Loop, seconds: float) -> None:
    done, answers = Completion(), []
    waiting = threading.Thread(target=lambda: answers.append(loop.wait(done, seconds)))
    with loop.held():
        loop.call_later(seconds, lambda: None)
    waiting.start()
    other = Completion()  # there are two callers now: one polls, one follows
    with loop.held():
        loop.call_later(0.02, other.set, 1)
        loop.call_later(0.04, done.set, 2)
    assert loop.wait(other, seconds) == 1
    waiting.join(10)
    assert answers == [2]
    with loop.held(), pytest.raises(ValueError, match="not a number"):
        loop.call_later(float("nan"), lambda: None)


def test_timers_fire_in_order_and_cancelled_ones_do_not(loop: Loop) -> None:
    fired: list[str] = []
    done = Completion()
    with loop.held():
        loop.call_later(0.02, done.set, None)
        loop.call_later(0.01, fired.append, "b")
        loop.call_later(0.005, fired.append, "a")
        loop.call_later(0.001, fired.append, "never").cancel()
    loop.wait(done, 10.0)
    assert fired == ["a", "b"]


def test_a_failing_call_is_logged_and_the_rest_goes_on(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    done = Completion()
    loop.call_soon(fail)
    loop.call_soon(done.set, "after")
    assert loop.wait(done, 10.0) == "after"
    assert "a call on the loop failed" in caplog.text


def test_offloaded_work_runs_on_the_waiting_thread_without_the_baton(loop: Loop) -> None:
    done = Completion()
    seen: list[tuple[int, bool]] = []

    def work() -> None:
        seen.append((threading.get_ident(), loop.held_here()))
        loop.call_soon(done.set, "worked")

    with loop.held():
        assert done.offload(work)
        assert not done.offload(work)
    assert loop.wait(done, 10.0) == "worked"
    assert seen == [(threading.get_ident(), False)]


def test_an_error_is_raised_to_the_caller(loop: Loop) -> None:
    done = Completion()
    loop.call_soon(done.fail, errors.AbortedError(None, None, "gone"))
    with pytest.raises(errors.AbortedError, match="gone"):
        loop.wait(done, 10.0)


class TakenBack(Completion):
    """A completion whose caller takes its gate back between any two looks at it, as threads without a lock may."""

    def __init__(self) -> None:
        self.gates: list[Gate | None] = []
        super().__init__()

    @property
    def _gate(self) -> Gate | None:
        return self.gates.pop() if self.gates else None

    @_gate.setter
    def _gate(self, gate: Gate | None) -> None:
        self.gates = [gate]


@pytest.mark.parametrize(
    "end",
    [
        lambda completion: completion.set(1),
        lambda completion: completion.fail(errors.AbortedError(None, None, "")),
        lambda completion: completion.offload(lambda: None),
    ],
    ids=["set", "fail", "offload"],
)
def test_a_caller_that_stops_waiting_while_it_is_answered_is_no_harm(end: Callable[[Completion], None]) -> None:
    completion = TakenBack()
    gate = completion._gate = Gate()
    end(completion)
    assert gate.wait(0)


def test_ctrl_c_ends_a_wait_but_never_strikes_core_code(loop: Loop) -> None:
    finished: list[bool] = []

    def core() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
        finished.append(True)

    done = Completion()
    with pytest.raises(KeyboardInterrupt):
        with loop.held():
            core()
    assert finished == [True]
    with pytest.raises(KeyboardInterrupt):
        loop.call_soon(os.kill, os.getpid(), signal.SIGINT)
        loop.wait(done, 10.0)


def test_waiting_on_the_baton_is_refused(loop: Loop) -> None:
    with loop.held(), pytest.raises(RuntimeError, match="never end"):
        loop.wait(Completion(), 1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
def test_an_inherited_loop_raises_in_a_forked_child(loop: Loop) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with loop.held():
                pass
        except RuntimeError:
            code = 0
        os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_pool_never_queues_work_behind_work_that_blocks() -> None:
    pool = Pool("elastic")
    gate = threading.Event()
    ran = threading.Event()

    def block() -> None:
        gate.wait(10)

    for _ in range(10):
        pool.submit(block)
    pool.submit(ran.set)
    assert ran.wait(10)
    gate.set()
    pool.close()


def test_a_pool_counts_its_threads_whatever_a_task_raises() -> None:
    pool = Pool("troubled", limit=1)
    for error in (SystemExit, KeyboardInterrupt, ValueError):
        ended = threading.Event()

        def task(error: type[BaseException] = error, ended: threading.Event = ended) -> None:
            ended.set()
            raise error

        pool.submit(task)
        assert ended.wait(10)
    last = threading.Event()
    pool.submit(last.set)
    assert last.wait(10), "a thread that ended would still be counted, and no other made"
    pool.close()


def test_a_pool_that_gets_no_thread_uses_those_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: Any) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    pool = Pool("poor")
    gate, begun, ended = threading.Event(), threading.Event(), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threads, "start", none)
        with pytest.raises(RuntimeError, match="can't start"):
            pool.submit(ended.set)
        assert pool.statistics() == {"threads": 0, "idle": 0, "waiting": 0}

    def holds() -> None:
        begun.set()
        gate.wait(10)

    pool.submit(holds)
    assert begun.wait(10) and not ended.is_set()
    with monkeypatch.context() as patch:
        patch.setattr(threads, "start", none)
        pool.submit(ended.set)
    gate.set()
    assert ended.wait(10)
    pool.close()
