"""A loop on a virtual clock, and the views of it that simulated processes have: all cores in one thread, by seed."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from dtfzmq.base.loop import Timer


class Waited(AssertionError):
    """Core code waited on the I/O thread."""


class SimLoop:
    """Calls in order of their time, then of their making. Time passes only from call to call."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._order = itertools.count()
        self._calls: list[tuple[float, int, Timer]] = []
        self.turns = 0

    def now(self) -> float:
        """Virtual seconds."""
        return self._now

    def call_soon(self, fn: Callable[..., None], *args: Any) -> None:
        """Run `fn` after what is due now."""
        self.call_at(self._now, fn, *args)

    def call_later(self, delay: float, fn: Callable[..., None], *args: Any) -> Timer:
        """Run `fn` in `delay` virtual seconds."""
        return self.call_at(self._now + delay, fn, *args)

    def call_at(self, when: float, fn: Callable[..., None], *args: Any) -> Timer:
        """Run `fn` at `when`."""
        timer = Timer(when, fn, args)
        heapq.heappush(self._calls, (max(when, self._now), next(self._order), timer))
        return timer

    def run(self, seconds: float = 60.0, until: Callable[[], bool] | None = None) -> bool:
        """Run what is due within `seconds`, or until `until()` holds; returns whether it does. Nothing may wait."""
        end = self._now + seconds
        with no_waiting():
            while not (until is not None and until()):
                while self._calls and self._calls[0][2].fn is None:
                    heapq.heappop(self._calls)
                if not self._calls or self._calls[0][0] > end:
                    self._now = end
                    return until is not None and until()
                when, _, timer = heapq.heappop(self._calls)
                self._now = when
                fn = timer.fn
                self.turns += 1
                if fn is not None:
                    timer.fn = None
                    fn(*timer.args)
        return True


class HostLoop:
    """What one simulated process sees of a loop: nothing runs while it is stopped, and never again once it is dead."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.dead = False
        self.stopped = False
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def now(self) -> float:
        """Virtual seconds."""
        return self._loop.now()

    def call_soon(self, fn: Callable[..., None], *args: Any) -> None:
        """Run `fn` after what is due now."""
        self._loop.call_soon(self._run, fn, args)

    def call_later(self, delay: float, fn: Callable[..., None], *args: Any) -> Timer:
        """Run `fn` in `delay` virtual seconds."""
        return self.call_at(self.now() + delay, fn, *args)

    def call_at(self, when: float, fn: Callable[..., None], *args: Any) -> Timer:
        """Run `fn` at `when`."""
        timer = Timer(when, fn, args)
        self._loop.call_at(when, self._run_timer, timer)
        return timer

    def kill(self) -> None:
        """The process is gone."""
        self.dead = True
        self._held.clear()

    def stop(self) -> None:
        """The process is stopped (SIGSTOP)."""
        self.stopped = True

    def resume(self) -> None:
        """It goes on with what is due."""
        self.stopped = False
        held, self._held = self._held, []
        for fn, args in held:
            self._loop.call_soon(self._run, fn, args)

    def _run_timer(self, timer: Timer) -> None:
        fn = timer.fn
        if fn is not None:
            if self.stopped:
                self._held.append((self._run_timer, (timer,)))
            elif not self.dead:
                timer.fn = None
                fn(*timer.args)

    def _run(self, fn: Callable[..., None], args: tuple[Any, ...]) -> None:
        if self.stopped:
            self._held.append((fn, args))
        elif not self.dead:
            fn(*args)


_BLOCKING = (
    (time, "sleep"),
    (threading.Event, "wait"),
    (threading.Condition, "wait"),
    (threading.Thread, "join"),
    (select, "select"),
    (select, "poll"),
    (select, "epoll"),
    (socket, "getaddrinfo"),
    (socket, "create_connection"),
)


@contextlib.contextmanager
def no_waiting() -> Iterator[None]:
    """Inside, everything that could make a thread wait raises Waited."""

    def refuse(name: str) -> Callable[..., Any]:
        def wait(*args: Any, **kwargs: Any) -> Any:
            raise Waited(f"{name} was called on the I/O thread")

        return wait

    kept = [(owner, name, getattr(owner, name)) for owner, name in _BLOCKING]
    for owner, name, _ in kept:
        setattr(owner, name, refuse(name))
    try:
        yield
    finally:
        for owner, name, was in kept:
            setattr(owner, name, was)
