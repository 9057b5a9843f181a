"""How many tasks of a cluster share this host."""

from __future__ import annotations

from dtfzmq.cluster.addresses import split_address
from dtfzmq.cluster.spec import ClusterSpec

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def tasks_on_this_host(spec: ClusterSpec, own: str) -> int:
    """How many tasks of the cluster have the host that `own` ("host:port") has; at least 1."""
    pair = split_address(own)
    host = pair[0] if pair is not None else ""
    same = 0
    for job in spec.jobs:
        for index in spec.task_indices(job):
            other = split_address(spec.task_address(job, index))
            if other is not None and (other[0] == host or {other[0], host} <= _LOOPBACK):
                same += 1
    return max(1, same)
