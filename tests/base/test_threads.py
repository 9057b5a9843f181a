"""What the threads of a pool mean for the end of their process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A library that waits in its own exit until its threads are idle, as a BLAS does, and a task that takes long.
PROGRAM = """
import ctypes, sys, threading, time
from dtfzmq.base import threads
libc = ctypes.CDLL(None)
libc.on_exit(libc.sleep, None)  # called with the exit code
pool, begun = threads.Pool("work"), threading.Event()
def work():
    begun.set()
    time.sleep(200)
pool.submit(work)
begun.wait()
pool.close()
sys.stdout.write("told")
sys.exit(100)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library must have on_exit")
@pytest.mark.slow
def test_a_task_that_still_runs_is_left_behind_with_the_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (100, "told"), done.stderr
