"""What its peers hear of a task that is stopped: how what it ran has ended, then that it was stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from tests.kit.simcluster import SimCluster, SimSession

PS = "/job:ps/replica:0/task:0"
CHIEF, OTHER = "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"
# Above any of the simulated network.
ROUND_TRIP = 0.05


def connect(cluster: SimCluster, master: str, graph: tf.Graph) -> SimSession:
    session = cluster.session(master, graph)
    answers: list[Any] = []
    session.open(lambda reply, error: answers.append(error))
    cluster.loop.run(0.5)
    assert answers == [None]
    return session


def run(cluster: SimCluster, session: SimSession, fetch: Any, seconds: float = 0.5) -> list[Any]:
    """Start a step and let it get under way; a list that gets what it is answered with."""
    answers: list[Any] = []
    session.run([fetch], lambda values, error: answers.append(values if error is None else error))
    cluster.loop.run(seconds)
    return answers


@pytest.mark.parametrize("first", [CHIEF, OTHER])
def test_a_task_that_is_stopped_amid_a_transfer_is_unavailable(first: str) -> None:
    cluster = SimCluster(7, {"ps": 1, "worker": 2})
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(PS):
            large = tf.Variable(tf.random_uniform([20_000], 1.0, 1.0), name="large")
        with tf.device(OTHER):
            fetch = tf.reduce_sum(large)
    meets = connect(cluster, first, graph)  # the links of the ps are in the order in which it met the others
    assert len(run(cluster, meets, large.initializer)) == 1
    session = connect(cluster, CHIEF, graph)
    assert run(cluster, session, fetch)[0] == [20_000]
    cluster.net.slow(OTHER, 1000.0)
    answers = run(cluster, session, fetch)
    assert not answers and any(link.sending.all for link in cluster.servers[PS].endpoint.links())
    cluster.servers[PS].stop()
    cluster.loop.run(cluster.settings.limit)
    (error,) = answers
    assert isinstance(error, errors.UnavailableError), repr(error)
    assert f"{PS} was stopped" in error.message


class Computing:
    """Of a task: what its runs are to compute, which they do when they are told to."""

    def __init__(self, cluster: SimCluster, task: str) -> None:
        self._cluster = cluster
        self.kept: list[Callable[[], None]] = []
        cluster.servers[task].core.worker.runner.submit = self.kept.append  # type: ignore[assignment]

    def go_on(self) -> None:
        while self.kept:
            self.kept.pop()()
            self._cluster.loop.run(ROUND_TRIP)


def at_the_ps(make: Callable[[], Any]) -> tuple[tf.Graph, Any]:
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS):
        return graph, make()


def computing_twice() -> Any:
    """Something that waits for nothing but what is computed before it."""
    with tf.control_dependencies([tf.random_uniform([])]):
        return tf.random_uniform([], 2.0, 2.0)


masters = pytest.mark.parametrize("master", [PS, CHIEF], ids=["its own", "of another"])


@pytest.fixture
def cluster() -> SimCluster:
    return SimCluster(7, {"ps": 1, "worker": 1})


@masters
def test_a_part_that_computes_answers_before_its_task_goes(cluster: SimCluster, master: str) -> None:
    graph, fetch = at_the_ps(computing_twice)
    session = connect(cluster, master, graph)
    computing = Computing(cluster, PS)
    answers = run(cluster, session, fetch)
    assert len(computing.kept) == 1
    cluster.servers[PS].stop()
    cluster.loop.run(ROUND_TRIP)
    assert not answers and not cluster.servers[PS].endpoint.closed
    computing.go_on()
    assert answers == [[2.0]]
    assert cluster.servers[PS].endpoint.closed


@masters
def test_what_waits_at_a_task_that_goes_is_cancelled_at_once(cluster: SimCluster, master: str) -> None:
    graph, fetch = at_the_ps(lambda: tf.FIFOQueue(1, tf.int32, [[]]).dequeue())
    session = connect(cluster, master, graph)
    answers = run(cluster, session, fetch)
    cluster.servers[PS].stop()
    cluster.loop.run(ROUND_TRIP)
    (error,) = answers
    assert isinstance(error, errors.UnavailableError) and f"{PS} was stopped" in error.message
    assert cluster.servers[PS].endpoint.closed


@masters
def test_a_part_that_comes_to_wait_while_its_task_goes_is_cancelled(cluster: SimCluster, master: str) -> None:
    def dequeue_later() -> Any:
        queue = tf.FIFOQueue(1, tf.int32, [[]])
        with tf.control_dependencies([tf.random_uniform([])]):
            return queue.dequeue()

    graph, fetch = at_the_ps(dequeue_later)
    session = connect(cluster, master, graph)
    computing = Computing(cluster, PS)
    answers = run(cluster, session, fetch)
    cluster.servers[PS].stop()
    computing.go_on()
    (error,) = answers
    assert isinstance(error, errors.UnavailableError) and f"{PS} was stopped" in error.message
    assert cluster.servers[PS].endpoint.closed


@masters
def test_a_part_that_computes_for_long_holds_no_task_up(cluster: SimCluster, master: str) -> None:
    graph, fetch = at_the_ps(computing_twice)
    session = connect(cluster, master, graph)
    Computing(cluster, PS)
    answers = run(cluster, session, fetch)
    cluster.servers[PS].stop()
    cluster.loop.run(2.0)
    (error,) = answers
    assert isinstance(error, errors.UnavailableError) and f"{PS} was stopped" in error.message
    assert cluster.servers[PS].endpoint.closed
    (step,) = cluster.servers[PS].core.worker.steps.values()
    assert step._context.error is not None, "it begins no further kernel"


@masters
def test_a_part_that_waits_for_another_task_is_cancelled_at_once(cluster: SimCluster, master: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(CHIEF):
            there = tf.random_uniform([])
        with tf.device(PS):
            fetch = there + 1.0
    session = connect(cluster, master, graph)
    computing = Computing(cluster, CHIEF)
    answers = run(cluster, session, fetch)
    cluster.servers[PS].stop()
    cluster.loop.run(ROUND_TRIP)
    computing.go_on()
    (error,) = answers
    assert isinstance(error, errors.UnavailableError) and f"{PS} was stopped" in error.message
    assert cluster.servers[PS].endpoint.closed


@pytest.mark.parametrize("elsewhere", ["has answered", "computes", "waits"])
def test_a_step_whose_master_goes_ends_as_what_is_left_of_it(cluster: SimCluster, elsewhere: str) -> None:
    graph, here = at_the_ps(computing_twice)
    with graph.as_default(), tf.device(CHIEF):
        queue = tf.FIFOQueue(1, tf.float32, [[]])
        there = queue.dequeue() if elsewhere == "waits" else computing_twice()
        with tf.device(PS):
            fetch = here + 1.0
    session = connect(cluster, PS, graph)
    computing, other = Computing(cluster, PS), Computing(cluster, CHIEF)
    answers: list[Any] = []
    session.run([fetch, there], lambda values, error: answers.append(values if error is None else error))
    cluster.loop.run(0.5)
    assert len(computing.kept) == 1
    if elsewhere == "has answered":
        cluster.net.slow(CHIEF, 20.0)  # its answer is on its way
        other.kept.pop()()
    cluster.servers[PS].stop()
    computing.go_on()
    other.go_on()
    if elsewhere == "has answered":
        assert answers == [[3.0, 2.0]]
    else:
        (error,) = answers
        assert isinstance(error, errors.UnavailableError) and f"{PS} was stopped" in error.message
    assert cluster.servers[PS].endpoint.closed


def test_a_part_that_begins_after_its_master_was_stopped_says_nothing_of_a_session_that_is_gone() -> None:
    cluster = SimCluster(7, {"ps": 1, "worker": 1})
    graph = tf.Graph()
    with graph.as_default(), tf.device(CHIEF):
        fed = tf.placeholder(tf.float32, [2000])
        fetch = tf.reduce_sum(fed)
    session = connect(cluster, PS, graph)
    answers: list[Any] = []
    feeds = {fed.name: np.ones(2000, np.float32)}
    for _ in range(2):
        session.run([fetch], lambda values, error: answers.append(values if error is None else error), feeds=feeds)
        cluster.loop.run(0.5)
        cluster.net.slow(CHIEF, 200.0)  # the second time its part waits for what is fed
    assert answers == [[2000.0]]
    cluster.servers[PS].stop()
    cluster.loop.run(2.0)
    error = answers[1]
    assert isinstance(error, errors.UnavailableError) and f"{PS} was stopped" in error.message


@masters
def test_a_large_answer_is_there_before_its_task_goes(cluster: SimCluster, master: str) -> None:
    graph, fetch = at_the_ps(lambda: tf.random_uniform([20_000], 2.0, 2.0))
    session = connect(cluster, master, graph)
    computing = Computing(cluster, PS)
    answers = run(cluster, session, fetch)
    cluster.servers[PS].stop()
    computing.kept.pop()()
    cluster.loop.run(0.001)
    assert not answers and not cluster.servers[PS].endpoint.closed
    cluster.loop.run(2.0)
    assert answers[0][0].tolist() == [2.0] * 20_000
    assert cluster.servers[PS].endpoint.closed


@pytest.mark.parametrize("quietly", [False, True])
def test_what_a_task_that_goes_is_asked_for_is_refused(cluster: SimCluster, quietly: bool) -> None:
    graph, fetch = at_the_ps(computing_twice)
    known, new = connect(cluster, CHIEF, graph), connect(cluster, CHIEF, graph)
    assert run(cluster, known, fetch) == [[2.0]]
    computing = Computing(cluster, PS)
    first = run(cluster, known, fetch)
    cluster.servers[PS].core.stop(quietly=quietly)
    for session in (known, new):
        (error,) = run(cluster, session, fetch, ROUND_TRIP)
        assert isinstance(error, errors.UnavailableError) and f"{PS} was stopped" in error.message
    computing.go_on()
    assert first == [[2.0]]
