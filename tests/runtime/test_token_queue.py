"""Token queues: who waits in vain is told whom it waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.node import Node
from dtfzmq.runtime import stateful
from dtfzmq.runtime.resources import ResourceManager
from dtfzmq.runtime.token_queue import TokenQueue


class Step:
    """A step whose master is the task `member`."""

    def __init__(self, member: str) -> None:
        self.member = member
        self.held = False
        self.watchers: list[Callable[[], None]] = []

    def on_cancel(self, fn: Callable[[], None], on_hold: Callable[[], None] | None = None) -> int:
        self.watchers.append(fn)
        return len(self.watchers) - 1

    def off_cancel(self, token: int) -> None:
        """Nothing cancels here."""


class Done:
    def __init__(self) -> None:
        self.values: list[Any] = []
        self.errors: list[errors.OpError] = []

    def __call__(self, value: Any = None) -> None:
        self.values.append(value)

    def fail(self, error: errors.OpError) -> None:
        self.errors.append(error)


def tokens(members: int) -> TokenQueue:
    return TokenQueue("t", -1, [dtypes.int64], [TensorShape([])], members)


def take(queue: TokenQueue, member: str) -> Done:
    done = Done()
    queue.dequeue(Step(member), done)
    return done


def give(queue: TokenQueue, member: str, *steps: int) -> None:
    done = Done()
    queue.enqueue_many(Step(member), (np.array(steps, np.int64),), done)
    assert done.values and not done.errors


def test_those_who_wait_for_a_lost_worker_are_told() -> None:
    queue = tokens(3)
    give(queue, "w0", 0, 0, 0)
    for member in ("w0", "w1", "w2"):
        assert take(queue, member).values == [0]
    waiting = [take(queue, member) for member in ("w0", "w1", "w2")]
    queue.lost("w2", "it was killed")
    for done in waiting:
        (error,) = done.errors
        assert isinstance(error, errors.UnavailableError) and not error.derived
        assert "needs gradients of 3 workers and 2 are left: w2 was lost (it was killed)" in error.message
    assert take(queue, "w0").errors, "it would wait for the lost one too"


def test_a_worker_that_is_back_is_counted_again() -> None:
    queue = tokens(2)
    give(queue, "w0", 0, 0)
    for member in ("w0", "w1"):
        take(queue, member)
    queue.lost("w1", "gone")
    back, other = take(queue, "w1"), take(queue, "w0")
    assert not back.errors and not other.errors
    give(queue, "w0", 1, 1)
    assert back.values == other.values == [1]


def test_tokens_that_are_there_are_given_even_so() -> None:
    queue = tokens(2)
    give(queue, "w0", 0, 0, 0)
    for member in ("w0", "w1"):
        take(queue, member)
    queue.lost("w1", "gone")
    assert take(queue, "w0").values == [0]
    assert take(queue, "w0").errors


def test_backups_take_the_place_of_a_lost_worker() -> None:
    queue = tokens(2)
    give(queue, "w0", 0, 0, 0)
    for member in ("w0", "w1", "w2"):
        take(queue, member)
    waiting = take(queue, "w0")
    queue.lost("w2", "gone")
    assert not waiting.errors
    queue.lost("w1", "gone")
    assert waiting.errors


def test_those_who_wait_for_a_lost_chief_are_told() -> None:
    queue = tokens(1)
    give(queue, "chief", 0)
    take(queue, "w1")
    waiting = take(queue, "w1")
    queue.lost("chief", "gone")
    assert "nobody is left who gives tokens out: chief was lost (gone)" in waiting.errors[0].message
    give(queue, "chief", 5)
    assert take(queue, "w1").values == [5]
    assert not take(queue, "w1").errors


@pytest.mark.parametrize("member", ["", "stranger"])
def test_others_that_are_lost_do_not_matter(member: str) -> None:
    queue = tokens(1)
    waiting = take(queue, "w0")
    queue.lost(member, "gone")
    assert not waiting.errors


def test_a_manager_tells_the_resources_that_count_on_a_task() -> None:
    resources = ResourceManager("ps")
    queue = resources.lookup_or_create("", "Queue", "t", lambda: tokens(2))
    resources.lookup_or_create("", "Variable", "v", object)
    for member in ("w0", "w1"):
        take(queue, member)
    waiting = take(queue, "w0")
    resources.lost("w1", "gone")
    assert waiting.errors


def test_a_program_of_fewer_workers_goes_on_without_those_that_were_lost() -> None:
    resources, attrs = ResourceManager("ps"), {"capacity": -1, "component_types": [dtypes.int64]}

    def program(members: int) -> TokenQueue:
        more = {"shapes": [TensorShape([])], "container": "", "shared_name": "t", "members": members}
        node = Node("tokens", "TokenQueue", attrs={**attrs, **more})
        found = stateful.resource(node, resources)()
        assert isinstance(found, TokenQueue)
        return found

    queue = program(3)
    for member in ("w0", "w1", "w2"):
        take(queue, member)
    queue.lost("w2", "gone")
    assert take(queue, "w0").errors
    assert program(3) is queue and take(queue, "w0").errors
    assert program(2) is queue
    assert not take(queue, "w0").errors and not take(queue, "w1").errors
    queue.lost("w1", "gone")
    assert take(queue, "w0").errors


class Timers:
    """A loop with a hand-moved clock."""

    def __init__(self) -> None:
        self.time = 100.0
        self.due: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def now(self) -> float:
        return self.time

    def call_soon(self, fn: Callable[..., None], *args: Any) -> None:
        fn(*args)

    def call_later(self, delay: float, fn: Callable[..., None], *args: Any) -> None:
        self.due.append((self.time + delay, fn, args))

    def move(self, seconds: float) -> None:
        self.time += seconds
        ready = [call for call in self.due if call[0] <= self.time]
        self.due = [call for call in self.due if call[0] > self.time]
        for _, fn, args in ready:
            fn(*args)


def test_a_long_wait_is_told_of_once_with_who_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    loop, queue = Timers(), tokens(3)

    def wait(member: str) -> Done:
        step, done = Step(member), Done()
        step.loop = loop  # type: ignore[attr-defined]  # what a real step has
        queue.dequeue(step, done)
        return done

    wait("worker/0")
    loop.move(queue.slow_s)
    assert "no token for 30 s. Waiting: worker/0; only 1 of the 3 workers that a step needs have come" in caplog.text
    caplog.clear()
    wait("worker/1")
    loop.move(queue.slow_s)
    assert not caplog.text  # once for each time that no token comes
    done = Done()
    giver = Step("worker/0")
    giver.loop = loop  # type: ignore[attr-defined]  # what a real step has
    queue.enqueue_many(giver, (np.array([1, 1, 1], np.int64),), done)
    for member in ("worker/2", "worker/0", "worker/1"):
        wait(member)
    loop.move(queue.slow_s)
    loop.move(queue.slow_s)
    assert "Waiting: worker/0, worker/1; not waiting, so still at their gradients or gone: worker/2." in caplog.text


def test_nobody_looks_where_nobody_waits() -> None:
    loop, queue = Timers(), tokens(1)
    step = Step("worker/0")
    step.loop = loop  # type: ignore[attr-defined]  # what a real step has
    queue.dequeue(step, Done())
    queue.enqueue_many(step, (np.array([1], np.int64),), Done())
    loop.move(queue.slow_s)
    assert not loop.due


def test_what_a_failed_dequeue_had_is_there_for_the_next() -> None:
    queue = tokens(2)
    give(queue, "w0", 5, 5, 7)
    for member in ("w0", "w1"):
        assert take(queue, member).values == [5]
    many = Done()
    queue.dequeue_many(Step("w0"), 2, many)
    queue.lost("w1", "gone")
    assert many.errors and queue.size() == 1
    assert take(queue, "w0").values == [7]
