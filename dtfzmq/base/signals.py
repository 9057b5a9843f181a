"""Handlers of signals wait while the main thread is amid core code.

Python runs a signal's handler between any two steps of the main thread, and one may raise: Ctrl-C, a time limit by
SIGALRM, `sys.exit` on SIGTERM. Core code that it struck would be left half done, with the baton held. So a deferring
handler stands in each one's place there, remembers the signal and wakes the poll; the program's own run once it is
over, in the order of their signals, as if they had come then.

Everything here may be struck itself, by a handler that has no other in its place yet, or has its own place again.
CPython looks for signals at calls, at the begin of a function and at jumps back, and in `signal.signal` before it does
anything. What must not come apart lies within one call of C, or between two such looks.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal wraps it in enums, which costs 3 us a call
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

# Faults of the process itself strike at once, and no one hears of KILL and STOP. Real-time signals would cost each
# step as much again.
_OTHERS = ("SIGKILL", "SIGSTOP", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")
NUMBERS = tuple(n for n in range(1, min(_signal.NSIG, 32)) if n not in {getattr(_signal, name) for name in _OTHERS})

_getsignal, _setsignal, _get_ident = _signal.getsignal, _signal.signal, threading.get_ident


class Struck(BaseException):
    """Carries the exception of a handler through core code that would take it for its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Waker(Protocol):
    """What is to end when a signal comes, as a poll."""

    def wake(self) -> None:
        """Amid a handler."""


class _Deferring:
    """Stands in the place of a handler. Where nothing is deferred it passes signals on, whoever has put it there."""

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[[int, Any], Any]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: Any) -> None:
        if deferral.on:
            deferral.remember(number, self.handler)
            return
        try:
            self.handler(number, frame)
        except Exception as error:
            if deferral.lent:
                deferral.raised = error
            raise


# Deferring handlers to put in place: the signals, the handlers, those they stand for, what `getsignal` then says of
# all. A plain tuple, as the next: making one with names costs a step 0.2 us.
_Swap = tuple[tuple[int, ...], tuple[_Deferring, ...], list[Any], list[Any]]
# What `begin` found and `end` puts back: whether signals were deferred, whom they woke, the swap, what it displaced.
_Stretch = tuple[bool, Waker | None, _Swap, list[Any]]

_NO_SWAP: _Swap = (), (), [], []


class Deferral:
    """What is deferred in this process. All but `begin`, `end` and `heard` is for the main thread."""

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        self.on = False
        #: A signal came in this stretch.
        self.struck = False
        #: Inside `heard`, and what a handler raised there.
        self.lent = False
        self.raised: Exception | None = None
        self._waker: Waker | None = None
        self._came: list[tuple[int, Callable[[int, Any], Any]]] = []
        # Programs seldom change their handlers: those of the last time are put in place first, then looked at.
        self._swap: _Swap = _NO_SWAP

    def begin(self, waker: Waker | None) -> _Stretch | None:
        """Handlers wait from now on; give what this returns to `end`. A signal that comes wakes `waker`.

        Raises what a handler raises that strikes before: nothing has begun then. Does nothing on other threads than
        the main one, which no handler strikes. May be nested.
        """
        if _get_ident() != self.main:
            return None
        displaced: list[Any] = []
        if self.on:
            stretch = True, self._waker, _NO_SWAP, displaced
            self._waker, self.struck = waker, False
            return stretch
        swap = self._swap
        try:
            while True:
                numbers, deferring, handlers, after = swap
                displaced += map(_setsignal, numbers, deferring)
                self.struck = False
                self.on = True
                # From here on nothing strikes but handlers that were set since the last time.
                if displaced == handlers and list(map(_getsignal, NUMBERS)) == after:
                    if self._came:  # left by a handler that struck amid the end of a stretch
                        self.struck = True
                    stretch = False, self._waker, swap, displaced
                    self._waker = waker
                    return stretch
                came = self._came[:]
                self._came.clear()
                self.end((False, self._waker, swap, displaced))
                for number, _ in came:
                    _signal.raise_signal(number)  # it was not for those of the last time
                displaced = []
                swap = self._swap = _swap_of_all()
        except BaseException:
            self.end((False, self._waker, swap, displaced))
            raise

    def end(self, stretch: _Stretch | None) -> None:
        """The program's handlers are in their places again, and run if their signals came; raises what one raises."""
        if stretch is None:
            return
        on, self._waker, (numbers, deferring, _, _), displaced = stretch
        if on:
            self.struck = self._came != []
            return
        try:
            self.on = False
            for i, handler in enumerate(displaced):
                if _getsignal(numbers[i]) is deferring[i]:  # else the program set another meanwhile
                    found = _setsignal(numbers[i], handler)
                    if found is not deferring[i]:  # a handler that ran within the call did
                        _setsignal(numbers[i], found)
            if self._came:
                self._run_handlers()
        except BaseException:
            self.end(stretch)  # what is left to do: nothing that strikes, and no handler that raises, makes others lost
            raise

    def _run_handlers(self) -> None:
        self.struck = False
        came, frame = self._came, sys._getframe()
        while came:
            number, handler = came[0]
            del came[0]
            handler(number, frame)

    def remember(self, number: int, handler: Callable[[int, Any], Any]) -> None:
        """A signal came; as with the system's own, a second of its kind before the first was heard is one with it."""
        if all(number != other for other, _ in self._came):
            self._came.append((number, handler))
        self.struck = True
        if self._waker is not None:
            self._waker.wake()

    def heard(self, fn: Callable[..., Any], *args: Any) -> Any:
        """`fn(*args)`, which handlers may strike, amid a stretch off the baton: for what may take long, as a program's
        own function. What a handler raises there and `fn` lets out comes as Struck.
        """
        if not self.on or self._waker is not None or _get_ident() != self.main:
            return fn(*args)
        inside = False
        try:
            self.on, self.lent = False, True
            if self._came:
                self._run_handlers()
            inside = True
            return fn(*args)
        except Exception as error:
            self.on = True
            if inside and error is not self.raised:
                raise
            raise Struck(error) from None
        finally:
            self.on, self.lent, self.raised = True, False, None

    def hear(self) -> None:
        """Between two steps of work that may take long: handlers run whose signals came."""
        self.heard(tuple)

    def forget(self) -> None:
        """In a forked child, whose main thread is the one that forked: nothing is deferred there."""
        self.main = _get_ident()
        self.on = self.struck = self.lent = False
        self._came.clear()
        _put_back()


def _put_back() -> None:
    """Put the program's handlers in the places of those that stand there for them."""
    for number in NUMBERS:
        handler = found = _getsignal(number)
        while type(handler) is _Deferring:
            handler = handler.handler
        if handler is not found:
            _setsignal(number, handler)


def _swap_of_all() -> _Swap:
    if not deferral.lent:
        _put_back()  # one may be left by signals that came faster than their handlers ran
    found = list(map(_getsignal, NUMBERS))
    numbers = tuple(n for n, handler in zip(NUMBERS, found) if callable(handler))
    handlers = [handler for handler in found if callable(handler)]
    deferring = tuple(map(_Deferring, handlers))
    places = dict(zip(numbers, deferring))
    return numbers, deferring, handlers, [places.get(n, handler) for n, handler in zip(NUMBERS, found)]


deferral = Deferral()


class deferred:
    """``with signals.deferred():`` - a few steps that must go together, off the baton."""

    __slots__ = ("_stretch",)

    def __enter__(self) -> None:
        self._stretch = deferral.begin(None)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        deferral.end(self._stretch)
