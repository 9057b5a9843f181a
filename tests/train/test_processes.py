"""Queues and variables on real processes: what dies leaves nothing blocked, and nothing stolen."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import dtfzmq as tf
from tests.kit.cluster import Cluster
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
