"""Large kernels over several processors: numpy lets go of the interpreter while it copies and multiplies."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from dtfzmq.base import threads


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


def split(size: int, work: float, fn: Callable[[slice], Any]) -> list[Any]:
    """What `fn` gives for parts that make up range(size), each on a thread; one part where `work` is little.

    `work` is in nanoseconds of one processor, roughly: below a million the threads cost more than they save. The
    caller's thread takes the first part, and all are done at the return. Raises what the first part that failed raised.
    """
    count = min(_helpers.count, size, int(work // 5e5))
    if count < 2:
        return [fn(slice(0, size))]
    edges = [size * i // count for i in range(count + 1)]
    results: list[Any] = [None] * count
    failed: list[BaseException] = []
    done = threading.Semaphore(0)

    def run(i: int) -> None:
        try:
            results[i] = fn(slice(edges[i], edges[i + 1]))
        except BaseException as error:
            failed.append(error)
        finally:
            done.release()

    for i in range(1, count):
        _helpers.submit(lambda i=i: run(i))  # type: ignore[misc]  # the default binds the number
    run(0)
    for _ in range(count):
        done.acquire()
    if failed:
        raise failed[0]
    return results
