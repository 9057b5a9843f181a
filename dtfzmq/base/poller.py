"""Where a loop looks for what comes from outside, and how it is woken."""

from __future__ import annotations

from typing import Protocol

from dtfzmq.base.gate import Gate


class Poller(Protocol):
    """Where a loop looks for what comes from outside."""

    def poll(self, timeout: float | None) -> None:
        """Wait at most `timeout` seconds (None: for ever) for events or a wake, and dispatch them. Holder only."""

    def wake(self) -> None:
        """End a poll that runs or the next one. Any thread; safe in a signal handler."""

    def close(self) -> None:
        """Give back descriptors. Called once, by the last holder."""


class IdlePoller:
    """The poller of a loop without sockets: it only waits to be woken."""

    def __init__(self) -> None:
        self._gate = Gate()

    def poll(self, timeout: float | None) -> None:
        """See Poller."""
        self._gate.wait(timeout)

    def wake(self) -> None:
        """See Poller."""
        self._gate.open()

    def close(self) -> None:
        """See Poller."""
