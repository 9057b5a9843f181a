"""`Supervisor`: the older way to a session that is ready and saved now and then, by threads of the chief."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from dtfzmq.base import clock, errors
from dtfzmq.client.session import Session
from dtfzmq.graph.graph import Graph, get_default_graph
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.ops.grouping import group
from dtfzmq.ops.summarize import merge_all
from dtfzmq.summary.messages import SessionLog, Summary
from dtfzmq.summary.writer import FileWriter
from dtfzmq.train.checkpoints.saver import Saver
from dtfzmq.train.coordinator import Coordinator, LooperThread
from dtfzmq.train.session_manager import SessionManager
from dtfzmq.train.step import global_step as value_of
from dtfzmq.variables.listing import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
    tables_initializer,
)

_log = logging.getLogger("dtfzmq")


class Supervisor:
    """Makes a graph ready to train and keeps it: variables, checkpoints and summaries are the chief's, others wait.

    What is left out (USE_DEFAULT) is taken from the graph's collections, or made by TensorFlow's rules; None means that
    there is none. With a `logdir` the chief restores its latest checkpoint, saves every `save_model_secs`, and writes
    `summary_op` and steps a second every `save_summaries_secs`, in threads that `stop` ends. Other workers look at
    least every `recovery_wait_secs` whether the chief is done. The graph is finalized.

    ValueError for variables without a device in a replica that is no chief.
    """

    #: For an argument that is left out.
    USE_DEFAULT = 0

    def __init__(
        self,
        graph: Graph | None = None,
        ready_op: Any = USE_DEFAULT,
        ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True,
        init_op: Any = USE_DEFAULT,
        init_feed_dict: Any = None,
        local_init_op: Any = USE_DEFAULT,
        logdir: Any = None,
        summary_op: Any = USE_DEFAULT,
        saver: Any = USE_DEFAULT,
        global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120,
        save_model_secs: float = 600,
        recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120,
        checkpoint_basename: str = "model.ckpt",
        session_manager: SessionManager | None = None,
        summary_writer: Any = USE_DEFAULT,
        init_fn: Callable[[Session], Any] | None = None,
        local_init_run_options: Any = None,
    ) -> None:
        self._graph = graph or get_default_graph()
        self._is_chief = is_chief
        self._init_feed_dict = init_feed_dict
        self._init_fn = init_fn
        self._grace = stop_grace_secs
        self._coord = Coordinator()
        self._save_summaries_secs = save_summaries_secs if is_chief else None
        self._save_model_secs = save_model_secs if is_chief else None
        self._logdir = os.fspath(logdir) if logdir and is_chief else None
        self._save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        with self._graph.as_default():
            collected = self._collected
            self._ready_op = collected(ready_op, GraphKeys.READY_OP, report_uninitialized_variables)
            self._ready_for_local_init_op = collected(
                ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, lambda: None
            )
            self._init_op = collected(init_op, GraphKeys.INIT_OP, global_variables_initializer)
            self._local_init_op = collected(
                local_init_op,
                GraphKeys.LOCAL_INIT_OP,
                lambda: group(local_variables_initializer(), tables_initializer()),
            )
            self._saver = collected(saver, GraphKeys.SAVERS, lambda: Saver() if global_variables() else None)
            self._summary_op = collected(summary_op, GraphKeys.SUMMARY_OP, merge_all)
            self._global_step = collected(global_step, GraphKeys.GLOBAL_STEP, _default_global_step)
        self._summary_writer: FileWriter | None = None
        if is_chief:
            if summary_writer is not self.USE_DEFAULT:
                self._summary_writer = summary_writer
            elif self._logdir:
                self._summary_writer = FileWriter(self._logdir)
        else:
            self._check_devices()
        self._manager = session_manager or SessionManager(
            local_init_op=self._local_init_op,
            ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op,
            graph=self._graph,
            recovery_wait_secs=recovery_wait_secs,
            local_init_run_options=local_init_run_options,
        )
        self._graph.finalize()

    def _collected(self, given: Any, key: str, make: Callable[[], Any]) -> Any:
        """What was given; else the first of a collection; else what `make` makes, put there."""
        if given is not self.USE_DEFAULT:
            return given
        found = self._graph.get_collection(key)
        if found:
            if len(found) > 1:
                _log.info("Found %d %s operations. Returning the first one.", len(found), key)
            return found[0]
        made = make()
        if made is not None:
            self._graph.add_to_collection(key, made)
        return made

    def _check_devices(self) -> None:
        """A variable without a device would be each replica's own, and wait for ever."""
        for op in self._graph.get_operations():
            if op.type == "VariableV2" and not op.device:
                raise ValueError(f"When using replicas, all Variables must have their device set: {op}")

    # -- sessions ------------------------------------------------------------------------------------------------------

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Session:
        """A session that is ready: a chief makes it so, others wait. Threads that it needs are started.

        RuntimeError, DeadlineExceededError and what session.run raises; see SessionManager.
        """
        self._coord.clear_stop()
        if self._summary_writer is not None:
            self._summary_writer.reopen()
        if not self._is_chief:
            sess = self._manager.wait_for_session(master, config, max_wait_secs)
        else:
            sess = self._manager.prepare_session(
                master,
                self._init_op,
                self._saver,
                self._logdir,
                None,
                wait_for_checkpoint,
                max_wait_secs,
                config,
                self._init_feed_dict,
                self._init_fn,
            )
            if start_standard_services:
                _log.info("Starting standard services.")
                self.start_standard_services(sess)
        if start_standard_services:
            _log.info("Starting queue runners.")
            self.start_queue_runners(sess)
        return sess

    @contextlib.contextmanager
    def managed_session(
        self,
        master: str = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Session]:
        """A session as a block, after which all is stopped. An error in the block is raised, once threads have ended;
        one that only says that there is no more input, OutOfRangeError, ends it quietly.
        """
        sess: Session | None = None
        try:
            sess = self.prepare_or_wait_for_session(
                master, config, start_standard_services=start_standard_services
            )
            yield sess
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if sess is not None:
                    with contextlib.suppress(errors.OpError):
                        sess.close()

    def start_queue_runners(self, sess: Session, queue_runners: Sequence[Any] | None = None) -> list[threading.Thread]:
        """Start the threads of queue runners, None: of those of the graph. They are daemons that `stop` waits for."""
        runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS) if queue_runners is None else queue_runners
        return [t for r in runners for t in r.create_threads(sess, coord=self._coord, daemon=True, start=True)]

    def start_standard_services(self, sess: Session) -> list[LooperThread]:
        """Start the threads that save, and write summaries. RuntimeError for who is no chief."""
        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief supervisors can write events."
            )
        if not self._logdir:
            _log.warning("Standard services need a 'logdir' passed to the SessionManager")
            return []
        self._log_session(SessionLog(status=SessionLog.START), sess)
        threads: list[LooperThread] = []
        if self._summary_writer is not None and self._save_summaries_secs:
            if self._summary_op is not None:
                threads.append(LooperThread(self._coord, self._save_summaries_secs, self._summarize, (sess,)))
            if self._global_step is not None:
                threads.append(_Counter(self._coord, self._save_summaries_secs, self, sess))
        if self._saver is not None and self._save_model_secs:
            threads.append(LooperThread(self._coord, self._save_model_secs, self._save, (sess,)))
        for thread in threads:
            thread.start()
        return threads

    def _summarize(self, sess: Session) -> None:
        step = None if self._global_step is None else value_of(sess, self._global_step)
        self.summary_computed(sess, sess.run(self._summary_op), step)

    def _save(self, sess: Session) -> None:
        assert self._saver is not None and self._save_path is not None  # else there is no such thread
        _log.info("Saving checkpoint to path %s", self._save_path)
        self._saver.save(sess, self._save_path, global_step=self._global_step)
        self._log_session(SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path), sess)

    def _log_session(self, what: SessionLog, sess: Session) -> None:
        if self._summary_writer is not None and self._global_step is not None:
            self._summary_writer.add_session_log(what, value_of(sess, self._global_step))

    def summary_computed(self, sess: Session, summary: Any, global_step: int | None = None) -> None:
        """Write a summary, bytes or a Summary, at `global_step`, None: the graph's. RuntimeError without a writer."""
        if self._summary_writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._global_step is not None:
            global_step = value_of(sess, self._global_step)
        self._summary_writer.add_summary(summary, global_step)

    # -- stopping ------------------------------------------------------------------------------------------------------

    def stop(
        self,
        threads: Iterable[threading.Thread] | None = None,
        close_summary_writer: bool = True,
        ignore_live_threads: bool = False,
    ) -> None:
        """Have all threads stop, wait for them, close the summary writer. Raises what a thread met."""
        self._coord.request_stop()
        try:
            self._coord.join(threads, self._grace, ignore_live_threads)
        finally:
            if close_summary_writer and self._summary_writer is not None:
                self._summary_writer.add_session_log(SessionLog(status=SessionLog.STOP))
                self._summary_writer.close()

    def request_stop(self, ex: BaseException | None = None) -> None:
        """Ask threads to stop, because of `ex` if given."""
        self._coord.request_stop(ex)

    def should_stop(self) -> bool:
        """Whether a stop was asked for."""
        return self._coord.should_stop()

    def stop_on_exception(self) -> contextlib.AbstractContextManager[None]:
        """A block whose exceptions ask for a stop."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Wait until a stop is asked for."""
        self._coord.wait_for_stop()

    def loop(
        self,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> LooperThread:
        """A thread that calls `target` every so many seconds until a stop; started."""
        return LooperThread.loop(self._coord, timer_interval_secs, target, args, kwargs)

    # -- what it has ---------------------------------------------------------------------------------------------------

    @property
    def is_chief(self) -> bool:
        return self._is_chief

    @property
    def session_manager(self) -> SessionManager:
        return self._manager

    @property
    def coord(self) -> Coordinator:
        return self._coord

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def init_op(self) -> Any:
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        return self._ready_for_local_init_op

    @property
    def summary_writer(self) -> FileWriter | None:
        return self._summary_writer

    @property
    def summary_op(self) -> Any:
        return self._summary_op

    @property
    def save_summaries_secs(self) -> float | None:
        """None for who is no chief."""
        return self._save_summaries_secs

    @property
    def save_model_secs(self) -> float | None:
        """None for who is no chief."""
        return self._save_model_secs

    @property
    def global_step(self) -> Any:
        return self._global_step

    @property
    def saver(self) -> Saver | None:
        saver: Saver | None = self._saver
        return saver

    @property
    def save_path(self) -> str | None:
        """Where checkpoints go, without the step; None for who is no chief, or without a logdir."""
        return self._save_path

    # Names from before TensorFlow 1.0.
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    Loop = loop
    SummaryComputed = summary_computed


def _default_global_step() -> Any:
    """What is called global_step, if it is an integer; else none is."""
    try:
        found = get_default_graph().get_tensor_by_name("global_step:0")
    except KeyError:
        return None
    if found.dtype.base_dtype.is_integer:
        return found
    _log.warning("Found 'global_step' is not an int type: %s", found.dtype)
    return None


class _Counter(LooperThread):
    """Writes how many steps a second there were."""

    def __init__(self, coord: Coordinator, seconds: float, sv: Supervisor, sess: Session) -> None:
        super().__init__(coord, seconds)
        self._sv = sv
        self._sess = sess
        self._tag = f"{sv.global_step.op.name}/sec"
        self._last: tuple[float, int] | None = None

    def run_loop(self) -> None:
        """See LooperThread."""
        now, step = clock.now(), value_of(self._sess, self._sv.global_step)
        before, self._last = self._last, (now, step)
        if before is None:
            return
        rate = (step - before[1]) / (now - before[0])
        _log.info("%s: %g", self._tag, rate)
        writer = self._sv.summary_writer
        if writer is not None:
            writer.add_summary(Summary(value=[Summary.Value(tag=self._tag, simple_value=rate)]), step)
