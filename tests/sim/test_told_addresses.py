"""A task that another came to dials it back where the specification says, and believes no other address too much."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dtfzmq.base import errors
from dtfzmq.wire.transport import CONTROL
from tests.kit.simworld import SETTINGS, SimStep, World

HERE, THERE, THIRD = (f"/job:t/replica:0/task:{i}" for i in range(3))
NOWHERE = "t9:9"


def met(told: str, known: str) -> World:
    """THERE came to HERE and told an address, while the specification of HERE has another for it ("": none)."""
    world = World(5, 3)
    there = world.tasks[THERE].endpoint
    there.me = dataclasses.replace(there.me, address=f"zmq://{told}")
    world.tasks[HERE].endpoint._addresses = {THERE: known} if known else {}
    assert done(world, step(world, 1))
    return world


def step(world: World, number: int) -> SimStep:
    """A step in which HERE calls nobody and sends nothing."""
    return world.run_step(number, THERE, [(THERE, HERE, 10)], {})


def done(world: World, begun: SimStep) -> bool:
    world.loop.run(0.05)
    return begun.over and begun.error is None


def link(world: World, source: str, target: str) -> Any:
    found = world.tasks[source].endpoint.known(target)
    assert found is not None
    return found


def blip(world: World) -> None:
    """The connection ends, and THERE does not come back yet."""
    link(world, THERE, HERE).addresses = [NOWHERE]
    for end in world.net.pairs():
        world.net.end_lane(end)


def test_the_specification_says_where_a_task_is_that_came_by_itself() -> None:
    world = met(told="t0:1000", known="t1:1001")
    blip(world)
    world.loop.run(0.1)
    assert done(world, step(world, 2))
    assert world.counts["link down"] and not world.counts["link lost"]


@pytest.mark.parametrize("told", ["t0:1000", "t2:1002"], ids=["the task itself", "another task"])
def test_what_is_reached_where_a_task_says_that_it_is_does_not_end_its_link(told: str) -> None:
    world = met(told, known="")
    blip(world)
    world.loop.run(SETTINGS.refused_limit / 2)
    link(world, THERE, HERE).addresses = ["t0:1000"]
    assert "looked for" in link(world, HERE, THERE).reason()
    world.loop.run(SETTINGS.refused_limit / 2)
    assert done(world, step(world, 2))
    assert world.counts["link down"] and not world.counts["link lost"]


def test_who_is_told_to_be_where_another_is_and_stays_away_is_lost_in_time() -> None:
    world = met(told="t2:1002", known="")
    lost = link(world, HERE, THERE)
    blip(world)
    world.loop.run(SETTINGS.limit / 2 + 0.1)
    assert isinstance(lost.error, errors.UnavailableError)
    assert f"{HERE} looked for {THERE} and reached {THIRD}" in lost.error.message


def test_a_specification_that_is_wrong_is_told_at_once() -> None:
    world = met(told="t1:1001", known="t2:1002")
    lost = link(world, HERE, THERE)
    blip(world)
    world.loop.run(0.1)
    assert isinstance(lost.error, errors.FailedPreconditionError)
    assert f"reached {THIRD}" in lost.error.message and "correct the addresses" in lost.error.message


def test_a_second_way_that_is_refused_does_not_keep_a_task_from_dialling_later() -> None:
    world = met(told="t1:1001", known="t1:1001")
    here = link(world, HERE, THERE)
    dialler = here._diallers[CONTROL]
    dialler.start()
    attempt = dialler.channel
    attempt.close()
    here.refused(attempt, errors.AbortedError(None, None, "It was refused."), here.peer, -1)
    assert not dialler.running
    blip(world)
    world.loop.run(0.1)
    assert done(world, step(world, 2))
    assert world.counts["link down"] and not world.counts["link lost"]
