"""The poller of a process: all its ZeroMQ sockets behind one epoll, polled by whoever holds the loop's baton.

A ZeroMQ socket's descriptor tells only that something changed, once; sending on a socket may take that news away. So
every socket that was used is looked at again before the next wait.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
from typing import Protocol

from dtfzmq.base import clock
from dtfzmq.wire.inproc import Hub

_log = logging.getLogger("dtfzmq")

NONE, SOME, MORE = 0, 1, 2

# A source that met so many errors in a row is left alone for so long, then tried again.
_ERRORS = 5
_REST_S = 0.5


class Source(Protocol):
    """A socket that the poller looks after."""

    def drain(self) -> int:
        """Dispatch a bounded number of messages; NONE, SOME if there were any and no more are there, or MORE."""


class ZmqPoller:
    """See base.loop.Poller. All but `wake` is for the holder of the baton."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._sources: dict[int, Source] = {}
        self._used: dict[Source, None] = {}
        self._errors: dict[Source, int] = {}
        #: Sources that are left alone: the descriptor, and until when.
        self._resting: dict[Source, tuple[int, float]] = {}
        self.closed = False
        #: Who listens in this process, for the network.
        self.hub = Hub()
        if hasattr(os, "eventfd"):
            self._wake_out = self._wake_in = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        else:
            self._wake_in, self._wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._epoll.register(self._wake_in, select.EPOLLIN)

    def add(self, fd: int, source: Source, what: int = select.EPOLLIN) -> None:
        """Look after a socket."""
        self._sources[fd] = source
        self._epoll.register(fd, what)
        self._used[source] = None

    def remove(self, fd: int, source: Source) -> None:
        """Stop looking after a socket; before it is closed."""
        if self._sources.pop(fd, None) is not None and not self.closed:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)
        self._used.pop(source, None)
        self._errors.pop(source, None)
        self._resting.pop(source, None)

    def touch(self, source: Source) -> None:
        """A socket was sent on: what came meanwhile would not be announced."""
        self._used[source] = None

    def _drained(self, source: Source) -> int:
        """`drain`, but an error is one source's: the others are looked at all the same, and so is the rest there."""
        try:
            state = source.drain()
        except Exception:
            _log.exception("what came on a socket met an error")
            self._errors[source] = self._errors.get(source, 0) + 1
            if self._errors[source] < _ERRORS:
                return MORE
            self._rest(source)
            return NONE
        if self._errors:
            self._errors.pop(source, None)
        return state

    def _rest(self, source: Source) -> None:
        """What comes on a source is not looked at for a while: its errors would keep the loop busy."""
        for fd, found in self._sources.items():
            if found is source:
                with contextlib.suppress(OSError):  # it rests already, and was sent on
                    self._epoll.unregister(fd)
                self._resting[source] = fd, clock.now() + _REST_S

    def _wake_rested(self) -> float:
        """Look again at sources that have rested; seconds until the next one has."""
        now = clock.now()
        for source, (fd, until) in list(self._resting.items()):
            if until <= now:
                del self._resting[source]
                self._epoll.register(fd, select.EPOLLIN)
                self._used[source] = None
        return max(0.0, min((until - now for _, until in self._resting.values()), default=_REST_S))

    def poll(self, timeout: float | None) -> None:
        """See Poller."""
        if self._resting:
            wait = self._wake_rested()
            timeout = wait if timeout is None else min(timeout, wait)
        used = self._used
        if used:
            self._used = {}
            for source in used:
                state = self._drained(source)
                if state != NONE:
                    # What was dispatched may have made calls ready: the loop runs them before it waits.
                    timeout = 0.0
                    if state == MORE:
                        self._used[source] = None
            if self._used:
                timeout = 0.0
        for fd, _ in self._epoll.poll(-1 if timeout is None else timeout):
            found = self._sources.get(fd)
            if found is not None:
                if self._drained(found) == MORE:
                    self._used[found] = None
            elif fd == self._wake_in:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_in, 4096)

    def wake(self) -> None:
        """See Poller. One system call, so that a signal handler may do it."""
        if not self.closed:
            with contextlib.suppress(OSError):  # full: it wakes anyway
                os.write(self._wake_out, b"\1\0\0\0\0\0\0\0")

    def close(self) -> None:
        """See Poller."""
        if not self.closed:
            self.closed = True
            self._epoll.close()
            for fd in {self._wake_in, self._wake_out}:
                os.close(fd)
            self._sources.clear()
            self._used.clear()
            self._resting.clear()
