"""Session: runs parts of a graph on a master, in this process or behind a target."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import clock, errors, signals
from dtfzmq.base.names import article
from dtfzmq.client import call as calls
from dtfzmq.client import metadata as metadata_records
from dtfzmq.client import stack
from dtfzmq.client.config import ConfigProto, RunOptions
from dtfzmq.client.connect import connect
from dtfzmq.client.connection import Answer, Connection
from dtfzmq.client.devices import DeviceAttributes
from dtfzmq.client.feeds import FeedSlot, fed_tensors, flatten
from dtfzmq.client.fetches import Fetches
from dtfzmq.client.metadata import RunMetadata
from dtfzmq.client.runs import Runs
from dtfzmq.cluster.plans import SIGNATURES
from dtfzmq.cluster.session_state import is_unknown_call
from dtfzmq.cluster.step import ACCOUNT_WITHIN_S
from dtfzmq.graph import serial
from dtfzmq.graph.graph import Graph, get_default_graph
from dtfzmq.runtime.values import release
from dtfzmq.wire import messages as m
from dtfzmq.wire.link import CHECK

_log = logging.getLogger("dtfzmq")

# Closing waits this long for a master that does not answer.
_CLOSE_S = 2.0
_CLOSED = "Step was cancelled by an explicit call to `Session::Close()`."
# What a run meets when its session is closed while it is on its way.
_ENDED = (errors.AbortedError, errors.CancelledError, errors.UnavailableError)


def _patience(limit: float) -> float | None:
    """How long a master is waited for that was told a limit in seconds; 0 and None are no limit."""
    return limit + ACCOUNT_WITHIN_S if limit else None


class BaseSession:
    """What Session and InteractiveSession share. Any number of threads may call `run` at the same time."""

    def __init__(
        self, target: str | bytes | None = "", graph: Graph | None = None, config: ConfigProto | None = None
    ) -> None:
        self._closed = True  # until it is whole: __del__ may meet a half-made one
        if graph is None:
            graph = get_default_graph()
        elif not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        if isinstance(target, bytes):
            target = target.decode("utf-8")
        if not isinstance(target, str) and target is not None:
            raise TypeError(f"target must be a string, but got {type(target)}")
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f"config must be a tf.ConfigProto, but got {type(config)}")
        self._graph = graph
        self._target = target or ""
        self._config = ConfigProto()
        if config is not None:
            self._config.CopyFrom(config)
        self._timeout = max(0.0, self._config.operation_timeout_in_ms / 1000.0)
        self._calls = calls.Recent(self._config.max_signatures if self._config.max_signatures > 0 else SIGNATURES)
        self._handle = ""
        self._sent = 0  # operations that the master has
        self._version = 0
        self._graph_lock = threading.Lock()
        with signals.deferred():  # a connection that was made is given back
            self._connection: Connection = connect(self._target, self._config)
            self._loop = self._connection.loop
            self._runs = Runs(self._loop, self._connection)
            self._closed = False

    # -- running -------------------------------------------------------------------------------------------------------

    def run(
        self,
        fetches: Any,
        feed_dict: Any = None,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Run what `fetches` needs and return its values in the same structure.

        Values are numpy scalars, bytes or writeable arrays that belong to the caller; an Operation gives None. What is
        fed may be overwritten once this returns or raises. Errors are TF1's: RuntimeError for a closed session or an
        empty graph, TypeError and ValueError for fetches and feeds, OpError for what went wrong in the step.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        key: Any = None
        call: calls.Call | None = None
        try:
            key = (calls.structure(fetches), tuple(feed_dict) if feed_dict else None)
            call = self._calls.get(key)
        except TypeError:
            key = None  # not hashable: worked out anew, which tells what is wrong with it
        values: list[np.ndarray] | None = None
        if call is None:
            pass
        elif not feed_dict:
            values = []
        elif call.plain:
            values = [slot.convert(value) for slot, value in zip(call.slots, feed_dict.values())]
        else:
            values = calls.values_of(self._graph, call, feed_dict)
        if call is None or values is None:
            call, given = self._prepare(key, fetches, feed_dict)
            values = [slot.convert(value) for slot, value in zip(call.slots, given)]
        return self._run_call(call, values, options, run_metadata)

    def _prepare(self, key: Any, fetches: Any, feed_dict: Any) -> tuple[calls.Call, list[Any]]:
        if self._graph.version == 0:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
        call, given = calls.prepare(self._graph, fetches, feed_dict)
        if key is not None:
            self._calls.put(key, call)
        return call, given

    def _run_call(
        self, call: calls.Call, values: list[np.ndarray], options: RunOptions | None, run_metadata: RunMetadata | None
    ) -> Any:
        timeout, trace = self._timeout, 0
        if options is not None or run_metadata is not None:
            timeout, trace = self._asked(options, run_metadata)
        if call.empty:
            fetched: list[Any] = []
        else:
            done = self._step(call, values, timeout, trace)
            fetched = done.fetches
            if run_metadata is not None:
                metadata_records.fill(run_metadata, done.metadata or {})
            if self._connection.local:
                release(fetched)
            for i, value in enumerate(fetched):
                if type(value) is np.ndarray and (value.ndim == 0 or not value.flags.writeable):
                    fetched[i] = calls.owned(value)
        if call.scalar and not call.local:
            return fetched[0]
        if call.local:
            fetched = call.results(fetched, [value.copy() for value in values])
        elif call.fetch_order is not None:
            fetched = call.results(fetched, values)
        return call.build(fetched)

    def _asked(self, options: RunOptions | None, run_metadata: RunMetadata | None) -> tuple[float, int]:
        """(time limit in seconds, how much is to be traced) of options for one run."""
        if options is not None and not isinstance(options, RunOptions):
            raise TypeError(f"options must be a RunOptions, but got {type(options)}")
        if run_metadata is not None and not isinstance(run_metadata, RunMetadata):
            raise TypeError(f"run_metadata must be a RunMetadata, but got {type(run_metadata)}")
        timeout, trace = self._timeout, 0
        if options is not None:
            if options.timeout_in_ms > 0:
                timeout = options.timeout_in_ms / 1000.0
            if run_metadata is not None:
                trace = (1 if options.trace_level > 0 else 0) | (2 if options.output_partition_graphs else 0)
        return timeout, trace

    def _step(self, call: calls.Call, values: list[np.ndarray], timeout: float, trace: int) -> m.StepDone:
        deadline = clock.now() + timeout if timeout else 0.0
        if self._sent != self._graph.version:
            self._send_graph(timeout)
        loop = self._loop
        while True:
            run, answer = self._runs.begin(self._handle, call.watch)
            left = max(0.001, deadline - clock.now()) if deadline else 0.0
            message = m.RunStep(
                self._handle, call.number, run, call.feeds(values), None if call.known else call.signature, left, trace
            )
            try:
                done: m.StepDone = loop.call(answer, _patience(left), self._runs.ask, message, answer)
            except errors.OpError as error:
                if not answer.done:
                    self._runs.end(run)
                    raise self._late(timeout) from None
                if self._closed and isinstance(error, _ENDED):
                    raise errors.CancelledError(None, None, _CLOSED) from None
                if message.signature is not None or not is_unknown_call(error, message.handle, call.number):
                    raise self._explained(error) from None
                call.known = False
            except BaseException:
                self._runs.end(run)
                raise
            else:
                call.known = True
                return done
            finally:
                self._runs.over(run)

    def _late(self, timeout: float) -> errors.OpError:
        return self._unanswered("a run", timeout, "; the step was cancelled")

    def _unanswered(self, request: str, timeout: float, more: str = "") -> errors.OpError:
        """What is said of a master from which nothing came in time."""
        where = self._target or "the session's own master"
        with self._loop.held():
            trouble = self._connection.trouble()
        if trouble:
            text = f"{where} could not be reached within {timeout:g} s ({trouble}){more}. {CHECK}"
        else:
            text = f"{where} did not answer {request} within {timeout:g} s{more}."
        return errors.DeadlineExceededError(None, None, f"Deadline Exceeded: {text}")

    def _explained(self, error: errors.OpError) -> errors.OpError:
        """The error with the op of this graph that failed, if it names one."""
        if error.op is None and error.node:
            op = self._graph._by_name.get(error.node)
            if op is not None:
                error.op = op
                error.node_def = op.node_def
        return error

    def _ask(self, message: Any, timeout: float | None, late: Callable[[Any], None] | None = None) -> Any:
        """Send a request and wait for its reply. Raises what the master says, DeadlineExceeded after `timeout` s.

        `late` gets, on the baton, a reply that comes when nobody waits for it any more. CancelledError if the session
        is closed meanwhile.
        """
        try:
            return self._answered(message, timeout, late)
        except _ENDED:
            if self._closed:
                raise errors.CancelledError(None, None, _CLOSED) from None
            raise

    def _answered(self, message: Any, timeout: float | None, late: Callable[[Any], None] | None) -> Any:
        answer = Answer()
        asked = False
        try:
            with self._loop.held():
                self._connection.ask(message, answer)
                asked = True
            return self._loop.wait(answer, timeout)
        except BaseException as error:
            if not asked:
                raise
            if answer.done:
                if late is not None and not isinstance(error, errors.OpError):
                    with self._loop.held():
                        late(answer.result())
                raise
            with self._loop.held():
                self._connection.drop(answer, late)
            if not isinstance(error, errors.DeadlineExceededError):
                raise
            raise self._unanswered(article(type(message).__name__), timeout or 0.0) from None

    def _send_graph(self, timeout: float) -> None:
        """Bring the master's graph up to this session's; makes the session there the first time."""
        self._loop.check_process()  # a fork may have come while a thread of the parent held the lock
        with self._graph_lock:
            graph = self._graph
            version = graph.version
            limit = timeout or None
            if self._handle and self._sent == version:
                return
            nodes = serial.graph_nodes(graph, self._sent)
            plain, arrays = (nodes, []) if self._connection.local else serial.nodes_to_wire(nodes)
            if not self._handle:
                if self._closed:
                    raise errors.CancelledError(None, None, _CLOSED)
                created = self._ask(m.CreateSession(plain, arrays, self._config.to_plain()), limit, self._unwanted)
                self._handle, self._version = created.handle, created.version
                if self._closed:
                    # `close` came meanwhile and knew no handle: the session that it could not end ends here
                    self._handle = ""
                    with self._loop.held():
                        self._unwanted(created)
                    raise errors.CancelledError(None, None, _CLOSED)
            else:
                self._version = self._ask(m.ExtendSession(self._handle, self._version, plain, arrays), limit).version
            self._sent += len(nodes)

    def _unwanted(self, created: m.SessionCreated) -> None:
        """The master made a session that nobody waits for any more. On the baton."""
        self._connection.tell(m.CloseSession(created.handle))

    # -- other ways to run ---------------------------------------------------------------------------------------------

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A function that runs `fetches` with its positional arguments as the values of `feed_list`.

        With `accept_options` it takes `options` and `run_metadata` too.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("`feed_list` must be a list or tuple.")
        keys = list(feed_list or ())
        tensors = [tensor for key in keys for tensor in fed_tensors(self._graph, key)]
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        plain = len(tensors) == len(keys) and not any(isinstance(key, (tuple, list)) for key in keys)
        call = calls.Call(Fetches(self._graph, fetches), tensors, plain)

        def generic(*args: Any, options: RunOptions | None = None, run_metadata: RunMetadata | None = None) -> Any:
            if len(args) != len(keys):
                raise TypeError(
                    f"This callable takes {len(keys)} values, one for each of its feed_list, not {len(args)}."
                )
            if self._closed:
                raise RuntimeError("Attempted to use a closed Session.")
            given = args if plain else [v for k, a in zip(keys, args) for v in calls.parts(self._graph, k, a)]
            values = [slot.convert(value) for slot, value in zip(call.slots, given)]
            return self._run_call(call, values, options, run_metadata)

        return generic if accept_options else lambda *args: generic(*args)

    def partial_run_setup(self, fetches: Any, feeds: Sequence[Any] | None = None) -> str:
        """Reserve a step that `partial_run` feeds and fetches bit by bit; its handle."""
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if self._graph.version == 0:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
        compiled = Fetches(self._graph, fetches)
        tensors = [tensor for key in feeds or () for tensor in fed_tensors(self._graph, key)]
        self._send_graph(self._timeout)
        ready: m.PartialRunReady = self._explain(
            m.PartialRunSetup(
                self._handle,
                tuple(t.name for t in tensors),
                tuple(t.name for t in compiled.tensors),
                tuple(op.name for op in compiled.targets),
                self._timeout,
            )
        )
        return ready.partial

    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Feed and fetch a part of a step that `partial_run_setup` reserved."""
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        compiled = Fetches(self._graph, fetches)
        if compiled.targets:
            raise RuntimeError("partial_run() requires empty target_list.")
        pairs = list(flatten(self._graph, feed_dict)) if feed_dict else []
        values = [FeedSlot(tensor).convert(value) for tensor, value in pairs]
        done = self._explain(
            m.PartialRunStep(
                self._handle,
                handle,
                tuple(t.name for t, _ in pairs),
                values,
                tuple(t.name for t in compiled.tensors),
                self._timeout,
            )
        )
        fetched = release(done.fetches) if self._connection.local else done.fetches
        return compiled.build([calls.owned(value) for value in fetched])

    def _explain(self, message: Any) -> Any:
        try:
            return self._ask(message, _patience(self._timeout))
        except errors.OpError as error:
            raise self._explained(error) from None

    # -- about the cluster ---------------------------------------------------------------------------------------------

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices of this session, the master's own first. UnavailableError names tasks that are not up."""
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if not self._handle:
            self._send_graph(self._timeout)
        devices = self._ask(m.ListDevices(self._handle, self._timeout), _patience(self._timeout)).devices
        return [DeviceAttributes(*device) for device in devices]

    @staticmethod
    def reset(target: str, containers: Sequence[str] | None = None, config: ConfigProto | None = None) -> None:
        """End all sessions of the target's master and clear `containers` (none: the default ones) on every task."""
        if target is not None and not isinstance(target, (str, bytes)):
            raise TypeError(f"target must be a string, but got {type(target)}")
        if containers is not None and (
            isinstance(containers, (str, bytes)) or not all(isinstance(c, (str, bytes)) for c in containers)
        ):
            raise TypeError("containers must be a list of container names.")
        session = BaseSession(target, Graph(), config)
        try:
            names = tuple(c.decode() if isinstance(c, bytes) else c for c in containers or ())
            session._ask(m.Reset(names, session._timeout), _patience(session._timeout))
        finally:
            session.close()

    @property
    def graph(self) -> Graph:
        """The graph that this session runs."""
        return self._graph

    @property
    def graph_def(self) -> list[Any]:
        """The nodes of the graph, as plain records."""
        return [op.node_def for op in self._graph.get_operations()]

    @property
    def sess_str(self) -> str:
        """The target."""
        return self._target

    # -- ends ----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the session: its running steps fail with CancelledError. A second close does nothing.

        AbortedError if the master does not know the session any more; a master that is gone is not waited for. In a
        forked child the parent's session stays open.
        """
        if self._closed:
            return
        if self._loop.inherited:
            self._closed = True
            return
        handle, answer = "", Answer()
        try:
            with signals.deferred():
                self._closed = True
                handle, self._handle = self._handle, ""
                self._calls.clear()
                if handle:
                    with self._loop.held():
                        self._connection.ask(m.CloseSession(handle), answer)
            if handle:
                self._loop.wait(answer, _CLOSE_S)
        except (errors.UnavailableError, errors.DeadlineExceededError):
            _log.info("session %s was closed without an answer from %s", handle, self._target or "its master")
        finally:
            if self._closed:  # else a handler of a signal struck first
                self._connection.close()

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._loop.inherited:
            return
        self._closed = True
        # The collector may run anywhere, also on the baton: nothing is waited for here.
        try:
            stack.abandon(self._loop, self._connection, m.CloseSession(self._handle) if self._handle else None)
        except Exception:
            _log.debug("a session that was dropped could not be closed", exc_info=True)

    @contextlib.contextmanager
    def as_default(self) -> Iterator[BaseSession]:
        """Make this the default session of the thread inside the block; it stays open afterwards."""
        with stack.default(self):
            yield self
