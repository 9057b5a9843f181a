"""Lines that let lanes begin and bring little or nothing: what waits for it gets it, or fails in time and says why."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from dtfzmq.base import errors
from dtfzmq.wire.settings import KIB
from tests.kit.simworld import SETTINGS, World

LIMIT = SETTINGS.limit
ONE, OTHER = "/job:t/replica:0/task:0", "/job:t/replica:0/task:1"


def world(**changed: Any) -> World:
    """Two tasks that know each other, with settings that are changed."""
    made = World(5, 2, dataclasses.replace(SETTINGS, **changed))
    first = made.run_step(1, ONE, [(ONE, OTHER, 10), (OTHER, ONE, 10)], {})
    made.loop.run(0.5)
    assert first.over and first.error is None
    return made


def end_lanes_every(made: World, seconds: float) -> None:
    for end in made.net.pairs():
        made.net.end_lane(end)
    made.loop.call_later(seconds, end_lanes_every, made, seconds)


def ended(made: World, source: str, target: str, seconds: float) -> str:
    """How a step with a large tensor fails that cannot get on, once it has ended within `seconds`."""
    step = made.run_step(2, ONE, [(source, target, 20_000)], {})
    made.loop.run(seconds)
    assert step.over, "it goes on without end"
    assert not made.leftovers(), made.leftovers()
    assert isinstance(step.error, errors.UnavailableError)
    assert source in step.error.message and target in step.error.message
    return step.error.message


@pytest.mark.parametrize(("source", "target"), [(ONE, OTHER), (OTHER, ONE)], ids=["to another", "from another"])
def test_chunks_that_never_pass_end_the_step(source: str, target: str) -> None:
    made = world(chunk=8 * KIB)
    made.net.largest = 4000
    error = ended(made, source, target, 5 * LIMIT)
    why = r"\d lanes for large tensors in a row ended before anything got through \(the last: the connection ended\)"
    assert re.search(why, error), error
    assert 4 <= made.net.counts["too large"] < 40, "there are pauses between attempts"


def test_messages_that_never_pass_end_the_step() -> None:
    made = world(max_header=64 * KIB, batch=64 * KIB, inline_limit=32 * KIB, control_window=64 * KIB)
    made.net.largest = 4000
    error = ended(made, ONE, OTHER, 5 * LIMIT)
    assert re.search(r"\d+ connections in a row ended before anything got through", error), error
    assert made.addresses[OTHER] in error
    assert 4 <= made.net.counts["too large"] < 40


def test_lanes_that_each_bring_something_are_not_in_vain() -> None:
    made = world(bulk_window=64 * KIB, max_backoff=0.05)
    made.net.bandwidth = 20_000.0
    step = made.run_step(2, ONE, [(ONE, OTHER, 60_000)], {})
    end_lanes_every(made, 0.2)
    made.loop.run(60 * LIMIT)
    assert step.over and step.error is None, step.error


def test_a_bulk_lane_is_not_waited_for_without_end_while_control_lanes_come_and_go() -> None:
    made = world()
    made.net.bulk = False
    end_lanes_every(made, 0.2 * LIMIT)
    assert "no lane for large tensors" in ended(made, ONE, OTHER, 3 * LIMIT)


def test_a_link_that_was_given_up_is_replaced_once_the_line_is_good() -> None:
    made = world(chunk=8 * KIB)
    made.net.largest = 4000
    ended(made, ONE, OTHER, 5 * LIMIT)
    made.net.largest = 1e9
    step = made.run_step(3, ONE, [(ONE, OTHER, 20_000)], {})
    made.loop.run(LIMIT)
    assert step.over and step.error is None
