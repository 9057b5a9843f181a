"""A queue of tokens for workers that keep in step: the loss of one is told to those who would wait for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.base import errors
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.queues import Cancellable, Done, Element, FIFOQueue


class TokenQueue(FIFOQueue):
    """A FIFO queue that knows, by the tasks of the steps' masters, who takes tokens and who gives them out.

    When a process is lost (`lost`) so that fewer than `members` takers are left, or nobody who gives tokens out, every
    waiting dequeue fails as UnavailableError naming it; so does a later one that would have to wait, until the lost
    one is back. With backups (`members` below the number of workers) the others carry on. Any thread.
    """

    kind = "TokenQueue"

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

    def enqueue_many(self, ctx: Cancellable, components: Element, done: Done) -> None:
        """See FIFOQueue; the step's master gives tokens out."""
        self._note(ctx, self._givers, self._lost_givers)
        super().enqueue_many(ctx, components, done)

    def dequeue(self, ctx: Cancellable, done: Done) -> None:
        """See FIFOQueue; the step's master takes tokens."""
        self._note(ctx, self._takers, self._lost_takers)
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
                text = f"{self.kind} '{self.name}': {trouble}. Start it again, or go on with fewer workers."
                self._end(attempt, calls, errors.UnavailableError(None, None, text))
        for fn in calls:
            fn()
