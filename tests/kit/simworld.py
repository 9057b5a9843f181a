"""Simulated tasks with endpoints and rendezvous, and little steps that exchange tensors between them.

A step has parts on some tasks. Each part pushes tensors to others and waits for those that others push to it. The first
task of a step is its master: it starts the parts, and cancels and cleans up, as a real master does.
"""

from __future__ import annotations

import collections
import dataclasses
import errno
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dtfzmq.base import errors, names
from dtfzmq.runtime.rendezvous import Exchange, Rendezvous, prefix
from dtfzmq.wire import hello
from dtfzmq.wire.calls import Reply
from dtfzmq.wire.endpoint import Endpoint
from dtfzmq.wire.message import Tensors, message
from dtfzmq.wire.settings import KIB, LinkSettings
from tests.kit.simloop import SimLoop
from tests.kit.simnet import Host, SimNet


@message
class SimRun:
    """Run a part: push each of `pushes` (target, key, size), wait for the keys of `waits`. Answered by SimDone."""

    step: int
    number: int
    pushes: list[tuple[str, str, int]]
    waits: list[str]
    feeds: Tensors


@message
class SimDone:
    """The part ended well; `fetches` has what a large reply needs."""

    number: int
    fetches: Tensors


@message
class SimClean:
    """The step is over; one-way."""

    step: int
    number: int


SETTINGS = LinkSettings(
    inline_limit=256,
    chunk=512,
    bulk_window=2 * KIB,
    control_window=4 * KIB,
    batch=1 * KIB,
    max_header=4 * KIB,
    limit=2.0,
    refused_limit=0.2,
    connect_limit=6.0,
    connect_timeout=0.5,
    welcome_limit=0.8,
    park_age=20.0,
    park_bytes=64 * KIB,
    tombstone_age=30.0,
)


def tensor(key: str, size: int) -> np.ndarray[Any, Any]:
    """The value of a key: so many bytes that anyone can check."""
    return np.random.default_rng(abs(hash_text(key))).integers(0, 255, size, np.uint8)


def hash_text(text: str) -> int:
    """A number of a text that is the same in every run."""
    value = 7
    for char in text:
        value = (value * 131 + ord(char)) % (1 << 61)
    return value


class SimTask:
    """One process of a task: endpoint, rendezvous, and the parts that run. Also the service of its endpoint."""

    def __init__(self, world: World, name: str, address: str) -> None:
        self.world = world
        self.name = name
        self.host: Host = world.net.host(name)
        incarnation = world.rng.getrandbits(60) + 1
        who = hello.Who(name if address else "", incarnation, world.rng.randrange(1, 9999), "sim")
        self.endpoint = Endpoint(
            self.host.loop,
            self.host.transport,
            who,
            self,
            world.settings,
            world.known if address else {},
            random.Random(world.rng.random()),
            world.addresses if address else {},
        )
        segments = self.endpoint._segments
        if segments is not None:
            self.host.at_death.append(segments.close)
            if name in world.blind:
                segments.map = world.not_mapped  # type: ignore[method-assign]  # as the system would refuse it
        self.rendezvous = Rendezvous(self.host.loop, world.settings)
        self.parts: dict[int, Reply] = {}
        self.leases: dict[int, Any] = {}
        if address:
            self.endpoint.bind(address)

    @property
    def alive(self) -> bool:
        """False once it was killed."""
        return not self.host.loop.dead

    def handle(self, link: Any, msg: Any, reply: Reply) -> None:
        """Run a part, or clean a step."""
        self.world.handled(self, link, msg)
        if isinstance(msg, SimClean):
            self._clean(msg.step)
        elif isinstance(msg, SimRun):
            self.leases[msg.step] = link
            self._run(msg, reply)

    def _clean(self, step: int) -> None:
        self.rendezvous.close(step)
        self.endpoint.forget(step)
        self.parts.pop(step, None)
        self.leases.pop(step, None)

    def _run(self, msg: SimRun, reply: Reply) -> None:
        try:
            exchange = self.rendezvous.open(msg.step, lambda error: self._failed(msg.step, error))
        except errors.OpError as exc:
            self.leases.pop(msg.step, None)
            reply.fail(exc)
            return
        self.parts[msg.step] = reply
        waiting = set(msg.waits)
        outgoing: dict[str, list[tuple[str, Any]]] = collections.defaultdict(list)
        for target, key, size in msg.pushes:
            outgoing[target].append((key, tensor(key, size)))
        for target, items in outgoing.items():
            if target == self.name:
                for key, value in items:
                    exchange.send(key, value)
            else:
                self.world.link(self, target).push(msg.step, items)
        for key in msg.waits:
            self._wait(exchange, key, waiting, msg)
        self._end_if_whole(waiting, msg)

    def _wait(self, exchange: Exchange, key: str, waiting: set[str], msg: SimRun) -> None:
        def deliver(value: Any, error: errors.OpError | None) -> None:
            if error is not None:
                self._failed(msg.step, error)
                return
            self.world.delivered(self, msg.step, key, value)
            waiting.discard(key)
            self._end_if_whole(waiting, msg)

        exchange.recv(key, deliver)

    def _end_if_whole(self, waiting: set[str], msg: SimRun) -> None:
        if not waiting:
            reply = self.parts.pop(msg.step, None)
            if reply is not None:
                reply(SimDone(msg.number, list(msg.feeds)))

    def _failed(self, step: int, error: errors.OpError) -> None:
        reply = self.parts.pop(step, None)
        if reply is not None:
            reply.fail(error)

    def on_push(self, link: Any, step: int, key: str, value: Any) -> None:
        """To the rendezvous."""
        self.rendezvous.arrived(step, key, value)

    def on_announce(self, link: Any, step: int, key: str, offer: Any) -> None:
        """To the rendezvous."""
        self.rendezvous.announced(step, key, offer)

    def on_link_up(self, link: Any) -> None:
        """Count."""
        self.world.counts["link up"] += 1

    def on_link_down(self, link: Any) -> None:
        """Count."""
        self.world.counts["link down"] += 1

    def on_link_lost(self, link: Any, error: errors.OpError) -> None:
        """Steps that wait for the peer fail; those that it is master of are over."""
        self.world.counts["link lost"] += 1
        for step in [step for step, master in self.leases.items() if master is link]:
            self._clean(step)
        if link.name:
            self.rendezvous.peer_lost(link.name, error)
            self.world.part_lost(self, link.name, error)

    def on_push_lost(self, link: Any, step: int, error: errors.OpError) -> None:
        """The part that pushed fails, and with it the step; one that has ended tells the master."""
        self.world.counts["push lost"] += 1
        exchange = self.rendezvous.find(step)
        if exchange is not None:
            exchange.abort(error)
        self.world.push_lost(self, step, error)


@dataclasses.dataclass
class SimStep:
    """What the master knows of a step."""

    number: int
    master: SimTask
    tasks: list[str]
    started: float
    results: dict[str, Any] = dataclasses.field(default_factory=dict)
    error: errors.OpError | None = None
    over: bool = False
    cancelled: bool = False
    calls: list[Any] = dataclasses.field(default_factory=list)


class World:
    """Tasks /job:t/task:0..n-1 on one simulated network, and the books that invariants are checked against."""

    def __init__(self, seed: int, tasks: int = 3, settings: LinkSettings = SETTINGS, blind: Iterable[int] = ()) -> None:
        """`blind`: the tasks that find out that they may not map others' segments."""
        self.rng = random.Random(seed)
        self.loop = SimLoop()
        self.settings = settings
        self.net = SimNet(self.loop, self.rng, settings)
        self.counts: collections.Counter[str] = collections.Counter()
        self.names = [names.task_name("t", i) for i in range(tasks)]
        self.blind = {names.task_name("t", i) for i in blind}
        self.addresses = {name: f"t{i}:{1000 + i}" for i, name in enumerate(self.names)}
        self.known = {"t": [f"zmq://{self.addresses[name]}" for name in self.names]}
        self.tasks: dict[str, SimTask] = {}
        self.ever: list[SimTask] = []
        self.steps: dict[int, SimStep] = {}
        self.deliveries: collections.Counter[tuple[int, int, str]] = collections.Counter()
        self.handlings: collections.Counter[tuple[int, int, str]] = collections.Counter()
        self.problems: list[str] = []
        self.stormy = True
        self.bulkless = False
        self.cleaned: set[tuple[int, int]] = set()
        for name in self.names:
            self.start(name)

    def start(self, name: str) -> SimTask:
        """Start a task, for the first time or again."""
        task = SimTask(self, name, self.addresses[name])
        self.tasks[name] = task
        self.ever.append(task)
        return task

    def not_mapped(self, pid: int, fd: int, inode: int, nbytes: int) -> Any:
        """What a blind task meets when it maps a segment."""
        self.counts["not mapped"] += 1
        raise PermissionError(errno.EACCES, "Permission denied")

    def link(self, task: SimTask, target: str) -> Any:
        """The link of a task to another."""
        return task.endpoint.link(target, [self.addresses[target]])

    # -- the books ----------------------------------------------------------------------------------------------------

    def handled(self, task: SimTask, link: Any, msg: Any) -> None:
        """A message reached a service: once in one process, whatever was repeated below."""
        if isinstance(msg, SimClean):
            self.cleaned.add((task.endpoint.me.incarnation, msg.step))
        book = (task.endpoint.me.incarnation, msg.number, type(msg).__name__)
        self.handlings[book] += 1
        if self.handlings[book] > 1:
            self.problems.append(f"{task.name} handled {msg} {self.handlings[book]} times")

    def delivered(self, task: SimTask, step: int, key: str, value: Any) -> None:
        """A tensor reached a part: once, and whole."""
        book = (task.endpoint.me.incarnation, step, key)
        self.deliveries[book] += 1
        self.counts["delivered"] += 1
        if self.deliveries[book] > 1:
            self.problems.append(f"{task.name} was given {key} of step {step} {self.deliveries[book]} times")
        if not np.array_equal(value, tensor(key, len(value))):
            self.problems.append(f"{task.name} was given wrong bytes for {key} of step {step}")

    def push_lost(self, task: SimTask, number: int, error: errors.OpError) -> None:
        """A sender reports a push that will not arrive: the step's master ends the step."""
        step = self.steps.get(number)
        if step is not None and not step.over and step.master.alive:
            step.master.host.loop.call_soon(self._step_failed, step, error)

    def part_lost(self, master: SimTask, task: str, error: errors.OpError) -> None:
        """A master lost a task: its steps with a part there fail, also if that part has ended, for what it pushed."""
        for step in self.steps.values():
            if step.master is master and task in step.tasks and not step.over:
                self._step_failed(step, error)

    # -- steps --------------------------------------------------------------------------------------------------------

    def key(self, source: str, target: str, edge: str) -> str:
        """A rendezvous key of an edge."""
        return prefix(f"{source}/device:CPU:0", 1, f"{target}/device:CPU:0", edge) + "0:0"

    def run_step(
        self, number: int, master: str, edges: list[tuple[str, str, int]], delays: dict[str, float], feed: int = 0
    ) -> SimStep:
        """Start a step: `edges` are (source, target, bytes); `delays` say how much later parts start than the first."""
        boss = self.tasks[master]
        tasks = sorted({end for edge in edges for end in edge[:2]})
        step = SimStep(number, boss, tasks, self.loop.now())
        self.steps[number] = step
        pushes: dict[str, list[tuple[str, str, int]]] = {task: [] for task in tasks}
        waits: dict[str, list[str]] = {task: [] for task in tasks}
        for i, (source, target, size) in enumerate(edges):
            key = self.key(source, target, f"edge_{number}_{i}")
            pushes[source].append((target, key, size))
            waits[target].append(key)
        for task in tasks:
            msg = SimRun(number, number * 100 + self.names.index(task), pushes[task], waits[task], [tensor("f", feed)])
            boss.host.loop.call_later(delays.get(task, 0.0), self._start_part, step, task, msg)
        return step

    def _start_part(self, step: SimStep, task: str, msg: SimRun) -> None:
        if step.over:
            return

        def done(reply: Any, error: errors.OpError | None) -> None:
            if error is not None:
                self._step_failed(step, error)
            else:
                step.results[task] = reply
                if len(step.results) == len(step.tasks):
                    self._finish(step)

        boss = step.master
        if task == boss.name:
            own = _OwnReply(done)
            boss.handle(None, msg, own)  # type: ignore[arg-type]  # it has what a Reply has
        else:
            step.calls.append(self.link(boss, task).call(msg, done))

    def cancel(self, step: SimStep) -> None:
        """The master ends a step early."""
        if not step.over and step.master.alive:
            step.cancelled = True
            self._step_failed(step, errors.CancelledError(None, None, "cancelled by the test"))

    def _step_failed(self, step: SimStep, error: errors.OpError) -> None:
        if not step.over:
            step.error = error
            self._finish(step)

    def _finish(self, step: SimStep) -> None:
        step.over = True
        boss = step.master
        for call in step.calls:
            call.cancel()
        for task in step.tasks:
            msg = SimClean(step.number, step.number * 100 + self.names.index(task))
            if task == boss.name:
                boss.handle(None, msg, None)  # type: ignore[arg-type]  # one-way
            elif self.link(boss, task).error is None:
                self.link(boss, task).tell(msg)

    # -- the end ------------------------------------------------------------------------------------------------------

    def undead(self) -> list[str]:
        """Steps that a task was told are over, and of which it holds something again."""
        return [
            f"{name} holds something of step {step}, which is over"
            for name, task in self.tasks.items()
            for step in [*task.rendezvous.steps(), *task.rendezvous._parked]
            if (task.endpoint.me.incarnation, step) in self.cleaned
        ]

    def leftovers(self) -> list[str]:
        """What living tasks still hold of steps that are over."""
        found = []
        for name, task in self.tasks.items():
            if not task.alive:
                continue
            statistics = task.rendezvous.statistics()
            for what in ("steps", "values", "waiting", "coming", "parked", "parked_bytes"):
                if getattr(statistics, what):
                    found.append(f"{name} has {getattr(statistics, what)} {what}")
            if task.endpoint.statistics()["steps"]:
                found.append(f"{name} has {task.endpoint.statistics()['steps']} steps that pushed")
            if task.leases:
                found.append(f"{name} has leases of steps {sorted(task.leases)}")
            if task.parts:
                found.append(f"{name} has parts of steps {sorted(task.parts)}")
            for link in task.endpoint.links():
                numbers = link.statistics()
                for what in ("calls", "serving", "outgoing", "incoming", "unacknowledged", "waiting_bytes"):
                    if getattr(numbers, what):
                        found.append(f"{link.route()} has {getattr(numbers, what)} {what} ({numbers.state})")
                if link.offers:
                    found.append(f"{link.route()} has {len(link.offers)} offers")
                if link.sharing is not None and (link.sharing.lent or link.sharing.borrowed):
                    numbers_of = len(link.sharing.lent), len(link.sharing.borrowed)
                    found.append(f"{link.route()} lends and borrows {numbers_of} segments")
        return found


class _OwnReply:
    """The reply of a part that runs in its master's own process."""

    def __init__(self, done: Callable[[Any, errors.OpError | None], None]) -> None:
        self._done: Callable[[Any, errors.OpError | None], None] | None = done

    def __call__(self, msg: Any) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(msg, None)

    def fail(self, error: BaseException) -> None:
        """See Reply."""
        done, self._done = self._done, None
        if done is not None:
            done(None, errors.wrap(error))
