"""The master of sessions: keeps their graphs and plans, and runs their steps on the tasks of the cluster."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

from dtfzmq.base import errors
from dtfzmq.base.loop import Loop
from dtfzmq.base.threads import Runner
from dtfzmq.cluster import asking, planning
from dtfzmq.cluster.fed import check_count, check_feeds
from dtfzmq.cluster.partial import PartialRuns
from dtfzmq.cluster.peers import Peers
from dtfzmq.cluster.plans import Signature, StepPlan, Waiter
from dtfzmq.cluster.session_state import MasterSession, not_found, unknown_call
from dtfzmq.cluster.step import CLOSE_S, Step
from dtfzmq.graph import serial, wellformed
from dtfzmq.graph.node import Node
from dtfzmq.wire import messages as m

_log = logging.getLogger("dtfzmq")

# A session whose client is lost is kept this long: one that lives loses its link when we do, at most a link's limit
# later, and its next run waits `connect_limit` to reach us.
ABANDONED_S = 35.0
CLOSED = "Step was cancelled by an explicit call to `Session::Close()`."


class Master:
    """Sessions of one server. All methods: on the baton; none blocks. Long planning goes to `runner`."""

    def __init__(
        self, loop: Loop, runner: Runner, peers: Peers, rng: random.Random, soft_default: dict[str, Any] | None = None
    ) -> None:
        self.loop = loop
        self.runner = runner
        self.peers = peers
        self.rng = rng
        #: Configuration that sessions start from.
        self.defaults = dict(soft_default or {})
        self.sessions: dict[str, MasterSession] = {}
        self.stopped = False
        self.partial = PartialRuns(self)
        self.steps_run = 0
        self._by_step: dict[int, Step] = {}

    # -- sessions ------------------------------------------------------------------------------------------------------

    def on_create_session(self, link: Any, message: m.CreateSession, reply: Any) -> None:
        """Open a session. Nobody is contacted: only what a step needs is."""
        if self.stopped:
            reply.fail(self.gone())
            return
        config = {**self.defaults, **message.config}
        if config.get("session_inter_op_thread_pool"):
            raise errors.InvalidArgumentError(
                None, None, "Distributed session does not support session thread pool options."
            )
        handle = f"{self.rng.getrandbits(64):016x}"
        try:
            self.peers.check_cluster(config.get("cluster_def") or {})
            session = MasterSession(handle, config, link)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise errors.InvalidArgumentError(
                None, None, f"The configuration of a session cannot be read: {error!r}. Make it with tf.ConfigProto."
            ) from None
        session.step_over = lambda step: self.step_over(session, step)
        planning.prepare(self, session)

        given_up: list[bool] = []
        if link is not None:
            reply.on_cancel = lambda: given_up.append(True)

        def add(nodes: list[Node]) -> None:
            session.extend(nodes)
            if given_up or self.stopped:  # nobody would ever close it
                reply.fail(self.gone())
                return
            self.sessions[handle] = session
            reply(m.SessionCreated(handle, 0))

        self._decoded(message, add, reply)

    def on_extend_session(self, link: Any, message: m.ExtendSession, reply: Any) -> None:
        """Add nodes to a session's graph."""
        session = self._session(message.handle, link)

        def add(nodes: list[Node]) -> None:
            session.extend_from(message.version, nodes)
            reply(m.SessionExtended(session.version))

        self._decoded(message, add, reply)

    def _decoded(self, message: Any, add: Callable[[list[Node]], None], reply: Any) -> None:
        """Call `add` with the nodes of a message, on the baton; a large graph is decoded off it."""
        plain, arrays = message.graph, message.arrays
        if isinstance(plain, list) and (not plain or type(plain[0]) is Node):
            add(plain)
            return

        def decode() -> list[Node]:
            nodes = serial.nodes_from_wire(plain, arrays)
            wellformed.check_graph(nodes)
            return nodes

        size = len(plain) if isinstance(plain, list) else 0
        self.off_baton(size, planning.INLINE_NODES, decode, add, lambda e: reply.fail(errors.internal(e)))

    def off_baton(
        self,
        size: int,
        limit: int,
        work: Callable[[], Any],
        then: Callable[[Any], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run `work`, on the pool if `size` is above `limit`; then `then(result)` or `failed(error)` on the baton."""

        def finish(result: Any, error: BaseException | None) -> None:
            if error is None:
                try:
                    then(result)
                except Exception as late:
                    error = late
            if error is not None:
                failed(error)

        def run() -> tuple[Any, BaseException | None]:
            try:
                return work(), None
            except Exception as error:
                return None, error

        if size <= limit:
            finish(*run())
        else:
            self.runner.submit(lambda: self.loop.call_soon(finish, *run()))

    def on_close_session(self, link: Any, message: m.CloseSession, reply: Any) -> None:
        """Cancel the session's steps, forget it everywhere; answered when its steps are over, or soon."""
        session = self._session(message.handle, link)
        self.close_session(session, errors.CancelledError(None, None, CLOSED), lambda: reply(m.Done()))

    def close_session(
        self,
        session: MasterSession,
        error: errors.OpError,
        done: Callable[[], None],
        end: Callable[[Step, errors.OpError], None] = Step.fail,
    ) -> None:
        """End a session, and its steps by `end(step, error)`; `done` once they are over or CLOSE_S passed."""
        self.sessions.pop(session.handle, None)
        session.closed = True
        if session.abandoned is not None:
            session.abandoned.cancel()
        told: list[bool] = []

        def finish() -> None:
            if not told:
                told.append(True)
                timer.cancel()
                done()

        for cancel in list(session.waiting.values()):
            cancel(error)
        self.partial.close(session, error)
        for step in list(session.steps.values()):
            end(step, error)
        farewell = m.DeleteWorkerSession(session.handle)
        for task in session.told:
            self.peers.peer(task).tell(farewell)
        session.plans.clear()
        timer = self.loop.call_later(CLOSE_S, finish)  # after those of the steps themselves
        if session.steps:
            session.on_idle = finish
        else:
            finish()

    def on_reset(self, link: Any, message: m.Reset, reply: Any) -> None:
        """End every session and clear containers; tasks that do not answer have nothing to clear and are logged."""
        limit = asking.checked_limit(message.timeout)
        error = errors.AbortedError(None, None, "The session was ended by a reset of its master.")
        for session in list(self.sessions.values()):
            self.close_session(session, error, lambda: None)
        asking.clear(self.loop, self.peers, message.containers, limit, reply)

    def on_list_devices(self, link: Any, message: m.ListDevices, reply: Any) -> None:
        """The devices of every task that the session may see; an error names those that do not answer."""
        limit = asking.checked_limit(message.timeout)
        session = self._session(message.handle, link) if message.handle else None
        seen = None if session is None else planning.visible_tasks(session)
        tasks = [t for t in self.peers.tasks() if seen is None or t in seen]

        asking.list_devices(self.loop, self.peers, tasks, limit, reply)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def on_run_step(self, link: Any, message: m.RunStep, reply: Any) -> None:
        """Run a step; a signature that is new is planned and registered first."""
        session = self.sessions.get(message.handle)
        if session is None:
            reply.fail(self._not_found(message.handle))
            return
        session.heard(link)
        if message.run in session.steps or message.run in session.waiting:
            text = f"Run {message.run} of session {session.handle} is under way."
            raise errors.InvalidArgumentError(None, None, text)
        plan = session.plans.calls.get(message.call)
        if plan is not None and plan.waiters is None and message.timeout >= 0:
            check_count(message.feeds, plan.signature[0])
            check_feeds(message.feeds, plan.feeds)
            self.launch(session, plan, message.run, link, reply, message.feeds, message.timeout, message.trace)
            return
        asking.checked_limit(message.timeout)
        if message.signature is None:
            reply.fail(unknown_call(session.handle, message.call))
            return
        check_count(message.feeds, message.signature[0])
        self._planned(session, message.signature, link, message, reply)

    def _planned(self, session: MasterSession, signature: Signature, link: Any, message: m.RunStep, reply: Any) -> None:
        """Run once the signature's plan is ready; until then the run can be cancelled and runs late."""
        started = self.loop.now()
        deadline = started + message.timeout if message.timeout else None
        over: list[bool] = []

        def cancel(error: errors.OpError) -> None:
            if not over:
                over.append(True)
                session.waiting.pop(message.run, None)
                if timer is not None:
                    timer.cancel()
                reply.fail(error)

        def ready(plan: StepPlan | None, error: errors.OpError | None) -> None:
            if over:
                return
            if plan is None:
                assert error is not None
                cancel(error)
                return
            try:
                check_feeds(message.feeds, plan.feeds)
            except errors.OpError as wrong:
                cancel(wrong)
                return
            over.append(True)
            session.waiting.pop(message.run, None)
            if timer is not None:
                timer.cancel()
            session.plans.call(message.call, plan)
            left = 0.0 if deadline is None else max(0.001, deadline - self.loop.now())
            self.launch(session, plan, message.run, link, reply, message.feeds, left, message.trace)

        timer = None
        session.waiting[message.run] = cancel
        if link is not None:
            reply.on_cancel = lambda: cancel(errors.CancelledError(None, None, "The client of this step is gone."))
        job = self.plan(session, signature, ready)
        if deadline is not None and not over:
            timer = self.loop.call_at(deadline, lambda: cancel(job.late(message.timeout)))

    def plan(
        self,
        session: MasterSession,
        signature: Signature,
        ready: Waiter,
        partial: bool = False,
    ) -> Any:
        """The plan of a signature, to `ready`, at once if it is known; several that ask share one planning.

        Returns the planning.Planning under way; None if there is none.
        """
        plan = session.plans.find(signature, partial)
        if plan is None:
            plan = StepPlan(signature, partial)
            session.plans.add(plan)
            plan.waiters = [ready]
            plan.job = planning.Planning(self, session, plan)
            plan.job.start()
        elif plan.waiters is None:
            ready(plan, None)
        else:
            plan.waiters.append(ready)
        return plan.job

    def launch(
        self,
        session: MasterSession,
        plan: StepPlan,
        run: int,
        link: Any,
        reply: Any,
        feeds: list[Any],
        timeout: float,
        trace: int,
    ) -> Step:
        """Start a step of a plan that is ready; `reply` is answered when it is over."""
        step = Step(
            self.loop,
            self.rng.getrandbits(57),
            run,
            plan,
            link,
            reply,
            session.step_over,
            self.peers.me,
        )
        if link is not None:
            reply.on_cancel = step.abandoned
        session.plans.begin(plan)
        session.steps[run] = step
        self._by_step[step.id] = step
        self.steps_run += 1
        try:
            step.start(session.handle, feeds, timeout, trace)
        except Exception as error:
            _log.exception("a step could not be started")
            step.fail(errors.internal(error))
        return step

    def step_over(self, session: MasterSession, step: Step) -> None:
        """A step has ended everywhere, or was given up."""
        self._by_step.pop(step.id, None)
        session.plans.end(step.plan)
        if isinstance(step.error, errors.AbortedError) and "handle is not found" in step.error.message:
            # A worker that lost sight of us for a while has let the session go: the next run registers anew.
            session.plans.forget(step.error.origin)
        if session.steps.get(step.run) is step:
            del session.steps[step.run]
        if session.closed and not session.steps and session.on_idle is not None:
            idle, session.on_idle = session.on_idle, None
            idle()

    def on_cancel_run(self, link: Any, message: m.CancelRun, reply: Any) -> None:
        """End one run of a session."""
        session = self.sessions.get(message.handle)
        if session is not None:
            error = errors.CancelledError(None, None, "The run was cancelled by its caller.")
            if message.run in session.waiting:
                session.waiting[message.run](error)
            elif message.run in session.steps:
                session.steps[message.run].fail(error)
        reply(m.Done())

    def on_step_failed(self, link: Any, message: m.StepFailed, reply: Any) -> None:
        """A worker says that a step of ours cannot end well."""
        self.step_failed(message.step, errors.from_wire(message.error))
        reply(m.Done())

    def step_failed(self, step: int, error: errors.OpError) -> None:
        """A step of ours cannot end well."""
        found = self._by_step.get(step)
        if found is not None:
            found.fail(error)

    def on_partial_run_setup(self, link: Any, message: m.PartialRunSetup, reply: Any) -> None:
        """Reserve a step that is run bit by bit."""
        self.partial.setup(self._session(message.handle, link), link, message, reply)

    def on_partial_run_step(self, link: Any, message: m.PartialRunStep, reply: Any) -> None:
        """Feed and fetch a part of a reserved step."""
        self.partial.step(self._session(message.handle, link), link, message, reply)

    # -- links ---------------------------------------------------------------------------------------------------------

    def hold(self, link: Any, held: bool) -> None:
        """A client is out of reach and may be gone (`held`): its steps take nothing until it is back."""
        for session in self.sessions.values():
            if session.link is link:
                for step in session.steps.values():
                    if step.link is link:
                        step.hold(held)

    def on_link_lost(self, link: Any, error: errors.OpError) -> None:
        """A process is gone: a task's parts will not answer, a client's steps are cancelled."""
        task = link.name
        if task in self.peers.addresses:
            self.peers.lost(task)
            for session in self.sessions.values():
                session.plans.forget(task)
        for session in list(self.sessions.values()):
            for step in list(session.steps.values()):
                step.lost(task, error)
                if step.link is link and link is not None:
                    step.client_lost(error.message)  # also a partial run, which nobody waits for between its calls
            if session.link is link and link is not None and session.abandoned is None:
                self._miss(session, link.left)

    def _miss(self, session: MasterSession, left: bool) -> None:
        """The client of a session is lost; `left`: it said goodbye, and will not be back."""
        if left:
            self._collect(session, "left")
        else:
            session.abandoned = self.loop.call_later(
                ABANDONED_S, self._collect, session, f"was lost {ABANDONED_S:g} s ago"
            )
            session.plans.rest(True)

    def _collect(self, session: MasterSession, why: str) -> None:
        _log.info("session %s is closed: its client %s", session.handle, why)
        self.close_session(session, errors.CancelledError(None, None, CLOSED), lambda: None)

    def stop(self, done: Callable[[], None], quietly: bool = False) -> set[int]:
        """End every session: the server goes. `quietly`: those of this process are forgotten, and their steps returned.

        `done` once steps have answered, or CLOSE_S passed. A step of which all that is left ends well, does so.
        """
        self.stopped = True
        error = self.gone()
        open_ = [session for session in self.sessions.values() if not quietly or session.link is not None]
        left = [len(open_)]

        def closed() -> None:
            left[0] -= 1
            if left[0] <= 0:
                done()

        for session in open_:
            self.close_session(session, error, closed, Step.leave)
        if not open_:
            done()
        kept = {step.id for session in self.sessions.values() for step in session.steps.values()}
        self.sessions.clear()
        return kept

    def statistics(self) -> dict[str, Any]:
        """Sessions and steps, as plain data."""
        now = self.loop.now()
        return {
            "sessions": [session.statistics(now) for session in self.sessions.values()],
            "steps": {"done": self.steps_run - len(self._by_step), "running": len(self._by_step)},
        }

    def _session(self, handle: str, link: Any) -> MasterSession:
        """The session for which something came over `link`."""
        session = self.sessions.get(handle)
        if session is None:
            raise self._not_found(handle)
        session.heard(link)
        return session

    def _not_found(self, handle: str) -> errors.OpError:
        return self.gone() if self.stopped else not_found(handle, self.peers.where(self.peers.me))

    def gone(self) -> errors.OpError:
        """What those are told who want something of a master that was stopped."""
        return errors.UnavailableError(None, None, f"The server {self.peers.me} was stopped.")
