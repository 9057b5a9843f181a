"""How a task reaches the others: the own worker directly, every other over a link, known by hello and status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from dtfzmq.base import errors, names
from dtfzmq.base.loop import Loop
from dtfzmq.wire import messages as m
from dtfzmq.wire.inquiry import inquire
from dtfzmq.wire.link import UP

_log = logging.getLogger("dtfzmq")

Done = Callable[[Any, "BaseException | None"], None]
Device = tuple[str, str, int, int]

# A task that is not there yet is spoken of this often.
_TELL_EVERY_S = 10.0
# A task that is known to have gone is looked at this often while it is called.
_LOOK_EVERY_S = 0.03


class LocalReply:
    """The reply of a request that a master makes to the worker of its own process."""

    __slots__ = ("_done", "runner")

    def __init__(self, done: Done, runner: Any = None) -> None:
        self._done = done
        #: Where a part that may not run on the baton runs; None: the pool.
        self.runner = runner

    def __call__(self, message: Any) -> None:
        self._done(message, None)

    def fail(self, error: BaseException) -> None:
        """Answer with an error."""
        self._done(None, error)


class LocalPeer:
    """The worker of this process, with the interface of a link."""

    def __init__(self, name: str, address: str, handle: Callable[[Any, Any, Any], None]) -> None:
        self.name = name
        self.address = address
        self._handle = handle

    def call(self, message: Any, done: Done, *, deadline: float | None = None, runner: Any = None) -> None:
        """Hand a request over; `done` may be called before this returns."""
        self._handle(None, message, LocalReply(done, runner))

    def tell(self, message: Any) -> None:
        """Hand a one-way message over."""
        self._handle(None, message, LocalReply(_ignore))


def _ignore(reply: Any, error: BaseException | None) -> None:
    """A reply that nobody waits for."""


class Peers:
    """The tasks of a cluster, as seen from one of them. All methods: on the baton.

    Nobody is contacted before `contact` or `peer` asks for it. `addresses` maps each other task to host:port.
    """

    def __init__(self, loop: Loop, me: str, addresses: Mapping[str, str], endpoint: Any) -> None:
        self._loop = loop
        self.me = me
        self.addresses = dict(addresses)
        self._endpoint = endpoint
        self._own: LocalPeer | None = None
        # task -> (incarnation of the process, its devices), while its link is up
        self._met: dict[str, tuple[int, list[Device]]] = {}

    def use(self, endpoint: Any) -> None:
        """Say where links come from; once."""
        self._endpoint = endpoint

    def set_own(self, peer: LocalPeer, incarnation: int, devices: list[Device]) -> None:
        """Say who the own worker is; once, before anything else."""
        self._own = peer
        self._met[self.me] = (incarnation, devices)

    def tasks(self) -> list[str]:
        """Every task of the cluster, the own one first."""
        return [self.me, *(task for task in sorted(self.addresses) if task != self.me)]

    def peer(self, task: str) -> Any:
        """What carries messages to `task`: its link, or the own worker. Raises KeyError for a task that is not here."""
        if task == self.me:
            return self._own
        return self._endpoint.link(task, [self.addresses[task]])

    def met(self, task: str) -> tuple[int, list[Device]] | None:
        """Incarnation and devices of a task that was contacted and not lost since."""
        return self._met.get(task)

    def inquire(self, tasks: Iterable[str], done: Callable[[], None]) -> None:
        """Call `done()` once it is known of those that were met whether they are still there; if not, they are lost."""
        if self._endpoint is None:
            done()
        else:
            inquire([self._endpoint.known(task) for task in tasks], done)

    def lost(self, task: str) -> None:
        """The process that was met as `task` is gone, or another has taken its place."""
        if task != self.me:
            self._met.pop(task, None)

    def contact(
        self,
        tasks: list[str],
        done: Callable[[BaseException | None], None],
        gone: Container[str] = (),
        afresh: bool = False,
    ) -> Container[str]:
        """Meet every one of `tasks`. `done(None)` when all are met, else `done(error)` that names the first missing.

        Tasks that are not up yet are waited for as long as the links' settings say; those in `gone` were up once, so
        they are given up as soon as nobody listens at their address. `afresh`: those that were met are asked as well.
        Returns the tasks that have not answered, now and at any later moment.
        """
        missing = [task for task in tasks if task not in self._met or (afresh and task != self.me)]
        if not missing:
            done(None)
            return ()
        return _Contact(self, missing, done, gone).waiting

    def check_cluster(self, cluster_def: dict[str, Any]) -> None:
        """A session may name the cluster that its master knows, and no other. UnimplementedError if it does.

        KeyError, AttributeError, TypeError or ValueError for what is no cluster.
        """
        for job in cluster_def.get("job", ()):
            for index, address in job.get("tasks", {}).items():
                task = names.task_name(job["name"], int(index))
                if self.addresses.get(task) != address:
                    known = self.addresses.get(task, "no such task")
                    raise errors.UnimplementedError(
                        None,
                        None,
                        f"ConfigProto.cluster_def says {task} at {address}, but the cluster of {self.me} has "
                        f"{known}: a session cannot bring a cluster of its own. Start the servers with that cluster.",
                    )

    def vanished(self, task: str) -> errors.UnavailableError:
        """The error of a task that was met and is lost again before it was used."""
        return errors.UnavailableError(
            None, None, f"{self.where(task)} was lost while a step was planned. Run the step again."
        )

    def missing(self, task: str) -> str:
        """A task that did not answer yet with its address, and why it cannot be reached if it cannot, for people."""
        link = self._endpoint.link(task, [self.addresses[task]])
        return self.where(task) if link.state == UP else f"{self.where(task)} ({link.reason()})"

    def where(self, task: str) -> str:
        """The task with its address, for people."""
        address = self.addresses.get(task)
        return f"{task} at {address}" if address else task


class _Contact:
    """One wait for several tasks to answer."""

    def __init__(
        self,
        peers: Peers,
        missing: list[str],
        done: Callable[[BaseException | None], None],
        gone: Container[str],
    ) -> None:
        self._peers = peers
        self._loop = peers._loop
        self.waiting = set(missing)
        self._done: Callable[[BaseException | None], None] | None = done
        self._calls: list[Any] = []
        self._gone = [task for task in missing if task in gone]
        self._timer = self._loop.call_later(_TELL_EVERY_S, self._tell)
        self._look_timer = self._loop.call_later(_LOOK_EVERY_S, self._look) if self._gone else None
        for task in missing:
            try:
                self._ask(task)
            except KeyError:
                self._end(
                    errors.InvalidArgumentError(
                        None, None, f"The cluster has no task {task}. Its tasks are: {', '.join(peers.tasks())}."
                    )
                )
                return

    def _ask(self, task: str) -> None:
        link = self._peers.peer(task)
        call = link.call(m.GetStatus(), lambda reply, error: self._answered(task, reply, error, link))
        self._calls.append(call)
        if task in self._gone:
            link.hurry()

    def _answered(self, task: str, reply: Any, error: BaseException | None, link: Any) -> None:
        if error is None:
            self._peers._met[task] = (reply.incarnation, [tuple(d) for d in reply.devices])
            self.waiting.discard(task)
            if not self.waiting:
                self._end(None)
        elif self._done is not None:
            if error is link.error and isinstance(error, errors.AbortedError):
                self._ask(task)  # the link was to a process that is no more; another one answers there
            else:
                self._end(self._named(task, error))

    def _named(self, task: str, error: BaseException) -> errors.OpError:
        known = errors.wrap(error)
        where = self._peers.where(task)
        if task in known.message and self._peers.addresses.get(task, "") in known.message:
            return known
        return errors.prefixed(known, f"{where} did not answer: ")

    def _look(self) -> None:
        for task in self._gone:
            link = self._peers.peer(task)
            if task in self.waiting and link.unattended:
                self._end(
                    errors.UnavailableError(
                        None,
                        None,
                        f"{self._peers.where(task)} is gone, and nobody listens there now ({link.reason()}).",
                    )
                )
                return
        self._look_timer = self._loop.call_later(_LOOK_EVERY_S, self._look)

    def _tell(self) -> None:
        silent = ", ".join(self._peers.missing(task) for task in sorted(self.waiting))
        _log.info("%s still waits for %s", self._peers.me, silent)
        self._timer = self._loop.call_later(_TELL_EVERY_S, self._tell)

    def _end(self, error: BaseException | None) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        self._timer.cancel()
        if self._look_timer is not None:
            self._look_timer.cancel()
        for call in self._calls:
            if call is not None:
                call.cancel()
        done(error)
