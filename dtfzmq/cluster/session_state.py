"""What a master knows of one session: its graph, its plans, the tasks it has state on, its running steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.base import errors
from dtfzmq.cluster.fed import FedTensor
from dtfzmq.cluster.step import PlanPart, Step
from dtfzmq.graph import wellformed
from dtfzmq.graph.node import Node
from dtfzmq.plan.optimize.run import options_of

Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
Waiter = Callable[["StepPlan | None", "errors.OpError | None"], None]


class StepPlan:
    """A signature that is registered on every task that it needs, or on its way there."""

    __slots__ = ("feeds", "fetches", "job", "partial", "parts", "signature", "tasks", "waiters")

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
        #: The planning.Planning that makes it.
        self.job: Any = None  # set before anyone sees the plan


class MasterSession:
    """One session. Only touched on the baton, but for `nodes` and `placer`, which the one planning at work may read."""

    def __init__(self, handle: str, config: dict[str, Any], link: Any) -> None:
        self.handle = handle
        self.link = link
        self.soft = bool(config.get("allow_soft_placement"))
        self.filters = [str(f) for f in config.get("device_filters", ())]
        self.isolate = bool(config.get("isolate_session_state"))
        self.log_placement = bool(config.get("log_device_placement"))
        self.optimizer = options_of(config)
        self.nodes: list[Node] = []
        self.index: dict[str, int] = {}
        self.version = 0
        #: How many nodes there were before the last extension.
        self.before = 0
        self.table: Any = None
        self.placer: Any = None
        self.placed = 0  # nodes that the placer knows
        #: The signatures that the client numbered; and their plans, by that number and by the signature.
        self.known: dict[int, Signature] = {}
        self.calls: dict[int, StepPlan] = {}
        self.plans: dict[tuple[bool, Signature], StepPlan] = {}
        #: task -> incarnation of the process that holds state of this session.
        self.tasks: dict[str, int] = {}
        #: By the client's number of the run.
        self.steps: dict[int, Step] = {}
        #: Runs that wait for their plan, by number; they can be cancelled too.
        self.waiting: dict[int, Callable[[errors.OpError], None]] = {}
        self.partials: dict[str, Any] = {}
        self.closed = False
        #: Called when the last step of a closed session is over.
        self.on_idle: Callable[[], None] | None = None
        #: What a step of this session calls when it is over; the master's.
        self.step_over: Callable[[Step], None] = lambda step: None
        #: Plannings run one after the other, since they share the placer.
        self.planning: list[Callable[[], None]] = []
        self.planning_now = False
        #: Set while the client is out of reach.
        self.abandoned: Any = None

    def extend(self, nodes: list[Node]) -> None:
        """Add nodes. InvalidArgumentError, and no change, if a name is known or an input points nowhere."""
        start = len(self.nodes)
        names: dict[str, int] = {}
        for i, node in enumerate(nodes, start):
            if node.name in self.index or node.name in names:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"GraphDef argument to Extend includes node '{node.name}', which was created by a "
                    "previous call to Create or Extend in this session.",
                )
            names[node.name] = i
        wellformed.check_sources(nodes, self.nodes)
        self.nodes.extend(nodes)
        self.index.update(names)

    def extend_from(self, version: int, nodes: list[Node]) -> None:
        """Add nodes to the graph at `version`. AbortedError if it is at another one, else as `extend`.

        A client that did not hear that its last extension was made sends it again, perhaps with more behind it.
        """
        last = self.nodes[self.before :]
        if 0 <= version == self.version - 1 and all(a.name == b.name and a.op == b.op for a, b in zip(nodes, last)):
            nodes = nodes[len(last) :]
            if nodes:
                self.extend(nodes)
            return
        if version != self.version:
            raise errors.AbortedError(
                None, None, f"Current version is {self.version} but caller expected {version}."
            )
        before = len(self.nodes)
        self.extend(nodes)
        self.before = before
        self.version += 1

    def client(self) -> str:
        """Who has it, for people."""
        return "this process" if self.link is None else str(self.link.title())

    def statistics(self, now: float) -> dict[str, Any]:
        """An account of it at `now` on the loop's clock, as plain data."""
        return {
            "handle": self.handle,
            "client": self.client(),
            "running": len(self.steps),
            "nodes": len(self.nodes),
            "plans": len(self.plans),
            "tasks": sorted(self.tasks),
            "abandoned": self.abandoned is not None,
            "steps": [
                {"step": step.id, "age": now - step.started, "waits_for": step.unfinished()}
                for step in self.steps.values()
            ],
        }

    def forget(self, task: str) -> None:
        """Drop every plan that needs `task`: it is gone, and its parts with it."""
        for number in [number for number, plan in self.calls.items() if task in plan.tasks]:
            del self.calls[number]
        for key in [key for key, plan in self.plans.items() if task in plan.tasks]:
            del self.plans[key]


def restarted(task: str) -> errors.AbortedError:
    """The error of a session that has state on a process that is no more, where another has come in its place."""
    return errors.AbortedError(
        None,
        None,
        f'Session state on "{task}" is lost: a different device incarnation answers there. Your worker job '
        f'("{task}") was probably restarted. Check your worker job for the reason why it was restarted; open a new '
        "session and initialise or restore its variables.",
    )


def not_found(handle: str) -> errors.AbortedError:
    """The error of a handle that this master does not know."""
    return errors.AbortedError(
        None, None, f"Session {handle} is not found. Possibly, this master has restarted, or the session was reset."
    )
