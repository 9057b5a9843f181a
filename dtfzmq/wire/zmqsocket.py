"""A ZeroMQ socket of a link: its options, its monitor, and how a message is taken from it.

libzmq is told not to reconnect for as long as anything lives, and not to linger; the end of a connection is an event of
the socket's monitor, and the end of the socket.
"""

from __future__ import annotations

import abc
import contextlib
import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any

import zmq

from dtfzmq.base import threads
from dtfzmq.base.loop import Loop
from dtfzmq.wire import seldom
from dtfzmq.wire.connections import counted
from dtfzmq.wire.lane import FOREIGN
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.transport import LaneEvents
from dtfzmq.wire.zmqpoll import MORE, NONE, SOME, ZmqPoller

_log = logging.getLogger("dtfzmq")

# Plain numbers: pyzmq's enumerations cost a microsecond at each use.
EVENTS_OPTION: Any = int(zmq.EVENTS)
MORE_OPTION: Any = int(zmq.RCVMORE)
READABLE = int(zmq.POLLIN)
NOW = int(zmq.NOBLOCK)
NOW_AND_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)

# A socket's own `send` asks each time for things of other kinds of sockets, and then calls this.
send: Any = zmq.backend.Socket.send

_Frame: Any = zmq.Frame

# Frames of the transport itself, told from headers by their length.
CLOSED = b""
PROBE = b"p"
# Messages that are dispatched from one socket before others have their turn.
TURN = 64
# A frame of this size may be lent to libzmq; smaller ones are copied faster.
LEND = 64 * 1024
LINGER_MS = 300
# A socket is closed long before, at the end of its connection.
NO_RECONNECT_MS = 3_600_000

# pyzmq can have no thread to wait for the end of a loan, or no socket that it tells of it.
_NO_LOAN = (RuntimeError, MemoryError, zmq.ZMQError)

_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
FAILED: dict[int, str] = {
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL: "the connection ended during ZeroMQ's handshake",
    zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL: "the other end does not speak ZeroMQ's protocol",
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: "the other end refused our key",
}
MONITOR = struct.Struct("<HI")


def send_whole(sock: Any, route: bytes | None, frames: Sequence[Any], frozen: bool) -> None:
    """Send a message of one or two frames, to `route` if there is one; a large `frozen` second one is lent to libzmq.

    Raises ZMQError if the connection is gone, perhaps with half a message sent: nothing must follow then.
    """
    data = frames[1] if len(frames) > 1 else None
    made = data is not None and len(data) >= LEND
    if made:  # before anything is sent, since there may be no memory for it
        try:
            data = _Frame(data, copy=not frozen)
        except _NO_LOAN:
            data = _Frame(data, copy=True)
    if route is not None:
        send(sock, route, NOW_AND_MORE)
    if data is None:
        send(sock, frames[0], NOW)
    else:
        send(sock, frames[0], NOW_AND_MORE)
        send(sock, data, NOW, copy=not made)


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
        # What waits for the ends of loans is begun now: later there may be too few descriptors, and libzmq aborts then.
        with contextlib.suppress(*_NO_LOAN):
            _Frame(b"\0", copy=False)
        _process.context = made
    return _process.context


def process_loop() -> Loop:
    """The loop that all endpoints of this process share, with a poller for ZeroMQ sockets; a new one after its end."""
    loop = _process.loop
    if loop is None or loop.closed:
        loop = _process.loop = Loop(ZmqPoller())
    return loop


def configure(sock: zmq.Socket[Any], settings: LinkSettings) -> None:
    """Set what must be set before bind or connect."""
    interval = max(10, int(settings.limit * 200))
    # 0 leaves it to silence.py to find the silent ones.
    longest = 0 if counted() else max(100, interval * 3 // 2)
    options = {
        zmq.LINGER: 0,
        zmq.SNDHWM: 0,
        zmq.RCVHWM: 0,
        zmq.MAXMSGSIZE: settings.max_frame,
        # Told never to reconnect, or not to queue meanwhile, libzmq drops what came before the end and is not read yet.
        zmq.IMMEDIATE: 0,
        zmq.RECONNECT_IVL: NO_RECONNECT_MS,
        zmq.CONNECT_TIMEOUT: max(1, int(settings.connect_timeout * 1000)),
        zmq.HANDSHAKE_IVL: max(1, int(settings.connect_timeout * 1000)),
        zmq.HEARTBEAT_IVL: interval,
        zmq.HEARTBEAT_TIMEOUT: longest,
        zmq.HEARTBEAT_TTL: longest,
        zmq.TCP_KEEPALIVE: 1,
        zmq.TCP_KEEPALIVE_IDLE: 30,
        zmq.TCP_KEEPALIVE_INTVL: 5,
        zmq.TCP_KEEPALIVE_CNT: 3,
    }
    for option, value in options.items():
        sock.set(option, value)


class Watched(abc.ABC):
    """A socket with its monitor, both looked after by the poller."""

    def __init__(self, poller: ZmqPoller, kind: int, settings: LinkSettings) -> None:
        self._poller = poller
        self.sock = context().socket(kind)
        try:
            configure(self.sock, settings)
            self.monitor = self.sock.get_monitor_socket(_EVENTS)
        except BaseException:
            self.sock.close(0)
            raise
        self._watch = _MonitorSource(self.monitor, self.on_event)
        self.fd: int = self.sock.get(zmq.FD)
        self._monitor_fd: int = self.monitor.get(zmq.FD)
        poller.add(self.fd, self)
        poller.add(self._monitor_fd, self._watch)
        self.open = True

    @abc.abstractmethod
    def drain(self) -> int:
        """See zmqpoll.Source."""

    def drain_all(self) -> None:
        """Dispatch all that has come: the end of a connection may be told of before what came by it was read."""
        try:
            while self.drain() == MORE:
                pass
        except Exception:  # whatever it is, the end of the lane follows
            _log.exception("what came on a socket met an error")

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
        while not self._monitor.closed and self._monitor.getsockopt(EVENTS_OPTION) & READABLE:
            event, value = MONITOR.unpack(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
            state = SOME
            self._told(event, value)
        return state


def receive(sock: zmq.Socket[Any], lane: ZmqLane, first: zmq.Frame | None = None) -> None:
    """Take the rest of a message, or what follows its `first` frame, and dispatch it; chunks go straight to places."""
    frame: Any = sock.recv(NOW, copy=False) if first is None else first
    header: Any = frame.bytes
    events = lane.events
    if not frame.more:  # a frame tells that for a third of what the socket takes
        if len(header) > 1:
            if events is not None:
                events.on_frames((header,))
        elif header == CLOSED and events is not None:
            lane.over("the other end closed it")
        return
    place = events.sink(header) if events is not None else None
    if place is not None and events is not None and lane.events is events:
        nbytes = sock.recv_into(place, flags=NOW)
        discard(sock)
        events.on_chunk(header, nbytes)
        return
    if lane.events is not events and sock.closed:
        return  # the header was no good, and the lane's own socket went with it
    data: Any = sock.recv(NOW)
    if discard(sock):
        seldom.warn(("frames", lane.address), f"closed {lane.address}: a message of too many frames came")
        lane.close()
        if events is not None:
            events.on_end(f"{FOREIGN} (a message of too many frames)")
        return
    if lane.events is events and events is not None:
        events.on_frames((header, data))


def discard(sock: zmq.Socket[Any]) -> bool:
    """Drop what is left of a message; true if there was anything."""
    found = False
    while sock.getsockopt(MORE_OPTION):
        sock.recv(NOW)
        found = True
    return found


class ZmqLane(abc.ABC):
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
