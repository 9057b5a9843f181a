"""Where a loop looks for what comes from outside, and how it is woken."""

from __future__ import annotations

import contextlib
import threading
from typing import Protocol


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
        # A plain lock as a binary semaphore: taking and releasing it are single steps, so that a signal handler may
        # call `wake` whatever the main thread was at (an Event would deadlock on its own lock).
        self._gate = threading.Lock()
        self._gate.acquire()

    def poll(self, timeout: float | None) -> None:
        """See Poller."""
        self._gate.acquire(True, -1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def wake(self) -> None:
        """See Poller."""
        with contextlib.suppress(RuntimeError):
            self._gate.release()

    def close(self) -> None:
        """See Poller."""
