"""Event files: records of events, and the names of such files."""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from dtfzmq.base import clock, signals, threads
from dtfzmq.base.tfrecords import framed, records
from dtfzmq.summary.messages import Event

_VERSION = "brain.Event:2"
# So much waits in memory at most.
_MOST_PENDING = 1 << 20


def summary_iterator(path: Any) -> Iterator[Event]:
    """The events in a file, in order. For its errors see `records`; DecodeError if it holds something else."""
    for data in records(os.fspath(path)):
        yield Event.FromString(data)


class EventFile:
    """One event file in the making; any thread.

    Events wait in memory until `flush`, until `flush_secs` have passed since the last time, or until there is much of
    them, and are written by the thread that comes then: what the system says of it is an OSError there, and nothing
    is lost, for the next one writes what is left. The file is closed when the process ends, at the latest. A process
    that was forked has nothing of it: neither the file nor what waits.
    """

    def __init__(self, folder: str, suffix: str, flush_secs: float) -> None:
        os.makedirs(folder, exist_ok=True)
        self._flush_secs = flush_secs
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._path, self._descriptor, began = _created(folder, suffix)
        _files.add(self)
        self._next = 0.0
        try:
            self.add(Event(wall_time=float(began), file_version=_VERSION))
            self._next = 0.0  # the first event of the program's own is written at once
        except BaseException:
            self._discard()
            raise

    @property
    def ours(self) -> bool:
        """Whether the file is open, and of this process."""
        return self._descriptor >= 0

    def add(self, event: Event) -> None:
        """Put an event in the file, now or later."""
        record = framed(event.SerializeToString())
        with signals.deferred(), self._lock:
            if self._descriptor < 0:
                return
            self._waiting += record
            if clock.now() >= self._next or len(self._waiting) >= _MOST_PENDING:
                self._write()

    def flush(self) -> None:
        """Everything is in the file."""
        with signals.deferred(), self._lock:
            if self._descriptor >= 0:
                self._write()

    def _write(self) -> None:
        while self._waiting:
            del self._waiting[: os.write(self._descriptor, self._waiting)]
        self._next = clock.now() + self._flush_secs

    def close(self) -> None:
        """Everything is in the file, which is closed also where that fails."""
        with signals.deferred(), self._lock:
            if self._descriptor >= 0:
                try:
                    self._write()
                finally:
                    self._discard()

    def _discard(self) -> None:
        """Close the file as it is."""
        descriptor, self._descriptor = self._descriptor, -1
        self._waiting.clear()
        if descriptor >= 0:
            os.close(descriptor)

    def forked(self) -> None:
        """In a forked child: the parent writes what waits."""
        self._lock = threading.Lock()
        self._discard()


def _created(folder: str, suffix: str) -> tuple[str, int, int]:
    """(path, descriptor, seconds in its name) of a new file, whose name nothing has: of the first free second."""
    second = int(clock.wall())
    while True:
        path = os.path.join(folder, f"events.out.tfevents.{second:010d}.{socket.gethostname()}{suffix}")
        try:
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666), second
        except FileExistsError:
            second += 1


_files: weakref.WeakSet[EventFile] = weakref.WeakSet()


def _fork() -> None:
    for file in list(_files):
        file.forked()


threads.on_fork_in_child(_fork)
