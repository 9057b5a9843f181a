"""Child processes of a launcher: their output line by line, and an end that leaves none behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from dtfzmq.base import clock, signals
from dtfzmq.cli import guard

# What a child gets to end by itself after a signal before it is killed; Ctrl-C has to be over within a second.
GRACE_S = 0.6
# How often children are looked after while none of them prints.
_POLL_S = 0.05


class Child:
    """One task's process, the leader of a process group of its own.

    Both its outputs come through one pipe, or, if `piped` is false, go where the launcher's go.
    """

    def __init__(
        self,
        label: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        piped: bool = True,
        first: Callable[[], None] | None = None,
    ) -> None:
        """`first` is called in the child before it runs the program. OSError if that cannot be run."""
        self.label = label
        self.process = subprocess.Popen(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else None,
            stderr=subprocess.STDOUT if piped else None,
            start_new_session=True,
            preexec_fn=first,
        )
        self.pipe = -1
        if self.process.stdout is not None:
            self.pipe = self.process.stdout.fileno()
            os.set_blocking(self.pipe, False)
        self.partial = b""

    @property
    def code(self) -> int | None:
        """The exit code as a shell gives it, 128 + signal for one that a signal ended; None while it runs."""
        code = self.process.poll()
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send `number` to the child and to what it started."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Guard:
    """The process that ends a launcher's children if the launcher is killed, see guard.py."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def begun(self) -> None:
        """In a child that leads a group: it runs. So it is told before the launcher, which may be killed, goes on."""
        self._tell(f"+{os.getpid()}\n")

    def over(self, child: Child) -> None:
        """The group of a child is no more."""
        self._tell(f"-{child.process.pid}\n")

    def _tell(self, line: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):  # it was killed; then there is none
            os.write(pipe.fileno(), line.encode())

    def close(self) -> None:
        """End it, and whatever still runs."""
        self._process.communicate()


class Children:
    """All children of one launcher. Used by one thread. If the launcher is killed they end all the same.

    `show(label, line)` is called with each line that a child prints, without its end.
    """

    def __init__(self, show: Callable[[str, str], None]) -> None:
        self._show = show
        self._selector = selectors.DefaultSelector()
        self._guard = Guard()
        self.all: list[Child] = []

    def start(self, label: str, argv: Sequence[str], environment: Mapping[str, str], piped: bool = True) -> Child:
        """Start a child, see Child. Raises OSError, which names the program, if it cannot be run."""
        with signals.deferred():  # one that runs, and is not known here, would be ended by nobody
            try:
                child = Child(label, argv, environment, piped, self._guard.begun)
            except OSError as error:
                why = f"{label} cannot run '{argv[0]}': {error.strerror}"
                text = f"{why}. Give a program, by its path or as PATH has it."
                raise type(error)(text) from None
            self.all.append(child)
            if piped:
                self._selector.register(child.pipe, selectors.EVENT_READ, child)
        return child

    def turn(self) -> None:
        """Show what has been printed; waits a moment if nothing has."""
        for key, _ in self._selector.select(_POLL_S):
            self._read(key.data)
        if not self._selector.get_map():
            clock.sleep(_POLL_S)

    def end(self, children: Iterable[Child], number: int, grace: float = GRACE_S) -> None:
        """End `children` by signal `number`, and those that stay longer than `grace` seconds by SIGKILL.

        Their whole groups are ended, and what they still printed is shown, if that is still possible.
        """
        ending = list(children)
        for child in ending:
            child.signal(number)
        deadline = clock.now() + grace
        while any(child.code is None for child in ending) and clock.now() < deadline:
            with contextlib.suppress(OSError):  # the terminal may be closed
                self.turn()
        for child in ending:
            child.signal(signal.SIGKILL)
            child.process.wait()
            self._guard.over(child)
        for child in ending:
            with contextlib.suppress(OSError):
                self._drain(child)

    def close(self) -> None:
        """End everything at once; to be called however the launcher ends."""
        self.end(self.all, signal.SIGKILL, 0.0)
        self._guard.close()
        self._selector.close()

    def _read(self, child: Child) -> bool:
        """Show one portion; False if there is none now."""
        try:
            data = os.read(child.pipe, 65536)
        except BlockingIOError:
            return False
        lines = (child.partial + data).split(b"\n")
        child.partial = lines.pop()
        if not data:
            self._selector.unregister(child.pipe)
            if child.partial:
                lines.append(child.partial)
                child.partial = b""
        for line in lines:
            # A progress display rewrites its line with carriage returns; what stands after the last one counts.
            self._show(child.label, line.decode(errors="replace").rstrip("\r").rpartition("\r")[2])
        return bool(data)

    def _drain(self, child: Child) -> None:
        if child.process.stdout is None or child.process.stdout.closed:
            return
        while child.pipe in self._selector.get_map() and self._read(child):
            pass
        if child.pipe in self._selector.get_map():
            self._selector.unregister(child.pipe)
        child.process.stdout.close()


class Printer:
    """Prints each task's lines behind its name, in a colour of its own where stdout is a terminal."""

    _COLOURS = (36, 33, 32, 35, 34, 31)

    def __init__(self, labels: Sequence[str], colour: bool | None = None) -> None:
        self._width = max((len(label) for label in labels), default=0)
        self._numbers = {label: self._COLOURS[i % len(self._COLOURS)] for i, label in enumerate(labels)}
        self._colour = sys.stdout.isatty() if colour is None else colour

    def __call__(self, label: str, line: str) -> None:
        """Print one line of the task called `label`."""
        prefix = f"{label:<{self._width}} | "
        if self._colour:
            prefix = f"\x1b[{self._numbers.get(label, 37)}m{prefix}\x1b[0m"
        print(prefix + line, flush=True)
