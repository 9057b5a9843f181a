"""A whole cluster in one thread: real masters and workers over the simulated network, and a client that runs steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from dtfzmq.base import errors, names
from dtfzmq.client.connection import LinkConnection
from dtfzmq.cluster.task import Task
from dtfzmq.graph import serial
from dtfzmq.graph.graph import Graph
from dtfzmq.wire import messages as m
from dtfzmq.wire.endpoint import Endpoint, Quiet
from dtfzmq.wire.hello import Who
from dtfzmq.wire.settings import LinkSettings
from tests.kit.simloop import HostLoop, SimLoop
from tests.kit.simnet import Host, SimNet
from tests.kit.simworld import SETTINGS

Answered = Callable[[Any, "errors.OpError | None"], None]


class LaterRunner:
    """Runs what would go to a pool as a call of its own, a moment later."""

    def __init__(self, loop: HostLoop, rng: random.Random) -> None:
        self._loop = loop
        self._rng = rng

    def submit(self, fn: Callable[[], None]) -> None:
        """See base.threads.Runner."""
        self._loop.call_later(self._rng.random() * 0.002, fn)


class SimServer:
    """One process of a task. `core` is what a Server has, without threads and sockets."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        self.name = name
        self.host: Host = cluster.net.host(name)
        loop: Any = self.host.loop
        rng = random.Random(cluster.rng.random())
        job, _ = names.job_and_index(name)
        self.core = Task(loop, name, job, cluster.addresses, None, rng, LaterRunner(loop, rng), cluster.settings)
        who = Who(name, self.core.incarnation, rng.randrange(1, 9999), "sim")
        given = cluster.settings, cluster.known, rng, cluster.addresses
        self.endpoint = Endpoint(loop, self.host.transport, who, self.core, *given)
        self.core.connect(self.endpoint)
        self.endpoint.bind(cluster.addresses[name])

    def stop(self) -> None:
        """Begin what Server.stop does."""
        self.core.stop(lambda: self.endpoint.close(f"{self.name} was stopped"))

    def leftovers(self) -> dict[str, Any]:
        """What steps have left behind; {} if nothing."""
        core = self.core
        found = {
            "steps": [s.unfinished() for session in core.master.sessions.values() for s in session.steps.values()],
            "waiting": [list(s.waiting) for s in core.master.sessions.values() if s.waiting],
            "by_step": list(core.master._by_step),
            "parts": list(core.worker.steps),
            "meeting": list(core.rendezvous.steps()),
            "calls": [link.title() for link in self.endpoint.links() if link.calls or link.serving],
        }
        return {key: value for key, value in found.items() if value}


class SimCluster:
    """Tasks by name ("/job:ps/replica:0/task:0"), the network between them, and clients."""

    def __init__(self, seed: int, jobs: dict[str, int], settings: LinkSettings = SETTINGS) -> None:
        self.rng = random.Random(seed)
        self.loop = SimLoop()
        self.settings = settings
        self.net = SimNet(self.loop, self.rng, settings)
        self.known = {job: [f"{job}{i}:1" for i in range(count)] for job, count in jobs.items()}
        self.addresses = {names.task_name(j, i): a for j, tasks in self.known.items() for i, a in enumerate(tasks)}
        self.servers: dict[str, SimServer] = {}
        self.clients = 0
        for name in self.addresses:
            self.start(name)

    def start(self, name: str) -> None:
        """Start a task, or start it anew."""
        self.servers[name] = SimServer(self, name)

    def kill(self, name: str) -> None:
        """SIGKILL a task."""
        self.net.kill(self.servers[name].host)

    def session(self, master: str, graph: Graph, config: dict[str, Any] | None = None) -> SimSession:
        """A client of its own with a session."""
        self.clients += 1
        return SimSession(self, f"client{self.clients}", master, graph, config or {})


class _Answer:
    """See client.connection.Answer."""

    def __init__(self, answered: Answered) -> None:
        self._answered = answered
        self.call: Any = None
        self.done = False

    def __call__(self, reply: Any, error: errors.OpError | None = None) -> None:
        self.done = True
        self._answered(reply, error)

    def fail(self, error: errors.OpError) -> None:
        """End with an error."""
        self(None, error)


class SimSession:
    """A client process with one session. Calls return at once and answer by calling back, exactly once."""

    def __init__(self, cluster: SimCluster, name: str, master: str, graph: Graph, config: dict[str, Any]) -> None:
        self.host: Host = cluster.net.host(name)
        rng = random.Random(cluster.rng.random())
        loop: Any = self.host.loop
        who = Who("", rng.getrandbits(62) | 1, rng.randrange(1, 9999), "sim")
        self.endpoint = Endpoint(loop, self.host.transport, who, Quiet(), cluster.settings, {}, rng)
        address = cluster.addresses[master]
        self._connection = LinkConnection(loop, lambda: self.endpoint.link("", [address]), lambda: None)
        self._graph = graph
        self._config = config
        self._handle = ""
        self._runs = 0

    def open(self, answered: Answered) -> None:
        """Make the session at its master."""
        plain, arrays = serial.nodes_to_wire(serial.graph_nodes(self._graph))

        def created(reply: Any, error: errors.OpError | None) -> None:
            if error is None:
                self._handle = reply.handle
            answered(reply, error)

        self._call(m.CreateSession(plain, arrays, self._config), created)

    def run(
        self, fetches: list[Any], answered: Answered, timeout: float = 0.0, feeds: dict[str, Any] | None = None
    ) -> int:
        """Run a step; its number. `answered(values, error)`."""
        self._runs += 1
        given = feeds or {}
        tensors = tuple(t.name for t in fetches if hasattr(t, "value_index"))
        targets = tuple(op.name for op in fetches if not hasattr(op, "value_index"))
        signature = (tuple(given), tensors, targets)
        call = hash(signature) & (2**53 - 1)
        message = m.RunStep(self._handle, call, self._runs, list(given.values()), signature, timeout)
        self._call(message, lambda reply, error: answered(None if reply is None else reply.fetches, error))
        return self._runs

    def begin(self, fetches: list[Any], answered: Answered) -> None:
        """Reserve a partial run without feeds."""
        self._call(m.PartialRunSetup(self._handle, (), tuple(t.name for t in fetches), ()), answered)

    def go_on(self, partial: str, fetches: list[Any], answered: Answered) -> None:
        """Fetch a part of a partial run."""
        self._call(m.PartialRunStep(self._handle, partial, (), [], tuple(t.name for t in fetches)), answered)

    def devices(self, answered: Answered) -> None:
        """Ask for the devices of the cluster."""
        self._call(m.ListDevices(), answered)

    def reset(self, limit: float, answered: Answered) -> None:
        """End every session of the master and clear the containers of all tasks."""
        self._call(m.Reset((), limit), answered)

    def close(self, answered: Answered) -> None:
        """Close the session."""
        self._call(m.CloseSession(self._handle), answered)

    def _call(self, message: Any, answered: Answered) -> None:
        self._connection.ask(message, _Answer(answered))  # type: ignore[arg-type]  # it has what an Answer has
