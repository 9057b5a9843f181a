"""A process that has no descriptor left: what stands goes on, what must end does, and both ends of a lane know it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from dtfzmq.base import clock
from dtfzmq.wire import connections, zmqlisten, zmqsocket
from dtfzmq.wire.connections import counted, find
from tests.kit.peer import CountMe
from tests.wire.test_connections import QUICK, Stranger, greeting
from tests.wire.test_zmq_links import TASK, Client, Peer, serving


@contextlib.contextmanager
def starved(left: int = 0) -> Iterator[None]:
    """While the block runs, this process can make so many descriptors more."""
    free = [os.dup(0) for _ in range(left + 1)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for fd in free:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(free), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_connection_is_known_and_ended_without_a_descriptor() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as outside,
        listener.accept()[0] as inside,
    ):
        outside.sendall(b"x")
        assert inside.recv(1) == b"x"
        with starved():
            with pytest.raises(OSError, match="Too many open files"):
                os.dup(0)
            found = find(inside.fileno())
            assert found is not None
            came = found.came()
            found.cut()
            assert outside.recv(1) == b""
        assert found.near_port == listener.getsockname()[1]
        assert came == int(counted())


def test_whether_the_system_counts_is_asked_again_if_no_descriptor_was_left() -> None:
    known = counted()
    connections._tried.cache_clear()
    with starved(1):
        assert not counted()
    assert counted() == known


def test_a_server_without_descriptors_keeps_who_is_there() -> None:
    """It can still tell what comes: nobody is taken for silent, and nobody is forgotten who then waits for ever."""
    limit = 4.0  # half of it a busy machine may not stand still
    client, peer = Client(), Peer(limit=limit)
    link = client.link(peer.address, TASK)
    client.call(link, CountMe())
    limits = resource.prlimit(peer.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(peer.process.pid, resource.RLIMIT_NOFILE, (1, limits[1]))
    end = clock.now() + 0.7 * limit
    while clock.now() < end:
        client.call(link, CountMe())
    resource.prlimit(peer.process.pid, resource.RLIMIT_NOFILE, limits)
    client.call(link, CountMe())
    assert link.repeats_out == 0 and not client.lost
    client.close()
    peer.close()


def test_a_connection_that_took_the_last_descriptor_and_says_nothing_is_ended() -> None:
    server = serving(QUICK)
    stranger = Stranger(server, connect=False)
    with starved(2):  # one for each end
        stranger.connect()
        assert stranger.is_cut_off()
    stranger.close()
    server.close()


def test_a_lane_that_the_other_end_says_is_closed_ends_with_its_connection() -> None:
    server = serving(QUICK)
    stranger = Stranger(server)
    listener: Any = server.endpoint._listener
    assert server.wait_for(lambda: len(listener._outer.connections) == 1)
    stranger.sock.send(greeting())
    assert stranger.sock.poll(30_000), "it is welcome"
    stranger.sock.send(zmqsocket.CLOSED)
    assert stranger.is_cut_off()
    stranger.close()
    server.close()


def test_a_lane_that_is_given_up_since_nothing_can_be_sent_ends_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    client, server = Client(), serving()
    link = client.link(server.endpoint.me.address)
    assert client.call(link, CountMe()).count == 1
    send_whole, failed = zmqsocket.send_whole, list[Any]()

    def fails_once(sock: Any, route: bytes | None, frames: Any, frozen: bool) -> None:
        if not failed:
            failed.append(frames)
            raise zmq.ZMQError(errno.ENOMEM)
        send_whole(sock, route, frames, frozen)

    monkeypatch.setattr(zmqlisten, "send_whole", fails_once)
    assert client.call(link, CountMe()).count == 2, "the client dials again, and gets its answer"
    assert failed and not client.lost
    client.close()
    server.close()


LENDS = """
import os, resource, sys
from dtfzmq.wire import zmqsocket
import zmq

zmqsocket.context().socket(zmq.DEALER)
free = [os.dup(0) for _ in range(int(sys.argv[1]) + 1)]
resource.setrlimit(resource.RLIMIT_NOFILE, (max(free), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for fd in free:
    os.close(fd)
zmqsocket._Frame(bytes(zmqsocket.LEND), copy=False)
print("lent", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("left", range(4))
def test_a_frame_is_lent_to_zeromq_however_few_descriptors_are_left(left: int) -> None:
    done = subprocess.run([sys.executable, "-c", LENDS, str(left)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "lent\n", done.stderr
