"""What an error on the way leaves: no socket, no bound address, and nobody untold."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import pytest
import zmq
from zmq.utils.garbage import gc

from dtfzmq.base.loop import Loop
from dtfzmq.wire.inproc import InprocTransport
from dtfzmq.wire.inquiry import Inquiry
from dtfzmq.wire.net import Network
from dtfzmq.wire.zmqpoll import ZmqPoller
from dtfzmq.wire.zmqsocket import Watched
from tests.kit.simloop import SimLoop


@pytest.fixture
def loop() -> Iterator[Loop]:
    poller = ZmqPoller()
    made = Loop(poller)
    yield made
    poller.close()


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise MemoryError("no room")


@pytest.mark.parametrize("what", ["dtfzmq.wire.zmqsocket.configure", "zmq.Socket.get_monitor_socket"])
def test_a_socket_that_cannot_be_set_up_is_closed(loop: Loop, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    made: list[Any] = []
    whole = zmq.Context.socket

    def socket(self: Any, *args: Any, **kwargs: Any) -> Any:
        sock = whole(self, *args, **kwargs)
        if self is not gc.context:  # pyzmq's own, for frames that are not copied, made when it is first used
            made.append(sock)
        return sock

    monkeypatch.setattr(zmq.Context, "socket", socket)
    monkeypatch.setattr(what, refuse)
    with loop.held(), pytest.raises(MemoryError):
        Network(loop).listen("127.0.0.1:0", lambda lane: None)  # type: ignore[arg-type,return-value]  # nobody comes
    assert [sock.closed for sock in made] == [True]


def test_an_address_that_this_process_cannot_reach_by_reference_is_given_back(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[Any] = []
    shut = Watched.shut

    def noted(self: Watched, linger: int) -> None:
        bound.append(self)
        shut(self, linger)

    monkeypatch.setattr(Watched, "shut", noted)
    monkeypatch.setattr(InprocTransport, "listen", refuse)
    with loop.held(), pytest.raises(MemoryError):
        Network(loop).listen("127.0.0.1:0", lambda lane: None)  # type: ignore[arg-type,return-value]  # nobody comes
    assert len(bound) == 1 and not bound[0].open


def test_an_error_of_one_who_asked_for_a_peer_is_not_the_others(caplog: pytest.LogCaptureFixture) -> None:
    link: Any = types.SimpleNamespace(controls=[types.SimpleNamespace(send=lambda frames: None)])
    inquiry, told = Inquiry(link, SimLoop(), 5.0), list[bool]()
    inquiry.alive(refuse)
    inquiry.alive(told.append)
    inquiry.answer(True)
    assert told == [True] and "met an error" in caplog.text


def test_an_error_in_what_came_last_does_not_keep_a_lane_from_ending(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Watched):
        def drain(self) -> int:
            raise KeyError("what came")

        def on_event(self, event: int, value: int) -> None:
            pass

    bad = Bad.__new__(Bad)
    bad.drain_all()
    assert "met an error" in caplog.text
