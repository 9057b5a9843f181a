"""The TCP connections beneath libzmq's sockets, by descriptor: what came on one, how it is ended, which are mute.

libzmq tells of whole messages only, and cannot be told to end a connection that it accepted. So the system is asked
what came, and connections are shut down beneath libzmq, which it takes for their end like any other. A descriptor may
be another connection's by then: what is meant is proven by both of its addresses.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any

# Where Linux, from 4.6 on, counts the segments with data that came: `tcpi_data_segs_in` of its `struct tcp_info`.
_CAME_AT = 152
_INFO_SIZE = 256
_COUNT = struct.Struct("=I")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
# Whether it does is tried for no longer, since it is tried on the baton: a loopback answers at once, or not at all.
_TRIED_S = 1.0


class Connection:
    """One connection. Nothing here waits."""

    __slots__ = ("_ends", "fd")

    def __init__(self, fd: int, ends: tuple[Any, Any]) -> None:
        self.fd = fd
        self._ends = ends

    @property
    def near_port(self) -> int:
        """Our port."""
        return int(self._ends[0][1])

    def came(self) -> int:
        """How many segments with data came so far, of a message's parts too, modulo 2**32. -1 if it is no more."""
        with self._opened() as own:
            if own is not None:
                return _count(own)
        return -1

    def cut(self) -> None:
        """End it, if it still is."""
        with self._opened() as own:
            if own is not None:
                own.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[socket.socket | None]:
        with _opened(self.fd) as own:
            yield own if own is not None and _ends(own) == self._ends else None


def find(fd: int) -> Connection | None:
    """The TCP connection that a descriptor is; None if it is none."""
    with _opened(fd) as own:
        ends = None if own is None or own.family not in _FAMILIES or own.type != socket.SOCK_STREAM else _ends(own)
    return None if ends is None else Connection(fd, ends)


@functools.cache
def counted() -> bool:
    """True if this system tells what came on a connection; tried once, on one of our own."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(_TRIED_S)
            with socket.create_connection(listener.getsockname(), _TRIED_S) as one, listener.accept()[0] as other:
                other.settimeout(_TRIED_S)
                one.sendall(b"x")
                return other.recv(1) == b"x" and _count(other) == 1
    except OSError:
        return False


class Connections:
    """Connections to one port, and which of them have said nothing yet. Baton only."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._all: dict[int, Connection] = {}
        # When each was accepted, oldest first, as long as it has said nothing.
        self._mute: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._all.values())

    def get(self, fd: int) -> Connection | None:
        """The connection of a descriptor, if there is one."""
        return self._all.get(fd)

    def accepted(self, fd: int, now: float) -> None:
        """A connection came."""
        self.ended(fd)
        found = find(fd)
        if found is not None and found.near_port == self._port:
            self._all[fd] = found
            self._mute[fd] = now

    def spoke(self, fd: int) -> None:
        """A message came on it."""
        self._mute.pop(fd, None)

    def ended(self, fd: int) -> Connection | None:
        """It is no more. Returns what was known of it."""
        self._mute.pop(fd, None)
        return self._all.pop(fd, None)

    def mute_since(self, moment: float) -> list[Connection]:
        """Those that were accepted before `moment` and have said nothing."""
        found = []
        for fd, since in self._mute.items():
            if since > moment:
                break
            found.append(self._all[fd])
        return found


def _count(own: socket.socket) -> int:
    info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_SIZE)
    return int(_COUNT.unpack_from(info, _CAME_AT)[0]) if len(info) >= _CAME_AT + _COUNT.size else 0


def _ends(own: socket.socket) -> tuple[Any, Any] | None:
    try:
        return own.getsockname(), own.getpeername()
    except OSError:  # an end that has ended has no addresses
        return None


@contextlib.contextmanager
def _opened(fd: int) -> Iterator[socket.socket | None]:
    """A socket object for `fd` while the block runs, which holds on to what `fd` is now; None if it is no socket."""
    try:
        own = socket.socket(fileno=os.dup(fd))
    except OSError:
        yield None
        return
    with own, contextlib.suppress(OSError):
        yield own
