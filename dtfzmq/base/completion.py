"""What a caller waits for: one result, set on the baton."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.base.gate import Gate


class Completion:
    """One result that a caller waits for. The first of `set` and `fail` counts.

    `set`, `fail` and `offload` are for the holder of the baton; a caller waits in ``Loop.wait`` and then reads
    `result`.
    """

    __slots__ = ("_error", "_gate", "_left", "_value", "done", "work")

    def __init__(self) -> None:
        self.done = False
        self.work: Callable[[], None] | None = None
        self._value: Any = None
        self._error: BaseException | None = None
        #: Of a caller that does not poll. It may take this back any time, so each call reads it once.
        self._gate: Gate | None = None
        self._left = False

    def set(self, value: Any) -> None:
        """The wait ends with `value`."""
        if not self.done:
            self._value = value
            self.done = True
            gate = self._gate
            if gate is not None:
                gate.open()

    def fail(self, error: BaseException) -> None:
        """The wait ends by raising `error`."""
        if not self.done:
            self._error = error
            self.done = True
            gate = self._gate
            if gate is not None:
                gate.open()

    def offload(self, work: Callable[[], None]) -> bool:
        """Have the waiting caller run `work` on its own thread, without the baton. False: it is busy or gone."""
        if self.done or self._left or self.work is not None:
            return False
        self.work = work
        gate = self._gate
        if gate is not None:
            gate.open()
        return True

    def leave(self) -> Callable[[], None] | None:
        """The caller waits no more: no work will be its own, and what it has not begun is returned. On the baton."""
        self._left = True
        work, self.work = self.work, None
        return work

    def result(self) -> Any:
        """The value, or raise the error. Call it once `done` is true."""
        if self._error is not None:
            raise self._error
        return self._value
