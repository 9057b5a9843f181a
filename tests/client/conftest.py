"""Sessions on each kind of master: private, a server of this process, a server of another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dtfzmq as tf
from tests.kit.cluster import Cluster


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A ps and a worker, each a process; their state is shared by the tests of a module, so names differ."""
    cluster = Cluster({"ps": 1, "worker": 1}, tmp_path_factory.mktemp("remote"))
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(params=["private", "here", "remote"])
def target(request: pytest.FixtureRequest, remote: Cluster) -> Iterator[str]:
    """A target of each kind. The processes start before the first test, which then need not account for them."""
    if request.param == "private":
        yield ""
    elif request.param == "here":
        server = tf.train.Server.create_local_server()
        yield server.target
        server.stop()
    else:
        yield remote.target("worker")


@pytest.fixture
def session(target: str) -> Iterator[Callable[..., tf.Session]]:
    """Opens sessions on the target, closed with the test; each has a fresh graph that is the default one."""
    opened = []
    graph = tf.Graph()

    def open_session(**options: Any) -> tf.Session:
        made = tf.Session(target, graph=graph, **options)
        opened.append(made)
        return made

    with graph.as_default():
        yield open_session
    for made in opened:
        made.close()
