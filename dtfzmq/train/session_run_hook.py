"""`SessionRunHook`: what may be called around the runs of a session that somebody else drives."""

from __future__ import annotations

from typing import Any, NamedTuple


class SessionRunArgs(NamedTuple):
    """What a hook adds to the next run: fetches, feeds, options."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a run gave a hook: results in the shape of its fetches."""

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """The run that is about to happen or has happened."""

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """What the program asked for."""
        return self._original_args

    @property
    def session(self) -> Any:
        return self._session

    @property
    def stop_requested(self) -> bool:
        return self._stop_requested

    def request_stop(self) -> None:
        """End the loop after this run."""
        self._stop_requested = True


class SessionRunHook:
    """Base: every method may be left out. They are called in this order; the middle two once a run."""

    def begin(self) -> None:
        """Before the graph is finalized: ops may be added."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """A session was made (again, after a failure); the graph is finalized."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """What to add to the run."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Look at the results; may ask for a stop."""

    def end(self, session: Any) -> None:
        """The loop ended without an error."""
