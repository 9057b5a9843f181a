"""Hooks that tell how a loop goes: values of tensors, steps a second."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtfzmq.graph.graph import get_default_graph
from dtfzmq.summary.messages import Summary
from dtfzmq.summary.writer import FileWriterCache
from dtfzmq.train.hooks.stopping import step_of_graph
from dtfzmq.train.hooks.timing import SecondOrStepTimer
from dtfzmq.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues

_log = logging.getLogger("dtfzmq")


class LoggingTensorHook(SessionRunHook):
    """Logs tensors every `every_n_iter` runs or `every_n_secs` seconds, or only `at_end`.

    `tensors` maps tags to tensors or their names, or lists them; `formatter` makes the line of a map of tags to values.
    ValueError unless it is said, in one way, how often.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any] | Sequence[Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if isinstance(tensors, Mapping):
            self._tensors = dict(tensors)
        else:
            self._tensors = {each if isinstance(each, str) else each.name: each for each in tensors}
        self._formatter = formatter
        self._at_end = at_end
        self._timer = None if only_at_end else SecondOrStepTimer(every_n_secs, every_n_iter)
        self._runs = 0
        self._due = False

    def begin(self) -> None:
        """See SessionRunHook."""
        self._runs = 0
        if self._timer is not None:
            self._timer.reset()
        graph = get_default_graph()
        self._tensors = {tag: graph.as_graph_element(each) for tag, each in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """See SessionRunHook."""
        self._due = self._timer is not None and self._timer.should_trigger_for_step(self._runs)
        return SessionRunArgs(self._tensors) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """See SessionRunHook."""
        if self._due:
            self._tell(run_values.results)
        self._runs += 1

    def end(self, session: Any) -> None:
        """See SessionRunHook."""
        if self._at_end:
            self._tell(session.run(self._tensors))

    def _tell(self, values: dict[str, Any]) -> None:
        seconds = None
        if self._timer is not None:
            seconds, _ = self._timer.update_last_triggered_step(self._runs)
        if self._formatter is not None:
            _log.info("%s", self._formatter(values))
            return
        with np.printoptions(suppress=True):
            line = ", ".join(f"{tag} = {value}" for tag, value in values.items())
        _log.info("%s%s", line, "" if seconds is None else f" ({seconds:.3f} sec)")


class StepCounterHook(SessionRunHook):
    """Logs steps a second, by the global step, every `every_n_steps` steps or `every_n_secs` seconds.

    They go into summaries too, by `summary_writer` or that of `output_dir`.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps)
        self._writer = summary_writer
        self._output_dir = output_dir
        self._step: Any = None
        self._tag = ""

    def begin(self) -> None:
        """See SessionRunHook."""
        if self._writer is None and self._output_dir:
            self._writer = FileWriterCache.get(self._output_dir)
        self._step = step_of_graph("StepCounterHook")
        self._tag = f"{self._step.op.name}/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """See SessionRunHook."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """See SessionRunHook."""
        step = self._timer.due(int(run_values.results), lambda: int(run_context.session.run(self._step)))
        if step is not None:
            seconds, steps = self._timer.update_last_triggered_step(step)
            if seconds is not None and steps is not None:
                self._log_and_record(seconds, steps, step)

    def _log_and_record(self, elapsed_time: float, elapsed_steps: int, global_step: int) -> None:
        rate = elapsed_steps / elapsed_time if elapsed_time else 0.0
        _log.info("%s: %g", self._tag, rate)
        if self._writer is not None:
            self._writer.add_summary(Summary(value=[Summary.Value(tag=self._tag, simple_value=rate)]), global_step)
