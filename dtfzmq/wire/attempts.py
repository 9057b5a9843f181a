"""Lanes that ended one after the other, and nothing of what was to go by them got through: there is an end to that.

A network can let hellos pass and not what follows them: large packets are lost on the way, a box between the two ends
each connection that carries more than it likes.
"""

from __future__ import annotations

from typing import Any

from dtfzmq.wire.settings import LinkSettings

# So many in a row, and for as long as the limit, are enough.
_MOST = 4


class Attempts:
    """Counts such lanes of one kind. Baton only."""

    __slots__ = ("_count", "_got", "_loop", "_settings", "_since")

    def __init__(self, loop: Any, settings: LinkSettings) -> None:
        self._loop = loop
        self._settings = settings
        self._count = 0
        self._since = 0.0
        self._got = 0

    def ended(self, got: int, waiting: bool) -> None:
        """A lane ended. `got`: how much got through since there is a link; `waiting`: more was to go by the lane."""
        if not waiting or got != self._got:
            self._count = 0
            self._got = got
            return
        if self._count == 0:
            self._since = self._loop.now()
        self._count += 1

    @property
    def pause(self) -> float:
        """How long to wait before the next one."""
        settings = self._settings
        longest = min(settings.max_backoff, settings.limit / 8)
        return min(longest, settings.backoff * 2.0**self._count) if self._count > 1 else 0.0

    @property
    def vain(self) -> int:
        """How many there were in a row, once the next one is not worth while; 0 before."""
        enough = self._count >= _MOST and self._loop.now() - self._since >= self._settings.limit
        return self._count if enough else 0
