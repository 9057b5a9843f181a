"""One step under way at its master: all parts told at once, answers collected, the first error that is no echo wins."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from dtfzmq.base import errors
from dtfzmq.base.loop import Loop, Timer
from dtfzmq.cluster.plans import PlanPart, StepPlan
from dtfzmq.wire import messages as m

_log = logging.getLogger("dtfzmq")

# After the first error the client's answer waits this long for the parts that still run, so that what it does next
# meets no remains of this step; a part that cannot be stopped, or is out of reach, is not waited for longer.
GRACE_S = 0.25
# Closing a session, or stopping its master, waits this long for steps that cannot be stopped.
CLOSE_S = 1.0
# So a client waits longer than the limit it gave for what its master, which is told the same limit later, has to say of
# it: for all of the above and a round trip on a busy machine. Only a master that is silent itself is then blamed.
ACCOUNT_WITHIN_S = GRACE_S + 0.5


class Step:
    """A run from RunGraph to the client's answer. All methods: on the baton.

    `reply` is answered once. `over(step)` is called once, when all parts have answered or are given up.
    """

    __slots__ = (
        "_answers",
        "_expiry",
        "_fetched",
        "_grace",
        "_leaving",
        "_loop",
        "_over",
        "_owner",
        "_pending",
        "_reply",
        "_traces",
        "error",
        "id",
        "link",
        "parts",
        "plan",
        "run",
        "started",
    )

    def __init__(
        self,
        loop: Loop,
        step: int,
        run: int,
        plan: StepPlan,
        link: Any,
        reply: Any,
        over: Callable[[Step], None],
        owner: str,
    ) -> None:
        self._loop = loop
        self.id = step
        self.run = run
        self.plan = plan
        self.parts = parts = plan.parts
        self.link = link
        self.error: errors.OpError | None = None
        self.started = loop.now()
        self._reply = reply
        self._over: Callable[[Step], None] | None = over
        self._owner = owner
        self._pending = len(parts)
        self._answers = [False] * len(parts)
        self._fetched: list[Any] = [None] * plan.fetches
        self._traces: list[dict[str, Any]] = []
        self._expiry: Timer | None = None
        self._grace: Timer | None = None
        self._leaving: errors.OpError | None = None

    def start(self, session: str, feeds: list[Any], timeout: float, trace: int) -> None:
        """Send RunGraph to all parts, the own worker's last: it may run at once. No feeds: those of a partial run."""
        if timeout > 0:
            self._expiry = self._loop.call_later(timeout, self._expire)
        held = self.link is not None and self.link.down
        own = -1
        for i, part in enumerate(self.parts):
            if part.local:
                own = i
                continue
            given = [feeds[k] for k in part.feeds] if feeds else []
            message = m.RunGraph(session, part.handle, self.id, given, trace, held)
            part.peer.call(message, lambda reply, error, i=i: self._answered(i, reply, error))
        if own >= 0:
            part = self.parts[own]
            given = [feeds[k] for k in part.feeds] if feeds else []
            message = m.RunGraph(session, part.handle, self.id, given, trace, held)
            caller = getattr(self._reply, "offload", None)
            part.peer.call(message, lambda reply, error: self._answered(own, reply, error), runner=caller)

    def _answered(self, i: int, reply: Any, error: BaseException | None) -> None:
        if self._answers[i]:
            return
        self._answers[i] = True
        self._pending -= 1
        if error is not None:
            self._failed(self.parts[i], errors.wrap(error))
        elif self.error is None:
            fetched = self._fetched
            for k, value in zip(self.parts[i].fetches, reply.fetches):
                fetched[k] = value
            if reply.trace is not None:
                self._traces.append(reply.trace)
        if self._pending == 0:
            self._end()

    def _failed(self, part: PlanPart, error: errors.OpError) -> None:
        if not error.origin:
            error.origin = part.task
        if self.error is not None:
            if self.error.derived and not error.derived:
                self.error = self._prefixed(error)
            return
        if self._leaving is not None and (error.derived or (not part.local and isinstance(error, errors.AbortedError))):
            error = self._leaving  # parts elsewhere were cancelled, and their session is gone
        self.error = self._prefixed(error)
        self._stop(error)

    def _prefixed(self, error: errors.OpError) -> errors.OpError:
        if error.origin and error.origin != self._owner and not error.message.startswith("From /job:"):
            return errors.prefixed(error, f"From {error.origin}:\n")
        return error

    def fail(self, error: errors.OpError) -> None:
        """End the step with `error`, which arose outside of its parts: cancelled, late, closed, a lost push."""
        if self._over is None:
            return
        if self.error is None or self.error.derived:
            self.error = error
        self._stop(error)

    def leave(self, error: errors.OpError) -> None:
        """The task of its master is stopped: end with `error`, unless all that is left of it still ends well.

        Parts elsewhere are cancelled, in vain if they have answered; the own worker winds its part up by itself.
        """
        if self._over is not None and self._grace is None:
            self._leaving = error
            self._grace = self._loop.call_later(CLOSE_S, self._give_up)
            self._cancel(error, own=False)

    def abandoned(self) -> None:
        """The client cancelled the run, or is gone."""
        self.fail(errors.CancelledError(None, None, "The run was cancelled by its caller, or its caller is gone."))

    def client_lost(self, why: str) -> None:
        """The client is lost. It may be back, and ask what became of a partial run."""
        text = f"The run was ended, since its client was lost: {why}"
        self.fail(errors.UnavailableError(None, None, text))

    def hold(self, held: bool) -> None:
        """The client is out of reach, or in reach again."""
        message = m.HoldStep(self.id, held)
        for i, part in enumerate(self.parts):
            if not self._answers[i]:
                part.peer.tell(message)

    def _stop(self, error: errors.OpError) -> None:
        """Cancel the parts that have not answered, and answer the client when they have, or soon."""
        if self._grace is not None:
            return
        self._grace = self._loop.call_later(GRACE_S, self._give_up)
        self._cancel(error, own=True)

    def _cancel(self, error: errors.OpError, own: bool) -> None:
        """Tell parts that have not answered; `own`: that of the own worker, too."""
        told = errors.to_wire(error)
        told["derived"] = True
        told["traceback"] = ""
        message = m.CancelStep(self.id, told)
        for i, part in enumerate(self.parts):
            if not self._answers[i] and (own or not part.local):
                part.peer.tell(message)

    def lost(self, task: str, error: errors.OpError) -> None:
        """The task is gone: its part will never answer, and what it pushed last may be gone with it."""
        for i, part in enumerate(self.parts):
            if part.task == task:
                if self._answers[i]:
                    self.fail(error)
                else:
                    self._answered(i, None, error)

    def _expire(self) -> None:
        waiting = ", ".join(part.task for i, part in enumerate(self.parts) if not self._answers[i])
        took = self._loop.now() - self.started
        self.fail(
            errors.DeadlineExceededError(
                None,
                None,
                f"Operation timed out after {took:.3g} s; the step was cancelled. Unfinished parts: {waiting}.",
            )
        )

    def _give_up(self) -> None:
        if self.error is None:
            self.error = self._leaving
        self._end()

    def _end(self) -> None:
        over, self._over = self._over, None
        if over is None:
            return
        for timer in (self._expiry, self._grace):
            if timer is not None:
                timer.cancel()
        reply, self._reply = self._reply, None
        if self.error is not None:
            reply.fail(self.error)
            clean = m.CleanupGraph(self.id)
            for part in self.parts:
                part.peer.tell(clean)
        else:
            metadata = merged(self._traces) if self._traces else None
            fetched, self._fetched = self._fetched, []
            reply(m.StepDone(fetched, metadata))
        over(self)

    def unfinished(self) -> list[str]:
        """Tasks whose parts have not answered."""
        return [part.task for i, part in enumerate(self.parts) if not self._answers[i]]


def merged(traces: list[dict[str, Any]]) -> dict[str, Any]:
    """The accounts of several parts as one."""
    whole: dict[str, Any] = {"ops": [], "graphs": [], "bytes": {}}
    for trace in traces:
        whole["ops"].extend(trace.get("ops", ()))
        whole["graphs"].extend(trace.get("graphs", ()))
        for task, count in trace.get("bytes", {}).items():
            whole["bytes"][task] = whole["bytes"].get(task, 0) + count
    return whole
