"""Servers of one cluster in this process, on ports of the system's choice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import dtfzmq as tf
from dtfzmq.cli.ports import HeldPorts


@contextlib.contextmanager
def start(jobs: Mapping[str, int], config: tf.ConfigProto | None = None) -> Iterator[dict[str, tf.train.Server]]:
    """Run a server for each task of `jobs` ({"ps": 1, "worker": 2}); yields them as "job:index"; stopped at the end."""
    held = HeldPorts(sum(jobs.values()))
    ports = iter(held.ports)
    spec = tf.train.ClusterSpec({job: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for job, n in jobs.items()})
    made: dict[str, tf.train.Server] = {}
    try:
        for job, count in jobs.items():
            for index in range(count):
                made[f"{job}:{index}"] = tf.train.Server(spec, job_name=job, task_index=index, config=config)
        yield made
    finally:
        for server in made.values():
            server.stop()
        held.close()
