"""The private cluster of `Session("")`: one task of this process, without a socket, gone when the session closes."""

from __future__ import annotations

import threading
from typing import Any

from dtfzmq.base import heap, names, signals, threads
from dtfzmq.base.loop import Loop
from dtfzmq.cluster.task import Task

_loop: Loop | None = None
_guard = threading.Lock()


def _shared_loop() -> Loop:
    """The loop of all private clusters of this process, referenced once more for the caller."""
    global _loop
    with _guard:
        if _loop is None or _loop.closed:
            _loop = Loop(name="dtfzmq-private")
        _loop.add_ref()
        return _loop


def _forget() -> None:
    global _loop, _guard
    _loop = None
    _guard = threading.Lock()


threads.on_fork_in_child(_forget)


class PrivateCluster:
    """A task that no other reaches. Two of them share nothing but the thread that watches their timers."""

    def __init__(self, config: Any) -> None:
        heap.keep_freed()
        self.loop = _shared_loop()
        self.task = Task(self.loop, names.task_name("localhost", 0), "localhost", {}, config)
        self._closed = False

    def close(self) -> None:
        """End it; idempotent."""
        with signals.deferred():
            if self._closed:
                return
            self._closed = True
            with self.loop.held():
                self.task.stop()
            self.task.close()
            self.loop.release()
