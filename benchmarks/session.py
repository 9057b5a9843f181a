"""Times one TF1-style program on any runtime that speaks TF1's API; each ps and worker is a process on loopback TCP.

    python benchmarks/session.py --backend dtfzmq --out dtfzmq.json
    python benchmarks/session.py --backend tensorflow.compat.v1 --out tensorflow.json

`make bench` runs it and prints a table. Figures drift from machine to machine and from run to run: compare two runtimes
in one run on one machine.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MIB = 2**20
Result = dict[str, Any]


def load(backend: str) -> Any:
    """The runtime's module, in TF1 mode."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    tf = importlib.import_module(backend)
    if hasattr(tf, "disable_v2_behavior"):
        tf.disable_v2_behavior()
        tf.logging.set_verbosity(tf.logging.ERROR)
    return tf


def timed(call: Callable[[], Any], seconds: float = 1.5, warm: int = 10, most: int = 20000) -> Result:
    """Median and 99th percentile of `call` in microseconds, over at least `seconds` seconds."""
    for _ in range(warm):
        call()
    spans: list[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds and len(spans) < most:
        start = time.perf_counter()
        call()
        spans.append(time.perf_counter() - start)
    spans.sort()
    return {"p50_us": spans[len(spans) // 2] * 1e6, "p99_us": spans[int(len(spans) * 0.99)] * 1e6, "n": len(spans)}


def with_rate(result: Result, nbytes: int) -> Result:
    """The same with the rate that `nbytes` a call make."""
    return {**result, "GB_per_s": nbytes / result["p50_us"] / 1e3}


class Cluster:
    """Processes of this same file, one for each task, on ports that were free a moment ago."""

    def __init__(self, backend: str, jobs: dict[str, int]) -> None:
        sockets = []
        self.spec: dict[str, list[str]] = {}
        for job, count in jobs.items():
            self.spec[job] = []
            for _ in range(count):
                sockets.append(socket.create_server(("127.0.0.1", 0)))
                self.spec[job].append(f"127.0.0.1:{sockets[-1].getsockname()[1]}")
        for held in sockets:
            held.close()
        self._command = [sys.executable, os.path.abspath(__file__), "--backend", backend]
        self._command += ["--cluster", json.dumps(self.spec)]
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start one process of this file with these further arguments."""
        process = subprocess.Popen(
            [*self._command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.started.append(process)
        return process

    def serve(self, *jobs: str) -> None:
        """Start task 0 of each job and wait until all listen."""
        for process in [self.start("--role", "serve", "--job", job) for job in jobs]:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError("a server did not start")

    def memory(self, index: int) -> float:
        """Resident MiB of the process that was started as number `index`."""
        status = Path(f"/proc/{self.started[index].pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        for process in self.started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def serve(arguments: argparse.Namespace) -> None:
    """Role of a server: one task, until it is killed."""
    tf = load(arguments.backend)
    server = tf.train.Server(json.loads(arguments.cluster), job_name=arguments.job, task_index=0)
    print("ready", flush=True)
    server.join()


def train(arguments: argparse.Namespace) -> None:
    """Role of a worker in asynchronous training: an MLP 784-hidden-10, batch 64; prints its steps a second."""
    tf = load(arguments.backend)
    cluster = tf.train.ClusterSpec(json.loads(arguments.cluster))
    server = tf.train.Server(cluster, job_name="worker", task_index=arguments.task)
    random = np.random.RandomState(arguments.task)
    inputs = random.rand(64, 784).astype("float32")
    labels = np.eye(10, dtype="float32")[random.randint(0, 10, 64)]
    me = f"/job:worker/task:{arguments.task}"
    with tf.device(tf.train.replica_device_setter(worker_device=me, cluster=cluster)):
        x = tf.placeholder(tf.float32, [None, 784])
        y = tf.placeholder(tf.float32, [None, 10])
        start = np.random.RandomState(0)
        w1 = tf.Variable(start.randn(784, arguments.hidden).astype("float32") * 0.05, name="w1")
        b1 = tf.Variable(np.zeros(arguments.hidden, "float32"), name="b1")
        w2 = tf.Variable(start.randn(arguments.hidden, 10).astype("float32") * 0.05, name="w2")
        b2 = tf.Variable(np.zeros(10, "float32"), name="b2")
        logits = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
        step = tf.train.get_or_create_global_step()
        update = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        initialize = tf.global_variables_initializer()
    session = tf.Session(server.target)
    flag = Path(arguments.flag)
    if arguments.task == 0:
        session.run(initialize)
        flag.touch()
    while not flag.exists():
        time.sleep(0.01)
    feed = {x: inputs, y: labels}
    for _ in range(20):
        session.run(update, feed)
    begin, steps = time.perf_counter(), 0
    while time.perf_counter() - begin < arguments.seconds:
        session.run(update, feed)
        steps += 1
    rate = steps / (time.perf_counter() - begin)
    print(json.dumps({"steps_per_s": rate, "loss": float(session.run(loss, feed))}), flush=True)
    time.sleep(1)  # the other worker may be in a step yet
    os._exit(0)


def latency(tf: Any, target: str) -> Result:
    """Steps that carry next to nothing: what a step costs."""
    out: Result = {}
    with tf.Graph().as_default():
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [])
            y = x + 1.0
            nothing = tf.no_op()
        begin = time.perf_counter()
        session = tf.Session(target)
        session.run(y, {x: 1.0})
        out["first_step_ms"] = (time.perf_counter() - begin) * 1e3
        out["step_scalar"] = timed(lambda: session.run(y, {x: 1.0}))
        out["step_noop"] = timed(lambda: session.run(nothing))
        call = session.make_callable(y, [x])
        one = np.float32(1)
        out["callable_scalar"] = timed(lambda: call(one))
        session.close()
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.Variable(1.0, name="v")
            increment = tf.assign_add(v, 1.0)
        with tf.device("/job:worker/task:0"):
            z = v + 1.0
        session = tf.Session(target)
        session.run(tf.global_variables_initializer())
        out["step_cross_task"] = timed(lambda: session.run(z.op))
        out["step_ps_assign_add"] = timed(lambda: session.run(increment.op))
        session.close()
    return out


def transfer(tf: Any, target: str) -> Result:
    """Tensors from ps to worker, kept ones and ones made anew in each step; and a feed and a fetch of 16 MiB."""
    out: Result = {"transfer": {}, "transfer_fresh": {}}
    for mib in (0.004, 0.0625, 1, 16, 64, 256):
        n = int(mib * MIB / 4)
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                v = tf.Variable(tf.zeros([n], tf.float32), name=f"v{n}")
            with tf.device("/job:worker/task:0"):
                z = tf.identity(v)[0]
            session = tf.Session(target)
            session.run(tf.global_variables_initializer())
            result = timed(functools.partial(session.run, z.op), seconds=1.5 if mib < 64 else 4, warm=3)
            out["transfer"][f"{mib:g} MiB"] = with_rate(result, 4 * n)
            session.close()
    for mib in (1, 16, 256):
        n = int(mib * MIB / 4)
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                k = tf.placeholder(tf.float32, [])
                t = tf.fill([n], k)
            with tf.device("/job:worker/task:0"):
                z = tf.identity(t)[0]
            session = tf.Session(target)
            result = timed(lambda: session.run(z.op, {k: time.perf_counter()}), warm=3)  # noqa: B023  called here and now
            out["transfer_fresh"][f"{mib:g} MiB"] = with_rate(result, 4 * n)
            session.close()
    with tf.Graph().as_default():
        n = 4 * MIB
        values = np.ones(n, "float32")
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [n])
            z = x[0]
            v = tf.Variable(tf.zeros([n], tf.float32), name="fetched")
        session = tf.Session(target)
        session.run(tf.global_variables_initializer())
        out["feed_16MiB"] = with_rate(timed(lambda: session.run(z, {x: values}), warm=3), 4 * n)
        out["fetch_16MiB"] = with_rate(timed(lambda: session.run(v), warm=3), 4 * n)
        session.close()
    return out


def graphs(tf: Any, target: str) -> Result:
    """Many ops: what one costs to run, and what 10,000 cost to build and to start; and a matmul-bound step."""
    out: Result = {}
    for name, shape in (("chain1000_scalar", []), ("chain1000_64x64", [64, 64])):
        with tf.Graph().as_default():
            with tf.device("/job:worker/task:0"):
                x = tf.placeholder(tf.float32, shape)
                y = x
                for i in range(1000):
                    y = tf.tanh(y) if i % 2 else y * x
            session = tf.Session(target)
            half = np.full(shape, 0.5, "float32")
            result = timed(functools.partial(session.run, y.op, {x: half}), warm=3)
            out[name] = {**result, "us_per_op": result["p50_us"] / 1000}
            session.close()
    with tf.Graph().as_default():
        begin = time.perf_counter()
        x = tf.placeholder(tf.float32, [4])
        y = x
        for i in range(100):
            with tf.device(f"/job:{'ps' if i % 2 else 'worker'}/task:0"):
                for _ in range(100):
                    y = y + x
        out["build_10k_ops_s"] = time.perf_counter() - begin
        session = tf.Session(target)
        ones = np.ones(4, "float32")
        begin = time.perf_counter()
        session.run(y, {x: ones})
        out["first_run_10k_ops_s"] = time.perf_counter() - begin
        out["step_10k_ops_100_hops"] = timed(lambda: session.run(y.op, {x: ones}), warm=2)
        session.close()
    with tf.Graph().as_default():
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [1024, 1024])
            v = tf.Variable(tf.ones([1024, 1024], tf.float32) * 1e-3, name="mm")
            y = x
            for _ in range(10):
                y = tf.matmul(y, v)
        session = tf.Session(target)
        session.run(tf.global_variables_initializer())
        square = np.ones((1024, 1024), "float32")
        result = timed(lambda: session.run(y.op, {x: square}), warm=2, seconds=3)
        out["matmul10_1024"] = {**result, "GFLOP_per_s": 10 * 2 * 1024**3 / result["p50_us"] / 1e3}
        session.close()
    return out


def training(backend: str, hidden: int) -> Result:
    """Asynchronous training: 1 ps and 2 workers, each a process."""
    with tempfile.TemporaryDirectory() as folder, Cluster(backend, {"ps": 1, "worker": 2}) as cluster:
        cluster.serve("ps")
        common = ["--role", "train", "--flag", f"{folder}/initialized", "--hidden", str(hidden)]
        workers = [cluster.start(*common, "--task", str(task)) for task in range(2)]
        results = [json.loads(worker.communicate(timeout=120)[0].strip().splitlines()[-1]) for worker in workers]
    return {"steps_per_s": sum(result["steps_per_s"] for result in results), "workers": results}


def measure(arguments: argparse.Namespace) -> None:
    """Role of the client: everything, as JSON on stdout and in the file --out."""
    out: Result = {"backend": arguments.backend}
    with Cluster(arguments.backend, {"ps": 1, "worker": 1}) as cluster:
        begin = time.perf_counter()
        cluster.serve("ps", "worker")
        out["servers_ready_s"] = time.perf_counter() - begin
        out["idle_server_rss_mib"] = cluster.memory(0)
        begin = time.perf_counter()
        tf = load(arguments.backend)
        out["import_s"] = time.perf_counter() - begin
        target = ("grpc://" if "tensorflow" in arguments.backend else "zmq://") + cluster.spec["worker"][0]
        out |= latency(tf, target)
        out |= transfer(tf, target)
        out |= graphs(tf, target)
        out["busy_server_rss_mib"] = {"ps": cluster.memory(0), "worker": cluster.memory(1)}
    for hidden in (128, 2048):
        out[f"train_async_1ps_2w_h{hidden}"] = training(arguments.backend, hidden)
    text = json.dumps(out, indent=1)
    print(text)
    if arguments.out:
        Path(arguments.out).write_text(text + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="dtfzmq")
    parser.add_argument("--out")
    parser.add_argument("--role", default="measure", choices=("measure", "serve", "train"), help=argparse.SUPPRESS)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--task", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--flag", help=argparse.SUPPRESS)
    parser.add_argument("--hidden", type=int, default=128, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=5.0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    {"measure": measure, "serve": serve, "train": train}[chosen.role](chosen)
