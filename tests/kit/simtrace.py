"""Golden traces: a small language of commands for simulated tasks, and a text of all that happened between them.

Commands, one a line: ``tasks N``, ``step N master=I edges=0>1:40,1>0:9000 [feed=B] [delay=I:S]``, ``cancel N``,
``wait S``, ``when I>J KIND COMMAND`` (once, as the message sets out), ``kill I``, ``start I``, ``stop I``,
``busy I`` (no progress, but heartbeats), ``resume I``, ``cut I J``, ``heal I J``, ``end I J [KIND]`` (a lane's
connection), ``goodbye I``, ``claim I PORT`` (another process of task I), ``cluster N`` (what tasks started from now on
believe), ``limit B`` (largest tensor),
``client J`` (a process without an address calls task J), ``reach I J K`` (I looks for J at K's address), ``shared B``
(before ``tasks``: tensors from B bytes on go through shared memory), ``blind I`` (I may not map segments),
``bulk on|off`` (whether bulk lanes can be opened), ``settle``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import numpy as np

from dtfzmq.base import errors
from dtfzmq.wire import frames
from dtfzmq.wire.endpoint import Endpoint, Quiet
from dtfzmq.wire.hello import Who
from tests.kit.simworld import SETTINGS, SimClean, SimDone, SimRun, SimTask, World, tensor

_NAMES = {value: name for name, value in vars(frames).items() if name.isupper() and type(value) is int}


class Trace:
    """Runs the commands of one text and keeps its story."""

    def __init__(self, commands: str) -> None:
        self.lines: list[str] = []
        self.world = World(1, 0, SETTINGS)
        self.world.net.watchers.append(self._message)
        self._when: list[tuple[str, str, str]] = []
        self._extra = 0
        for line in commands.splitlines():
            if line.strip() and not line.startswith("#"):
                self._run(line)

    def text(self) -> str:
        """All that happened."""
        return "\n".join(self.lines) + "\n"

    # -- the story ----------------------------------------------------------------------------------------------------

    def say(self, what: str) -> None:
        """Add a line with the time."""
        self.lines.append(f"{self.world.loop.now() - 1000:8.3f}  {what}")

    def _short(self, name: str) -> str:
        return f"t{name.rpartition(':')[2]}" if name.startswith("/job:") else name

    def _message(self, source: str, target: str, frame_list: Sequence[Any]) -> None:
        header = msgpack.unpackb(frame_list[0])
        kind = _NAMES[header[0]]
        self.say(f"{self._short(source):7} > {self._short(target):7} {kind} {self._summary(kind, header)}".rstrip())
        for entry in list(self._when):
            if entry[:2] == (f"{self._short(source)}>{self._short(target)}", kind):
                self._when.remove(entry)
                self.world.loop.call_soon(self._run, entry[2])

    def _summary(self, kind: str, header: list[Any]) -> str:
        if kind == "HELLO":
            said = header[1]
            return (
                f"I am {self._short(said[2]['name']) or 'a client'}, want {self._short(said[5]) or 'anyone'}, "
                f"lane {'bulk' if said[3] else 'control'}, received {said[9]}"
            )
        if kind == "WELCOME":
            return f"received {header[1][3]}"
        if kind == "REFUSED":
            return self.clean(header[1][2])
        if kind == "BYE":
            return f"{header[1]}{', and the process leaves' if header[2] else ''}"
        if kind in ("ACK", "CREDIT", "PING", "PONG"):
            return str(header[1])
        if kind == "CHUNK":
            return f"transfer {header[1]} at {header[2]}, {header[3]} bytes"
        number = f"#{header[1]} (ack {header[2]})"
        rest = header[3:]
        if kind in ("REQUEST", "REPLY", "TELL"):
            body = rest[1 if kind == "REPLY" else -1]
            named = f"{body[0]} {body[1]}" if body[0] != "SimDone" else "SimDone"
            large = [d[3] for d in body[-1] if type(d) is list and len(d) == 4] if type(body[-1]) is list else []
            riding = f", with step {rest[2][0]}: {self._edges(rest[2][1])}" if kind == "REPLY" and rest[2:] else ""
            return f"{number} {named}" + (f", transfers {large}" if large else "") + riding
        if kind == "PUSH":
            return f"{number} step {rest[0]}: {self._edges(rest[1])}"
        if kind == "ANNOUNCE":
            return f"{number} step {rest[1]}: {rest[2].split(';')[3]}, transfer {rest[0]}, {rest[3][2]} bytes"
        if kind == "SHARED":
            return f"{number} transfer {rest[0]}, {'in a segment' if rest[1] >= 0 else 'no segment'}"
        if kind == "REFUSE":
            return f"{number} transfer {rest[0]}: {self.clean(rest[1])}"
        return f"{number} {' '.join(str(r) for r in rest)[:60]}"

    def _edges(self, keys: list[str]) -> str:
        return ", ".join(key.split(";")[3] for key in keys)

    def clean(self, text: str) -> str:
        """A text without what differs from process to process."""
        words = text.replace("/job:t/replica:0/task:", "t").split(" ")
        return " ".join("<incarnation>," if len(w) == 17 and w.endswith(",") else w for w in words)

    # -- commands -----------------------------------------------------------------------------------------------------

    def _run(self, line: str) -> None:
        words = line.split()
        command: Callable[..., None] = getattr(self, f"_do_{words[0]}")
        command(*words[1:])

    def _task(self, index: str) -> SimTask:
        return self.world.tasks[self.world.names[int(index)]]

    def _do_tasks(self, count: str) -> None:
        world = self.world
        world.names = [f"/job:t/replica:0/task:{i}" for i in range(int(count))]
        world.addresses = {name: f"t{i}:{1000 + i}" for i, name in enumerate(world.names)}
        world.known = {"t": [f"zmq://{world.addresses[name]}" for name in world.names]}
        for index in range(int(count)):
            self._start(str(index))

    def _start(self, index: str) -> None:
        task = self.world.start(self.world.names[int(index)])
        tell = task.on_link_lost

        def lost(link: Any, error: errors.OpError) -> None:
            self.say(f"{self._short(task.name):7} = link lost: {self.clean(error.message)}")
            tell(link, error)

        task.on_link_lost = lost  # type: ignore[method-assign]  # to hear of it

    def _do_start(self, index: str) -> None:
        self.say(f"net     x t{index} starts")
        self._start(index)

    def _do_step(self, number: str, *options: str) -> None:
        given = dict(option.split("=", 1) for option in options)
        names = self.world.names
        edges = []
        for edge in given["edges"].split(","):
            ends, size = edge.split(":")
            source, target = ends.split(">")
            edges.append((names[int(source)], names[int(target)], int(size)))
        delays = {}
        if "delay" in given:
            index, seconds = given["delay"].split(":")
            delays[names[int(index)]] = float(seconds)
        step = self.world.run_step(int(number), names[int(given["master"])], edges, delays, int(given.get("feed", 0)))
        self._watch(step)

    def _watch(self, step: Any) -> None:
        if step.over:
            what = "done" if step.error is None else f"failed: {self.clean(step.error.message)}"
            self.say(f"{self._short(step.master.name):7} = step {step.number} {what}")
        elif step.master.alive:
            self.world.loop.call_later(0.001, self._watch, step)

    def _do_cancel(self, number: str) -> None:
        self.world.cancel(self.world.steps[int(number)])

    def _do_wait(self, seconds: str) -> None:
        self.world.loop.run(float(seconds))

    def _do_settle(self) -> None:
        self.world.loop.run(60.0)
        self.say(f"left    = {'; '.join(self.world.leftovers()) or 'nothing'}")

    def _do_when(self, ends: str, kind: str, *command: str) -> None:
        source, target = ends.split(">")
        self._when.append((f"t{source}>t{target}", kind, " ".join(command)))

    def _do_kill(self, index: str) -> None:
        self.say(f"net     x t{index} killed")
        self.world.net.kill(self._task(index).host)

    def _do_stop(self, index: str) -> None:
        self.say(f"net     x t{index} stopped")
        self.world.net.stop(self._task(index).host)

    def _do_busy(self, index: str) -> None:
        self.say(f"net     x t{index} busy")
        self.world.net.busy(self._task(index).host)

    def _do_resume(self, index: str) -> None:
        self.say(f"net     x t{index} goes on")
        self.world.net.resume(self._task(index).host)

    def _do_cut(self, one: str, other: str) -> None:
        self.say(f"net     x t{one} and t{other} are cut")
        self.world.net.cut(self.world.names[int(one)], self.world.names[int(other)])

    def _do_heal(self, one: str, other: str) -> None:
        self.say(f"net     x t{one} and t{other} reach each other again")
        self.world.net.heal(self.world.names[int(one)], self.world.names[int(other)])

    def _do_end(self, one: str, other: str, which: str = "control") -> None:
        ends = {self.world.names[int(one)], self.world.names[int(other)]}
        for end in self.world.net.pairs():
            kind = "bulk" if getattr(end.events, "kind", 0) else "control"
            if end.other is not None and {end.host.name, end.other.host.name} == ends and kind == which:
                self.say(f"net     x the {which} lane of t{one} and t{other} ends")
                self.world.net.end_lane(end)
                return

    def _do_goodbye(self, index: str) -> None:
        self._task(index).endpoint.close()

    def _do_cluster(self, count: str) -> None:
        self.world.known = {"t": [f"zmq://t{i}:{1000 + i}" for i in range(int(count))]}

    def _do_shared(self, size: str) -> None:
        self.world.settings = dataclasses.replace(SETTINGS, shared_memory=True, shared_limit=int(size))

    def _do_blind(self, index: str) -> None:
        self.world.blind.add(f"/job:t/replica:0/task:{index}")

    def _do_bulk(self, way: str) -> None:
        self.say(f"net     x bulk lanes can{'' if way == 'on' else 'not'} be opened")
        self.world.net.bulk = way == "on"

    def _do_limit(self, size: str) -> None:
        for task in self.world.tasks.values():
            task.endpoint.memory = _Scarce(task.endpoint.memory, int(size))  # type: ignore[method-assign]  # it has as much

    def _do_claim(self, index: str, port: str) -> None:
        world = self.world
        name = world.names[int(index)]
        holder = world.tasks[name]
        was, world.addresses[name] = world.addresses[name], f"t{index}:{port}"
        newcomer = SimTask(world, name, world.addresses[name])
        newcomer.host.name = f"new t{index}"
        world.addresses[name] = was
        world.tasks[name] = holder
        for other in world.names:
            if other != name:
                world.link(newcomer, other).call(SimDone(1, []), self._answered(newcomer, other))

    def _do_reach(self, index: str, wanted: str, at: str) -> None:
        task = self._task(index)
        name = self.world.names[int(wanted)]
        link = task.endpoint.link(name, [self.world.addresses[self.world.names[int(at)]]])
        link.call(SimDone(1, []), self._answered(task, name))

    def _do_client(self, index: str) -> None:
        self._extra += 1
        host = self.world.net.host(f"client{self._extra}")
        me = Who("", 77 + self._extra, 5, host.name)
        endpoint = Endpoint(host.loop, host.transport, me, Quiet(), self.world.settings)
        link = endpoint.link("", [self.world.addresses[self.world.names[int(index)]]])
        run = SimRun(900 + self._extra, 9000 + self._extra, [], [], [tensor("f", 700), np.float32(1)])

        def done(reply: Any, error: errors.OpError | None) -> None:
            sizes = [np.asarray(t).nbytes for t in reply.fetches] if reply is not None else []
            self.say(f"{host.name} = " + (f"{sizes} bytes came back" if error is None else self.clean(error.message)))
            link.tell(SimClean(run.step, run.number))

        link.call(run, done)

    def _answered(self, task: SimTask, name: str) -> Callable[[Any, Any], None]:
        def done(reply: Any, error: errors.OpError | None) -> None:
            text = "answered" if error is None else f"{type(error).__name__}: {self.clean(error.message)}"
            self.say(f"{self._short(task.host.name):7} = {self._short(name)} {text}")

        return done


class _Scarce:
    """Memory up to a limit."""

    def __init__(self, memory: Callable[[int], Any], limit: int) -> None:
        self._memory = memory
        self._limit = limit

    def __call__(self, nbytes: int) -> Any:
        if nbytes > self._limit:
            raise MemoryError
        return self._memory(nbytes)
