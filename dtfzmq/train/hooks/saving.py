"""Hooks that save, every so many steps or seconds: checkpoints and summaries."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import get_collection
from dtfzmq.summary.messages import SessionLog
from dtfzmq.summary.writer import FileWriter, FileWriterCache
from dtfzmq.train.checkpoints.saver import Saver
from dtfzmq.train.hooks.stopping import step_of_graph
from dtfzmq.train.hooks.timing import SecondOrStepTimer
from dtfzmq.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

_log = logging.getLogger("dtfzmq")


class CheckpointSaverListener:
    """Base of who is told of checkpoints: every method may be left out."""

    def begin(self) -> None:
        """Before the graph is finalized."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """A checkpoint is about to be written."""

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """A checkpoint was written. True ends the loop."""

    def end(self, session: Any, global_step_value: int) -> None:
        """The loop ended; the last checkpoint was written."""


class CheckpointSaverHook(SessionRunHook):
    """Saves when a session was made, every `save_secs` or `save_steps`, and at the end.

    The saver is `saver`, or that of the scaffold, or the one of the collection SAVERS. ValueError for a saver and a
    scaffold, or unless either time is given.
    """

    def __init__(
        self,
        checkpoint_dir: Any,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Iterable[CheckpointSaverListener] | None = None,
        save_graph_def: bool = True,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver = saver
        self._scaffold = scaffold
        self._checkpoint_dir = os.fspath(checkpoint_dir)
        self._save_path = os.path.join(self._checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._listeners = list(listeners or ())
        self._step: Any = None
        self._writer: FileWriter | None = None

    def begin(self) -> None:
        """See SessionRunHook."""
        self._writer = FileWriterCache.get(self._checkpoint_dir)
        self._step = step_of_graph("CheckpointSaverHook")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """See SessionRunHook."""
        step = int(session.run(self._step))
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """See SessionRunHook."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """See SessionRunHook."""
        step = self._timer.due(int(run_values.results), lambda: int(run_context.session.run(self._step)))
        if step is not None:
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Any) -> None:
        """See SessionRunHook."""
        step = int(session.run(self._step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session: Any, step: int) -> bool:
        """Save; whether a listener wants the loop to end."""
        _log.info("Saving checkpoints for %d into %s.", step, self._save_path)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._save_path, global_step=step)
        if self._writer is not None:
            told = SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path)
            self._writer.add_session_log(told, step)
        stop = False
        for listener in self._listeners:
            if listener.after_save(session, step):
                _log.info("A CheckpointSaverListener requested that training be stopped. listener: %s", listener)
                stop = True
        return stop

    def _get_saver(self) -> Saver:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            assert self._scaffold.saver is not None  # it was finalized before the session was made
            saver: Saver = self._scaffold.saver
            return saver
        found = get_collection(GraphKeys.SAVERS)
        if not found:
            raise RuntimeError("No items in collection savers. Please add a saver to the collection or provide one.")
        if len(found) > 1:
            raise RuntimeError("More than one item in collection savers. Please indicate which one to use.")
        self._saver = found[0]
        return self._saver


class SummarySaverHook(SessionRunHook):
    """Writes summaries every `save_steps` or `save_secs`, by `summary_writer` or that of `output_dir`.

    The op is `summary_op` (bytes, or a list of them), or the scaffold's; without any it does nothing. ValueError unless
    one of the two is given, and either time.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._output_dir = output_dir
        self._writer = summary_writer
        self._scaffold = scaffold
        self._summary_op = summary_op
        self._step: Any = None
        self._due = False
        self._next: int | None = None

    def begin(self) -> None:
        """See SessionRunHook."""
        if self._writer is None and self._output_dir:
            self._writer = FileWriterCache.get(self._output_dir)
        self._step = step_of_graph("SummarySaverHook")
        self._next = None

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """See SessionRunHook."""
        self._due = self._next is None or self._timer.should_trigger_for_step(self._next)
        if self._due and self._next is not None:  # which may be a step ahead
            step = int(run_context.session.run(self._step)) + 1
            self._due = self._timer.should_trigger_for_step(step)
        wanted = {"global_step": self._step}
        summary = self._summary() if self._due else None
        if summary is not None:
            wanted["summary"] = summary
        return SessionRunArgs(wanted)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """See SessionRunHook. What was fetched may be from before the step's update."""
        step = int(run_values.results["global_step"]) + 1
        if self._next is None or self._due:
            step = int(run_context.session.run(self._step))
        if self._writer is None:
            return
        if self._next is None:
            self._writer.add_session_log(SessionLog(status=SessionLog.START), step)
        if self._due:
            self._timer.update_last_triggered_step(step)
            found = run_values.results.get("summary", ())
            for summary in found if isinstance(found, (list, tuple)) else [found]:
                self._writer.add_summary(summary, step)
        self._next = step + 1

    def end(self, session: Any) -> None:
        """See SessionRunHook."""
        if self._writer is not None:
            self._writer.flush()

    def _summary(self) -> Any:
        return self._summary_op if self._summary_op is not None else self._scaffold.summary_op
