"""Who makes the sessions of a monitored one: a chief from a checkpoint or anew, a worker when the chief is done."""

from __future__ import annotations

from typing import Any, Protocol

from dtfzmq.client.session import Session
from dtfzmq.graph.graph import get_default_graph
from dtfzmq.train.scaffold import Scaffold
from dtfzmq.train.session_manager import SessionManager


class SessionCreator(Protocol):
    """Makes a session each time that one is needed."""

    def create_session(self) -> Session:
        """A session that is ready. Raises what making it met."""


class ChiefSessionCreator:
    """Makes the session of a chief: from a checkpoint, or with the scaffold's init op. See SessionManager."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master = master
        self._config = config
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint_filename_with_path = checkpoint_filename_with_path
        self._manager: SessionManager | None = None

    def create_session(self) -> Session:
        """See SessionCreator."""
        scaffold = self._scaffold
        if self._manager is None:
            scaffold.finalize()
            self._manager = _manager_of(scaffold)
        return self._manager.prepare_session(
            self._master,
            saver=scaffold.saver,
            checkpoint_dir=self._checkpoint_dir,
            checkpoint_filename_with_path=self._checkpoint_filename_with_path,
            config=self._config,
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )


class WorkerSessionCreator:
    """Makes the session of a worker: waits until a chief has initialised the variables, at most `max_wait_secs`."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        max_wait_secs: float = 30 * 60,
    ) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master = master
        self._config = config
        self._max_wait_secs = max_wait_secs
        self._manager: SessionManager | None = None

    def create_session(self) -> Session:
        """See SessionCreator."""
        if self._manager is None:
            self._manager = _manager_of(self._scaffold.finalize())
        return self._manager.wait_for_session(self._master, self._config, self._max_wait_secs)


def _manager_of(scaffold: Scaffold) -> SessionManager:
    return SessionManager(
        local_init_op=scaffold.local_init_op,
        local_init_feed_dict=scaffold.local_init_feed_dict,
        ready_op=scaffold.ready_op,
        ready_for_local_init_op=scaffold.ready_for_local_init_op,
        graph=get_default_graph(),
    )
