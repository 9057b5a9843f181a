"""A TCP relay between two ends of a link."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
from collections.abc import Callable
from typing import Any

from dtfzmq.base import clock


class Relay:
    """A TCP relay that can cut what it carries, and be slow: `rate` is in bytes a second each way of a connection.

    Its sockets are closed at the end alone: a thread that is on its way into `recv` must not find another connection
    under the descriptor that it was given.
    """

    def __init__(self, port: int, rate: float = math.inf) -> None:
        self._port = port
        self._rate = rate
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._all: list[socket.socket] = []
        self._open: list[socket.socket] = []
        self._gate = threading.Event()
        self._gate.set()
        self._threads: list[threading.Thread] = []
        #: For how long nothing was carried one way at most, between two pieces.
        self.longest_pause = 0.0
        self._start(self._serve)

    def _start(self, fn: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=fn, args=args)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            with self._lock:
                self._all += [near, far]
                self._open += [near, far]
            self._start(self._carry, near, far)
            self._start(self._carry, far, near)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        last = clock.now()
        with contextlib.suppress(OSError):
            while data := source.recv(4096):
                self._gate.wait()
                if self._over.wait(len(data) / self._rate):
                    break
                target.sendall(data)
                before, last = last, clock.now()
                with self._lock:
                    self.longest_pause = max(self.longest_pause, last - before)
        self._shut(source, target)

    def _shut(self, *ends: socket.socket) -> None:
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def hold(self) -> None:
        """Keep what comes, until it is cut."""
        self._gate.clear()

    def cut(self) -> None:
        """End all connections; what is in the relay's hands is lost."""
        with self._lock:
            ends, self._open = self._open, []
        self._shut(*ends)
        self._gate.set()

    def close(self) -> None:
        """End it and its threads."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(30)
        self._listener.close()
        self._over.set()
        self.cut()
        for thread in self._threads:
            thread.join(30)
        for end in self._all:
            end.close()
