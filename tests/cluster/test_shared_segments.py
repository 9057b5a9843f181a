"""Large tensors between processes of one host: on by default, and kill -9 at either end leaves no segment behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import dtfzmq as tf
from tests.kit.cluster import Cluster, Task
from tests.kit.waiting import wait_for

BYTES = 32 << 20

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with tf.Graph().as_default():
        made = Cluster({"ps": 1, "worker": 2}, tmp_path)
        made.start_all()
        yield made
        made.close()


def held(task: Task) -> int:
    """Descriptors and maps of segments that a process has."""
    folder = Path(f"/proc/{task.process.pid}")
    own = sum("memfd:dtfzmq" in path.readlink().name for path in (folder / "fd").iterdir() if path.is_symlink())
    maps = sum("memfd:dtfzmq" in line for line in (folder / "maps").read_text().splitlines())
    return own + maps


def moving(session: tf.Session) -> tuple[threading.Thread, list[Exception], list[int]]:
    """A thread that moves a large tensor from ps to a worker until that fails."""
    errors: list[Exception] = []
    done: list[int] = []
    with tf.device("/job:ps/task:0"):
        k = tf.placeholder(tf.float32, [])
        made = tf.fill([BYTES // 4], k)
    with tf.device("/job:worker/task:0"):
        seen = tf.reduce_max(made)

    def go_on() -> None:
        try:
            while True:
                assert session.run(seen, {k: len(done)}) == len(done)
                done.append(len(done))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    return thread, errors, done


@pytest.mark.parametrize("victim", ["ps/0", "worker/0"])
def test_kill_at_either_end_leaves_no_segment(cluster: Cluster, victim: str) -> None:
    session = tf.Session(cluster.target("worker", 1))
    survivor = cluster.tasks["worker/0" if victim == "ps/0" else "ps/0"]
    before = held(survivor)
    thread, errors, done = moving(session)
    wait_for(lambda: len(done) > 3 or errors, 20)
    assert not errors and held(survivor) > before, "large tensors go through shared memory"
    cluster.tasks[victim].kill()
    thread.join(10)
    assert not thread.is_alive() and isinstance(errors[0], tf.errors.UnavailableError), errors
    wait_for(lambda: held(survivor) == before, 15, "no segment is left")
    session.close()


def test_what_is_fed_and_fetched_is_the_callers_own(cluster: Cluster) -> None:
    fed = np.arange(BYTES // 4, dtype=np.float32)
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [None])
        v = tf.Variable(tf.zeros([BYTES // 4]), name="v")
        assign = tf.assign(v, x)
        twice = x * 2.0
    with tf.Session(cluster.target("worker")) as session:
        session.run(assign.op, {x: fed})
        first = session.run(twice, {x: fed})
        fed[:] = 7.0
        kept = session.run(v)
        assert kept[-1] == BYTES // 4 - 1 and first[-1] == 2 * kept[-1]
        assert first.flags.writeable and kept.flags.writeable
        kept[:] = 0.0
        assert session.run(v)[-1] == BYTES // 4 - 1
