"""How a session reaches its master: directly if it is in this process, else over a link."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, Protocol

from dtfzmq.base import errors
from dtfzmq.base.completion import Completion
from dtfzmq.base.loop import Loop
from dtfzmq.wire.link import UP
from dtfzmq.wire.messages import CreateSession

# A master that is known to have gone is looked at this often while it is called.
_LOOK_EVERY_S = 0.03


class Answer(Completion):
    """What a caller waits for when it asked a master: the reply to a direct call and the `done` of a link's call."""

    __slots__ = ("call", "late", "on_cancel")

    def __init__(self) -> None:
        super().__init__()
        #: What is done with a reply that comes when nobody waits any more; see `Connection.drop`.
        self.late: Callable[[Any], None] | None = None
        #: The request on its link; None for a direct one.
        self.call: Any = None
        #: See wire.calls.Reply; of a direct one.
        self.on_cancel: Callable[[], None] | None = None

    def __call__(self, reply: Any, error: BaseException | None = None) -> None:
        if self.late is not None:
            if error is None:
                self.late(reply)
        elif error is None:
            self.set(reply)
        else:
            self.fail(error)


class Connection(Protocol):
    """A way to a master. `ask` and `tell` are called on the baton of `loop`."""

    loop: Loop
    #: True if the master is in this process: graphs and tensors then travel as they are.
    local: bool

    def ask(self, message: Any, answer: Answer) -> None:
        """Send a request; `answer` is completed with its reply, or fails."""

    def tell(self, message: Any) -> None:
        """Send a one-way message, or one whose reply nobody waits for."""

    def abandon(self, answer: Answer, farewell: Any) -> None:
        """Nobody waits for `answer` any more: the master hears of it, by `farewell` where there is no link."""

    def trouble(self) -> str:
        """Why the master cannot be reached now; "" if it can. On the baton."""

    def drop(self, answer: Answer, late: Callable[[Any], None] | None) -> None:
        """Nobody waits for `answer` any more: a request that was not sent is not; `late` gets the reply to another."""

    def close(self) -> None:
        """Give the way back. Not on the baton."""


class LocalConnection:
    """A master of this process: messages are handed over by reference, the caller's thread may run its own part."""

    local = True

    def __init__(self, loop: Loop, handle: Callable[[Any, Any, Any], None], close: Callable[[], None]) -> None:
        self.loop = loop
        self._handle = handle
        self.close = close

    def ask(self, message: Any, answer: Answer) -> None:
        """See Connection."""
        self._handle(None, message, answer)

    def tell(self, message: Any) -> None:
        """See Connection."""
        self._handle(None, message, Answer())

    def abandon(self, answer: Answer, farewell: Any) -> None:
        """See Connection."""
        self._handle(None, farewell, Answer())

    def trouble(self) -> str:
        """See Connection."""
        return ""

    def drop(self, answer: Answer, late: Callable[[Any], None] | None) -> None:
        """See Connection."""
        answer.late = late
        if late is None and answer.on_cancel is not None:
            answer.on_cancel()


class Left(Exception):
    """There is no link, and will be none: its endpoint is closed. The text says so to people."""


class LinkConnection:
    """A master of another process, at the far end of a link; a link that was lost is replaced by the next request."""

    local = False

    def __init__(self, loop: Loop, link: Callable[[], Any], close: Callable[[], None]) -> None:
        self.loop = loop
        self._link = link
        self.close = close
        self._was_up = False

    def ask(self, message: Any, answer: Answer) -> None:
        """See Connection. Where there is no link the answer says so: daemon threads wait for one at the end."""
        try:
            link = self._link()
        except Left as left:
            answer.fail(errors.UnavailableError(None, None, str(left)))
            return
        done = functools.partial(self._made, link, message, answer) if type(message) is CreateSession else answer
        # A client that was stopped for a while, say, was given up: its master has not seen what it asks first then.
        again = functools.partial(self.ask, message, answer) if answer.call is None else None
        answer.call = link.call(message, done, frozen=False, again=again)
        if link.state == UP:
            self._was_up = True
        elif self._was_up:
            link.hurry()
            self.loop.call_later(_LOOK_EVERY_S, self._look, link, answer)

    def _made(self, link: Any, message: Any, answer: Answer, reply: Any, error: BaseException | None) -> None:
        """A session was made, or not. If another process answers now in the place of the asked one, it is asked too."""
        if error is not None and error is link.error and isinstance(error, errors.AbortedError):
            answer.call = None
            self.ask(message, answer)
        else:
            answer(reply, error)

    def _look(self, link: Any, answer: Answer) -> None:
        """The master was there once: when nobody listens in its place it is not waited for."""
        if answer.done or answer.call.link is not link:
            return
        if link.unattended:
            answer.call.cancel()
            answer.fail(
                errors.UnavailableError(
                    None,
                    None,
                    f"{link.peer_text()}, the session's master, is gone, and nobody listens there now "
                    f"({link.reason()}).",
                )
            )
        else:
            self.loop.call_later(_LOOK_EVERY_S, self._look, link, answer)

    def tell(self, message: Any) -> None:
        """See Connection."""
        with contextlib.suppress(Left):
            self._link().call(message, _ignore)

    def abandon(self, answer: Answer, farewell: Any) -> None:
        """See Connection. The end of the call is what the master hears; no byte of the feeds is lent any more."""
        if answer.call is not None:
            answer.call.cancel()

    def trouble(self) -> str:
        """See Connection."""
        try:
            link = self._link()
        except Left as left:
            return str(left)
        return "" if link.state == UP else link.reason()

    def drop(self, answer: Answer, late: Callable[[Any], None] | None) -> None:
        """See Connection."""
        if answer.call is None:
            return
        if late is None or answer.call.unsent:
            answer.call.cancel()
        else:
            answer.late = late


def _ignore(reply: Any, error: BaseException | None) -> None:
    """A reply that nobody waits for."""
