"""One part of a step under way on a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.cluster.tracing import TracedExchange, account
from dtfzmq.cluster.worker_session import RegisteredPart
from dtfzmq.runtime.executor import Run
from dtfzmq.runtime.feeds import Feeds
from dtfzmq.runtime.plan import Plan
from dtfzmq.runtime.step import StepContext
from dtfzmq.wire import messages as m

if TYPE_CHECKING:
    from dtfzmq.cluster.worker import Worker


def is_stranger(link: Any, tasks: Mapping[str, int]) -> bool:
    """Whether a link leads to another process than the incarnation of its task that a master met, as far as known."""
    known: int = link.incarnation
    return known != 0 and tasks.get(link.name, known) != known


def strange(me: str, link: Any) -> errors.OpError:
    """The error of what would go to a stranger."""
    return errors.AbortedError(
        None,
        None,
        f"{me} reaches incarnation {link.incarnation:016x} as {link.name}, process {link.peer.place()}, and the "
        f"session's master another one: {link.name} was restarted, or their cluster specifications differ. Give all "
        "tasks the same one, end what is not part of it, and open a new session.",
    )


class CallerRunner:
    """Runs a part on the thread that waits for it, if it is free, else on the pool.

    A handler of a signal may raise there, amid a kernel: the run has failed then, and ends on the pool.
    """

    __slots__ = ("_offload", "_pool")

    def __init__(self, offload: Callable[[Callable[[], None]], bool], pool: Any) -> None:
        self._offload = offload
        self._pool = pool

    def submit(self, fn: Callable[[], None]) -> None:
        """See base.threads.Runner. On the baton."""

        def work() -> None:
            try:
                fn()
            except BaseException:
                self._pool.submit(fn)
                raise

        if not self._offload(work):
            self._pool.submit(fn)


class WorkerStep:
    """From RunGraph to its answer: one run per device, answered when all have ended. All methods: on the baton."""

    __slots__ = (
        "_client_away",
        "_context",
        "_error",
        "_feeds",
        "_given",
        "_master_away",
        "_reply",
        "_results",
        "_trace",
        "_traced",
        "_unfinished",
        "_wanted",
        "_worker",
        "id",
        "link",
        "part",
        "started",
    )

    def __init__(self, worker: Worker, step: int, part: RegisteredPart, link: Any, reply: Any, trace: int) -> None:
        self._worker = worker
        self.id = step
        self.part = part
        self.link = link
        self.started = worker.loop.now()
        self._reply = reply
        self._trace = trace
        self._traced: TracedExchange | None = None
        self._error: errors.OpError | None = None
        self._results: list[Any] = [None] * part.fetches
        self._unfinished = len(part.plans)
        self._client_away = self._master_away = False
        # Of a partial run: its feeds, its fetches by index, and who waits for which of them.
        self._feeds: Feeds | None = None
        self._given: dict[int, Any] = {}
        self._wanted: list[tuple[tuple[int, ...], Any]] = []
        offload = getattr(reply, "runner", None)
        self._context = StepContext(step, worker.loop, worker.runner, None, self._route, [] if trace & 1 else None)
        if offload is not None:
            self._context.caller = CallerRunner(offload, worker.runner)
        self._context.member = worker.task if link is None else link.peer.name

    def open(self) -> None:
        """Take the step's place in the rendezvous. Raises if the step is over already."""
        exchange = self._worker.rendezvous.open(self.id, self._context.cancel)
        self._context.exchange = exchange
        if self._trace & 1:
            self._context.exchange = self._traced = TracedExchange(exchange, self._worker.task)

    def start(self, feeds: list[Any]) -> None:
        """Run; `feeds` are for the `_Arg` nodes, or come later in a partial run."""
        part = self.part
        given: list[Any] | Feeds = feeds
        if part.partial:
            given = self._feeds = Feeds()
        for plan in part.plans:
            Run(plan, self._context, given, self._run_done(plan), self._fetched if part.partial else None).start()

    def _route(self, task: str) -> Any:
        """What carries pushes to `task`. Raises AbortedError if that is not the process that the master met."""
        link = self._worker.route(task)
        if is_stranger(link, self.part.tasks):
            raise strange(self._worker.task, link)
        return link

    def _run_done(self, plan: Plan) -> Callable[[list[Any] | None, errors.OpError | None], None]:
        def done(results: list[Any] | None, error: errors.OpError | None) -> None:
            if error is not None:
                if self._error is None or self._error.derived and not error.derived:
                    self._error = error
            else:
                for (_, index), value in zip(plan.fetches, results or ()):
                    self._results[index] = value
            self._unfinished -= 1
            self._end_if_over()

        return done

    def _end_if_over(self) -> None:
        """End when all runs have; a partial run that went well stays until its fetches were asked for."""
        if self._unfinished == 0 and self._reply is not None and (self._error is not None or not self._given):
            self._end()

    def cancel(self, error: errors.OpError) -> None:
        """End it with `error`; it answers when what runs has ended."""
        self._context.cancel(error)
        if self._unfinished == 0 and self._reply is not None:
            self._error = error
            self._end()

    def wind_up(self, error: errors.OpError) -> None:
        """End it with `error` if anything in it waits, or ever does; what computes ends as it will."""
        self._context.wind_up(error)
        exchange = self._worker.rendezvous.find(self.id)
        if exchange is not None:
            exchange.others_gone(self._worker.task, error)
        if self._unfinished == 0 and self._reply is not None:
            self._error = error
            self._end()

    def hold(self, held: bool) -> None:
        """Its client is out of reach, or in reach again: whether anything is taken for it from what outlives steps."""
        self._client_away = held
        self._context.hold(held or self._master_away)

    def hold_for_master(self, held: bool) -> None:
        """As `hold`, of its master."""
        self._master_away = held
        self._context.hold(held or self._client_away)

    def _end(self) -> None:
        self._worker.step_over(self)
        reply, self._reply = self._reply, None
        error = self._error
        waiting, self._wanted = self._wanted, []
        for _, partial in waiting:
            partial.fail(error or errors.InternalError(None, None, "The step ended before this part of it."))
        if error is not None:
            if not error.origin:
                error.origin = self._worker.task
            reply.fail(error)
            return
        trace = account(self._context.trace, self._traced, self.part.nodes, self._trace) if self._trace else None
        results, self._results = self._results, []
        reply(m.GraphDone(results, trace))

    # -- partial runs --------------------------------------------------------------------------------------------------

    def partial(self, indices: tuple[int, ...], feeds: list[Any], fetches: tuple[int, ...], reply: Any) -> None:
        """Give some feeds, and answer with some fetches once they are there."""
        if self._feeds is None:
            raise errors.InvalidArgumentError(None, None, "Must run PartialRunSetup before performing partial runs.")
        self._wanted.append((fetches, reply))
        for index, value in zip(indices, feeds):
            self._feeds.put(index, value)
        self._serve()

    def _fetched(self, index: int, value: Any) -> None:
        self._given[index] = value
        self._serve()

    def _serve(self) -> None:
        for item in [item for item in self._wanted if all(index in self._given for index in item[0])]:
            if item in self._wanted:
                self._wanted.remove(item)
                item[1](m.GraphDone([self._given.pop(index) for index in item[0]]))
        self._end_if_over()
