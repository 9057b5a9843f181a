"""Tasks whose cluster specifications differ: what a step sends to another process than its master met is no wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from tests.kit.simcluster import SimCluster, SimSession

PS, CHIEF, OTHER = (
    f"/job:{task}" for task in ("ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1")
)
# Above any of the simulated network, links to processes met for the first time included.
SOON = 1.0


def moved(cluster: SimCluster) -> None:
    """Give OTHER a new address in the cluster of CHIEF and of itself, while its old process and the ps go on."""
    cluster.known = {**cluster.known, "worker": [cluster.known["worker"][0], "elsewhere:1"]}
    cluster.addresses = {**cluster.addresses, OTHER: "elsewhere:1"}
    cluster.kill(CHIEF)
    cluster.start(CHIEF)
    cluster.start(OTHER)


def run(cluster: SimCluster, session: SimSession, fetches: list[Any]) -> Any:
    answers: list[Any] = []
    session.run(fetches, lambda values, error: answers.append(values if error is None else error))
    cluster.loop.run(SOON)
    (answer,) = answers
    return answer


def connected(cluster: SimCluster, graph: tf.Graph) -> SimSession:
    session = cluster.session(CHIEF, graph)
    session.open(lambda reply, error: None)
    cluster.loop.run(SOON)
    return session


@pytest.mark.parametrize("size", [3, 20_000])
@pytest.mark.parametrize("linked", [False, True], ids=["no link yet", "linked to the old process"])
def test_a_step_that_sends_to_a_stranger_fails_and_names_it(linked: bool, size: int) -> None:
    cluster = SimCluster(3, {"ps": 1, "worker": 2})
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(PS):
            here = tf.random_uniform([size])
        with tf.device(OTHER):
            there = tf.reduce_max(here + tf.random_uniform([]))
    if linked:
        assert run(cluster, connected(cluster, graph), [there])[0].dtype == np.float32
    old = cluster.servers[OTHER]
    moved(cluster)
    session = connected(cluster, graph)
    for _ in range(2):
        error = run(cluster, session, [there])
        assert isinstance(error, errors.AbortedError), error
        assert all(text in error.message for text in (PS, OTHER, "cluster specifications differ")), error.message
        assert f"{old.core.incarnation:016x}" in error.message
    assert run(cluster, session, [here])[0].shape == (size,), "what is not sent there goes on"
    for server in (*cluster.servers.values(), old):
        assert not server.leftovers()


def test_a_step_that_has_sent_before_it_is_known_to_be_a_stranger_fails() -> None:
    cluster = SimCluster(3, {"ps": 1, "worker": 2})
    moved(cluster)
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(PS):
            here = tf.random_uniform([])
            queue = tf.FIFOQueue(2, [tf.float32], [()])
            put, waits = queue.enqueue(1.0), queue.dequeue()
        with tf.device(OTHER):
            there = here + tf.random_uniform([])
    session = connected(cluster, graph)
    answers: list[Any] = []
    session.run([there, waits], lambda values, error: answers.append(error))  # its part on the ps has not ended
    cluster.loop.run(SOON)
    assert len(answers) == 1 and isinstance(answers[0], errors.AbortedError), answers
    assert run(cluster, session, [put]) == []
