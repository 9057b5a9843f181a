"""Large kernels over several processors: numpy lets go of the interpreter while it copies and multiplies."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import denormals, threads

_MEET_S = 200e-6


class _Helpers:
    """The threads that help, of this process. Made when a kernel first asks, and anew in a forked child."""

    def __init__(self) -> None:
        self.count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.pool: threads.Pool | None = None

    def submit(self, fn: Callable[[], None]) -> None:
        if self.pool is None:
            self.pool = threads.Pool("dtfzmq-help", idle_s=1.0)
        self.pool.submit(fn)

    def forget(self) -> None:
        self.pool = None


_helpers = _Helpers()
threads.on_fork_in_child(_helpers.forget)


def limit(count: int) -> None:
    """Let each kernel use `count` threads, its own among them: this task's share of the processors."""
    _helpers.count = max(count, 1)


class _Shared:
    """Parts of one kernel that threads take one after another."""

    def __init__(self, fn: Callable[[slice], Any], parts: list[slice]) -> None:
        self.fn = fn
        self.parts = parts
        self.results: list[Any] = [None] * len(parts)
        self.failed: list[BaseException] = []
        self.done = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._met = threading.Lock()
        self._met.acquire()
        self._taken = 0
        self._left = len(parts)

    def work(self) -> None:
        """Compute parts until none is left to take."""
        while True:
            with self._lock:
                i = self._taken
                self._taken += 1
            if i >= len(self.parts):
                return
            try:
                self.results[i] = self.fn(self.parts[i])
            except BaseException as error:
                self.failed.append(error)
            with self._lock:
                self._left -= 1
                last = not self._left
            if last:
                self.done.release()

    def meet(self) -> None:
        """Give the interpreter to the first helper, for a moment at most.

        One that wakes up to find it taken sleeps again, and numpy's calls are shorter than its waking: without this it
        comes when all is done.
        """
        self._met.acquire(timeout=_MEET_S)

    def help(self) -> None:
        """`work`, on a thread that has not set up how it computes."""
        try:
            self._met.release()
        except RuntimeError:  # another helper was first
            pass
        floats = denormals.flush()
        try:
            with np.errstate(all="ignore"):
                self.work()
        finally:
            denormals.restore(floats)


def split(size: int, work: float, fn: Callable[[slice], Any]) -> list[Any]:
    """What `fn` gives for parts that make up range(size), each on a thread; one part where `work` is little.

    `work` is in nanoseconds of one processor, roughly: below 600,000 the threads cost more than they save. The caller's
    thread takes a part and whatever no other has begun by then, so that processors which are busy with
    something else hold up nothing; all are done at the return. Raises what a part that failed raised.
    """
    count = min(_helpers.count, size, int(work // 3e5))
    if count < 2:
        return [fn(slice(0, size))]
    edges = [size * i // count for i in range(count + 1)]
    shared = _Shared(fn, [slice(a, b) for a, b in zip(edges, edges[1:])])
    for _ in range(1, count):
        _helpers.submit(shared.help)
    shared.meet()
    shared.work()
    shared.done.acquire()
    if shared.failed:
        raise shared.failed[0]
    return shared.results
