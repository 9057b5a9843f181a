"""A queue of tokens for workers that keep in step: the loss of one is told to those who would wait for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.base import errors
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.queues import Cancellable, Done, Element, FIFOQueue

_log = logging.getLogger("dtfzmq")


class TokenQueue(FIFOQueue):
    """A FIFO queue that knows, by the tasks of the steps' masters, who takes tokens and who gives them out.

    When a process is lost (`lost`) so that fewer than `members` takers are left, or nobody who gives tokens out, every
    waiting dequeue fails as UnavailableError naming it; so does a later one that would have to wait, until the lost
    one is back. With backups (`members` below the number of workers) the others carry on. Where somebody waits and no
    token was given out for `slow_s` seconds, one warning says who waits and who does not. Any thread.
    """

    kind = "TokenQueue"
    slow_s = 30.0

    def __init__(
        self,
        name: str,
        capacity: int,
        dtypes: Sequence[DType],
        shapes: Sequence[TensorShape | None] = (),
        members: int = 0,
    ) -> None:
        super().__init__(name, capacity, dtypes, shapes)
        self.members = members
        self._takers: set[str] = set()
        self._givers: set[str] = set()
        # Lost since they last took part, with the reason.
        self._lost_takers: dict[str, str] = {}
        self._lost_givers: dict[str, str] = {}
        # When tokens were given out last (before the first: asked for), and whether a look at that is to come.
        self._given: float | None = None
        self._looks = False
        self._warned = False

    def regroup(self, members: int) -> None:
        """A program asks for a group of `members`. In one of another size those lost before are not missed."""
        with self._lock:
            if members != self.members:
                self.members = members
                self._lost_takers.clear()

    def enqueue_many(self, ctx: Cancellable, components: Element, done: Done) -> None:
        """See FIFOQueue; the step's master gives tokens out."""
        self._note(ctx, self._givers, self._lost_givers)
        loop = getattr(ctx, "loop", None)
        if loop is not None:
            self._given, self._warned = loop.now(), False
        super().enqueue_many(ctx, components, done)

    def dequeue(self, ctx: Cancellable, done: Done) -> None:
        """See FIFOQueue; the step's master takes tokens."""
        self._note(ctx, self._takers, self._lost_takers)
        loop = getattr(ctx, "loop", None)
        if loop is not None and not self._looks:
            self._looks = True
            if self._given is None:
                self._given = loop.now()
            loop.call_soon(loop.call_later, self.slow_s, self._look, loop)
        super().dequeue(ctx, done)
        self._fail_waiting()

    def lost(self, member: str, reason: str) -> None:
        """The process of a task is gone."""
        with self._lock:
            for alive, gone in ((self._takers, self._lost_takers), (self._givers, self._lost_givers)):
                if member in alive:
                    alive.discard(member)
                    gone[member] = reason
        self._fail_waiting()

    def _look(self, loop: Any) -> None:
        """Warn if somebody waits for long; look again while somebody waits. On the baton."""
        with self._lock:
            waiting = {str(getattr(attempt.ctx, "member", "")) for attempt in self._dequeues}
            self._looks = bool(waiting)
            if not waiting:
                return
            since = loop.now() - (self._given or 0.0)
            warns = since >= self.slow_s and not self._warned
            self._warned = self._warned or warns
            takers = set(self._takers)
        loop.call_later(self.slow_s, self._look, loop)
        if warns:
            _log.warning("%s '%s': no token for %.0f s. Waiting: %s; %s.", self.kind, self.name, since,
                         ", ".join(sorted(waiting)), self._missing(takers, waiting))  # fmt: skip

    def _missing(self, takers: set[str], waiting: set[str]) -> str:
        """What those who wait may wait for."""
        found = []
        if len(takers) < self.members:
            found.append(f"only {len(takers)} of the {self.members} workers that a step needs have come so far")
        absent = sorted(takers - waiting)
        if absent:
            found.append(f"not waiting, so still at their gradients or gone: {', '.join(absent)}")
        return "; ".join(found) or "all workers wait, but the task that applies their gradients gives no tokens out"

    def _note(self, ctx: Any, alive: set[str], gone: dict[str, str]) -> None:
        member = getattr(ctx, "member", "")
        if member:
            with self._lock:
                alive.add(member)
                gone.pop(member, None)

    def _trouble(self) -> str:
        """Why no token will come; "" if one may."""
        if self._lost_givers and not self._givers:
            member, reason = next(iter(self._lost_givers.items()))
            return f"nobody is left who gives tokens out: {member} was lost ({reason})"
        if self._lost_takers and len(self._takers) < self.members:
            member, reason = next(iter(self._lost_takers.items()))
            return (
                f"a step needs gradients of {self.members} workers and {len(self._takers)} are left: {member} was lost "
                f"({reason})"
            )
        return ""

    def _fail_waiting(self) -> None:
        calls: list[Callable[[], None]] = []
        with self._lock:
            trouble = self._trouble()
            while trouble and self._dequeues:
                attempt = self._dequeues.popleft()
                self._put_back(attempt.elements)
                text = f"{self.kind} '{self.name}': {trouble}. Start it again, or go on with fewer workers."
                self._end(attempt, calls, errors.UnavailableError(None, None, text))
        for fn in calls:
            fn()
