"""The feeds of a partial run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.base import errors
from dtfzmq.runtime.flow import derived
from dtfzmq.runtime.step import StepContext
from dtfzmq.runtime.values import as_feed


class Feeds:
    """The feeds of a partial run, which come one after another. On the baton."""

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}
        self._waiting: dict[int, list[Callable[[Any], None]]] = {}

    def put(self, index: int, value: Any) -> None:
        """Feed `index` is there."""
        value = as_feed(value)
        self._values[index] = value
        for take in self._waiting.pop(index, ()):
            take(value)

    def wait(self, index: int, take: Callable[[Any], None]) -> None:
        """Call `take(value)` when feed `index` is there."""
        if index in self._values:
            take(self._values[index])
        else:
            self._waiting.setdefault(index, []).append(take)

    def await_in(self, ctx: StepContext, index: int, done: Any, copy: Callable[[Any], Any] | None) -> None:
        """Call `done(value)`, the value through `copy`, when feed `index` is there, or `done.fail` if the step ends."""

        def cancelled() -> None:
            done.fail(derived(ctx.error or errors.CancelledError(None, None, "The partial run was cancelled.")))

        token = ctx.on_cancel(cancelled)

        def take(value: Any) -> None:
            ctx.off_cancel(token)
            done(value if copy is None else copy(value))

        self.wait(index, take)
