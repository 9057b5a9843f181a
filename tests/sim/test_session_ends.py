"""Sessions that are closed, or whose client is gone, while their master is at work for them leave nothing behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.cluster import step
from tests.kit.simcluster import SimCluster

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:0"
# Above any of the simulated network.
ROUND_TRIP = 0.1


@pytest.fixture
def cluster() -> SimCluster:
    return SimCluster(5, {"ps": 1, "worker": 1})


def small() -> tuple[tf.Graph, Any]:
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS):
        return graph, tf.constant(2.0) * tf.placeholder_with_default(3.0, [])


def test_a_step_that_is_planned_when_its_session_closes_is_registered_nowhere(cluster: SimCluster) -> None:
    graph, fetch = small()
    session = cluster.session(WORKER, graph)
    answers: list[Any] = []
    session.open(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)
    cluster.net.slow(PS, 100.0)  # meeting it takes longer than the session lasts
    session.run([fetch], lambda values, error: answers.append(error))
    cluster.loop.run(0.01)
    session.close(lambda reply, error: answers.append(error))
    cluster.loop.run(10.0)
    cancelled, closed = sorted(answers[1:], key=lambda error: error is None)
    assert isinstance(cancelled, tf.errors.CancelledError) and closed is None
    for server in cluster.servers.values():
        assert not server.core.worker.sessions and not server.core.master.sessions
        assert not server.leftovers()


def test_a_part_that_comes_after_the_end_of_its_session_is_not_kept(cluster: SimCluster) -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS):
        large = tf.constant(np.arange(5000.0))
        fetch = large * tf.random_uniform([], dtype=tf.float64)
    session = cluster.session(WORKER, graph)
    answers: list[Any] = []
    session.open(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)
    cluster.net.bulk = False  # what is large stays behind
    session.run([fetch], lambda values, error: answers.append(error))
    cluster.loop.run(0.3)
    worker = cluster.servers[PS].core.worker
    session.close(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)
    assert len(answers) == 3 and not worker.sessions and cluster.servers[PS].leftovers(), "it is on its way"
    cluster.net.bulk = True
    cluster.loop.run(5.0)
    for server in cluster.servers.values():
        assert not server.core.worker.sessions and not server.leftovers()


@pytest.mark.parametrize("how", ["killed", "given up", "its server stopped"])
def test_a_session_that_nobody_waits_for_is_not_kept(cluster: SimCluster, how: str) -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.device(WORKER):
        for _ in range(1200):  # so many are decoded off the baton
            tf.no_op()
    session = cluster.session(WORKER, graph)
    master = cluster.servers[WORKER].core.master
    decoding: list[Any] = []
    master.runner.submit = decoding.append  # type: ignore[assignment]  # kept until the client is gone
    session.open(lambda reply, error: None)
    cluster.loop.run(0.5)
    assert len(decoding) == 1 and not master.sessions
    if how == "killed":
        cluster.net.kill(session.host)
    elif how == "its server stopped":
        master.stop(lambda: None)
    else:
        for link in session.endpoint.links():
            for call in list(link.calls.values()):
                call.cancel()
    cluster.loop.run(5.0)
    decoding[0]()
    cluster.loop.run(1.0)
    assert not master.sessions


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("limit", [0.05, 0.7, 1.5])
def test_a_master_accounts_for_a_limit_while_its_client_still_waits(seed: int, limit: float) -> None:
    cluster = SimCluster(seed, {"ps": 1, "worker": 1})
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS):
        draw = tf.random_uniform([])
    session = cluster.session(WORKER, graph)
    answers: list[Any] = []
    session.open(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)
    session.run([draw], lambda values, error: answers.append(error))
    cluster.loop.run(0.5)
    assert answers == [None, None]
    cluster.net.stop(cluster.servers[PS].host)  # shorter than any limit finds out
    session.run([draw], lambda values, error: answers.append(error), timeout=limit)
    cluster.loop.run(limit + step.ACCOUNT_WITHIN_S - 2 * ROUND_TRIP)
    (error,) = answers[2:]
    assert isinstance(error, tf.errors.DeadlineExceededError) and f"Unfinished parts: {PS}" in error.message


def test_a_reset_that_gave_a_task_up_does_not_clear_it_later(cluster: SimCluster) -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS):
        variable = tf.Variable(1.0)
    session = cluster.session(PS, graph)
    answers: list[Any] = []
    session.open(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)
    hosts = [cluster.servers[task].host.name for task in (PS, WORKER)]
    cluster.net.cut(*hosts)
    other = cluster.session(WORKER, graph)
    other.reset(1.0, lambda reply, error: answers.append(error))
    cluster.loop.run(2.0)
    session.run([variable.initializer], lambda values, error: answers.append(error))
    cluster.net.heal(*hosts)
    cluster.loop.run(cluster.settings.connect_limit)
    session.run([variable.value()], lambda values, error: answers.append(error))
    cluster.loop.run(0.5)
    assert answers == [None, None, None, None]


def test_what_a_lost_task_was_planned_with_is_forgotten_by_the_others(cluster: SimCluster) -> None:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(PS):
            there = tf.random_uniform([])
        with tf.device(WORKER):
            fetch = there + tf.random_uniform([])
    session = cluster.session(WORKER, graph)
    answers: list[Any] = []
    session.open(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)
    session.run([fetch], lambda values, error: answers.append(error))
    cluster.loop.run(0.5)
    (here,) = cluster.servers[WORKER].core.worker.sessions.values()
    assert answers == [None, None] and len(here.parts) == 1
    cluster.kill(PS)
    cluster.loop.run(20.0)
    assert not here.parts


def test_a_task_that_let_its_parts_go_costs_only_the_plans_that_need_them() -> None:
    cluster = SimCluster(5, {"ps": 2, "worker": 1})
    graph, fetches = tf.Graph(), []
    with graph.as_default():
        for task in cluster.addresses:
            with tf.device(task):
                there = tf.random_uniform([])
            with tf.device(WORKER):
                fetches.append(there + tf.random_uniform([]))
    session = cluster.session(WORKER, graph)
    answers: list[Any] = []
    session.open(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)

    def run(fetch: Any) -> Any:
        session.run([fetch], lambda values, error: answers.append(error))
        cluster.loop.run(0.5)
        return answers[-1]

    assert [run(fetch) for fetch in fetches] == [None, None, None]
    first, second, third = (server.core.worker for server in cluster.servers.values())
    (let_go,) = first.sessions.values()
    let_go.parts.clear()  # as when it lost sight of the master
    (kept,) = second.sessions.values()
    (own,) = third.sessions.values()
    before = list(kept.parts)
    assert isinstance(run(fetches[0]), tf.errors.AbortedError)
    assert list(kept.parts) == before and len(own.parts) == 2, "steps under way need them"
    assert [run(fetch) for fetch in fetches] == [None, None, None]
    assert list(kept.parts) == before and len(own.parts) == 3
