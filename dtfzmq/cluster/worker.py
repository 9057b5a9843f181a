"""The worker of a task: registers parts of graphs, runs them, lets their tensors meet, forgets steps that are over."""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Callable, Container, Mapping
from typing import Any

from dtfzmq.base import errors
from dtfzmq.base.loop import Loop
from dtfzmq.base.threads import Runner
from dtfzmq.cluster.fed import check_feeds
from dtfzmq.cluster.worker_session import WorkerSession
from dtfzmq.cluster.worker_step import WorkerStep, is_stranger, strange
from dtfzmq.graph import serial, wellformed
from dtfzmq.graph.node import Node
from dtfzmq.runtime.device import Device
from dtfzmq.runtime.rendezvous import Rendezvous
from dtfzmq.runtime.resources import ResourceManager
from dtfzmq.wire import messages as m
from dtfzmq.wire.inquiry import inquire

_log = logging.getLogger("dtfzmq")

# A part of more nodes than this is decoded and compiled on the pool, so that no message waits for it.
INLINE_NODES = 500
# So many of the last steps are remembered with their master, for pushes of theirs that turn out lost later.
RECENT_STEPS = 20_000
# A session of a master that was lost is kept so long: one that was stopped, or out of reach, comes back to the queues,
# variables and random numbers that are the session's own. Longer than masters wait for clients, who decide first.
ORPHANED_S = 60.0


class Worker:
    """One task's devices and what runs on them. All methods: on the baton; none blocks.

    `route(task)` is what carries pushes to another task. `report(step, error)` tells the own process's master of a
    lost push; other masters are told over their link.
    """

    def __init__(
        self,
        loop: Loop,
        runner: Runner,
        task: str,
        job: str,
        devices: list[Device],
        incarnation: int,
        rendezvous: Rendezvous,
        route: Callable[[str], Any],
    ) -> None:
        self.loop = loop
        self.runner = runner
        self.task = task
        self.job = job
        self.devices = devices
        self.incarnation = incarnation
        self.rendezvous = rendezvous
        self.route = route
        self.report: Callable[[int, errors.OpError], None] = lambda step, error: None
        #: Drops what links are still to send for a step that is over.
        self.forget: Callable[[int], None] = lambda step: None
        #: The link to a task, if there is one.
        self.reached: Callable[[str], Any] = lambda task: None
        #: Links of masters that are out of reach.
        self.away: Container[Any] = ()
        self.resources = ResourceManager(job)
        self.sessions: dict[str, WorkerSession] = {}
        self.steps: dict[int, WorkerStep] = {}
        # Their masters' links, and the tasks that these met.
        self._recent: collections.OrderedDict[int, tuple[Any, Mapping[str, int]]] = collections.OrderedDict()
        # What was last said of holding steps that have not come: their feeds may come by a slower lane.
        self._holds: collections.OrderedDict[int, bool] = collections.OrderedDict()
        self._handles = 0
        self._stopped: errors.OpError | None = None
        self.parts_run = 0

    def device_list(self) -> list[tuple[str, str, int, int]]:
        """(name, type, memory limit, incarnation) of each device."""
        return [(d.name, d.type, 0, self.incarnation) for d in self.devices]

    # -- graphs --------------------------------------------------------------------------------------------------------

    def on_get_status(self, link: Any, message: m.GetStatus, reply: Any) -> None:
        """Say which devices are here."""
        reply(m.WorkerStatus(self.device_list(), self.incarnation))

    def on_register_graph(self, link: Any, message: m.RegisterGraph, reply: Any) -> None:
        """Compile a part; its kernels are made now. The session is made too if the master says that it may be new."""
        if self._stopped is not None:
            raise self._stopped
        session = self.sessions.get(message.session)
        if session is None:
            if not message.session:
                raise errors.InvalidArgumentError(None, None, "Session must be non-empty.")
            if not message.create:
                raise self._no_session(message.session)
            resources = ResourceManager(self.job) if message.isolate else self.resources
            session = self.sessions[message.session] = WorkerSession(message.session, link, resources, self)
        session.heard(link)
        plain, arrays = message.graph, message.arrays
        found = session

        def work() -> Any:
            local = isinstance(plain, list) and bool(plain) and type(plain[0]) is Node
            nodes = plain
            if not local:
                nodes = serial.nodes_from_wire(plain, arrays)
                wellformed.check_part(nodes, message.feeds, message.fetches)
            return found.compile(nodes, message.feeds, message.fetches, message.partial, message.tasks)

        def finish(part: Any, error: BaseException | None) -> None:
            if error is not None:
                reply.fail(errors.internal(error))
                return
            if self.sessions.get(found.handle) is not found or not found.hears(link):
                reply.fail(self._no_session(found.handle))
                return
            self._handles += 1
            handle = f"{self._handles:016x}"
            found.parts[handle] = part
            reply(m.GraphRegistered(handle))

        def run() -> tuple[Any, BaseException | None]:
            try:
                return work(), None
            except Exception as error:
                return None, error

        def begin() -> None:
            for stranger in self._strangers(message.tasks):
                reply.fail(strange(self.task, stranger))
                return
            if isinstance(plain, list) and len(plain) < INLINE_NODES:
                finish(*run())
            else:
                self.runner.submit(lambda: self.loop.call_soon(finish, *run()))

        # A master that has met a restarted task may know before us that the old process is gone.
        inquire(self._strangers(message.tasks), begin)

    def on_deregister_graph(self, link: Any, message: m.DeregisterGraph, reply: Any) -> None:
        """Forget a part; steps that run it go on."""
        session = self._session(message.session)
        if session.parts.pop(message.handle, None) is None:
            raise self._no_graph(message.handle)
        reply(m.Done())

    def on_delete_worker_session(self, link: Any, message: m.DeleteWorkerSession, reply: Any) -> None:
        """Forget a session with its parts and private state."""
        session = self.sessions.get(message.session)
        if session is not None:
            self._end(session)
        reply(m.Done())

    def on_cleanup_all(self, link: Any, message: m.CleanupAll, reply: Any) -> None:
        """Clear containers."""
        self.resources.cleanup(message.containers)
        reply(m.Done())

    # -- steps ---------------------------------------------------------------------------------------------------------

    def on_run_graph(self, link: Any, message: m.RunGraph, reply: Any) -> None:
        """Run a part; answered when all that it started has ended."""
        session = self.sessions.get(message.session)
        if session is None:
            reply.fail(self._no_session(message.session))
            return
        part = session.parts.get(message.handle)
        if part is None:
            reply.fail(self._no_graph(message.handle))
            return
        if message.step in self.steps:
            raise errors.InvalidArgumentError(None, None, f"Step {message.step} is under way on {self.task} already.")
        if len(message.feeds) != len(part.feeds):
            text = f"A part that is fed {len(part.feeds)} tensors was given {len(message.feeds)} on {self.task}."
            raise errors.InvalidArgumentError(None, None, text)
        if not part.partial:
            check_feeds(message.feeds, part.feeds)
        step = WorkerStep(self, message.step, part, link, reply, message.trace)
        if self._holds.pop(message.step, message.held):
            step.hold(True)
        if link in self.away:  # its feeds may come by another lane
            step.hold_for_master(True)
        if part.meets:
            step.open()
        else:
            self.rendezvous.refuse(message.step)
        self.steps[message.step] = step
        self.parts_run += 1
        try:
            step.start(message.feeds)
        except BaseException:
            self.step_over(step)
            raise

    def step_over(self, step: WorkerStep) -> None:
        """A part has answered: nothing of its step is waited for here any more."""
        if self.steps.get(step.id) is step:
            del self.steps[step.id]
        if step.part.meets:
            self.rendezvous.close(step.id)
            recent = self._recent
            recent[step.id] = step.link, step.part.tasks
            if len(recent) > RECENT_STEPS:
                recent.popitem(last=False)

    def on_partial_graph(self, link: Any, message: m.PartialGraph, reply: Any) -> None:
        """Feed and fetch a part that runs."""
        step = self.steps.get(message.step)
        if step is None:
            raise errors.InvalidArgumentError(None, None, "Must run PartialRunSetup before performing partial runs.")
        part = step.part
        if (
            len(message.indices) != len(message.feeds)
            or not all(0 <= i < len(part.feeds) for i in message.indices)
            or not all(0 <= i < part.fetches for i in message.fetches)
        ):
            raise errors.InvalidArgumentError(None, None, f"Step {message.step} has no such feeds and fetches.")
        check_feeds(message.feeds, [part.feeds[i] for i in message.indices])
        step.partial(message.indices, message.feeds, message.fetches, reply)

    def on_cancel_step(self, link: Any, message: m.CancelStep, reply: Any) -> None:
        """End a step here; one that has not come yet is refused when it comes."""
        self._holds.pop(message.step, None)
        step = self.steps.get(message.step)
        error = errors.from_wire(message.error)
        if step is not None:
            step.cancel(error)
        else:
            self.rendezvous.close(message.step)
        reply(m.Done())

    def on_hold_step(self, link: Any, message: m.HoldStep, reply: Any) -> None:
        """Take nothing for a step whose client is out of reach, or go on; one that has not come yet learns it then."""
        step = self.steps.get(message.step)
        if step is not None:
            step.hold(message.held)
        else:
            holds = self._holds
            holds[message.step] = message.held
            if len(holds) > RECENT_STEPS:
                holds.popitem(last=False)
        reply(m.Done())

    def on_cleanup_graph(self, link: Any, message: m.CleanupGraph, reply: Any) -> None:
        """A step is over everywhere."""
        self._recent.pop(message.step, None)
        self._holds.pop(message.step, None)
        self.forget(message.step)
        step = self.steps.get(message.step)
        if step is not None:
            step.cancel(errors.make(errors.ABORTED, f"Cleanup {message.step}", derived=True))
        else:
            self.rendezvous.close(message.step)
        reply(m.Done())

    # -- links ---------------------------------------------------------------------------------------------------------

    def hold(self, link: Any, held: bool) -> None:
        """A master is out of reach and may be gone (`held`): its steps take nothing here until it is back."""
        for step in list(self.steps.values()):
            if step.link is link:
                step.hold_for_master(held)

    def on_push_lost(self, link: Any, step: int, error: errors.OpError) -> None:
        """A tensor that we pushed will not arrive: the step's master is told, since only it can end the step."""
        master, _ = self._origin(step)
        if master is not None:
            master.tell(m.StepFailed(step, errors.to_wire(error)))
        else:
            self.report(step, error)

    def on_link_up(self, link: Any) -> None:
        """A process is in reach. It may not be the one that a master met by that name.

        What waits for one that it took the place of is forgotten, and steps end that have sent to it.
        """
        for step in list(link.steps):
            if is_stranger(link, self._origin(step)[1]):
                self.on_push_lost(link, step, strange(self.task, link))
        for session in list(self.sessions.values()):
            master = session.link
            if session.orphaned is not None and master.name == link.name and master.incarnation != link.incarnation:
                self._end(session)

    def on_link_lost(self, link: Any, error: errors.OpError) -> None:
        """A process is gone: if it was a master, its steps end, and its sessions are forgotten if it cannot be back."""
        for step in list(self.steps.values()):
            if step.link is link:
                step.cancel(errors.AbortedError(None, None, f"The master of this step is gone: {error.message}"))
        for session in list(self.sessions.values()):
            if session.link is link and link is not None:
                if link.left or isinstance(error, errors.AbortedError):
                    self._end(session)
                else:
                    session.miss(self.loop.call_later(ORPHANED_S, self._end, session))
        if link is not None and link.peer is not None and link.peer.name:
            self.rendezvous.peer_lost(link.peer.name, error)
            self.resources.lost(link.peer.name, error.message)

    def stop(self, kept: Container[int] = ()) -> None:
        """End every session, and every step but those `kept` that waits; one that computes may end well yet.

        The server goes.
        """
        error = self._stopped = errors.UnavailableError(None, None, f"The server {self.task} was stopped.")
        for step in list(self.steps.values()):
            if step.id not in kept:
                step.wind_up(error)
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()

    def still_busy(self, kept: Container[int]) -> bool:
        """Whether steps but those `kept` still compute after `stop`."""
        return any(step not in kept for step in self.steps)

    def statistics(self) -> dict[str, Any]:
        """Sessions, parts, steps and resources, as plain data."""
        now = self.loop.now()
        return {
            "devices": [device.name for device in self.devices],
            "worker_sessions": len(self.sessions),
            "parts": sum(len(s.parts) for s in self.sessions.values()),
            "parts_run": self.parts_run,
            "running": [{"step": s.id, "age": now - s.started} for s in self.steps.values()],
            "resources": self.resources.statistics(),
            "rendezvous": dataclasses.asdict(self.rendezvous.statistics()),
        }

    def _end(self, session: WorkerSession) -> None:
        if self.sessions.get(session.handle) is session:
            del self.sessions[session.handle]
        session.close()

    def _origin(self, step: int) -> tuple[Any, Mapping[str, int]]:
        """The link to the master of a step that is not over, and the tasks as that met them."""
        running = self.steps.get(step)
        return (running.link, running.part.tasks) if running is not None else self._recent.get(step, (None, {}))

    def _strangers(self, tasks: Mapping[str, int]) -> list[Any]:
        links = [self.reached(task) for task in tasks]
        return [link for link in links if link is not None and is_stranger(link, tasks)]

    def _session(self, handle: str) -> WorkerSession:
        session = self.sessions.get(handle)
        if session is None:
            raise self._no_session(handle)
        return session

    def _no_session(self, handle: str) -> errors.OpError:
        if self._stopped is not None:
            return self._stopped
        return errors.AbortedError(
            None,
            None,
            f'Session handle is not found: {handle}. Possibly this worker ("{self.task}") just restarted, or was out '
            f"of reach of the session's master for more than {ORPHANED_S:g} s. Open a new session and initialise or "
            "restore its variables.",
        )

    def _no_graph(self, handle: str) -> errors.OpError:
        return errors.AbortedError(
            None, None, f"Graph handle is not found: {handle}. Possibly, this worker just restarted."
        )
