"""Time limits of what comes before and beside a step, and what a request that ran out of time leaves behind."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.cli.ports import HeldPorts
from dtfzmq.client.connection import Answer
from dtfzmq.wire import messages as m
from tests.kit import servers
from tests.kit.waiting import wait_for


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def config(**fields: Any) -> tf.ConfigProto:
    """A session that takes the network to a server of this process."""
    made = tf.ConfigProto(**fields)
    made.rpc_options.use_rpc_for_inprocess_master = True
    return made


def test_attempts_that_ran_out_of_time_leave_no_session_behind() -> None:
    held = HeldPorts(1)
    spec = {"local": [f"127.0.0.1:{held.ports[0]}"]}
    x = tf.constant(2.0) * 3.0
    session = tf.Session(f"zmq://{spec['local'][0]}", config=config(operation_timeout_in_ms=50))
    for _ in range(3):
        with pytest.raises(tf.errors.DeadlineExceededError, match=spec["local"][0]):
            session.run(x)
    server = tf.train.Server(spec, job_name="local", task_index=0)
    assert session.run(x, options=tf.RunOptions(timeout_in_ms=10_000)) == 6
    assert len(server.core.master.sessions) == 1
    session.close()
    assert len(server.core.master.sessions) == 0
    server.stop()
    held.close()


@contextlib.contextmanager
def web_server() -> Iterator[int]:
    """A program of another kind; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        serving.join(10)


def test_a_target_that_cannot_be_reached_is_named_with_the_reason() -> None:
    x = tf.constant(2.0) * 3.0
    held = HeldPorts(1)
    silent = socket.create_server(("127.0.0.1", 0))
    with web_server() as port:
        for address, reason in (
            (f"127.0.0.1:{held.ports[0]}", "connection refused"),
            ("no.such.host.invalid:2222", "the host name no.such.host.invalid is not known"),
            (f"127.0.0.1:{port}", "ZeroMQ|the connection ended"),
            (f"127.0.0.1:{silent.getsockname()[1]}", "no answer yet"),
        ):
            said = f"{address} could not be reached within 0.3 s .*({reason}).*Check that the address is right"
            with tf.Session(f"zmq://{address}", config=config(operation_timeout_in_ms=300)) as session:
                with pytest.raises(tf.errors.DeadlineExceededError, match=said):
                    session.run(x)
    silent.close()
    held.close()


def test_a_run_that_waits_for_a_host_that_is_not_known_says_so() -> None:
    held = HeldPorts(1)
    spec = {"ps": ["no.such.host.invalid:2222"], "worker": [f"127.0.0.1:{held.ports[0]}"]}
    server = tf.train.Server(spec, job_name="worker", task_index=0)
    with tf.device("/job:ps/task:0"):
        x = tf.constant(2.0) * 3.0
    said = r"/job:ps/replica:0/task:0 at no\S+ \(no\S+ the host name no.such.host.invalid is not known\)"
    with tf.Session(server.target, config=tf.ConfigProto(operation_timeout_in_ms=1000)) as session:
        for ask in (session.list_devices, lambda: session.run(x)):
            with pytest.raises(tf.errors.DeadlineExceededError, match=said):
                ask()
    server.stop()
    held.close()


def test_a_run_that_is_late_names_the_tasks_that_are_missing_and_no_others() -> None:
    held = HeldPorts(3)
    spec = {"worker": [f"127.0.0.1:{port}" for port in held.ports]}
    first, second = (tf.train.Server(spec, job_name="worker", task_index=index) for index in (0, 1))
    total = tf.constant(0.0)
    for index in range(3):
        with tf.device(f"/job:worker/task:{index}"):
            total = total + 1.0
    with tf.Session(first.target, config=tf.ConfigProto(operation_timeout_in_ms=300)) as session:
        with pytest.raises(tf.errors.DeadlineExceededError, match="waiting for /job:worker/replica:0/task:2 at [^,]*$"):
            session.run(total)
    second.stop()
    first.stop()
    held.close()


def hold(server: tf.train.Server, message: type[Any]) -> Any:
    """From now on the server keeps messages of a type, until what this returns is called."""
    handlers = server.core.service.handlers
    real, kept = handlers[message], []
    handlers[message] = lambda *call: kept.append(call)

    def release() -> None:
        handlers[message] = real
        with server.loop.held():
            for link, message_, reply in kept:
                server.core.service.handle(link, message_, reply)

    return release


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
def test_a_session_that_was_made_too_late_is_closed_again(network: bool) -> None:
    server = tf.train.Server.create_local_server()
    x = tf.constant(2.0) * 3.0
    limits = {"operation_timeout_in_ms": 50}
    session = tf.Session(server.target, config=config(**limits) if network else tf.ConfigProto(**limits))
    release = hold(server, m.CreateSession)
    with pytest.raises(tf.errors.DeadlineExceededError, match="CreateSession"):
        session.run(x)
    release()
    wait_for(lambda: not server.core.master.sessions)
    assert session.run(x, options=tf.RunOptions(timeout_in_ms=10_000)) == 6
    session.close()
    server.stop()


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
def test_an_extension_that_was_answered_too_late_is_no_harm(network: bool) -> None:
    server = tf.train.Server.create_local_server()
    limits = {"operation_timeout_in_ms": 50}
    session = tf.Session(server.target, config=config(**limits) if network else tf.ConfigProto(**limits))
    patient = tf.RunOptions(timeout_in_ms=10_000)
    assert session.run(tf.constant(1.0), options=patient) == 1
    y = tf.constant(2.0) * 3.0
    release = hold(server, m.ExtendSession)
    with pytest.raises(tf.errors.DeadlineExceededError, match="ExtendSession"):
        session.run(y)
    z = y + 1.0
    release()
    assert session.run(z, options=patient) == 7
    assert session.run(y + 2.0, options=patient) == 8
    session.close()
    server.stop()


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
def test_the_limit_that_was_given_is_named_where_a_signature_is_sent_again(network: bool) -> None:
    server = tf.train.Server.create_local_server()
    x = tf.constant(2.0) * 3.0
    with tf.Session(server.target, config=config() if network else None) as session:
        assert session.run(x) == 6
        (plans,) = (s.plans for s in server.core.master.sessions.values())
        with server.loop.held():
            plans.drop(next(iter(plans.calls.values())))
            handlers = server.core.service.handlers
            real = handlers[m.RunStep]
            handlers[m.RunStep] = lambda *call: real(*call) if call[1].signature is None else None
        with pytest.raises(tf.errors.DeadlineExceededError, match=r"a run within 0\.2 s; the step was cancelled"):
            session.run(x, options=tf.RunOptions(timeout_in_ms=200))
        handlers[m.RunStep] = real
        assert session.run(x) == 6
    server.stop()


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
def test_a_limit_may_be_as_long_as_one_likes(network: bool) -> None:
    queue = tf.FIFOQueue(1, tf.float32, [[]], shared_name="q")
    value = queue.dequeue()
    server = tf.train.Server.create_local_server()
    limits = {"operation_timeout_in_ms": 2**60}
    options = tf.RunOptions(timeout_in_ms=2**60)
    with tf.Session(server.target, config=config(**limits) if network else tf.ConfigProto(**limits)) as session:
        got: list[Any] = []
        waiting = threading.Thread(target=lambda: got.append(session.run(value, options=options)))
        waiting.start()
        wait_for(lambda: server.core.master.statistics()["steps"]["running"] == 1)
        session.run(queue.enqueue(3.0))
        waiting.join(10)
        assert got == [3.0]
    server.stop()


def test_listing_devices_waits_for_late_tasks_and_names_those_that_are_silent() -> None:
    held = HeldPorts(2)
    spec = {"worker": [f"127.0.0.1:{port}" for port in held.ports]}
    first = tf.train.Server(spec, job_name="worker", task_index=0)
    for made in (tf.ConfigProto, config):
        with tf.Session(first.target, config=made(operation_timeout_in_ms=50)) as session:
            silent = f"/job:worker/replica:0/task:1 at {spec['worker'][1]}"
            with pytest.raises(tf.errors.DeadlineExceededError, match=silent):
                session.list_devices()
    found: list[Any] = []
    with tf.Session(first.target, config=config()) as session:
        listing = threading.Thread(target=lambda: found.extend(session.list_devices()))
        listing.start()
        listing.join(0.4)  # longer than what a limit is given for the way
        second = tf.train.Server(spec, job_name="worker", task_index=1)
        listing.join(10)
    assert [device.name.rpartition("/device")[0][-1] for device in found] == ["0", "1"]
    second.stop()
    first.stop()
    held.close()


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
def test_a_partial_run_keeps_the_limit_of_its_session(network: bool) -> None:
    limits = {"operation_timeout_in_ms": 300}
    with servers.start({"ps": 1, "worker": 1}) as made:
        with tf.device("/job:ps/task:0"):
            a = tf.placeholder(tf.float32, [])
            late = a + tf.FIFOQueue(1, tf.float32, [[]], shared_name="q").dequeue()
        target = made["worker:0"].target
        with tf.Session(target, config=config(**limits) if network else tf.ConfigProto(**limits)) as session:
            handle = session.partial_run_setup([late], [a])
            with pytest.raises(tf.errors.DeadlineExceededError, match="partial run.*/job:ps/replica:0/task:0"):
                session.partial_run(handle, late, {a: 1.0})
            wait_for(lambda: not made["worker:0"].core.master.statistics()["steps"]["running"])
            assert not made["ps:0"].core.worker.steps
            assert session.run(a + 1.0, {a: 1.0}) == 2


@pytest.mark.parametrize("network", [False, True], ids=["same process", "over a link"])
def test_a_partial_run_that_cannot_begin_in_time_names_who_is_late_and_leaves_nothing(network: bool) -> None:
    limits = {"operation_timeout_in_ms": 300}
    with servers.start({"ps": 1, "worker": 1}) as made:
        with tf.device("/job:ps/task:0"):
            a = tf.placeholder(tf.float32, [])
            there = a + tf.random_uniform([])
        target = made["worker:0"].target
        with tf.Session(target, config=config(**limits) if network else tf.ConfigProto(**limits)) as session:
            release = hold(made["ps:0"], m.RegisterGraph)
            with pytest.raises(tf.errors.DeadlineExceededError, match="still waiting for /job:ps/replica:0/task:0"):
                session.partial_run_setup([there], [a])
            release()
            assert session.run(there, {a: 1.0}, options=tf.RunOptions(timeout_in_ms=10_000)) >= 1
            master = made["worker:0"].core.master
            assert not master.statistics()["steps"]["running"] and not made["ps:0"].core.worker.steps
            assert all(not found.partials for found in master.sessions.values())


def test_a_partial_run_that_failed_says_why_whatever_it_is_asked() -> None:
    with servers.start({"ps": 1, "worker": 1}) as made:
        with tf.device("/job:ps/task:0"):
            a = tf.placeholder(tf.float32, [])
            late = a + tf.FIFOQueue(1, tf.float32, [[]]).dequeue()
        with tf.Session(made["worker:0"].target, config=tf.ConfigProto(operation_timeout_in_ms=300)) as session:
            handle = session.partial_run_setup([late, a * 2.0], [a])
            for _ in range(2):
                with pytest.raises(tf.errors.DeadlineExceededError, match="the partial run was cancelled"):
                    session.partial_run(handle, late, {a: 1.0})


def ask(session: tf.Session, message: Any) -> Any:
    """Send a message that no session would send."""
    answer = Answer()
    with session._loop.held():
        session._connection.ask(message, answer)
    return session._loop.wait(answer, 10)


def test_limits_and_feeds_that_no_client_sends_are_refused() -> None:
    server = tf.train.Server.create_local_server()
    x = tf.placeholder(tf.float32, [])
    y = x + 1.0
    one = np.float32(1)
    with tf.Session(server.target, config=config()) as session:
        assert session.run(y, {x: 1.0}) == 2
        names = ((x.name,), (y.name,), ())
        for limit in (float("nan"), -1.0):
            for message in (
                m.RunStep(session._handle, 1, 77, [one], names, limit),
                m.RunStep(session._handle, 77, 77, [one], names, limit),
                m.ListDevices(session._handle, limit),
                m.PartialRunStep(session._handle, "", (), [], (), limit),
                m.Reset((), limit),
            ):
                with pytest.raises(tf.errors.InvalidArgumentError, match="time limit"):
                    ask(session, message)
        for limit in (float("inf"), 1e300):
            assert ask(session, m.RunStep(session._handle, 1, 77, [one], names, limit)).fetches == [2.0]
        for feeds in ([], [one, one], [None]):
            for call in (1, 78):
                with pytest.raises(tf.errors.InvalidArgumentError, match="This call feeds 1 tensors"):
                    ask(session, m.RunStep(session._handle, call, 77, feeds, names))
        long = f"{y.op.name}:{'9' * 5000}"
        for _ in range(2):  # the second would wait for the first for ever, if that were still thought to be planned
            with pytest.raises(tf.errors.InvalidArgumentError):
                ask(session, m.RunStep(session._handle, 79, 77, [], ((), (long,), ())))
        for junk in ({"device_filters": 5}, {"cluster_def": "x"}, {"graph_options": 5}):
            with pytest.raises(tf.errors.InvalidArgumentError, match="configuration"):
                ask(session, m.CreateSession([], [], junk))
        handle = ask(session, m.PartialRunSetup(session._handle, (x.name,), (y.name,), ())).partial
        for names_, feeds, fetches in (
            ((x.name,), [], ()),
            ((x.name, x.name), [one, one], ()),
            ((), [], (y.name, y.name)),
            ((x.name,), [None], ()),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match="named"):
                ask(session, m.PartialRunStep(session._handle, handle, names_, feeds, fetches))
        step = m.PartialRunStep(session._handle, handle, (x.name,), [one * 3], (y.name,))
        assert ask(session, step).fetches == [4.0]
        assert session.run(y, {x: 1.0}) == 2
    server.stop()
