"""A lane that we dial: one DEALER each, over all numbers of the peer's host in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import zmq

from dtfzmq.base import errors, threads
from dtfzmq.wire import addresses
from dtfzmq.wire.connections import Connection, find
from dtfzmq.wire.dial import MUTE, REFUSED
from dtfzmq.wire.lane import FOREIGN
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.silence import Silence
from dtfzmq.wire.transport import LaneEvents
from dtfzmq.wire.zmqpoll import MORE, NONE, SOME, ZmqPoller
from dtfzmq.wire.zmqprobe import ANSWERS, Probe
from dtfzmq.wire.zmqsocket import (
    EVENTS_OPTION,
    FAILED,
    LINGER_MS,
    READABLE,
    TURN,
    Watched,
    ZmqLane,
    receive,
    send_whole,
)

# What the end of an attempt tells of who is there: nothing, that it is nobody, or how somebody is.
_OURS, _NOBODY, _THEIRS = 1, 2, 3
_OVER = {zmq.EVENT_DISCONNECTED, zmq.EVENT_CLOSED, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL}


class Owner(Protocol):
    """What a lane needs of its transport."""

    loop: Any
    poller: ZmqPoller
    settings: LinkSettings
    silence: Silence


class _Dealer(Watched):
    """One attempt to connect to one number, and the connection that comes of it."""

    def __init__(self, lane: DealerLane, transport: Owner, number: str, port: int) -> None:
        self._lane = lane
        self._silence = transport.silence
        self._connection: Connection | None = None
        self.connected = False
        self.ready = False
        super().__init__(transport.poller, zmq.DEALER, transport.settings)
        try:
            self.sock.set(zmq.IPV6, int(":" in number))
            self.sock.connect(addresses.endpoint(number, port))
        except BaseException:
            self.shut(0)
            raise

    def drain(self) -> int:
        """See zmqpoll.Source."""
        sock = self.sock
        state = NONE
        for _ in range(TURN):
            if not self.open or not sock.getsockopt(EVENTS_OPTION) & READABLE:
                return state
            state = SOME
            receive(sock, self._lane)
        return MORE

    @property
    def answered(self) -> bool:
        """True if anything came, as far as the system tells. What ZeroMQ makes nothing of may have."""
        return self._connection is not None and self._connection.came() > 0

    def on_event(self, event: int, value: int) -> None:
        """See Watched."""
        if event == zmq.EVENT_CONNECTED:
            self.connected = True
            self._connection = find(value)
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.ready = True
            if self._connection is not None:
                self._silence.watch(self._connection, lambda reason: self._lane.failed(reason, True))
            self._lane.opened()
        elif event in _OVER:
            if self.ready:
                self._lane.failed("the connection ended", True)
            else:
                self._lane.fruitless()
        elif event in FAILED:
            self._lane.failed(f"{FOREIGN} ({FAILED[event]})", self.ready)

    def send(self, frames: Sequence[Any], frozen: bool) -> None:
        """Send on it. Raises ZMQError if the connection is gone."""
        send_whole(self.sock, None, frames, frozen)
        self._poller.touch(self)

    def shut(self, linger: int) -> None:
        """See Watched."""
        self._silence.unwatch(self._connection)
        super().shut(linger)


class DealerLane(ZmqLane):
    """A lane that we dial; tries all numbers of its host in turn."""

    def __init__(self, transport: Owner, address: str, events: LaneEvents) -> None:
        self._transport = transport
        self._loop = transport.loop
        self.address = address
        self.events: LaneEvents | None = events
        self._numbers: list[str] = []
        self._port = 0
        self._number = ""
        self._dealer: _Dealer | None = None
        self._probe: Probe | None = None
        self._met = False  # a connection came of the attempt that the probe asks about
        self._began = 0.0
        self._why = ""
        self._worth = 0
        self._timer: Any = None

    def begin(self) -> None:
        """Find the numbers of the host and try the first."""
        try:
            asked = addresses.parse(self.address)
        except errors.OpError as exc:
            self.over(exc.message)
            return
        self._port = asked.port
        numbers = addresses.quick(asked.host)
        if numbers is not None:
            self._found(numbers)
        else:
            threads.start(self._look_up, "dtfzmq-resolve", asked.host)

    def _look_up(self, host: str) -> None:
        try:
            numbers = addresses.look_up(host)
        except OSError:
            self._loop.call_soon(self.over, f"the host name {host} is not known")
        else:
            self._loop.call_soon(self._found, numbers)

    def _found(self, numbers: list[str]) -> None:
        self._numbers = list(numbers)
        self._next()

    def _next(self) -> None:
        if self.events is None:
            return
        number = self._number = self._numbers.pop(0)
        settings = self._transport.settings
        self._began = self._loop.now()
        try:
            dealer = self._dealer = _Dealer(self, self._transport, number, self._port)
        except zmq.ZMQError as exc:
            self.failed(f"cannot connect to {addresses.endpoint(number, self._port)}: {exc}", False, _OURS)
            return
        # libzmq gives up in silence where it cannot make a socket, or make anything of the number.
        self._timer = self._loop.call_later(2 * settings.connect_timeout, self._late, dealer)

    def _late(self, dealer: _Dealer) -> None:
        if self._dealer is dealer:
            self.failed(self.unanswered(), False)

    def fruitless(self) -> None:
        """No connection came about, or none that lasted: libzmq tells only that."""
        if self.waited():
            self.failed(self.unanswered(), False)
        elif self._dealer is not None:
            self._met = self._dealer.connected
            self._drop(0)
            self._probe = Probe(self._loop, self._transport.poller, self._explained)
            self._probe.begin(self._number, self._port, self._transport.settings.connect_timeout)

    def _explained(self, reason: str, met: bool) -> None:
        if reason == ANSWERS and self._met:
            reason = f"{FOREIGN} (a ZeroMQ socket of another kind)"
        self.failed(reason, False, _THEIRS if met else _NOBODY if reason == REFUSED else _OURS)

    def unanswered(self) -> str:
        """What an attempt says that took the time that it may take."""
        seconds = self._loop.now() - self._began
        if self._dealer is not None and self._dealer.answered:
            return f"{FOREIGN} (no ZeroMQ came within {seconds:.1f} s)"
        if self._dealer is not None and self._dealer.connected:
            return f"{MUTE} for {seconds:.1f} s"
        return f"no answer within {seconds:.1f} s"

    def waited(self) -> bool:
        """True if the attempt took the time that it may take."""
        return self._loop.now() - self._began >= self._transport.settings.connect_timeout * 0.9

    def opened(self) -> None:
        """The handshake is through."""
        if self.events is not None:
            self._numbers = []
            self._timer.cancel()
            self.events.on_open()

    def failed(self, reason: str, was_open: bool, worth: int = _THEIRS) -> None:
        """The attempt or the connection ended. Of several numbers, the one that tells most says why."""
        if was_open and self._dealer is not None:
            self._dealer.drain_all()
        self._drop(0)
        if was_open or worth > self._worth:
            self._why, self._worth = reason, worth
        if self._numbers and not was_open:
            self._next()
        else:
            self.over(self._why)

    def send(self, frames: Sequence[Any], frozen: bool = False) -> None:
        """See transport.Lane."""
        dealer = self._dealer
        if dealer is None or not dealer.open:
            return
        try:
            dealer.send(frames, frozen)
        except zmq.ZMQError:
            self._loop.call_soon(self.failed, "the connection ended", True)

    def close(self) -> None:
        """See transport.Lane."""
        self.events = None
        self._drop(LINGER_MS if self._dealer is not None and self._dealer.ready else 0)

    def over(self, reason: str) -> None:
        """See ZmqLane."""
        self._drop(0)
        events, self.events = self.events, None
        if events is not None:
            events.on_end(reason)

    def _drop(self, linger: int) -> None:
        dealer, self._dealer = self._dealer, None
        if self._timer is not None:
            self._timer.cancel()
        if dealer is not None:
            dealer.shut(linger)
        if self._probe is not None:
            self._probe.close()
