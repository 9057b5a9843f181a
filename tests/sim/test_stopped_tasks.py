"""A task that is stopped lets go: of what it ran its peers hear how it ended, and that it was stopped, in this order."""

from __future__ import annotations

from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from tests.kit.simcluster import SimCluster, SimSession

PS = "/job:ps/replica:0/task:0"
CHIEF, OTHER = "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"


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
