"""Lanes over ZeroMQ: one ROUTER where a task listens, one DEALER for each lane that it dials.

libzmq is told not to reconnect, not to queue for peers that are not there and not to linger; the end of a connection
is an event of the socket's monitor. A dialled lane hears of it directly. A ROUTER does not say which of its lanes
ended, so each is probed when one did: a lane that is gone cannot be routed to.
"""

from __future__ import annotations

import abc
import errno
import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any

import zmq

from dtfzmq.base import errors, threads
from dtfzmq.base.loop import Loop
from dtfzmq.wire import addresses
from dtfzmq.wire.dial import REFUSED
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.transport import Accept, Lane, LaneEvents
from dtfzmq.wire.zmqpoll import MORE, NONE, SOME, ZmqPoller

_log = logging.getLogger("dtfzmq")

# Plain numbers: pyzmq's enumerations cost a microsecond at each use.
_EVENTS_OPTION: Any = int(zmq.EVENTS)
_MORE_OPTION: Any = int(zmq.RCVMORE)
_READABLE = int(zmq.POLLIN)
_NOW = int(zmq.NOBLOCK)
_NOW_AND_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)

# Frames of the transport itself, told from headers by their length.
_CLOSED = b""
_PROBE = b"p"
# Messages that are dispatched from one socket before others have their turn.
_TURN = 64
# A frame of this size may be lent to libzmq; smaller ones are copied faster.
_LEND = 64 * 1024
# libzmq does not let us end one connection of a ROUTER; what comes on so many of those we are done with is dropped.
_BARRED = 1024
_LINGER_MS = 300
_PROBES_S = (0.0, 0.002, 0.01, 0.05, 0.25, 1.0)
_CLOSE_WAIT_MS = 1000

_EVENTS = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_FAILED: dict[int, str] = {
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "the connection ended during ZeroMQ's handshake",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "the other end does not speak ZeroMQ's protocol",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "the other end refused our key",
}
_MONITOR = struct.Struct("<HI")


class _Process:
    """What one process has of ZeroMQ; a forked child begins anew and never touches what it inherited."""

    def __init__(self) -> None:
        self.context: zmq.Context[Any] | None = None
        self.loop: Loop | None = None
        self.inherited: list[Any] = []

    def forked(self) -> None:
        """In a forked child: keep the parent's objects from being finalized, and forget them."""
        self.inherited += [self.context, self.loop]
        self.context = self.loop = None


_process = _Process()
threads.on_fork_in_child(_process.forked)


def context() -> zmq.Context[Any]:
    """The process's ZeroMQ context. It is never terminated: with LINGER small it holds nothing up."""
    if _process.context is None:
        made: zmq.Context[Any] = zmq.Context()
        made.set(zmq.MAX_SOCKETS, 16384)
        _process.context = made
    return _process.context


def process_loop() -> Loop:
    """The loop that all endpoints of this process share, with a poller for ZeroMQ sockets; a new one after its end."""
    loop = _process.loop
    if loop is None or loop.closed:
        loop = _process.loop = Loop(ZmqPoller())
    return loop


def _configure(sock: zmq.Socket[Any], settings: LinkSettings) -> None:
    """Set what must be set before bind or connect."""
    # A silent peer is seen in half the limit; the other half is for reaching it again.
    interval = max(10, int(settings.limit * 200))
    options = {
        zmq.LINGER: 0,
        zmq.SNDHWM: 0,
        zmq.RCVHWM: 0,
        zmq.MAXMSGSIZE: settings.max_frame,
        zmq.IMMEDIATE: 1,
        zmq.RECONNECT_IVL: -1,
        zmq.CONNECT_TIMEOUT: max(1, int(settings.connect_timeout * 1000)),
        zmq.HANDSHAKE_IVL: max(1, int(settings.connect_timeout * 1000)),
        zmq.HEARTBEAT_IVL: interval,
        zmq.HEARTBEAT_TIMEOUT: interval * 3 // 2,
        zmq.HEARTBEAT_TTL: max(100, interval * 3 // 2),
        zmq.TCP_KEEPALIVE: 1,
        zmq.TCP_KEEPALIVE_IDLE: 30,
        zmq.TCP_KEEPALIVE_INTVL: 5,
        zmq.TCP_KEEPALIVE_CNT: 3,
    }
    for option, value in options.items():
        sock.set(option, value)


class _Watched(abc.ABC):
    """A socket with its monitor, both looked after by the poller."""

    def __init__(self, poller: ZmqPoller, kind: int, settings: LinkSettings) -> None:
        self._poller = poller
        self.sock = context().socket(kind)
        _configure(self.sock, settings)
        self.monitor = self.sock.get_monitor_socket(_EVENTS)
        self._watch = _MonitorSource(self.monitor, self.on_event)
        self.fd: int = self.sock.get(zmq.FD)
        self._monitor_fd: int = self.monitor.get(zmq.FD)
        poller.add(self.fd, self)
        poller.add(self._monitor_fd, self._watch)
        self.open = True

    @abc.abstractmethod
    def drain(self) -> int:
        """See zmqpoll.Source."""

    @abc.abstractmethod
    def on_event(self, event: int, value: int) -> None:
        """The monitor tells of the connection."""

    def shut(self, linger: int) -> None:
        """Close both sockets."""
        if self.open:
            self.open = False
            self._poller.remove(self.fd, self)
            self._poller.remove(self._monitor_fd, self._watch)
            self.sock.disable_monitor()
            self.monitor.close(0)
            self.sock.close(linger)


class _MonitorSource:
    """Reads a monitor."""

    def __init__(self, monitor: zmq.Socket[Any], told: Callable[[int, int], None]) -> None:
        self._monitor: Any = monitor
        self._told = told

    def drain(self) -> int:
        """See zmqpoll.Source."""
        state = NONE
        while not self._monitor.closed and self._monitor.getsockopt(_EVENTS_OPTION) & _READABLE:
            event, value = _MONITOR.unpack(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
            state = SOME
            self._told(event, value)
        return state


def _receive(sock: zmq.Socket[Any], lane: _ZmqLane) -> None:
    """Take the rest of a message and dispatch it; a chunk is received straight into its place."""
    header: Any = sock.recv(_NOW)
    more = sock.getsockopt(_MORE_OPTION)
    events = lane.events
    if not more:
        if len(header) > 1:
            if events is not None:
                events.on_frames((header,))
        elif header == _CLOSED and events is not None:
            lane.over("the other end closed it")
        return
    place = events.sink(header) if events is not None else None
    if place is not None and events is not None and lane.events is events:
        nbytes = sock.recv_into(place, flags=_NOW)
        _discard(sock)
        events.on_chunk(header, nbytes)
        return
    data: Any = sock.recv(_NOW)
    if _discard(sock):
        _log.warning("closed %s: a message of too many frames came", lane.address)
        lane.close()
        if events is not None:
            events.on_end("a message of too many frames came")
        return
    if lane.events is events and events is not None:
        events.on_frames((header, data))


def _discard(sock: zmq.Socket[Any]) -> bool:
    """Drop what is left of a message; true if there was anything."""
    found = False
    while sock.getsockopt(_MORE_OPTION):
        sock.recv(_NOW)
        found = True
    return found


class _ZmqLane(abc.ABC):
    """What both ends of a lane have in common. `events` is None once it is over or closed."""

    by_reference = False
    address: str
    events: LaneEvents | None

    @abc.abstractmethod
    def over(self, reason: str) -> None:
        """The lane ended by itself."""

    @abc.abstractmethod
    def close(self) -> None:
        """See transport.Lane."""


# -- the side that listens ---------------------------------------------------------------------------------------------


class _RouterLane(_ZmqLane):
    """One peer of a ROUTER."""

    def __init__(self, router: ZmqListener, route: bytes) -> None:
        self.router = router
        self.route = route
        self.address = f"a connection to {router.address}"
        self.events: LaneEvents | None = None

    def send(self, frames: Sequence[Any], frozen: bool = False) -> None:
        """See transport.Lane."""
        if self.events is not None or self.route in self.router.lanes:
            self.router.send(self, frames, frozen)

    def close(self) -> None:
        """See transport.Lane."""
        if self.route in self.router.lanes:
            self.router.send(self, (_CLOSED,), False)
            self.router.forget(self)
        self.events = None

    def over(self, reason: str) -> None:
        """See _ZmqLane."""
        self.router.forget(self)
        events, self.events = self.events, None
        if events is not None:
            events.on_end(reason)


class ZmqListener(_Watched):
    """A bound ROUTER and its lanes. See transport.Listener."""

    def __init__(self, loop: Any, poller: ZmqPoller, settings: LinkSettings, address: str, accept: Accept) -> None:
        self._loop = loop
        self._accept = accept
        self.lanes: dict[bytes, _RouterLane] = {}
        self._barred: dict[bytes, None] = {}
        asked = addresses.parse(address)
        super().__init__(poller, zmq.ROUTER, settings)
        self.sock.set(zmq.ROUTER_MANDATORY, 1)
        try:
            host = self._bind(asked, address)
        except BaseException:
            self.shut(0)
            raise
        last = self.sock.get(zmq.LAST_ENDPOINT).decode().rstrip("\0")
        self._endpoint = last
        self.address = addresses.Address(host, int(last.rpartition(":")[2])).text()

    def _bind(self, asked: addresses.Address, text: str) -> str:
        """Bind the address where it is local, else every interface; returns the host to tell others."""
        try:
            numbers = addresses.look_up(asked.host)
        except OSError:
            numbers = []
        if asked.host in ("0.0.0.0", "::", "*"):
            numbers = []
        for number in numbers:
            try:
                self.sock.set(zmq.IPV6, int(":" in number))
                self.sock.bind(addresses.endpoint(number, asked.port))
                if not addresses.is_loopback(number):
                    _log.warning("%s is open to the network, without keys: whoever reaches it can run graphs.", text)
                return asked.host
            except zmq.ZMQError as exc:
                if exc.errno == zmq.EADDRINUSE:
                    raise errors.AlreadyExistsError(
                        None, None, f"Address already in use: {text}. Another server or program listens there."
                    ) from None
                if exc.errno == errno.EACCES:
                    raise errors.PermissionDeniedError(
                        None, None, f"{text} cannot be bound: permission denied; choose a port above 1023."
                    ) from None
        if addresses.is_loopback(asked.host):
            raise errors.UnavailableError(None, None, f"{text} cannot be bound: there is no loopback interface.")
        try:
            self.sock.set(zmq.IPV6, 0)
            self.sock.bind(f"tcp://0.0.0.0:{asked.port}")
        except zmq.ZMQError as exc:
            raise errors.AlreadyExistsError(None, None, f"{text} cannot be bound: {exc}.") from None
        _log.warning("%s is not an address of this machine: every interface listens, open to the network.", text)
        return asked.host

    def drain(self) -> int:
        """See zmqpoll.Source."""
        sock = self.sock
        state = NONE
        for _ in range(_TURN):
            if not self.open or not sock.getsockopt(_EVENTS_OPTION) & _READABLE:
                return state
            state = SOME
            route: Any = sock.recv(_NOW)
            lane = self.lanes.get(route)
            if lane is None:
                if route in self._barred:
                    _discard(sock)
                    continue
                lane = self.lanes[route] = _RouterLane(self, route)
                lane.events = self._accept(lane)
            _receive(sock, lane)
        return MORE

    def send(self, lane: _RouterLane, frames: Sequence[Any], frozen: bool) -> None:
        """Send along a route; a lane that is gone is told so later."""
        sock = self.sock
        if not self.open:
            return
        try:
            sock.send(lane.route, _NOW_AND_MORE)
            if len(frames) == 1:
                sock.send(frames[0], _NOW)
            else:
                sock.send(frames[0], _NOW_AND_MORE)
                data = frames[1]
                sock.send(data, _NOW, copy=not frozen or len(data) < _LEND)
        except zmq.ZMQError:
            self._loop.call_soon(lane.over, "the connection ended")
        self._poller.touch(self)

    def forget(self, lane: _RouterLane) -> None:
        """A lane is over: drop what may still come on it."""
        if self.lanes.pop(lane.route, None) is not None:
            self._barred[lane.route] = None
            if len(self._barred) > _BARRED:
                del self._barred[next(iter(self._barred))]

    def on_event(self, event: int, value: int) -> None:
        """A connection ended: find out which."""
        if event == zmq.EVENT_DISCONNECTED:
            # The event comes before the socket itself has noticed, so ask again after a while.
            for delay in _PROBES_S:
                self._loop.call_later(delay, self._probe)
        elif event in _FAILED and event != zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            _log.warning("a connection to %s was refused: %s", self.address, _FAILED[event])

    def _probe(self) -> None:
        for lane in list(self.lanes.values()):
            if self.open:
                self.send(lane, (_PROBE,), False)

    def close(self) -> None:
        """See transport.Listener."""
        if not self.open:
            return
        for lane in list(self.lanes.values()):
            lane.close()
        try:
            self.sock.unbind(self._endpoint)
            # The address is free once the monitor says so, which takes libzmq's thread well under a millisecond.
            while self.monitor.poll(_CLOSE_WAIT_MS):
                if _MONITOR.unpack(self.monitor.recv_multipart()[0])[0] == zmq.EVENT_CLOSED:
                    break
        except zmq.ZMQError as exc:
            _log.info("%s was not unbound: %s", self.address, exc)
        self.shut(_LINGER_MS)


# -- the side that dials -----------------------------------------------------------------------------------------------


class _Dealer(_Watched):
    """One attempt to connect to one number, and the connection that comes of it."""

    def __init__(self, lane: _DealerLane, poller: ZmqPoller, settings: LinkSettings, number: str, port: int) -> None:
        self._lane = lane
        super().__init__(poller, zmq.DEALER, settings)
        self.sock.set(zmq.IPV6, int(":" in number))
        self.sock.connect(addresses.endpoint(number, port))
        self.connected = False
        self.ready = False

    def drain(self) -> int:
        """See zmqpoll.Source."""
        sock = self.sock
        state = NONE
        for _ in range(_TURN):
            if not self.open or not sock.getsockopt(_EVENTS_OPTION) & _READABLE:
                return state
            state = SOME
            _receive(sock, self._lane)
        return MORE

    def on_event(self, event: int, value: int) -> None:
        """See _Watched."""
        if event == zmq.EVENT_CONNECTED:
            self.connected = True
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.ready = True
            self._lane.opened()
        elif event == zmq.EVENT_DISCONNECTED:
            self._lane.failed("the connection ended", self.ready)
        elif event == zmq.EVENT_CLOSED:
            self._lane.failed(
                "the connection ended" if self.connected else self._lane.unanswered(), self.ready
            )
        elif event in _FAILED:
            self._lane.failed(_FAILED[event], self.ready)

    def send(self, frames: Sequence[Any], frozen: bool) -> None:
        """Send on it. Raises ZMQError if the connection is gone."""
        sock = self.sock
        if len(frames) == 1:
            sock.send(frames[0], _NOW)
        else:
            sock.send(frames[0], _NOW_AND_MORE)
            data = frames[1]
            sock.send(data, _NOW, copy=not frozen or len(data) < _LEND)
        self._poller.touch(self)


class _DealerLane(_ZmqLane):
    """A lane that we dial; tries all numbers of its host in turn."""

    def __init__(self, transport: ZmqTransport, address: str, events: LaneEvents) -> None:
        self._transport = transport
        self._loop = transport.loop
        self.address = address
        self.events: LaneEvents | None = events
        self._numbers: list[str] = []
        self._port = 0
        self._dealer: _Dealer | None = None
        self._began = 0.0

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
        except (OSError, UnicodeError):
            self._loop.call_soon(self.over, f"the host name {host} is not known")
        else:
            self._loop.call_soon(self._found, numbers)

    def _found(self, numbers: list[str]) -> None:
        self._numbers = list(numbers)
        self._next()

    def _next(self) -> None:
        if self.events is None:
            return
        number = self._numbers.pop(0)
        self._began = self._loop.now()
        try:
            self._dealer = _Dealer(self, self._transport.poller, self._transport.settings, number, self._port)
        except zmq.ZMQError as exc:
            self.over(f"no socket: {exc}")

    def unanswered(self) -> str:
        """Why a connection did not come about: libzmq tells only that."""
        waited = self._loop.now() - self._began
        if waited >= self._transport.settings.connect_timeout * 0.9:
            return f"no answer within {waited:.1f} s"
        return REFUSED

    def opened(self) -> None:
        """The handshake is through."""
        if self.events is not None:
            self._numbers = []
            self.events.on_open()

    def failed(self, reason: str, was_open: bool) -> None:
        """The attempt or the connection ended."""
        self._drop(0)
        if self._numbers and not was_open:
            self._next()
        else:
            self.over(reason)

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
        self._drop(_LINGER_MS if self._dealer is not None and self._dealer.ready else 0)

    def over(self, reason: str) -> None:
        """See _ZmqLane."""
        self._drop(0)
        events, self.events = self.events, None
        if events is not None:
            events.on_end(reason)

    def _drop(self, linger: int) -> None:
        dealer, self._dealer = self._dealer, None
        if dealer is not None:
            dealer.shut(linger)


class ZmqTransport:
    """See transport.Transport. Use it with the loop whose poller it is given, on that loop's baton."""

    def __init__(self, loop: Any, poller: ZmqPoller, settings: LinkSettings | None = None) -> None:
        self.loop = loop
        self.poller = poller
        self.settings = settings or LinkSettings()

    def listen(self, address: str, accept: Accept) -> ZmqListener:
        """See transport.Transport."""
        return ZmqListener(self.loop, self.poller, self.settings, address, accept)

    def connect(self, address: str, kind: int, events: LaneEvents) -> Lane:
        """See transport.Transport."""
        lane = _DealerLane(self, address, events)
        self.loop.call_soon(lane.begin)
        return lane

    def close(self) -> None:
        """See transport.Transport: nothing is held beyond lanes and listeners."""
