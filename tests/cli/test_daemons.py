"""`dtfzmq serve`, `status` and `shutdown` on real processes."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import dtfzmq as tf
from dtfzmq.cli import ask
from dtfzmq.wire import messages
from tests.kit.cluster import ROOT, Cluster, port_is_free
from tests.kit.waiting import wait_for

Processes = Callable[..., Cluster]
# `dtfzmq status --timeout 1.5` takes that long and its start; wide, since many tests may run at once, and yet far below
# the 30 s for which a task that was never reached is waited for elsewhere.
LIMIT_S = 10.0


def dtfzmq(*arguments: str, timeout: float = 30) -> tuple[int, str, float]:
    """(exit code, output, seconds) of one command."""
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "dtfzmq", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, cwd=ROOT,
    )  # fmt: skip
    return done.returncode, done.stdout, time.monotonic() - begin


def can_bind(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
            probe.listen()
        except OSError:
            return False
        return True


@pytest.mark.parametrize(("number", "code", "limit"), [(signal.SIGTERM, 0, 2.0), (signal.SIGINT, 130, 1.0)])
def test_a_daemon_ends_on_a_signal_and_leaves_its_port(
    processes: Processes, number: int, code: int, limit: float
) -> None:
    cluster = processes({"ps": 1})
    task = cluster.start("ps")
    begin = time.monotonic()
    task.send(number)
    assert task.wait() == code, task.output()
    assert time.monotonic() - begin < limit
    assert can_bind(cluster.address("ps"))


def test_a_daemon_that_is_told_to_end_again_and_again_ends_well(processes: Processes) -> None:
    cluster = processes({"ps": 1})
    task = cluster.start("ps")

    def told() -> bool:
        if task.process.poll() is None:
            task.send(signal.SIGTERM)
        return task.process.poll() is not None

    wait_for(told, 20, "the daemon's end")
    assert task.wait() == 0, task.output()


def test_shutdown_ends_a_daemon_with_code_0_and_leaves_its_port(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    code, out, _ = dtfzmq("shutdown", cluster.address("ps"), cluster.target("worker"))
    begin = time.monotonic()  # how long the command itself takes to load is not the daemons' affair
    assert (code, out.count("is ending")) == (0, 2), out
    assert cluster.tasks["ps/0"].wait() == 0
    assert cluster.tasks["worker/0"].wait() == 0
    assert time.monotonic() - begin < 2.0
    assert can_bind(cluster.address("ps"))


def test_shutdown_refuses_while_a_session_of_others_is_open_unless_forced(processes: Processes) -> None:
    cluster = processes({"worker": 1})
    task = cluster.start("worker")
    with tf.Graph().as_default(), tf.Session(cluster.target("worker")) as session:
        one = tf.constant(1)
        assert session.run(one) == 1
        code, out, _ = dtfzmq("shutdown", cluster.address("worker"))
        assert code == 1
        assert "FailedPrecondition" in out
        assert session.run(one) == 1
        assert task.process.poll() is None
        code, out, _ = dtfzmq("shutdown", "--force", cluster.address("worker"))
        assert code == 0, out
        assert task.wait() == 0
        with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)):
            session.run(one)


def test_a_closed_session_does_not_stand_in_the_way(processes: Processes) -> None:
    cluster = processes({"worker": 1})
    task = cluster.start("worker")
    with tf.Graph().as_default(), tf.Session(cluster.target("worker")) as session:
        session.run(tf.constant(1))
    code, out, _ = dtfzmq("shutdown", cluster.address("worker"))
    assert code == 0, out
    assert task.wait() == 0


def test_status_shows_every_task_up_or_down_within_two_seconds(processes: Processes) -> None:
    cluster = processes({"ps": 3, "worker": 2})
    cluster.start("ps", 0, "--devices", "CPU:2")
    cluster.start("ps", 1)
    cluster.start("worker", 0)
    cluster.start("worker", 1)
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0/cpu:1"):
            v = tf.Variable(tf.zeros([1000]), name="v")
        with tf.device("/job:worker/task:0"):
            w = v + 1.0
        with tf.Session(cluster.target("worker")) as session:
            session.run(v.initializer)
            for _ in range(10):
                session.run(w.op)
            cluster.tasks["worker/1"].kill()
            cluster.tasks["ps/1"].freeze()
            code, out, seconds = dtfzmq("status", cluster.address("worker"), "--timeout", "1.5")
            cluster.tasks["ps/1"].thaw()
    states = dict(re.findall(r"^/job:(\w+/replica:0/task:\d) +(up|down)", out, re.M))
    assert states == {
        "ps/replica:0/task:0": "up", "ps/replica:0/task:1": "down", "ps/replica:0/task:2": "down",
        "worker/replica:0/task:0": "up", "worker/replica:0/task:1": "down",
    }, out  # fmt: skip
    assert code == 1
    assert seconds < LIMIT_S
    assert "device:CPU:1" in out
    assert re.search(r"sessions +1\b", out), out
    assert re.search(r"sent [\d.]+ KiB", out), out


def test_status_of_a_healthy_cluster_and_of_nobody(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start_all()
    code, out, _ = dtfzmq("status", cluster.target("ps"))
    assert code == 0, out
    cluster.tasks["ps/0"].kill()
    code, out, seconds = dtfzmq("status", cluster.target("ps"), "--timeout", "1.5")
    assert code == 1
    assert f"No answer within 1.5 s ({cluster.address('ps')}: connection refused)." in out
    assert seconds < LIMIT_S


def test_what_is_said_of_a_port_and_of_a_time() -> None:
    code, out, _ = dtfzmq("status", "localhost:99999")
    assert code == 1
    assert "The port of localhost:99999 is out of range" in out
    (late,) = ask.ask(["zmq://localhost:1"], messages.Status(), 0.3456)
    assert late.message.startswith("No answer within 0.3 s")


def test_status_tells_who_is_in_a_tasks_place(processes: Processes) -> None:
    cluster = processes({"ps": 1, "worker": 1})
    cluster.start("worker")
    command = [sys.executable, "-m", "dtfzmq", "serve", "--cluster", f"foo={cluster.address('ps')}"]
    cluster.run("foo", command).wait_printed("ready at")
    code, out, _ = dtfzmq("status", cluster.target("worker"))
    assert code == 1, out
    assert re.search(r"^/job:ps/replica:0/task:0 +down .*/job:foo/replica:0/task:0 answers there", out, re.M), out
    assert re.search(r"^/job:worker/replica:0/task:0 +up", out, re.M), out


@pytest.mark.parametrize("verb", ["status", "shutdown"])
@pytest.mark.parametrize("text", ["nan", "-1", "0", "1e400", "soon"])
def test_a_time_to_wait_that_is_none_is_told(verb: str, text: str) -> None:
    code, out, _ = dtfzmq(verb, "127.0.0.1:1", f"--timeout={text}")
    assert code == 2
    assert f"'{text}' is not a time to wait" in out


def test_a_port_file_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    for path in (tmp_path / "folder", tmp_path / "none" / "file"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        code, out, _ = dtfzmq("serve", "--quiet", "--cluster", "ps=127.0.0.1:0", "--port-file", str(path))
        assert code == 1
        assert f"'{path}' cannot be written" in out
        assert "Name a file" in out
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_an_explicit_bind_address_is_the_only_one_that_is_bound(processes: Processes) -> None:
    address = processes({"ps": 1}).address("ps")
    code, out, _ = dtfzmq("serve", "--cluster", f"ps={address}", "--bind", "10.99.99.99")
    assert code == 1
    assert "10.99.99.99" in out
    assert "is not an address of this machine" in out


def test_a_busy_port_is_named(processes: Processes) -> None:
    cluster = processes({"ps": 1})
    with socket.create_server(("127.0.0.1", 0)) as busy:
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        code, out, _ = dtfzmq("serve", "--cluster", f"ps={address}")
    assert code == 1
    assert address in out
    assert "ps" in out
    assert port_is_free(cluster.address("ps"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cluster", "ps=127.0.0.1:1;worker=127.0.0.1:2"], "job_name"),
        (["--cluster", "ps=127.0.0.1:1", "--job", "qs", "--task", "0"], "qs"),
        (["--cluster", "ps=127.0.0.1:1", "--job", "ps", "--task", "4"], "4"),
        (["--cluster", "nonsense"], "nonsense"),
        (["--cluster", "ps=127.0.0.1:0", "--devices", "two"], "two"),
        (["--cluster", "ps=127.0.0.1:0", "--devices", "CPU:100000000"], "0 to 1024"),
        (["--cluster", "ps=127.0.0.1:1;worker=127.0.0.1:2", "--job", "zz"], "No such job in cluster: 'zz'"),
        (["--cluster", "ps=127.0.0.1:0;worker=host", "--job", "ps"], '"host" of /job:worker'),
    ],
)
def test_bad_usage_is_named(arguments: list[str], text: str) -> None:
    code, out, _ = dtfzmq("serve", *arguments)
    assert code == 1
    assert text in out
    assert "Traceback" not in out


def test_port_0_is_published_once_it_is_bound(processes: Processes) -> None:
    cluster = processes({"unused": 1})
    file = cluster.folder / "port"
    command = [sys.executable, "-m", "dtfzmq", "serve", "--cluster", "worker=127.0.0.1:0", "--port-file", str(file)]
    task = cluster.run("any", command)
    address = wait_for(lambda: file.exists() and file.read_text().strip(), 20)
    with tf.Graph().as_default(), tf.Session(f"zmq://{address}") as session:
        assert session.run(tf.constant(2) + 3) == 5
    assert task.terminate() == 0


def test_the_bind_address_is_apart_from_the_advertised_one(processes: Processes) -> None:
    cluster = processes({"unused": 1})
    port = cluster.address("unused").rpartition(":")[2]
    command = [sys.executable, "-m", "dtfzmq", "serve", "--cluster", f"worker=some-alias.invalid:{port}"]
    task = cluster.run("alias", [*command, "--bind", "127.0.0.1"])
    task.wait_printed("ready at")
    with tf.Graph().as_default(), tf.Session(f"zmq://127.0.0.1:{port}") as session:
        assert session.run(tf.constant(2) + 3) == 5
    assert task.terminate() == 0
