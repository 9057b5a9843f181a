"""The runs of a session that are under way, so that they can be ended from elsewhere."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from dtfzmq.base import errors
from dtfzmq.base.loop import Loop
from dtfzmq.client.connection import Answer, Connection
from dtfzmq.wire import messages as m

#: Ends one run with an error.
End = Callable[[errors.OpError], None]


class Runs:
    """Any thread."""

    def __init__(self, loop: Loop, connection: Connection) -> None:
        self._loop = loop
        self._connection = connection
        self._numbers = itertools.count(1)
        # number -> session, what is waited for, whether it is a standing run
        self._under_way: dict[int, tuple[str, Answer, bool]] = {}
        # What the next run hears that is not a standing one.
        self._news: errors.OpError | None = None

    def begin(self, handle: str, watch: Callable[[End], None] | None) -> tuple[int, Answer]:
        """Number of a new run of the session `handle`, and what waits for it; `over` follows.

        `watch`, of a standing run, is told first how it is ended, and may raise. Raises what `interrupt` left.
        """
        run, answer = next(self._numbers), Answer()
        self._under_way[run] = handle, answer, watch is not None
        try:
            if watch is not None:
                watch(functools.partial(self.end, run))
            elif self._news is not None:
                news, self._news = self._news, None
                raise news
        except BaseException:
            self.over(run)
            raise
        return run, answer

    def over(self, run: int) -> None:
        """Nobody waits for it any more."""
        self._under_way.pop(run, None)

    def end(self, run: int, error: errors.OpError | None = None) -> None:
        """Have the master end a run, if it is under way; who waits for it gets `error`, if there is one."""
        with self._loop.held():
            found = self._under_way.get(run)
            if found is not None:
                handle, answer, _ = found
                if error is not None:
                    answer.fail(error)
                self._connection.abandon(answer, m.CancelRun(handle, run))

    def interrupt(self, error: errors.OpError) -> None:
        """End every run but standing ones with `error`; if there is none, the next one that begins.

        A run that begins meanwhile is seen here or sees what is left for it: it waits for nothing that will not come.
        """
        self._news = error
        found = [run for run, (_, _, standing) in self._under_way.copy().items() if not standing]
        for run in found:
            self.end(run, errors.from_wire(errors.to_wire(error)))
        if found:
            self._news = None
