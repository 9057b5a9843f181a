"""Every program in examples/ runs on real processes and says what it should."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.cluster import ROOT, Cluster

EXAMPLES = ROOT / "examples"
Processes = Callable[..., Cluster]


def launched(*arguments: str, timeout: float = 50) -> str:
    """What `dtfzmq run` prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "dtfzmq", "run", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def script(name: str, *arguments: str) -> list[str]:
    return ["--", sys.executable, str(EXAMPLES / name), *arguments]


REPLICA = ["--ps_hosts", "{ps_hosts}", "--worker_hosts", "{worker_hosts}"]
REPLICA += ["--job_name", "{job_name}", "--task_index", "{task_index}"]


def test_hello(processes: Processes) -> None:
    hello = processes({"unused": 1}).script(EXAMPLES / "hello.py")
    assert hello.wait() == 0
    assert hello.output() == "Hello, distributed dtfzmq!\n"


def test_two_tasks(processes: Processes) -> None:
    cluster = processes({"local": 2})
    ends = [
        cluster.script(EXAMPLES / "two_tasks.py", "--hosts", "{local_hosts}", "--task_index", str(i), index=i)
        for i in (1, 0)
    ]
    assert ends[1].wait() == 0, ends[1].output()
    assert "mean by two tasks: 49.5 by numpy: 49.5" in ends[1].output()
    assert ends[0].process.poll() is None
    assert ends[0].terminate() == 0


def test_two_devices(processes: Processes) -> None:
    program = processes({"unused": 1}).script(EXAMPLES / "two_devices.py")
    assert program.wait() == 0, program.output()
    devices, total = program.output().splitlines()
    names = [f"/job:local/replica:0/task:0/device:CPU:{i}" for i in range(2)]
    assert devices == f"devices: {' '.join(names)}"
    assert len({float(number) for number in re.findall(r"[\d.]+", total)}) == 1


def test_an_input_pipeline(processes: Processes) -> None:
    program = processes({"unused": 1}).script(EXAMPLES / "input_pipeline.py")
    assert program.wait() == 0, program.output()
    over, found = program.output().splitlines()
    assert re.fullmatch(r"3 epochs are over after 90 steps, loss 0\.0+\d{0,2}", over), over
    assert [float(number) for number in re.findall(r"-?\d+\.?\d*", found)] == [2.0, -1.0, 0.5, 3.0]


def test_a_remote_client_of_two_ps_and_a_worker(processes: Processes) -> None:
    cluster = processes({"ps": 2, "worker": 1})
    cluster.start_all()
    client = cluster.script(EXAMPLES / "remote_client.py", "--target", cluster.target("worker"))
    assert client.wait() == 0, client.output()
    accuracy = re.search(r"after 300 steps: loss [\d.]+, accuracy ([\d.]+)", client.output())
    assert accuracy and float(accuracy[1]) > 0.9, client.output()


def test_a_remote_client_without_its_cluster_says_so_in_one_line(processes: Processes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        client = processes({"unused": 1}).script(EXAMPLES / "remote_client.py", "--target", f"zmq://{address}")
        assert client.wait() == 1, client.output()
    (line,) = client.output().splitlines()
    assert f"could not reach the server at {address}" in line


def test_in_graph_replication() -> None:
    program = script("in_graph.py", "--target", "{target}", "--worker_hosts", "{worker_hosts}")
    out = launched("--ps", "1", "--workers", "2", "--workers-run", "serve", *program)
    assert "weights [1.0, -2.0, 0.5]" in out


def test_between_graph_replication_asynchronous() -> None:
    program = script("between_graph_async.py", *REPLICA)
    out = launched("--ps", "2", "--workers", "2", "--ps-runs", "script", *program)
    found = re.findall(r"worker (\d): global step (\d+), loss [\d.e-]+, weights (\[.*?\]), bias (\[.*?\])", out)
    assert {line[0] for line in found} == {"0", "1"}, out
    for _, step, weights, bias in found:
        assert 400 <= int(step) <= 410
        assert (weights, bias) == ("[1.0, -2.0, 0.5]", "[3.0]")


def test_monitored_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    program = script("monitored_training.py", "--checkpoint_dir", str(tmp_path), "--ps_hosts", "{ps_hosts}")
    program += ["--worker_hosts", "{worker_hosts}", "--task_index", "{task_index}"]
    for begin, steps in ((0, 100), (100, 160)):
        out = launched("--ps", "1", "--workers", "2", *program, "--steps", str(steps))
        begun = [int(step) for step in re.findall(r"worker \d: began at step (\d+)", out)]
        ended = [int(step) for step in re.findall(r"worker \d: ended at step (\d+), loss", out)]
        assert len(begun) == len(ended) == 2, out
        assert begin <= min(begun) <= begin + 20 and all(steps - 2 <= step <= steps + 1 for step in ended), out


@pytest.mark.parametrize("workers", [2, 3])
def test_between_graph_replication_synchronous(workers: int) -> None:
    program = script("between_graph_sync.py", *REPLICA)
    out = launched("--ps", "1", "--workers", str(workers), "--ps-runs", "script", *program)
    assert re.search(r"after 10 steps: weights .*, equal: True", out), out


def test_digits() -> None:
    out = launched("--ps", "1", "--workers", "2", "--workers-run", "serve", "--status", *script("digits.py"))
    assert re.search(r"\[#{30}\] step 1500 ", out), out
    result = re.search(r"1501 steps in [\d.]+ s \(\d+ steps/s\), held-out accuracy ([\d.]+)%", out)
    assert result and float(result[1]) >= 95, out
    for task in ("/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1"):
        moved = re.search(rf"{task} +up .*\n(?: .*\n)*? +moved +sent ([\d.]+ \w+), received ([\d.]+ \w+)", out)
        assert moved, out
        assert not moved[1].startswith("0 ") and not moved[2].startswith("0 "), out


def replicas(name: str, *arguments: str, ps: int = 1) -> list[str]:
    """What both workers print at the end."""
    program = script(name, *arguments, *REPLICA)
    out = launched("--ps", str(ps), "--workers", "2", "--ps-runs", "script", *program)
    found = sorted(re.findall(r"worker \d: .*", out))
    assert [line[:8] for line in found] == ["worker 0", "worker 1"], out
    return found


def number(pattern: str, line: str) -> float:
    found = re.search(pattern, line)
    assert found, line
    return float(found[1])


@pytest.mark.parametrize("sync", [False, True])
def test_mnist_replica(sync: bool) -> None:
    lines = replicas("mnist_replica.py", *["--sync_replicas"] * sync)
    for line in lines:
        assert number(r"held-out accuracy ([\d.]+)%", line) >= 93
    if sync:  # a step takes a gradient of each worker; what came late was dropped
        assert {number(r"global step (\d+)", line) for line in lines} == {300}
        assert sum(number(r"(\d+) by me", line) for line in lines) >= 600


def test_word2vec() -> None:
    for line in replicas("word2vec.py", ps=2):
        assert number(r"neighbours of the same topic ([\d.]+)%", line) >= 90


def test_lstm_language_model() -> None:
    lines = replicas("lstm_lm.py")
    # A worker that comes late finds a trained model; guessing by the frequency of letters gives about 25.
    assert max(number(r"perplexity ([\d.]+) at first", line) for line in lines) > 40
    assert all(number(r"at first, ([\d.]+) now", line) < 15 for line in lines)


def test_model_parallel_mlp() -> None:
    program = script("model_parallel_mlp.py", "--target", "{target}", "--worker_hosts", "{worker_hosts}")
    out = launched("--ps", "0", "--workers", "3", "--workers-run", "serve", *program)
    assert "dense_2/kernel on /job:worker/task:2" in out
    assert number(r"step 300: held-out accuracy ([\d.]+)%", out) >= 93


def test_cnn() -> None:
    for line in replicas("cnn.py", ps=2):
        assert number(r"held-out accuracy ([\d.]+)%", line) >= 93


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") < 80
    assert "import dtfzmq as tf\n" in text
    assert re.match(r'"""[A-Z]', text)


def test_ctrl_c_ends_an_example_in_join(processes: Processes) -> None:
    cluster = processes({"local": 2})
    task = cluster.script(EXAMPLES / "two_tasks.py", "--hosts", "{local_hosts}", "--task_index", "1")
    cluster_up = cluster.script(EXAMPLES / "two_tasks.py", "--hosts", "{local_hosts}", "--task_index", "0", index=1)
    assert cluster_up.wait() == 0
    task.send(signal.SIGINT)
    assert task.wait(1.5) != 0
    assert "KeyboardInterrupt" in task.output()
