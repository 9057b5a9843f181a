"""Where a task listens: one ROUTER for all its peers.

A ROUTER does not say which of its lanes ended. The monitor tells the descriptor of a connection that did, so the lanes
that came by it are probed: one that is gone cannot be routed to.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from typing import Any

import zmq

from dtfzmq.base import errors
from dtfzmq.wire import addresses, seldom
from dtfzmq.wire.connections import Connection, Connections
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.silence import Silence
from dtfzmq.wire.transport import Accept, LaneEvents
from dtfzmq.wire.zmqpoll import MORE, NONE, SOME, ZmqPoller
from dtfzmq.wire.zmqsocket import (
    CLOSED,
    EVENTS_OPTION,
    FAILED,
    LINGER_MS,
    MONITOR,
    NOW,
    PROBE,
    READABLE,
    TURN,
    Watched,
    ZmqLane,
    discard,
    receive,
    send_whole,
)

_log = logging.getLogger("dtfzmq")

# What still comes on so many of the lanes that we are done with is dropped.
_BARRED = 1024
# The other end of such a lane is told, and gets this long to end the connection itself.
_CUT_S = 1.0
_UNKNOWN = -1
_PROBES_S = (0.0, 0.002, 0.01, 0.05, 0.25, 1.0)
_CLOSE_WAIT_MS = 1000


class _RouterLane(ZmqLane):
    """One peer of a ROUTER."""

    def __init__(self, router: ZmqListener, route: bytes, fd: int) -> None:
        self.router = router
        self.route = route
        self.fd = fd
        #: Once the monitor told of it; a descriptor may be another's by then.
        self.connection: Connection | None = None
        self.address = f"a connection to {router.address}"
        self.events: LaneEvents | None = None

    def send(self, frames: Sequence[Any], frozen: bool = False) -> None:
        """See transport.Lane."""
        if self.route in self.router.lanes:
            self.router.send(self, frames, frozen)

    def close(self) -> None:
        """See transport.Lane."""
        if self.route in self.router.lanes:
            self.router.send(self, (CLOSED,), False)
            self.router.forget(self)
        self.events = None

    def over(self, reason: str) -> None:
        """See ZmqLane."""
        self.router.forget(self)
        events, self.events = self.events, None
        if events is not None:
            events.on_end(reason)


class ZmqListener(Watched):
    """A bound ROUTER and its lanes. See transport.Listener."""

    def __init__(
        self,
        loop: Any,
        poller: ZmqPoller,
        settings: LinkSettings,
        silence: Silence,
        address: str,
        accept: Accept,
        exact: bool,
    ) -> None:
        self._loop = loop
        self._silence = silence
        self._accept = accept
        self.lanes: dict[bytes, _RouterLane] = {}
        self._by_fd: dict[int, list[_RouterLane]] = {}
        self._barred: dict[bytes, None] = {}
        # Lanes that are gone, and what number the last message read from each had: see `_read_out`.
        self._leaving: dict[_RouterLane, int] = {}
        self._reads = 0
        self._hello_limit = settings.hello_limit
        self._sweeping = False
        asked = addresses.parse(address)
        super().__init__(poller, zmq.ROUTER, settings)
        self.sock.set(zmq.ROUTER_MANDATORY, 1)
        try:
            warning = self._bind(asked, address, exact)
        except BaseException:
            self.shut(0)
            raise
        last = self.sock.get(zmq.LAST_ENDPOINT).decode().rstrip("\0")
        self._endpoint = last
        port = int(last.rpartition(":")[2])
        self.address = addresses.Address(asked.host, port).text()
        if warning:
            _log.warning(warning, self.address)
        self.connections = Connections(port)

    def _bind(self, asked: addresses.Address, text: str, exact: bool) -> str:
        """Bind the address where it is local, else, unless `exact`, every interface; returns the warning to log."""
        if addresses.is_wide(asked.host):
            if not self._bind_number(asked.host, asked.port, text):
                raise errors.UnavailableError(None, None, f"{text} cannot be bound: no interface of its family is up.")
            return "%s is every interface, open to the network, without keys: whoever reaches it can run graphs."
        try:
            numbers = addresses.look_up(asked.host)
        except OSError:
            numbers = []
        for number in numbers:
            if self._bind_number(number, asked.port, text):
                if addresses.is_loopback(number):
                    return ""
                return "%s is open to the network, without keys: whoever reaches it can run graphs."
        if addresses.is_loopback(asked.host):
            raise errors.UnavailableError(None, None, f"{text} cannot be bound: there is no loopback interface.")
        if exact:
            text = f"'{asked.host}' in {text} is not an address of this machine; bind one that is, or 0.0.0.0 for all."
            raise errors.InvalidArgumentError(None, None, text)
        if not self._bind_number("0.0.0.0", asked.port, text):
            raise errors.UnavailableError(
                None, None, f"{text} cannot be bound, nor every interface; is there a network?"
            )
        return "%s is not an address of this machine: every interface listens, open to the network, without keys."

    def _bind_number(self, number: str, port: int, text: str) -> bool:
        """Bind one number. False if it is not of this machine."""
        try:
            self.sock.set(zmq.IPV6, int(":" in number))
            self.sock.bind(addresses.endpoint(number, port))
        except zmq.ZMQError as exc:
            if exc.errno == zmq.EADDRINUSE:
                raise errors.AlreadyExistsError(
                    None, None, f"Address already in use: {text}. Another server or program listens there."
                ) from None
            if exc.errno == errno.EACCES:
                raise errors.PermissionDeniedError(
                    None, None, f"{text} cannot be bound: permission denied; choose a port above 1023."
                ) from None
            return False
        return True

    def drain(self) -> int:
        """See zmqpoll.Source."""
        sock = self.sock
        state = NONE
        for _ in range(TURN):
            if not self.open or not sock.getsockopt(EVENTS_OPTION) & READABLE:
                return state
            state = SOME
            route: Any = sock.recv(NOW)
            lane = self.lanes.get(route)
            if self._leaving:
                self._reads += 1
                if lane in self._leaving:
                    self._leaving[lane] = self._reads
            if lane is None:
                if route in self._barred:
                    discard(sock)
                    continue
                header = sock.recv(NOW, copy=False)
                lane = self._new_lane(route, header)
                receive(sock, lane, header)
                continue
            receive(sock, lane)
        return MORE

    def _new_lane(self, route: bytes, header: zmq.Frame) -> _RouterLane:
        """A lane for a route that was not heard of; `header` is the first frame that came by it."""
        try:
            fd = int(header.get("__fd"))
        except zmq.ZMQError:  # it speaks a ZMTP before 3.0, as noise may be taken to
            fd = _UNKNOWN
        self._look_at(fd)
        self.connections.spoke(fd)
        lane = self.lanes[route] = _RouterLane(self, route, fd)
        self._by_fd.setdefault(fd, []).append(lane)
        self._attend(fd)
        lane.events = self._accept(lane)
        return lane

    def _look_at(self, fd: int) -> None:
        """A connection's first message may be read before the monitor tells of it, and of an earlier one's end."""
        before = self.connections.get(fd)
        if self.connections.accepted(fd, self._loop.now()) is not before and before is not None:
            self._loop.call_later(_PROBES_S[-1], self._ended, before)

    def _attend(self, fd: int) -> None:
        """A connection that came has lanes: it is watched from now on."""
        connection = self.connections.get(fd)
        if connection is not None:
            for lane in self._by_fd[fd]:
                lane.connection = lane.connection or connection
            self._silence.watch(connection, lambda reason: self._silent(connection, reason))

    def _silent(self, connection: Connection, reason: str) -> None:
        for lane in list(self._by_fd.get(connection.fd, ())):
            if lane.connection is connection:
                lane.over(reason)
        connection.cut()

    def send(self, lane: _RouterLane, frames: Sequence[Any], frozen: bool) -> None:
        """Send along a route; a lane that is gone is told so later."""
        if not self.open:
            return
        try:
            send_whole(self.sock, lane.route, frames, frozen)
        except zmq.ZMQError:
            self._loop.call_soon(self._gone, lane)
        self._poller.touch(self)

    def _gone(self, lane: _RouterLane) -> None:
        """A lane cannot be routed to any more: it is over once what came by it is read."""
        if lane.route in self.lanes and lane not in self._leaving:
            if not self._leaving:
                self._loop.call_soon(self._read_out)
            self._leaving[lane] = self._reads

    def _read_out(self) -> None:
        """Read on, for all lanes that are gone. One is over when nothing is left, and also when others bring ever more:

        libzmq takes a message of each that has any in turn, so nothing is left of one that all others passed.
        """
        state = NONE
        try:
            state = self.drain()
        finally:
            longest = len(self.connections) + len(self.lanes) + len(self._barred) + TURN if state == MORE else 0
            for lane, last in list(self._leaving.items()):
                if self._reads - last >= longest:
                    del self._leaving[lane]
                    self._loop.call_soon(lane.over, "the connection ended")
            if self._leaving:
                self._loop.call_soon(self._read_out)

    def forget(self, lane: _RouterLane) -> None:
        """A lane is over: drop what may still come on it, and end its connection, once its other end had time to."""
        self._leaving.pop(lane, None)
        if self.lanes.pop(lane.route, None) is not None:
            of_fd = self._by_fd[lane.fd]
            of_fd.remove(lane)
            if not of_fd:
                del self._by_fd[lane.fd]
            self._barred[lane.route] = None
            if len(self._barred) > _BARRED:
                del self._barred[next(iter(self._barred))]
            if lane.connection is not None:
                self._loop.call_later(_CUT_S, self._cut, lane.connection)

    def _cut(self, connection: Connection) -> None:
        if connection.fd not in self._by_fd:  # else another has the descriptor, perhaps since before we looked
            connection.cut()

    def on_event(self, event: int, value: int) -> None:
        """A connection came or ended; `value` is its descriptor."""
        if event == zmq.EVENT_ACCEPTED:
            self._look_at(value)
            if value in self._by_fd:  # its first message may be read before the monitor tells of it
                self._attend(value)
            if not self._sweeping:
                self._sweeping = True
                self._loop.call_later(self._hello_limit, self._sweep)
        elif event == zmq.EVENT_DISCONNECTED:
            connection = self.connections.get(value)
            # The event comes before the socket itself has noticed, so ask again after a while.
            for delay in _PROBES_S:
                self._loop.call_later(delay, self._probe, value)
            if connection is not None:
                self._loop.call_later(_PROBES_S[-1], self._ended, connection)
        elif event in FAILED and event != zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            text = f"a connection to {self.address} was refused: {FAILED[event]}"
            seldom.warn((event, self.address), text)

    def _probe(self, fd: int) -> None:
        for lane in [*self._by_fd.get(fd, ()), *self._by_fd.get(_UNKNOWN, ())]:
            self.send(lane, (PROBE,), False)

    def _ended(self, connection: Connection) -> None:
        """It ended a while ago: so did its lanes, even if the socket was too slow to notice while it was asked.

        Or what ended was an earlier one with its descriptor, which it had by the time that we heard of that.
        """
        if connection.came() < 0:
            self._silence.unwatch(connection)
            if self.connections.get(connection.fd) is connection:
                self.connections.ended(connection.fd)
            for lane in self._by_fd.get(connection.fd, ()):
                if lane.connection is connection:
                    self._gone(lane)

    def _sweep(self) -> None:
        """End connections that have said nothing for too long."""
        self._sweeping = False
        if not self.open:
            return
        for connection in self.connections.mute_since(self._loop.now() - self._hello_limit):
            self.connections.spoke(connection.fd)
            if connection.fd not in self._by_fd:
                text = f"closed a connection to {self.address}: nothing came within {self._hello_limit:g} s"
                seldom.warn(("mute", self.address), text)
                connection.cut()
        if len(self.connections):
            self._sweeping = True
            self._loop.call_later(self._hello_limit / 2, self._sweep)

    def close(self) -> None:
        """See transport.Listener."""
        if not self.open:
            return
        for lane in list(self.lanes.values()):
            lane.close()
        for connection in self.connections:
            self._silence.unwatch(connection)
        try:
            self.sock.unbind(self._endpoint)
            # The address is free once the monitor says so, which takes libzmq's thread well under a millisecond.
            while self.monitor.poll(_CLOSE_WAIT_MS):
                if MONITOR.unpack(self.monitor.recv_multipart()[0])[0] == zmq.EVENT_CLOSED:
                    break
        except zmq.ZMQError as exc:
            _log.info("%s was not unbound: %s", self.address, exc)
        self.shut(LINGER_MS)
