"""`make bench-kernels`: time single kernels of dtfzmq and of TensorFlow in turns, and print a table with the ratios.

    python benchmarks/kernels.py                                      dtfzmq; TensorFlow too if this Python has it
    python benchmarks/kernels.py --tensorflow-python /path/to/python  TensorFlow of another environment
    python benchmarks/kernels.py --only "max pool"                    the rows whose titles hold these words

Each runtime is a process. They are asked in turns, row by row and several times over, and the least time counts, so
that other work on the machine hits both alike. A step runs the op on four sets of variables, one after the other; what
is printed is a quarter of the step. "cpu" is what all threads of the process computed in that time: it tells what a
kernel costs even where other work takes the processors.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).resolve().parent
COPIES = 4


Make = Callable[[np.random.RandomState], Any]


class Case(NamedTuple):
    """One row: an op by its TF1 name, what makes its inputs (arrays become variables, tuples constants), attributes.

    back: the inputs by which its first output is differentiated, in the same step.
    """

    title: str
    op: str
    inputs: dict[str, Make]
    attrs: dict[str, Any] = {}
    back: tuple[str, ...] = ()


def _floats(*shape: int) -> Make:
    return lambda random: random.standard_normal(shape).astype(np.float32)


def _positive(*shape: int) -> Make:
    return lambda random: np.abs(random.standard_normal(shape).astype(np.float32)) + 1


def _given(value: Any) -> Make:
    return lambda random: value


_BATCH, _SIZE, _IN, _OUT = 32, 28, 16, 32
_IMAGE = (_BATCH, _SIZE, _SIZE, _IN)


def _conv(title: str, x: tuple[int, ...], w: tuple[int, ...], stride: int = 1, depthwise: bool = False) -> list[Case]:
    """A convolution and its two derivatives."""
    moves = {"strides": [1, stride, stride, 1], "padding": "SAME"}
    name = "DepthwiseConv2dNative" if depthwise else "Conv2D"
    image, filters = _floats(*x), _floats(*w)
    back = _floats(x[0], -(-x[1] // stride), -(-x[2] // stride), w[2] * w[3] if depthwise else w[3])
    by_input = {"input_sizes": _given(x), "filter": filters, "out_backprop": back}
    by_filter = {"input": image, "filter_sizes": _given(w), "out_backprop": back}
    return [
        Case(title, name, {"input": image, "filter": filters}, moves),
        Case(f"{title}, by input", f"{name}BackpropInput", by_input, moves),
        Case(f"{title}, by filter", f"{name}BackpropFilter", by_filter, moves),
    ]


def _and_back(case: Case, *names: str) -> list[Case]:
    """An op, and the op with its derivatives by these inputs."""
    return [case, case._replace(title=f"{case.title}, and back", back=names)]


def _pool(title: str, window: int, stride: int) -> list[Case]:
    moves = {"ksize": [1, window, window, 1], "strides": [1, stride, stride, 1], "padding": "SAME"}
    most = Case(f"max pool {title}", "MaxPool", {"input": _floats(*_IMAGE)}, moves)
    mean = Case(f"average pool {title}", "AvgPool", {"value": _floats(*_IMAGE)}, moves)
    return [*_and_back(most, "input"), *_and_back(mean, "value")]


def _norm(title: str, training: bool) -> list[Case]:
    statistics = _given(np.zeros(0, np.float32)) if training else _positive(_IN)
    inputs = {
        "x": _floats(*_IMAGE), "scale": _positive(_IN), "offset": _floats(_IN), "mean": statistics,
        "variance": statistics,
    }  # fmt: skip
    case = Case(f"batch norm, {title}", "FusedBatchNormV3", inputs, {"is_training": training})
    return _and_back(case, "x", "scale", "offset")


def _classes(rows: int, classes: int) -> list[Case]:
    size = f"[{rows}, {classes}]"
    logits = _floats(rows, classes)
    rights = _given(np.eye(rows, classes, dtype=np.float32))
    numbers = _given(np.arange(rows, dtype=np.int32) % classes)
    return [
        Case(f"softmax {size}", "Softmax", {"logits": logits}),
        Case(f"cross-entropy {size}", "SoftmaxCrossEntropyWithLogits", {"features": logits, "labels": rights}),
        Case(f"sparse cross-entropy {size}", "SparseSoftmaxCrossEntropyWithLogits",
             {"features": logits, "labels": numbers}),
    ]  # fmt: skip


CASES = [
    Case("a number handed on: a quarter of a step", "Identity", {"input": _floats()}),
    *_conv("conv 3x3, 16 to 32", _IMAGE, (3, 3, _IN, _OUT)),
    *_conv("conv 3x3 by 2, 16 to 32", _IMAGE, (3, 3, _IN, _OUT), 2),
    *_conv("conv 1x1, 16 to 32", _IMAGE, (1, 1, _IN, _OUT)),
    *_conv("conv 5x5 of one channel to 32", (_BATCH, _SIZE, _SIZE, 1), (5, 5, 1, _OUT)),
    *_conv("depthwise conv 3x3", _IMAGE, (3, 3, _IN, 1), depthwise=True),
    *_conv("depthwise conv 3x3 by 2", _IMAGE, (3, 3, _IN, 1), 2, depthwise=True),
    *_pool("2x2 by 2", 2, 2),
    *_pool("3x3 by 2", 3, 2),
    *_norm("training", True),
    *_norm("given statistics", False),
    Case("bias add", "BiasAdd", {"value": _floats(*_IMAGE), "bias": _floats(_IN)}),
    Case("bias add, back", "BiasAddGrad", {"out_backprop": _floats(*_IMAGE)}),
    Case("relu", "Relu", {"features": _floats(*_IMAGE)}),
    Case("relu, back", "ReluGrad", {"gradients": _floats(*_IMAGE), "features": _floats(*_IMAGE)}),
    *_classes(128, 10),
    *_classes(256, 1000),
    *[
        Case(f"matmul {n}x{n}", "MatMul", {"a": _floats(n, n), "b": _floats(n, n)})
        for n in (64, 128, 256, 512, 1024)
    ],
]  # fmt: skip


class Bench:
    """One runtime's side: steps by title, made when first asked for."""

    def __init__(self, backend: str) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
        self.tf = tf = importlib.import_module(backend)
        if hasattr(tf, "disable_v2_behavior"):
            tf.disable_v2_behavior()
            tf.logging.set_verbosity(tf.logging.ERROR)
        self.raw = tf.raw_ops if hasattr(tf, "raw_ops") else importlib.import_module(f"{backend}.ops.raw").raw
        self.steps: dict[str, Callable[[], Any]] = {}

    def input(self, value: Any) -> Any:
        """What an op takes a value from."""
        return self.tf.constant(np.array(value, np.int32)) if isinstance(value, tuple) else self.tf.Variable(value)

    def step(self, case: Case) -> Callable[[], Any]:
        """A step of COPIES ops, each after the one before."""
        tf = self.tf
        random = np.random.RandomState(0)
        with tf.Graph().as_default():
            ops: list[Any] = []  # all are asked for: what nobody asks for, an optimizer may leave out
            for _ in range(COPIES):
                inputs = {name: self.input(make(random)) for name, make in case.inputs.items()}
                with tf.control_dependencies(ops[-1:]):
                    made = getattr(self.raw, case.op)(**inputs, **case.attrs)
                y = made[0] if isinstance(made, (list, tuple)) else made
                ops.append(y.op)
                if case.back:
                    towards = tf.Variable(_floats(*y.shape.as_list())(random))
                    ops.append(tf.gradients(y, [inputs[name] for name in case.back], towards)[0].op)
            session = tf.Session()
            session.run(tf.global_variables_initializer())
            call: Callable[[], Any] = session.make_callable(ops)
        return call

    def time(self, case: Case, seconds: float) -> tuple[float, float]:
        """The least (milliseconds, milliseconds of processors) an op."""
        if case.title not in self.steps:
            self.steps[case.title] = self.step(case)
            for _ in range(5):
                self.steps[case.title]()
        call = self.steps[case.title]
        best = cpu = float("inf")
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            start, computed = time.perf_counter(), time.process_time()
            call()
            best = min(best, time.perf_counter() - start)
            cpu = min(cpu, time.process_time() - computed)
        return best * 1e3 / COPIES, cpu * 1e3 / COPIES


def serve(backend: str) -> None:
    """Answer lines of (index of a case, seconds) with lines of times, until the input ends."""
    bench = Bench(backend)
    for line in sys.stdin:
        index, seconds = json.loads(line)
        print(json.dumps(bench.time(CASES[index], seconds)), flush=True)


class Runtime:
    """A process that serves one runtime. `close` ends it."""

    def __init__(self, backend: str, python: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        environment.pop("OPENBLAS_CORETYPE", None)  # numpy and TensorFlow must choose their kernels alike
        self.process = subprocess.Popen(
            [python, str(HERE / "kernels.py"), "--serve", backend],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def ask(self, index: int, seconds: float) -> tuple[float, float]:
        """See Bench.time."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([index, seconds]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a runtime's process ended")
        best, cpu = json.loads(line)
        return best, cpu

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def measure(runtimes: list[Runtime], only: str, rounds: int, seconds: float) -> dict[str, list[tuple[float, float]]]:
    """By title, the least (time, time of processors) of each runtime. Prints a row as soon as it is there."""
    found: dict[str, list[tuple[float, float]]] = {}
    for index, case in enumerate(CASES):
        if only not in case.title:
            continue
        asked = [[runtime.ask(index, seconds) for runtime in runtimes] for _ in range(rounds)]
        best = found[case.title] = [
            (min(one[0] for one in column), min(one[1] for one in column)) for column in zip(*asked)
        ]
        line = f"{case.title:<40} {best[0][0]:>8.3f} {best[0][1]:>8.3f}"
        if len(best) > 1:
            (ours, cpu), (theirs, their_cpu) = best
            line += f" {theirs:>10.3f} {their_cpu:>8.3f} {ours / theirs:>7.2f} {cpu / their_cpu:>7.2f}"
        print(line, flush=True)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorflow-python", help="a Python that can import tensorflow")
    parser.add_argument("--only", default="", help="rows whose titles hold these words")
    parser.add_argument("--rounds", type=int, default=5, help="how often the runtimes take turns at a row")
    parser.add_argument("--seconds", type=float, default=0.2, help="how long a turn takes")
    parser.add_argument("--out", help="write the figures there as JSON")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve)
        return
    python = chosen.tensorflow_python or (sys.executable if importlib.util.find_spec("tensorflow") else None)
    runtimes = [Runtime("dtfzmq", sys.executable)]
    if python:
        runtimes.append(Runtime("tensorflow.compat.v1", python))
    titles = f"{'milliseconds an op':<40} {'dtfzmq':>8} {'cpu':>8}"
    print(titles + (f" {'TensorFlow':>10} {'cpu':>8} {'ratio':>7} {'of cpu':>7}" if python else ""))
    try:
        found = measure(runtimes, chosen.only, chosen.rounds, chosen.seconds)
    finally:
        for runtime in runtimes:
            runtime.close()
    if chosen.out:
        Path(chosen.out).write_text(json.dumps(found, indent=1) + "\n")
    if not python:
        print("\nNo TensorFlow to compare with: pip install tensorflow-cpu somewhere, and give --tensorflow-python.")


if __name__ == "__main__":
    main()
