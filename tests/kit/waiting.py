"""Waiting for a condition, with a deadline; tests never sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(predicate: Callable[[], T], deadline: float = 10.0, what: str = "") -> T:
    """Call `predicate` until it returns something true, and return that. Fails the test after `deadline` seconds."""
    end = time.monotonic() + deadline
    pause = 0.001
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            name = what or getattr(predicate, "__name__", "a condition")
            raise AssertionError(f"{name} did not hold within {deadline} s")
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
