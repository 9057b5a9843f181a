"""Session and InteractiveSession: a session as a block, and as the thread's default."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

from dtfzmq.base import errors
from dtfzmq.client import stack
from dtfzmq.client.base_session import BaseSession, DeviceAttributes
from dtfzmq.client.config import ConfigProto
from dtfzmq.graph.graph import Graph

_log = logging.getLogger("dtfzmq")


class Session(BaseSession):
    """Runs operations of a graph. `target` "" is a private in-process task, gone at close; else "zmq://host:port".

    The constructor contacts nobody: an unreachable master shows at the first run.
    """

    def __init__(
        self, target: str | bytes | None = "", graph: Graph | None = None, config: ConfigProto | None = None
    ) -> None:
        super().__init__(target, graph, config)
        self._blocks: list[contextlib.ExitStack] = []

    def __enter__(self) -> Session:
        block = contextlib.ExitStack()
        block.enter_context(self._graph.as_default())
        block.enter_context(stack.default(self))
        self._blocks.append(block)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is errors.OpError:
            _log.error("Session closing due to error %s", error)
        try:
            self._blocks.pop().__exit__(kind, error, trace)
        finally:
            self.close()


class InteractiveSession(BaseSession):
    """A session that is the thread's default from its construction to its close."""

    def __init__(
        self, target: str | bytes | None = "", graph: Graph | None = None, config: ConfigProto | None = None
    ) -> None:
        super().__init__(target, graph, config)
        self._explicit_graph = graph
        self._block = contextlib.ExitStack()
        if graph is not None:
            self._block.enter_context(graph.as_default())
        self._block.enter_context(stack.default(self, strict=False))

    def close(self) -> None:
        """See BaseSession; it is no longer the default session then."""
        super().close()
        block, self._block = self._block, contextlib.ExitStack()
        block.close()


__all__ = ["BaseSession", "DeviceAttributes", "InteractiveSession", "Session"]
