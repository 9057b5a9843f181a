"""This process as a client: one endpoint for all its sessions with servers of other processes."""

from __future__ import annotations

import atexit
import os
import random
import socket
import threading
from typing import Any

from dtfzmq.base import signals, threads
from dtfzmq.base.loop import Loop
from dtfzmq.client.connection import Left, LinkConnection
from dtfzmq.cluster import resolvers
from dtfzmq.wire.endpoint import Endpoint, Quiet
from dtfzmq.wire.hello import Who
from dtfzmq.wire.net import Network, process_loop

# The end of a process waits no longer than this until its servers were told.
_EXIT_S = 1.0


class _Client:
    """The endpoint with the number of connections that use it."""

    def __init__(self) -> None:
        self.users = 0
        self.loop: Loop = process_loop()
        self.loop.add_ref()
        me = Who("", random.SystemRandom().getrandbits(63) | 1, os.getpid(), socket.gethostname())
        settings = resolvers.link_settings()
        with self.loop.held():
            self.endpoint = Endpoint(self.loop, Network(self.loop, settings), me, Quiet(), settings)

    def close(self) -> None:
        with self.loop.held():
            self.endpoint.close("the client left")
        self.loop.release()

    def leave_quietly(self) -> None:
        """At the exit of the interpreter: servers hear that it leaves, and daemon threads amid a run nothing.

        The loop does it, and nothing here takes the baton: the process ends whatever that is at.
        """
        gone = threading.Event()

        def leave() -> None:
            self.endpoint.close("the client left", quietly=True)
            gone.set()

        self.loop.hold_daemons()
        self.loop.call_soon(leave)
        gone.wait(_EXIT_S)


_client: _Client | None = None
_guard = threading.Lock()


def _forget() -> None:
    global _client, _guard
    _client = None
    _guard = threading.Lock()


threads.on_fork_in_child(_forget)


def _leave_at_exit() -> None:
    if _client is not None:
        _client.leave_quietly()


atexit.register(_leave_at_exit)


def connect(address: str) -> LinkConnection:
    """A connection to the server at "host:port". Nothing is sent before it is used."""
    global _client
    with signals.deferred(), _guard:
        if _client is None or _client.loop.closed:
            _client = _Client()
        client = _client
        client.users += 1
    gone: list[bool] = []

    def close() -> None:
        global _client
        with signals.deferred():
            if gone:
                return
            gone.append(True)
            with _guard:
                client.users -= 1
                last = client.users == 0
                if last and _client is client:
                    _client = None
            if last:
                client.close()

    def link() -> Any:
        if client.endpoint.closed:
            raise Left(f"The server at {address} is out of reach: this process ends, or its last session was closed.")
        return client.endpoint.link("", [address])

    return LinkConnection(client.loop, link, close)
