"""Which plans of a session are given up, and who is told."""

from __future__ import annotations

from typing import Any

import pytest

from dtfzmq.cluster import plans as module
from dtfzmq.cluster.plans import PlanPart, Plans, StepPlan


class Peer:
    """A worker that hears which parts it may forget."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, message: Any) -> None:
        self.told.append(message.handle)


class World:
    def __init__(self, limit: int = 0) -> None:
        self.plans = Plans("session", limit)
        self.peers = {"a": Peer(), "b": Peer()}

    def ready(self, name: str, size: int = 0, tasks: str = "ab") -> StepPlan:
        """A plan that has run once, with a part called `name` on each of `tasks`."""
        plan = StepPlan(((), (name,), ()))
        self.plans.add(plan)
        self.plans.begin(plan)
        plan.waiters, plan.size, plan.tasks = None, size, frozenset(tasks)
        plan.parts = tuple(PlanPart(task, self.peers[task], name, (), (), False) for task in tasks)
        self.plans.call(hash(name), plan)
        self.plans.trim()
        self.plans.end(plan)
        return plan

    def told(self) -> list[list[str]]:
        return [peer.told for peer in self.peers.values()]

    def kept(self) -> list[str]:
        return [plan.signature[1][0] for plan in self.plans.calls.values()]


def test_the_least_recently_used_goes_first() -> None:
    world = World(3)
    first = world.ready("p")
    world.ready("q")
    world.ready("r", tasks="a")
    world.plans.begin(first)
    world.plans.end(first)
    world.ready("s")
    assert world.kept() == ["p", "r", "s"] and world.told() == [["q"], ["q"]]
    world.ready("t")
    assert world.kept() == ["p", "s", "t"] and world.told() == [["q", "r"], ["q"]]


def test_one_that_is_planned_or_runs_stays() -> None:
    world = World(1)
    runs = world.ready("p")
    world.plans.begin(runs)
    planned = StepPlan(((), ("q",), ()))
    world.plans.add(planned)
    world.ready("r")
    assert world.kept() == ["p"] and len(world.plans) == 2
    assert world.plans.find(planned.signature, False) is planned
    world.plans.end(runs)
    assert not world.kept() and world.told() == [["r", "p"], ["r", "p"]]


def test_large_ones_go_before_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEW", 2)
    monkeypatch.setattr(module, "BYTES", 100)
    world = World()
    world.ready("p", 1000)
    world.ready("q", 1000)
    assert len(world.plans) == 2
    for name in "rstu":
        world.ready(name, 10)
    assert world.kept() == ["r", "s", "t", "u"]


def test_what_a_lost_task_leaves_at_others_is_forgotten() -> None:
    world = World()
    world.ready("p")
    world.ready("q", tasks="b")
    world.plans.forget("a")
    assert world.kept() == ["q"] and world.told() == [[], ["p"]]
    world.plans.forget("a")
    assert world.told() == [[], ["p"]]


def test_a_plan_has_one_number() -> None:
    world = World()
    plan = world.ready("p")
    world.plans.call(7, plan)
    assert list(world.plans.calls) == [7]
    other = world.ready("q")
    world.plans.call(7, other)
    world.plans.drop(plan)
    assert world.plans.calls == {7: other}
