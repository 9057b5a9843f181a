"""The TCP connections beneath libzmq's sockets, by descriptor: what came on one, how it is ended, which are mute.

libzmq tells of whole messages only, and cannot be told to end a connection that it accepted. So the system is asked
what came, and connections are shut down beneath libzmq, which it takes for their end like any other. A descriptor may
be another connection's by then: what is meant is proven by both of its addresses.

All this is there too for a process that has no descriptor left: its connections live on, and those that hold the
descriptors without need must end. So the system is called by number, and no socket object is made, which would close
what is libzmq's when it goes.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any

# PyDLL: none of these calls waits, and they take less than letting go of the interpreter lock does.
_system: Any = ctypes.PyDLL(None)

# Where Linux, from 4.6 on, counts the segments with data that came: `tcpi_data_segs_in` of its `struct tcp_info`.
_CAME_AT = 152
_INFO_SIZE = 256
_COUNT = struct.Struct("=I")
# A socket's address as the system writes it: its family, then its port.
_PORT = struct.Struct("!2xH")
_ADDRESS_SIZE = 128
# Whether it does is tried for no longer, since it is tried on the baton: a loopback answers at once, or not at all.
_TRIED_S = 1.0
# What a process may lack for a while.
_LACKS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Connection:
    """One connection. Nothing here waits, or needs a descriptor."""

    __slots__ = ("_ends", "fd")

    def __init__(self, fd: int, ends: tuple[bytes, bytes]) -> None:
        self.fd = fd
        self._ends = ends

    @property
    def near_port(self) -> int:
        """Our port."""
        return int(_PORT.unpack_from(self._ends[0])[0])

    def same(self, other: Connection) -> bool:
        """Whether both are one, by its addresses."""
        return self._ends == other._ends

    def came(self) -> int:
        """How many segments with data came so far, of a message's parts too, modulo 2**32. -1 if it is no more."""
        count = _count(self.fd)
        return count if _ends(self.fd) == self._ends else -1

    def cut(self) -> None:
        """End it, if it still is.

        A descriptor of our own holds on to it meanwhile. Where there is none left, it may become another connection
        between proof and end, which is cut in its place, and made anew: that is better than to be rid of none.
        """
        try:
            own = os.dup(self.fd)
        except OSError:
            own = -1
        fd = self.fd if own < 0 else own
        try:
            if _ends(fd) == self._ends:
                _system.shutdown(fd, socket.SHUT_RDWR)
        finally:
            if own >= 0:
                os.close(own)


def find(fd: int) -> Connection | None:
    """The TCP connection that a descriptor is; None if it is none."""
    ends = _ends(fd)
    return None if ends is None or _count(fd) < 0 else Connection(fd, ends)


def counted() -> bool:
    """True if this system tells what came on a connection; tried once, on one of our own."""
    try:
        return _tried()
    except OSError:
        return False  # this time


@functools.cache
def _tried() -> bool:
    """See `counted`. Raises OSError if that is not known: another time it may be."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(_TRIED_S)
            with socket.create_connection(listener.getsockname(), _TRIED_S) as one, listener.accept()[0] as other:
                other.settimeout(_TRIED_S)
                one.sendall(b"x")
                return other.recv(1) == b"x" and _count(other.fileno()) == 1
    except OSError as exc:
        if exc.errno in _LACKS:
            raise
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

    def accepted(self, fd: int, now: float) -> Connection | None:
        """Look at a descriptor: a connection has come. Returns it, as it was if it is known already; None for none."""
        found, known = find(fd), self._all.get(fd)
        if found is not None and known is not None and found.same(known):
            return known
        self.ended(fd)
        if found is None or found.near_port != self._port:
            return None
        self._all[fd] = found
        self._mute[fd] = now
        return found

    def spoke(self, fd: int) -> None:
        """A message came on it."""
        self._mute.pop(fd, None)

    def ended(self, fd: int) -> None:
        """It is no more."""
        self._mute.pop(fd, None)
        self._all.pop(fd, None)

    def mute_since(self, moment: float) -> list[Connection]:
        """Those that were accepted before `moment` and have said nothing."""
        found = []
        for fd, since in self._mute.items():
            if since > moment:
                break
            found.append(self._all[fd])
        return found


def _count(fd: int) -> int:
    """How many segments with data came, 0 where the system does not tell; -1 if this is no TCP socket."""
    info, size = ctypes.create_string_buffer(_INFO_SIZE), ctypes.c_uint(_INFO_SIZE)
    if _system.getsockopt(fd, socket.IPPROTO_TCP, socket.TCP_INFO, info, ctypes.byref(size)):
        return -1
    return int(_COUNT.unpack_from(info, _CAME_AT)[0]) if size.value >= _CAME_AT + _COUNT.size else 0


def _ends(fd: int) -> tuple[bytes, bytes] | None:
    near, far = _address(_system.getsockname, fd), _address(_system.getpeername, fd)
    return None if near is None or far is None else (near, far)  # an end that has ended has no addresses


def _address(ask: Any, fd: int) -> bytes | None:
    room, size = ctypes.create_string_buffer(_ADDRESS_SIZE), ctypes.c_uint(_ADDRESS_SIZE)
    return None if ask(fd, room, ctypes.byref(size)) else room.raw[: size.value]
