"""Requests and replies: the caller's side, the service's side, and messages whose large tensors are still to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.wire.message import layout_of

if TYPE_CHECKING:
    from dtfzmq.wire.link import Link
    from dtfzmq.wire.numbers import Message

Done = Callable[[Any, "errors.OpError | None"], None]


class Call:
    """A request that waits for its reply. `done(reply, error)` is called exactly once, unless it is cancelled or asked
    `again`.
    """

    __slots__ = ("again", "done", "id", "item", "link", "timer", "transfers")

    def __init__(self, link: Link, number: int, done: Done, again: Callable[[], None] | None) -> None:
        self.link: Link | None = link
        self.id = number
        self.done: Done | None = done
        self.again = again
        self.timer: Any = None
        self.item: Message | None = None
        self.transfers: list[int] = []

    @property
    def unsent(self) -> bool:
        """True while it waits for a lane, so that the peer knows nothing of it."""
        return self.item is not None and not self.item.number

    def cancel(self) -> None:
        """Nobody waits any more: `done` is not called, what was not sent is not sent, the peer is told. Baton only."""
        link, self.link = self.link, None
        self.done = self.again = None
        if self.timer is not None:
            self.timer.cancel()
        if link is not None:
            link.cancel_call(self)

    def ask_again(self) -> None:
        """For the link: it is lost, and the peer knows nothing of the request."""
        again, self.again = self.again, None
        self.link = None
        self.done = None
        if self.timer is not None:
            self.timer.cancel()
        if again is not None:
            again()

    def finish(self, reply: Any, error: errors.OpError | None) -> None:
        """For the link: the end of the call."""
        done, self.done = self.done, None
        self.link = self.item = self.again = None
        if self.timer is not None:
            self.timer.cancel()
        if done is not None:
            done(reply, error)


class Reply:
    """How a service answers one request: ``reply(message)`` or ``reply.fail(error)``, once, on the baton, any time.

    `deadline` is the moment (loop time) after which nobody waits, None if there is none. `on_cancel`, if set, is called
    when the caller stops waiting or is lost.
    """

    __slots__ = ("deadline", "id", "link", "on_cancel")

    def __init__(self, link: Link, number: int, deadline: float | None) -> None:
        self.link: Link | None = link
        self.id = number
        self.deadline = deadline
        self.on_cancel: Callable[[], None] | None = None

    def __call__(self, message: Any) -> None:
        """Answer with `message`; its tensors are frozen from now on."""
        link, self.link = self.link, None
        if link is not None:
            link.answer(self.id, message)

    def fail(self, error: BaseException) -> None:
        """Answer with an error."""
        link, self.link = self.link, None
        if link is not None:
            link.answer_error(self.id, errors.wrap(error))

    def revoke(self) -> None:
        """For the link: nobody waits for it."""
        self.link = None
        hook, self.on_cancel = self.on_cancel, None
        if hook is not None:
            hook()


class Awaited:
    """Stands in a message for a tensor that was announced with it."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: Any = None


def complete(message: Any) -> Any:
    """The message with every Awaited replaced by its value."""
    layout = layout_of(type(message))
    for i in layout.tensors:
        values = getattr(message, layout.fields[i])
        values[:] = [v.value if type(v) is Awaited else v for v in values]
    return message
