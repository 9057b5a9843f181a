"""`make bench`: time dtfzmq, and TensorFlow beside it where there is one, and print a table with the ratios.

    python benchmarks/run.py                                     dtfzmq; TensorFlow too if this Python has it
    python benchmarks/run.py --tensorflow-python /path/to/python  TensorFlow of another environment
    python benchmarks/run.py --compare tensorflow.json           an earlier run's figures instead
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

# (title, unit, path in the results, factor to the unit, is more better)
ROWS: list[tuple[str, str, str, float, bool]] = [
    ("scalar step, client -> remote worker", "us", "step_scalar/p50_us", 1, False),
    ("  the same through make_callable", "us", "callable_scalar/p50_us", 1, False),
    ("no-op step", "us", "step_noop/p50_us", 1, False),
    ("step that crosses ps -> worker", "us", "step_cross_task/p50_us", 1, False),
    ("assign_add on ps through worker", "us", "step_ps_assign_add/p50_us", 1, False),
    ("first step of a session", "ms", "first_step_ms", 1, False),
    *[
        (f"variable ps -> worker, {size}", "GB/s", f"transfer/{size}/GB_per_s", 1, True)
        for size in ("0.0625 MiB", "1 MiB", "16 MiB", "64 MiB", "256 MiB")
    ],
    *[
        (f"new tensor ps -> worker, {size}", "GB/s", f"transfer_fresh/{size}/GB_per_s", 1, True)
        for size in ("1 MiB", "16 MiB", "256 MiB")
    ],
    ("feed 16 MiB", "GB/s", "feed_16MiB/GB_per_s", 1, True),
    ("fetch 16 MiB", "GB/s", "fetch_16MiB/GB_per_s", 1, True),
    ("one op of a chain, scalar", "us", "chain1000_scalar/us_per_op", 1, False),
    ("one op of a chain, 64x64", "us", "chain1000_64x64/us_per_op", 1, False),
    ("build 10,000 ops", "s", "build_10k_ops_s", 1, False),
    ("first run of 10,000 ops", "s", "first_run_10k_ops_s", 1, False),
    ("10,000 ops, 100 hops, a step", "ms", "step_10k_ops_100_hops/p50_us", 1e-3, False),
    ("10 matmuls of 1024x1024", "GFLOP/s", "matmul10_1024/GFLOP_per_s", 1, True),
    ("asynchronous training, 128 hidden", "steps/s", "train_async_1ps_2w_h128/steps_per_s", 1, True),
    ("asynchronous training, 2048 hidden", "steps/s", "train_async_1ps_2w_h2048/steps_per_s", 1, True),
    ("import", "s", "import_s", 1, False),
    ("idle server", "MiB", "idle_server_rss_mib", 1, False),
    ("ps after all that", "MiB", "busy_server_rss_mib/ps", 1, False),
]


def measure(backend: str, python: str) -> dict[str, Any]:
    """The figures of one runtime, by a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        environment.pop("OPENBLAS_CORETYPE", None)  # numpy and TensorFlow must choose their kernels alike
        print(f"timing {backend} ...", file=sys.stderr, flush=True)
        subprocess.run(
            [python, str(HERE / "session.py"), "--backend", backend, "--out", str(out)],
            check=True, stdout=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(out.read_text())
        return found


def figure(results: dict[str, Any], path: str) -> float | None:
    """The number at `path`, or None if that run has none."""
    value: Any = results
    for part in path.split("/"):
        value = value.get(part) if isinstance(value, dict) else None
    return value if isinstance(value, (int, float)) else None


def table(ours: dict[str, Any], theirs: dict[str, Any] | None) -> str:
    """Both runtimes' figures; the last column says how many times better dtfzmq is."""
    lines = [f"{'':<38} {'':>8} {'dtfzmq':>10} {'TensorFlow':>11} {'better by':>10}"]
    for title, unit, path, factor, more in ROWS:
        here = figure(ours, path)
        there = figure(theirs or {}, path)
        if here is None:
            continue
        line = f"{title:<38} {unit:>8} {here * factor:>10.4g}"
        if there:
            line += f" {there * factor:>11.4g} {(here / there if more else there / here):>9.2f}x"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensorflow-python", help="a Python that can import tensorflow")
    parser.add_argument("--compare", help="figures of an earlier run of session.py")
    parser.add_argument("--out", help="write all figures there as JSON")
    chosen = parser.parse_args()
    python = chosen.tensorflow_python or (sys.executable if importlib.util.find_spec("tensorflow") else None)
    ours = measure("dtfzmq", sys.executable)
    theirs = None
    if chosen.compare:
        theirs = json.loads(Path(chosen.compare).read_text())
    elif python:
        theirs = measure("tensorflow.compat.v1", python)
    if chosen.out:
        Path(chosen.out).write_text(json.dumps({"dtfzmq": ours, "tensorflow": theirs}, indent=1) + "\n")
    print(table(ours, theirs))
    if theirs is None:
        print("\nNo TensorFlow to compare with: pip install tensorflow-cpu somewhere, and give --tensorflow-python.")


if __name__ == "__main__":
    main()
