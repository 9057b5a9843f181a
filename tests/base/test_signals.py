"""Handlers of signals wait amid core code, whatever strikes the steps by which they are made to."""

from __future__ import annotations

import dis
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from dtfzmq.base import signals
from dtfzmq.base.completion import Completion
from dtfzmq.base.loop import Loop
from dtfzmq.base.signals import deferral
from tests.kit.waiting import wait_for

FIRST, SECOND, THIRD = signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH


class Out(Exception):
    """What a handler raises."""


class Program:
    """Three handlers and what they heard; `then` is what the first does."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.then: Callable[[], None] = lambda: None

    def first(self, number: int, frame: Any) -> None:
        self.heard.append(number)
        self.then()

    def other(self, number: int, frame: Any) -> None:
        assert isinstance(frame, FrameType)
        self.heard.append(number)


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    program.then = raising
    handlers = {FIRST: program.first, SECOND: program.other, THIRD: program.other}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    stretch()  # learns the handlers
    yield program
    assert not deferral.on
    for number, handler in before.items():
        signal.signal(number, handler)


def raising() -> None:
    raise Out


class Nothing:
    def wake(self) -> None:
        pass


def stretch(amid: Callable[[], None] = lambda: None) -> None:
    token = deferral.begin(Nothing())
    try:
        amid()
    finally:
        deferral.end(token)


def in_place(program: Program) -> None:
    assert [signal.getsignal(n) for n in (FIRST, SECOND, THIRD)] == [program.first, program.other, program.other]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not deferral.on and not deferral._came


LOOKS = ("RESUME", "CALL", "JUMP_BACKWARD", "JUMP_ABSOLUTE", "POP_JUMP_BACKWARD")


class Stages:
    """Calls `strike` at one of the stages of what runs here: where CPython looks for signals in the code of signals.py.

    That is before the first step of a function, and after a call or a jump back.
    """

    def __init__(self, at: int, strike: Callable[[], None]) -> None:
        self.at = at
        self.strike = strike
        self.count = 0
        self._names: dict[CodeType, dict[int, str]] = {}
        self._last: dict[FrameType, int] = {}

    def __enter__(self) -> Stages:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(self._before)
        self._last.clear()

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != signals.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            code = frame.f_code
            names = self._names.get(code)
            if names is None:
                names = self._names[code] = {i.offset: i.opname for i in dis.get_instructions(code)}
            last = self._last.get(frame)
            self._last[frame] = frame.f_lasti
            if last is None or names.get(last, "").startswith(LOOKS):
                self.count += 1
                if self.count == self.at:
                    self.strike()
        return self._trace


def strike(number: int = FIRST) -> None:
    signal.raise_signal(number)


def every_stage(run: Callable[[int], int]) -> None:
    """Call `run(at)` for 1, 2, ... until it says that there were fewer stages than that."""
    at = 1
    while run(at) >= at:
        at += 1
    assert at > 20, "there are more than so many"


def test_a_handler_that_raises_at_any_stage_leaves_nothing_swapped_and_loses_nothing(program: Program) -> None:
    def run(at: int) -> int:
        program.heard.clear()
        began: list[bool] = []

        def amid() -> None:
            began.append(True)
            strike(SECOND)
            strike(THIRD)

        stages = Stages(at, strike)
        try:
            with stages:
                stretch(amid)
        except Out:
            assert FIRST in program.heard
        else:
            assert stages.count < at
        in_place(program)
        others = [number for number in program.heard if number != FIRST]
        assert others == ([SECOND, THIRD] if began else [])
        assert program.heard.count(FIRST) == (stages.count >= at)
        return stages.count

    every_stage(run)


def test_a_handler_that_sets_another_at_any_stage_is_obeyed(program: Program) -> None:
    def another(number: int, frame: Any) -> None:
        program.heard.append(-number)

    def then() -> None:
        signal.signal(SECOND, another)

    def run(at: int) -> int:
        signal.signal(SECOND, program.other)
        stretch()
        program.then = then
        stages = Stages(at, strike)
        with stages:
            stretch()
        if stages.count >= at:
            assert signal.getsignal(SECOND) is another
            strike(SECOND)
            assert program.heard[-1] == -SECOND
            stretch(lambda: strike(SECOND))
            assert program.heard[-2:] == [-SECOND, -SECOND]
            assert signal.getsignal(SECOND) is another
            signal.signal(SECOND, program.other)
        in_place(program)
        return stages.count

    every_stage(run)


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "raises"])
def test_a_handler_may_come_to_core_code_itself_at_any_stage(program: Program, ends: bool) -> None:
    def run(at: int) -> int:
        program.heard.clear()
        amid: list[bool] = []

        def nested() -> None:
            stretch(lambda: amid.append(deferral.on))
            if ends:
                raise Out

        program.then = nested
        stages = Stages(at, strike)
        try:
            with stages:
                stretch(lambda: strike(SECOND))
        except Out:
            assert ends
        in_place(program)
        if stages.count >= at:
            assert amid == [True] and program.heard.count(FIRST) == 1
        return stages.count

    every_stage(run)


@pytest.mark.parametrize("which", [0, 1])
def test_a_signal_within_the_call_that_swaps_is_no_harm(
    program: Program, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    """The system's `signal` runs the handlers of what came before it does anything."""
    own = signals._setsignal

    def another(number: int, frame: Any) -> None:
        program.heard.append(-number)

    def sets() -> None:
        own(SECOND, another)

    count, at = 0, 0
    program.then = (raising, sets)[which]

    def swap(number: int, handler: Any) -> Any:
        nonlocal count
        count += 1
        if count == at:
            strike()
        return own(number, handler)

    monkeypatch.setattr(signals, "_setsignal", swap)
    while count >= at:
        own(SECOND, program.other)
        stretch()
        program.heard.clear()
        count, at = 0, at + 1
        try:
            stretch(lambda: strike(THIRD))
        except Out:
            assert which == 0
        assert program.heard.count(FIRST) == (count >= at)
        if which == 1 and count >= at:
            assert signal.getsignal(SECOND) is another
            assert program.heard.count(THIRD) == 1
            own(SECOND, program.other)
        in_place(program)
    assert at > 6


def test_handlers_run_in_the_order_of_their_signals_and_none_is_lost_to_another(program: Program) -> None:
    def amid() -> None:
        for number in (THIRD, FIRST, SECOND, THIRD):
            strike(number)
        assert program.heard == []

    with pytest.raises(Out):
        stretch(amid)
    assert program.heard == [THIRD, FIRST, SECOND]
    in_place(program)


def test_a_handler_that_is_set_or_taken_away_between_two_stretches_is_seen(program: Program) -> None:
    signal.signal(SECOND, signal.SIG_IGN)
    stretch(lambda: strike(SECOND))
    assert signal.getsignal(SECOND) is signal.SIG_IGN
    signal.signal(SECOND, program.other)
    stretch(lambda: strike(SECOND))
    assert program.heard == [SECOND]
    in_place(program)


def test_a_handler_that_is_set_amid_a_stretch_stays(program: Program) -> None:
    def amid() -> None:
        signal.signal(SECOND, program.first)

    stretch(amid)
    assert signal.getsignal(SECOND) == program.first
    signal.signal(SECOND, program.other)


def test_what_may_take_long_is_struck_and_what_it_does_not_catch_is_told_from_its_own(program: Program) -> None:
    def long() -> str:
        strike()
        return "not come to"

    def catches() -> str:
        try:
            return long()
        except Out:
            return "caught"

    said: list[Any] = []

    def amid() -> None:
        said.append(deferral.heard(catches))
        assert deferral.on
        with pytest.raises(signals.Struck) as caught:
            deferral.heard(long)
        assert deferral.on and isinstance(caught.value.error, Out)
        with pytest.raises(Out):
            deferral.heard(raising)
        strike()
        with pytest.raises(signals.Struck):
            deferral.hear()
        deferral.hear()

    with signals.deferred():
        amid()
    assert said == ["caught"]
    in_place(program)


def test_a_stretch_amid_what_may_take_long_leaves_the_outer_one_whole(program: Program) -> None:
    with signals.deferred():
        deferral.heard(stretch)
        strike()
        assert program.heard == []
        program.then = lambda: None
    assert program.heard == [FIRST]
    in_place(program)


def test_what_a_stretch_left_in_a_handlers_place_is_taken_out_by_the_next(program: Program) -> None:
    signal.signal(FIRST, signals._Deferring(program.first))
    stretch()
    in_place(program)


def test_threads_have_nothing_to_defer(program: Program) -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(deferral.begin(None)))
    thread.start()
    thread.join()
    assert found == [None] and not deferral.on


def test_the_numbers_of_a_wakeup_descriptor_come_once(program: Program) -> None:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    try:
        stretch(lambda: strike(SECOND))
        assert os.read(read, 100) == bytes([SECOND])
    finally:
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["main thread", "another"])
def test_a_child_that_is_forked_amid_a_stretch_has_the_handlers(program: Program, elsewhere: bool) -> None:
    statuses: list[int] = []

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                in_place(program)
                program.then = lambda: None
                strike()
                stretch(strike)
                code = 0 if program.heard == [FIRST, FIRST] else 2
            finally:
                os._exit(code)
        statuses.append(os.waitpid(pid, 0)[1])

    def amid() -> None:
        if elsewhere:
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
        else:
            fork()

    stretch(amid)
    assert [os.waitstatus_to_exitcode(status) for status in statuses] == [0]


@pytest.fixture(params=[0.0, 0.005], ids=["server", "client"])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    loop = Loop(grace=request.param)
    loop.add_ref()
    yield loop
    loop.release()


def test_a_handler_that_raises_ends_a_wait_with_the_baton_given_back(program: Program, loop: Loop) -> None:
    for _ in range(20):
        loop.call_soon(os.kill, os.getpid(), FIRST)
        with pytest.raises(Out):
            loop.wait(Completion(), 30.0)
        with loop.held():
            assert loop.held_here()
        assert not loop.held_here()


def test_a_wait_goes_on_after_a_handler_that_only_looks(program: Program, loop: Loop) -> None:
    done = Completion()
    program.then = lambda: loop.call_soon(done.set, "set") if len(program.heard) == 5 else kill_soon()

    def kill_soon() -> None:
        loop.call_soon(os.kill, os.getpid(), FIRST)

    kill_soon()
    assert loop.wait(done, 30.0) == "set"
    assert program.heard == [FIRST] * 5


def test_a_caller_that_another_polls_for_is_struck_without_harm(program: Program, loop: Loop) -> None:
    first, polling = Completion(), threading.Event()

    def lead() -> None:
        loop.call_soon(polling.set)
        assert loop.wait(first, 30.0) == 1

    leader = threading.Thread(target=lead)
    leader.start()
    try:
        assert polling.wait(30)
        for _ in range(3):
            wait_for(lambda: loop._holder == leader.ident)
            waited = Completion()
            loop.call_soon(os.kill, os.getpid(), FIRST)
            with pytest.raises(Out):
                loop.wait(waited, 30.0)
            assert waited not in loop._followers
    finally:
        loop.call_soon(first.set, 1)
        leader.join()


def test_work_that_a_caller_was_given_and_left_is_done_elsewhere(program: Program, loop: Loop) -> None:
    done, ran = Completion(), threading.Event()

    def core() -> None:
        strike()
        assert done.offload(ran.set)

    with pytest.raises(Out):
        loop.call(done, 30.0, core)
    assert ran.wait(30)
    assert not done.offload(ran.set), "nobody would do it"
