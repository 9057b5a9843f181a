"""What a worker keeps of a session whose master is lost: what is private to it, until the master cannot be back."""

from __future__ import annotations

from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.cluster.worker import ORPHANED_S
from tests.kit.simcluster import SimCluster, SimSession

PS, CHIEF = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
# To be in reach again, after the longest wait between two tries of a link.
BACK_S = 3.0


class Program:
    """What a session has of its own on the ps: a queue, a generator of random numbers, an isolated variable."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(PS):
            queue = tf.FIFOQueue(9, [tf.float32], [()])
            self.put, self.size = queue.enqueue(1.0), queue.size()
            self.random = tf.random_uniform([], seed=7)
            variable = tf.Variable(1.0)
            self.init, self.variable = variable.initializer, variable.value()

    def state(self) -> list[tf.Tensor]:
        return [self.size, self.random, self.variable]


PROGRAM = Program()


@pytest.fixture
def cluster() -> SimCluster:
    return SimCluster(5, {"ps": 1, "worker": 1})


@pytest.fixture
def session(cluster: SimCluster) -> SimSession:
    session = cluster.session(CHIEF, PROGRAM.graph, {"isolate_session_state": True})
    opened: list[Any] = []
    session.open(lambda reply, error: opened.append(error))
    cluster.loop.run(0.5)
    assert opened == [None]
    run(cluster, session, [PROGRAM.put, PROGRAM.init])
    return session


def run(cluster: SimCluster, session: SimSession, fetches: list[Any], seconds: float = 0.5) -> list[Any]:
    """The values of a run that succeeds."""
    answers: list[Any] = []
    session.run(fetches, lambda values, error: answers.append(values if error is None else error))
    cluster.loop.run(seconds)
    (values,) = answers
    assert not isinstance(values, errors.OpError), values
    return [value.item() for value in values]


def worker_sessions(cluster: SimCluster) -> int:
    return len(cluster.servers[PS].core.worker.sessions)


def lose(cluster: SimCluster, how: str) -> None:
    """Let the ps and the master lose one another, for the least time."""
    apart(cluster, how, True)
    cluster.loop.run(2 * cluster.settings.limit)
    apart(cluster, how, False)


def apart(cluster: SimCluster, how: str, now: bool) -> None:
    net = cluster.net
    if how == "cut":
        (net.cut if now else net.heal)(*(cluster.servers[task].host.name for task in (PS, CHIEF)))
    else:
        (net.stop if now else net.resume)(cluster.servers[how].host)


@pytest.mark.parametrize("how", ["cut", PS, CHIEF])
def test_a_session_keeps_what_is_its_own_where_its_master_comes_back(
    how: str, cluster: SimCluster, session: SimSession
) -> None:
    size, number, variable = run(cluster, session, PROGRAM.state())
    assert (size, variable) == (1, 1.0)
    before = [link for link in cluster.servers[PS].endpoint.links() if link.name == CHIEF]
    lose(cluster, how)
    cluster.loop.run(BACK_S)
    after = [link for link in cluster.servers[PS].endpoint.links() if link.name == CHIEF]
    assert before != after, "the link was not lost"
    size, other, variable = run(cluster, session, PROGRAM.state(), BACK_S)
    assert (size, variable) == (1, 1.0)
    assert other != number, "random numbers began anew"
    cluster.loop.run(2 * ORPHANED_S)
    assert worker_sessions(cluster) == 1, "it was ended though its master is back"


def test_a_session_whose_state_was_given_up_says_so_at_every_run(cluster: SimCluster, session: SimSession) -> None:
    apart(cluster, "cut", True)
    cluster.loop.run(2 * cluster.settings.limit)
    assert worker_sessions(cluster) == 1
    cluster.loop.run(ORPHANED_S)
    assert worker_sessions(cluster) == 0
    apart(cluster, "cut", False)
    cluster.loop.run(BACK_S)
    answers: list[Any] = []
    for _ in range(2):
        session.run([PROGRAM.size], lambda values, error: answers.append(error))
        cluster.loop.run(BACK_S)
    assert len(answers) == 2
    for error in answers:
        assert isinstance(error, errors.AbortedError), error
        assert PS in error.message and f"out of reach of the session's master for more than {ORPHANED_S:g} s" in (
            error.message
        )


def test_nothing_is_kept_for_a_master_that_left(cluster: SimCluster, session: SimSession) -> None:
    cluster.servers[CHIEF].stop()
    cluster.loop.run(0.5)
    assert worker_sessions(cluster) == 0


def test_nothing_is_kept_for_a_master_that_was_started_anew(cluster: SimCluster, session: SimSession) -> None:
    cluster.kill(CHIEF)
    cluster.loop.run(2 * cluster.settings.limit)
    (kept,) = cluster.servers[PS].core.worker.sessions
    cluster.start(CHIEF)
    fresh = cluster.session(CHIEF, PROGRAM.graph)
    fresh.open(lambda reply, error: None)
    cluster.loop.run(0.5)
    assert run(cluster, fresh, [PROGRAM.size], BACK_S) == [0]
    (new,) = cluster.servers[PS].core.worker.sessions
    assert new != kept
