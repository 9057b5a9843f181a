"""`SessionManager`: gets a session whose variables have values, by making them, from a checkpoint, or by waiting."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfzmq.base import clock, errors
from dtfzmq.client.session import Session
from dtfzmq.graph.graph import Graph
from dtfzmq.train.checkpoints import state
from dtfzmq.train.checkpoints.saver import Saver

_log = logging.getLogger("dtfzmq")

#: What a run raises when a task was lost, or another has come in its place.
PREEMPTED = (errors.AbortedError, errors.UnavailableError)
# What is waited for is looked at after so long, and then ever more seldom, down to once in `recovery_wait_secs`.
_FIRST_LOOK_S = 0.1
_SLOWER = 1.5


def looks(most: float, until: float, late: Callable[[], errors.OpError]) -> Iterator[None]:
    """Come back each time that something is to be looked at; `late()` is raised once `until` has passed."""
    pause = _FIRST_LOOK_S
    while True:
        yield
        left = until - clock.now()
        if left <= 0:
            raise late()
        clock.sleep(min(pause, most, left))
        pause *= _SLOWER


def ready(op: Any, sess: Any, what: str) -> tuple[bool, str | None]:
    """(whether `op` finds nothing missing, what is missing). None is always ready.

    `op` gives names of variables without a value, as `tf.report_uninitialized_variables()`; or nothing, and fails with
    FailedPreconditionError while one is uninitialized.
    """
    if op is None:
        return True, None
    try:
        value = sess.run(op)
    except errors.FailedPreconditionError as error:
        if "uninitialized" not in str(error):
            _log.warning("%s: error [%s]", what, error)
            raise
        return False, str(error)
    if value is None or np.asarray(value).dtype == np.int32 or np.size(value) == 0:
        return True, None
    missing = ", ".join(name.decode() if isinstance(name, bytes) else str(name) for name in np.ravel(value))
    return False, f"Variables not initialized: {missing}"


class SessionManager:
    """Makes sessions for `graph` (None: the default graph at each call) that are ready to train.

    `ready_op` tells what has no value yet, `ready_for_local_init_op` the same of what `local_init_op` needs. A worker
    that waits looks soon, and then at least every `recovery_wait_secs`.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Graph | None = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        self._local_init_op = local_init_op
        self._ready_op = ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph
        self._recovery_wait_secs = recovery_wait_secs
        self._local_init_run_options = local_init_run_options
        self._local_init_feed_dict = local_init_feed_dict
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError("If you pass a ready_for_local_init_op you must also pass a local_init_op.")

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Saver | None = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Session], Any] | None = None,
    ) -> Session:
        """A session of the chief: its variables come from the latest checkpoint, or else from `init_op` and `init_fn`.

        RuntimeError if there are none of these, or variables have no value after them; what session.run raises.
        """
        sess, loaded = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        with closed_on_error(sess):
            if not loaded:
                if init_op is None and not init_fn and self._local_init_op is None:
                    raise RuntimeError("Model is not initialized and no init_op or init_fn or local_init_op was given")
                if init_op is not None:
                    sess.run(init_op, feed_dict=init_feed_dict)
                if init_fn:
                    init_fn(sess)
            for step, what in ((self._localized, "ready for local_init"), (self._ready, "ready")):
                done, missing = step(sess)
                if not done:
                    name = "Loading the checkpoint" if loaded else "Init operations"
                    raise RuntimeError(
                        f"{name} did not make model {what}.  Init op: {_name(init_op)}, init fn: {init_fn}, "
                        f"local_init_op: {_name(self._local_init_op)}, error: {missing}"
                    )
        return sess

    def recover_session(
        self,
        master: str,
        saver: Saver | None = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Session, bool]:
        """(a session, whether its variables have values): from the latest checkpoint, if there is one."""
        sess, loaded = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs, config
        )
        with closed_on_error(sess):
            done, missing = self._localized(sess)
            if loaded and done:
                done, missing = self._ready(sess)
            if loaded and not done:
                _log.info("Restoring did not make the model ready: %s", missing)
        return sess, loaded and done

    def wait_for_session(self, master: str, config: Any = None, max_wait_secs: float = float("inf")) -> Session:
        """A session of a worker, once somebody else, the chief, has given the variables values.

        A task that is away meanwhile is waited for, too. DeadlineExceededError after `max_wait_secs`, or, where the run
        that looks waits for a task that never was there, when that run ends; else what session.run raises.
        """
        until = clock.now() + (float("inf") if max_wait_secs is None else max_wait_secs)
        missing: str | None = None

        def late() -> errors.OpError:
            return errors.DeadlineExceededError(
                None, None, f"Session was not ready after waiting {max_wait_secs:g} secs: {missing}."
            )

        sess = Session(master, graph=self._graph, config=config)
        try:
            for _ in looks(self._recovery_wait_secs, until, late):
                try:
                    done, missing = self._localized(sess)
                    if done:
                        done, missing = self._ready(sess)
                    if done:
                        return sess
                except PREEMPTED as error:
                    missing = str(error)
                    close_quietly(sess)
                    sess = Session(master, graph=self._graph, config=config)
                _log.info("Waiting for model to be ready: %s", missing)
        except BaseException:
            close_quietly(sess)
            raise
        raise AssertionError("looks() comes back or raises")

    def _restored(
        self,
        master: str,
        saver: Saver | None,
        folder: Any,
        path: Any,
        wait_for_checkpoint: bool,
        max_wait_secs: float,
        config: Any,
    ) -> tuple[Session, bool]:
        """(a session, whether a checkpoint was loaded into its variables)."""
        if folder and path:
            raise ValueError("Can not provide both checkpoint_dir and checkpoint_filename_with_path.")
        sess = Session(master, graph=self._graph, config=config)
        with closed_on_error(sess):
            if saver is None or not (folder or path):
                return sess, False
            if path:
                saver.restore(sess, path)
                return sess, True
            found = state.get_checkpoint_state(folder)
            if found is None and wait_for_checkpoint:
                over = errors.DeadlineExceededError(None, None, f"There is no checkpoint in {folder} yet.")
                with contextlib.suppress(errors.DeadlineExceededError):
                    for _ in looks(self._recovery_wait_secs, clock.now() + max_wait_secs, lambda: over):
                        found = state.get_checkpoint_state(folder)
                        if found is not None:
                            break
                        _log.info("Waiting for checkpoint to be available.")
            if found is None:
                return sess, False
            saver.restore(sess, found.model_checkpoint_path)
            saver.recover_last_checkpoints(found.all_model_checkpoint_paths)
            return sess, True

    def _localized(self, sess: Session) -> tuple[bool, str | None]:
        """Run the local init op once what it needs is there."""
        if self._local_init_op is None:
            return True, None
        done, missing = ready(self._ready_for_local_init_op, sess, "Model not ready for local init")
        if done:
            sess.run(self._local_init_op, self._local_init_feed_dict, self._local_init_run_options)
        return done, missing

    def _ready(self, sess: Session) -> tuple[bool, str | None]:
        return ready(self._ready_op, sess, "Model not ready")


def _name(op: Any) -> str:
    return str(getattr(op, "name", op))


@contextlib.contextmanager
def closed_on_error(sess: Session) -> Iterator[None]:
    """Close `sess` if the block raises."""
    try:
        yield
    except BaseException:
        close_quietly(sess)
        raise


def close_quietly(sess: Session) -> None:
    """Close a session whose errors, if it meets any, were told already."""
    with contextlib.suppress(errors.OpError):
        sess.close()
