"""Which connections are silent: those on which nothing came for half the limit, not even a part of a message.

libzmq's heartbeats, which its own thread sends and answers, let something come on each connection that lives, also
while Python holds the interpreter. Where the system tells what comes, libzmq does not judge by them: it knows of whole
messages only, so that a large one on a slow line would be silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.wire.connections import Connection, counted
from dtfzmq.wire.settings import LinkSettings


class _Sign:
    """What was last seen to have come, and when."""

    __slots__ = ("came", "since", "told")

    def __init__(self, told: Callable[[str], None], now: float) -> None:
        self.told = told
        self.came = 0
        self.since = now


class Silence:
    """Looks at connections now and then; where the system does not tell, libzmq judges. Baton only."""

    def __init__(self, loop: Any, settings: LinkSettings) -> None:
        self._loop = loop
        # The other half of the limit is for reaching the peer again.
        self._longest = settings.limit / 2
        self._pause = settings.limit / 20
        self._watched: dict[Connection, _Sign] = {}
        self._running = False

    def watch(self, connection: Connection, told: Callable[[str], None]) -> None:
        """Call ``told(reason)`` once nothing has come on `connection` for too long."""
        if connection not in self._watched and counted():
            self._watched[connection] = _Sign(told, self._loop.now())
            if not self._running:
                self._running = True
                self._loop.call_later(self._pause, self._look)

    def unwatch(self, connection: Connection | None) -> None:
        """It is no more."""
        if connection is not None:
            self._watched.pop(connection, None)

    def _look(self) -> None:
        now = self._loop.now()
        try:
            for connection, sign in list(self._watched.items()):
                if connection not in self._watched:
                    continue  # the end of one before was its end
                came = connection.came()
                if came != sign.came:
                    sign.came, sign.since = came, now
                elif now - sign.since >= self._longest:
                    del self._watched[connection]
                    sign.told(f"nothing came for {now - sign.since:.1f} s")
        finally:
            self._running = bool(self._watched)
            if self._running:
                self._loop.call_later(self._pause, self._look)
