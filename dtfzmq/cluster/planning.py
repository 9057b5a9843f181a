"""From a signature to parts that are registered: prune, place, meet the tasks, partition, register."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dtfzmq.base import collecting, errors, names
from dtfzmq.cluster.fed import fed_tensors
from dtfzmq.cluster.plans import NODE_BYTES, PlanPart, StepPlan, Waiter, deregister
from dtfzmq.cluster.session_state import MasterSession, restarted
from dtfzmq.graph import serial
from dtfzmq.plan.devices import DevicesNeeded, DeviceTable
from dtfzmq.plan.optimize.run import optimize
from dtfzmq.plan.part import Part, Pruned
from dtfzmq.plan.partition import partition_by_task
from dtfzmq.plan.place import Placer
from dtfzmq.plan.prune import prune
from dtfzmq.wire import messages as m

if TYPE_CHECKING:
    from dtfzmq.cluster.master import Master

_log = logging.getLogger("dtfzmq")

# Graphs of more nodes than this are planned on the pool, so that no message waits for it.
INLINE_NODES = 1000

# Until so long after its first contact a planning meets a task afresh that was lost meanwhile: as long as a silent
# task takes to be lost, so that one that is gone is told no later.
_AFRESH_S = 5.0


def prepare(master: Master, session: MasterSession) -> None:
    """Give a new session its device table and placer. InvalidArgumentError for device filters that are none."""
    peers = master.peers
    met = peers.met(peers.me)
    own = [device[0] for device in (met[1] if met is not None else ())]
    try:
        session.table = DeviceTable(peers.me, own, peers.tasks(), session.filters)
    except ValueError as error:
        raise errors.InvalidArgumentError(None, None, f"A device filter cannot be read. {error}") from None
    session.placer = Placer(session.table, session.soft, _log.info if session.log_placement else None)


def visible_tasks(session: MasterSession) -> set[str]:
    """The tasks that the session's device filters let it see."""
    return {names.task_of(device) for device in session.table.visible()}


class Planning:
    """One signature on its way. All methods: on the baton; pruning, placing and partitioning may run off it.

    Ends by setting `plan.parts` and telling `plan.waiters`, or by removing the plan and telling them the error.
    """

    def __init__(self, master: Master, session: MasterSession, plan: StepPlan) -> None:
        self.master = master
        self.session = session
        self.plan = plan
        #: Tasks whose part is being registered, or that are to be met before; for the text of a deadline.
        self.silent: set[str] = set()
        self._meeting: list[str] = []
        self._parts: list[PlanPart] = []
        # The tasks of the step with the incarnations that were met, and those that were lost during this planning.
        self._met: dict[str, int] = {}
        self._lost: set[str] = set()
        self._until = 0.0

    def start(self) -> None:
        """Begin; waiters may be told before this returns."""
        session = self.session
        try:
            feeds, fetches, targets = self._resolve()
        except Exception as error:  # names that a client made up
            self._fail(errors.wrap(error))
            return
        plan, size = self.plan, len(session.nodes)

        def think() -> tuple[Pruned, set[str]]:
            with collecting.paused(size):
                return think_at_once()

        def think_at_once() -> tuple[Pruned, set[str]]:
            nodes = session.nodes[:size]  # the graph may grow on the baton meanwhile
            pruned = prune(nodes, feeds, fetches, targets)
            plan.feeds = fed_tensors(nodes, feeds)
            known, session.placed = session.placed, size
            session.placer.extend(nodes[known:])
            session.placer.place(pruned)
            return pruned, _tasks_of(pruned)

        def thought(result: tuple[Pruned, set[str]]) -> None:
            self._meet(result[0], sorted(result[1]) or [self.master.peers.me])

        def failed(error: BaseException) -> None:
            if isinstance(error, DevicesNeeded):
                self._ask(error.tasks)
            else:
                self._fail(errors.internal(error))

        self._exclusive(think, thought, failed)

    def late(self, timeout: float) -> errors.OpError:
        """The error of a run whose time ran out while it waited for this."""
        peers = self.master.peers
        where = ", ".join(
            [peers.where(task) for task in sorted(self.silent)]
            or [peers.missing(task) for task in sorted(self._meeting) if peers.met(task) is None]
        )
        waits = f"still waiting for {where}" if where else "still planning the step"
        return errors.DeadlineExceededError(None, None, f"Operation timed out after {timeout:.3g} s, {waits}.")

    def _resolve(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[int]]:
        """The signature's names as places in the graph. Raises with TF's texts for names that are not there."""
        index = self.session.index
        feed_names, fetch_names, target_names = self.plan.signature
        feeds = []
        for name in feed_names:
            op, out = _endpoint(name)
            if op not in index:
                raise errors.NotFoundError(None, None, f"FeedInputs: unable to find feed output {name}")
            feeds.append((index[op], out))
        fetches = []
        for name in fetch_names:
            op, out = _endpoint(name)
            if op not in index:
                raise errors.NotFoundError(None, None, f"FetchOutputs node {name}: not found")
            fetches.append((index[op], out))
        missing = [name for name in target_names if name not in index]
        if missing:
            raise errors.NotFoundError(
                None, None, f"PruneForTargets: Some target nodes not found: {', '.join(missing)}"
            )
        return feeds, fetches, [index[name] for name in target_names]

    def _exclusive(
        self, work: Callable[[], Any], then: Callable[[Any], None], failed: Callable[[BaseException], None]
    ) -> None:
        """Run `work` when no other planning of this session is at its placer and device table."""
        session = self.session
        size = len(session.nodes)

        def finished(fn: Callable[[Any], None], value: Any) -> None:
            session.planning_now = False
            if session.planning:
                session.planning.pop(0)()
            fn(value)

        def begin() -> None:
            session.planning_now = True
            self.master.off_baton(
                size, INLINE_NODES, work, lambda result: finished(then, result), lambda error: finished(failed, error)
            )

        if session.planning_now:
            session.planning.append(begin)
        else:
            begin()

    def _ask(self, tasks: list[str]) -> None:
        """Placement needs to know all devices of some tasks."""

        def met() -> None:
            found = {}
            for task in tasks:
                known = self.master.peers.met(task)
                assert known is not None  # see _contact
                found[task] = [device[0] for device in known[1]]

            def learn() -> None:
                for task, devices in found.items():
                    self.session.table.learn(task, devices)

            self._exclusive(learn, lambda _: self.start(), lambda error: self._fail(errors.internal(error)))

        self._contact(tasks, (), met)

    def _meet(self, pruned: Pruned, tasks: list[str]) -> None:
        """Meet the tasks that own nodes of the step, and no others."""

        def met() -> None:
            state = self.session.tasks
            for task in tasks:
                known = self.master.peers.met(task)
                assert known is not None  # see _contact
                self._met[task] = known[0]
                if state.get(task, known[0]) != known[0]:
                    self._fail(restarted(task))
                    return
            self._cut(pruned, tasks)

        self._contact(tasks, self.session.tasks, met)

    def _contact(self, tasks: list[str], gone: Iterable[str], met: Callable[[], None]) -> None:
        """Call `met()` when all of `tasks` are met and none was lost again; those of `gone` were up once."""
        over: list[bool] = []
        late: Any = None
        self._until = self._until or self.master.loop.now() + _AFRESH_S

        def end(error: BaseException | None) -> None:
            if over:
                return
            over.append(True)
            self._meeting = []
            if late is not None:
                late.cancel()
            if error is not None:
                self._fail(errors.internal(error))
            else:
                self._if_none_lost(tasks, None, met, lambda: self._contact(tasks, gone, met))

        if self._lost:
            silent = self.master.peers.vanished(min(self._lost))
            late = self.master.loop.call_at(self._until, self._safe(end), silent)
        self._meeting = tasks
        self.master.peers.contact(tasks, self._safe(end), self._lost.union(gone))

    def _if_none_lost(
        self, tasks: Iterable[str], error: errors.OpError | None, go_on: Callable[[], None], again: Callable[[], None]
    ) -> None:
        """Go on if none of `tasks` was lost since it was met; else do it again or fail, with `error` if given.

        A master learns only bit by bit that links are gone: of a task that was killed and restarted, or when it was
        stopped itself. Nothing of the step ran yet, so each task is met afresh, once and soon, if it held no state of
        the session.
        """
        peers = self.master.peers
        lost = {task for task in tasks if not self._there(task)}
        if not lost:
            go_on()
        elif lost & (self._lost | self.session.tasks.keys()) or self.master.loop.now() >= self._until:
            self._fail(error or peers.vanished(min(lost)))
        else:
            self._lost |= lost
            self._met = {}
            self._deregister()
            again()

    def _there(self, task: str) -> bool:
        """Whether the process that was met as `task` was not lost since."""
        met = self.master.peers.met(task)
        return met is not None and self._met.get(task, met[0]) == met[0]

    def _cut(self, pruned: Pruned, tasks: list[str]) -> None:
        own = self.master.peers.me
        home = names.device_name(own, "CPU", 0)
        options, incarnations = self.session.optimizer, self._met

        def incarnation(device: str) -> int:
            return incarnations[names.task_of(device)]

        again = self.start  # from the graph: what was pruned is used up once it was optimized

        def work() -> list[tuple[Part, Any, list[Any]]]:
            with collecting.paused(len(pruned.nodes)):
                return cut_up()

        def cut_up() -> list[tuple[Part, Any, list[Any]]]:
            cut = []
            for part in partition_by_task(optimize(pruned.nodes, options), home, incarnation):
                plain, arrays = (part.nodes, []) if part.task == own else serial.nodes_to_wire(part.nodes)
                cut.append((part, plain, arrays))
            return cut

        self.master.off_baton(
            len(pruned.nodes),
            INLINE_NODES,
            work,
            lambda cut: self._if_none_lost(tasks, None, lambda: self._register(cut, again), again),
            lambda e: self._fail(errors.internal(e)),
        )

    def _register(self, cut: list[tuple[Part, Any, list[Any]]], again: Callable[[], None]) -> None:
        """Register the parts; `again` does all anew if a task is lost."""
        session, peers = self.session, self.master.peers
        if session.closed:  # what is registered now would be forgotten by nobody
            self._fail(errors.CancelledError(None, None, "The session was closed."))
            return
        left = [len(cut)]
        failures: dict[str, errors.OpError] = {}
        self.silent = {part.task for part, _, _ in cut}
        self.plan.size = sum(NODE_BYTES * len(part.nodes) + sum(a.nbytes for a in arrays) for part, _, arrays in cut)

        def answered(part: Part, peer: Any, reply: Any, error: BaseException | None) -> None:
            left[0] -= 1
            self.silent.discard(part.task)
            if session.closed:
                # Large constants come after what the task was told of the end, and begin the session anew there.
                peer.tell(m.DeleteWorkerSession(session.handle))
            if error is not None:
                failures[part.task] = errors.internal(error)
            else:
                self._parts.append(
                    PlanPart(part.task, peer, reply.handle, part.feeds, part.fetches, part.task == peers.me)
                )
            if left[0] == 0:
                if failures:
                    # A link tells its calls first that it is lost, and then its master.
                    self.master.loop.call_soon(self._safe(self._unregistered), failures, again)
                else:
                    self._if_none_lost(self._met, None, self._ready, again)

        session.told.update(self.silent)
        for part, plain, arrays in cut:
            message = m.RegisterGraph(
                session.handle,
                plain,
                arrays,
                len(part.feeds),
                len(part.fetches),
                part.task not in session.tasks,  # else an empty one would stand for what it had there
                session.isolate,
                self.plan.partial,
                self._met,
            )
            peer = peers.peer(part.task)
            peer.call(message, self._safe(functools.partial(answered, part, peer)))

    def _unregistered(self, failures: dict[str, errors.OpError], again: Callable[[], None]) -> None:
        there = [error for task, error in failures.items() if self._there(task)]  # they do not want the part
        error = there[0] if there else next(iter(failures.values()))

        def if_none_lost(tasks: Iterable[str]) -> None:
            self._if_none_lost(tasks, error, lambda: self._fail(error), again)

        if not there:
            if_none_lost(failures)
        elif any(isinstance(e, errors.AbortedError) for e in there):
            # One that heard of a restart before us takes nothing that was made for the process that is no more. As
            # above, the loss of a link that turns out is told to us last.
            soon = functools.partial(self.master.loop.call_soon, self._safe(if_none_lost), self._met)
            self.master.peers.inquire(self._met, soon)
        else:
            self._fail(error)

    def _ready(self) -> None:
        plan = self.plan
        plan.parts = tuple(self._parts)
        plan.tasks = frozenset(part.task for part in self._parts)
        waiters, plan.waiters, plan.job = plan.waiters or [], None, None
        # Others were met, and nothing is left for them to do.
        self.session.tasks.update({task: self._met[task] for task in plan.tasks})
        plans = self.session.plans
        plans.begin(plan)
        self._tell(waiters, plan, None)
        plans.end(plan)
        plans.trim()

    def _fail(self, error: errors.OpError) -> None:
        """Nothing of a failed planning is kept: the next run of the signature tries again."""
        session, plan = self.session, self.plan
        session.plans.drop(plan)
        self._deregister()
        waiters, plan.waiters = plan.waiters or [], []
        self._tell(waiters, None, error)

    def _deregister(self) -> None:
        parts, self._parts = self._parts, []
        deregister(self.session.handle, parts)

    def _safe(self, fn: Callable[..., None]) -> Callable[..., None]:
        """`fn` with its exceptions as the end of this planning: nobody waits for one that cannot go on."""

        def call(*args: Any) -> None:
            try:
                fn(*args)
            except Exception as error:
                if not isinstance(error, errors.OpError):
                    _log.exception("a planning met an error")
                self._fail(errors.internal(error))

        return call

    def _tell(self, waiters: list[Waiter], plan: StepPlan | None, error: errors.OpError | None) -> None:
        for waiter in waiters:
            try:
                waiter(plan, error)
            except Exception:  # one run's trouble is not another's
                _log.exception("a run that waited for its plan met an error")


def _endpoint(name: str) -> tuple[str, int]:
    op, _, out = name.partition(":")
    return op, int(out) if out.isdecimal() else 0


def _tasks_of(pruned: Pruned) -> set[str]:
    """The tasks of every node, those of subgraphs too."""
    devices = {node.device for node in pruned.nodes}
    tasks = {names.task_of(device) for device in devices if names.is_full_device(device)}
    for inner in pruned.nested.values():
        tasks |= _tasks_of(inner)
    return tasks
