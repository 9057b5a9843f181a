"""The TCP connections of a ROUTER, by descriptor: which have said nothing yet, and how one of them is ended.

libzmq accepts connections and cannot be told to end one. So they are shut down beneath it, which it takes for their end
like any other. A descriptor may be another connection's by then: what is shut down is proven, by both of its addresses,
to be the one that was meant.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any


class Connections:
    """Connections to one port. Baton only."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._peers: dict[int, Any] = {}
        # When each was accepted, oldest first, as long as it has said nothing.
        self._mute: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def accepted(self, fd: int, now: float) -> None:
        """A connection came."""
        self._mute.pop(fd, None)
        self._peers.pop(fd, None)
        with _opened(fd) as connection:
            if connection is not None and self._is_ours(connection):
                self._peers[fd] = connection.getpeername()
                self._mute[fd] = now

    def spoke(self, fd: int) -> None:
        """A message came on it."""
        self._mute.pop(fd, None)

    def ended(self, fd: int) -> None:
        """It is no more."""
        self._peers.pop(fd, None)
        self._mute.pop(fd, None)

    def mute_since(self, moment: float) -> list[int]:
        """Those that were accepted before `moment` and have said nothing."""
        found = []
        for fd, since in self._mute.items():
            if since > moment:
                break
            found.append(fd)
        return found

    def peer(self, fd: int) -> Any:
        """The address of the other end, for `cut`; None if there is no such connection."""
        return self._peers.get(fd)

    def cut(self, fd: int, peer: Any) -> None:
        """End the connection with `peer`, if `fd` still is that."""
        if peer is None or self._peers.get(fd) != peer:
            return
        with _opened(fd) as connection:
            if connection is not None and self._is_ours(connection) and connection.getpeername() == peer:
                connection.shutdown(socket.SHUT_RDWR)

    def _is_ours(self, connection: socket.socket) -> bool:
        return connection.type == socket.SOCK_STREAM and connection.getsockname()[1] == self._port


@contextlib.contextmanager
def _opened(fd: int) -> Iterator[socket.socket | None]:
    """A socket object for `fd` while the block runs, which holds on to what `fd` is now; None if it is no socket."""
    try:
        connection = socket.socket(fileno=os.dup(fd))
    except OSError:
        yield None
        return
    with connection, contextlib.suppress(OSError):  # an end that has ended has no addresses
        yield connection
