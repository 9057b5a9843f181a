"""Signals that come while a session runs."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base.signals import deferral
from dtfzmq.runtime.plan import FEW
from tests.kit.cluster import Cluster
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
            wait_for(lambda: deferral.struck)
            monkeypatch.undo()

        striking = threading.Thread(target=strike)
        striking.start()
        with pytest.raises(KeyboardInterrupt):
            session.run(take)
        striking.join()
        assert max(longest) <= 0.5, "nothing else may be there to end a wait"


@pytest.mark.parametrize("remote", [False, True], ids=["private", "server"])
def test_a_handler_may_run_a_session_amid_a_run(remote: bool) -> None:
    server = tf.train.Server.create_local_server() if remote else None
    with tf.Graph().as_default(), tf.Session(server.target if server else "") as session:
        one = tf.constant(1.0)
        queue = tf.FIFOQueue(1, tf.float32, [[]])
        take, put = queue.dequeue(), queue.enqueue(3.0)
        assert session.run(one) == 1
        heard: list[float] = []

        def handler(number: int, frame: Any) -> None:
            heard.append(session.run(one))
            if len(heard) == 5:
                session.run(put)

        def strike() -> None:
            while not over.wait(0.005):
                os.kill(os.getpid(), signal.SIGUSR1)

        over = threading.Event()
        before = signal.signal(signal.SIGUSR1, handler)
        striking = threading.Thread(target=strike)
        striking.start()
        try:
            assert session.run(take) == 3
        finally:
            over.set()
            striking.join()
            signal.signal(signal.SIGUSR1, before)
        assert heard[:5] == [1.0] * 5
    if server is not None:
        server.stop()


class Out(Exception):
    """What a handler raises."""


@pytest.fixture
def raising() -> Iterator[None]:
    """SIGUSR1 raises Out."""

    def handler(number: int, frame: Any) -> None:
        raise Out

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("raising")
@pytest.mark.parametrize("rounds", [0, 3], ids=["at once", "amid its loop"])
def test_what_a_handler_raises_amid_a_python_function_leaves_the_run(rounds: int) -> None:
    """A brief plan runs on the thread that waits, where signals strike: what is raised is not the step's own error."""
    on_main: list[bool] = []

    def kernel(i: int) -> int:
        on_main.append(threading.current_thread() is threading.main_thread())
        if struck and i == rounds:
            signal.raise_signal(signal.SIGUSR1)
        return int(i) + 1

    def body(i: Any) -> Any:
        i = tf.py_func(kernel, [i], tf.int64)
        i.set_shape([])
        return i

    struck = False
    with tf.Graph().as_default(), tf.Session() as session:
        limit = tf.constant(5, tf.int64)
        loop = tf.while_loop(lambda i: i < limit, body, [tf.constant(0, tf.int64)])
        while not on_main or not on_main[-1]:
            assert session.run(loop) == 5
        worker = session._connection._handle.__self__.worker  # type: ignore[attr-defined]  # a local one
        struck = True
        with pytest.raises(Out):
            session.run(loop)
        wait_for(lambda: not worker.steps, 30)
        struck = False
        assert session.run(loop) == 5


@pytest.mark.usefixtures("raising")
def test_a_handler_that_raises_while_a_session_closes_leaves_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default():
        one = tf.constant(1.0)
    for target in ("", server.target):
        session = tf.Session(target, graph=one.graph)
        session.run(one)
        master = session._connection._handle.__self__.master  # type: ignore[attr-defined]  # a local one
        ask = session._connection.ask

        def asked(message: Any, answer: Any, ask: Callable[..., None] = ask) -> None:
            signal.raise_signal(signal.SIGUSR1)
            ask(message, answer)

        monkeypatch.setattr(session._connection, "ask", asked)
        with pytest.raises(Out):
            session.close()
        session.close()
        assert not master.sessions
    server.stop()


@pytest.mark.usefixtures("raising")
def test_a_handler_that_raises_while_a_server_begins_or_stops_leaves_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = tf.train.Server.create_local_server()
    close = server.core.close

    def closing() -> None:
        signal.raise_signal(signal.SIGUSR1)
        close()

    monkeypatch.setattr(server.core, "close", closing)
    with pytest.raises(Out):
        server.stop()
    server.stop()
    assert server.gone.is_set()

    names = tf.train.Server._reachable_as

    def named(self: tf.train.Server) -> list[str]:
        signal.raise_signal(signal.SIGUSR1)
        return names(self)

    monkeypatch.setattr(tf.train.Server, "_reachable_as", named)
    with pytest.raises(Out):
        tf.train.Server.create_local_server()
    # nothing is left behind, as a fixture sees


STRIKES = """
import faulthandler, random, signal, sys
import dtfzmq as tf

faulthandler.dump_traceback_later(60, exit=True)
target, kind, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(seed)
server = None if target else tf.train.Server.create_local_server()

class Out(Exception):
    pass

heard = 0

def handler(number, frame):
    global heard
    heard += 1
    if kind == "raises":
        raise Out
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.01))

x = tf.placeholder(tf.float32, [])
graphs = [x * 2, tf.assign_add(tf.Variable(0.0, dtype=tf.float64), 1.0)]
if server is not None:
    graphs.append(tf.py_func(lambda v: v * 2, [x], tf.float32))
session = tf.Session(target or server.target)
session.run(tf.global_variables_initializer())
counted = session.run(graphs[1])
signal.signal(signal.SIGALRM, handler)
runs = 0
while heard < 60:
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0005, 0.01))
    before = heard
    try:
        while heard < 60 if kind == "looks" else True:
            runs += 1
            fetched = session.run(graphs, {x: float(runs)})
            assert fetched[0] == 2 * runs and fetched[-1] in (fetched[1], 2 * runs), fetched
            assert fetched[1] > counted, fetched
            assert kind == "raises" or fetched[1] == counted + 1, fetched
            counted = fetched[1]
    except Out:
        assert heard == before + 1
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
signal.setitimer(signal.ITIMER_REAL, 0)
assert session.run(graphs, {x: 4.0})[0] == 8
session.close()
if server is not None:
    server.stop()
print("sound after", runs, "runs", flush=True)
"""


@pytest.mark.parametrize("kind", ["raises", "looks"])
@pytest.mark.parametrize("remote", [False, True], ids=["same process", "daemon"])
def test_a_handler_of_any_signal_amid_many_runs(
    processes: Callable[..., Cluster], tmp_path: Path, remote: bool, kind: str
) -> None:
    """In a process of its own, which a timer strikes at moments that nothing chooses."""
    cluster = processes({"worker": 1})
    if remote:
        cluster.start_all()
    script = tmp_path / "struck.py"
    script.write_text(STRIKES)
    client = cluster.script(script, cluster.target("worker") if remote else "", kind, "1")
    assert client.wait(90) == 0, client.output()
    assert "sound after" in client.output()


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
