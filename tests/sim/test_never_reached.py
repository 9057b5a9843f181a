"""Tasks that were never reached: who is stopped is told apart from who is late or busy."""

from __future__ import annotations

import pytest

from dtfzmq.base import errors
from dtfzmq.wire import addresses
from tests.kit.simworld import SETTINGS, SimStep, World

ONE, OTHER = "/job:t/replica:0/task:0", "/job:t/replica:0/task:1"
#: Each attempt ends after the connect timeout, and the one that is under way then is waited for.
SOON = SETTINGS.limit + 2 * SETTINGS.connect_timeout


def begun(world: World) -> SimStep:
    return world.run_step(1, ONE, [(ONE, OTHER, 10)], {})


def test_who_was_stopped_before_is_told_within_the_limit() -> None:
    world = World(5, 2)
    world.net.stop(world.tasks[OTHER].host)
    step = begun(world)
    world.loop.run(SOON)
    assert step.over, "long before the connect limit"
    assert isinstance(step.error, errors.UnavailableError)
    assert OTHER in step.error.message and world.addresses[OTHER] in step.error.message
    assert "Its process is stopped" in step.error.message
    world.net.resume(world.tasks[OTHER].host)
    again = world.run_step(2, ONE, [(ONE, OTHER, 10)], {})
    world.loop.run(1.0)
    assert again.over and again.error is None


def test_who_is_stopped_for_less_than_that_is_waited_for() -> None:
    world = World(5, 2)
    world.net.stop(world.tasks[OTHER].host)
    step = begun(world)
    world.loop.run(SETTINGS.limit - SETTINGS.connect_timeout)
    world.net.resume(world.tasks[OTHER].host)
    world.loop.run(1.0)
    assert step.over and step.error is None


def occupied(world: World) -> str:
    """Another program is where a task should be. Returns the address, as a network knows it."""
    world.net.kill(world.tasks[OTHER].host)
    address = addresses.parse(world.addresses[OTHER]).text()
    world.net.foreign.add(address)
    return address


def test_another_program_at_the_address_is_told_within_the_limit() -> None:
    world = World(5, 2)
    occupied(world)
    step = begun(world)
    world.loop.run(SOON)
    assert step.over, "long before the connect limit"
    assert isinstance(step.error, errors.UnavailableError)
    assert OTHER in step.error.message and world.addresses[OTHER] in step.error.message
    assert "another program answered there" in step.error.message
    assert "Check that the address is right" in step.error.message


@pytest.mark.parametrize("times", ["once", "for less than that"])
def test_another_program_may_leave_the_address_to_the_task(times: str) -> None:
    world = World(5, 2)
    address = occupied(world)
    step = begun(world)
    world.loop.run(0.01 if times == "once" else SETTINGS.limit - SETTINGS.max_backoff)
    world.net.foreign.discard(address)
    if times == "once":
        world.loop.run(SOON)
        assert not step.over
    world.start(OTHER)
    world.loop.run(2 * SETTINGS.max_backoff)
    assert step.over and step.error is None


@pytest.mark.parametrize("why", ["not there yet", "busy", "cut off"])
def test_who_is_late_is_waited_for_longer(why: str) -> None:
    world = World(5, 2)
    host = world.tasks[OTHER].host
    if why == "not there yet":
        world.net.kill(host)
    elif why == "busy":
        world.net.busy(host)
    else:
        world.net.cut(ONE, OTHER)
    step = begun(world)
    world.loop.run(SOON + 1.0)
    assert not step.over
    if why == "not there yet":
        world.start(OTHER)
    world.net.resume(host)
    world.net.heal(ONE, OTHER)
    world.loop.run(SETTINGS.connect_limit - SOON - 1.0)
    assert step.over and step.error is None
