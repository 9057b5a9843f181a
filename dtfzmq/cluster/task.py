"""One task: its worker and master, joined to each other, and what its mailbox does with what comes."""

from __future__ import annotations

import dataclasses
import os
import random
import resource
from collections.abc import Callable, Mapping
from typing import Any

from dtfzmq.base import errors, names, threads
from dtfzmq.base.loop import Loop
from dtfzmq.cluster.config import ConfigProto
from dtfzmq.cluster.master import Master
from dtfzmq.cluster.peers import LocalPeer, Peers
from dtfzmq.cluster.reach import Reach
from dtfzmq.cluster.service import Service
from dtfzmq.cluster.step import CLOSE_S
from dtfzmq.cluster.worker import Worker
from dtfzmq.runtime.device import make_devices
from dtfzmq.runtime.rendezvous import Rendezvous
from dtfzmq.wire import messages as m
from dtfzmq.wire.settings import LinkSettings

# A task that stops looks so often whether it may, and waits so long until others have its last answers.
_LOOK_S = 0.002
_FLUSH_S = 0.5

REQUESTS = (
    m.CreateSession,
    m.ExtendSession,
    m.RunStep,
    m.CancelRun,
    m.PartialRunSetup,
    m.PartialRunStep,
    m.CloseSession,
    m.Reset,
    m.ListDevices,
    m.GetStatus,
    m.RegisterGraph,
    m.DeregisterGraph,
    m.RunGraph,
    m.PartialGraph,
    m.CancelStep,
    m.HoldStep,
    m.CleanupGraph,
    m.StepFailed,
    m.DeleteWorkerSession,
    m.CleanupAll,
    m.Status,
    m.Shutdown,
)


class Task:
    """A task without sockets. All methods but the constructor and `close`: on the baton.

    It is the service of its endpoint, and answers requests of its own process through `handle`.
    """

    def __init__(
        self,
        loop: Loop,
        name: str,
        job: str,
        addresses: Mapping[str, str],
        config: Any = None,
        rng: random.Random | None = None,
        runner: threads.Runner | None = None,
        settings: LinkSettings | None = None,
    ) -> None:
        self.loop = loop
        self.name = name
        rng = rng or random.Random(random.SystemRandom().getrandbits(128))
        self._pool = None if runner is not None else threads.Pool("dtfzmq-run")
        self._runner: threads.Runner = runner or self._pool  # type: ignore[assignment]  # one of them is there
        config = config or ConfigProto()
        self.incarnation = rng.getrandbits(63) | 1
        devices = make_devices(name, dict(config.device_count), self.incarnation)
        self.rendezvous = Rendezvous(loop, settings or LinkSettings())
        self.rendezvous.beginning = self._beginning
        self._endpoint: Any = None
        self._addresses = dict(addresses)
        self.worker = Worker(loop, self._runner, name, job, devices, self.incarnation, self.rendezvous, self._route)
        self.peers = Peers(loop, name, addresses, None)
        own = LocalPeer(name, addresses.get(name, ""), self.handle)
        self.peers.set_own(own, self.incarnation, self.worker.device_list())
        defaults = config.to_plain()
        defaults.pop("device_count", None)
        self.master = Master(loop, self._runner, self.peers, rng, defaults)
        self.worker.report = self.master.step_failed
        self._reach = self.worker.away = Reach(loop, self._hold)
        self.service: Service = Service(REQUESTS, self.master, self.worker, self)
        #: Called when a remote shutdown was granted.
        self.shutdown_granted: Callable[[], None] = lambda: None
        self._started = loop.now()
        self._past_out = self._past_in = 0  # bytes of links that are no more

    def connect(self, endpoint: Any) -> None:
        """Give it its place on the network; once."""
        self._endpoint = endpoint
        self.worker.forget = endpoint.forget
        self.worker.reached = endpoint.known
        self.peers.use(endpoint)

    def handle(self, link: Any, message: Any, reply: Any) -> None:
        """Answer a request; `link` is None for one of this process."""
        self.service.handle(link, message, reply)

    def _route(self, task: str) -> Any:
        """The link that carries pushes to `task`."""
        return self._endpoint.link(task, [self._addresses[task]] if task in self._addresses else ())

    def _beginning(self) -> set[int]:
        """Steps whose RunGraph has come, but for feeds that are on their way."""
        links = () if self._endpoint is None else self._endpoint.links()
        return {message.step for link in links for message in link.coming() if type(message) is m.RunGraph}

    # -- what comes over links -----------------------------------------------------------------------------------------

    def on_push(self, link: Any, step: int, key: str, value: Any) -> None:
        """A small tensor came."""
        self.rendezvous.arrived(step, key, value)

    def on_announce(self, link: Any, step: int, key: str, offer: Any) -> None:
        """A large tensor is to be had."""
        self.rendezvous.announced(step, key, offer)

    def on_link_up(self, link: Any) -> None:
        """A link stands."""
        self._reach.up(link)
        self.worker.on_link_up(link)

    def on_link_down(self, link: Any) -> None:
        """A link has no lane for now."""
        self._reach.down(link)

    def _hold(self, link: Any, held: bool) -> None:
        """A client or a master is out of reach and may be gone, or in reach again."""
        self.master.hold(link, held)
        self.worker.hold(link, held)

    def on_link_lost(self, link: Any, error: errors.OpError) -> None:
        """A process is gone."""
        self._past_out += link.bytes_out
        self._past_in += link.bytes_in
        self._reach.lost(link)
        self.master.on_link_lost(link, error)
        self.worker.on_link_lost(link, error)

    def on_push_lost(self, link: Any, step: int, error: errors.OpError) -> None:
        """A push of a step will not arrive."""
        self.worker.on_push_lost(link, step, error)

    # -- about itself --------------------------------------------------------------------------------------------------

    def on_status(self, link: Any, message: m.Status, reply: Any) -> None:
        """Give an account of the whole server."""
        links = [] if self._endpoint is None else [link.statistics() for link in self._endpoint.links()]
        cluster: dict[str, dict[str, str]] = {}
        for task, address in self._addresses.items():
            job, index = names.job_and_index(task)
            cluster.setdefault(job, {})[str(index)] = address
        reply(
            m.StatusReport(
                {
                    "task": self.name,
                    "pid": os.getpid(),
                    "incarnation": self.incarnation,
                    "cluster": cluster,
                    "uptime": self.loop.now() - self._started,
                    "memory": _memory(),
                    "sent": self._past_out + sum(link.bytes_out for link in links),
                    "received": self._past_in + sum(link.bytes_in for link in links),
                    **self.master.statistics(),
                    **self.worker.statistics(),
                    "links": [{**_plain(link), "sent": link.bytes_out, "received": link.bytes_in} for link in links],
                }
            )
        )

    def on_shutdown(self, link: Any, message: m.Shutdown, reply: Any) -> None:
        """End the server, unless sessions are open and `force` is not set."""
        live = [s for s in self.master.sessions.values() if s.abandoned is None]
        if live and not message.force:
            who = ", ".join(sorted({s.client() for s in live}))
            raise errors.FailedPreconditionError(
                None,
                None,
                f"{self.name} has {len(live)} open session{'s' if len(live) > 1 else ''} ({who}). Close them, "
                "or force the shutdown.",
            )
        reply(m.Done())
        self.shutdown_granted()

    def stop(self, done: Callable[[], None] = lambda: None, quietly: bool = False) -> None:
        """End every session and step; `done` once those who wait for them know how they ended, or soon.

        What waits is cancelled; what computes may end well within CLOSE_S. `quietly`: those of this process are left
        as they are, and not waited for.
        """
        closing: list[bool] = []
        kept = self.master.stop(lambda: closing.append(True), quietly)
        self.worker.stop(kept)

        def flush() -> None:
            until = self.loop.now() + _FLUSH_S
            self._when(lambda: self._endpoint is None or not self._endpoint.owes, until, done)

        until = self.loop.now() + CLOSE_S
        self._when(lambda: bool(closing) and not self.worker.still_busy(kept), until, flush)

    def _when(self, true: Callable[[], bool], until: float, then: Callable[[], None]) -> None:
        """Call `then` once `true()` holds, which is looked at now and then, or at `until`."""
        if true() or self.loop.now() >= until:
            then()
        else:
            self.loop.call_later(_LOOK_S, self._when, true, until, then)

    def close(self) -> None:
        """Give threads back. Not on the baton."""
        if self._pool is not None:
            self._pool.close()


def _plain(statistics: Any) -> dict[str, Any]:
    return dataclasses.asdict(statistics)


def _memory() -> int:
    """Resident bytes of this process; its peak where the present figure is not to be had."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
