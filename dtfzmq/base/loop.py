"""The baton: one thread at a time runs the core of a process, and any thread that waits may be the one.

All state of links, rendezvous, workers and masters is touched only by the thread that holds a loop's baton, so none of
it needs a lock. An I/O thread holds the baton when no one else wants it. A caller that waits for an answer takes the
baton over and polls the sockets itself, which saves two switches of thread in each round trip.

Rules: code that runs on the baton never blocks; long work goes to a pool and comes back through ``call_soon``.
"""

from __future__ import annotations

import collections
import heapq
import itertools
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from dtfzmq.base import clock, errors, signals, threads
from dtfzmq.base.completion import Completion
from dtfzmq.base.gate import Gate
from dtfzmq.base.poller import IdlePoller, Poller
from dtfzmq.base.signals import deferral

_log = logging.getLogger("dtfzmq")

# A pure client's I/O thread leaves the sockets alone for this long after a caller, since the next caller takes the
# baton for nothing if nobody polls, and for two switches of thread if somebody does.
CLIENT_GRACE_S = 0.005
# No single wait of a caller is longer: a signal that comes just before a system call does not end it.
_CALLERS_WAIT_S = 0.5


class Timer:
    """A call that is due at a moment; `cancel` may come any time, on the baton."""

    __slots__ = ("args", "fn", "when")

    def __init__(self, when: float, fn: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.when = when
        self.fn: Callable[..., None] | None = fn
        self.args = args

    def cancel(self) -> None:
        """The call does not happen; what it held is let go of now."""
        self.fn = None
        self.args = ()


# What core code meets that waits, for its own end.
_NESTED = (
    "This thread is amid the core of a session, so what it calls there cannot wait for a session, too: it would never "
    "end. Set a flag or start a thread there instead."
)


class Loop:
    """Ready calls, timers and a poller, run by whoever holds the baton.

    `call_soon` may be called from any thread; `call_at` and `call_later` by the holder alone. The I/O thread starts
    with the first `add_ref` and ends with the last `release`. In a forked child an inherited loop raises.
    """

    def __init__(self, poller: Poller | None = None, *, name: str = "dtfzmq-io", grace: float = CLIENT_GRACE_S) -> None:
        self.poller: Poller = poller if poller is not None else IdlePoller()
        self.name = name
        self.grace = grace
        self._baton = threading.Lock()
        self._holder = 0
        self._wanting = 0
        self._followers: set[Completion] = set()
        self._ready: collections.deque[tuple[Callable[..., None], tuple[Any, ...]]] = collections.deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._guard = threading.Lock()
        self._resume = Gate()
        self._refs = 0
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ending = False
        self._pid = os.getpid()

    # -- any thread ---------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Monotonic seconds."""
        return clock.now()

    def call_soon(self, fn: Callable[..., None], *args: Any) -> None:
        """Run `fn(*args)` on the baton as soon as its holder gets to it. Any thread; never blocks."""
        self._ready.append((fn, args))
        if self._holder != threading.get_ident():
            self._rouse()

    def add_ref(self) -> None:
        """Keep the I/O thread alive until the matching `release`."""
        self.check_process()
        with signals.deferred(), self._guard:
            if self._closed:
                raise RuntimeError("This loop is closed.")
            self._refs += 1
            if self._thread is None:
                self._thread = threads.start(self._serve, self.name)

    def release(self) -> None:
        """Undo one `add_ref`. The last one ends the I/O thread and closes the poller; waits for that, at most 2 s."""
        with signals.deferred():
            with self._guard:
                self._refs -= 1
                if self._refs > 0:
                    return
                self._closed = True
                thread = self._thread
            self._rouse()
        if thread is not None and thread is not threading.current_thread() and not self.held_here():
            thread.join(2.0)

    @property
    def closed(self) -> bool:
        """True once the last reference is gone."""
        return self._closed

    @property
    def inherited(self) -> bool:
        """True in a child that was forked: all that this loop serves is the parent's, and stays as it is."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raise if this loop was inherited through a fork: its threads and sockets are the parent's."""
        if self.inherited:
            raise RuntimeError(
                "This session or server belongs to the parent process and cannot be used after a fork;"
                " make a new one here."
            )

    def hold_daemons(self) -> None:
        """The process ends: no wait of a daemon thread does from now on, so that it meets nothing of the end.

        What such a thread calls for still happens. Any thread; there is no way back.
        """
        self._ending = True

    def held_here(self) -> bool:
        """True if the calling thread holds the baton."""
        return self._holder == threading.get_ident()

    # -- callers ------------------------------------------------------------------------------------------------------

    def held(self) -> _Held:
        """``with loop.held():`` - hold the baton for a few microseconds to run core code directly.

        What the block makes ready runs before it ends. A thread that holds the baton already just goes on. Handlers of
        signals run after the baton is given back, never amid core code.
        """
        return _Held(self)

    def call(self, completion: Completion, timeout: float | None, fn: Callable[..., None], *args: Any) -> Any:
        """Run `fn(*args)` on the baton and then `wait` for `completion`, without giving the baton away in between."""
        if self._holder == threading.get_ident():
            raise RuntimeError(_NESTED)
        deadline = None if timeout is None else clock.now() + timeout
        stretch = deferral.begin(self.poller)
        try:
            try:
                self._take()
                try:
                    fn(*args)
                    self._run_ready()
                    self._turns(completion, deadline, stretch)
                finally:
                    self._give()
            finally:
                deferral.end(stretch)
        except BaseException:
            self._leave(completion)
            raise
        if completion.done and not self._ending:
            return completion.result()
        return self._wait(completion, deadline)

    def wait(self, completion: Completion, timeout: float | None = None) -> Any:
        """Block until `completion` is done and return its result or raise its error. Never call it on the baton.

        While it waits the caller holds the baton and polls, unless another thread wants it. Raises
        DeadlineExceededError after `timeout` seconds, and what a handler of a signal raises, as KeyboardInterrupt.
        """
        if self.held_here():
            raise RuntimeError(_NESTED)
        self.check_process()
        return self._wait(completion, None if timeout is None else clock.now() + timeout)

    def _wait(self, completion: Completion, deadline: float | None) -> Any:
        try:
            while not completion.done:
                if completion.work is not None:
                    self._run_offloaded(completion)
                    continue
                if deadline is not None and clock.now() >= deadline:
                    break
                if not self._lead(completion, deadline):
                    self._follow(completion, deadline)
        except BaseException:
            self._leave(completion)
            raise
        if self._ending and threading.current_thread().daemon:
            threading.Event().wait()
        if not completion.done:
            self._leave(completion)
            raise errors.DeadlineExceededError(None, None, "Operation timed out.")
        return completion.result()

    def _leave(self, completion: Completion) -> None:
        """The caller waits no more; another thread does the work that it was given and has not begun."""
        with self.held():
            work = completion.leave()
            if work is not None:
                threads.start(work, "dtfzmq-left")

    def _run_offloaded(self, completion: Completion) -> None:
        """Run work of its own. Handlers strike where it lets them, in kernels that may take long."""
        work = completion.work
        assert work is not None
        stretch = deferral.begin(None)
        try:
            work()
        except signals.Struck as struck:
            raise struck.error from None
        finally:
            completion.work = None
            deferral.end(stretch)

    def _lead(self, completion: Completion, deadline: float | None) -> bool:
        """Poll as the holder until done; False at once if another thread is at it and should go on."""
        stretch = deferral.begin(self.poller)
        try:
            if self._wanting or not self._take_from_io_thread():
                return False
            try:
                self._turns(completion, deadline, stretch)
            finally:
                self._give()
        finally:
            deferral.end(stretch)
        return True

    def _turns(self, completion: Completion, deadline: float | None, stretch: Any) -> None:
        """Run and poll as the holder until `completion` is done, has work, or somebody else wants the baton.

        Until a signal came, too, if this is the thread that its handler waits for, of which `stretch` tells.
        """
        while not completion.done and completion.work is None and not self._wanting:
            if stretch is not None and deferral.struck:
                break
            left = _CALLERS_WAIT_S if deadline is None else min(_CALLERS_WAIT_S, deadline - clock.now())
            if left <= 0:
                break
            self._turn(left, completion)

    def _follow(self, completion: Completion, deadline: float | None) -> None:
        """Wait for the holder to complete it; a lost holder is made up for by the I/O thread."""
        gate = Gate()
        completion._gate = gate
        try:
            if completion.done or completion.work is not None:
                return
            self._followers.add(completion)
            self._resume.open()
            gate.wait(_CALLERS_WAIT_S if deadline is None else min(_CALLERS_WAIT_S, max(0.0, deadline - clock.now())))
        finally:
            self._followers.discard(completion)
            completion._gate = None

    # -- the holder ---------------------------------------------------------------------------------------------------

    def call_at(self, when: float, fn: Callable[..., None], *args: Any) -> Timer:
        """Run `fn(*args)` on the baton at `when` (the clock of `now`). Holder only. ValueError for no number."""
        if when != when:
            raise ValueError("A timer's moment is not a number.")  # it would put all timers out of order
        timer = Timer(when, fn, args)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def call_later(self, delay: float, fn: Callable[..., None], *args: Any) -> Timer:
        """Run `fn(*args)` on the baton in `delay` seconds. Holder only."""
        return self.call_at(clock.now() + delay, fn, *args)

    def idle(self) -> bool:
        """True if no call is ready: then a short piece of work may run inline. Holder only."""
        return not self._ready

    def _take(self) -> None:
        if os.getpid() != self._pid:
            self.check_process()
        if not self._baton.acquire(False):
            with self._guard:
                self._wanting += 1
            try:
                self._rouse()
                self._baton.acquire()
            finally:
                with self._guard:
                    self._wanting -= 1
        self._holder = threading.get_ident()

    def _take_from_io_thread(self) -> bool:
        """Take the baton if it is free or with the I/O thread; False if a waiting caller polls already."""
        if self._baton.acquire(False):
            self._holder = threading.get_ident()
            return True
        thread = self._thread
        if thread is None or self._holder != thread.ident:
            return False
        self._take()
        return True

    def _give(self) -> None:
        self._holder = 0
        self._baton.release()
        if self._ready or self.grace == 0 or self._followers:
            self._resume.open()

    def _rouse(self) -> None:
        self._resume.open()
        self.poller.wake()

    def _run_ready(self) -> None:
        ready = self._ready
        for _ in range(len(ready)):
            fn, args = ready.popleft()
            try:
                fn(*args)
            except Exception:
                _log.exception("a call on the loop failed: %r", fn)
        if self._timers and self._timers[0][0] <= clock.now():
            self._run_timers()

    def _run_timers(self) -> None:
        timers = self._timers
        moment = clock.now()
        while timers and timers[0][0] <= moment:
            timer = heapq.heappop(timers)[2]
            if timer.fn is not None:
                try:
                    timer.fn(*timer.args)
                except Exception:
                    _log.exception("a timer on the loop failed: %r", timer.fn)

    def _turn(self, limit: float | None, completion: Completion | None = None) -> None:
        """Run what is ready, then poll for at most `limit` seconds or until the next timer."""
        self._run_ready()
        if completion is not None and (completion.done or completion.work is not None):
            return
        timers = self._timers
        while timers and timers[0][2].fn is None:
            heapq.heappop(timers)
        if self._ready:
            limit = 0.0
        elif timers:
            due = max(0.0, timers[0][0] - clock.now())
            limit = due if limit is None else min(limit, due)
        self.poller.poll(None if limit is None else min(limit, 3600.0))  # the system's numbers have bounds

    def _serve(self) -> None:
        """The I/O thread: hold the baton while no caller wants it."""
        while True:
            self._baton.acquire()
            self._holder = threading.get_ident()
            try:
                while not self._wanting and not self._closed:
                    self._turn(None)
                if self._closed:
                    self._run_ready()
                    self.poller.close()
                    return
            except Exception:
                _log.exception("the I/O thread met an error and goes on")
            finally:
                self._holder = 0
                self._baton.release()
            self._stand_back()

    def _stand_back(self) -> None:
        """Let callers have the baton; come back when they are done, for a pure client only after a quiet while."""
        resume = self._resume
        resume.shut()
        while not self._closed:
            if self._wanting == 0 and (self._ready or self._followers or self.grace == 0) and not self._baton.locked():
                return
            roused = resume.wait(self.grace if self.grace else 0.05)
            if not roused and self._wanting == 0 and not self._baton.locked():
                return


class _Held:
    """See Loop.held."""

    __slots__ = ("_loop", "_nested", "_stretch")

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._stretch: Any = None
        self._nested = False

    def __enter__(self) -> None:
        loop = self._loop
        if loop._holder == threading.get_ident():
            self._nested = True
            return
        self._stretch = deferral.begin(loop.poller)
        try:
            loop._take()
        except BaseException:
            deferral.end(self._stretch)
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._nested:
            return
        loop = self._loop
        try:
            try:
                if kind is None:
                    loop._run_ready()
            finally:
                loop._give()
        finally:
            deferral.end(self._stretch)
