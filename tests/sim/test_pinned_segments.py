"""A segment that is lent is not pinned without end, whatever its receiver does with it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dtfzmq.wire import segments
from dtfzmq.wire.settings import KIB
from dtfzmq.wire.shared import Sharing
from tests.kit.simworld import SETTINGS, World, tensor

SHARED = dataclasses.replace(SETTINGS, shared_memory=True, shared_limit=512, max_header=64 * KIB)
ONE, OTHER, THIRD = (f"/job:t/replica:0/task:{i}" for i in range(3))
SIZE = 600

pytestmark = pytest.mark.skipif(not segments.supported(), reason="there are no segments on this system")


class Slow:
    """Of one task: what it was offered and does not look at, until it is told to."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self.kept: list[tuple[Any, ...]] = []
        slow = world.tasks[OTHER].endpoint
        self._receive = Sharing.receive
        patch.setattr(
            Sharing,
            "receive",
            lambda sharing, *offered: (
                self.kept.append((sharing, *offered))
                if sharing._link.endpoint is slow
                else self._receive(sharing, *offered)
            ),
        )

    def look(self) -> None:
        kept, self.kept = self.kept, []
        for sharing, incoming, *segment in kept:
            if sharing._link.incoming.get(incoming.id) is incoming:  # it was not taken back
                self._receive(sharing, incoming, *segment)


def pinned(world: World) -> int:
    found = world.tasks[ONE].endpoint._segments
    assert found is not None
    return len(found._all)


def test_who_maps_nothing_keeps_no_segment_from_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(5, 3, SHARED)
    slow = Slow(world, monkeypatch)
    hog = world.run_step(1, ONE, [(ONE, OTHER, SIZE)] * 200, {})
    world.loop.run(0.1)
    assert len(slow.kept) >= pinned(world) >= 100 and not hog.over
    world.loop.run(SHARED.limit)
    assert pinned(world) == 0
    watched: list[int] = []
    world.net.watchers.append(lambda source, target, message: watched.append(len(message)) if target == THIRD else None)
    other = world.run_step(2, ONE, [(ONE, THIRD, 50_000)], {})
    world.loop.run(0.1)
    assert other.over and other.error is None
    assert set(watched) == {1}, "by a segment: no chunk came"
    world.cancel(hog)
    world.loop.run(2 * SHARED.limit)
    slow.look()
    world.loop.run(SHARED.limit)
    assert not world.leftovers(), world.leftovers()


def test_who_looks_late_gets_the_tensors_by_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(5, 2, SHARED)
    slow = Slow(world, monkeypatch)
    step = world.run_step(1, ONE, [(ONE, OTHER, SIZE)] * 9, {})
    world.loop.run(1.5 * SHARED.limit)
    assert len(slow.kept) >= 9 and not step.over
    for _ in range(3):
        slow.look()
        world.loop.run(0.2)
    assert step.over and step.error is None, step.error
    monkeypatch.undo()
    watched: list[int] = []
    world.net.watchers.append(lambda source, target, message: watched.append(len(message)))
    again = world.run_step(2, ONE, [(ONE, OTHER, SIZE)], {})
    world.loop.run(0.1)
    assert again.over and again.error is None
    assert set(watched) == {1}, "by a segment, since only those that it was late for are gone"
    assert not world.problems and not world.leftovers()


def test_a_tensor_that_is_mapped_for_long_stays_as_it_is() -> None:
    world = World(5, 2, SHARED)
    kept: list[Any] = []
    whole = world.delivered
    world.delivered = lambda task, step, key, value: (kept.append((key, value)), whole(task, step, key, value))  # type: ignore
    for number in range(1, 4):
        step = world.run_step(number, ONE, [(ONE, OTHER, SIZE)], {})
        world.loop.run(1.5 * SHARED.limit)
        assert step.over and step.error is None
    assert pinned(world) == 0 and len(kept) == 3
    assert all(np.array_equal(value, tensor(key, SIZE)) for key, value in kept)
    kept.clear()
    world.loop.run(1.5 * SHARED.limit)
    assert not world.leftovers(), world.leftovers()
