"""Why nothing came of an attempt to connect: libzmq tells only that, so the system is asked by another attempt.

It begins as libzmq would, so that whoever waits for the first word answers as it answered before.
"""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Callable
from typing import Any

from dtfzmq.wire.dial import MUTE, REFUSED
from dtfzmq.wire.lane import FOREIGN
from dtfzmq.wire.zmqpoll import NONE, SOME, ZmqPoller

# Not yet known.
_UNKNOWN = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}
_ENDED = {errno.ECONNRESET, errno.EPIPE}
#: ZeroMQ answered this attempt.
ANSWERS = "nothing came of the connection, and somebody answers there now"
# What each end of a ZeroMQ connection says before it has heard anything.
_SIGNATURE = b"\xff\0\0\0\0\0\0\0\1\x7f"


class Probe:
    """One attempt. Ends with one call of ``told(reason, met)``. Baton only.

    `reason`: REFUSED, ANSWERS, or what else is in the way; `met`: somebody is there. Nothing here waits. The call may
    come before `begin` returns: of its own ports a system knows at once.
    """

    def __init__(self, loop: Any, poller: ZmqPoller, told: Callable[[str, bool], None]) -> None:
        self._loop = loop
        self._poller = poller
        self._told = told
        self._sock: socket.socket | None = None
        self._fd = -1
        self._connected = False
        self._timer: Any = None

    def begin(self, number: str, port: int, longest: float) -> None:
        """Try to connect, and to be answered; what is not known after `longest` seconds stays so."""
        try:
            family, kind, _, _, address = socket.getaddrinfo(
                number, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )[0]
            sock = self._sock = socket.socket(family, kind)
            sock.setblocking(False)
            code = sock.connect_ex(address)
        except OSError as error:
            self._end(f"no connection can be made: {error.strerror}", False)
            return
        if code not in _UNKNOWN:
            self._failed(code)
            return
        self._fd = sock.fileno()
        self._timer = self._loop.call_later(longest, self._late, longest)
        self._poller.add(self._fd, self, select.EPOLLOUT)

    def _late(self, seconds: float) -> None:
        if self.drain() == NONE:
            if self._connected:
                self._end(f"{MUTE} for {seconds:.1f} s", True)
            else:
                self._end(f"no connection came about, and no answer within {seconds:g} s", False)

    def drain(self) -> int:
        """See zmqpoll.Source."""
        sock = self._sock
        if sock is None:
            return NONE
        try:
            if not self._connected:
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    self._failed(code)
                    return SOME
                try:
                    sock.getpeername()
                except OSError:
                    return NONE
                sock.send(_SIGNATURE)
                self._connected = True
                self._poller.remove(self._fd, self)
                self._poller.add(self._fd, self)
            first = sock.recv(1)
        except BlockingIOError:
            return NONE
        except OSError as error:
            self._failed(error.errno or 0)
        else:
            if first and first != _SIGNATURE[:1]:
                self._end(f"{FOREIGN} (it does not speak ZeroMQ)", True)
            elif first:
                self._end(ANSWERS, True)
            else:
                self._failed(errno.ECONNRESET)
        return SOME

    def _failed(self, code: int) -> None:
        if code == errno.ECONNREFUSED:
            self._end(REFUSED, False)
        elif code in _ENDED:
            self._end("it accepted the connection and ended it", True)
        else:
            self._end(f"it cannot be reached from here: {os.strerror(code)}", False)

    def _end(self, reason: str, met: bool) -> None:
        self.close()
        self._told(reason, met)

    def close(self) -> None:
        """Give it up; nothing is told."""
        sock, self._sock = self._sock, None
        if self._timer is not None:
            self._timer.cancel()
        if sock is not None:
            if self._fd >= 0:
                self._poller.remove(self._fd, self)
            sock.close()
