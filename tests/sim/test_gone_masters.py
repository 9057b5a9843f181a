"""A task takes nothing for steps whose master is out of reach, since it may be gone, until it was heard again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
import pytest

from dtfzmq.wire import frames
from dtfzmq.wire.link import DOWN
from dtfzmq.wire.transport import CONTROL
from tests.kit.simcluster import SimSession
from tests.sim.test_gone_clients import PROGRAM, PS, WORKER, Answers, Cluster, client, run


class Two:
    """A step waits at the ps: its client is `away`, its master the worker. Another client has the ps as its master."""

    def __init__(self, take: Any = None) -> None:
        self.cluster = Cluster(WORKER)
        self.loop, self.net = self.cluster.loop, self.cluster.net
        self.away: SimSession = client(self.cluster)
        self.cluster.master = PS
        self.other: SimSession = client(self.cluster)
        self.answers = Answers()
        if take is not None:
            self.away.run([take], self.answers)
            self.loop.run(0.1)
            assert self.ps.core.worker.steps and not self.answers.found

    @property
    def ps(self) -> Any:
        return self.cluster.servers[PS]

    def run(self, fetch: Any) -> Any:
        return run(self.cluster, self.other, fetch, 0.02)

    def link(self) -> Any:
        return self.ps.endpoint.known(WORKER)

    def end_lanes(self, names: set[str], control_only: bool = False) -> None:
        for end in self.net.pairs():
            joins = end.other is not None and {end.host.name, end.other.host.name} == names
            if joins and (not control_only or getattr(end.events, "kind", CONTROL) == CONTROL):
                self.net.end_lane(end)

    def disconnect(self) -> None:
        """The link of ps and worker goes down, and stays so until the network is fast again."""
        self.net.slow(WORKER, 500.0)
        self.end_lanes({PS, WORKER})
        for _ in range(100):
            if self.link().state == DOWN:
                return
            self.loop.run(0.001)
        raise AssertionError("the ps does not hear of it")


TAKES = pytest.mark.parametrize(
    ("take", "give", "left"),
    [
        (PROGRAM.take, PROGRAM.put, PROGRAM.size),
        (PROGRAM.two, PROGRAM.put, PROGRAM.size),
        (PROGRAM.mean, PROGRAM.apply, PROGRAM.count),
    ],
    ids=["an element", "elements", "gradients"],
)


@TAKES
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_master_that_is_gone_takes_nothing(take: Any, give: Any, left: Any, how: str) -> None:
    two = Two(take)
    host = two.cluster.servers[WORKER].host
    if take is PROGRAM.two:
        two.run(give)  # it is taken already, and given back
    if how == "killed":
        two.net.kill(host)
        two.loop.run(0.05)
    else:
        two.net.stop(host)
        two.loop.run(two.cluster.settings.limit / 2 + 0.1)
    assert two.ps.core.worker.steps, "it may be back"
    for _ in range(2 if take is PROGRAM.two else 1):
        two.run(give)
    before = two.run(left)
    assert before[0] >= 1, "nothing was taken for one that may be gone"
    two.loop.run(10.0)
    assert two.run(left) == before, "nor when it was found to be"
    assert two.run(take)[0] is not None
    assert not two.ps.leftovers()


def test_a_master_that_is_reached_again_gets_what_it_waited_for() -> None:
    two = Two(PROGRAM.take)
    two.disconnect()
    two.run(PROGRAM.put)
    assert two.run(PROGRAM.size) == [1]
    two.net.slow(WORKER, 1.0)
    two.loop.run(1.0)
    assert two.answers.last() == [7]
    assert two.run(PROGRAM.size) == [0]


def test_a_client_that_is_away_is_still_so_when_its_master_is_reached_again() -> None:
    two = Two(PROGRAM.take)
    two.net.slow(two.away.host.name, 10_000.0)
    two.end_lanes({two.away.host.name, WORKER})
    two.loop.run(0.05)
    two.disconnect()
    two.net.slow(WORKER, 1.0)
    two.loop.run(0.2)
    assert two.link().state != DOWN
    assert two.ps.core.worker.steps
    two.run(PROGRAM.put)
    assert two.run(PROGRAM.size) == [1]


def test_a_master_that_is_away_is_still_so_when_its_client_is_reached_again() -> None:
    two = Two(PROGRAM.take)
    (step,) = two.ps.core.worker.steps.values()
    two.disconnect()
    step.hold(False)
    two.run(PROGRAM.put)
    assert two.run(PROGRAM.size) == [1]


@pytest.mark.parametrize("what", ["the client is killed", "the run is cancelled"])
def test_what_a_master_said_while_it_was_away_is_heard_before_its_steps_go_on(what: str) -> None:
    two = Two(PROGRAM.take)
    two.disconnect()
    two.run(PROGRAM.put)
    if what == "the client is killed":
        two.net.kill(two.away.host)
    else:
        two.net.slow(two.away.host.name, 1.0)
        master = two.cluster.servers[WORKER].core.master
        (step,) = (step for session in master.sessions.values() for step in session.steps.values())
        step.abandoned()
    two.loop.run(0.05)
    two.net.slow(WORKER, 1.0)
    two.loop.run(0.2)
    assert two.link().state != DOWN
    assert two.run(PROGRAM.size) == [1]
    two.loop.run(10.0)
    assert two.run(PROGRAM.size) == [1]
    assert not two.ps.leftovers()


def test_a_step_that_begins_while_its_master_is_away_takes_nothing() -> None:
    two = Two()
    two.run(PROGRAM.put)
    sent: list[int] = []

    def watch(source: str, target: str, frame_list: Sequence[Any]) -> None:
        if (source, target) == (WORKER, PS):
            sent.append(msgpack.unpackb(frame_list[0], strict_map_key=False)[0])

    two.net.watchers.append(watch)
    two.net.slow(WORKER, 100.0)
    two.away.run([PROGRAM.take_if_fed], two.answers, 0.0, {"fed:0": np.zeros(1000, np.float32)})
    for _ in range(2000):
        two.loop.run(0.001)
        if sent.count(frames.CHUNK) * two.cluster.settings.chunk >= 4000:
            break
    assert not two.ps.core.worker.steps, "its feed is on its way"
    two.end_lanes({PS, WORKER}, control_only=True)
    two.net.slow(WORKER, 10_000.0)
    assert two.loop.run(0.5, lambda: two.ps.core.worker.parts_run > 1)
    assert two.link().state == DOWN
    assert two.run(PROGRAM.size) == [1]
    two.net.slow(WORKER, 1.0)
    two.loop.run(1.0)
    assert two.answers.last() == [7]
