"""What the threads of a pool mean for the end of their process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dtfzmq.base import threads

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

# A child that ends as Python does while a task of its parent's pool runs: what was registered with the C library to be
# called at its exit still is.
FORKING = """
import ctypes, os, sys, threading
from dtfzmq.base import threads
pool, begun, end = threads.Pool("work"), threading.Event(), threading.Event()
def work():
    begun.set()
    end.wait()
pool.submit(work)
begun.wait()
if os.fork() == 0:
    libc = ctypes.CDLL(None)
    libc.strdup.restype = ctypes.c_void_p
    libc.__cxa_atexit(libc.puts, ctypes.c_void_p(libc.strdup(b"told")), None)
    sys.exit(0)
os.wait()
end.set()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library must have on_exit")
@pytest.mark.slow
def test_a_task_that_still_runs_is_left_behind_with_the_exit_code() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (100, "told"), done.stderr


@pytest.mark.parametrize("closes", [True, False])
def test_a_pool_without_a_thread_says_so_unless_it_was_closed(monkeypatch: pytest.MonkeyPatch, closes: bool) -> None:
    pool = threads.Pool("none")

    def start(*args: object) -> None:
        if closes:  # another thread does
            pool.close()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "start", start)
    if closes:
        pool.submit(lambda: None)
    else:
        with pytest.raises(RuntimeError, match="new thread"):
            pool.submit(lambda: None)
    assert not pool.busy and pool.statistics() == {"threads": 0, "idle": 0, "waiting": 0}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library must have on_exit")
@pytest.mark.slow
def test_a_forked_child_does_not_wait_for_its_parents_tasks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr
