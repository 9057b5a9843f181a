"""A second thread that comes in the middle of what a first one does, and the locks that are to keep it out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_LONGEST_S = 30.0


class Rival:
    """Runs `fn` in a thread of its own, which `come` starts, wherever the first thread calls it."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        self._fn = fn
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._settled = threading.Event()  # it is over, or must wait for a watched lock
        self._result: Any = None

    def _run(self) -> None:
        try:
            self._result = self._fn()
        except Exception as error:
            self._result = error
        finally:
            self._settled.set()

    def come(self) -> None:
        """Start it, the first time, and wait until it is over or must wait for a watched lock."""
        if self._thread.ident is None:
            self._thread.start()
            assert self._settled.wait(_LONGEST_S)

    def result(self) -> Any:
        """What `fn` gave or raised."""
        self._thread.join(_LONGEST_S)
        assert not self._thread.is_alive()
        return self._result

    def watched(self, lock: Any) -> Any:
        """The lock, which tells when this thread must wait for it."""
        return _Watched(lock, self)

    def waits(self) -> None:
        """The current thread must wait for a watched lock."""
        if threading.current_thread() is self._thread:
            self._settled.set()


class _Watched:
    def __init__(self, lock: Any, rival: Rival) -> None:
        self._lock = lock
        self._rival = rival

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._rival.waits()
            self._lock.acquire()

    def __exit__(self, *exc: Any) -> None:
        self._lock.release()
