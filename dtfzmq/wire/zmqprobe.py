"""Why nothing came of an attempt to connect: libzmq tells only that, so the system is asked by another attempt."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from typing import Any

from dtfzmq.wire.dial import REFUSED
from dtfzmq.wire.zmqpoll import NONE, SOME, ZmqPoller

# Not yet known; and what is said where nobody listens, or where by now somebody does.
_UNKNOWN = {errno.EINPROGRESS, errno.EWOULDBLOCK}
_NOBODY = {0, errno.ECONNREFUSED}


class Probe:
    """One attempt. Ends with one call of ``told(reason)``: REFUSED, or what else is in the way. Baton only.

    Nothing here waits. The call may come before `begin` returns: of its own ports a system knows at once.
    """

    def __init__(self, loop: Any, poller: ZmqPoller, told: Callable[[str], None]) -> None:
        self._loop = loop
        self._poller = poller
        self._told = told
        self._sock: socket.socket | None = None
        self._fd = -1
        self._timer: Any = None

    def begin(self, number: str, port: int, longest: float) -> None:
        """Try to connect; what is not known after `longest` seconds stays so."""
        try:
            family, kind, _, _, address = socket.getaddrinfo(
                number, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )[0]
            sock = self._sock = socket.socket(family, kind)
            sock.setblocking(False)
            code = sock.connect_ex(address)
        except OSError as error:
            self._end(f"no connection can be made: {error.strerror}")
            return
        if code not in _UNKNOWN:
            self._answered(code)
            return
        self._fd = sock.fileno()
        self._timer = self._loop.call_later(longest, self._late, longest)
        self._poller.add(self._fd, self)

    def _late(self, seconds: float) -> None:
        if self.drain() == NONE:
            self._end(f"no connection came about, and no answer within {seconds:g} s")

    def drain(self) -> int:
        """See zmqpoll.Source: an attempt that failed is readable, and so is one that met somebody who speaks."""
        sock = self._sock
        if sock is None:
            return NONE
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == 0:
            try:
                sock.getpeername()
            except OSError:
                return NONE
        self._answered(code)
        return SOME

    def _answered(self, code: int) -> None:
        self._end(REFUSED if code in _NOBODY else f"it cannot be reached from here: {os.strerror(code)}")

    def _end(self, reason: str) -> None:
        self.close()
        self._told(reason)

    def close(self) -> None:
        """Give it up; nothing is told."""
        sock, self._sock = self._sock, None
        if self._timer is not None:
            self._timer.cancel()
        if sock is not None:
            if self._fd >= 0:
                self._poller.remove(self._fd, self)
            sock.close()
