"""Queues and variables on real processes: what dies leaves nothing blocked, and nothing stolen."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dtfzmq as tf
from tests.kit.cluster import Cluster, Task
from tests.kit.waiting import wait_for

CLIENT = """
    import sys
    import dtfzmq as tf
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, tf.float32, shapes=[[]], shared_name="q")
        began = tf.FIFOQueue(10, tf.float32, shapes=[[]], shared_name="began")
        with tf.control_dependencies([began.enqueue(1.0)]):
            get = queue.dequeue()
    with tf.Session(sys.argv[1]) as session:
        print("got", session.run(get), flush=True)
"""


@pytest.mark.slow
def test_a_killed_client_takes_no_element_with_it(processes: Callable[..., Cluster], tmp_path: Path) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    script = tmp_path / "client.py"
    script.write_text(textwrap.dedent(CLIENT))
    client = cluster.script(script, cluster.target("worker"))
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, tf.float32, shapes=[[]], shared_name="q")
        began = tf.FIFOQueue(10, tf.float32, shapes=[[]], shared_name="began")
        put, size, begun = queue.enqueue(3.0), queue.size(), began.dequeue()
    with tf.Session(cluster.target("worker"), graph=graph) as session:
        session.run(begun)
        client.kill()

        def kept() -> bool:
            session.run(put)
            return bool(session.run(size) > 0)

        # an element may be given to the dead client's step until its death is known, and is lost with it
        wait_for(kept, 20, "the dead client's dequeue to be cancelled")
        assert session.run(size) == 1


@pytest.mark.slow
def test_a_ps_that_comes_back_has_empty_variables_and_queues(processes: Callable[..., Cluster]) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    graph = tf.Graph()
    with graph.as_default(), tf.device("/job:ps/task:0"):
        v = tf.Variable(3.0, name="v")
        queue = tf.FIFOQueue(10, tf.float32, shapes=[[]], shared_name="q")
        put, size, missing = queue.enqueue(1.0), queue.size(), tf.report_uninitialized_variables()
    with tf.Session(cluster.target("worker"), graph=graph) as session:
        session.run(v.initializer)
        session.run(put)
        cluster.tasks["ps/0"].restart()
        cluster.tasks["ps/0"].wait_printed("ready at")
        with pytest.raises((tf.errors.AbortedError, tf.errors.UnavailableError)):
            session.run(v)
    with tf.Session(cluster.target("worker"), graph=graph) as session:
        assert session.run(missing).tolist() == [b"v"]
        assert session.run(size) == 0
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value v"):
            session.run(v)
        session.run(v.initializer)
        assert session.run(v) == 3.0


REPLICA = """
    import json, os, sys, time
    import numpy as np
    import dtfzmq as tf
    config, needed = json.loads(os.environ["TF_CONFIG"]), int(sys.argv[1])
    index, cluster = config["task"]["index"], config["cluster"]
    server = tf.train.Server(cluster, job_name="worker", task_index=index)
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=f"/job:worker/task:{index}")):
        w, step = tf.Variable(np.zeros(4, "float32")), tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.1), needed, total_num_replicas=len(cluster["worker"]))
        train = optimizer.minimize(tf.reduce_sum(tf.square(w - float(index))), global_step=step)
        hook = optimizer.make_session_run_hook(index == 0)
        hook.begin()
        initialize = tf.global_variables_initializer()
        missing = tf.report_uninitialized_variables(tf.global_variables())
    coordinator = tf.train.Coordinator()
    with tf.Session(server.target) as session:
        if index == 0:
            session.run(initialize)
        while len(session.run(missing)):
            time.sleep(0.02)
        hook.after_create_session(session, coordinator)
        goal = 30
        try:
            while True:
                _, now = session.run([train, step])
                if now >= goal:
                    print("reached", goal, flush=True)
                    goal += 30
        except tf.errors.UnavailableError as error:
            print("unavailable:", error.message, flush=True)
            coordinator.request_stop()
    server.stop()
    print("ended", flush=True)
"""


def replicas(cluster: Cluster, folder: Path, needed: int) -> list[Any]:
    cluster.start("ps")
    script = folder / "replica.py"
    script.write_text(textwrap.dedent(REPLICA))
    count = len(cluster.spec["worker"])
    started = [cluster.script(script, str(needed), job="worker", index=i) for i in range(count)]
    for replica in started:
        replica.wait_printed("reached 30")
    return started


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 2])
def test_a_lost_worker_is_named_to_the_others(
    processes: Callable[..., Cluster], tmp_path: Path, victim: int
) -> None:
    """The chief and another worker, each killed: nobody waits for ever, and all are told for whom."""
    started = replicas(processes({"ps": 1, "worker": 3}), tmp_path, needed=3)
    started[victim].kill()
    for index, replica in enumerate(started):
        if index != victim:
            told = replica.wait_printed("ended")
            assert f"/job:worker/replica:0/task:{victim} was lost" in told
            assert replica.wait() == 0


@pytest.mark.slow
def test_backups_go_on_when_a_worker_is_lost(processes: Callable[..., Cluster], tmp_path: Path) -> None:
    started = replicas(processes({"ps": 1, "worker": 3}), tmp_path, needed=2)
    started[2].kill()
    before = [replica.output() for replica in started]
    for replica, seen in zip(started[:2], before):
        goal = 30 * (seen.count("reached") + 4)
        replica.wait_printed(f"reached {goal}")
        assert "unavailable" not in replica.output()


MONITORED = """
    import sys
    import dtfzmq as tf
    with tf.device("/job:ps/task:0"):
        step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    is_chief = sys.argv[2] == "chief"
    with tf.train.MonitoredTrainingSession(
        sys.argv[1], is_chief, sys.argv[3], save_checkpoint_steps=5, hooks=[tf.train.StopAtStepHook(100_000)]
    ) as session:
        while not session.should_stop():
            print("step", session.run(step), flush=True)
"""


@pytest.mark.slow
def test_monitored_sessions_go_on_when_a_ps_was_restarted(
    processes: Callable[..., Cluster], tmp_path: Path
) -> None:
    """The runs return by themselves, with steps that follow those of the last checkpoint."""
    cluster = processes({"ps": 1, "worker": 2})
    cluster.start_all()
    script = tmp_path / "monitored.py"
    script.write_text(textwrap.dedent(MONITORED))
    folder = str(tmp_path / "ckpt")
    chief = cluster.script(script, cluster.target("worker", 0), "chief", folder)
    other = cluster.script(script, cluster.target("worker", 1), "worker", folder, index=1)

    def steps(task: Task) -> list[int]:
        return [int(line[5:]) for line in task.output().splitlines() if line.startswith("step ")]

    def more(task: Task, than: int) -> bool:
        return len(steps(task)) > than

    wait_for(lambda: steps(chief) and steps(chief)[-1] > 50, 20)
    for _ in range(2):
        ps = cluster.tasks["ps/0"]
        ps.kill()
        seen = [len(steps(task)) for task in (chief, other)]
        ps.restart()
        for task, before in zip((chief, other), seen):
            wait_for(functools.partial(more, task, before + 100), 30)
            assert min(steps(task)[before:]) > 20, "not from scratch: the last checkpoint is a few steps old"
