"""`dtfzmq run`: a whole cluster on this machine, one command."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from dtfzmq.base import names
from dtfzmq.cli import serve, status
from dtfzmq.cli.children import Child, Children, Printer
from dtfzmq.cli.ports import HeldPorts
from dtfzmq.runtime.device import check_counts

_EPILOG = """\
The command gets TF_CONFIG, and these are filled in wherever they stand in its arguments:
{ps_hosts} {worker_hosts} {job_name} {task_index} {target} (the address of its own server, or of worker 0's).
Ports are bound before they are published and stay held until the end. The exit code is that of the first task that
fails, else 0. Ctrl-C ends every task within a second, and none outlives this command, however it ends; what a task
puts into a session of its own (setsid) is left alone.
"""

# Each BLAS would otherwise take all cores for itself; a setting of the user's is left alone.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def add_parser(verbs: Any) -> None:
    """Add this verb to the command's parser."""
    parser = verbs.add_parser(
        "run",
        help="run a cluster of ps and workers on this machine",
        description="Starts a ps and worker cluster on this machine and runs a program in it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ps", type=int, default=1, help="number of ps tasks (1)")
    parser.add_argument("--workers", type=int, default=1, help="number of worker tasks (1)")
    parser.add_argument("--ps-runs", choices=("serve", "script"), default="serve", help="what a ps runs (serve)")
    parser.add_argument(
        "--workers-run",
        choices=("serve", "script"),
        default="script",
        help="what a worker runs (script); with serve the command runs once, as a client of the cluster",
    )
    parser.add_argument(
        "--stop-when", choices=("chief", "all"), default="all", help="end when worker 0 or when all workers ended (all)"
    )
    parser.add_argument("--devices", default="", help="devices of each task that serves, e.g. CPU:2")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind and publish (127.0.0.1)")
    parser.add_argument("--status", action="store_true", help="print `dtfzmq status` before the daemons are stopped")
    parser.add_argument("--colour", choices=("auto", "always", "never"), default="auto", help="colour task names")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the program and its arguments")
    parser.set_defaults(call=run)


def run(arguments: argparse.Namespace) -> int:
    """Start every task, show what they print, end them all, and return the exit code."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise ValueError("Say what to run after --, for example: dtfzmq run --ps 1 --workers 2 -- python train.py")
    if arguments.ps < 0 or arguments.workers < 1:
        raise ValueError("A cluster needs at least one worker, and no fewer than 0 ps.")
    check_counts(serve.parse_devices(arguments.devices))
    arguments.host = _bare(arguments.host)
    held = _held(arguments.ps + arguments.workers, arguments.host)
    launch = Launch(arguments, command, held)
    # One that is ignored, as nohup has it, stays so.
    ends = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.getsignal(number) for number in ends}

    def terminated(number: int, frame: Any) -> NoReturn:
        for each in ends:
            signal.signal(each, _heard)
        raise _Terminated(number)

    try:
        for number in ends:
            signal.signal(number, terminated)
        return launch.go()
    except _Terminated as ended:
        launch.children.end(launch.children.all, signal.SIGTERM)
        return 128 + ended.number
    except KeyboardInterrupt:
        launch.children.end(launch.children.all, signal.SIGINT)
        return 128 + signal.SIGINT
    finally:
        for number in ends:
            signal.signal(number, _heard)
        launch.children.close()
        held.close()
        for number in ends:
            signal.signal(number, previous[number])


class _Terminated(BaseException):
    """SIGTERM came, or the terminal was closed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def _heard(number: int, frame: Any) -> None:
    """It is ending already. SIG_IGN in its place would make Python complain of a signal that came just before."""


def _bare(host: str) -> str:
    """The host without the brackets of an IPv6 number. ValueError if none is left."""
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare:
        raise ValueError("--host is empty; give an address of this machine, as 127.0.0.1.")
    return bare


def _held(count: int, host: str) -> HeldPorts:
    try:
        return HeldPorts(count, host)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise ValueError(
            f"{count} ports of --host {host} cannot be bound: {why}. Give an address of this machine, as 127.0.0.1."
        ) from None


class Launch:
    """One cluster and the processes that are its tasks."""

    def __init__(self, arguments: argparse.Namespace, command: list[str], held: HeldPorts) -> None:
        self._arguments = arguments
        self._command = command
        self._held = held
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        addresses = [f"{host}:{port}" for port in held.ports]
        self.cluster = {"ps": addresses[: arguments.ps], "worker": addresses[arguments.ps :]}
        if not arguments.ps:
            del self.cluster["ps"]
        self.target = f"zmq://{self.cluster['worker'][0]}"
        labels = [f"{job}/{index}" for job, tasks in self.cluster.items() for index in range(len(tasks))]
        colour = {"auto": None, "always": True, "never": False}[arguments.colour]
        self.children = Children(Printer(labels, colour))

    def go(self) -> int:
        """Start all tasks, wait until the program's are over or one fails, end the rest in good order."""
        scripts: list[Child] = []
        daemons: list[Child] = []
        started: list[tuple[str, int, str, Child]] = []
        for job, tasks in self.cluster.items():
            runs = self._arguments.ps_runs if job == "ps" else self._arguments.workers_run
            for index, address in enumerate(tasks):
                self._held.release(self._held.ports[len(scripts) + len(daemons)])
                if runs == "serve":
                    daemons.append(self._start(job, index, self._serve_command(job, index), address))
                else:
                    scripts.append(self._start(job, index, self._command, address))
                started.append((job, index, address, (daemons if runs == "serve" else scripts)[-1]))
        if self._arguments.workers_run == "serve":
            scripts.append(self._start("client", 0, self._command, self.cluster["worker"][0]))
        code = self._watch(scripts, daemons)
        if code == 0 and self._arguments.status:
            _show_status(started, daemons)
        # A ps that runs the script sits in join(), which SIGTERM ends with code 0, like any daemon.
        self.children.end(self.children.all, signal.SIGTERM, grace=2.0)
        return code

    def _watch(self, scripts: list[Child], daemons: list[Child]) -> int:
        """The exit code of the first task that fails, or 0 once the program is over."""
        leaders = [child for child in scripts if not child.label.startswith("ps/")]
        if self._arguments.stop_when == "chief":
            leaders = leaders[:1]
        while True:
            self.children.turn()
            for child in scripts:
                if child.code:
                    print(f"dtfzmq run: {child.label} failed with exit code {child.code}", file=sys.stderr)
                    return child.code
            for child in daemons:
                if child.code is not None:
                    print(f"dtfzmq run: daemon {child.label} ended with exit code {child.code}", file=sys.stderr)
                    return child.code or 1
            if all(child.code == 0 for child in leaders):
                return 0

    def _start(self, job: str, index: int, command: list[str], address: str) -> Child:
        label = job if job == "client" else f"{job}/{index}"
        filled = self._filled(job, index, command, address)
        # A client is alone, so it keeps the terminal, and may draw on it.
        return self.children.start(label, filled, self._environment(job, index), piped=job != "client")

    def _serve_command(self, job: str, index: int) -> list[str]:
        serve = [sys.executable, "-m", "dtfzmq", "serve", "--quiet", "--cluster", json.dumps(self.cluster)]
        return [*serve, "--job", job, "--task", str(index), "--devices", self._arguments.devices]

    def _filled(self, job: str, index: int, command: list[str], address: str) -> list[str]:
        values = {
            "{ps_hosts}": ",".join(self.cluster.get("ps", [])),
            "{worker_hosts}": ",".join(self.cluster["worker"]),
            "{job_name}": job,
            "{task_index}": str(index),
            "{target}": f"zmq://{address}",
        }
        filled = []
        for argument in command:
            for name, value in values.items():
                argument = argument.replace(name, value)
            filled.append(argument)
        return filled

    def _environment(self, job: str, index: int) -> Mapping[str, str]:
        environment = dict(os.environ)
        environment["TF_CONFIG"] = json.dumps({"cluster": self.cluster, "task": {"type": job, "index": index}})
        environment.setdefault("PYTHONUNBUFFERED", "1")
        threads = max(1, (os.cpu_count() or 1) // sum(len(tasks) for tasks in self.cluster.values()))
        for variable in _THREAD_VARIABLES:
            environment.setdefault(variable, str(threads))
        return environment


def _show_status(tasks: list[tuple[str, int, str, Child]], daemons: list[Child]) -> None:
    """Ask the first daemon that runs, else what may serve too; those that ended are named and not waited for."""
    ended = {names.task_name(job, index) for job, index, _, child in tasks if child.code is not None}
    running = [(child not in daemons, address) for _, _, address, child in tasks if child.code is None]
    if running:
        _, address = min(running, key=lambda pair: pair[0])
        status.show(f"zmq://{address}", timeout=5.0, ended=ended)
    else:
        print("dtfzmq run: all tasks have ended, so there is none to ask for its status", file=sys.stderr)
