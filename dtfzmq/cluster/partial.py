"""Partial runs at the master: one step that is fed and fetched in several calls.

The parts of such a step take their feeds by PartialGraph instead of with RunGraph, and give their fetches the same way,
so the executor runs what its feeds allow and waits for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.cluster.asking import checked_limit
from dtfzmq.cluster.fed import check_feeds
from dtfzmq.cluster.plans import StepPlan
from dtfzmq.cluster.session_state import MasterSession
from dtfzmq.cluster.step import Step
from dtfzmq.wire import messages as m

if TYPE_CHECKING:
    from dtfzmq.cluster.master import Master


# So many partial runs of a session that failed are kept, for who asks again.
_FAILED = 16


class _End:
    """The reply of the step as a whole: kept until the last call wants it."""

    def __init__(self, run: PartialRun) -> None:
        self._run = run

    def __call__(self, message: m.StepDone) -> None:
        self._run.ended(None)

    def fail(self, error: errors.OpError) -> None:
        """The step failed."""
        self._run.ended(error)


class PartialRun:
    """One reserved step. `feeds` and `fetches` are what is still to come, by name."""

    def __init__(self, handle: str, plan: StepPlan) -> None:
        self.handle = handle
        self.plan = plan
        self.all_feeds = {name: k for k, name in enumerate(plan.signature[0])}
        self.all_fetches = {name: k for k, name in enumerate(plan.signature[1])}
        self.feeds = set(self.all_feeds)
        self.fetches = set(self.all_fetches)
        self.step: Step | None = None
        self.error: errors.OpError | None = None
        self.over = False
        #: Calls that wait for the end of the step or for its failure.
        self.waiting: list[_Call] = []

    def ended(self, error: errors.OpError | None) -> None:
        """The step as a whole has ended."""
        self.over = True
        self.error = error
        waiting, self.waiting = self.waiting, []
        for call in waiting:
            call.step_ended(error)


class _Call:
    """One call of `partial_run`: done when all parts have given what it fetches, the last one when the step is over."""

    def __init__(self, run: PartialRun, reply: Any, fetches: tuple[str, ...], last: bool) -> None:
        self._run = run
        self._reply = reply
        self._fetched: list[Any] = [None] * len(fetches)
        self._place = {run.all_fetches[name]: i for i, name in enumerate(fetches)}
        self._left = 0
        self._last = last
        self._done = False
        #: The end of its time, if it has a limit.
        self.timer: Any = None

    def begin(self, session: MasterSession, feeds: dict[int, Any]) -> None:
        """Send each part its share of the call."""
        run = self._run
        assert run.step is not None
        shares = []
        for part in run.plan.parts:
            given = [(i, feeds[k]) for i, k in enumerate(part.feeds) if k in feeds]
            wanted = [(i, k) for i, k in enumerate(part.fetches) if k in self._place]
            if given or wanted:
                shares.append((part, given, wanted))
        self._left = len(shares)
        run.waiting.append(self)
        for part, given, wanted in shares:
            message = m.PartialGraph(
                session.handle,
                run.step.id,
                tuple(i for i, _ in given),
                [v for _, v in given],
                tuple(i for i, _ in wanted),
            )
            part.peer.call(message, lambda reply, error, wanted=wanted: self._answered(wanted, reply, error))
        if not shares:
            self._check()

    def _answered(self, wanted: list[tuple[int, int]], reply: Any, error: BaseException | None) -> None:
        if self._done:
            return
        if error is not None:
            if self._run.step is not None and not self._run.over:
                self._run.step.fail(errors.wrap(error))
            else:
                self.step_ended(errors.wrap(error))
            return
        for (_, k), value in zip(wanted, reply.fetches):
            self._fetched[self._place[k]] = value
        self._left -= 1
        self._check()

    def _check(self) -> None:
        if self._done or self._left > 0 or self._last and not self._run.over:
            return
        self._end()
        if self in self._run.waiting:
            self._run.waiting.remove(self)
        self._reply(m.StepDone(self._fetched))

    def _end(self) -> None:
        self._done = True
        if self.timer is not None:
            self.timer.cancel()

    def late(self, limit: float) -> None:
        """Its time is over."""
        step = self._run.step
        assert step is not None
        step.fail(
            errors.DeadlineExceededError(
                None,
                None,
                f"Operation timed out after {limit:.3g} s; the partial run was cancelled. Unfinished parts: "
                f"{', '.join(step.unfinished())}.",
            )
        )

    def cancelled(self) -> None:
        """Nobody waits for it any more."""
        self._end()
        if self._run.step is not None:
            self._run.step.abandoned()

    def step_ended(self, error: errors.OpError | None) -> None:
        """The step is over, well or not."""
        if self._done:
            return
        if error is not None:
            self._end()
            self._reply.fail(error)
        else:
            self._check()


class PartialRuns:
    """The partial runs of a master's sessions. All methods: on the baton."""

    def __init__(self, master: Master) -> None:
        self._master = master
        self._count = 0

    def setup(self, session: MasterSession, link: Any, message: m.PartialRunSetup, reply: Any) -> None:
        """Plan the whole of it, start its parts, which wait for their feeds, and answer with a handle."""
        master = self._master
        if not message.fetches and not message.targets:
            raise errors.InvalidArgumentError(None, None, "Must specify at least one target to fetch or execute.")
        self._count += 1
        handle = f"{session.handle}:{self._count}"
        signature = (message.feeds, message.fetches, message.targets)

        limit = checked_limit(message.timeout)
        timer: Any = None
        over: list[bool] = []

        def end() -> None:
            over.append(True)
            if timer is not None:
                timer.cancel()

        def late() -> None:
            end()
            reply.fail(job.late(limit))

        reply.on_cancel = end

        def ready(plan: StepPlan | None, error: errors.OpError | None) -> None:
            if over:
                return
            end()
            if plan is None:
                assert error is not None
                reply.fail(error)
                return
            if session.closed:
                reply.fail(errors.CancelledError(None, None, "The session was closed."))
                return
            run = PartialRun(handle, plan)
            failed = [known for known, old in session.partials.items() if old.error is not None]
            for known in failed[:-_FAILED]:
                del session.partials[known]
            session.partials[handle] = run
            run.step = master.launch(session, plan, -self._count, link, _End(run), [None] * len(message.feeds), 0.0, 0)
            reply(m.PartialRunReady(handle))

        job = master.plan(session, signature, ready, partial=True)
        if limit and not over:
            timer = master.loop.call_later(limit, late)

    def step(self, session: MasterSession, link: Any, message: m.PartialRunStep, reply: Any) -> None:
        """Feed and fetch a part of it. A call that runs out of time, or is cancelled, ends the whole."""
        limit = checked_limit(message.timeout)
        run: PartialRun | None = session.partials.get(message.partial)
        if run is None:
            raise errors.InvalidArgumentError(None, None, "Must run PartialRunSetup before performing partial runs.")
        if run.over and run.error is not None:
            session.partials.pop(message.partial, None)
            raise run.error
        self._check(session, run, message)
        run.feeds -= set(message.names)
        run.fetches -= set(message.fetches)
        last = not run.feeds and not run.fetches
        if last:
            session.partials.pop(message.partial, None)
        feeds = {run.all_feeds[name]: value for name, value in zip(message.names, message.feeds)}
        call = _Call(run, reply, message.fetches, last)
        reply.on_cancel = call.cancelled
        if limit:
            call.timer = self._master.loop.call_later(limit, call.late, limit)
        call.begin(session, feeds)

    def close(self, session: MasterSession, error: errors.OpError) -> None:
        """The session ends: so do its partial runs, whose steps the caller cancels."""
        session.partials.clear()

    def _check(self, session: MasterSession, run: PartialRun, message: m.PartialRunStep) -> None:
        names, values = message.names, message.feeds
        if len(names) != len(values) or any(value is None for value in values):
            raise errors.InvalidArgumentError(None, None, f"{len(names)} feeds are named, and {len(values)} came.")
        twice = {name for of in (names, message.fetches) for name in of if of.count(name) > 1}
        if twice:
            raise errors.InvalidArgumentError(None, None, f"{min(twice)} is named more than once.")
        for name in names:
            if name not in run.all_feeds:
                raise errors.InvalidArgumentError(
                    None, None, f"The feed {name} was not specified in partial_run_setup."
                )
            if name not in run.feeds:
                raise errors.InvalidArgumentError(None, None, f"The feed {name} has already been fed.")
        check_feeds(values, [run.plan.feeds[run.all_feeds[name]] for name in names])
        for name in message.fetches:
            if name not in run.all_fetches:
                raise errors.InvalidArgumentError(
                    None, None, f"The fetch {name} was not specified in partial_run_setup."
                )
            if name not in run.fetches:
                raise errors.InvalidArgumentError(None, None, f"The fetch {name} has already been fetched.")
        self._check_reach(session, run, message)

    def _check_reach(self, session: MasterSession, run: PartialRun, message: m.PartialRunStep) -> None:
        """Every fetch must follow from what was fed, or it would wait for ever."""
        missing = {_endpoint(session, name) for name in run.feeds - set(message.names)}
        fed = {_endpoint(session, name) for name in run.all_feeds} - missing
        for name in message.fetches:
            seen: set[tuple[int, int]] = set()
            stack = [_endpoint(session, name)]
            while stack:
                edge = stack.pop()
                if edge in seen or edge in fed:
                    continue
                seen.add(edge)
                if edge in missing:
                    raise errors.InvalidArgumentError(
                        None, None, f"Fetch {name} can't be computed from the feeds that have been fed so far."
                    )
                node = session.nodes[edge[0]]
                stack.extend(node.inputs)
                stack.extend((source, -1) for source in node.control)


def _endpoint(session: MasterSession, name: str) -> tuple[int, int]:
    op, _, out = name.partition(":")
    return session.index[op], int(out or 0)
