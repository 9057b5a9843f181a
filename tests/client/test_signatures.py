"""Signatures that a session has run come to an end at client, master and workers, and may come again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from tests.kit import servers
from tests.kit.waiting import wait_for

MOST = 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, tf.train.Server]]:
    with servers.start({"ps": 1, "worker": 1}) as made:
        yield made


@pytest.fixture(params=[False, True], ids=["direct", "link"])
def session(request: pytest.FixtureRequest, cluster: dict[str, tf.train.Server]) -> Iterator[tf.Session]:
    config = tf.ConfigProto(max_signatures=MOST)
    config.rpc_options.use_rpc_for_inprocess_master = request.param
    with tf.Graph().as_default(), tf.Session(cluster["worker:0"].target, config=config) as made:
        yield made


class Counts:
    """How many signatures of the one open session are kept, and where."""

    def __init__(self, cluster: dict[str, tf.train.Server], session: tf.Session) -> None:
        self._cluster = cluster
        self._session = session

    def master(self) -> Any:
        (found,) = self._cluster["worker:0"].core.master.sessions.values()
        return found

    def parts(self) -> list[int]:
        handle = self.master().handle
        return [len(server.core.worker.sessions[handle].parts) for server in self._cluster.values()]

    def check(self) -> None:
        """Nowhere too many, and the workers have what the master knows of; they hear of it a moment later."""
        assert len(self._session._calls) <= MOST
        with self._session._loop.held():  # a step ends a moment after its answer went out
            plans = self.master().plans
            assert len(plans) == MOST and len(plans.calls) <= MOST
            known = [
                sum(server.core.name in plan.tasks for plan in plans._plans.values())
                for server in self._cluster.values()
            ]
        wait_for(lambda: self.parts() == known, what=f"{known} parts at the workers")


def crossing(value: Any) -> Any:
    """An op on the worker that needs one on the ps, and nothing that is computed while it is planned."""
    with tf.device("/job:ps/task:0"):
        there = tf.placeholder_with_default(0, []) + value
    with tf.device("/job:worker/task:0"):
        return there + 1


def test_new_signatures_take_the_place_of_old_ones(session, cluster):
    x = tf.placeholder(tf.int32, [])
    first = crossing(x)
    kept = [first]
    for i in range(3 * MOST):
        assert session.run(kept[-1], {x: i}) == len(kept) + i
        kept.append(crossing(kept[-1]))
    counts = Counts(cluster, session)
    counts.check()
    for _ in range(2):
        for i, fetch in enumerate(kept):
            assert session.run(fetch, {x: 0}) == i + 1
    counts.check()


def test_callables_that_were_given_up_run_again_and_once(session, cluster):
    with tf.device("/job:ps/task:0"):
        count = tf.Variable(0, name="signatures_count")
        more = tf.assign_add(count, 1)
    session.run(count.initializer)
    calls = [session.make_callable(crossing(more)) for _ in range(2 * MOST)]
    for n in range(5 * len(calls)):
        assert calls[n * 3 % len(calls)]() == n + 2
    Counts(cluster, session).check()


def test_what_is_used_stays(session, cluster):
    x = tf.placeholder(tf.int32, [])
    often = session.make_callable(crossing(x), [x])
    often(0)
    plans = Counts(cluster, session).master().plans
    (plan,) = plans.calls.values()
    for i in range(3 * MOST):
        session.run(crossing(i))
        assert often(i) == i + 1
    assert plan in plans.calls.values()


@pytest.mark.parametrize("how", ["run", "partial"])
def test_a_step_under_way_keeps_its_parts(session, cluster, how):
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(3, tf.int32, [[]], shared_name=f"signatures_{how}_{session.sess_str}")
        put = queue.enqueue(41)
    x = tf.placeholder(tf.int32, [])
    waiting = crossing(queue.dequeue() + x)
    answers: list[Any] = []
    if how == "run":
        thread = threading.Thread(target=lambda: answers.append(session.run(waiting, {x: 1})))
        thread.start()
    else:
        partial = session.partial_run_setup([waiting], [x])
    counts = Counts(cluster, session)
    wait_for(lambda: bool(session._handle) and bool(counts.master().steps), what="the step under way")
    for i in range(3 * MOST):
        session.run(crossing(i))
    counts.check()
    session.run(put)
    if how == "run":
        thread.join(10)
    else:
        answers.append(session.partial_run(partial, waiting, {x: 1}))
    assert answers == [43]
    counts.check()


def test_many_steps_at_once_are_given_up_when_they_end(session, cluster):
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(50, tf.int32, [[]], shared_name=f"signatures_many_{id(session)}")
        put = queue.enqueue_many([np.zeros(3 * MOST, np.int32)])
        taken = queue.dequeue()
    fetches = [crossing(taken + i) for i in range(3 * MOST)]
    session.run(crossing(0))
    threads = [threading.Thread(target=session.run, args=(fetch,)) for fetch in fetches]
    for thread in threads:
        thread.start()
    counts = Counts(cluster, session)
    wait_for(lambda: len(counts.master().steps) == len(fetches), what="every step under way")
    assert len(counts.master().plans) >= len(fetches)
    session.run(put)
    for thread in threads:
        thread.join(10)
    counts.check()
