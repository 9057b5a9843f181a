"""The transport contract, on ZeroMQ, in process and simulated: the fake is a verified fake."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dtfzmq.base import clock
from dtfzmq.base.loop import Loop
from dtfzmq.wire import zmqlisten
from dtfzmq.wire.inproc import Hub, InprocTransport
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.transport import CONTROL, Transport
from dtfzmq.wire.zmqnet import ZmqTransport
from dtfzmq.wire.zmqpoll import ZmqPoller
from dtfzmq.wire.zmqsocket import LINGER_MS, TURN
from tests.kit.checks import TRANSPORT_CHECKS, Bench, Recorder
from tests.kit.simloop import SimLoop
from tests.kit.simnet import SimNet

DEADLINE_S = 5.0


class ZmqBench:
    """Real sockets on loopback, polled by the test's thread."""

    def __init__(self) -> None:
        self.poller = ZmqPoller()
        self.loop = Loop(self.poller)
        self.here: Transport = ZmqTransport(self.loop, self.poller)
        self.there: Transport = ZmqTransport(self.loop, self.poller)
        self.address = "127.0.0.1:0"

    def step(self, fn: Callable[[], Any]) -> Any:
        with self.loop.held():
            return fn()

    def until(self, condition: Callable[[], bool]) -> bool:
        end = clock.now() + DEADLINE_S
        while not condition() and clock.now() < end:
            with self.loop.held():
                self.poller.poll(0.0 if not self.loop.idle() else 0.002)
        return condition()

    def close(self) -> None:
        self.until(lambda: True)
        self.poller.close()


class SimBench:
    """The simulated network."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        net = SimNet(self.loop, random.Random(1), LinkSettings())
        self.here: Transport = net.host("here").transport
        self.there: Transport = net.host("there").transport
        self.address = "there:0"

    def step(self, fn: Callable[[], Any]) -> Any:
        return fn()

    def until(self, condition: Callable[[], bool]) -> bool:
        return self.loop.run(DEADLINE_S, condition)

    def close(self) -> None:
        pass


class InprocBench(SimBench):
    """Within one process."""

    def __init__(self) -> None:
        self.loop = SimLoop()
        self.here = self.there = InprocTransport(self.loop, Hub())
        self.address = "127.0.0.1:0"


@pytest.fixture(params=[ZmqBench, InprocBench, SimBench], ids=["zmq", "inproc", "sim"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = request.param()
    yield made
    made.close()


@pytest.mark.parametrize("check", TRANSPORT_CHECKS.values(), ids=TRANSPORT_CHECKS)
def test_transport_keeps_the_contract(bench: Bench, check: Callable[[Bench], None]) -> None:
    check(bench)


# More than one turn takes.
MESSAGES = [[b"message %d" % k] for k in range(3 * TURN)]


@pytest.fixture
def zmq_lane() -> Iterator[tuple[ZmqBench, Any, Recorder, Recorder]]:
    """Two ends of a lane that stands: its listener, and what happens where it was dialled and where it came."""
    bench = ZmqBench()
    came, dialled = Recorder(), Recorder()

    def accept(lane: Any) -> Recorder:
        came.lane = lane
        return came

    listener: Any = bench.step(lambda: bench.there.listen(bench.address, accept))
    dialled.lane = bench.step(lambda: bench.here.connect(listener.address, CONTROL, dialled))
    assert bench.until(lambda: dialled.opened == 1)
    bench.step(lambda: dialled.lane.send([b"hello"]))
    assert bench.until(lambda: came.frames == [[b"hello"]])
    yield bench, listener, came, dialled
    bench.step(dialled.lane.close)
    bench.step(lambda: listener.shut(0))
    bench.close()


def read_monitor_only(bench: ZmqBench, watched: Any, ends: list[str]) -> None:
    """Have a socket's monitor read, and timers run, until the end is told; whatever else came is left unread."""
    end = clock.now() + DEADLINE_S
    while not ends and clock.now() < end:
        with bench.loop.held():
            watched._watch.drain()


def test_what_came_before_the_end_is_read_where_a_lane_was_dialled(
    zmq_lane: tuple[ZmqBench, Any, Recorder, Recorder],
) -> None:
    bench, listener, came, dialled = zmq_lane
    bench.step(lambda: [came.lane.send(message) for message in MESSAGES])
    bench.step(lambda: listener.shut(LINGER_MS))
    read_monitor_only(bench, dialled.lane._dealer, dialled.ends)
    assert dialled.frames == MESSAGES
    assert dialled.ends == ["the connection ended"]


def test_what_came_before_the_end_is_read_where_a_lane_came(
    zmq_lane: tuple[ZmqBench, Any, Recorder, Recorder],
) -> None:
    bench, listener, came, dialled = zmq_lane
    bench.step(lambda: [dialled.lane.send(message) for message in MESSAGES])
    bench.step(lambda: dialled.lane._dealer.shut(LINGER_MS))
    read_monitor_only(bench, listener, came.ends)
    assert came.frames[1:] == MESSAGES
    assert came.ends == ["the connection ended"]


def test_a_lane_ends_even_if_the_socket_was_too_slow_to_notice_while_it_was_asked(
    zmq_lane: tuple[ZmqBench, Any, Recorder, Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, listener, came, dialled = zmq_lane
    monkeypatch.setattr(listener, "_probe", lambda fd: None)
    monkeypatch.setattr(zmqlisten, "_PROBES_S", (0.0, 0.01))
    bench.step(lambda: dialled.lane._dealer.shut(0))
    assert bench.until(lambda: came.ends == ["the connection ended"])


def test_a_lane_that_is_closed_late_takes_no_other_with_it_whose_connection_has_its_descriptor(
    zmq_lane: tuple[ZmqBench, Any, Recorder, Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, listener, came, dialled = zmq_lane
    monkeypatch.setattr(zmqlisten, "_CUT_S", 0.0)
    monkeypatch.setattr(zmqlisten, "_PROBES_S", (3600.0,))  # it is not known that the lane is gone
    old = came.lane
    bench.step(lambda: dialled.lane._dealer.shut(0))
    assert bench.until(lambda: old.connection.came() < 0)
    newer: list[Recorder] = []
    for _ in range(20):  # the system gives the lowest number, and other threads may take it
        newer.append(Recorder())
        newer[-1].lane = bench.step(lambda: bench.here.connect(listener.address, CONTROL, newer[-1]))
        assert bench.until(lambda: newer[-1].opened == 1)
        bench.step(lambda: newer[-1].lane.send([b"newer %d" % len(newer)]))
        assert bench.until(lambda: came.frames[-1] == [b"newer %d" % len(newer)])
        if came.lane.fd == old.fd:
            break
    assert came.lane.fd == old.fd and listener.connections.get(old.fd) is not None
    passed: list[bool] = []
    bench.step(lambda: (old.close(), bench.loop.call_later(0.1, passed.append, True)))
    assert bench.until(lambda: bool(passed))
    bench.step(lambda: newer[-1].lane.send([b"still here"]))
    assert bench.until(lambda: came.frames[-1] == [b"still here"])
    assert newer[-1].ends == []
    for each in newer:
        bench.step(each.lane.close)


@pytest.mark.parametrize("end", ["dialled", "came"])
def test_a_lane_that_is_closed_amid_a_message_is_read_no_further(
    zmq_lane: tuple[ZmqBench, Any, Recorder, Recorder], end: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench, _, came, dialled = zmq_lane
    here, there = (dialled, came) if end == "dialled" else (came, dialled)
    seen: list[bytes] = []

    def sink(header: bytes) -> None:
        seen.append(header)
        here.lane.close()  # as where the header is no good

    here.sink = sink  # type: ignore[method-assign]  # what this end makes of a header
    bench.step(lambda: there.lane.send([b"header", b"data"]))
    assert bench.until(lambda: bool(there.ends)) and seen == [b"header"]
    assert here.frames in ([], [[b"hello"]]) and not here.chunks
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
