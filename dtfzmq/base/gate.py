"""What a thread waits at that a handler of a signal may strike, or open."""

from __future__ import annotations

import threading


class Gate:
    """One thread waits, others open; an opening lets one wait through, now or later.

    A plain lock: taking and releasing it are single steps. An Event has a lock of its own, which stays taken, and holds
    up whoever sets it, if a handler raises between two of its steps, and holds up a handler that sets it amid a wait.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Any thread, also amid a handler. Twice before a wait is once."""
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:  # another thread was first
                pass

    def wait(self, timeout: float | None) -> bool:
        """Wait at most `timeout` seconds (None: for ever); False if nobody opened."""
        return self._lock.acquire(True, -1 if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def shut(self) -> None:
        """Forget an opening that let nobody through."""
        self._lock.acquire(False)
