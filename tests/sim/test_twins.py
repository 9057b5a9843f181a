"""Two processes that both say they are one task at one address: who was there first keeps its name while it lives."""

from __future__ import annotations

import dataclasses

import pytest

from dtfzmq.base import errors
from dtfzmq.wire import seldom
from tests.kit.simworld import SETTINGS, SimDone, SimTask, World

PS, WORKER = "/job:t/replica:0/task:0", "/job:t/replica:0/task:1"
# Above any of the simulated network.
ROUND_TRIP = 0.05


@pytest.fixture
def world() -> World:
    made = World(5, 2)
    assert works(made, 1)
    return made


def works(world: World, number: int) -> bool:
    """Whether a step of the worker with a part at the ps ends well at once."""
    step = world.run_step(number, WORKER, [(WORKER, PS, 10), (PS, WORKER, 10)], {})
    world.loop.run(ROUND_TRIP)
    return step.over and step.error is None


def twin(world: World) -> SimTask:
    """On another machine, where the address of the specification leads to it."""
    made = SimTask(world, WORKER, "t1:1500")
    made.host.name = "twin"
    made.endpoint.me = dataclasses.replace(made.endpoint.me, address=world.tasks[WORKER].endpoint.me.address)
    return made


def calls(world: World, task: SimTask) -> list[errors.OpError | None]:
    """A list that gets what becomes of a call of the ps: the error that refuses it, None once there is a link."""
    ended: list[errors.OpError | None] = []
    task.on_link_up = lambda link: ended.append(None)  # type: ignore[method-assign]  # to hear of it
    world.link(task, PS).call(SimDone(1, []), lambda reply, error: ended.append(error))
    return ended


def holder(world: World) -> int:
    link = world.tasks[PS].endpoint.known(WORKER)
    assert link is not None
    return link.incarnation


@pytest.mark.parametrize("state", ["answers", "busy"])
def test_a_twin_is_refused_and_the_first_goes_on(world: World, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(seldom, "warn", lambda subject, text, level=0: said.append(text))
    first, lost = world.tasks[WORKER], []
    first.on_link_lost = world.tasks[PS].on_link_lost = lambda link, error: lost.append(error)  # type: ignore[method-assign]  # to hear of it
    if state == "busy":
        world.net.busy(first.host)
    ended = calls(world, twin(world))
    world.loop.run(ROUND_TRIP if state == "answers" else SETTINGS.limit)
    (error,) = ended
    assert isinstance(error, errors.AlreadyExistsError)
    assert f"Task {WORKER} is taken: it runs at sim:{first.endpoint.me.pid}" in error.message
    assert "Give the newcomer another index" in error.message
    assert len(said) == 1 and "is taken" in said[0]
    world.net.resume(first.host)
    assert works(world, 2)
    assert holder(world) == first.endpoint.me.incarnation and not lost


def test_a_twin_takes_the_place_of_one_that_is_stopped_once_its_heartbeats_tell(world: World) -> None:
    world.net.stop(world.tasks[WORKER].host)
    late = twin(world)
    ended = calls(world, late)
    world.loop.run(ROUND_TRIP)
    assert not ended
    world.loop.run(SETTINGS.silence)
    assert ended == [None] and holder(world) == late.endpoint.me.incarnation


@pytest.mark.parametrize("after", [0.0, 0.05])
def test_who_is_started_again_after_it_was_killed_has_its_place_at_once(world: World, after: float) -> None:
    world.net.kill(world.tasks[WORKER].host)
    world.loop.run(after)
    again = world.start(WORKER)
    ended = calls(world, again)
    world.loop.run(ROUND_TRIP)
    assert ended == [None] and holder(world) == again.endpoint.me.incarnation
    assert works(world, 2)
