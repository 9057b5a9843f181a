"""Synchronous replicas: the exact mean-gradient result, stale gradients, backups, hooks, lost workers."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import threads
from tests.kit.servers import start
from tests.kit.waiting import wait_for

WORKERS = 3
RANDOM = np.random.RandomState(0)
X = RANDOM.standard_normal((30, 4)).astype("float32")
Y = (X @ np.array([[1.0], [-2.0], [0.5], [3.0]]) + 0.25).astype("float32")


class Replica:
    """One worker's graph of the shared model; `share` is its part of each batch."""

    def __init__(
        self, index: int, make: Callable[[], Any], aggregate: int = WORKERS, total: int = WORKERS, tokens: int = 0
    ) -> None:
        self.index = index
        self.graph = tf.Graph()
        cluster = {"ps": ["h:1"], "worker": [f"h:{i}" for i in range(total)]}
        setter = tf.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)
        with self.graph.as_default(), tf.device(setter):
            self.step = tf.train.get_or_create_global_step()
            self.x, self.y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
            self.w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
            self.b = tf.get_variable("b", [1], initializer=tf.zeros_initializer())
            self.loss = tf.reduce_mean(tf.square(tf.matmul(self.x, self.w) + self.b - self.y))
            self.optimizer = tf.train.SyncReplicasOptimizer(
                make(), replicas_to_aggregate=aggregate, total_num_replicas=total
            )
            self.train = self.optimizer.minimize(self.loss, global_step=self.step)
            self.start = tf.global_variables_initializer()
            self.hook = self.optimizer.make_session_run_hook(index == 0, num_tokens=tokens)
            self.hook.begin()
            sums: list[Any] = [accumulator for accumulator, _ in self.optimizer._accumulators]
            tokens_queue: Any = self.optimizer._sync_token_queue
            self.sizes = [tokens_queue.size(), *(s.num_accumulated() for s in sums)]
            grads = [g for g, _ in self.optimizer.compute_gradients(self.loss)]
            local: Any = self.optimizer._local_step
            self.hand_in = [s.apply_grad(g, local_step=local) for s, g in zip(sums, grads)]
            self.ahead, self.behind = self.step.assign(7), local.assign(6)

    def session(self, server: tf.train.Server) -> tf.Session:
        return tf.Session(server.target, graph=self.graph)

    def feed(self, step: int) -> dict[Any, Any]:
        rows = slice(step % 2 * 15 + self.index * 5, step % 2 * 15 + self.index * 5 + 5)
        return {self.x: X[rows], self.y: Y[rows]}


@pytest.fixture
def servers() -> Iterator[dict[str, tf.train.Server]]:
    with start({"ps": 1, "worker": WORKERS}) as made:
        yield made


def alone(make: Callable[[], Any], steps: int) -> list[np.ndarray]:
    """What one process gets from the whole batch."""
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
        w, b = tf.Variable(tf.zeros([4, 1])), tf.Variable(tf.zeros([1]))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - y))
        train = make().minimize(loss)
        session.run(tf.global_variables_initializer())
        for step in range(steps):
            rows = slice(step % 2 * 15, step % 2 * 15 + 15)
            session.run(train, {x: X[rows], y: Y[rows]})
        return session.run([w, b])


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        lambda: tf.train.AdamOptimizer(0.1),
    ],
    ids=["sgd", "momentum", "adam"],
)
def test_three_workers_equal_one_process(servers: dict[str, tf.train.Server], make: Callable[[], Any]) -> None:
    """In each step every worker hands in one gradient; the barrier keeps fast ones from handing in two."""
    steps = 10
    together = threading.Barrier(WORKERS)
    replicas = [Replica(index, make) for index in range(WORKERS)]
    coordinator = tf.train.Coordinator()
    failed: list[BaseException] = []

    def work(replica: Replica, session: tf.Session) -> None:
        try:
            for step in range(steps):
                together.wait(20)
                session.run(replica.train, replica.feed(step))
        except Exception as error:
            failed.append(error)
            together.abort()

    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(r.session(servers[f"worker:{r.index}"])) for r in replicas]
        sessions[0].run(replicas[0].start)
        for replica, session in zip(replicas, sessions):
            replica.hook.after_create_session(session, coordinator)
        workers = [threads.start(work, "worker", r, s) for r, s in zip(replicas, sessions)]
        for worker in workers:
            worker.join(30)
        assert not failed
        chief = replicas[0]
        step, *found = sessions[0].run([chief.step, chief.w, chief.b])
        assert step == steps
        assert sessions[0].run(chief.sizes) == [0, 0, 0]
        stop(coordinator)
    for got, want in zip(found, alone(make, steps)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def stop(coordinator: tf.train.Coordinator) -> None:
    """End the chief's runner: it is blocked in a take, which the end of its session will cancel."""
    coordinator.request_stop()


def test_backups_carry_on_without_a_worker(servers: dict[str, tf.train.Server]) -> None:
    replicas = [Replica(i, lambda: tf.train.GradientDescentOptimizer(0.1), aggregate=2, tokens=0) for i in (0, 1)]
    coordinator = tf.train.Coordinator()
    with replicas[0].session(servers["worker:0"]) as first, replicas[1].session(servers["worker:1"]) as second:
        first.run(replicas[0].start)
        for replica, session in zip(replicas, (first, second)):
            replica.hook.after_create_session(session, coordinator)

        def work() -> None:
            while first.run(replicas[0].step) < 20:
                second.run(replicas[1].train, replicas[1].feed(0))

        worker = threads.start(work, "worker")
        while first.run(replicas[0].step) < 20:
            first.run(replicas[0].train, replicas[0].feed(0))
        worker.join(20)
        assert not worker.is_alive()
        stop(coordinator)


def test_one_worker_alone_makes_progress(servers: dict[str, tf.train.Server]) -> None:
    """Gradients count, not workers: the first tokens let one worker hand in several."""
    replica = Replica(0, lambda: tf.train.GradientDescentOptimizer(0.1), aggregate=2, total=1, tokens=-1)
    coordinator = tf.train.Coordinator()
    with replica.session(servers["worker:0"]) as session:
        session.run(replica.start)
        replica.hook.after_create_session(session, coordinator)
        while session.run(replica.step) < 5:
            session.run(replica.train, replica.feed(0))
        stop(coordinator)


def test_a_stale_gradient_is_dropped(servers: dict[str, tf.train.Server]) -> None:
    replica = Replica(0, lambda: tf.train.GradientDescentOptimizer(0.1), aggregate=1, total=1, tokens=-1)
    with replica.session(servers["worker:0"]) as session:
        session.run(replica.start)
        session.run(replica.ahead)
        session.run(replica.optimizer.chief_init_op)
        session.run(replica.behind)
        session.run(replica.hand_in, replica.feed(0))
        assert session.run(replica.sizes)[1:] == [0, 0]
        session.run(replica.optimizer.local_step_init_op)
        session.run(replica.hand_in, replica.feed(0))
        assert session.run(replica.sizes)[1:] == [1, 1]


def test_the_old_way_of_starting(servers: dict[str, tf.train.Server]) -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:ps/task:0"):
        w = tf.Variable(4.0, name="w")
        step = tf.train.get_or_create_global_step()
        average = tf.train.ExponentialMovingAverage(0.5, step)
        optimizer = tf.train.SyncReplicasOptimizerV2(
            tf.train.GradientDescentOptimizer(0.25), replicas_to_aggregate=1, total_num_replicas=1, replica_id=0,
            variable_averages=average, variables_to_average=[w],
        )  # fmt: skip
        with pytest.raises(ValueError, match="Should be called after apply_gradients"):
            optimizer.get_chief_queue_runner()
        with pytest.raises(ValueError, match="should be called after apply_gradients"):
            optimizer.get_init_tokens_op()
        with pytest.raises(ValueError, match="before using the hook"):
            optimizer.make_session_run_hook(True).begin()
        with pytest.raises(ValueError, match="Global step is required"):
            optimizer.minimize(w * w)
        train = optimizer.minimize(w * w, global_step=step)
        tf.train.add_queue_runner(optimizer.get_chief_queue_runner())
        tokens, initialize = optimizer.get_init_tokens_op(), tf.global_variables_initializer()
        assert optimizer.get_slot_names() == []
    coordinator = tf.train.Coordinator()
    with tf.Session(servers["worker:0"].target, graph=graph) as session:
        assert b"w" in session.run(optimizer.ready_for_local_init_op).tolist()
        session.run(initialize)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value sync_rep_local_step"):
            session.run(train)
        session.run(optimizer.chief_init_op)
        runners = tf.train.start_queue_runners(session, coord=coordinator)
        session.run(tokens)
        for _ in range(4):
            session.run(train)
        wait_for(lambda: session.run(step) >= 2, what="two steps")
        assert session.run(w) < 4.0
        stop(coordinator)
    coordinator.join(runners, stop_grace_period_secs=20)


def test_a_chief_ends_with_no_thread_left(
    servers: dict[str, tf.train.Server], caplog: pytest.LogCaptureFixture
) -> None:
    replica = Replica(0, lambda: tf.train.GradientDescentOptimizer(0.1), aggregate=1, total=1)
    before = set(threading.enumerate())
    told: list[Any] = []

    class Last(tf.train.SessionRunHook):
        def end(self, session: Any) -> None:
            told.append(session.run(replica.step))

    hooks = [replica.optimizer.make_session_run_hook(True), tf.train.StopAtStepHook(5), Last()]
    with replica.graph.as_default(), caplog.at_level(logging.INFO):
        with tf.train.MonitoredTrainingSession(servers["worker:0"].target, hooks=hooks, stop_grace_period_secs=20) as s:
            while not s.should_stop():
                s.run(replica.train, replica.feed(0))
        left = [t.name for t in set(threading.enumerate()) - before if "QueueRunner" in t.name]
    assert left == []
    assert told == [5]
    assert "threads still running" not in caplog.text
    assert "ended with an error" not in caplog.text


def test_rows_of_an_embedding(servers: dict[str, tf.train.Server]) -> None:
    """Each worker's rows; a row's mean is over the workers that had it."""
    table = np.arange(10, dtype="float32").reshape(5, 2)
    graphs = []
    for index in range(2):
        graph = tf.Graph()
        with graph.as_default(), tf.device(f"/job:worker/task:{index}"):
            with tf.device("/job:ps/task:0"):
                e = tf.Variable(table, name="e")
                step = tf.train.get_or_create_global_step()
            ids = tf.constant([0, 1, 1] if index == 0 else [1, 4])
            loss = tf.reduce_sum(tf.gather(e, ids))
            optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 2)
            train = optimizer.minimize(loss, global_step=step)
            hook = optimizer.make_session_run_hook(index == 0, num_tokens=0)
            hook.begin()
            graphs.append((graph, train, hook, tf.global_variables_initializer(), e))
    coordinator = tf.train.Coordinator()
    with tf.Session(servers["worker:0"].target, graph=graphs[0][0]) as first:
        with tf.Session(servers["worker:1"].target, graph=graphs[1][0]) as second:
            first.run(graphs[0][3])
            graphs[0][2].after_create_session(first, coordinator)
            graphs[1][2].after_create_session(second, coordinator)
            other = threads.start(lambda: second.run(graphs[1][1]), "worker")
            first.run(graphs[0][1])
            other.join(20)
            got = first.run(graphs[0][4])
            stop(coordinator)
    gradient = np.zeros((5, 2), "float32")
    gradient[0], gradient[1], gradient[4] = 1.0, (2.0 + 1.0) / 2, 1.0
    np.testing.assert_array_equal(got, table - gradient)


def test_too_few_tokens() -> None:
    with tf.Graph().as_default():
        w, step = tf.Variable(1.0), tf.train.create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 5, total_num_replicas=2)
        optimizer.minimize(w * w, global_step=step)
        with pytest.raises(ValueError, match=r"Too few tokens to finish the first step: 2 \(given\) vs 3 \(needed\)"):
            optimizer.get_init_tokens_op(2)


def test_a_hook_of_a_model_that_is_not_ready_says_what_is_missing(servers: dict[str, tf.train.Server]) -> None:
    replica = Replica(0, lambda: tf.train.GradientDescentOptimizer(0.1))
    with replica.session(servers["worker:0"]) as session:
        with pytest.raises(RuntimeError, match="variables not initialized: global_step, w, b"):
            replica.hook.after_create_session(session, None)
