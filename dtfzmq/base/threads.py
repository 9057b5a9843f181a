"""The one place where threads start: named daemon threads, an elastic pool, and what forks and exits leave."""

from __future__ import annotations

import atexit
import collections
import ctypes
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from dtfzmq.base import signals

_log = logging.getLogger("dtfzmq")


def start(fn: Callable[..., None], name: str, *args: Any) -> threading.Thread:
    """Start `fn(*args)` on a daemon thread called `name`; an exception that leaves it is logged, not lost."""
    thread = make(fn, name, *args)
    with signals.deferred():  # the thread could not begin if the lock that both share here were left taken
        thread.start()
    return thread


def make(fn: Callable[..., None], name: str, *args: Any) -> threading.Thread:
    """The thread of `start`, not started: for those who hand threads to the program that starts them."""

    def body() -> None:
        try:
            fn(*args)
        except Exception:
            _log.exception("thread %s ended with an error", name)

    return threading.Thread(target=body, name=name, daemon=True)


class Runner(Protocol):
    """Runs work that may take long, off the loop's baton."""

    def submit(self, fn: Callable[[], None]) -> None:
        """Run `fn` soon, on any thread that does not hold the baton."""


class Pool:
    """An elastic pool: work never queues behind work that blocks.

    A task is taken by an idle thread if there is one, otherwise by a new thread, up to `limit` of them; only above the
    limit do tasks queue. Idle threads end after `idle_s` seconds. `submit` may be called from any thread.
    """

    def __init__(self, name: str, limit: int = 256, idle_s: float = 10.0) -> None:
        self._name = name
        self._limit = limit
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._work: collections.deque[Callable[[], None]] = collections.deque()
        self._idle = 0
        self._threads = 0
        self._made = 0
        self._closed = False
        _pools.add(self)

    def submit(self, fn: Callable[[], None]) -> None:
        """Run `fn` on a thread of the pool. After `close` it is dropped: its caller is being torn down.

        Raises RuntimeError if the pool has no thread and the system gives it none.
        """
        with signals.deferred():
            self._submit(fn)

    def _submit(self, fn: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                return
            self._work.append(fn)
            if self._idle >= len(self._work):
                self._ready.notify()
                return
            if self._threads >= self._limit:
                return
            self._threads += 1
            self._made += 1
            name = f"{self._name}-{self._made}"
        try:
            start(self._serve, name)
        except RuntimeError:  # the system has no thread left
            with self._lock:
                self._threads -= 1
                # One of those that there are will take it; a pool that was closed meanwhile has dropped it.
                if self._threads or self._closed:
                    return
                self._work.remove(fn)
            raise

    def close(self) -> None:
        """Threads end when their present task does; waiting tasks are dropped. Does not wait."""
        with self._lock:
            self._closed = True
            self._work.clear()
            self._ready.notify_all()

    def statistics(self) -> dict[str, int]:
        """Threads alive, idle ones among them, tasks waiting."""
        with self._lock:
            return {"threads": self._threads, "idle": self._idle, "waiting": len(self._work)}

    @property
    def busy(self) -> bool:
        """True while a task runs or waits, also after `close`."""
        with self._lock:
            return self._threads > self._idle or bool(self._work)

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                while not self._work and not self._closed:
                    if not self._ready.wait(self._idle_s) and not self._work:
                        self._idle -= 1
                        self._threads -= 1
                        return
                self._idle -= 1
                if not self._work:
                    self._threads -= 1
                    return
                fn = self._work.popleft()
            try:
                fn()
            except BaseException:  # else the thread would end and still be counted
                _log.exception("a task of pool %s ended with an error", self._name)
            del fn  # an idle thread must not keep the last task's arrays alive


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _exit_without_waiting() -> None:
    """At the exit of the interpreter: a task that still runs is left behind, whatever it computes.

    Python does not wait for it, since its thread is a daemon. But the C library then runs the destructors of all
    libraries, and a BLAS waits in its own until its threads are idle, which in a long factorization they are not. So
    the process ends, with its exit code, before it comes to that. Does nothing where the C library lacks `on_exit`.
    """
    if any(pool.busy for pool in list(_pools)):
        libc = ctypes.CDLL(None)
        if hasattr(libc, "on_exit"):
            libc.fflush(None)
            libc.on_exit(libc._exit, None)


atexit.register(_exit_without_waiting)

_fork_hooks: list[Callable[[], None]] = []


def on_fork_in_child(hook: Callable[[], None]) -> None:
    """Call `hook` in every forked child, before anything else runs there; to drop what threads and sockets held."""
    _fork_hooks.append(hook)


def _run_fork_hooks() -> None:
    _pools.clear()  # a fork takes no threads along
    signals.deferral.forget()
    for hook in _fork_hooks:
        hook()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_run_fork_hooks)
