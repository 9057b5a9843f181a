"""A feed that takes long to come: what came early for its step waits, and a step that was cancelled does not begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.wire.settings import LinkSettings
from tests.sim.test_gone_clients import PROGRAM, PS, WORKER, Answers, Cluster, client, run

# Bytes a second: a chunk of the feed takes 25 s, and a small message some.
SLOW = 20.0


class Feeding:
    """A client of the worker, whose steps feed 12 kB to the ps; lines get slow."""

    def __init__(self, graph: tf.Graph) -> None:
        self.cluster = Cluster(WORKER)
        self.session: Any = self.cluster.session(WORKER, graph)
        opened = Answers()
        self.session.open(opened)
        self.cluster.loop.run(0.5)
        assert len(opened.found) == 1
        self.answers = Answers()

    def run(self, fetch: Any, feeds: dict[str, Any], timeout: float = 0.0, seconds: float = 1.0) -> None:
        self.session.run([fetch], self.answers, timeout, feeds)
        self.cluster.loop.run(seconds)

    @property
    def ps(self) -> Any:
        return self.cluster.servers[PS].core

    def until_it_runs(self) -> float:
        """Seconds until the ps begins the step."""
        began, before = self.cluster.loop.now(), self.ps.worker.parts_run
        self.cluster.loop.run(900.0, lambda: self.ps.worker.parts_run > before)
        return self.cluster.loop.now() - began


@pytest.mark.parametrize("large", [False, True], ids=["a pushed tensor", "an announced tensor"])
def test_what_came_early_waits_as_long_as_the_feed_takes(large: bool) -> None:
    graph = tf.Graph()
    with graph.as_default():
        fed, factor = tf.placeholder(tf.float32, [3000], name="fed"), tf.placeholder(tf.float32, [], name="factor")
        with tf.device(WORKER):
            other = tf.fill([100], factor) if large else factor * 2.0
        with tf.device(PS):
            product = tf.reduce_sum(fed) * tf.reduce_sum(other)
    feeding = Feeding(graph)
    feeds = {"fed:0": np.ones(3000, np.float32), "factor:0": np.float32(3.0)}
    feeding.run(product, feeds)
    feeding.cluster.net.bandwidth = SLOW
    feeding.run(product, feeds)
    assert feeding.until_it_runs() > 2 * feeding.cluster.settings.park_age
    assert feeding.ps.rendezvous.statistics().evicted == 0
    feeding.cluster.loop.run(300.0)
    assert len(feeding.answers.found) == 2
    assert feeding.answers.found[0] == feeding.answers.found[1] == [3000.0 * (300.0 if large else 6.0)]


def test_what_came_early_is_given_up_once_its_master_is_gone() -> None:
    graph = tf.Graph()
    with graph.as_default():
        fed, factor = tf.placeholder(tf.float32, [3000], name="fed"), tf.placeholder(tf.float32, [], name="factor")
        with tf.device(WORKER):
            double = factor * 2.0
        with tf.device(PS):
            product = tf.reduce_sum(fed) * double
    feeding = Feeding(graph)
    feeds = {"fed:0": np.ones(3000, np.float32), "factor:0": np.float32(3.0)}
    feeding.run(product, feeds)
    feeding.cluster.net.bandwidth = SLOW
    feeding.run(product, feeds)
    rendezvous = feeding.ps.rendezvous
    assert feeding.cluster.loop.run(900.0, lambda: rendezvous.statistics().parked == 1)
    feeding.cluster.loop.run(2 * feeding.cluster.settings.park_age)
    assert rendezvous.statistics().parked == 1
    feeding.cluster.net.kill(feeding.cluster.servers[WORKER].host)
    feeding.cluster.loop.run(10.0)
    assert rendezvous.statistics().parked == 0


def test_a_cancelled_step_does_not_begin_however_late_its_feed_comes() -> None:
    cluster = Cluster(WORKER)
    session = client(cluster)
    feeds = {"fed:0": np.zeros(1000, np.float32)}
    answers = Answers()
    run(cluster, session, PROGRAM.put)
    session.run([PROGRAM.take_if_fed], answers, 0.0, feeds)
    cluster.loop.run(1.0)
    assert answers.last() == [7]
    run(cluster, session, PROGRAM.put)
    cluster.net.bandwidth = SLOW / 4
    session.run([PROGRAM.take_if_fed], answers, 30.0, feeds)
    worker = cluster.servers[PS].core.worker
    begun = worker.parts_run
    cluster.loop.run(900.0)
    assert isinstance(answers.last(), tf.errors.DeadlineExceededError)
    assert not any(link.incoming for link in cluster.servers[PS].endpoint.links()), "the feed has come"
    assert worker.parts_run == begun
    cluster.net.bandwidth = 1e9
    assert run(cluster, session, PROGRAM.size) == [1]
    assert cluster.servers[PS].core.rendezvous.statistics().tombstones <= 1, "of the last step"


def test_early_tensors_outlast_what_a_slow_control_lane_takes() -> None:
    usual = LinkSettings()
    assert usual.park_age > 2 * (2 * usual.control_window / (0.5e6 / 8))
