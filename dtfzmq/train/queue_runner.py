"""`QueueRunner`: threads that run enqueue ops over and over, until the queue is closed or a coordinator stops them."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.base import errors, threads
from dtfzmq.client.base_session import BaseSession
from dtfzmq.client.stack import get_default_session
from dtfzmq.client.standing import StandingRun, forget
from dtfzmq.graph.graph import Operation
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import add_to_collection, get_collection
from dtfzmq.train.coordinator import Coordinator
from dtfzmq.train.session_manager import PREEMPTED

_log = logging.getLogger("dtfzmq")


class QueueRunner:
    """Feeds `queue` by running each of `enqueue_ops` on a thread of its own.

    When an op ends with one of `queue_closed_exception_types` (default: OutOfRangeError) its thread ends, and the last
    one closes the queue. When the coordinator stops, pending enqueues are cancelled, but not those of a queue with a
    shared name for a lost task; where it is joined, runs that go on are, see `Coordinator.join`. Other errors go to the
    coordinator, or to `exceptions_raised` without one.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Operation | None = None,
        cancel_op: Operation | None = None,
        queue_closed_exception_types: tuple[type[BaseException], ...] | None = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if queue_runner_def is not None or import_scope is not None:
            raise ValueError("queue_runner_def and import_scope are not supported: make the runner from its queue.")
        if queue is None or not enqueue_ops:
            raise ValueError("Must provide queue and enqueue_ops.")
        kinds = (errors.OutOfRangeError,) if queue_closed_exception_types is None else queue_closed_exception_types
        if not isinstance(kinds, tuple) or not kinds or not all(issubclass(k, BaseException) for k in kinds):
            raise TypeError(
                f"queue_closed_exception_types, when provided, must be a tuple of error types, not {kinds!r}."
            )
        self._queue = queue
        self._enqueue_ops = list(enqueue_ops)
        self._close_op = queue.close() if close_op is None else close_op
        self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        self._queue_closed_exception_types = kinds
        self._lock = threading.Lock()
        self._runs_per_session: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[BaseException] = []

    @property
    def queue(self) -> Any:
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        return self._enqueue_ops

    @property
    def close_op(self) -> Operation:
        return self._close_op

    @property
    def cancel_op(self) -> Operation:
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[BaseException], ...]:
        return self._queue_closed_exception_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Errors of threads that have no coordinator."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """Name of the queue's op."""
        name: str = self._queue.name
        return name

    def _run(self, sess: Any, enqueue_op: Any, coord: Coordinator | None) -> None:
        closed = False
        run: StandingRun | None = None
        try:
            step: Callable[[], Any]
            if coord is not None and isinstance(sess, BaseSession):
                step = run = StandingRun(sess, enqueue_op)
                coord.cancel_at_join(run)
            else:  # nobody cancels, or a program's own kind of session
                step = sess.make_callable(enqueue_op)
            while coord is None or not coord.should_stop():
                try:
                    step()
                except self._queue_closed_exception_types:
                    closed = True
                    self._ended(sess, coord, close=True)
                    return
        except Exception as error:
            if coord is not None:
                stops = coord.should_stop()
                if isinstance(error, errors.CancelledError) and stops:
                    _log.debug("A queue runner ends as its coordinator stops: %s", error)
                else:
                    coord.request_stop(error)
                    if run is not None and isinstance(error, PREEMPTED) and not stops:
                        run.tell(error, coord)
                return
            _log.error("Exception in QueueRunner: %s", error)
            with self._lock:
                self._exceptions_raised.append(error)
        finally:
            if not closed:
                self._ended(sess, coord, close=False)

    def _ended(self, sess: Any, coord: Coordinator | None, close: bool) -> None:
        with self._lock:
            self._runs_per_session[sess] -= 1
            last = self._runs_per_session[sess] == 0
        if close and last:
            self._quietly(sess, self._close_op, coord)

    def _quietly(self, sess: Any, op: Operation, coord: Coordinator | None) -> None:
        try:
            if isinstance(sess, BaseSession):
                run = StandingRun(sess, op)  # what was lost is for the program to hear
                if coord is not None:
                    coord.cancel_at_join(run)
                run()
            else:
                sess.run(op)
        except Exception as error:  # the queue may be closed, or the session: the runner is ending anyway
            _log.debug("Ignored exception: %s", error)

    def _close_on_stop(self, sess: Any, coord: Coordinator) -> None:
        coord.wait_for_stop()
        try:
            coord.raise_requested_exception()
        except PREEMPTED:
            if self._queue.queue_ref.op.get_attr("shared_name"):
                return  # it outlives the session that lost a task, and may be what the next one goes on with
        except Exception as error:
            _log.debug("A queue is closed, since its coordinator stops: %s", error)
        self._quietly(sess, self._cancel_op, coord)

    def create_threads(
        self, sess: Any, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Threads that run the ops in `sess`, one more to cancel at the coordinator's stop; started if `start`.

        They are registered with `coord`. Empty if earlier threads for this session still run.
        """
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        if isinstance(sess, BaseSession):
            forget(sess, coord)
        made = [
            threads.make(self._run, f"QueueRunnerThread-{self.name}-{op.name}", sess, op, coord)
            for op in self._enqueue_ops
        ]
        if coord is not None:
            made.append(threads.make(self._close_on_stop, f"QueueRunnerThread-{self.name}-close_on_stop", sess, coord))
        for thread in made:
            if coord is not None:
                coord.register_thread(thread)
            thread.daemon = daemon
            if start:
                thread.start()
        return made


def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Add a runner to a collection of the default graph, for `start_queue_runners`."""
    add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Threads of all queue runners of the session's graph. Raises ValueError without a session."""
    session = get_default_session() if sess is None else sess
    if session is None:
        raise ValueError(
            "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass an "
            "explicit session to tf.train.start_queue_runners(sess=sess)"
        )
    with session.graph.as_default():
        runners = get_collection(collection)
    made: list[threading.Thread] = []
    for runner in runners:
        made.extend(runner.create_threads(session, coord=coord, daemon=daemon, start=start))
    return made
