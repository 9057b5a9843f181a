"""Signals that come while a session runs."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.runtime.plan import FEW
from tests.kit.waiting import wait_for


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 1], ids=["the first run", "a later run"])
def test_ctrl_c_does_not_wait_for_a_long_kernel(before: int) -> None:
    """A kernel in C, amid which Python handles no signal."""
    began, ended, struck = threading.Event(), threading.Event(), threading.Event()
    rounds = [2_000_000]

    def kernel(x: np.ndarray) -> np.ndarray:
        began.set()
        hashlib.pbkdf2_hmac("sha256", b"", b"", rounds[0])
        ended.set()
        return x

    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.py_func(kernel, [tf.random_uniform([])], tf.float32)
        for _ in range(before):
            session.run(y)
        began.clear()
        ended.clear()
        rounds[0] *= 5  # far longer than a signal takes

        def strike() -> None:
            began.wait(30)
            os.kill(os.getpid(), signal.SIGINT)
            struck.set()

        striking = threading.Thread(target=strike)
        striking.start()
        with pytest.raises(KeyboardInterrupt):
            session.run(y)
        assert struck.is_set() and not ended.is_set()
        striking.join()
        assert ended.wait(60)


def test_ctrl_c_that_comes_just_before_a_wait_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler runs, and what it does to end the wait comes too early for that."""
    with tf.Graph().as_default(), tf.Session() as session:
        take = tf.FIFOQueue(1, tf.float32, [[]]).dequeue()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(take, options=tf.RunOptions(timeout_in_ms=1))
        loop = session._loop
        main = threading.get_ident()
        poll, longest = loop.poller.poll, []

        def noted(timeout: float | None) -> None:
            if threading.get_ident() == main:
                longest.append(3600.0 if timeout is None else timeout)
            poll(timeout)

        monkeypatch.setattr(loop.poller, "poll", noted)

        def strike() -> None:
            wait_for(lambda: loop._holder == main)
            monkeypatch.setattr(loop.poller, "wake", lambda: None)
            os.kill(os.getpid(), signal.SIGINT)
            wait_for(lambda: loop._struck)
            monkeypatch.undo()

        striking = threading.Thread(target=strike)
        striking.start()
        with pytest.raises(KeyboardInterrupt):
            session.run(take)
        striking.join()
        assert max(longest) <= 0.5, "nothing else may be there to end a wait"


@pytest.mark.parametrize("remote", [False, True], ids=["private", "server"])
def test_a_handler_that_runs_a_session_amid_a_run_is_told(remote: bool) -> None:
    server = tf.train.Server.create_local_server() if remote else None
    with tf.Graph().as_default(), tf.Session(server.target if server else "") as session:
        one = tf.constant(1.0)
        take = tf.FIFOQueue(1, tf.float32, [[]]).dequeue()
        assert session.run(one) == 1

        def handler(number: int, frame: Any) -> None:
            session.run(one)

        def strike() -> None:
            while not over.wait(0.005):
                os.kill(os.getpid(), signal.SIGUSR1)

        over = threading.Event()
        before = signal.signal(signal.SIGUSR1, handler)
        striking = threading.Thread(target=strike)
        striking.start()
        said = "signal handler, cannot wait for a session.* Set a flag or start a thread"
        try:
            with pytest.raises(RuntimeError, match=said):
                session.run(take)
        finally:
            over.set()
            striking.join()
            signal.signal(signal.SIGUSR1, before)
        assert session.run(one) == 1
    if server is not None:
        server.stop()


@pytest.mark.slow
def test_a_step_that_is_cancelled_begins_few_more_kernels() -> None:
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    calls: list[int] = []

    def kernel(x: np.ndarray) -> np.ndarray:
        calls.append(1)
        began.set()
        go_on.wait(30)
        return x

    def run() -> None:
        with pytest.raises(tf.errors.CancelledError):
            session.run(y)
        ended.set()

    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.random_uniform([])
        for _ in range(40):
            y = tf.py_func(kernel, [y], tf.float32)
        worker = session._connection._handle.__self__.worker  # type: ignore[attr-defined]  # a local one
        running = threading.Thread(target=run)
        running.start()
        assert began.wait(30)
        session.close()
    go_on.set()
    running.join(30)
    assert ended.is_set()
    wait_for(lambda: not worker.runner.busy, 30)
    assert len(calls) <= FEW
