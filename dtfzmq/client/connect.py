"""From a target to a connection: a private task, a server of this process, or one behind a link."""

from __future__ import annotations

from dtfzmq.client import network, options
from dtfzmq.client.config import ConfigProto
from dtfzmq.client.connection import Connection, LocalConnection
from dtfzmq.cluster import blas, server
from dtfzmq.cluster.addresses import target_address
from dtfzmq.cluster.private import PrivateCluster


def connect(target: str, config: ConfigProto) -> Connection:
    """The connection that a target asks for; contacts nobody. OpError for a target that is none.

    A private task takes the options of devices and threads; where a server has them already, a warning names them.
    """
    if not target:
        blas.divide(config.intra_op_parallelism_threads, tasks=1)
        cluster = PrivateCluster(config)
        return LocalConnection(cluster.loop, cluster.task.handle, cluster.close)
    address = target_address(target)
    options.warn(target, config)
    here = None if config.rpc_options.use_rpc_for_inprocess_master else server.running_at(address)
    if here is not None:
        return LocalConnection(here.loop, here.core.handle, _nothing)
    return network.connect(address)


def _nothing() -> None:
    """The server stays when a session of its process goes."""
