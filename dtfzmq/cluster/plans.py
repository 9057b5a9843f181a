"""The plans of one session at its master: found by number or signature, kept while they are used, given up in the end.

A program that never runs the same twice would fill the memory of its master and of every worker otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from dtfzmq.base import errors
from dtfzmq.cluster.fed import FedTensor
from dtfzmq.wire import messages as m

Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
Waiter = Callable[["StepPlan | None", "errors.OpError | None"], None]

# Plans are kept up to so many, if the session's configuration does not say.
SIGNATURES = 1000
# Above so many they are kept only while they take no more bytes than this on all tasks together.
FEW = 32
BYTES = 1 << 30
# What a node takes at a worker, about: itself, its kernel, its instruction.
NODE_BYTES = 2048


@dataclasses.dataclass(frozen=True)
class PlanPart:
    """The share of one task in a signature: where it is, and which feeds and fetches of the signature it has."""

    task: str
    peer: Any
    handle: str
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
    local: bool


class StepPlan:
    """A signature that is registered on every task that it needs, or on its way there."""

    __slots__ = (
        "feeds",
        "fetches",
        "job",
        "number",
        "partial",
        "parts",
        "signature",
        "size",
        "steps",
        "tasks",
        "used",
        "waiters",
    )

    def __init__(self, signature: Signature, partial: bool = False) -> None:
        self.signature = signature
        #: Whether feeds and fetches go through the rendezvous, for a partial run.
        self.partial = partial
        self.fetches = len(signature[1])
        #: What is fed, in the order of the signature; there once it is pruned.
        self.feeds: tuple[FedTensor, ...] = ()
        #: Empty until it is registered.
        self.parts: tuple[PlanPart, ...] = ()
        self.tasks: frozenset[str] = frozenset()
        #: Runs that wait for it; None once it is ready.
        self.waiters: list[Waiter] | None = []
        #: The planning.Planning that makes it; None once it is ready.
        self.job: Any = None
        #: What the client calls it.
        self.number = -1
        #: Bytes that it takes on all tasks, about.
        self.size = 0
        #: Steps of it under way, and who is about to begin one. Only without any its parts may go: what starts a step
        #: may reach a worker after what comes later, if feeds go with it.
        self.steps = 0
        #: When its last step began, as a count of steps.
        self.used = 0


class Plans:
    """The plans of the session `handle`, at most `limit` of those that do nothing. All methods: on the baton."""

    def __init__(self, handle: str, limit: int) -> None:
        """`limit` 0: the usual one."""
        self._handle = handle
        self._limit = limit if limit > 0 else SIGNATURES
        self._most = self._limit
        self._plans: dict[tuple[bool, Signature], StepPlan] = {}
        self._used = 0
        #: Plans that were run by the client's number for them.
        self.calls: dict[int, StepPlan] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def find(self, signature: Signature, partial: bool) -> StepPlan | None:
        """The plan of a signature, ready or not."""
        return self._plans.get((partial, signature))

    def add(self, plan: StepPlan) -> None:
        """Take in a plan that is to be made."""
        self._plans[plan.partial, plan.signature] = plan

    def call(self, number: int, plan: StepPlan) -> None:
        """The client calls `plan` by `number` from now on."""
        if plan.number != number:
            self._uncall(plan)
            plan.number = number
        self.calls[number] = plan

    def begin(self, plan: StepPlan) -> None:
        """A step of it begins, or is about to."""
        self._used += 1
        plan.used = self._used
        plan.steps += 1

    def end(self, plan: StepPlan) -> None:
        """What `begin` told of is over."""
        plan.steps -= 1
        if len(self._plans) > self._most:
            self.trim()

    def rest(self, resting: bool) -> None:
        """Keep none, since the client may be gone for good; or as many as before, since it is there."""
        self._most = 0 if resting else self._limit
        self.trim()

    def trim(self) -> None:
        """Give up the plans that were not used for longest, if there are too many."""
        count, size = len(self._plans), sum(plan.size for plan in self._plans.values())
        if not self._too_many(count, size):
            return
        idle = [plan for plan in self._plans.values() if plan.waiters is None and not plan.steps]
        idle.sort(key=lambda plan: plan.used)
        for plan in idle:
            if not self._too_many(count, size):
                return
            count, size = count - 1, size - plan.size
            self.drop(plan)

    def _too_many(self, count: int, size: int) -> bool:
        return count > self._most or count > FEW and size > BYTES

    def drop(self, plan: StepPlan, lost: str = "") -> None:
        """Forget a plan here and at its workers, but for the task that was lost with all it had."""
        key = plan.partial, plan.signature
        if self._plans.get(key) is not plan:
            return
        del self._plans[key]
        self._uncall(plan)
        deregister(self._handle, [part for part in plan.parts if part.task != lost])

    def forget(self, task: str) -> None:
        """Drop every plan that needs `task`: it is gone, and its parts with it."""
        for plan in [plan for plan in self._plans.values() if task in plan.tasks]:
            self.drop(plan, task)

    def clear(self) -> None:
        """Forget all; the workers forget the whole session."""
        self._plans.clear()
        self.calls.clear()

    def _uncall(self, plan: StepPlan) -> None:
        if self.calls.get(plan.number) is plan:
            del self.calls[plan.number]


def deregister(handle: str, parts: Iterable[PlanPart]) -> None:
    """Tell workers to forget parts of the session `handle`."""
    for part in parts:
        part.peer.tell(m.DeregisterGraph(handle, part.handle))
