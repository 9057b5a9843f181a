"""Server: one task of a cluster in this process, master and worker behind one mailbox."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator

from dtfzmq.base import clock, errors, heap, names, signals, threads
from dtfzmq.base.completion import Completion
from dtfzmq.base.gate import Gate
from dtfzmq.base.loop import Loop
from dtfzmq.cluster import blas, hosts, resolvers
from dtfzmq.cluster.addresses import join_address, split_address
from dtfzmq.cluster.config import ConfigProto
from dtfzmq.cluster.spec import ClusterLike, ClusterSpec, ServerDef, as_server_def
from dtfzmq.cluster.task import Task
from dtfzmq.wire import addresses
from dtfzmq.wire.endpoint import Endpoint
from dtfzmq.wire.hello import Who
from dtfzmq.wire.net import Network, process_loop
from dtfzmq.wire.settings import LinkSettings

_log = logging.getLogger("dtfzmq")

# A thread that waits for the interpreter lock waits at least this long; Python's default of 5 ms is felt in every step.
SWITCH_INTERVAL_S = 0.0005
# A remote shutdown is answered before the server goes.
_FAREWELL_S = 0.05
# A signal that comes just before a wait does not end it, and is heard after so long.
_LISTEN_S = 0.5
# The end of a process waits for its servers no longer than this.
_EXIT_S = 2.0

_running: dict[str, Server] = {}
_running_lock = threading.Lock()


def _forget() -> None:
    """In a forked child: the servers are another process's now, and who held the lock is not here."""
    global _running_lock
    _running.clear()
    _running_lock = threading.Lock()


threads.on_fork_in_child(_forget)


def _leave_at_exit() -> None:
    """At the exit of the interpreter, whose threads have ended but for daemons: servers tell others, and answer them.

    Loops run all of it, and nothing here takes a baton or starts a thread: the process ends whatever they are at.
    """
    left = set(_running.values())
    for server in left:
        server.leave_quietly()
    until = clock.now() + _EXIT_S
    for server in left:
        server.gone.wait(max(0.0, until - clock.now()))


atexit.register(_leave_at_exit)


def running_at(address: str) -> Server | None:
    """The server of this process that a target's "host:port" means, None if there is none."""
    return _running.get(address)


class Server:
    """A task of a cluster: others run parts on it, and a session may have it as its master.

    `server_or_cluster_def` is a ServerDef, ClusterDef, ClusterSpec or dict; job and task may be left out where there
    is only one. The port is bound when the constructor returns, also with `start=False`; port 0 takes a free one, which
    `target` tells. A host of the cluster that is not of this machine is taken for a name that others know it by: every
    interface is bound then, with a warning. `bind_address` ("host" or "host:port") is bound instead of the cluster's
    address, and nothing else ever is; "0.0.0.0" and "::" are every interface. Errors: TypeError and ValueError for what
    is no cluster or configuration, OpError for a job, task, address or port that cannot be had.
    """

    def __init__(
        self,
        server_or_cluster_def: ServerDef | ClusterLike,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: ConfigProto | None = None,
        start: bool = True,
        *,
        bind_address: str | None = None,
        settings: LinkSettings | None = None,
    ) -> None:
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f"`config` of a Server must be a tf.ConfigProto, not {config!r}.")
        self._server_def = as_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        spec = ClusterSpec(self._server_def.cluster)
        job, index = self._server_def.job_name, self._server_def.task_index
        self._address = _own_address(spec, job, index)
        self._config = config or self._server_def.default_session_config or ConfigProto()
        self.task = names.task_name(job, index)
        #: Its end is done: others were told, and the port is free.
        self.gone = threading.Event()
        self._waiting: list[Completion] = []  # of those who stop it
        self._stopped = False
        self._gate = Gate()  # of those who join
        self._started = False
        self._ended = False
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_S))
        heap.keep_freed()
        blas.divide(self._config.intra_op_parallelism_threads, hosts.tasks_on_this_host(spec, self._address))
        others = {names.task_name(j, i): spec.task_address(j, i) for j in spec.jobs for i in spec.task_indices(j)}
        _check_others(others, self.task)
        try:
            with signals.deferred():
                self._open(spec, others, settings or resolvers.link_settings(), bind_address)
        except BaseException:
            if hasattr(self, "_names"):  # a handler of a signal raised: nobody will have it to stop it
                self.stop()
            raise
        if start:
            self.start()

    def _open(
        self, spec: ClusterSpec, others: dict[str, str], settings: LinkSettings, bind_address: str | None
    ) -> None:
        """Make the task and have its port."""
        self._loop = process_loop()
        self._loop.grace = 0.0  # messages of others wait for nobody here
        self._loop.add_ref()
        try:
            self._task = Task(self._loop, self.task, self._server_def.job_name, others, self._config)
            self._task.shutdown_granted = self._shutdown_asked
            me = Who(self.task, self._task.incarnation, os.getpid(), socket.gethostname())
            known = {j: spec.as_dict()[j] for j in spec.jobs if spec.dense(j)}
            with self._loop.held():
                transport = Network(self._loop, settings)
                self._endpoint = Endpoint(
                    self._loop,
                    transport,
                    me,
                    self._task,
                    settings,
                    known,  # type: ignore[arg-type]  # dense jobs are lists
                    addresses=others,
                )
                try:
                    self._host, self._port = self._bind(bind_address)
                except errors.OpError:
                    self._endpoint.close()
                    raise
                self._task.peers.addresses[self.task] = join_address(self._host, self._port)  # the port that 0 became
                self._task.connect(self._endpoint)
        except BaseException:
            self._loop.release()
            raise
        self._names = self._reachable_as()
        with _running_lock:
            for name in self._names:
                _running[name] = self

    # -- addresses -----------------------------------------------------------------------------------------------------

    def _bind(self, bind_address: str | None) -> tuple[str, int]:
        """Bind, and return the host and port to tell others: those of the cluster, but for a port that was 0."""
        host, port = split_address(self._address) or ("", 0)
        try:
            wanted = self._address if bind_address is None else _bind_address(bind_address, port)
            bound = addresses.parse(self._endpoint.bind(wanted, self._address, bind_address is not None))
        except errors.OpError as error:
            text = f"Could not start server for {self.task}: {error.message}"
            wrong = isinstance(error, errors.InvalidArgumentError)
            raise (errors.InvalidArgumentError if wrong else errors.UnknownError)(None, None, text) from None
        return host, port or bound.port

    def _reachable_as(self) -> list[str]:
        found = {join_address(self._host, self._port), self.target.partition("://")[2]}
        if addresses.is_loopback(self._host) or addresses.is_wide(self._host):
            found |= {f"localhost:{self._port}", f"127.0.0.1:{self._port}"}
        return sorted(found)

    @property
    def target(self) -> str:
        """What a Session is given to have this server as its master: "zmq://host:port".

        A cluster that has this task at every interface ("0.0.0.0") does not say where others find it: it is the name of
        this machine then, or "localhost" for one whose name nobody knows.
        """
        host = _own_name() if addresses.is_wide(self._host) else self._host
        return f"zmq://{join_address(host, self._port)}"

    @property
    def server_def(self) -> ServerDef:
        """What the server was made from, complete."""
        return self._server_def

    # -- for sessions of this process ----------------------------------------------------------------------------------

    @property
    def core(self) -> Task:
        """The task itself, for sessions of this process."""
        return self._task

    @property
    def loop(self) -> Loop:
        """The loop on which the task runs."""
        return self._loop

    @property
    def ended(self) -> bool:
        """Whether it was stopped."""
        return self._ended

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Serve. It does already, so calling it again changes nothing; FailedPreconditionError after `stop`."""
        if self._ended:
            raise errors.FailedPreconditionError(None, None, "Server has stopped.")
        self._started = True

    def join(self) -> None:
        """Block until the server is stopped: by `stop`, by a remote shutdown, or by SIGTERM (in the main thread).

        KeyboardInterrupt gets out at once and leaves the server running.
        """
        with self._ending_on_sigterm():
            while not self._stopped:
                self._gate.wait(_LISTEN_S)
            self._gate.open()  # for the next of those who join
            self.stop()

    def leave(self) -> None:
        """Have `join` stop the server and return, now or when it is called. Any thread; safe in a signal handler."""
        self._stopped = True
        self._gate.open()

    @contextlib.contextmanager
    def _ending_on_sigterm(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGTERM)
        try:
            signal.signal(signal.SIGTERM, lambda number, frame: self.leave())
            yield
        finally:
            signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)

    def _shutdown_asked(self) -> None:
        """A remote shutdown was granted; on the baton, its reply is on its way."""
        self._loop.call_later(_FAREWELL_S, self._stop_elsewhere)

    def _stop_elsewhere(self) -> None:
        threads.start(self.stop, "dtfzmq-stop")

    def stop(self) -> None:
        """End it: steps and sessions fail with UnavailableError, the port is free when this returns. Idempotent.

        Steps that compute, and wait for nothing, have up to 1 s to end well. In a forked child the parent's server
        stays as it is.
        """
        if self._loop.inherited or self.gone.is_set():
            return
        first, told = False, Completion()
        try:
            with self._loop.held():
                first = not self._ended
                self._waiting.append(told)
                self._end()
                if self.gone.is_set():
                    told.set(None)
            if not self._loop.held_here():
                self._loop.wait(told)  # what answers those who wait runs on the loop, which may end below
        finally:
            if first:
                with signals.deferred():
                    with self._loop.held():
                        self._close()
                    self._task.close()
                    self._loop.release()

    def leave_quietly(self) -> None:
        """As `stop`, but without waiting, and daemon threads hear nothing: `gone` tells when it is done.

        For the end of the process: those that are amid a run would report its failure.
        """
        self._loop.hold_daemons()
        self._loop.call_soon(self._end, True)

    def _end(self, quietly: bool = False) -> None:
        """Begin its end, unless somebody has. On the baton."""
        if not self._ended:
            self._ended = True
            self._task.stop(lambda: self._close(quietly), quietly)

    def _close(self, quietly: bool = False) -> None:
        """The last of its end; more than once is no harm. On the baton."""
        with _running_lock:
            for name in self._names:
                if _running.get(name) is self:
                    del _running[name]
        self._endpoint.close(f"{self.task} {'ended' if quietly else 'was stopped'}", quietly)
        self.gone.set()
        self.leave()
        for told in self._waiting:
            told.set(None)

    def __del__(self) -> None:
        if getattr(self, "_ended", True) or not hasattr(self, "_names"):
            return
        _log.debug("%s was dropped without stop()", self.task)

    @staticmethod
    def create_local_server(config: ConfigProto | None = None, start: bool = True) -> Server:
        """A server that is a cluster of its own, on a free port of loopback."""
        return Server({"local": ["localhost:0"]}, protocol="zmq", config=config, start=start)


def _own_address(spec: ClusterSpec, job: str, index: int) -> str:
    if job not in spec.jobs:
        raise errors.InternalError(
            None, None, f'Job "{job}" was not defined in cluster. Its jobs are: {", ".join(spec.jobs)}.'
        )
    if index not in spec.task_indices(job):
        raise errors.InvalidArgumentError(
            None,
            None,
            f'Task {index} was not defined in job "{job}". Its tasks are: '
            f"{', '.join(str(i) for i in spec.task_indices(job)) or 'none'}.",
        )
    address = spec.task_address(job, index)
    if split_address(address) is None:
        raise errors.InvalidArgumentError(
            None, None, f'Could not parse port for local server from "{address}". Write it as host:port.'
        )
    return address


def _check_others(others: dict[str, str], own: str) -> None:
    for task, address in others.items():
        pair = split_address(address)
        if pair is None:
            raise errors.InvalidArgumentError(
                None, None, f'Could not interpret "{address}" of {task} as a host-port pair. Write it as host:2222.'
            )
        if task != own and pair[1] == 0:
            raise ValueError(
                f"{task} has the address {address}: only the task itself can learn what port 0 became. "
                "Give its real port."
            )


def _bind_address(text: str, port: int) -> str:
    """ "host:port" of a bind address, which may leave the port out, and the brackets then."""
    if split_address(text) is not None:
        return text
    host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    wanted = join_address(host, port)
    if not host or split_address(wanted) is None:
        raise errors.InvalidArgumentError(
            None, None, f"'{text}' cannot be bound: it is not a host or host:port. Give an address of this machine."
        )
    return wanted


@functools.cache
def _own_name() -> str:
    name = socket.gethostname()
    try:
        addresses.look_up(name)
    except OSError:
        return "localhost"
    return name


__all__ = ["Server", "running_at"]
