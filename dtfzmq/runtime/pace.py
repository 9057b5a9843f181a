"""How long one run computes before it waits again, and what is large of what it is given: its plan learns from that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfzmq.base import clock
from dtfzmq.runtime.plan import SHORT_S, SURPRISE_S, Plan

# A run that turns out longer is moved off the baton between two segments. One of a plan that is known to compute for
# longer at once does not begin there.
LIMIT_S = 2e-3
# A shape has no more numbers; of more texts, so many stand for all.
_FEW = 8


class Pace:
    """Of one run; by the thread that executes it."""

    __slots__ = ("_busy_s", "_count", "_longest_s", "_most_s", "_nbytes", "_plan", "_stretches", "large")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # Of the stretches that it computed without waiting: all together, the longest, how many.
        self._busy_s = 0.0
        self._most_s = 0.0
        self._stretches = 0
        # The longest off the baton.
        self._longest_s = 0.0
        self._nbytes = 0
        self._count = 0
        #: Some input is larger than those that the plan is known by.
        self.large = False

    def weigh(self, value: Any) -> None:
        """Look at the size of an input, and at what may be a size or a shape, before anything is computed from it."""
        nbytes = count = 0
        if type(value) is np.ndarray:
            nbytes = value.nbytes
            if value.dtype.hasobject:
                few = sum([len(text) for text in value.flat[:_FEW] if type(text) is bytes])
                nbytes += few * max(value.size, _FEW) // _FEW
            elif value.ndim == 1 and value.size <= _FEW and value.dtype.kind in "iu":
                count = math.prod([size for size in value.tolist() if size > 0])
        elif isinstance(value, np.integer):
            count = int(value)
        elif type(value) is bytes:
            nbytes = len(value)
        if nbytes > self._nbytes:
            self._nbytes = nbytes
            self.large |= nbytes > self._plan.known_bytes
        if count > self._count:
            self._count = count
            self.large |= count > self._plan.known_count

    def stretch(self, began: float, started: float, on_baton: bool) -> None:
        """A stretch is over that began at `began` by `clock.perf`, `started` by `clock.cpu`.

        Wall time counts others' turns at the interpreter, too: it would show a short plan as long.
        """
        took = clock.cpu() - started
        self._busy_s += took
        self._most_s = max(self._most_s, took)
        self._stretches += 1
        if not on_baton:
            self._longest_s = max(self._longest_s, clock.perf() - began)
        elif took > SURPRISE_S:
            self._plan.surprise(self._nbytes, self._count)

    def teach(self) -> None:
        """The run has ended well: its plan takes in how it went."""
        busy = max(self._busy_s / (self._stretches or 1), self._most_s * (SHORT_S / LIMIT_S))
        self._plan.observe(busy, self._longest_s, self._most_s, self._nbytes, self._count)
