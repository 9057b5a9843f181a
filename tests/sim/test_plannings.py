"""A task that is lost while a step is planned: met afresh where it lives, told within seconds where it does not."""

from __future__ import annotations

from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.wire.settings import LinkSettings
from tests.kit.simcluster import SimCluster, SimSession

PS = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:0"
CHIEF = "/job:chief/replica:0/task:0"
SETTINGS = LinkSettings()


def both() -> tuple[tf.Graph, Any]:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(PS):
            half = tf.random_uniform([], 2.9, 3.1)  # nothing that may be computed elsewhere
        with tf.device(WORKER):
            return graph, half * 2.0


def run_once(cluster: SimCluster, answers: list[Any], master: str = CHIEF) -> SimSession:
    """Open a session at a master and run a step of ps and worker; its value or error goes to `answers`."""
    graph, fetch = both()
    session = cluster.session(master, graph)

    def opened(reply: Any, error: Any) -> None:
        assert error is None, error
        session.run(
            [fetch], lambda values, error: answers.append(error if error is not None else round(float(values[0])))
        )

    session.open(opened)
    return session


@pytest.fixture(params=range(5))
def cluster(request: pytest.FixtureRequest) -> SimCluster:
    """The chief has met both other tasks."""
    made, answers = SimCluster(request.param, {"ps": 1, "worker": 1, "chief": 1}, SETTINGS), list[Any]()
    run_once(made, answers)
    made.loop.run(0.5)
    assert answers == [6]
    return made


@pytest.mark.parametrize("slow", [PS, WORKER])
def test_a_master_that_was_stopped_plans_over_new_links(cluster: SimCluster, slow: str) -> None:
    chief, answers = cluster.servers[CHIEF].host, list[Any]()
    cluster.net.stop(chief)
    cluster.loop.run(2 * SETTINGS.limit)
    cluster.net.slow(slow, 4.0)  # the chief learns of one lost link after the other
    cluster.net.resume(chief)
    run_once(cluster, answers)
    cluster.loop.run(SETTINGS.limit)
    assert answers == [6]


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("after", [0.0, 0.001, 0.002, 0.003])
def test_a_task_that_is_gone_while_a_step_is_planned_is_told_soon(cluster: SimCluster, how: str, after: float) -> None:
    answers: list[Any] = []
    session = run_once(cluster, answers)
    cluster.loop.run(after)
    gone = cluster.servers[PS].host
    (cluster.net.kill if how == "killed" else cluster.net.stop)(gone)
    # A refusal is seen by the attempts to connect, which pauses part; silence after the limit.
    known = SETTINGS.refused_limit + SETTINGS.max_backoff if how == "killed" else SETTINGS.limit
    cluster.loop.run(known + 0.2)
    (error,) = answers
    assert isinstance(error, tf.errors.UnavailableError) and PS in error.message
    session.close(lambda reply, error: None)
    cluster.loop.run(SETTINGS.limit)
    for name in (WORKER, CHIEF):
        assert len(cluster.servers[name].core.worker.sessions) <= 1, "that of the first session alone"
        assert not cluster.servers[name].leftovers()


@pytest.mark.parametrize("before", [0.0, 0.001, 0.002, 0.003])
def test_a_task_that_was_restarted_unnoticed_is_met_anew(cluster: SimCluster, before: float) -> None:
    answers: list[Any] = []
    run_once(cluster, answers)
    cluster.loop.run(before)
    cluster.kill(PS)
    cluster.start(PS)
    run_once(cluster, answers)  # the chief still takes the old process for the task
    cluster.loop.run(SETTINGS.limit)
    early, late = answers[-2:]
    assert late == 6
    assert early == 6 or isinstance(early, tf.errors.UnavailableError)
    assert not cluster.servers[CHIEF].leftovers()


@pytest.mark.parametrize("others", [False, True])
def test_a_task_that_is_restarted_after_it_registered_is_met_anew(cluster: SimCluster, others: bool) -> None:
    answers: list[Any] = []
    cluster.net.slow(WORKER, 100.0)
    run_once(cluster, answers)
    cluster.loop.run(0.05)
    assert cluster.servers[PS].core.worker.sessions, "the worker has yet to answer"
    cluster.kill(PS)
    cluster.start(PS)
    if others:  # who meet the new process before this planning does
        graph = tf.Graph()
        with graph.as_default(), tf.device(PS):
            one = tf.random_uniform([])
        session = cluster.session(CHIEF, graph)

        def opened(reply: Any, error: Any) -> None:
            session.run([one], lambda values, error: None)

        session.open(opened)
        cluster.loop.run(0.1)
        assert cluster.servers[CHIEF].core.peers.met(PS), "it was met"
    cluster.loop.run(SETTINGS.limit)
    assert answers == [6]


def test_who_asks_for_a_peer_hears_soon_after_it_is_in_reach(cluster: SimCluster) -> None:
    link, told = cluster.servers[WORKER].endpoint.known(PS), list[float]()
    assert link is not None
    cluster.net.foreign.update(["zmq://ps0:1", "zmq://worker0:1"])
    for end in cluster.net.pairs():
        if {end.host.name, end.other.host.name if end.other else ""} == {WORKER, PS}:
            cluster.net.end_lane(end)
    cluster.loop.run(1.5)
    assert link.down, (link.state, link.error)
    link.inquiry.who(lambda: told.append(0.0))
    cluster.loop.run(0.1)
    cluster.net.foreign.clear()
    link.inquiry.who(lambda: told.append(1.0))
    cluster.loop.run(0.01)
    assert told == [0.0, 1.0]
    assert cluster.servers[WORKER].endpoint.known(PS) is link


@pytest.mark.parametrize("wait", [0.0, 0.001, 0.005, 0.05])
def test_a_restarted_task_is_met_where_only_tensors_went_before(cluster: SimCluster, wait: float) -> None:
    answers: list[Any] = []
    cluster.loop.run(1.0)
    cluster.kill(PS)
    cluster.start(PS)
    cluster.loop.run(wait)
    run_once(cluster, answers, WORKER)
    cluster.loop.run(SETTINGS.limit)
    assert answers == [6]


@pytest.mark.parametrize("wait", [0.0, 0.001, 0.005, 0.05])
def test_devices_are_those_of_the_process_that_is_there(cluster: SimCluster, wait: float) -> None:
    cluster.kill(PS)
    cluster.start(PS)
    cluster.loop.run(wait)
    client, answers = cluster.session(CHIEF, tf.Graph()), list[Any]()
    client.devices(lambda reply, error: answers.append(error or {d[0]: d[3] for d in reply.devices}))
    cluster.loop.run(1.0)
    tasks = {name: server.core.incarnation for name, server in cluster.servers.items()}
    assert answers == [{f"{name}/device:CPU:0": incarnation for name, incarnation in tasks.items()}]


@pytest.mark.parametrize("wait", [0.0, 0.001, 0.005, 0.05])
def test_a_session_is_made_at_a_restarted_master(cluster: SimCluster, wait: float) -> None:
    graph, fetch = both()
    answers: list[Any] = []
    session = cluster.session(WORKER, graph)
    session.open(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)
    cluster.kill(WORKER)
    cluster.start(WORKER)
    cluster.loop.run(wait)

    def opened(reply: Any, error: Any) -> None:
        answers.append(error)
        session.run([fetch], lambda values, error: answers.append(error or round(float(values[0]))))

    session.open(opened)  # over the link that the first one went by
    cluster.loop.run(SETTINGS.limit)
    assert answers == [None, None, 6]


def test_a_task_that_goes_while_another_is_waited_for_is_not_waited_for(cluster: SimCluster) -> None:
    answers: list[Any] = []
    cluster.kill(WORKER)
    cluster.loop.run(2.0)
    run_once(cluster, answers)
    cluster.loop.run(0.1)
    cluster.kill(PS)
    cluster.loop.run(2.0)
    assert not answers
    cluster.start(WORKER)
    cluster.loop.run(SETTINGS.max_backoff + 0.4)
    (error,) = answers
    assert isinstance(error, tf.errors.UnavailableError) and f"{PS} at ps0:1 is gone" in error.message
