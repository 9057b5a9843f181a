"""A session that is closed while its first run is on the way."""

from __future__ import annotations

from typing import Any

import pytest

import dtfzmq as tf
from dtfzmq.wire import messages as m


def test_a_close_while_the_session_is_made_leaves_none_behind() -> None:
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default() as graph:
        get = tf.FIFOQueue(1, tf.int32, shapes=[[]]).dequeue()
    session = tf.Session(server.target, graph=graph)
    ask = session._ask

    def closing(message: Any, timeout: float | None, *more: Any) -> Any:
        reply = ask(message, timeout, *more)
        if isinstance(message, m.CreateSession):
            session.close()
        return reply

    session._ask = closing  # type: ignore[method-assign, assignment]  # the moment cannot be met from outside
    with pytest.raises(tf.errors.CancelledError, match="Session::Close"):
        session.run(get)
    assert server._task.master.sessions == {}
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(get)
    server.stop()
