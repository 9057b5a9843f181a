"""Plannings: what those off the baton look at stands still meanwhile, and what becomes of a fault in one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.cluster import planning
from tests.kit import servers
from tests.kit.waiting import wait_for

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"


class Held:
    """A session on `worker`, with a large graph, whose plannings call `inside(nodes)` before they prune."""

    def __init__(self, worker: tf.train.Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inside: Callable[[Any], None] = lambda nodes: None
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self.worker = worker
        prune = planning.prune

        def held(nodes: Any, *others: Any) -> Any:
            self.inside(nodes)
            return prune(nodes, *others)

        monkeypatch.setattr(planning, "prune", held)
        with tf.device(WORKER):
            for _ in range(planning.INLINE_NODES + 1):
                tf.no_op()
            self.session = tf.Session(worker.target)
            self.session.run(tf.constant(0))
        (self.known,) = worker.core.master.sessions.values()

    def run(self, fetch: Any, value: float) -> None:
        """Run `fetch` on a thread of its own; it must give `value`."""

        def work() -> None:
            try:
                assert self.session.run(fetch) == value
            except BaseException as error:
                self.errors.append(error)

        self._threads.append(threading.Thread(target=work))
        self._threads[-1].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()
        assert self.errors == []


@pytest.fixture()
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    both = servers.start({"ps": 1, "worker": 1}, tf.ConfigProto(device_count={"CPU": 2}))
    with both as made, tf.Graph().as_default():
        found = Held(made["worker:0"], monkeypatch)
        with found.session:
            yield found


def test_a_graph_that_grows_is_planned_as_it_was(held: Held) -> None:
    began, seen = threading.Event(), list[int]()

    def grow(nodes: Any) -> None:
        before = len(held.known.nodes)
        if began.is_set():
            return
        began.set()
        seen.append(len(nodes))
        wait_for(lambda: len(held.known.nodes) > before, 10, "more operations")
        seen.append(len(nodes))

    held.inside = grow
    held.run(tf.constant(1.0) + 1.0, 2.0)
    assert began.wait(10)
    held.run(tf.constant(2.0) + 1.0, 3.0)
    held.join()
    assert seen[0] == seen[1]


def test_devices_are_learnt_of_between_plannings(held: Held) -> None:
    """Else one that looks for them may find a task that was asked, and not what it said."""
    master, turns, visible = held.worker.core.master, list[int](), list[str]()

    def look(nodes: Any) -> None:
        turns.append(0)
        if len(turns) == 1:  # of the one that needs the devices of the ps
            wait_for(lambda: held.known.planning, 10, "another that waits for its turn")
        elif len(turns) == 2:
            wait_for(lambda: master.peers.met(PS), 10, "what the ps has")
            with held.worker.loop.held():
                visible.extend(held.known.table.visible())

    held.inside = look
    with tf.device(PS + "/device:CPU:1"):
        there = tf.random_uniform([], 1.0, 1.0) + 1.0
    held.run(there, 2.0)
    wait_for(lambda: turns, 10, "its planning")
    held.run(tf.constant(2.0) + 1.0, 3.0)
    held.join()
    assert PS + "/device:CPU:0" in visible and PS + "/device:CPU:1" not in visible
    assert len(turns) == 3


@pytest.mark.parametrize("stage", ["prune", "partition_by_task"])
def test_a_bug_in_planning_is_not_told_as_the_callers_mistake(monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    def fault(*args: Any) -> Any:
        return [][1]

    with tf.Graph().as_default(), tf.Session() as session:
        fetch = tf.constant(1.0) + 1.0
        with monkeypatch.context() as planted:
            planted.setattr(planning, stage, fault)
            with pytest.raises(
                tf.errors.InternalError, match="IndexError: list index out of range. This is a bug"
            ) as raised:
                session.run(fetch)
            assert "in fault" in raised.value.remote_traceback
        assert session.run(fetch) == 2
