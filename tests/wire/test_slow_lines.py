"""What comes slowly is not silence: lines on which one message takes longer than a silent peer is waited for."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zmq

from dtfzmq.base import errors
from dtfzmq.wire.connections import Connection
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.silence import Silence
from tests.kit.peer import CountMe, Echo
from tests.kit.relay import Relay
from tests.wire.test_zmq_links import FAST, TASK, Client, Peer, is_stopped, serving

KIB = 1024
LIMIT = 5.0
#: A chunk takes 1.3 s on a line of `RATE`, and silence is half of the limit.
SHORT, RATE = 2.4, 200 * KIB


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[512 * KIB], [60 * KIB] * 8], ids=["chunks", "one message of small tensors"])
def test_a_message_may_take_longer_than_silence(sizes: list[int]) -> None:
    sent = [np.random.default_rng(n).integers(0, 255, size, np.uint8) for n, size in enumerate(sizes)]
    for slower in (1, 2, 4, 8):
        settings = LinkSettings(limit=SHORT * slower, chunk=256 * KIB)
        server, client = serving(settings), Client(settings)
        relay = Relay(int(server.endpoint.me.address.rpartition(":")[2]), RATE / slower)
        link = client.link(f"127.0.0.1:{relay.port}", TASK)
        back = list[Any]()
        with contextlib.suppress(errors.UnavailableError):
            client.call(link, CountMe())
            back = client.call(link, Echo(1, sent), 400).tensors
        lost = [*client.lost, *server.lost]
        client.close()
        server.close()
        relay.close()
        if relay.longest_pause < 0.9 * settings.limit / 2:
            break  # else this machine stood still, and the line was silent indeed
    assert len(back) == len(sent) and all(np.array_equal(a, b) for a, b in zip(sent, back))
    assert link.repeats_out == 0 and not lost


class Line(Connection):
    """A connection on which something comes now and then."""

    def __init__(self) -> None:
        super().__init__(-1, (b"", b""))
        self.segments = 0

    def came(self) -> int:
        return self.segments


class Loop:
    """A loop whose time passes by hand; `looks` are its timers."""

    def __init__(self) -> None:
        self.time = 0.0
        self.looks: list[Callable[[], None]] = []

    def now(self) -> float:
        return self.time

    def call_later(self, delay: float, fn: Callable[[], None]) -> None:
        assert delay <= LIMIT / 20
        self.looks.append(fn)

    def look(self, seconds: float) -> None:
        """Time passes, and the loop gets to its timers at the end of it only."""
        self.time += seconds
        self.looks.pop()()


def test_who_brings_parts_of_messages_is_not_silent() -> None:
    loop, told = Loop(), list[str]()
    silence = Silence(loop, LinkSettings(limit=LIMIT))
    slow, dead, ended = Line(), Line(), Line()
    for name, line in (("slow", slow), ("dead", dead), ("ended", ended)):
        silence.watch(line, lambda reason, name=name: told.append(f"{name}: {reason}"))  # type: ignore[misc]
    silence.unwatch(ended)
    for _ in range(20):
        slow.segments += 1
        loop.look(LIMIT / 2 - 0.1)
    assert told == ["dead: nothing came for 4.8 s"]


def test_the_end_of_one_silent_connection_may_be_that_of_another() -> None:
    loop, told = Loop(), list[str]()
    silence, first, second = Silence(loop, LinkSettings(limit=LIMIT)), Line(), Line()
    silence.watch(first, lambda reason: silence.unwatch(second))
    silence.watch(second, told.append)
    loop.look(LIMIT)
    silence.watch(Line(), told.append)
    loop.look(LIMIT)
    assert told == [f"nothing came for {LIMIT} s"], "of the third"


def test_an_error_over_one_silent_connection_hides_no_other() -> None:
    loop, told = Loop(), list[str]()
    silence = Silence(loop, LinkSettings(limit=LIMIT))

    def wrong(reason: str) -> None:
        raise RuntimeError(reason)

    silence.watch(Line(), wrong)
    silence.watch(Line(), told.append)
    with pytest.raises(RuntimeError):
        loop.look(LIMIT)
    loop.look(LIMIT / 20)
    assert len(told) == 1


def test_silence_is_found_before_others_believe_that_the_peer_is_alive() -> None:
    loop, told = Loop(), list[float]()
    silence, line = Silence(loop, LinkSettings(limit=LIMIT)), Line()
    silence.watch(line, lambda reason: told.append(loop.time))
    while not told:
        loop.look(LIMIT / 20)
    assert told[0] < LinkSettings(limit=LIMIT).silence
    assert not loop.looks, "nothing is looked at when nothing is watched"


def test_a_process_that_held_its_interpreter_for_long_takes_nobody_for_silent() -> None:
    loop, told = Loop(), list[str]()
    silence, line = Silence(loop, LinkSettings(limit=LIMIT)), Line()
    silence.watch(line, told.append)
    line.segments += 1
    loop.look(10 * LIMIT)
    loop.look(LIMIT / 2 - 0.1)
    assert not told


@pytest.mark.slow
def test_where_the_system_does_not_tell_what_comes_silence_is_found_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dtfzmq.wire.silence.counted", lambda: False)
    monkeypatch.setattr("dtfzmq.wire.zmqsocket.counted", lambda: False)
    client, peer = Client(FAST), Peer(limit=FAST.limit)
    link = client.link(peer.address, TASK)
    client.call(link, CountMe())
    with client.loop.held():
        assert link.controls[0].lane._dealer.sock.get(zmq.HEARTBEAT_TIMEOUT) > 0
    peer.process.send_signal(signal.SIGSTOP)
    assert client.wait_for(lambda: is_stopped(peer.process.pid))
    with pytest.raises(errors.UnavailableError, match=TASK):
        client.call(link, CountMe(), 20)
    peer.close()
    client.close()
