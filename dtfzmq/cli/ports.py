"""Ports that are bound before anybody is told of them."""

from __future__ import annotations

import socket
import sys


class HeldPorts:
    """Free ports of one address, held from now until `close`, that a server of this package can nevertheless bind.

    Each port is held by a socket that is bound, with SO_REUSEADDR, and never listens. On Linux the kernel then hands
    the port to nobody who asks for a free one, neither by port 0 nor for an outgoing connection, while an explicit
    bind with SO_REUSEADDR (libzmq sets it) succeeds as long as nobody listens there. So there is no moment between
    choosing a port and binding it in which another job can get it, and it stays ours while a task restarts. Other
    systems refuse the second bind, so there `release` gives the port up just before its task starts.
    """

    def __init__(self, count: int, host: str = "127.0.0.1") -> None:
        self._sockets: list[socket.socket] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            for _ in range(count):
                held = socket.socket(family, socket.SOCK_STREAM)
                self._sockets.append(held)
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.bind((host, 0))
        except OSError:
            self.close()
            raise
        self.ports: list[int] = [held.getsockname()[1] for held in self._sockets]

    def release(self, port: int) -> None:
        """Call it right before the task that will bind `port` starts. Does nothing on Linux, see above."""
        if not sys.platform.startswith("linux"):
            self._sockets[self.ports.index(port)].close()

    def close(self) -> None:
        """Let go of all ports."""
        for held in self._sockets:
            held.close()
