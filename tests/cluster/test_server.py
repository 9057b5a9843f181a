"""train.Server: every way to make one, its addresses, its ends."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.wire.messages import GetStatus
from tests.kit.cluster import Cluster
from tests.kit.waiting import wait_for
from tests.wire.test_zmq_links import Client


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def value_of(target: str) -> float:
    with tf.Graph().as_default(), tf.Session(target) as sess:
        return sess.run(tf.constant(20.0) + 1.0)


def test_every_form_of_the_arguments(free_port):
    address = f"127.0.0.1:{free_port}"
    cluster = {"worker": [address]}
    spec = tf.train.ClusterSpec(cluster)
    forms = [
        lambda: tf.train.Server(cluster),
        lambda: tf.train.Server(spec, job_name="worker", task_index=0),
        lambda: tf.train.Server(spec.as_cluster_def(), "worker", 0, protocol="grpc"),
        lambda: tf.train.Server(tf.train.ServerDef(cluster=spec.as_cluster_def(), protocol="grpc", job_name="worker")),
        lambda: tf.train.Server(
            spec, job_name="worker", config=tf.ConfigProto(log_device_placement=False), start=False
        ),
    ]
    for make in forms:
        server = make()
        assert server.target == f"zmq://{address}"
        assert (server.server_def.job_name, server.server_def.task_index) == ("worker", 0)
        assert tf.train.ClusterSpec(server.server_def.cluster) == spec
        assert value_of(server.target) == 21
        server.start()
        server.start()
        server.stop()


def test_stop_is_final_and_idempotent():
    server = tf.train.Server.create_local_server()
    server.stop()
    server.stop()
    with pytest.raises(tf.errors.FailedPreconditionError, match="Server has stopped"):
        server.start()


def test_fifty_servers_on_one_port(free_port):
    for _ in range(50):
        server = tf.train.Server({"local": [f"localhost:{free_port}"]})
        assert value_of(server.target) == 21
        server.stop()


def test_a_busy_port_is_named():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        with pytest.raises(
            tf.errors.UnknownError, match="Could not start .*server.*/job:ps/replica:0/task:0"
        ) as caught:
            tf.train.Server({"ps": [address], "worker": ["127.0.0.1:1"]}, "ps", 0)
        assert address in caught.value.message


def test_what_cannot_be_started():
    cluster = {"ps": ["localhost:1"], "worker": ["localhost:2", "localhost:3"]}
    with pytest.raises(tf.errors.InternalError, match='Job "zz" was not defined in cluster'):
        tf.train.Server(cluster, "zz", 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match='Task 7 was not defined in job "ps"'):
        tf.train.Server(cluster, "ps", 7)
    with pytest.raises(tf.errors.InvalidArgumentError, match='Could not parse port for local server from "localhost"'):
        tf.train.Server({"local": ["localhost"]})
    with pytest.raises(ValueError, match="Must specify an explicit `job_name`"):
        tf.train.Server(cluster)
    with pytest.raises(TypeError, match="Could not convert"):
        tf.train.Server(cast(Any, ["localhost:1"]))
    with pytest.raises(ValueError, match="port 0"):
        tf.train.Server({"ps": ["localhost:0"], "worker": ["localhost:0"]}, "ps", 0)


def test_port_zero_and_a_bind_address_of_its_own(free_port):
    one = tf.train.Server({"local": ["localhost:0"]})
    assert not one.target.endswith(":0") and value_of(one.target) == 21
    one.stop()
    # The cluster's name for it need not be an address of this host.
    two = tf.train.Server({"w": [f"worker-0.example:{free_port}"]}, bind_address=f"127.0.0.1:{free_port}")
    assert two.target == f"zmq://worker-0.example:{free_port}"
    assert value_of(two.target) == 21
    assert value_of(f"zmq://127.0.0.1:{free_port}") == 21
    two.stop()


@pytest.mark.parametrize(
    ("host", "bind", "told"),
    [
        ("127.0.0.1:PORT", None, "zmq://127.0.0.1:PORT"),
        ("worker-0.example:PORT", "127.0.0.1", "zmq://worker-0.example:PORT"),
        ("worker-0.example:PORT", "0.0.0.0:PORT", "zmq://worker-0.example:PORT"),
        ("worker-0.example:2222", "0.0.0.0:PORT", "zmq://worker-0.example:2222"),
        ("worker-0.example:0", "0.0.0.0:PORT", "zmq://worker-0.example:PORT"),
        ("localhost:0", None, "zmq://localhost:PORT"),
        ("0.0.0.0:PORT", None, ""),
        ("[::]:PORT", None, ""),
        ("0.0.0.0:PORT", "127.0.0.1", ""),
    ],
)
def test_peers_are_told_where_the_cluster_has_a_server_and_not_what_it_binds(free_port, host, bind, told):
    port = str(free_port)
    server = tf.train.Server({"w": [host.replace("PORT", port)]}, bind_address=bind and bind.replace("PORT", port))
    port = port if "PORT" in host or bind else server.target.rpartition(":")[2]
    client = Client()
    try:
        link = client.link(f"127.0.0.1:{port}")
        client.call(link, GetStatus())
        assert link.peer.address == told.replace("PORT", port)
    finally:
        client.close()
        server.stop()


@pytest.mark.parametrize("bind", ["10.99.99.99", "lo0", "127.0.0.1x", "[2001:db8::1]", "", "*", "no host", "a" * 80])
def test_a_bind_address_that_is_not_of_this_machine_binds_nothing(free_port, bind):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"/job:ps/.*(not an address of|is not a host)") as caught:
        tf.train.Server({"ps": [f"localhost:{free_port}"]}, bind_address=bind)
    assert bind.strip("[]") in caught.value.message
    with socket.socket() as probe:
        probe.settimeout(1)
        assert probe.connect_ex(("127.0.0.1", free_port))
    server = tf.train.Server({"ps": [f"localhost:{free_port}"]}, bind_address="127.0.0.1")
    server.stop()


def test_a_name_of_the_cluster_that_is_not_of_this_machine_is_bound_at_every_interface(free_port, caplog):
    with caplog.at_level(logging.WARNING, "dtfzmq"):
        server = tf.train.Server({"w": [f"worker-0.invalid:{free_port}"]})
    try:
        assert value_of(f"zmq://127.0.0.1:{free_port}") == 21
        (record,) = caplog.records
        assert f"worker-0.invalid:{free_port} is not an address of this machine" in record.getMessage()
    finally:
        server.stop()


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_a_server_at_every_interface_has_a_target_that_others_can_use(host, caplog):
    with caplog.at_level(logging.WARNING, "dtfzmq"):
        server = tf.train.Server({"w": [f"{host}:0"]})
    try:
        assert server.target.rpartition(":")[0] in (f"zmq://{socket.gethostname()}", "zmq://localhost")
        port = server.target.rpartition(":")[2]
        for target in (server.target, f"zmq://127.0.0.1:{port}", f"zmq://{host}:{port}"):
            assert value_of(target) == 21
        with socket.create_connection(("127.0.0.1", int(port)), 1):
            pass
        assert [r.getMessage() for r in caplog.records if "not an address" in r.getMessage()] == []
    finally:
        server.stop()


@pytest.mark.parametrize("address", ["localhost", "", "localhost:", "localhost:99999", "a b:1", "::1:2", "*:1", "h:²"])
def test_an_address_of_another_task_that_is_none_is_told_at_once(address):
    with pytest.raises(tf.errors.InvalidArgumentError, match="/job:worker/replica:0/task:1 as a host-port pair"):
        tf.train.Server({"ps": ["localhost:0"], "worker": ["localhost:1", address]}, "ps", 0)


@pytest.mark.parametrize("target", ["zmq://::1:2222", "zmq://*:1", "zmq://a b:1", "zmq:// localhost:1", "zmq://[no]:1"])
def test_a_target_that_is_no_address_is_told_at_once(target):
    with tf.Graph().as_default(), pytest.raises(tf.errors.InvalidArgumentError, match="as a host-port pair"):
        tf.constant(1)
        tf.Session(target)


@pytest.mark.parametrize("config", [5, {"device_count": {"CPU": 1}}, tf.ConfigProto])
def test_what_is_no_configuration_is_a_type_error(config):
    with pytest.raises(TypeError, match="must be a tf.ConfigProto"):
        tf.train.Server({"local": ["localhost:0"]}, config=config)


@pytest.mark.parametrize("count", [100_000_000, 1025, -1, 2.5, "2"])
def test_a_count_of_devices_that_cannot_be_is_told(count):
    with pytest.raises(tf.errors.InvalidArgumentError, match="device_count of CPU is .*0 to 1024"):
        tf.train.Server({"local": ["localhost:0"]}, config=tf.ConfigProto(device_count={"CPU": count}))


def test_loopback_is_quiet_and_a_wide_port_is_not(caplog):
    with caplog.at_level(logging.WARNING, "dtfzmq"):
        server = tf.train.Server.create_local_server()
        server.stop()
        assert not caplog.records
        server = tf.train.Server({"w": ["0.0.0.0:0"]})
        server.stop()
    assert len([r for r in caplog.records if "open to the network" in r.getMessage()]) == 1


def test_several_servers_of_one_process_are_a_cluster():
    ports = []
    for _ in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    cluster = {"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{ports[1]}"]}
    servers = [tf.train.Server(cluster, job, 0) for job in ("ps", "worker")]
    try:
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                v = tf.Variable(np.arange(50_000, dtype=np.float32), name="v")
            with tf.device("/job:worker/task:0"):
                y = v * 2.0
            for server in servers:
                with tf.Session(server.target) as sess:
                    sess.run(v.initializer)
                    got = sess.run(y)
                    np.testing.assert_array_equal(got, np.arange(50_000) * 2.0)
                    got[:] = 0
                    np.testing.assert_array_equal(sess.run(v), np.arange(50_000))
    finally:
        for server in servers:
            server.stop()


def test_two_devices_of_one_task():
    server = tf.train.Server({"local": ["localhost:0"]}, config=tf.ConfigProto(device_count={"CPU": 2}))
    try:
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [])
            with tf.device("/cpu:1"):
                a = x * 3.0
            with tf.device("/cpu:0"):
                b = a + 1.0
            with tf.Session(server.target) as sess:
                assert [d.name[-5:] for d in sess.list_devices()] == ["CPU:0", "CPU:1"]
                metadata = tf.RunMetadata()
                options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
                assert sess.run([b, a], {x: 2.0}, options=options, run_metadata=metadata) == [7, 6]
                assert {d.device[-5:] for d in metadata.step_stats.dev_stats} >= {"CPU:0", "CPU:1"}
    finally:
        server.stop()


def test_join_returns_when_another_thread_stops(free_port):
    server = tf.train.Server({"local": [f"localhost:{free_port}"]})
    stopper = threading.Timer(0.05, server.stop)
    stopper.start()
    began = time.monotonic()
    server.join()
    assert time.monotonic() - began < 2
    stopper.join()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free_port))


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 0), (signal.SIGINT, 7)])
def test_join_ends_on_signals(processes, tmp_path: Path, number, code):
    cluster: Cluster = processes({"ps": 1})
    script = tmp_path / "serve.py"
    script.write_text(
        "import sys, threading, dtfzmq as tf\n"
        "server = tf.train.Server({'ps': [sys.argv[1]]})\n"
        "threading.Timer(0.05, print, ['joining'], {'flush': True}).start()\n"
        "try:\n"
        "    server.join()\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(7)\n"
    )
    task = cluster.script(script, cluster.address("ps"))
    task.wait_printed("joining")
    began = time.monotonic()
    task.send(number)
    assert task.wait(5) == code, task.output()
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("busy", ["waits", "computes"])
def test_sessions_end_with_their_server(busy):
    """Whatever their steps are at: nobody is there to answer them later."""
    began, go_on = threading.Event(), threading.Event()

    def kernel(x):
        began.set()
        go_on.wait(30)
        return x

    for _ in range(5):
        server = tf.train.Server.create_local_server()
        with tf.Graph().as_default():
            if busy == "computes":
                fetch = tf.py_func(kernel, [tf.random_uniform([])], tf.float32)
            else:
                fetch = tf.FIFOQueue(1, tf.float32, [[]]).dequeue()
            sess = tf.Session(server.target)
            sess.run(tf.constant(1))
            seen: list[Exception] = []

            def blocked(sess=sess, fetch=fetch, seen=seen) -> None:
                try:
                    sess.run(fetch)
                except tf.errors.OpError as error:
                    seen.append(error)

            thread = threading.Thread(target=blocked)
            thread.start()
            while len(server.core.worker.steps) == 0:
                assert thread.is_alive()
            if busy == "computes":
                assert began.wait(10)
            server.stop()
            thread.join(5)
            assert isinstance(seen[0], tf.errors.UnavailableError), seen
            sess.close()
    go_on.set()


def test_a_run_that_computes_while_its_server_is_stopped_ends_well():
    began, go_on = threading.Event(), threading.Event()

    def kernel(x):
        began.set()
        assert go_on.wait(30)
        return x + 1

    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default(), tf.Session(server.target) as sess:
        fetch = tf.py_func(kernel, [tf.constant(1.0)], tf.float32)
        seen: list[float] = []
        client = threading.Thread(target=lambda: seen.append(sess.run(fetch)))
        client.start()
        assert began.wait(10)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        wait_for(lambda: server.ended, 10, "the stop")
        with server.loop.held():
            assert not seen
        go_on.set()
        client.join(10)
        stopper.join(10)
        assert seen == [2]


def test_a_forked_child_is_told_and_may_start_anew():
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default():
        c = tf.constant(5)
        with tf.Session(server.target) as here, tf.Session() as alone:
            assert here.run(c) == alone.run(c) == 5
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for inherited in (here, alone):
                        try:
                            inherited.run(c)
                        except RuntimeError as error:
                            assert "fork" in str(error)
                        else:
                            raise AssertionError("an inherited session ran")
                    for target in ("", server.target):
                        with tf.Session(target) as fresh:
                            assert fresh.run(c) == 5
                    for inherited in (here, alone):
                        inherited.close()
                        with pytest.raises(RuntimeError, match="closed Session"):
                            inherited.run(c)
                    server.stop()
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert here.run(c) == alone.run(c) == 5
    server.stop()


def test_a_session_names_the_cluster_of_its_master_or_is_told():
    server = tf.train.Server.create_local_server()
    try:
        for address, works in ((server.target[6:], True), ("localhost:0", False)):
            config = tf.ConfigProto(cluster_def=tf.train.ClusterSpec({"local": [address]}).as_cluster_def())
            with tf.Graph().as_default(), tf.Session(server.target, config=config) as sess:
                if works:
                    assert sess.run(tf.constant(1)) == 1
                else:
                    known = f"has {server.target[6:]}: a session cannot bring a cluster of its own"
                    with pytest.raises(tf.errors.UnimplementedError, match=known):
                        sess.run(tf.constant(1))
    finally:
        server.stop()


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_is_no_exception_ends_a_step_and_no_thread(error: type[BaseException]) -> None:
    server = tf.train.Server.create_local_server()
    config = tf.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = True

    def leaves(x: Any) -> Any:
        raise error("left")

    with tf.Graph().as_default(), tf.Session(server.target, config=config) as session:
        y = tf.py_func(leaves, [tf.constant(1.0)], tf.float32)
        for _ in range(3):
            with pytest.raises(tf.errors.CancelledError, match=f"{error.__name__}: left"):
                session.run(y, options=tf.RunOptions(timeout_in_ms=20_000))
        assert session.run(tf.constant(20.0) + 1.0) == 21
        assert not server.core.worker.steps
    server.stop()


def test_a_signal_handler_may_stop_a_server_amid_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    server = tf.train.Server.create_local_server()
    whole = server._task.stop

    def struck(*args: Any) -> None:
        server.stop()
        whole(*args)

    monkeypatch.setattr(server._task, "stop", struck)
    server.stop()
    server.join()
