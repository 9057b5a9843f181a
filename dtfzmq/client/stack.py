"""The default session of each thread, and how a dropped session is put away."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from dtfzmq.base.loop import Loop
from dtfzmq.client.connection import Connection
from dtfzmq.graph.tensor import set_default_session_finder


class _Stack(threading.local):
    def __init__(self) -> None:
        self.sessions: list[Any] = []


_stack = _Stack()


def get_default_session() -> Any:
    """The innermost default session of this thread, or None."""
    sessions = _stack.sessions
    return sessions[-1] if sessions else None


set_default_session_finder(get_default_session)


@contextlib.contextmanager
def default(session: Any, strict: bool = True) -> Iterator[None]:
    """Make `session` the thread's default inside the block. `strict`: blocks must end in the order of nesting."""
    sessions = _stack.sessions
    sessions.append(session)
    try:
        yield
    finally:
        if strict and sessions and sessions[-1] is not session:
            raise AssertionError(f"Nesting violated for default stack of {type(session)} objects")
        if session in sessions:
            sessions.remove(session)


def abandon(loop: Loop, connection: Connection, farewell: Any) -> None:
    """Say `farewell` and give the connection back, from any thread, at some later moment."""

    def leave() -> None:
        if farewell is not None:
            connection.tell(farewell)
        connection.close()

    loop.call_soon(leave)
