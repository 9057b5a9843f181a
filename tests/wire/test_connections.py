"""Connections to a server that no link comes of: they end in time, and cost the others nothing."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from dtfzmq.base import clock, errors
from dtfzmq.wire import codec, connections, frames, hello, seldom, zmqnet
from dtfzmq.wire.connections import Connections, find
from dtfzmq.wire.settings import LinkSettings
from tests.kit.peer import Answering, CountMe
from tests.wire.test_zmq_links import TASK, Client, serving

QUICK = LinkSettings(hello_limit=0.3, connect_timeout=1.0)


@pytest.fixture
def server() -> Iterator[Client]:
    made = Client(QUICK, name=TASK)
    made.endpoint.service = Answering()
    made.loop.grace = 0
    with made.loop.held():
        made.endpoint.bind("127.0.0.1:0")
    yield made
    made.close()


class Stranger:
    """A socket that speaks ZeroMQ and answers its heartbeats, but knows nothing of links. It does not reconnect."""

    def __init__(self, server: Client, connect: bool = True) -> None:
        self._address = server.endpoint.me.address.replace("zmq:", "tcp:")
        self.sock: Any = zmqnet.context().socket(zmq.DEALER)
        self.sock.set(zmq.LINGER, 0)
        self.sock.set(zmq.RECONNECT_IVL, -1)
        self._monitor = self.sock.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        if connect:
            self.connect()

    def connect(self) -> None:
        self.sock.connect(self._address)
        assert self._monitor.poll(30_000)
        self._monitor.recv_multipart()

    def is_cut_off(self, seconds: float = 30.0) -> bool:
        return bool(self._monitor.poll(int(seconds * 1000)))

    def close(self) -> None:
        self.sock.disable_monitor()
        self._monitor.close(0)
        self.sock.close(0)


@pytest.mark.parametrize(
    "said",
    [None, b"p", b"no msgpack \xc1", codec.pack([frames.PING, 0])],
    ids=["nothing", "a probe", "garbage", "no hello"],
)
def test_a_connection_that_says_no_hello_is_ended(server: Client, said: bytes | None) -> None:
    stranger = Stranger(server)
    if said is not None:
        stranger.sock.send(said)
    assert stranger.is_cut_off()
    assert server.wait_for(lambda: not server.endpoint.channels), "and nothing is kept of it"
    stranger.close()


def greeting(**changed: Any) -> bytes:
    """A hello of a client, but for what is changed of it; a task's name leaves the rest as a task says it."""
    changed.setdefault("stream", 0 if "name" in changed.get("me", {}) else 1)
    me = hello.who_to_wire(hello.Who(**{"name": "", "incarnation": 77, **changed.pop("me", {})}))
    said = {"protocol": hello.PROTOCOL, "me": me, "lane": 0, "stream": 1, "wanted": "", "wanted_incarnation": 0}
    said |= {"generation": 1, "your_generation": 0, "received": 0, "cluster": {}}
    return codec.pack([frames.HELLO, codec.body(hello.Hello(**{**said, **changed}), codec.TensorWriter(False))])


@pytest.mark.parametrize(
    "changed",
    [{name: -1} for name in ("lane", "generation", "received", "stream", "your_generation")]
    + [{"lane": 2}, {"me": {"incarnation": 0}}, {"me": {"name": "/job:worker/replica:0/task:0"}, "stream": 1}]
    + [{"me": {"name": name}} for name in ("ps", "/job:ps", "/job:ps/task:0", TASK + "/device:CPU:0", "\0;;")],
    ids=str,
)
def test_a_hello_that_nobody_says(server: Client, changed: dict[str, Any]) -> None:
    stranger = Stranger(server)
    stranger.sock.send(greeting(**changed))
    assert stranger.sock.poll(30_000) and stranger.sock.recv() == b"", "it is told that its lane is closed"
    assert server.wait_for(lambda: not server.endpoint.channels and not server.endpoint.links())
    stranger.close()


def test_a_descriptor_that_is_used_again_before_we_hear_of_it(server: Client) -> None:
    """What is told of the connection that had it before is not taken for the one that has it now."""
    listener: Any = server.endpoint._listener._outer  # type: ignore[union-attr]  # of two it is the one by sockets
    stranger = Stranger(server)
    assert server.wait_for(lambda: len(listener.connections) == 1)
    (fd,) = listener.connections._all
    before = connections.Connection(fd, (b"ends of", b"another"))
    with server.loop.held():
        listener.connections._all[fd] = before  # as if it came while the process was stopped
    stranger.sock.send(greeting())
    assert stranger.sock.poll(30_000)
    stranger.sock.recv()
    (lane,) = listener.lanes.values()
    with server.loop.held():
        assert lane.connection is not before and lane.connection.came() > 0
        listener.on_event(zmq.EVENT_DISCONNECTED, fd)
        listener.on_event(zmq.EVENT_ACCEPTED, fd)
        for connection in (before, lane.connection):
            listener._ended(connection)
        listener._sweep()
    stranger.sock.send(codec.pack([frames.REQUEST, 1, 0, 1, 0.0, ["GetStatus"]]))
    assert stranger.sock.poll(30_000), "it is answered"
    assert listener.lanes and not listener._leaving and not listener.connections._mute
    stranger.close()
    assert server.wait_for(lambda: not listener.lanes)


def test_who_answers_a_hello_with_too_many_frames_is_another_program() -> None:
    sock: Any = zmqnet.context().socket(zmq.ROUTER)
    sock.set(zmq.LINGER, 0)
    port = sock.bind_to_random_port("tcp://127.0.0.1")
    client = Client(QUICK, local=False)
    link = client.link(f"127.0.0.1:{port}")
    try:
        assert sock.poll(30_000)
        sock.send_multipart([sock.recv_multipart()[0], b"\x93", b"what", b"is", b"this"])
        assert client.wait_for(lambda: link._diallers[0].foreign)
        assert "what came is not the protocol (a message of too many frames)" in link.reason()
    finally:
        client.close()
        sock.close()


def test_messages_that_cannot_be_read_fill_no_log(server: Client, caplog: pytest.LogCaptureFixture) -> None:
    stranger = Stranger(server)
    stranger.sock.send(greeting())
    assert stranger.sock.poll(30_000)
    for number in range(1, 101):
        stranger.sock.send(codec.pack([frames.TELL, number, 0, ["CancelStep", "no number", {}]]))
    assert server.wait_for(lambda: [link.inbox.received for link in server.endpoint.links()] == [100])
    (line,) = [record.getMessage() for record in caplog.records if "dropped a message" in record.getMessage()]
    assert "'no number' is not an integer" in line and "client" in line
    stranger.close()


def test_a_hello_that_knows_of_messages_that_were_never_sent(server: Client) -> None:
    stranger = Stranger(server)
    stranger.sock.send(greeting(received=5, me={"name": "/job:worker/replica:0/task:0"}, stream=0))
    assert stranger.sock.poll(30_000)
    kind, said = codec.unpack(stranger.sock.recv())
    refused = codec.message(said, codec.TensorReader((), False, 0))
    assert kind == frames.REFUSED and "received message 5, and 0 is the last" in refused.reason
    assert refused.code == errors.INVALID_ARGUMENT
    assert server.wait_for(lambda: not server.endpoint.channels) and not server.endpoint.links()
    stranger.close()


def test_lost_links_are_remembered_within_bounds(server: Client) -> None:
    with server.loop.held():
        for index in range(3000):
            link = server.endpoint.link("", [f"127.0.0.1:{1 + index}"])
            link.name = f"/job:worker/replica:0/task:{index}"  # as once it was met
            link.lose(errors.CancelledError(None, None, "It was given up."))
        assert len(server.endpoint._lost) <= 1024


def test_links_outlast_the_time_for_a_hello(server: Client) -> None:
    client = Client(QUICK, local=False)
    link = client.link(server.endpoint.me.address)
    assert client.call(link, CountMe()).count == 1
    stranger = Stranger(server)
    assert stranger.is_cut_off()
    assert client.call(link, CountMe()).count == 2
    assert link.repeats_out == 0 and not client.lost
    stranger.close()
    client.close()


def test_the_end_of_a_connection_does_not_trouble_the_others() -> None:
    server = serving()
    one, other = Stranger(server), Stranger(server)
    for stranger in (one, other):
        stranger.sock.send(b"p")
    assert server.wait_for(lambda: len(server.endpoint.channels) == 2)
    one.close()
    assert server.wait_for(lambda: len(server.endpoint.channels) == 1)
    assert not other.sock.poll(100), "only the lanes of the connection that ended are asked whether they live"
    other.close()
    server.close()


def test_only_the_connection_that_was_meant_is_cut() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        known = Connections(port)
        outside = socket.create_connection(("127.0.0.1", port))
        inside, _ = listener.accept()
        known.accepted(inside.fileno(), 0.0)
        first = known.get(inside.fileno())
        assert first is not None and known.mute_since(0.0) == [first] and len(known) == 1
        # The descriptor is another connection's now, to the same port.
        second = socket.create_connection(("127.0.0.1", port))
        newcomer, _ = listener.accept()
        os.dup2(newcomer.fileno(), inside.fileno())
        first.cut()
        assert first.came() == -1
        second.settimeout(0.1)
        with pytest.raises(TimeoutError):
            second.recv(1)
        # And now it is the very one.
        known.accepted(newcomer.fileno(), 1.0)
        found = known.get(newcomer.fileno())
        assert found is not None
        found.cut()
        second.settimeout(5.0)
        assert second.recv(1) == b""
        known.ended(newcomer.fileno())
        known.accepted(listener.fileno(), 2.0)  # no connection
        assert known.get(listener.fileno()) is None
        for end in (outside, second, inside, newcomer):
            end.close()


def test_what_is_no_tcp_connection_is_none() -> None:
    """A descriptor that the monitor told of may be anything of the program's by the time that it is looked at."""
    known = Connections(1)
    near, far = socket.socketpair()
    with near, far, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as packets, open(os.devnull) as file:
        for fd in (near.fileno(), packets.fileno(), file.fileno(), 999_999):
            assert find(fd) is None
            known.accepted(fd, 0.0)
    assert not len(known)


def test_whether_the_system_counts_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else connects to the port on which is tried whether the system counts, and says nothing."""
    strangers, connect = list[socket.socket](), socket.create_connection

    def second(address: Any, limit: float) -> socket.socket:
        strangers.append(connect(address))
        return connect(address, limit)

    monkeypatch.setattr(socket, "create_connection", second)
    assert not connections._tried.__wrapped__()
    strangers.pop().close()


def test_clients_that_come_and_go_are_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seldom, "warn", seldom.Seldom(clock.now).warn)  # what other tests said is not said
    caplog.set_level(logging.INFO, "dtfzmq")
    server = serving()
    for incarnation in (77, 78, 79):
        stranger = Stranger(server)
        stranger.sock.send(greeting(me={"incarnation": incarnation}))
        assert server.wait_for(lambda: server.endpoint.statistics()["up"] == 1)
        stranger.close()
        assert server.wait_for(lambda: server.endpoint.statistics()["up"] == 0)
    server.close()
    assert len([record for record in caplog.records if "is down" in record.message]) == 1
