"""Runs plans: one run is one plan in one step, executed by one thread at a time, wherever it became ready.

A run is suspended while everything in it waits; whoever delivers resumes it. Short plans, which never compute for long
before they wait again, run on the baton, brief ones on the thread that waits for the step, if one does; all others,
those not known yet, and those that are given larger inputs than before, on the step's runner. What a run sends and
receives goes to the exchange and the links from the baton, together, when it suspends or ends.
"""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import clock, denormals, errors
from dtfzmq.base.signals import deferral
from dtfzmq.runtime import plan as code
from dtfzmq.runtime.async_done import AsyncDone
from dtfzmq.runtime.cells import Busy, thread_state
from dtfzmq.runtime.feeds import Feeds
from dtfzmq.runtime.flow import End, Frame, derived
from dtfzmq.runtime.pace import LIMIT_S, Pace
from dtfzmq.runtime.plan import Plan, interpret, interpret_traced
from dtfzmq.runtime.step import StepContext
from dtfzmq.runtime.values import as_feed, lean

# On the runner, what was sent leaves after this long even if the run goes on.
FLUSH_S = 200e-6

Done = Callable[[list[Any] | None, errors.OpError | None], None]
OnFetch = Callable[[int, Any], None]


def _strikes_here() -> bool:
    """True on the thread where signals strike. Elsewhere what is no Exception is a kernel's own, as `sys.exit()`."""
    return threading.current_thread() is threading.main_thread()


class Run:
    """One plan in one step. `start` on the baton; `done(fetches, error)` is called once, on the baton.

    On an error `done` comes when everything that was started has ended. `feeds` is a list, or Feeds for a partial
    plan, of which `on_fetch(index, value)` hears each fetch, on the baton.
    """

    def __init__(
        self, plan: Plan, ctx: StepContext, feeds: Sequence[Any] | Feeds, done: Done, on_fetch: OnFetch | None = None
    ) -> None:
        self.plan = plan
        self.ctx = ctx
        self.feeds = feeds
        self.done: Done | None = done
        self.on_fetch = on_fetch
        self.error: errors.OpError | None = None
        self.results: list[Any] | None = None
        self._interpret = interpret if ctx.trace is None else interpret_traced
        self._lock = threading.Lock()
        self._active = True
        self._arrived: list[tuple[Frame, int, Any, errors.OpError | None]] = []
        # What arrived and is not taken in yet; only the thread that executes the run looks.
        self._inbox: collections.deque[tuple[Frame, int, Any, errors.OpError | None]] = collections.deque()
        self._work: collections.deque[tuple[Frame, int]] = collections.deque()
        self._cursor: tuple[Frame, int, int, int] | None = None
        self._outstanding = 0
        self._draining = 0
        self._on_baton = False
        # What waits for the baton.
        self._sends: list[tuple[Any, str, Any]] = []
        self._receives: list[tuple[str, Frame | None, int, Any]] = []
        self._fetched: list[tuple[int, Any]] = []
        # Calls of `_dispatch_and_end` that are on their way: the run has not ended before they came.
        self._undispatched = 0
        self._flushed_s = 0.0
        # When this run is to leave the baton, if it is there.
        self._until = 0.0
        self._pace = Pace(plan)
        self._brief = plan.brief

    def start(self) -> None:
        """Begin; `done` may come before this returns."""
        feeds = self.feeds
        args = [] if isinstance(feeds, Feeds) else [as_feed(value) for value in feeds]
        for value in args:
            self._pace.weigh(value)
        self._brief &= not self._pace.large
        if self.plan.copy_in is not None:
            args = list(map(self.plan.copy_in, args))
        self.open(self.plan, args, 0, 0, self._ended)
        self._go_on()

    # -- called by the interpreter, in the run's own thread -----------------------------------------------------------

    def send(
        self, frame: Frame, value: Any, copy: Callable[[Any], Any] | None, what: tuple[str, str, str | None]
    ) -> None:
        """Put a value on its way."""
        prefix, key, task = what
        if frame.number:
            key = f"{prefix}{frame.number}:{frame.iteration}"
        if copy is not None:
            value = copy(value)
        self._sends.append((task, key, value))
        if not self._on_baton:
            now = clock.perf()
            if now - self._flushed_s > FLUSH_S:
                self._flushed_s = now
                sends, self._sends = self._sends, []
                with self._lock:
                    self._undispatched += 1
                self.ctx.loop.call_soon(self._dispatch_and_end, sends, [], [])

    def fetched(self, index: int, value: Any) -> None:
        """A fetch of a partial run is there."""
        copy = self.plan.copy_out
        self._fetched.append((index, value if copy is None else copy(value)))

    def begin(self, frame: Frame, kind: int, fn: Any, inputs: list[Any], number: int) -> None:
        """Start an asynchronous op."""
        if kind == code.FLOW:
            fn.begin(self, frame, inputs, functools.partial(self._complete, frame, number))
        else:
            done = AsyncDone(self, frame, number)
            self._outstanding += 1
            try:
                fn(self.ctx, inputs, done)
            except BaseException:
                if done.run is not None:
                    done.run = None
                    self._outstanding -= 1
                raise

    def open(self, plan: Plan, args: list[Any], number: int, iteration: int, end: End) -> None:
        """Start a frame. See flow.Host."""
        frame = Frame(self, plan, number, iteration, end)
        frame.slots = slots = plan.template.copy()
        for slot, index in plan.feeds:
            slots[slot] = args[index]
        frame.waits = plan.waits.copy()
        frame.left = len(plan.waits) + len(plan.asyncs)
        if plan.receives:
            self._outstanding += len(plan.receives)
            for prefix, key, async_number, copy in plan.receives:
                if number and prefix:
                    key = f"{prefix}{number}:{iteration}"
                self._receives.append((key, frame, async_number, copy))
        for prefix, async_number, window in plan.windows:
            if iteration < window:
                frame.left -= 1
            else:
                self._outstanding += 1
                self._receives.append((f"{prefix}{number}:{iteration - window}", frame, async_number, None))
        for segment in plan.ready:
            self._work.append((frame, segment))

    def drain(self, plan: Plan, number: int, iterations: int) -> None:
        """Take in the signals of a loop's last iterations, which held up nothing: the run ends after they came."""
        for prefix, _, window in plan.windows:
            for iteration in range(max(0, iterations - window), iterations):
                self._draining += 1
                self._receives.append((f"{prefix}{number}:{iteration}", None, 0, None))

    def _drained(self, value: Any, error: errors.OpError | None) -> None:
        with self._lock:
            self._draining -= 1
        self._end_if_over()

    # -- arrival ------------------------------------------------------------------------------------------------------

    def arrive(self, frame: Frame, number: int, value: Any, error: errors.OpError | None, on_baton: bool) -> None:
        """An asynchronous op has ended. Any thread; `on_baton` says that this one holds the baton."""
        with self._lock:
            self._arrived.append((frame, number, value, error))
            if self._active:
                return
            self._active = True
        if on_baton:
            self._go_on()
        else:
            self.ctx.loop.call_soon(self._go_on)

    def _delivered(self, frame: Frame, number: int, copy: Any, value: Any, error: errors.OpError | None) -> None:
        if error is None and copy is not None:
            value = copy(value)
        self.arrive(frame, number, lean(value), error, True)

    # -- execution ----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Execute what is ready, here or on the runner. On the baton, by whoever set the run active."""
        if self._pace.large or not self.plan.short:
            self._flush()
            if self._anything_to_compute():
                self._leave_baton()
                return
        self._on_baton = True
        self._until = clock.perf() + LIMIT_S
        before, thread_state.may_not_wait = thread_state.may_not_wait, True
        try:
            moved = self._run_until_idle()
        finally:
            thread_state.may_not_wait = before
            self._on_baton = False
        if moved:
            self._flush()
            self._leave_baton()

    def _leave_baton(self) -> None:
        caller = self.ctx.caller if self._brief and not self._pace.large else None
        (caller or self.ctx.runner).submit(self._run_off_baton)

    def _anything_to_compute(self) -> bool:
        return bool(self._work or self._inbox or self._arrived) or self._cursor is not None

    def _run_off_baton(self) -> None:
        self._flushed_s = clock.perf()
        self._run_until_idle()

    def _run_until_idle(self) -> bool:
        """Execute until everything waits. True: it must go on off the baton, since a cell was busy or time is up."""
        with np.errstate(all="ignore"):
            while True:
                if self._compute():
                    return True
                if self._on_baton:
                    self._flush()
                    with self._lock:
                        if not self._arrived and not self._work:
                            self._active = False
                            break
                    if clock.perf() > self._until:
                        return True
                    continue
                with self._lock:
                    if self._arrived:
                        continue
                    sends, self._sends = self._sends, []
                    receives, self._receives = self._receives, []
                    fetched, self._fetched = self._fetched, []
                    call = bool(sends or receives or fetched or self._is_over())
                    self._undispatched += call
                    self._active = False
                if call:
                    self.ctx.loop.call_soon(self._dispatch_and_end, sends, receives, fetched)
                return False
        self._end_if_over()
        return False

    def _compute(self) -> bool:
        """Execute what is ready, and take the time. True: the rest of it goes on off the baton."""
        on_baton = self._on_baton
        began = 0.0 if on_baton else clock.perf()
        started = clock.cpu()
        floats = denormals.flush()
        try:
            while True:
                try:
                    return self._drain(self._until if on_baton else None)
                except Busy:
                    return True
                except BaseException as exc:
                    self._fail(errors.internal(exc))
                    if not isinstance(exc, Exception) and not self._on_baton and _strikes_here():
                        raise  # struck amid a kernel: whoever lent this thread has the run go on, to its end, elsewhere
        finally:
            denormals.restore(floats)
            self._pace.stretch(began, started, on_baton)

    def _drain(self, limit: float | None) -> bool:
        """Execute all that is ready, at most until `limit`; True if that came first."""
        work = self._work
        while True:
            if self._cursor is not None:
                frame, segment, chunk, at = self._cursor
                self._cursor = None
                self._execute(frame, segment, chunk, at)
            if self._pace.large and limit is not None and work:
                return True
            while work:
                frame, segment = work.popleft()
                self._execute(frame, segment, 0, 0)
                if limit is not None and work and clock.perf() > limit:
                    return True
            with self._lock:
                self._inbox.extend(self._arrived)
                self._arrived.clear()
            if not self._inbox:
                return False
            while self._inbox:
                frame, number, value, error = self._inbox.popleft()
                self._outstanding -= 1
                if error is not None:
                    self._fail(self._named(error, frame, number))
                elif self.error is None:
                    self._complete(frame, number, value)

    def _execute(self, frame: Frame, segment: int, chunk: int, at: int) -> None:
        plan, ctx, slots, run = frame.plan, self.ctx, frame.slots, self._interpret
        assert plan is not None
        chunks = plan.chunks[segment] if self._brief else plan.small_chunks(segment)
        for index in range(chunk, len(chunks)):
            if ctx.error is not None:
                if self.error is None:
                    self._fail(derived(ctx.error))
                return
            if deferral.struck and not self._on_baton:
                deferral.hear()
            instructions = chunks[index]
            if at:
                instructions = instructions[at:]
            try:
                run(instructions, slots, frame)
            except Busy:
                done = next(k for k, instruction in enumerate(chunks[index]) if instruction is frame.at)
                self._cursor = frame, segment, index, done
                raise
            at = 0
        self._wake(frame, plan.followers[segment])
        frame.left -= 1
        if frame.left == 0:
            self._close(frame)

    def _complete(self, frame: Frame, number: int, value: Any) -> None:
        """The value of asynchronous op `number` of `frame` is there: what waited for it alone is ready."""
        plan = frame.plan
        assert plan is not None
        where = plan.asyncs[number][0]
        if type(where) is tuple:
            if where:
                for slot, part in zip(where, value):
                    if slot >= 0:
                        frame.slots[slot] = part
                        self._pace.weigh(part)
        elif where >= 0:
            frame.slots[where] = value
            self._pace.weigh(value)
        self._wake(frame, plan.dependents[number])
        frame.left -= 1
        if frame.left == 0:
            self._close(frame)

    def _wake(self, frame: Frame, segments: tuple[int, ...]) -> None:
        waits = frame.waits
        for segment in segments:
            waits[segment] -= 1
            if waits[segment] == 0:
                self._work.append((frame, segment))

    def _close(self, frame: Frame) -> None:
        plan, slots = frame.plan, frame.slots
        assert plan is not None and frame.end is not None
        frame.end([slots[slot] for slot, _ in plan.fetches])

    def _ended(self, results: list[Any]) -> None:
        copy = self.plan.copy_out
        self.results = results if copy is None else list(map(copy, results))

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _named(self, error: errors.OpError, frame: Frame, number: int) -> errors.OpError:
        """A copy, since several receivers may have been given the same error, with the op's name."""
        assert frame.plan is not None
        own = errors.from_wire(errors.to_wire(error))
        own.derived |= error is self.ctx.error
        return errors.with_node(own, frame.plan.asyncs[number][1])

    def _fail(self, error: errors.OpError) -> None:
        if not error.origin:
            error.origin = self.plan.task
        # A traceback holds the frames it went through, and with them values: leases on variables.
        error.__traceback__ = None
        if error.__cause__ is not None:
            error.__cause__.__traceback__ = None
        if self.error is None or (self.error.derived and not error.derived):
            self.error = error
        self._work.clear()
        self._cursor = None
        self.ctx.cancel(error)

    def _is_over(self) -> bool:
        if self.error is not None and self._outstanding == 0:
            return True
        return self.results is not None and self._draining == 0

    def _end_if_over(self) -> None:
        done = self.done
        if done is None or self._active or self._undispatched or not self._is_over():
            return
        self.done = None
        self.feeds = ()
        if self.error is not None:
            root = self.ctx.error
            done(None, root if self.error.derived and root is not None and not root.derived else self.error)
            return
        self._pace.teach()
        results, self.results = self.results, []
        done(results, None)

    # -- the baton ----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        while self._sends or self._receives or self._fetched:
            sends, self._sends = self._sends, []
            receives, self._receives = self._receives, []
            fetched, self._fetched = self._fetched, []
            self._dispatch(sends, receives, fetched)

    def _dispatch_and_end(self, sends: list[Any], receives: list[Any], fetched: list[Any]) -> None:
        self._dispatch(sends, receives, fetched)
        with self._lock:
            self._undispatched -= 1
        self._end_if_over()

    def _dispatch(self, sends: list[Any], receives: list[Any], fetched: list[Any]) -> None:
        ctx = self.ctx
        try:
            self._push(sends)
            if self.on_fetch is not None:
                for index, value in fetched:
                    self.on_fetch(index, value)
        except Exception as exc:
            error = errors.internal(exc)
            self.error = self.error or error
            ctx.cancel(error)
        for key, frame, number, extra in receives:
            if frame is None:
                assert ctx.exchange is not None
                ctx.exchange.recv(key, self._drained)
            elif key:
                assert ctx.exchange is not None
                ctx.exchange.recv(key, functools.partial(self._delivered, frame, number, extra))
            else:
                assert isinstance(self.feeds, Feeds)
                self.feeds.await_in(ctx, extra, AsyncDone(self, frame, number), self.plan.copy_in)

    def _push(self, sends: list[Any]) -> None:
        ctx = self.ctx
        away: dict[str, list[tuple[str, Any]]] = {}
        for task, key, value in sends:
            if type(value) is np.ndarray:
                value.flags.writeable = False
            if task is not None:
                away.setdefault(task, []).append((key, value))
            elif ctx.exchange is not None:
                ctx.exchange.send(key, value)
        for task, items in away.items():
            assert ctx.route is not None
            ctx.route(task).push(ctx.step, items)
