"""The runs of a session that are under way, so that they can be ended from elsewhere."""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from dtfzmq.base import errors
from dtfzmq.base.loop import Loop
from dtfzmq.client.connection import Answer, Connection
from dtfzmq.wire import messages as m

#: Ends one run with an error.
End = Callable[[errors.OpError], None]


class Runs:
    """Numbers of runs, who waits for them, and what threads are still to hear. Any thread, but for `ask`.

    Standing runs, as those of queue runners, are ended one by one; the program's own, all at once by `interrupt`.
    """

    def __init__(self, loop: Loop, connection: Connection) -> None:
        self._loop = loop
        self._connection = connection
        self._numbers = itertools.count(1)
        # number -> session, what is waited for, the thread; None: a standing run, which hears no news
        self._under_way: dict[int, tuple[str, Answer, threading.Thread | None]] = {}
        # An error that every thread hears once, the threads that have, and who told it.
        self._news: tuple[errors.OpError, weakref.WeakSet[threading.Thread], object] | None = None

    def begin(self, handle: str, watch: Callable[[End], None] | None) -> tuple[int, Answer]:
        """Number of a new run of the session `handle`, and what waits for it; `over` follows.

        `watch`, of a standing run, is told first how it is ended, and may raise. Raises what `interrupt` left.
        """
        run, answer, thread = next(self._numbers), Answer(), threading.current_thread()
        self._under_way[run] = handle, answer, thread if watch is None else None
        news = self._news
        try:
            if watch is not None:
                watch(functools.partial(self.end, run))
            elif news is not None and thread not in news[1]:
                news[1].add(thread)
                raise _again(news[0])
        except BaseException:
            self.over(run)
            raise
        return run, answer

    def ask(self, message: Any, answer: Answer) -> None:
        """Send a run to the master, unless it was ended before that. On the baton."""
        if not answer.done:
            self._connection.ask(message, answer)

    def over(self, run: int) -> None:
        """Nobody waits for it any more."""
        self._under_way.pop(run, None)

    def end(self, run: int, error: errors.OpError | None = None) -> None:
        """Have the master end a run, if it is under way; who waits for it gets `error`, if there is one."""
        with self._loop.held():
            found = self._under_way.get(run)
            if found is not None:
                self._end(run, found[0], found[1], error)

    def interrupt(self, error: errors.OpError, source: object) -> None:
        """Every thread hears of `error` once: by the run that it waits for, but for standing ones, or by its next.

        A run that begins meanwhile is found here, or finds what is left for it. `source`: see `forget`.
        """
        told: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._news = error, told, source
        with self._loop.held():
            under_way = self._under_way.copy()
            heard = set(told)  # by `begin`, and what they run now was begun since
            for run, (handle, answer, thread) in under_way.items():
                if thread is not None and thread not in heard and not answer.done:
                    told.add(thread)
                    self._end(run, handle, answer, _again(error))

    def forget(self, source: object) -> None:
        """What another than `source` left for threads that have not heard it is of no interest any more."""
        news = self._news
        if news is not None and news[2] is not source:
            self._news = None

    def _end(self, run: int, handle: str, answer: Answer, error: errors.OpError | None) -> None:
        if error is not None:
            answer.fail(error)
        self._connection.abandon(answer, m.CancelRun(handle, run))


def _again(error: errors.OpError) -> errors.OpError:
    """The error for one more thread: a traceback is one thread's."""
    return errors.from_wire(errors.to_wire(error))
