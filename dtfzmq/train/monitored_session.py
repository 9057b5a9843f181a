"""`MonitoredSession`: a session that is made ready, runs hooks, and is made anew when a task was lost.

`MonitoredTrainingSession` is the usual way to one. A run that meets AbortedError or UnavailableError closes the
session, makes another one as the first was made (a chief restores the latest checkpoint, others wait for the chief),
and runs again.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.base import clock, errors
from dtfzmq.client.config import RunOptions
from dtfzmq.client.metadata import RunMetadata
from dtfzmq.client.session import Session
from dtfzmq.graph.graph import Graph, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import get_collection
from dtfzmq.train.coordinator import Coordinator
from dtfzmq.train.hooks.saving import CheckpointSaverHook, SummarySaverHook
from dtfzmq.train.hooks.telling import StepCounterHook
from dtfzmq.train.queue_runner import start_queue_runners
from dtfzmq.train.scaffold import Scaffold
from dtfzmq.train.session_creators import ChiefSessionCreator, SessionCreator, WorkerSessionCreator
from dtfzmq.train.session_manager import PREEMPTED
from dtfzmq.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfzmq.wire import seldom

_log = logging.getLogger("dtfzmq")

# Between attempts to make a session while a task is gone.
_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 2.0
_STOPS = (errors.OutOfRangeError, StopIteration)

#: Says that an argument was left out, where None means something.
USE_DEFAULT = object()


# -- one session with its hooks ----------------------------------------------------------------------------------------


class _Hooked:
    """A session, its coordinator, and hooks around each run."""

    def __init__(self, creator: SessionCreator, hooks: Sequence[SessionRunHook], stop_grace_period_secs: float) -> None:
        self.session = creator.create_session()
        self.coord = Coordinator(clean_stop_exception_types=[])
        self._hooks = hooks
        self._grace = stop_grace_period_secs
        self._stop = False
        try:
            if get_collection(GraphKeys.QUEUE_RUNNERS):
                start_queue_runners(sess=self.session, coord=self.coord)
            for hook in hooks:
                hook.after_create_session(self.session, self.coord)
        except BaseException as error:
            self.close(lost=isinstance(error, PREEMPTED))
            raise

    @property
    def _sess(self) -> Session:
        """For programs that look for the session underneath, level by level."""
        return self.session

    def should_stop(self) -> bool:
        """Whether a hook or a thread wants the loop to end. Raises what a thread met."""
        self.coord.raise_requested_exception()
        return self._stop or self.coord.should_stop()

    def run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        """One run with what the hooks add. The error of a thread of the coordinator goes before that of the run."""
        try:
            return self._run(fetches, feed_dict, options, run_metadata)
        except PREEMPTED:
            raise
        except Exception:
            self.coord.raise_requested_exception()
            raise

    def _run(self, fetches: Any, feed_dict: Any, options: RunOptions | None, run_metadata: Any) -> Any:
        if self._stop or self.coord.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        if not self._hooks:
            return self.session.run(fetches, feed_dict, options, run_metadata)
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self.session)
        wanted: dict[Any, Any] = {"caller": fetches}
        feeds = dict(feed_dict) if feed_dict else {}
        for hook in self._hooks:
            args = hook.before_run(context)
            if args is None:
                continue
            if args.fetches is not None:
                wanted[hook] = args.fetches
            for key, value in (args.feed_dict or {}).items():
                if key in feeds:
                    who = "a SessionRunHook and user" if feed_dict and key in feed_dict else "two hooks"
                    raise RuntimeError(f"Same tensor is fed by {who}. Tensor: {key}")
                feeds[key] = value
            if args.options is not None:
                options = _merged(options, args.options)
        if options is not None and run_metadata is None:
            run_metadata = RunMetadata()
        outputs = self.session.run(wanted, feeds, options, run_metadata)
        for hook in self._hooks:
            hook.after_run(context, SessionRunValues(outputs.get(hook), options, run_metadata))
        self._stop = self._stop or context.stop_requested
        return outputs["caller"]

    def close(self, lost: bool = False) -> None:
        """Stop the coordinator's threads and close the session. Raises what a thread met.

        `lost`: a task of it was, so that nothing that threads still run in it is of use.
        """
        self.coord.request_stop()
        if lost:
            self.coord.cancel_runs()
        try:
            self.coord.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
        finally:
            try:
                self.session.close()
            except errors.OpError as error:
                _log.info("a session was closed with an error: %s", error)


def _merged(options: RunOptions | None, more: RunOptions) -> RunOptions:
    """What both ask for: the higher trace level, the longer limit, the graphs if either wants them."""
    if options is None:
        return more
    return RunOptions(
        trace_level=max(options.trace_level, more.trace_level),
        timeout_in_ms=max(options.timeout_in_ms, more.timeout_in_ms),
        output_partition_graphs=options.output_partition_graphs or more.output_partition_graphs,
    )


# -- what programs use -------------------------------------------------------------------------------------------------


class StepContext:
    """What the function of `run_step_fn` gets: the session, for runs without hooks, and runs with them."""

    def __init__(self, session: Session, run_with_hooks: Callable[..., Any]) -> None:
        self._session = session
        self._run_with_hooks = run_with_hooks

    @property
    def session(self) -> Session:
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """As `MonitoredSession.run`. It is the only run that is done again after a task was lost."""
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self) -> None:
        """End the loop: the function is left at once."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class _Monitored:
    """What MonitoredSession and SingularMonitoredSession share. One thread runs and closes it."""

    StepContext = StepContext

    def __init__(
        self,
        session_creator: SessionCreator | None,
        hooks: Sequence[SessionRunHook] | None,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._graph = get_default_graph()
        self._graph_was_finalized = self._graph.finalized
        self._hooks = list(hooks or ())
        for hook in self._hooks:
            hook.begin()
        self._creator = session_creator or ChiefSessionCreator()
        self._should_recover = should_recover
        self._grace = stop_grace_period_secs
        self._sess: _Hooked | None = None
        self._sess = self._created()

    def _created(self) -> _Hooked:
        """A session with the hooks told; made again, if it may be, until no task is lost meanwhile."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                return _Hooked(self._creator, self._hooks, self._grace)
            except PREEMPTED as error:
                if not self._should_recover:
                    raise
                seldom.warn(("no session", id(self)), f"No session can be made, which is tried again: {error}")
            clock.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)

    @property
    def graph(self) -> Graph:
        """The graph that was launched."""
        self._open()
        return self._graph

    @property
    def session(self) -> Session | None:
        """The session of now; None once this is closed."""
        return None if self._sess is None else self._sess.session

    def run(
        self, fetches: Any, feed_dict: Any = None, options: RunOptions | None = None, run_metadata: Any = None
    ) -> Any:
        """As Session.run, with the hooks; after a lost task in a session made anew.

        RuntimeError if this is closed or a stop was asked for.
        """
        while True:
            sess = self._open()
            try:
                return sess.run(fetches, feed_dict, options, run_metadata)
            except PREEMPTED as error:
                if not self._should_recover:
                    raise
                self._renew(sess, error)

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Call `step_fn(step_context)`, or `step_fn(self, step_context)`; again, from its start, after a lost task.

        Its value; None if it asked for a stop.
        """
        names = list(inspect.signature(step_fn).parameters)
        if names not in (["step_context"], ["self", "step_context"]):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments if it "
                f"is an instance method. Got {names} instead."
            )
        while True:
            sess = self._open()

            def with_hooks(
                fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None, sess: Any = sess
            ) -> Any:
                return sess.run(fetches, feed_dict, options, run_metadata)

            try:
                return step_fn(StepContext(sess.session, with_hooks))
            except StopIteration:
                sess._stop = True
                return None
            except PREEMPTED as error:
                if not self._should_recover:
                    raise
                self._renew(sess, error)

    def should_stop(self) -> bool:
        """Whether the loop is to end: a hook or a thread asked for it, or met an error, or this is closed.

        A session of which a thread, as a queue runner's, met a lost task is made anew: it is no reason to stop.
        """
        sess = self._sess
        if sess is None:
            return True
        try:
            return sess.should_stop()
        except PREEMPTED as error:
            if not self._should_recover:
                raise
            self._renew(sess, error)
            return False
        except Exception:  # `close` raises it
            return True

    def close(self) -> None:
        """Tell the hooks, and close the session."""
        self._close(None)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if kind is not None and issubclass(kind, _STOPS):
            kind = None
        self._close(kind)
        # __exit__ should return True to suppress an exception.
        return kind is None

    def _open(self) -> _Hooked:
        if self._sess is None:
            raise RuntimeError("This session is closed.")
        return self._sess

    def _renew(self, sess: _Hooked, lost: errors.OpError) -> None:
        _log.info("The session is closed and made anew, since a task was lost: %s", lost)
        try:
            sess.close(lost=True)
        except PREEMPTED as error:
            _log.info("an error met while the lost session was closed: %s", error)
        self._sess = self._created()

    def _close(self, kind: Any) -> None:
        sess = self._sess
        try:
            if kind is None:
                if sess is None:
                    raise RuntimeError("Session is already closed.")
                for hook in self._hooks:
                    hook.end(sess.session)
        finally:
            self._sess = None
            try:
                if sess is not None:
                    sess.close()
            finally:
                if not self._graph_was_finalized:
                    self._graph._unsafe_unfinalize()

    def _is_closed(self) -> bool:
        return self._sess is None

    def _tf_sess(self) -> Session | None:
        return self.session


class MonitoredSession(_Monitored):
    """A session that runs hooks and outlives lost tasks. `session_creator` None: a ChiefSessionCreator.

    Use it as a block: OutOfRangeError and StopIteration end it quietly, any other error without the hooks' `end`.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


class SingularMonitoredSession(_Monitored):
    """As MonitoredSession, with errors of lost tasks raised."""

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Session | None:
        """The session underneath."""
        return self.session


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Any = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: Any = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """A MonitoredSession for training: a chief's, which initialises or restores and saves, or a worker's, which waits.

    A chief with a `checkpoint_dir` restores its latest checkpoint and saves every 600 s, unless
    `save_checkpoint_secs` or `save_checkpoint_steps` says otherwise (None or 0: never). Summaries go into
    `summary_dir`, or else there, every 100 steps or as `save_summaries_steps` or `save_summaries_secs` say, and steps a
    second every `log_step_count_steps`. A worker waits up to `max_wait_secs` for the chief.
    """
    if not is_chief:
        creator = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(creator, hooks, stop_grace_period_secs)
    scaffold = scaffold or Scaffold()
    secs, steps = _one_of(save_checkpoint_secs, save_checkpoint_steps, 600, None)
    every: list[SessionRunHook] = list(chief_only_hooks or ())
    folder = summary_dir or checkpoint_dir
    if folder:
        if log_step_count_steps:
            every.append(StepCounterHook(log_step_count_steps, output_dir=folder))
        summary_steps, summary_secs = _one_of(save_summaries_steps, save_summaries_secs, 100, None)
        if summary_steps or summary_secs:
            every.append(SummarySaverHook(summary_steps or None, summary_secs or None, folder, scaffold=scaffold))
    if checkpoint_dir and (secs or steps):
        every.append(CheckpointSaverHook(checkpoint_dir, secs or None, steps or None, scaffold=scaffold))
    every.extend(hooks or ())
    chief = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(chief, every, stop_grace_period_secs)


def _one_of(first: Any, second: Any, first_default: Any, second_default: Any) -> tuple[Any, Any]:
    """Two ways to say how often: what is left out is None if the other is given, else its default."""
    if first is USE_DEFAULT and second is USE_DEFAULT:
        return first_default, second_default
    return (None if first is USE_DEFAULT else first), (None if second is USE_DEFAULT else second)
