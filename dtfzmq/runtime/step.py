"""One step on one task: its identity, its errors, and how it ends early."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from dtfzmq.base import errors
from dtfzmq.base.threads import Runner


class Exchange(Protocol):
    """Where the tensors of a step meet (runtime/rendezvous). On the baton."""

    def send(self, key: str, value: Any) -> None:
        """Hand a value to whoever receives `key` here."""

    def recv(self, key: str, deliver: Callable[[Any, errors.OpError | None], None]) -> None:
        """Have `deliver(value, error)` called, on the baton, at once or later."""

    def abort(self, error: errors.OpError) -> None:
        """Fail every receiver, waiting or to come."""


class Pusher(Protocol):
    """What carries tensors to another task: a link."""

    def push(self, step: int, items: list[tuple[str, Any]]) -> None:
        """Send (key, value) pairs, whose values are frozen. On the baton."""


class StepContext:
    """What the plans of one step on one task share.

    `loop`, `runner`: where calls come back to and where long work goes. `exchange`: None for a part that neither
    sends nor receives. `route(task)`: the link to a task. `trace`: a list that gets (device, node, op, start,
    seconds) per kernel, or None. The first error that is not derived is the step's.
    """

    def __init__(
        self,
        step: int,
        loop: Any,
        runner: Runner,
        exchange: Exchange | None = None,
        route: Callable[[str], Pusher] | None = None,
        trace: list[tuple[str, str, float, float]] | None = None,
    ) -> None:
        self.step = step
        self.loop = loop
        self.runner = runner
        #: Runs a part on the thread that waits for the step; None if there is no such thread.
        self.caller: Runner | None = None
        self.exchange = exchange
        self.route = route
        self.trace = trace
        # The task that is the step's master; "" if nobody asks.
        self.member = ""
        self.error: errors.OpError | None = None
        # Why nothing may wait any more, where what does not wait may go on.
        self._ending: errors.OpError | None = None
        #: While true, nothing is taken for it from what outlives steps: its client is out of reach, and may be gone.
        self.held = False
        self._lock = threading.Lock()
        self._watchers: dict[int, Callable[[], None]] = {}
        self._holders: dict[int, Callable[[], None]] = {}
        self._tokens = 0

    def cancel(self, error: errors.OpError) -> None:
        """End the step:

        blocked kernels wake, receives fail, no further kernel starts. Any thread; repeats are harmless.
        """
        with self._lock:
            first = self.error is None
            if error.derived and self._ending is not None:
                error = self._ending
            if first or (self.error is not None and self.error.derived and not error.derived):
                self.error = error
            watchers = list(self._watchers.values()) if first else []
            self._watchers.clear()
            self._holders.clear()
        if first and self.exchange is not None:
            self.loop.call_soon(self.exchange.abort, error)
        for fn in watchers:
            fn()

    def wind_up(self, error: errors.OpError) -> None:
        """End the step with `error` if a kernel of it blocks, now or later, else let it end as it will."""
        with self._lock:
            if self.error is not None or self._ending is not None:
                return
            self._ending = error
            watchers = list(self._watchers.values())
            self._watchers.clear()
            self._holders.clear()
        for fn in watchers:
            fn()

    def hold(self, held: bool) -> None:
        """Set `held`, and tell those who wait. On the baton."""
        self.held = held
        with self._lock:
            holders = list(self._holders.values())
        for fn in holders:
            fn()

    def on_cancel(self, fn: Callable[[], None], on_hold: Callable[[], None] | None = None) -> int:
        """Call `fn` once when the step is cancelled or winds up, at once if it does, and `on_hold` when `held` was set.

        Any thread. Returns a token for `off_cancel`.
        """
        with self._lock:
            self._tokens += 1
            token = self._tokens
            if self.error is None and self._ending is None:
                self._watchers[token] = fn
                if on_hold is not None:
                    self._holders[token] = on_hold
                return token
        fn()
        return token

    def off_cancel(self, token: int) -> None:
        """Forget a watcher. Any thread; unknown tokens are ignored."""
        self._watchers.pop(token, None)
        self._holders.pop(token, None)
