"""N tasks in one thread: node lists are planned, compiled and run, with pushes between the tasks by way of a queue."""

from __future__ import annotations

import collections
import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import errors, names
from dtfzmq.base.loop import Timer
from dtfzmq.graph.node import Node
from dtfzmq.plan.devices import DeviceTable
from dtfzmq.plan.optimize.passes import Options
from dtfzmq.plan.optimize.run import optimize
from dtfzmq.plan.part import Part
from dtfzmq.plan.partition import partition_by_device, partition_by_task
from dtfzmq.plan.place import Placer
from dtfzmq.plan.prune import prune
from dtfzmq.runtime.compile import compile_function, compile_nodes
from dtfzmq.runtime.device import make_devices
from dtfzmq.runtime.executor import Run
from dtfzmq.runtime.feeds import Feeds
from dtfzmq.runtime.kernel_env import KernelEnv
from dtfzmq.runtime.resources import ResourceManager
from dtfzmq.runtime.step import StepContext


class SimLoop:
    """A loop on a virtual clock, and a runner that runs work as if on another thread."""

    def __init__(self) -> None:
        self.ready: collections.deque[tuple[Callable[..., None], tuple[Any, ...]]] = collections.deque()
        self.timers: list[tuple[float, int, Timer]] = []
        self.order = itertools.count()
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def call_soon(self, fn: Callable[..., None], *args: Any) -> None:
        self.ready.append((fn, args))

    def call_at(self, when: float, fn: Callable[..., None], *args: Any) -> Timer:
        timer = Timer(when, fn, args)
        heapq.heappush(self.timers, (when, next(self.order), timer))
        return timer

    def call_later(self, delay: float, fn: Callable[..., None], *args: Any) -> Timer:
        return self.call_at(self.time + delay, fn, *args)

    def run(self, turns: int = 10**9) -> None:
        """Until nothing is left to do, or for so many calls."""
        while (self.ready or self.timers) and turns > 0:
            turns -= 1
            if self.ready:
                fn, args = self.ready.popleft()
                fn(*args)
                continue
            self.time, _, timer = heapq.heappop(self.timers)
            if timer.fn is not None:
                timer.fn(*timer.args)

    def submit(self, fn: Callable[[], None]) -> None:
        """The runner's side: as if on another thread."""
        self.call_soon(fn)


class Exchange:
    """The tensors of one step on one task; each key is sent and received once."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.waiting: dict[str, Callable[..., None]] = {}
        self.error: errors.OpError | None = None
        self.seen: set[str] = set()

    def send(self, key: str, value: Any) -> None:
        if self.error is not None:
            return
        assert key not in self.seen, f"sent twice: {key}"
        self.seen.add(key)
        if key in self.waiting:
            self.waiting.pop(key)(value, None)
        else:
            self.values[key] = value

    def recv(self, key: str, deliver: Callable[..., None]) -> None:
        if self.error is not None:
            deliver(None, self.error)
        elif key in self.values:
            deliver(self.values.pop(key), None)
        else:
            assert key not in self.waiting, f"received twice: {key}"
            self.waiting[key] = deliver

    def abort(self, error: errors.OpError) -> None:
        self.error = error
        waiting, self.waiting = self.waiting, {}
        for deliver in waiting.values():
            deliver(None, error)


class Task:
    def __init__(self, name: str, devices: int) -> None:
        self.name = name
        self.devices = make_devices(name, {"CPU": devices}, 7)
        self.resources = ResourceManager(names.job_and_index(name)[0])
        self.envs = {d.name: KernelEnv(d, self.resources, compile_function) for d in self.devices}


class Step:
    """One run of some parts, over all tasks."""

    def __init__(self, cluster: Cluster, n_fetches: int) -> None:
        self.cluster = cluster
        self.results: list[Any] = [None] * n_fetches
        self.error: errors.OpError | None = None
        self.left = 0
        self.contexts: dict[str, StepContext] = {}
        self.trace: list[Any] | None = None
        self.ended: Callable[[], None] = lambda: None

    def start(
        self, parts: Sequence[Part], feeds: Sequence[Any], partial: Feeds | None = None, on_fetch: Any = None
    ) -> None:
        cluster = self.cluster
        for part in parts:
            self.contexts[part.task] = StepContext(
                1, cluster.loop, cluster.runner, Exchange(), lambda task: _Link(self, task), self.trace
            )
        runs = []
        for part in parts:
            task = cluster.tasks[part.task]
            shares = partition_by_device(part.nodes, task.devices[0].name, lambda d: 7)
            for device, nodes in shares.items():
                plan = compile_nodes(nodes, task.envs[device], partial is not None)
                plan.busy_s = cluster.busy_s
                given = partial if partial is not None else [feeds[i] for i in part.feeds]
                runs.append(
                    Run(plan, self.contexts[part.task], given, self._done(plan, part), self._on_fetch(part, on_fetch))
                )
        self.left = len(runs)
        if cluster.rng is not None:
            cluster.rng.shuffle(runs)
        for run in runs:
            run.start()

    def _on_fetch(self, part: Part, on_fetch: Any) -> Any:
        return None if on_fetch is None else lambda index, value: on_fetch(part.fetches[index], value)

    def _done(self, plan: Any, part: Part) -> Callable[..., None]:
        called: list[int] = []

        def done(results: Any, error: Any) -> None:
            assert not called, "done twice"
            called.append(1)
            self.left -= 1
            if error is not None:
                if self.error is None or self.error.derived and not error.derived:
                    self.error = error
                for context in self.contexts.values():
                    context.cancel(error)
            else:
                for (_, index), value in zip(plan.fetches, results):
                    self.results[part.fetches[index]] = value
            if self.left == 0:
                self.ended()

        return done

    def finish(self) -> list[Any]:
        self.cluster.loop.run()
        assert self.left == 0, "the step hangs"
        for context in self.contexts.values():
            assert not context._watchers
            if self.error is None:
                assert context.exchange is not None
                assert not context.exchange.values and not context.exchange.waiting  # type: ignore[attr-defined]  # ours
        if self.error is not None:
            raise self.error
        return self.results


class _Link:
    def __init__(self, step: Step, task: str) -> None:
        self.step = step
        self.task = task

    def push(self, number: int, items: list[tuple[str, Any]]) -> None:
        exchange = self.step.contexts[self.task].exchange
        assert exchange is not None
        for key, value in items:
            assert key.split(";")[2].startswith(self.task)
            assert type(value) is not np.ndarray or not value.flags.writeable
            self.step.cluster.loop.call_soon(exchange.send, key, value)


class Cluster:
    """Tasks "/job:J/task:N" with one graph. `busy_s`: what plans are taken to need, which decides where they run.

    Graphs are optimized if `optimizer` says how.
    """

    def __init__(
        self,
        jobs: dict[str, int],
        devices: int = 1,
        soft: bool = False,
        seed: int | None = None,
        optimizer: Options | None = None,
    ) -> None:
        self.optimizer = optimizer
        self.loop: Any = SimLoop()
        self.runner: Any = self.loop
        self.tasks: dict[str, Task] = {}
        for job, count in jobs.items():
            for index in range(count):
                name = names.task_name(job, index)
                self.tasks[name] = Task(name, devices)
        own = next(iter(self.tasks))
        table = DeviceTable(own, [d.name for d in self.tasks[own].devices], self.tasks)
        for name, task in self.tasks.items():
            table.learn(name, [d.name for d in task.devices])
        self.placer = Placer(table, soft)
        self.nodes: list[Node] = []
        self.home = self.tasks[own].devices[0].name
        self.busy_s = 0.0
        self.rng = None if seed is None else random.Random(seed)

    def extend(self, nodes: Sequence[Node]) -> None:
        self.nodes.extend(nodes)
        self.placer.extend(nodes)

    def plan(
        self,
        feeds: Sequence[tuple[int, int]] = (),
        fetches: Sequence[tuple[int, int]] = (),
        targets: Sequence[int] = (),
    ) -> list[Part]:
        pruned = prune(self.nodes, feeds, fetches, targets)
        self.placer.place(pruned)
        nodes = pruned.nodes if self.optimizer is None else optimize(pruned.nodes, self.optimizer)
        return partition_by_task(nodes, self.home, lambda device: 7)

    def run(
        self,
        fetches: Sequence[tuple[int, int]] = (),
        feeds: dict[tuple[int, int], Any] | None = None,
        targets: Sequence[int] = (),
    ) -> list[Any]:
        feeds = feeds or {}
        parts = self.plan(list(feeds), fetches, targets)
        step = Step(self, len(fetches))
        step.start(parts, list(feeds.values()))
        return step.finish()
