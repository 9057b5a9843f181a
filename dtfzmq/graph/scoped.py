"""The scopes that are open in a graph. Each thread has its own, and begins outside of all."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from dtfzmq.graph.collected import Collected
from dtfzmq.graph.tensor import Operation


class Controller:
    """One ``control_dependencies`` scope: what it asks for, and which operations were made inside it."""

    __slots__ = ("ops", "seen")

    def __init__(self, ops: tuple[Operation, ...]) -> None:
        self.ops = ops
        self.seen: set[Operation] = set()


class Scopes:
    """What is in force for the next operation: its name's beginning, where it stands, what it waits for."""

    __slots__ = ("attrs", "colocation", "containers", "controllers", "device", "devices", "gradients", "name")

    def __init__(self) -> None:
        #: The name scope, without a slash at its end.
        self.name = ""
        self.devices: list[str | Callable[[Operation], Any] | None] = []
        #: What `devices` come to; None if there is a function among them, which must be asked each time.
        self.device: str | None = ""
        self.controllers: list[Controller] = []
        self.colocation: list[Operation] = []
        self.containers: list[str] = []
        self.attrs: dict[str, Any] = {}
        #: By op type: the name under which another gradient is registered.
        self.gradients: dict[str, str] = {}

    def inside(self, name: str) -> Scopes:
        """What a branch or body begins with: all but control inputs and colocation, which are of the outer graph."""
        made = Scopes()
        made.name = name
        made.devices, made.device = list(self.devices), self.device
        made.containers, made.attrs, made.gradients = list(self.containers), self.attrs, self.gradients
        return made

    def bare(self) -> Scopes:
        """The same without devices, control inputs and colocation."""
        made = self.inside(self.name)
        made.devices, made.device = [], ""
        return made


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.scopes = Scopes()


class Scoped(Collected):
    """The part of a graph that knows the scopes of each thread."""

    def __init__(self) -> None:
        super().__init__()
        self._of_thread = _OfThread()

    @property
    def _scopes(self) -> Scopes:
        return self._of_thread.scopes

    def get_name_scope(self) -> str:
        """The current name scope, without a trailing slash."""
        return self._scopes.name

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Operations of a type (key) made inside the block have the gradient registered under another name (value)."""
        pairs = op_type_map.items() if isinstance(op_type_map, dict) else [(None, None)]
        if not all(isinstance(x, str) for pair in pairs for x in pair):
            raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        scopes = self._scopes
        before = scopes.gradients
        scopes.gradients = {**before, **op_type_map}
        try:
            yield
        finally:
            scopes.gradients = before

    @contextlib.contextmanager
    def container(self, name: str) -> Iterator[str]:
        """Stateful operations made inside the block keep their state in the container `name`."""
        containers = self._scopes.containers
        containers.append(name)
        try:
            yield name
        finally:
            containers.pop()

    @property
    def _container(self) -> str:
        containers = self._scopes.containers
        return containers[-1] if containers else ""

    @contextlib.contextmanager
    def _attr_scoped(self, attrs: dict[str, Any]) -> Iterator[None]:
        scopes = self._scopes
        before = scopes.attrs
        scopes.attrs = {**before, **attrs}
        try:
            yield
        finally:
            scopes.attrs = before
