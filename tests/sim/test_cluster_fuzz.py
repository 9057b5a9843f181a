"""Steps of a whole simulated cluster under faults: answered in time, rightly or with a fitting error, and then over."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from tests.kit.simcluster import SimCluster, SimSession

PS0, PS1 = "/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"
W0, W1 = "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"
# What a step may end with when the network or a task lets it down; anything else is a wrong answer.
FITTING = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)
# The longest that a client waits: its link's patience with a master, that master's with a task, and cleaning up.
LONGEST_S = 40.0
COUNTS: collections.Counter[str] = collections.Counter()


class Program:
    """A graph over four tasks: a counter on ps0, a large tensor from ps1, and readers of both on the workers."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            with tf.device(PS0):
                self.v = tf.Variable(0.0, name="v")
                self.add = self.v.assign_add(1.0).op
            with tf.device(PS1):
                self.k = tf.placeholder(tf.float32, [], name="k")
                large = tf.fill([700], self.k)
            with tf.device(W0):
                self.here = tf.reduce_sum(large) + self.k
            with tf.device(W1):
                self.there = tf.reduce_sum(large * 2.0)
            with tf.device(W0):
                self.both = self.here + self.there


PROGRAM = Program()


def fault(cluster: SimCluster) -> None:
    """One fault, of a kind and at a place that the seed draws; each mends by itself after a while."""
    rng, net, loop = cluster.rng, cluster.net, cluster.loop
    names = sorted(cluster.servers)
    kind = rng.choice(["kill", "stop", "cut", "lane", "slow"])
    name = rng.choice(names)
    server = cluster.servers[name]
    if server.host.loop.dead or server.host.loop.stopped:
        return
    COUNTS[kind] += 1
    mend = rng.choice([0.01, 0.3, 3.0, 8.0])
    if kind == "kill":
        cluster.kill(name)
        loop.call_later(mend, cluster.start, name)
    elif kind == "stop":
        net.stop(server.host)
        loop.call_later(mend, net.resume, server.host)
    elif kind == "cut":
        other = rng.choice([n for n in [*names, "client1"] if n != name])
        net.cut(name, other)
        loop.call_later(mend, net.heal, name, other)
    elif kind == "lane":
        ends = net.ends_of(server.host)
        if ends:
            net.end_lane(rng.choice(ends))
    else:
        net.slow(name, rng.choice([5.0, 50.0]))
        loop.call_later(mend, net.slow, name, 1.0)


def ask(cluster: SimCluster, begin: Any) -> tuple[Any, errors.OpError | None, float]:
    """Make one call and let the world turn until it is answered: (value, error, virtual seconds)."""
    answers: list[tuple[Any, errors.OpError | None]] = []
    began = cluster.loop.now()
    begin(lambda value, error: answers.append((value, error)))
    assert cluster.loop.run(LONGEST_S, lambda: bool(answers)), "a call was not answered"
    assert len(answers) == 1
    return (*answers[0], cluster.loop.now() - began)


def one_run(cluster: SimCluster, session: SimSession) -> errors.OpError | None:
    """Run one of the program's steps and judge its answer."""
    rng, program = cluster.rng, PROGRAM
    k = float(rng.randrange(1, 50))
    wanted = {program.here: 701 * k, program.there: 1400 * k, program.both: 2101 * k}
    fetches = rng.sample(sorted(wanted, key=lambda t: t.name), rng.randrange(1, 4))
    timeout = rng.choice([0.0, 0.0, 0.5, 3.0])
    feeds = {program.k.name: np.float32(k)}
    values, error, took = ask(cluster, lambda done: session.run(fetches, done, timeout, feeds))
    if error is not None:
        COUNTS[type(error).__name__] += 1
        assert isinstance(error, FITTING), error
        assert error.message
    else:
        COUNTS["right"] += 1
        assert [float(v) for v in values] == [wanted[t] for t in fetches]
    if timeout and not session.host.loop.dead:
        assert took < timeout + 16.0, f"{took} s for a limit of {timeout} s"
    return error


def check_over(cluster: SimCluster) -> None:
    """Everything works again, and nothing of the steps before is left."""
    session = cluster.session(W0, PROGRAM.graph)
    _, error, _ = ask(cluster, session.open)
    assert error is None, error
    feeds = {PROGRAM.k.name: np.float32(2)}
    for _ in range(3):
        values, error, _ = ask(cluster, lambda done: session.run([PROGRAM.both], done, 0.0, feeds))
        assert error is None, error
        assert float(values[0]) == 4202
    _, error, _ = ask(cluster, session.close)
    assert error is None, error
    cluster.loop.run(120.0)
    left = {name: server.leftovers() for name, server in cluster.servers.items() if server.leftovers()}
    assert left == {}


@pytest.fixture(name="seeds")
def fixture_seeds(request: pytest.FixtureRequest) -> range:
    one = request.config.getoption("--seed")
    return range(one, one + 1) if one is not None else range(request.config.getoption("--seeds"))


@pytest.mark.timeout(900)
def test_steps_under_faults(seeds: range, tell: Callable[[Mapping[str, int]], None]) -> None:
    for seed in seeds:
        try:
            cluster = SimCluster(seed, {"ps": 2, "worker": 2})
            session: SimSession | None = None
            for _ in range(12):
                if session is None:
                    session = cluster.session(W0, PROGRAM.graph)
                    _, error, _ = ask(cluster, session.open)
                    if error is not None:
                        assert isinstance(error, FITTING), error
                        session = None
                        continue
                for _ in range(cluster.rng.randrange(3)):
                    cluster.loop.call_later(cluster.rng.random() * 0.02, fault, cluster)
                if isinstance(one_run(cluster, session), tf.errors.AbortedError):
                    session = None
            cluster.loop.run(20.0)
            check_over(cluster)
        except BaseException:
            print(f"seed {seed} fails; replay it with --seed {seed}")
            raise
    tell(COUNTS)
    if len(seeds) >= 20:
        for kind in ("kill", "stop", "cut", "lane", "slow", "right", "UnavailableError", "AbortedError"):
            assert COUNTS[kind] > 0, kind


@pytest.mark.timeout(900)
def test_a_step_runs_once_however_often_its_lanes_end(seeds: range) -> None:
    for seed in seeds:
        count_under_ending_lanes(seed)


def count_under_ending_lanes(seed: int) -> None:
    cluster = SimCluster(seed, {"ps": 1, "worker": 1})
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS0):
        v = tf.Variable(0.0, name="v")
        add = v.assign_add(1.0).op
    session = cluster.session(W0, graph)
    _, error, _ = ask(cluster, session.open)
    assert error is None

    def run(fetch: Any) -> Any:
        values, error, _ = ask(cluster, lambda done: session.run([fetch], done))
        assert error is None, f"seed {seed}: {error}"
        return values

    run(v.initializer)
    for _ in range(10):
        for _ in range(3):
            server = cluster.servers[cluster.rng.choice(sorted(cluster.servers))]
            ends = cluster.net.ends_of(server.host)
            if ends:
                cluster.loop.call_later(cluster.rng.random() * 0.005, cluster.net.end_lane, cluster.rng.choice(ends))
        run(add)
    assert float(run(graph.as_graph_element(v))[0]) == 10, f"seed {seed}"
