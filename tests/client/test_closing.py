"""A session that is closed while its first run is on the way."""

from __future__ import annotations

import os
import threading
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


@pytest.mark.parametrize("keep", [False, True], ids=["the last one", "one of two"])
def test_runs_that_a_close_overtakes_are_cancelled(keep: bool) -> None:
    server = tf.train.Server.create_local_server()
    config = tf.ConfigProto(rpc_options=tf.ConfigProto().rpc_options)
    config.rpc_options.use_rpc_for_inprocess_master = True
    with tf.Graph().as_default() as graph:
        fetch = tf.constant(1.0)
        for _ in range(100):
            fetch = fetch + 1.0
    met: list[str] = []

    def run(session: tf.Session, begun: threading.Barrier) -> None:
        begun.wait()
        try:
            session.run(fetch)
        except RuntimeError as error:
            met.append(str(error))
        except tf.errors.OpError as error:
            met.append(f"{type(error).__name__}: {error.message}")

    other = tf.Session(server.target, graph, config)
    if keep:
        other.run(fetch)
    for pause in range(60):
        session, begun = tf.Session(server.target, graph, config), threading.Barrier(5)
        runs = [threading.Thread(target=run, args=(session, begun)) for _ in range(4)]
        for thread in runs:
            thread.start()
        begun.wait()
        for _ in range(pause * 2000):
            pass
        session.close()
        for thread in runs:
            thread.join()
    other.close()
    server.stop()
    cancelled = "CancelledError: Step was cancelled by an explicit call to `Session::Close()`."
    assert set(met) <= {cancelled, "Attempted to use a closed Session."}


def test_a_forked_child_does_not_wait_for_a_thread_that_it_has_not() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.constant(1))
        fetch = tf.constant(2)
        with session._graph_lock:  # as a thread holds it that sends a grown graph
            child = os.fork()
            if not child:
                try:
                    session.run(fetch)
                except RuntimeError as error:
                    os._exit(0 if "after a fork" in str(error) else 1)
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert session.run(fetch) == 2
