"""`Coordinator`: several threads end together; the first error of any of them is raised where they are joined."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from dtfzmq.base import clock, errors

_log = logging.getLogger("dtfzmq")
_POLL_S = 0.05
# Threads that do not end by themselves so long after a stop have their runs cancelled, which may compute, and then get
# so long to end.
_PATIENCE_S = 5.0
_LAST_S = 1.0


class Cancellable(Protocol):
    """What a thread does that waits."""

    def cancel(self) -> None:
        """End it. Any thread."""


class Coordinator:
    """Threads ask `should_stop`; whoever wants all to end calls `request_stop`; the owner calls `join`. Any thread.

    Exceptions in `clean_stop_exception_types` (default: OutOfRangeError) ask for a stop but are not errors.
    """

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        kinds = (errors.OutOfRangeError,) if clean_stop_exception_types is None else clean_stop_exception_types
        self._clean_stop_exception_types = tuple(kinds)
        self._lock = threading.Lock()
        self._stop_event = threading.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._registered_threads: set[threading.Thread] = set()
        self._cancels: weakref.WeakSet[Cancellable] = weakref.WeakSet()

    def should_stop(self) -> bool:
        """True once a stop was requested."""
        return self._stop_event.is_set()

    @property
    def joined(self) -> bool:
        """True once `join` returned."""
        return self._joined

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to end. `ex`, an exception or exc_info tuple, is raised by `join`; the first one wins.

        After `join`, or after a stop for which `join` will raise already, an error is raised here or logged.
        """
        error = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            if error is not None and isinstance(error, self._clean_stop_exception_types):
                error = None
            if self._joined:
                if error is not None:
                    raise error
                return
            if self._stop_event.is_set():
                if error is not None and self._error is None:
                    _log.info("Error reported to Coordinator after the stop was requested: %r", error)
                return
            self._error = error
            self._stop_event.set()
        if error is not None:
            _log.info("Error reported to Coordinator: %r", error)

    def clear_stop(self) -> None:
        """Forget the stop and its error, so that the coordinator can be used again."""
        with self._lock:
            self._joined = False
            self._error = None
            self._stop_event.clear()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested, or `timeout` seconds; True if it was."""
        return self._stop_event.wait(timeout)

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """An exception in the block requests the stop instead of leaving it."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def register_thread(self, thread: threading.Thread) -> None:
        """`join` waits for `thread` too."""
        with self._lock:
            self._registered_threads.add(thread)

    def cancel_at_join(self, what: Cancellable) -> None:
        """`join` cancels `what`, if it is still there, where threads have not ended 5 s after the stop."""
        with self._lock:
            self._cancels.add(what)

    def cancel_runs(self) -> bool:
        """Do now what `join` would do; False if there is nothing."""
        with self._lock:
            cancels = list(self._cancels)
            self._cancels.clear()
        for each in cancels:
            each.cancel()
        return bool(cancels)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until a stop is requested or all threads ended, then at most the grace period for those that remain.

        Runs of queue runners that go on for 5 s after the stop, or for the grace period, are cancelled. Raises the
        error that was reported; else RuntimeError if threads are still alive, unless they are ignored.
        """
        with self._lock:
            waited = set(self._registered_threads)
        waited.update(threads or ())
        while any(t.is_alive() for t in waited) and not self._stop_event.is_set():
            self._stop_event.wait(_POLL_S)
        with self._lock:
            # all ended by themselves: a stop that comes later is late
            failed = self._error
        deadline = clock.now() + stop_grace_period_secs
        _await(waited, min(deadline, clock.now() + _PATIENCE_S))
        if any(t.is_alive() for t in waited) and self.cancel_runs():
            deadline = max(deadline, clock.now() + _LAST_S)
        _await(waited, deadline)
        stragglers = [t.name for t in waited if t.is_alive()]
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            failed = self._error or failed
        if failed is not None:
            raise failed
        if stragglers:
            text = f"Coordinator stopped with threads still running: {' '.join(stragglers)}"
            if not ignore_live_threads:
                raise RuntimeError(text)
            _log.info(text)

    def raise_requested_exception(self) -> None:
        """Raise the error that was reported, if any."""
        with self._lock:
            if self._error is not None:
                raise self._error


def _await(waited: Iterable[threading.Thread], deadline: float) -> None:
    for thread in waited:
        while thread.is_alive():
            left = deadline - clock.now()
            if left <= 0:
                return
            thread.join(min(left, _POLL_S))


class LooperThread(threading.Thread):
    """A thread that calls `target` (or its own `run_loop`) every `timer_interval_secs` until the coordinator stops.

    With an interval of None it calls without a pause. An exception requests the stop. Registered with the coordinator.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        if target is None and (args or kwargs):
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        super().__init__(daemon=True)
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        self._call = None if target is None else functools.partial(target, *(args or ()), **(kwargs or {}))
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> LooperThread:
        """Make one and start it."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        """Calls until the stop; what `start` runs."""
        with self._coord.stop_on_exception():
            self.start_loop()
            following = clock.now()
            while not self._coord.should_stop():
                if self._timer_interval_secs is not None:
                    if self._coord.wait_for_stop(max(0.0, following - clock.now())):
                        break
                    following += self._timer_interval_secs
                self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called before the first call."""

    def stop_loop(self) -> None:
        """Called after the last one."""

    def run_loop(self) -> None:
        """One call of the target."""
        if self._call is not None:
            self._call()
