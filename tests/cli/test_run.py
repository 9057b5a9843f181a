"""`dtfzmq run` with scripts that need no server, so that what is tested is the launcher alone."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dtfzmq.cli import children
from tests.kit.cluster import ROOT
from tests.kit.waiting import wait_for

Launcher = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launcher]:
    """Starts `dtfzmq run OPTIONS -- python script ARGUMENTS`."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, options: str = "", *arguments: str) -> subprocess.Popen[str]:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(program))
        process = subprocess.Popen(
            [sys.executable, "-m", "dtfzmq", "run", *options.split(), "--", sys.executable, str(script), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=30)
    return process.returncode, out


def test_each_task_gets_its_place_in_the_cluster_and_its_name_before_each_line(launch: Launcher) -> None:
    # The end of the workers is the end of all, so they wait until each ps has printed its lines.
    program = """
        import json, os, pathlib, sys, time
        print(os.environ["TF_CONFIG"])
        print(*sys.argv[1:])
        print("no end", end="", flush=True)
        if sys.argv[3].startswith("ps"):
            pathlib.Path(sys.argv[3]).touch()
        while not (pathlib.Path("ps0").exists() and pathlib.Path("ps1").exists()):
            time.sleep(0.01)
    """
    arguments = ["{ps_hosts}", "--hosts={worker_hosts}", "{job_name}{task_index}", "{target}", "{else}"]
    code, out = finished(launch(program, "--ps 2 --workers 2 --ps-runs script", *arguments))
    assert code == 0, out
    lines = {label: re.findall(rf"^{label} *\| (.*)$", out, re.M) for label in ("ps/0", "ps/1", "worker/0", "worker/1")}
    assert len(out.splitlines()) == sum(map(len, lines.values())) == 12, out
    config = json.loads(lines["worker/1"][0])
    cluster = config["cluster"]
    assert config["task"] == {"type": "worker", "index": 1}
    assert [len(cluster[job]) for job in ("ps", "worker")] == [2, 2]
    assert len({*cluster["ps"], *cluster["worker"]}) == 4
    hosts = ",".join(cluster["worker"])
    target = f"zmq://{cluster['worker'][1]}"
    assert lines["worker/1"][1] == f"{','.join(cluster['ps'])} --hosts={hosts} worker1 {target} {{else}}"
    assert lines["ps/0"][1].split()[2] == "ps0"
    assert lines["ps/0"][2] == "no end"


def test_names_are_coloured_on_demand_only(launch: Launcher) -> None:
    _, plain = finished(launch("print(1)", "--ps 0"))
    _, coloured = finished(launch("print(1)", "--ps 0 --colour always"))
    assert plain == "worker/0 | 1\n"
    assert coloured == "\x1b[36mworker/0 | \x1b[0m1\n"


def test_the_code_of_the_first_failure_ends_it_all(launch: Launcher) -> None:
    program = """
        import sys, time
        if sys.argv[1] == "1": sys.exit(7)
        time.sleep(60)
    """
    begin = time.monotonic()
    code, out = finished(launch(program, "--ps 0 --workers 3", "{task_index}"))
    assert code == 7
    assert "worker/1 failed with exit code 7" in out
    assert time.monotonic() - begin < 10


def test_a_task_that_a_signal_ends_counts_as_failed(launch: Launcher) -> None:
    code, out = finished(launch("import os; os.kill(os.getpid(), 9)", "--ps 0"))
    assert code == 128 + 9, out


def test_it_ends_with_the_chief_or_with_all(launch: Launcher) -> None:
    program = """
        import sys, time
        if sys.argv[1] == "1":
            time.sleep(1.0)
            print("late")
    """
    code, out = finished(launch(program, "--ps 0 --workers 2 --stop-when all", "{task_index}"))
    assert (code, "late" in out) == (0, True)
    code, out = finished(launch(program, "--ps 0 --workers 2 --stop-when chief", "{task_index}"))
    assert (code, "late" in out) == (0, False)


def test_status_is_asked_of_a_daemon_and_workers_that_ended_are_not_waited_for(launch: Launcher) -> None:
    code, out = finished(launch("print(1)", "--ps 2 --workers 2 --status"))
    assert code == 0, out
    for index in range(2):
        assert re.search(rf"^/job:ps/replica:0/task:{index} +up ", out, re.M), out
        assert re.search(rf"^/job:worker/replica:0/task:{index} +ended ", out, re.M), out
    assert "down" not in out
    code, out = finished(launch("print(1)", "--ps 0 --status"))
    assert (code, "all tasks have ended" in out) == (0, True), out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_task_within_a_second(launch: Launcher, number: int, tmp_path: Path) -> None:
    program = """
        import os, signal, subprocess, sys, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open(f"pids{sys.argv[1]}", "w").write(f"{os.getpid()} {grandchild.pid}\\n")
        time.sleep(60)
    """
    process = launch(program, "--ps 0 --workers 2", "{task_index}")
    files = [tmp_path / "pids0", tmp_path / "pids1"]
    wait_for(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files), 20, "tasks starting")
    begin = time.monotonic()
    process.send_signal(number)
    code, _ = finished(process)
    assert code == 128 + number
    assert time.monotonic() - begin < 1.5  # the command keeps within 1 s; the machine may be busy
    for pid in " ".join(file.read_text() for file in files).split():
        assert not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_that_follow_the_first_change_nothing(launch: Launcher, number: int, tmp_path: Path) -> None:
    program = """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("begun", "w").close()
        time.sleep(60)
    """
    process = launch(program, "--ps 0 --workers 1")
    wait_for((tmp_path / "begun").exists, 20)
    process.send_signal(number)
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(0.02)
        except subprocess.TimeoutExpired:
            pass
    code, out = finished(process)
    # The very last may come when all is over, and handlers are no more.
    assert code in (128 + number, -signal.SIGTERM) and "Traceback" not in out


KILLED = """
import os, signal, sys
from dtfzmq.cli import children

class Slow(children.Child):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        print(self.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

children.Child = Slow
children.Children(print).start("worker/0", [sys.executable, "-c", "import time; time.sleep(60)"], os.environ)
"""


@pytest.mark.slow
def test_a_launcher_that_is_killed_amid_the_start_of_a_task_leaves_none() -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=30, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wait_for(functools.partial(is_over, killed.stdout.strip()), 10, "its end")


class Struck(Exception):
    """What the handler of a signal raises."""


def strike(number: int, frame: Any) -> None:
    raise Struck


def test_a_signal_amid_the_start_of_a_task_leaves_none_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(children.Child):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(children, "Child", Slow)
    before = signal.signal(signal.SIGUSR1, strike)
    known = children.Children(lambda label, line: None)
    try:
        with pytest.raises(Struck):
            known.start("worker/0", [sys.executable, "-c", "import time; time.sleep(60)"], os.environ)
        (child,) = known.all
    finally:
        signal.signal(signal.SIGUSR1, before)
        known.close()
    assert child.code == 128 + signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_no_task_outlives_a_launcher_that_is_ended(launch: Launcher, number: int, tmp_path: Path) -> None:
    program = """
        import os, subprocess, sys, time
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        open(f"pids{sys.argv[1]}", "w").write(f"{os.getpid()} {grandchild.pid}\\n")
        time.sleep(60)
    """
    process = launch(program, "--ps 0 --workers 2", "{task_index}")
    files = [tmp_path / "pids0", tmp_path / "pids1"]
    wait_for(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files), 20, "tasks starting")
    os.killpg(process.pid, number)  # a terminal that is closed tells the whole group
    code, _ = finished(process)
    assert code == (128 + number if number == signal.SIGHUP else -number)
    for pid in " ".join(file.read_text() for file in files).split():
        wait_for(functools.partial(is_over, pid), 10, f"the end of {pid}")


def is_over(pid: str) -> bool:
    """Whether a process has ended; nobody may be there to collect it."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.slow
def test_a_host_may_stand_in_brackets(launch: Launcher) -> None:
    code, out = finished(launch("import sys; print(sys.argv[1])", "--ps 0 --host [::1]", "{worker_hosts}"))
    assert code == 0, out
    assert re.search(r"\| \[::1\]:\d+$", out.strip()), out


@pytest.mark.parametrize(
    ("options", "command", "text"),
    [
        ([], [], "Say what to run after --"),
        (["--workers", "0"], ["--", "true"], "at least one worker"),
        (["--ps", "0"], ["--", "/no/such/program"], "worker/0 cannot run '/no/such/program': No such file"),
        (["--host", "8.8.8.8"], ["--", "true"], "--host 8.8.8.8 cannot be bound"),
        (["--host", "no-such.invalid"], ["--", "true"], "--host no-such.invalid cannot be bound"),
        (["--host", "a" * 80], ["--", "true"], "cannot be bound"),
        (["--host", ""], ["--", "true"], "--host is empty"),
        (["--devices", "x"], ["--", "true"], "'x' of --devices"),
        (["--devices", "CPU:100000000"], ["--", "true"], "0 to 1024"),
    ],
)
def test_bad_usage_says_what_next(options: list[str], command: list[str], text: str) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "dtfzmq", "run", *options, *command],
        capture_output=True, text=True, timeout=30, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.returncode == 1
    assert text in process.stderr
    assert process.stdout == ""  # nothing was started
