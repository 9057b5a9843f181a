"""Runs that go on beside the program's own and that another thread may cancel, as those of queue runners."""

from __future__ import annotations

import threading
from typing import Any

from dtfzmq.base import errors
from dtfzmq.client.base_session import BaseSession
from dtfzmq.client.call import Call
from dtfzmq.client.fetches import Fetches
from dtfzmq.client.runs import End

_CANCELLED = "Step was cancelled, since its coordinator was asked to stop."


class StandingRun:
    """Calling it runs `fetches` in a session. `cancel` ends the run of now, and any to come, with CancelledError.

    One thread calls it, any thread cancels. RuntimeError if the session is closed.
    """

    def __init__(self, session: BaseSession, fetches: Any) -> None:
        self._session = session
        self._call = Call(Fetches(session.graph, fetches), [], True)
        self._call.watch = self._watch
        self._lock = threading.Lock()
        self._running: End | None = None
        self._cancelled = False

    def __call__(self) -> Any:
        if self._session._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        try:
            return self._session._run_call(self._call, [], None, None)
        finally:
            self._running = None

    def cancel(self) -> None:
        """See the class."""
        with self._lock:
            self._cancelled = True
            running = self._running
        if running is not None:
            running(errors.CancelledError(None, None, _CANCELLED))

    def tell(self, error: errors.OpError, source: object) -> None:
        """Have each thread that runs the session itself hear of an error, as it may wait for what this would bring.

        `source`: what stands for all standing runs that belong together.
        """
        self._session._runs.interrupt(error, source)

    def _watch(self, running: End) -> None:
        with self._lock:
            self._running = running
            if self._cancelled:
                raise errors.CancelledError(None, None, _CANCELLED)


def forget(session: BaseSession, source: object) -> None:
    """Standing runs of `source` begin in a session: what others told and not every thread heard is of no interest."""
    session._runs.forget(source)
