"""How a daemon ends that is in the midst of a kernel of linear algebra."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

import pytest

import dtfzmq as tf
from tests.cli.test_daemons import can_bind
from tests.kit.cluster import Cluster, Task
from tests.kit.waiting import wait_for

Processes = Callable[..., Cluster]


def processor_ticks(task: Task) -> int:
    """Processor time of a process, in ticks of the kernel's clock."""
    with open(f"/proc/{task.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_daemon_ends_in_the_midst_of_a_factorization(processes: Processes, number: int, code: int) -> None:
    cluster = processes({"ps": 1}, environment={"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"})
    task = cluster.start("ps")
    with tf.Graph().as_default(), tf.Session(cluster.target("ps")) as session:
        # It takes longer, on any machine, than the end of the daemon is waited for.
        long = tf.svd(tf.random_uniform([8000, 8000]), compute_uv=False)
        failed: list[tf.errors.OpError] = []

        def run() -> None:
            try:
                session.run(long)
            except tf.errors.OpError as error:
                failed.append(error)

        runner = threading.Thread(target=run)
        before = processor_ticks(task)
        runner.start()
        wait_for(lambda: processor_ticks(task) - before > 400, 60, "the factorization")  # 4 s of two threads
        task.send(number)
        assert task.wait() == code, task.output()
        assert can_bind(cluster.address("ps"))
        runner.join(20)
        assert failed
