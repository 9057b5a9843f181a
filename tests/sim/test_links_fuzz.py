"""Random steps over endpoints and rendezvous under every fault that links know, by seed, against invariants.

``pytest tests/sim --seeds 1000`` runs many seeds, ``--seed N`` replays one.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import pytest

from dtfzmq.base import errors
from dtfzmq.wire import frames, segments
from tests.kit.simworld import SETTINGS, World

FAULTS = ("lane ended", "messages lost", "killed", "stopped", "cut", "slow", "no bulk lane")


def scenario(seed: int, bulkless: bool = False) -> World:
    """Steps begin at random moments while faults strike; then there is peace, and everything must end.

    With `bulkless` there is never a bulk lane: what needs one ends even so, whatever becomes of control lanes.
    """
    shared = seed % 3 == 1 and segments.supported()
    settings = dataclasses.replace(SETTINGS, shared_memory=shared, shared_limit=512)
    world = World(seed, random.Random(seed).choice((2, 3, 4)), settings, [0] if seed % 2 else [])
    if shared:
        world.net.watchers.append(lambda source, target, message: _count_shared(world, message))
    rng = world.rng
    for number in range(1, rng.randrange(8, 25)):
        world.loop.call_later(rng.random() * 4.0, _begin, world, number)
    world.stormy = seed % 8 != 0
    if world.stormy:  # every eighth seed is a peaceful one
        for _ in range(rng.randrange(1, 8)):
            world.loop.call_later(rng.random() * 5.0, _strike, world)
    if bulkless:
        world.bulkless, world.net.bulk = True, False
        for _ in range(10):
            world.loop.call_later(4.0 + rng.random(), _end_a_lane, world)  # after most asked for one
    world.loop.run(6.0)
    _peace(world)
    world.loop.run(3.0)
    assert not world.undead(), world.undead()
    world.loop.run(40.0)
    check(world)
    return world


def _count_shared(world: World, message: Sequence[Any]) -> None:
    header = msgpack.unpackb(message[0])
    if header[0] == frames.SHARED:
        world.counts["by segment" if header[4] >= 0 else "no segment"] += 1


def _begin(world: World, number: int) -> None:
    rng = world.rng
    living = [name for name in world.names if world.tasks[name].alive and not world.tasks[name].host.loop.stopped]
    if len(living) < 1:
        return
    master = rng.choice(living)
    edges = []
    for _ in range(rng.randrange(1, 7)):
        source, target = rng.sample(world.names, 2)
        edges.append((source, target, rng.choice((0, 1, 40, 200, 257, 600, 3000, 9000, 20000))))
    delays = {name: rng.choice((0.0, 0.0, 0.01, 0.5)) for name in world.names}
    world.net.latency = rng.choice((0.0003, 0.001, 0.004))
    if world.stormy and rng.random() < 0.6:  # most faults strike where there is traffic
        world.loop.call_later(rng.random() * 0.03, _strike, world)
    step = world.run_step(number, master, edges, delays, rng.choice((0, 0, 100, 5000)))
    if rng.random() < 0.15:
        world.loop.call_later(rng.random() * 0.05, world.cancel, step)


def _strike(world: World) -> None:
    rng, net = world.rng, world.net
    kind = rng.choice(("lane", "lane", "lane", "lane", "lane", "kill", "stop", "cut", "slow", "bulk"))
    name = rng.choice(world.names)
    task = world.tasks[name]
    if kind == "lane":
        _end_a_lane(world)
    elif kind == "kill" and task.alive:
        net.kill(task.host)
        world.loop.call_later(rng.choice((0.05, 0.5, 3.0)), _restart, world, name)
    elif kind == "stop" and task.alive and not task.host.loop.stopped:
        net.stop(task.host)
        world.loop.call_later(rng.choice((0.1, 1.5, 4.0)), net.resume, task.host)
    elif kind == "cut":
        one, other = rng.sample(world.names, 2)
        net.cut(one, other)
        world.loop.call_later(rng.choice((0.3, 1.5, 4.0)), net.heal, one, other)
    elif kind == "bulk":
        net.bulk = False
        world.loop.call_later(rng.choice((0.3, 3.0)), _open_bulk, world)
    elif kind == "slow":
        net.slow(name, 50.0)
        world.loop.call_later(1.0, net.slow, name, 1.0)


def _end_a_lane(world: World) -> None:
    pairs = world.net.pairs()
    if pairs:
        world.net.end_lane(world.rng.choice(pairs))


def _open_bulk(world: World) -> None:
    world.net.bulk = not world.bulkless


def _restart(world: World, name: str) -> None:
    if not world.tasks[name].alive:
        world.start(name)


def _peace(world: World) -> None:
    _open_bulk(world)
    for i, one in enumerate(world.names):
        _restart(world, one)
        world.net.slow(one, 1.0)
        world.net.resume(world.tasks[one].host)
        for other in world.names[:i]:
            world.net.heal(one, other)


def check(world: World) -> None:
    """The invariants."""
    assert not world.problems, world.problems
    for step in world.steps.values():
        if not step.master.alive:
            continue
        assert step.over, f"step {step.number} of {step.master.name} never ended: {step.results}"
        if step.error is not None and not step.cancelled:
            _names_the_link(world, step.error)
        if step.error is None:
            world.counts["step done"] += 1
        else:
            world.counts["step failed"] += 1
    assert not world.leftovers(), world.leftovers()


def _names_the_link(world: World, error: errors.OpError) -> None:
    """A step that lost a push or a part says between whom, and why."""
    text = error.message
    named = [name for name in world.names if name in text]
    over = "is over on this task" in text or "cannot run here" in text
    assert over or "probably restarted" in text or (len(named) == 2 and ": " in text), text


@pytest.mark.timeout(900)
def test_every_seed_keeps_the_invariants(
    request: pytest.FixtureRequest, tell: Callable[[Mapping[str, int]], None]
) -> None:
    seeds, counts = _run_seeds(request, False)
    tell(counts)
    assert counts["step done"] > 0
    if len(seeds) >= 20:
        missing = [fault for fault in (*FAULTS, "link lost", "push lost", "step failed") if not counts[fault]]
        assert not missing, f"these faults never happened: {missing}"
        assert (counts["by segment"] and counts["not mapped"]) or not segments.supported()


@pytest.mark.timeout(900)
def test_every_seed_without_bulk_lanes_keeps_the_invariants(
    request: pytest.FixtureRequest, tell: Callable[[Mapping[str, int]], None]
) -> None:
    _, counts = _run_seeds(request, True)
    tell(counts)
    assert counts["step failed"] > 0 and counts["no bulk lane"] > 0


def _run_seeds(request: pytest.FixtureRequest, bulkless: bool) -> tuple[Sequence[int], collections.Counter[str]]:
    one = request.config.getoption("--seed")
    count = request.config.getoption("--seeds")
    seeds = [one] if one is not None else range(1 + count // 10 if bulkless else count)
    counts: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        try:
            world = scenario(seed, bulkless)
        except BaseException as exc:
            exc.args = (f"seed {seed}: {exc}",)
            raise
        counts.update(world.counts)
        counts.update(world.net.counts)
    return seeds, counts
