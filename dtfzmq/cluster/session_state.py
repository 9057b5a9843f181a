"""What a master knows of one session: its graph, its plans, the tasks it has state on, its running steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.base import errors
from dtfzmq.cluster.plans import Plans
from dtfzmq.cluster.step import Step
from dtfzmq.graph import wellformed
from dtfzmq.graph.node import Node
from dtfzmq.plan.optimize.run import options_of


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
        self.plans = Plans(handle, int(config.get("max_signatures") or 0))
        #: task -> incarnation of the process that may hold state of this session: a step was let run there.
        self.tasks: dict[str, int] = {}
        #: Tasks that know of this session, whether or not it ever ran there.
        self.told: set[str] = set()
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

    def heard(self, link: Any) -> None:
        """Its client has said something over `link`: it is there."""
        self.link = link
        if self.abandoned is not None:
            self.abandoned.cancel()
            self.abandoned = None
            self.plans.rest(False)

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


def restarted(task: str) -> errors.AbortedError:
    """The error of a session that has state on a process that is no more, where another has come in its place."""
    return errors.AbortedError(
        None,
        None,
        f'Session state on "{task}" is lost: a different device incarnation answers there. Your worker job '
        f'("{task}") was probably restarted. Check your worker job for the reason why it was restarted; open a new '
        "session and initialise or restore its variables.",
    )


def not_found(handle: str, master: str) -> errors.AbortedError:
    """The error of a handle that a master, named with its address, does not know."""
    return errors.AbortedError(
        None,
        None,
        f"Session {handle} is not found. Possibly, this master, {master}, has restarted, or the session was reset.",
    )


def unknown_call(handle: str, number: int) -> errors.AbortedError:
    """The error of a run that gave the number alone of a signature that has no plan (any more): nothing was run."""
    return errors.AbortedError(None, None, f"Call {number} of session {handle} is not known.")


def is_unknown_call(error: errors.OpError, handle: str, number: int) -> bool:
    """Whether `error` is that one, and not what became of the step."""
    return isinstance(error, errors.AbortedError) and error.message == unknown_call(handle, number).message
