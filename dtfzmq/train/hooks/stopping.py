"""Hooks that end a loop, or begin it: after so many steps, at a NaN, once the global step is far enough."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import clock
from dtfzmq.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfzmq.train.step import get_global_step

_log = logging.getLogger("dtfzmq")

_LOOK_S = 0.5


def step_of_graph(hook: str) -> Any:
    """The global step of the default graph. RuntimeError if it has none."""
    found = get_global_step()
    if found is None:
        raise RuntimeError(f"Global step should be created to use {hook}.")
    return found


class StopAtStepHook(SessionRunHook):
    """Ends the loop once the global step is `last_step`, or `num_steps` above where it was when the session was made.

    ValueError unless one of them is given.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step
        self._step: Any = None

    def begin(self) -> None:
        """See SessionRunHook."""
        self._step = step_of_graph("StopAtStepHook")

    def after_create_session(self, session: Any, coord: Any) -> None:
        """See SessionRunHook."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._step)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """See SessionRunHook."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """See SessionRunHook. What was fetched may be from before the step's update."""
        assert self._last_step is not None
        if run_values.results + 1 >= self._last_step and run_context.session.run(self._step) >= self._last_step:
            run_context.request_stop()


class NanLossDuringTrainingError(RuntimeError):
    """The loss that a NanTensorHook watches became NaN."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Raises NanLossDuringTrainingError when `loss_tensor` is NaN; or ends the loop, without `fail_on_nan_loss`."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss = loss_tensor
        self._fail = fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """See SessionRunHook."""
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """See SessionRunHook."""
        if not np.isnan(run_values.results).any():
            return
        if self._fail:
            _log.error("Model diverged with loss = NaN.")
            raise NanLossDuringTrainingError
        _log.warning("Model diverged with loss = NaN.")
        run_context.request_stop()


class GlobalStepWaiterHook(SessionRunHook):
    """Holds a worker's first run until the global step, which others move on, is `wait_until_step`."""

    def __init__(self, wait_until_step: int) -> None:
        self._until = wait_until_step
        self._step: Any = None
        self._over = wait_until_step <= 0

    def begin(self) -> None:
        """See SessionRunHook."""
        self._step = step_of_graph("GlobalStepWaiterHook")

    def before_run(self, run_context: SessionRunContext) -> None:
        """See SessionRunHook."""
        while not self._over:
            step = run_context.session.run(self._step)
            self._over = step >= self._until
            if not self._over:
                _log.debug("Waiting for global step %d; it is %d.", self._until, step)
                clock.sleep(_LOOK_S)


class FinalOpsHook(SessionRunHook):
    """Runs `final_ops` at the end; their values are `final_ops_values` then."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops = final_ops
        self._feed_dict = final_ops_feed_dict
        self._values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """None before the end."""
        return self._values

    def end(self, session: Any) -> None:
        """See SessionRunHook."""
        if self._ops is not None:
            self._values = session.run(self._ops, feed_dict=self._feed_dict)


class FeedFnHook(SessionRunHook):
    """Adds what `feed_fn()` returns to the feeds of each run."""

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self._feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """See SessionRunHook."""
        return SessionRunArgs(None, self._feed_fn())
