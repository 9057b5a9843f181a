"""The one place where time is read. Everything else is handed a loop or calls these."""

from __future__ import annotations

import time


def now() -> float:
    """Monotonic seconds since an arbitrary moment; any thread."""
    return time.monotonic()


def wall() -> float:
    """Seconds since the epoch, for people and files; may jump."""
    return time.time()


def perf() -> float:
    """Seconds of the finest monotonic clock, for measuring short spans."""
    return time.perf_counter()


def cpu() -> float:
    """Seconds of processor time that this thread has used: not inflated by other threads, costs a system call."""
    return time.thread_time()


def sleep(seconds: float) -> None:
    """Pause this thread; for command-line programs that wait for people or processes, never for the runtime."""
    time.sleep(seconds)
