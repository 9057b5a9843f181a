"""A cluster of real processes on loopback: started, killed, stopped, continued and restarted by task."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dtfzmq.cli.ports import HeldPorts
from tests.kit.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]


class Task:
    """One process. `argv` is what it runs; its output goes to `log`, which a restart continues."""

    def __init__(self, name: str, argv: Sequence[str], environment: Mapping[str, str], log: Path, cwd: Path) -> None:
        self.name = name
        self.argv = list(argv)
        self.log = log
        self._environment = dict(environment)
        self._cwd = cwd
        self._from = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        self._from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            return subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._cwd,
                start_new_session=True,
            )

    def output(self) -> str:
        """What this process, since its last start, has printed."""
        with self.log.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")

    def wait_printed(self, text: str, deadline: float = 20.0) -> str:
        """Wait until it has printed `text`; its whole output. Fails at once if it ends before."""

        def printed() -> bool:
            if text in self.output():
                return True
            code = self.process.poll()
            if code is not None and text not in self.output():
                raise AssertionError(f"{self.name} ended with code {code} before it printed '{text}':\n{self.output()}")
            return False

        wait_for(printed, deadline, f"{self.name} printing '{text}'")
        return self.output()

    def send(self, number: int) -> None:
        """Send a signal to the process alone."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.send(signal.SIGKILL)
        self.process.wait(10)

    def freeze(self) -> None:
        """SIGSTOP: alive for the kernel, silent for its peers. Every thread of it stands still when this returns."""
        self.send(signal.SIGSTOP)
        threads = Path(f"/proc/{self.process.pid}/task")
        wait_for(lambda: all(_state(thread) in "Tt" for thread in threads.iterdir()), 10, f"{self.name} standing still")

    def thaw(self) -> None:
        """SIGCONT."""
        self.send(signal.SIGCONT)

    def terminate(self, deadline: float = 5.0) -> int:
        """SIGTERM; the exit code. Fails if it takes longer than `deadline` seconds."""
        self.send(signal.SIGTERM)
        return self.wait(deadline)

    def wait(self, deadline: float = 30.0) -> int:
        """The exit code, at most `deadline` seconds later."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {deadline} s; it printed:\n{self.output()}") from None

    def restart(self) -> None:
        """Run the same command again; SIGKILL it first if it still runs."""
        if self.process.poll() is None:
            self.kill()
        self.process = self._start()

    def end(self) -> None:
        """Leave nothing of it: its process and what that started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)


def _state(thread: Path) -> str:
    """The letter by which /proc tells what a thread does."""
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


class Cluster:
    """Tasks on ports that are held from the start, so `spec` is right before any of them runs.

    ``start()`` starts `dtfzmq serve` for a task; ``script()`` runs a Python program with the cluster in TF_CONFIG.
    """

    def __init__(self, jobs: Mapping[str, int], folder: Path, environment: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._held = HeldPorts(sum(jobs.values()))
        ports = iter(self._held.ports)
        self.spec = {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}
        self.tasks: dict[str, Task] = {}
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            **(environment or {}),
        }

    def address(self, job: str, index: int = 0) -> str:
        """host:port of a task."""
        return self.spec[job][index]

    def target(self, job: str, index: int = 0) -> str:
        """What a session is given to have this task as its master."""
        return f"zmq://{self.address(job, index)}"

    def start(self, job: str, index: int = 0, *options: str, wait: bool = True) -> Task:
        """Start `dtfzmq serve` for one task; with `wait` it has bound its port when this returns."""
        cluster = json.dumps(self.spec)
        serve = [sys.executable, "-m", "dtfzmq", "serve", "--cluster", cluster, "--job", job, "--task", str(index)]
        task = self.run(f"{job}/{index}", [*serve, *options])
        if wait:
            task.wait_printed("ready at")
        return task

    def start_all(self) -> None:
        """Start every task, all at once, and wait until all have bound their ports."""
        started = [self.start(job, i, wait=False) for job, tasks in self.spec.items() for i in range(len(tasks))]
        for task in started:
            task.wait_printed("ready at")

    def script(self, path: str | Path, *arguments: str, job: str = "client", index: int = 0) -> Task:
        """Run a Python program as `job`/`index`, with TF_CONFIG set; `{job}_hosts` of its arguments are filled in."""
        config = json.dumps({"cluster": self.spec, "task": {"type": job, "index": index}})
        filled = []
        for argument in arguments:
            for name, tasks in self.spec.items():
                argument = argument.replace(f"{{{name}_hosts}}", ",".join(tasks))
            filled.append(argument)
        return self.run(f"{job}/{index}", [sys.executable, str(path), *filled], {"TF_CONFIG": config})

    def run(self, name: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Task:
        """Run any command as one of this cluster's processes."""
        if name in self.tasks:
            self.tasks[name].end()
        log = self.folder / f"{name.replace('/', '-')}.log"
        task = Task(name, argv, {**self._environment, **(environment or {})}, log, self.folder)
        self.tasks[name] = task
        return task

    def sections(self) -> list[tuple[str, str]]:
        """(title, log) of each task, for a failure's report."""
        return [(f"log of {name}", task.output()) for name, task in self.tasks.items()]

    def close(self) -> None:
        """End what this started, and nothing else."""
        for task in self.tasks.values():
            task.end()
        self._held.close()


def port_is_free(address: str) -> bool:
    """True if nobody listens on host:port (a held port counts as free)."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((host, int(port))) != 0
