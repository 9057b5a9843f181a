"""The kit that watches over tests sees what it is there to see."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from dtfzmq.base import threads
from tests.kit import clean
from tests.kit.cluster import Cluster, port_is_free
from tests.kit.waiting import wait_for


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean, "_GRACE_S", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_thread_that_stays_is_shown_with_its_stack() -> None:
    before = clean.take()
    stop = threading.Event()

    def here_it_hangs() -> None:
        stop.wait()

    thread = threads.start(here_it_hangs, "forgotten")
    try:
        (found,) = clean.leftovers(before)
    finally:
        stop.set()
        thread.join()
    assert "forgotten" in found
    assert "here_it_hangs" in found
    assert clean.leftovers(before) == []


@pytest.mark.usefixtures("impatient")
def test_an_idle_pool_thread_may_stay_and_a_busy_one_may_not() -> None:
    before = clean.take()
    pool = threads.Pool("kit")
    go = threading.Event()
    done = threading.Event()

    def work() -> None:
        go.wait()
        done.set()

    pool.submit(work)
    assert len(clean.leftovers(before)) == 1
    go.set()
    done.wait(5)
    wait_for(lambda: pool.statistics()["idle"] == 1)
    assert clean.leftovers(before) == []
    pool.close()


@pytest.mark.usefixtures("impatient")
def test_a_child_process_that_stays_is_shown_with_its_command() -> None:
    before = clean.take()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (found,) = clean.leftovers(before)
    finally:
        child.kill()
        child.wait()
    assert "time.sleep(60)" in found


@pytest.mark.usefixtures("impatient")
def test_a_socket_that_stays_is_shown_with_its_port() -> None:
    before = clean.take()
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    try:
        (found,) = clean.leftovers(before)
    finally:
        server.close()
    assert f"TCP port {port}" in found
    assert clean.leftovers(before) == []


@pytest.mark.usefixtures("impatient")
def test_a_shared_memory_segment_that_stays_is_shown() -> None:
    before = clean.take()
    segment = shared_memory.SharedMemory(create=True, size=16)
    try:
        found = clean.leftovers(before)
    finally:
        segment.close()
        segment.unlink()
    assert any(segment.name in line for line in found)


def test_wait_for_gives_the_value_or_fails_with_what_was_waited_for() -> None:
    values = iter([0, 0, 7])
    assert wait_for(lambda: next(values)) == 7
    with pytest.raises(AssertionError, match="the tide did not hold within 0.01 s"):
        wait_for(lambda: False, 0.01, "the tide")


def test_a_cluster_kills_freezes_and_restarts_by_task(processes: Callable[..., Cluster]) -> None:
    cluster = processes({"worker": 2})
    program = cluster.folder / "program.py"
    program.write_text("import os, sys, time\nprint('here', os.getpid(), flush=True)\ntime.sleep(60)\n")
    first, second = [cluster.script(program, job="worker", index=i) for i in range(2)]
    pid = first.wait_printed("here").split()[1]
    first.kill()
    assert first.wait() == -signal.SIGKILL
    assert second.process.poll() is None
    first.restart()
    assert first.wait_printed("here").split()[1] != pid
    second.freeze()
    state = Path(f"/proc/{second.process.pid}/stat")
    wait_for(lambda: state.read_text().split()[2] == "T")
    second.thaw()
    wait_for(lambda: state.read_text().split()[2] != "T")
    assert port_is_free(cluster.address("worker", 1))
    with pytest.raises(AssertionError, match="never printed"):
        first.wait_printed("never printed", 0.05)
