"""Links over real sockets: between threads of one process, and to processes that die, stop, or speak garbage."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import logging
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from zmq.utils import garbage as loans

from dtfzmq.base import clock, errors
from dtfzmq.base.loop import Completion
from dtfzmq.wire import net, zmqnet
from dtfzmq.wire.endpoint import Endpoint, Quiet
from dtfzmq.wire.messages import CancelStep
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.zmqpoll import NONE, SOME, ZmqPoller
from dtfzmq.wire.zmqprobe import ANSWERS, Probe
from dtfzmq.wire.zmqsocket import NO_RECONNECT_MS, PROBE, TURN
from tests.kit.peer import Answering, Count, CountMe, Echo, Forget, HoldInterpreter, PushMe, me
from tests.kit.relay import Relay

TASK = "/job:ps/replica:0/task:0"
#: For what must not depend on how fast the machine is: nothing is lost for silence while a test lasts.
PATIENT = LinkSettings(limit=120.0, refused_limit=0.1, client_limit=60.0, connect_limit=60.0, connect_timeout=5.0)
#: For tests of silence.
FAST = LinkSettings(limit=1.0, refused_limit=0.1, connect_limit=60.0, connect_timeout=1.0)


class Client(Quiet):
    """An endpoint whose calls block, for tests."""

    def __init__(self, settings: LinkSettings = PATIENT, *, local: bool = False, name: str = "") -> None:
        self.loop = net.process_loop()
        self.loop.add_ref()
        self.pushed: dict[int, Completion] = {}
        self.lost: list[errors.OpError] = []
        with self.loop.held():
            network = net.Network(self.loop, settings, local=local)
            self.endpoint = Endpoint(self.loop, network, me(name), self, settings)

    def link(self, address: str, name: str = "") -> Any:
        with self.loop.held():
            return self.endpoint.link(name, [address])

    def begin(self, link: Any, message: Any, **options: Any) -> Completion:
        done = Completion()

        def end(reply: Any, error: errors.OpError | None) -> None:
            if error is None:
                done.set(reply)
            else:
                done.fail(error)

        with self.loop.held():
            link.call(message, end, **options)
        return done

    def call(self, link: Any, message: Any, timeout: float = 50.0, **options: Any) -> Any:
        return self.loop.wait(self.begin(link, message, **options), timeout)

    def expect_push(self, step: int) -> Completion:
        return self.pushed.setdefault(step, Completion())

    def on_push(self, link: Any, step: int, key: str, value: Any) -> None:
        self.expect_push(step).set(value)

    def on_announce(self, link: Any, step: int, key: str, offer: Any) -> None:
        offer.grant(self.expect_push(step).set)

    def on_link_lost(self, link: Any, error: errors.OpError) -> None:
        self.lost.append(error)

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30.0) -> bool:
        end = clock.now() + seconds
        tick = threading.Event()
        while clock.now() < end:
            with self.loop.held():
                if condition():
                    return True
            tick.wait(0.005)
        return False

    def close(self) -> None:
        with self.loop.held():
            self.endpoint.close()
        self.loop.release()


class Peer:
    """A child process that answers."""

    def __init__(
        self, name: str = TASK, address: str = "127.0.0.1:0", limit: float = PATIENT.limit, *more: str
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.peer", name, address, str(limit), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGCONT)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer(limit=FAST.limit)
    yield made
    made.close()


def serving(settings: LinkSettings = PATIENT) -> Client:
    """An endpoint that answers, in this process."""
    made = Client(settings, name=TASK)
    service = Answering()
    service.endpoint = made.endpoint
    made.endpoint.service = service
    with made.loop.held():
        made.endpoint.bind("127.0.0.1:0")
    return made


@pytest.fixture
def server() -> Iterator[Client]:
    made = serving()
    yield made
    made.close()


@pytest.fixture
def hasty_client() -> Iterator[Client]:
    made = Client(FAST)
    yield made
    made.close()


@pytest.fixture
def hasty_server() -> Iterator[Client]:
    made = serving(FAST)
    yield made
    made.close()


def test_requests_and_replies_with_tensors_of_all_sizes(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    for n in (0, 1, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 1 << 20, 3 * (1 << 20) + 7):
        sent = np.random.default_rng(n).integers(0, 255, n, np.uint8)
        back = client.call(link, Echo(n, [sent, None, np.array(["text", b"\0"], object)]))
        assert np.array_equal(back.tensors[0], sent) and back.tensors[1] is None
        assert back.tensors[2].tolist() == [b"text", b"\0"]
        assert back.tensors[0].flags.writeable
        assert not np.shares_memory(back.tensors[0], sent)


def test_in_one_process_arrays_are_handed_over_as_they_are(server: Client) -> None:
    near = Client(local=True)
    link = near.link(server.endpoint.me.address)
    sent = np.zeros(1 << 20)
    back = near.call(link, Echo(1, [sent])).tensors[0]
    assert np.shares_memory(sent, back) and not back.flags.writeable
    copied = near.call(link, Echo(1, [sent]), frozen=False).tensors[0]
    assert not np.shares_memory(sent, copied)
    near.close()


def test_pushes_small_and_large(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    for step, nbytes in enumerate((1, 64 * 1024, 64 * 1024 + 1, 5 << 20), 1):
        client.call(link, PushMe(step, nbytes))
        value = client.loop.wait(client.expect_push(step), 50)
        assert value.nbytes == nbytes and (value == step).all()
        assert nbytes <= 1024 or value.ctypes.data % 64 == 0
        with client.loop.held():
            link.tell(Forget(step))
    assert server.wait_for(lambda: server.endpoint.statistics()["steps"] == 0)


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), zmq.ZMQError(errno.EMFILE)], ids=repr)
def test_a_tensor_that_cannot_be_lent_to_zeromq_is_copied(
    client: Client, server: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    refused: list[Any] = []

    def none(memory: Any, event: Any = None) -> int:
        refused.append(memory)
        raise error

    link = client.link(server.endpoint.me.address)
    client.call(link, CountMe())
    monkeypatch.setattr(loans.gc, "store", none)
    for step, nbytes in ((1, 3 << 20), (2, 100)):
        client.call(link, PushMe(step, nbytes))
        assert (client.loop.wait(client.expect_push(step), 50) == step).all()
    assert refused and not client.lost and not link.repeats_out
    assert not any(each.repeats_out for each in server.endpoint.links()), "no connection was taken for one that ended"


def test_a_header_that_is_too_long_for_a_frame_arrives(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    text = np.array([b"x" * 50] * 20_000, object)
    assert client.call(link, Echo(1, [text, np.zeros(3)])).tensors[0].tolist() == text.tolist()
    big = {"code": 1, "text": "y" * (1 << 20)}
    done = client.begin(link, CancelStep(1, big))
    assert isinstance(client.loop.wait(done, 50), Count)


def test_unfrozen_tensors_may_be_written_once_the_call_is_done(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    for _ in range(5):
        sent = np.ones(4 << 20, np.uint8)
        done = client.begin(link, Echo(1, [sent]), frozen=False)
        back = client.loop.wait(done, 50).tensors[0]
        sent[:] = 0
        assert back.all()


def test_socket_options_are_as_links_need_them(hasty_client: Client, hasty_server: Client) -> None:
    link = hasty_client.link(hasty_server.endpoint.me.address)
    hasty_client.call(link, CountMe())
    with hasty_client.loop.held():
        router = hasty_server.endpoint._listener._outer.sock  # type: ignore[union-attr]  # a look inside
        dealer = link.controls[0].lane._dealer.sock
        for sock in (router, dealer):
            assert sock.get(zmq.LINGER) == 0
            assert sock.get(zmq.SNDHWM) == sock.get(zmq.RCVHWM) == 0
            assert sock.get(zmq.MAXMSGSIZE) == FAST.max_frame
            assert sock.get(zmq.RECONNECT_IVL) == NO_RECONNECT_MS
            assert sock.get(zmq.IMMEDIATE) == 0
            assert sock.get(zmq.TCP_KEEPALIVE) == 1
            assert 0 < sock.get(zmq.HEARTBEAT_IVL) <= 500
            assert sock.get(zmq.CONNECT_TIMEOUT) == 1000


@pytest.mark.parametrize("address", ["localhost:0", "[::1]:0", "127.0.0.1:0"])
def test_addresses_of_every_family(client: Client, address: str) -> None:
    server = Client(name=TASK)
    server.endpoint.service = Answering()
    with server.loop.held():
        bound = server.endpoint.bind(address)
    assert not bound.endswith(":0")
    assert client.call(client.link(bound), CountMe()).count == 1
    server.close()


def test_a_busy_port_is_named(server: Client) -> None:
    taken = server.endpoint.me.address
    second = Client(name=TASK)
    with second.loop.held(), pytest.raises(errors.AlreadyExistsError, match=taken.rpartition("/")[2]):
        second.endpoint.bind(taken)
    second.close()


def test_an_address_can_be_bound_again_at_once() -> None:
    address = "127.0.0.1:0"
    for _ in range(10):
        server, caller = Client(name=TASK), Client()
        server.endpoint.service = Answering()
        with server.loop.held():
            address = server.endpoint.bind(address)
        assert caller.call(caller.link(address), CountMe()).count == 1
        caller.close()
        server.close()


GARBAGE = {
    "noise": bytes(random.Random(3).getrandbits(8) for _ in range(3000)),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a handshake": b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL",
    "nothing": b"",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_on_the_port_harms_nobody_else(client: Client, server: Client, garbage: bytes) -> None:
    link = client.link(server.endpoint.me.address)
    client.call(link, CountMe())
    port = int(server.endpoint.me.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(garbage)
        assert client.call(link, CountMe()).count == 2
    assert client.call(link, CountMe()).count == 3


@pytest.mark.parametrize(
    "frames",
    [
        [b"not msgpack \xc1"],
        [b"\x93\x01\x02\x03"],
        [b"\x91\x05"],
        [b"ab", b"cd", b"ef"],
        [b"\x92\x08\x01", b"x" * 100_000],
        [b"\x95\x10\x01\x00\x01\x90"],
    ],
    ids=["no msgpack", "no hello", "short", "many frames", "chunk", "request"],
)
def test_garbage_over_zeromq_costs_a_line_and_its_own_connection(
    client: Client, server: Client, frames: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    link = client.link(server.endpoint.me.address)
    client.call(link, CountMe())
    dealer = zmqnet.context().socket(zmq.DEALER)
    dealer.linger = 0
    dealer.connect(server.endpoint.me.address.replace("zmq:", "tcp:"))
    dealer.send_multipart(frames)
    assert dealer.poll(30_000), "it is told that its lane is closed"
    assert dealer.recv() == b""
    dealer.send_multipart(frames)
    for count in range(2, 12):
        assert client.call(link, CountMe()).count == count
    dealer.close()
    lines = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(lines) <= 1
    for line in lines:
        assert line.getMessage().startswith(f"closed a connection to {server.endpoint.me.address}: ")
    assert link.state == "up"


def test_a_call_that_is_late_tells_each_address_once(client: Client, server: Client) -> None:
    address = server.endpoint.me.address
    unnamed, named = client.link(address), client.link(address.replace("127.0.0.1", "localhost"), TASK)
    client.call(unnamed, CountMe())
    assert unnamed.late_text() == f"{TASK} at {address} gave no answer in time."
    client.call(named, CountMe())
    for back in server.endpoint.links():  # the client has no address, and none is told
        assert back.late_text() == f"{client.endpoint.me.title()} gave no answer in time."
    nobody = client.link("127.0.0.1:1")
    assert nobody.late_text().startswith("the server at 127.0.0.1:1 could not be reached in time (")


def test_a_killed_process_is_lost_at_once_and_named(client: Client) -> None:
    peer = Peer()
    link = client.link(peer.address, TASK)
    client.call(link, CountMe())
    peer.process.kill()
    waits = client.begin(link, CountMe())
    with pytest.raises(errors.UnavailableError) as caught:
        client.loop.wait(waits, PATIENT.limit / 4)
    assert TASK in str(caught.value) and peer.address.rpartition("/")[2] in str(caught.value)
    assert len(client.lost) == 1
    peer.close()


def test_a_task_that_starts_later_is_reached(client: Client) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    link = client.link(f"127.0.0.1:{port}", TASK)
    waits = client.begin(link, CountMe())
    peer = Peer(TASK, f"127.0.0.1:{port}")
    assert client.loop.wait(waits, 50).count == 1
    peer.close()


def test_a_restarted_process_is_another_one(client: Client) -> None:
    peer = Peer()
    link = client.link(peer.address, TASK)
    client.call(link, CountMe())
    peer.process.kill()
    peer.process.wait(5)
    again = Peer(TASK, peer.address)
    assert client.wait_for(lambda: link.error is not None)
    assert TASK in link.error.message
    fresh = client.link(peer.address, TASK)
    assert fresh is not link
    assert client.call(fresh, CountMe()).count == 1
    again.close()
    peer.close()


def is_stopped(pid: int) -> bool:
    """True once no thread of a process runs any more."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


@pytest.mark.slow
def test_a_stopped_process_is_lost_within_the_limit_and_reached_when_it_goes_on(
    hasty_client: Client, peer: Peer
) -> None:
    client = hasty_client
    link = client.link(peer.address, TASK)
    client.call(link, CountMe())
    peer.process.send_signal(signal.SIGSTOP)
    assert client.wait_for(lambda: is_stopped(peer.process.pid))
    waits = client.begin(link, CountMe())
    with pytest.raises(errors.UnavailableError, match=TASK):
        client.loop.wait(waits, 20)
    peer.process.send_signal(signal.SIGCONT)
    assert client.call(client.link(peer.address, TASK), Echo(5, [])).number == 5


@pytest.mark.slow
def test_who_was_stopped_before_it_was_ever_reached_is_not_waited_for_like_a_late_one(peer: Peer) -> None:
    client = Client(LinkSettings(limit=1.0, connect_timeout=0.3, connect_limit=600.0))
    peer.process.send_signal(signal.SIGSTOP)
    assert client.wait_for(lambda: is_stopped(peer.process.pid))
    with pytest.raises(errors.UnavailableError, match=f"{TASK} at {peer.address}: for .* Its process is stopped"):
        client.call(client.link(peer.address, TASK), CountMe())
    client.close()
    peer.process.send_signal(signal.SIGCONT)
    later = Client()
    assert later.call(later.link(peer.address, TASK), CountMe()).count == 1, "nothing came of the attempts before"
    later.close()


@pytest.mark.slow
def test_a_listener_finds_out_that_its_client_is_stopped(hasty_server: Client) -> None:
    server = hasty_server
    child = Peer("/job:worker/replica:0/task:0", limit=FAST.limit)
    link = server.link(child.address, "/job:worker/replica:0/task:0")
    server.call(link, CountMe())
    other = Client(name="/job:worker/replica:0/task:1")
    other.close()
    child.process.send_signal(signal.SIGSTOP)
    assert server.wait_for(lambda: link.error is not None)
    child.close()


@pytest.mark.slow
def test_a_process_that_holds_the_interpreter_is_alive() -> None:
    limit = 3.0  # a busy machine may well keep libzmq's thread from answering for a third of a second
    client, peer = Client(LinkSettings(limit=limit), name="/job:worker/replica:0/task:0"), Peer(limit=limit)
    link = client.link(peer.address, TASK)
    rounds, held = 1, 0.0
    while held < 1.2 * limit:
        began = clock.now()
        client.call(link, HoldInterpreter(rounds), 60)
        held = clock.now() - began
        rounds *= 2
    assert link.error is None and link.statistics().repeats_out == 0
    with client.loop.held():
        at = client.endpoint.bind("127.0.0.1:0")
    busy = client.begin(link, HoldInterpreter(rounds))
    newcomer = Client(LinkSettings(limit=limit), name=TASK)
    with pytest.raises(errors.AlreadyExistsError, match=f"{TASK} is taken: it runs at .*{peer.address}"):
        newcomer.call(newcomer.link(at, client.endpoint.me.name), CountMe())
    assert not busy.done
    assert client.loop.wait(busy, 60).count == rounds, "who was there first keeps its name and its calls"
    newcomer.close()
    client.close()
    peer.close()


def test_nothing_is_lost_or_done_twice_through_a_relay_that_is_cut(client: Client, server: Client) -> None:
    relay = Relay(int(server.endpoint.me.address.rpartition(":")[2]))
    link = client.link(f"127.0.0.1:{relay.port}")
    rng = random.Random(4)
    counts: list[int] = []
    big = np.arange(3 << 18, dtype=np.float32)
    for round_ in range(12):
        if round_ % 4 == 3:
            relay.hold()
        waits = [client.begin(link, CountMe()) for _ in range(40)]
        large = client.begin(link, Echo(1, [big]))
        if round_ % 2:
            threading.Event().wait(rng.random() * 0.004)
            relay.cut()
        counts += [client.loop.wait(w, 50).count for w in waits]
        assert np.array_equal(client.loop.wait(large, 50).tensors[0], big)
    assert counts == list(range(1, 481))
    assert link.statistics().repeats_out > 0
    relay.close()


def test_a_connection_that_ended_is_found_however_much_others_send(client: Client) -> None:
    server = serving(dataclasses.replace(PATIENT, hello_limit=600.0))
    extra = Client()
    links = [caller.link(server.endpoint.me.address) for caller in (client, extra)]
    for link in links:
        client.call(link, CountMe())
    flood = zmqnet.context().socket(zmq.DEALER)
    flood.linger, flood.sndhwm = 0, 0
    flood.connect(server.endpoint.me.address.replace("zmq:", "tcp:"))
    listener = server.endpoint._listener._outer  # type: ignore[union-attr]  # a look inside
    drain = listener.drain

    def drain_and_refill() -> int:
        for _ in range(TURN):
            flood.send(PROBE)
        return int(drain())

    with server.loop.held():
        for _ in range(20_000):
            flood.send(PROBE)
        listener.drain = drain_and_refill
        for link in links:
            link.controls[0].lane._dealer.shut(0)  # its process was killed
    assert server.wait_for(lambda: all(link.down for link in server.endpoint.links()), 10)
    with server.loop.held():
        del listener.drain
    assert not listener._leaving
    flood.close()
    extra.close()
    server.close()


def test_a_forked_child_does_not_touch_what_it_inherited(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    client.call(link, CountMe())
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            try:
                client.begin(link, CountMe())
            except RuntimeError:
                fresh = Client()
                code = 0 if fresh.loop is not client.loop else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert client.call(link, CountMe()).count == 2


def test_many_calls_from_many_threads(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    wrong: list[Any] = []

    def work(mark: int) -> None:
        for i in range(60):
            back = client.call(link, Echo(mark, [np.full(8, i)]))
            if back.number != mark or back.tensors[0][0] != i:
                wrong.append((mark, i, back))

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(t.is_alive() for t in threads)


def test_steps_that_nobody_ends_are_remembered_within_bounds(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    for step in range(1, 40):
        with client.loop.held():
            client.endpoint.settings = LinkSettings(recent_steps=10)
            link.push(step, [("key", np.zeros(1))])
    with client.loop.held():
        assert client.endpoint.statistics()["steps"] == 10
        assert link.steps == set(range(30, 40))


@pytest.mark.slow
def test_every_number_of_a_host_is_tried(server: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(server.endpoint.me.address.rpartition(":")[2])
    silent = [f"127.0.0.{n}" for n in range(2, 8)]
    held = [socket.create_server((number, port)) for number in silent]  # they accept, and say nothing
    monkeypatch.setattr("dtfzmq.wire.addresses.quick", lambda host: [*silent, "::nowhere", "127.0.0.1"])
    settings = LinkSettings(connect_timeout=0.2, welcome_limit=0.3, limit=60.0, max_backoff=0.05)
    client = Client(settings)
    link = client.link(f"somewhere:{port}")
    assert client.call(link, CountMe()).count == 1
    client.close()
    for each in held:
        each.close()


@pytest.mark.slow
@pytest.mark.parametrize("first", ["who refuses", "who accepts"])
@pytest.mark.parametrize("then", ["and is silent", "and closes"])
def test_of_several_numbers_the_most_telling_one_says_why(
    monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    numbers = ["127.0.0.2", "127.0.0.1"]
    monkeypatch.setattr("dtfzmq.wire.addresses.quick", lambda host: numbers[:: 1 if first == "who refuses" else -1])
    client = Client(LinkSettings(connect_timeout=0.2, connect_limit=1.5, backoff=0.001, max_backoff=0.002))
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            connection = listener.accept()[0]
            kept.append(connection)
            if then == "and closes":
                connection.close()

    kept: list[socket.socket] = []
    serving = threading.Thread(target=serve)
    serving.start()
    link = client.link(f"somewhere:{listener.getsockname()[1]}")
    why = f"it accepted the connection and {'ended it' if then == 'and closes' else 'said nothing for'}"
    with pytest.raises(errors.UnavailableError) as raised:
        client.call(link, CountMe())
    stop.set()
    socket.create_connection(listener.getsockname()).close()
    serving.join(10)
    for each in (*kept, listener):
        each.close()
    client.close()
    said = rf"client .* could not reach the server at somewhere:\d+ within \S+ s \(somewhere:\d+: [^)]*({why})"
    assert re.match(said, raised.value.message), raised.value.message
    assert "refused" not in raised.value.message and "lost" not in raised.value.message


class Port:
    """A port where `serve` is called, on a thread, with each connection that comes."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.served = 0
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._kept: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._listener.accept()[0]
                self._kept.append(connection)
                with contextlib.suppress(OSError):
                    self._serve(connection)
                self.served += 1

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        for each in (*self._kept, self._listener):
            each.close()


def reset(connection: socket.socket) -> None:
    """Close it in the way that tells the other end of an error."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("how", [reset, socket.socket.close], ids=["resets", "closes"])
def test_a_port_that_ends_each_connection_does_not_refuse_them(client: Client, how: Any) -> None:
    port = Port(how)
    link = client.link(port.address)
    waits = client.begin(link, CountMe())
    assert client.wait_for(lambda: port.served > 12 or waits.done)
    with client.loop.held():
        assert link.reason() == f"{port.address}: it accepted the connection and ended it"
        assert link._diallers[0].refused == 0 and not waits.done, "a task may come to be behind it"
    port.close()
    assert client.wait_for(lambda: link.unattended), "nobody listens there any more"


def first_answered(connection: socket.socket, answer: bytes) -> None:
    """Answer the first bytes that come, as HTTP does, and close."""
    connection.recv(100)
    connection.sendall(answer)
    connection.shutdown(socket.SHUT_RDWR)


FOREIGN = {
    "closes after its answer": lambda end: first_answered(end, b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "speaks first": lambda end: end.sendall(b"SSH-2.0-Other\r\n"),
    "noise": lambda end: end.sendall(GARBAGE["noise"]),
    "half of ZeroMQ": lambda end: end.sendall(b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + bytes(48) + b"\0\5hello"),
}


@pytest.mark.parametrize("serve", FOREIGN.values(), ids=FOREIGN)
def test_another_program_at_the_address_is_not_waited_for_like_a_late_task(serve: Any) -> None:
    client, port = (
        Client(LinkSettings(limit=1.0, connect_timeout=0.3, connect_limit=600.0, max_backoff=0.2)),
        Port(serve),
    )
    link = client.link(port.address, TASK)
    with pytest.raises(errors.UnavailableError) as raised:
        client.call(link, CountMe())
    said = rf"client .* could not reach {TASK} at {port.address}: for \S+ s another program answered there \("
    assert re.match(said + rf"{port.address}: .*\)\. Check that the address is right", raised.value.message)
    assert port.served > 1, "one answer is not enough"
    port.close()
    client.close()


@pytest.mark.parametrize("kind", [zmq.PUB, zmq.PULL, zmq.PAIR], ids=["PUB", "PULL", "PAIR"])
def test_a_zeromq_socket_of_another_kind_is_another_program(kind: int) -> None:
    client = Client(LinkSettings(limit=1.0, connect_timeout=0.3, connect_limit=600.0, max_backoff=0.2))
    with zmq.Context() as context, context.socket(kind) as other:
        port = other.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(errors.UnavailableError, match="another program answered there .* of another kind"):
            client.call(client.link(f"127.0.0.1:{port}", TASK), CountMe())
    client.close()


def test_a_task_that_begins_to_listen_as_the_system_is_asked_is_reached(client: Client, server: Client) -> None:
    told = list[tuple[str, bool]]()
    with client.loop.held():
        port = int(server.endpoint.me.address.rpartition(":")[2])
        probe = Probe(client.loop, client.loop.poller, lambda *what: told.append(what))  # type: ignore[arg-type]
        probe.begin("127.0.0.1", port, 30.0)
    assert client.wait_for(lambda: bool(told))
    assert told == [(ANSWERS, True)]
    assert client.call(client.link(server.endpoint.me.address), CountMe()).count == 1


# No TCP connection to everybody has a route, on any host.
NOWHERE = "255.255.255.255"


def test_an_address_without_a_route_is_not_one_where_nobody_listens(client: Client) -> None:
    link = client.link(f"{NOWHERE}:9")
    assert client.wait_for(lambda: link._diallers[0]._next > 5)
    with client.loop.held():
        assert link._diallers[0].refused == 0 and not link.unattended
        assert f"{NOWHERE}:9: it cannot be reached from here: Network is unreachable" in link.reason()


class Later:
    """A socket whose attempt to connect ends a little later, with an error."""

    def __init__(self, code: int) -> None:
        self._code = code
        self._mine, self._other = socket.socketpair()
        self.fileno = self._mine.fileno

    def setblocking(self, how: bool) -> None:
        pass

    def connect_ex(self, address: Any) -> int:
        self._other.send(b"x")
        return errno.EINPROGRESS

    def getsockopt(self, level: int, option: int) -> int:
        return self._code

    def close(self) -> None:
        self._mine.close()
        self._other.close()


@pytest.mark.parametrize("code", [errno.EHOSTUNREACH, errno.ECONNREFUSED], ids=["no route", "refused"])
def test_what_a_network_answers_later_is_told_too(client: Client, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    faked = types.SimpleNamespace(**{**vars(socket), "socket": lambda *kind: Later(code)})
    monkeypatch.setattr("dtfzmq.wire.zmqprobe.socket", faked)
    link = client.link(f"127.0.0.1:{port}")
    assert client.wait_for(lambda: link._diallers[0]._next > 5)
    with client.loop.held():
        if code == errno.ECONNREFUSED:
            assert link.reason() == f"127.0.0.1:{port}: connection refused" and link.unattended
        else:
            assert link.reason() == f"127.0.0.1:{port}: it cannot be reached from here: No route to host"
            assert not link.unattended
    monkeypatch.undo()


def test_a_refusal_of_one_number_tells_more_than_another_without_a_route(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setattr("dtfzmq.wire.addresses.quick", lambda host: host.split("-"))
    links = [client.link(f"{host}:{port}") for host in (f"{NOWHERE}-127.0.0.1", f"127.0.0.1-{NOWHERE}")]
    assert client.wait_for(lambda: all(link.unattended for link in links)), [link.reason() for link in links]


def test_a_link_outlives_a_lack_of_routes_that_is_short_of_the_limit(
    client: Client, server: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay, numbers = Relay(int(server.endpoint.me.address.rpartition(":")[2])), ["127.0.0.1"]
    monkeypatch.setattr("dtfzmq.wire.addresses.quick", lambda host: numbers)
    link = client.link(f"somewhere:{relay.port}")
    assert client.call(link, CountMe()).count == 1
    with client.loop.held():
        numbers[:] = [NOWHERE]
        since, dialler = clock.now(), link._diallers[0]
    relay.cut()
    past = since + 3 * PATIENT.refused_limit
    assert client.wait_for(lambda: bool(client.lost) or (clock.now() > past and dialler._next > 5))
    assert not client.lost and link.down
    with client.loop.held():
        numbers[:] = ["127.0.0.1"]
    assert client.call(link, CountMe()).count == 2
    relay.close()


def test_attempts_that_cannot_begin_leave_no_socket(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtfzmq.wire.addresses.quick", lambda host: ["no number"])
    link, poller = client.link("somewhere:1"), client.loop.poller
    assert isinstance(poller, ZmqPoller)
    assert client.wait_for(lambda: link._diallers[0]._next > 5)
    with client.loop.held():
        assert not poller._sources
        assert "cannot connect to tcp://no number:1: Invalid argument" in link.reason()


@pytest.mark.slow
def test_many_small_tensors_of_one_message_are_not_one_large_frame(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    count = 2 * PATIENT.max_frame // (60 * 1024)
    sent = [np.full(60 * 1024, i % 251, np.uint8) for i in range(count)]
    texts = [np.array([bytes([i % 251]) * 60_000], object) for i in range(count)]
    back = client.call(link, Echo(1, [*sent, *texts])).tensors
    assert all(np.array_equal(a, b) for a, b in zip([*sent, *texts], back))
    with client.loop.held():
        link.push(1, [(f"key {i}", value) for i, value in enumerate([*texts, *[np.zeros(0)] * 300_000])])
    assert client.call(link, CountMe()).count == 1
    assert link.statistics().repeats_out == 0 and not client.lost


def test_a_frame_above_the_limit_is_the_callers_error(server: Client) -> None:
    client = Client(dataclasses.replace(PATIENT, max_frame=10_000))
    link = client.link(server.endpoint.me.address)
    with pytest.raises(errors.ResourceExhaustedError, match="and 50000 bytes is above the limit of 10000"):
        client.call(link, Echo(1, [np.zeros(50_000, np.uint8)]))
    assert client.call(link, CountMe()).count == 1
    client.close()


def test_what_cannot_be_sent_leaves_nothing_of_what_was_announced_with_it(client: Client, server: Client) -> None:
    link = client.link(server.endpoint.me.address)
    client.call(link, CountMe())
    with pytest.raises(errors.InvalidArgumentError, match="cannot be sent"):
        client.call(link, Echo(1, [np.zeros(1 << 20), np.array([None], object)]))
    with client.loop.held():
        assert link.statistics().outgoing == 0 and not link.calls
    assert client.call(link, Echo(2, [np.zeros(1 << 20)])).number == 2


def test_an_error_of_one_source_is_not_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Source:
        def __init__(self, *results: Any) -> None:
            self.results = list(results)

        def drain(self) -> int:
            result = self.results.pop(0) if self.results else NONE
            if isinstance(result, Exception):
                raise result
            return int(result)

    poller = ZmqPoller()
    troubled, other = Source(RuntimeError("odd"), SOME), Source(SOME)
    poller.touch(troubled)
    poller.touch(other)
    poller.poll(0.0)
    assert not other.results and "met an error" in caplog.text
    poller.poll(0.0)
    assert not troubled.results, "what else came there is looked at"
    poller.close()


def test_a_source_whose_errors_do_not_end_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Source:
        def __init__(self) -> None:
            self.looks, self.broken = 0, True

        def drain(self) -> int:
            self.looks += 1
            if self.broken:
                raise MemoryError
            os.read(coming, 1)
            return SOME

    now = [100.0]
    monkeypatch.setattr("dtfzmq.wire.zmqpoll.clock.now", lambda: now[0])
    coming, going = os.pipe()
    os.write(going, b"xy")
    poller, source = ZmqPoller(), Source()
    poller.add(coming, source)
    for _ in range(50):
        poller.poll(0.0)
    assert source.looks == 5
    now[0] += 1.0
    for _ in range(50):
        poller.poll(0.0)
    assert source.looks == 6, "one try, and it is left alone again"
    now[0] += 1.0
    source.broken = False
    poller.poll(0.0)
    assert source.looks == 8, "all that came meanwhile is there"
    poller.remove(coming, source)
    poller.close()
    os.close(coming)
    os.close(going)
