"""What an asynchronous op of a run calls when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.runtime.flow import Frame

if TYPE_CHECKING:
    from dtfzmq.runtime.executor import Run


class AsyncDone:
    """The `done` of one asynchronous op: at most one call counts. Any thread."""

    __slots__ = ("frame", "number", "run")

    def __init__(self, run: Run, frame: Frame, number: int) -> None:
        self.run: Run | None = run
        self.frame = frame
        self.number = number

    def __call__(self, value: Any = None) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.arrive(self.frame, self.number, value, None, False)

    def fail(self, error: BaseException) -> None:
        run, self.run = self.run, None
        if run is not None:
            run.arrive(self.frame, self.number, None, errors.wrap(error), False)
