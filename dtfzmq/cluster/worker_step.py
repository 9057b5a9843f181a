"""One part of a step under way on a worker."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.cluster.tracing import TracedExchange, account
from dtfzmq.cluster.worker_session import RegisteredPart
from dtfzmq.runtime.step import StepContext
from dtfzmq.wire import messages as m

if TYPE_CHECKING:
    from dtfzmq.cluster.worker import Worker


class CallerRunner:
    """Runs a part on the thread that waits for it, if it is free, else on the pool."""

    __slots__ = ("_offload", "_pool")

    def __init__(self, offload: Callable[[Callable[[], None]], bool], pool: Any) -> None:
        self._offload = offload
        self._pool = pool

    def submit(self, fn: Callable[[], None]) -> None:
        """See base.threads.Runner. On the baton, or from the thread that runs the part."""
        if not self._offload(fn):
            self._pool.submit(fn)


class WorkerStep:
    """From RunGraph to its answer. All methods: on the baton."""

    __slots__ = ("_context", "_partials", "_reply", "_trace", "_traced", "_worker", "id", "link", "part", "started")

    def __init__(self, worker: Worker, step: int, part: RegisteredPart, link: Any, reply: Any, trace: int) -> None:
        self._worker = worker
        self.id = step
        self.part = part
        self.link = link
        self.started = worker.loop.now()
        self._reply = reply
        self._trace = trace
        self._traced: TracedExchange | None = None
        self._partials: list[Any] = []
        offload = getattr(reply, "runner", None)
        runner = worker.runner if offload is None else CallerRunner(offload, worker.runner)
        self._context = StepContext(step, worker.loop, runner, None, worker.route, [] if trace & 1 else None)

    def open(self) -> None:
        """Take the step's place in the rendezvous. Raises if the step is over already."""
        exchange = self._worker.rendezvous.open(self.id, self._context.cancel)
        self._context.exchange = exchange
        if self._trace & 1:
            self._context.exchange = self._traced = TracedExchange(exchange, self._worker.task)

    def start(self, feeds: list[Any]) -> None:
        """Run; `feeds` are for the `_Arg` nodes."""
        self.part.plan.start(self._context, feeds, self._done)

    def cancel(self, error: errors.OpError) -> None:
        """End it with `error`; it answers when what runs has ended."""
        self._context.cancel(error)

    def _done(self, fetches: list[Any] | None, error: errors.OpError | None) -> None:
        reply, self._reply = self._reply, None
        if reply is None:
            return
        self._context.close()
        self._worker.step_over(self)
        for partial in self._partials:
            partial.fail(error or errors.InternalError(None, None, "The step ended before this part of it."))
        if error is not None:
            if not error.origin:
                error.origin = self._worker.task
            reply.fail(error)
            return
        trace = account(self._context.trace, self._traced, self.part.nodes, self._trace) if self._trace else None
        reply(m.GraphDone(fetches if fetches is not None else [], trace))

    # -- partial runs --------------------------------------------------------------------------------------------------

    def partial(self, indices: tuple[int, ...], feeds: list[Any], fetches: tuple[int, ...], reply: Any) -> None:
        """Give some feeds, and answer with some fetches once they are there."""
        exchange = self._context.exchange
        keys = self.part.keys
        if exchange is None or not keys:
            raise errors.InvalidArgumentError(None, None, "Must run PartialRunSetup before performing partial runs.")
        for index, value in zip(indices, feeds):
            exchange.send(keys[f"feed_{index}"], value)
        if not fetches:
            reply(m.GraphDone([]))
            return
        self._partials.append(reply)
        taken: list[Any] = [None] * len(fetches)
        left = [len(fetches)]

        def deliver(at: int, value: Any, error: errors.OpError | None) -> None:
            if reply not in self._partials:
                return
            taken[at] = value
            left[0] -= 1
            if error is not None or left[0] == 0:
                self._partials.remove(reply)
                if error is not None:
                    reply.fail(error)
                else:
                    reply(m.GraphDone(taken))

        for at, index in enumerate(fetches):
            exchange.recv(keys[f"fetch_{index}"], functools.partial(deliver, at))
