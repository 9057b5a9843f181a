"""What outlives a step on a task: variables, queues, accumulators, by (container, kind, name).

A manager lives as long as its task; a session with `isolate_session_state` has its own. The default container is the
job's name. Kernel-private state (a queue without shared_name, the state of a random op) is not here: it lives in the
kernel.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

from dtfzmq.base import errors

_CONTAINER = re.compile(r"[A-Za-z0-9.][A-Za-z0-9.\-/]*\Z")


class ResourceManager:
    """Named resources. All methods: any thread; factories run under the manager's lock and must be quick."""

    def __init__(self, default_container: str) -> None:
        self.default_container = default_container
        self._lock = threading.RLock()
        self._entries: dict[tuple[str, str, str], Any] = {}

    def lookup(self, container: str, kind: str, name: str) -> Any:
        """The resource. Raises NotFoundError."""
        try:
            return self._entries[container or self.default_container, kind, name]
        except KeyError:
            raise errors.NotFoundError(
                None, None, f"Resource {container or self.default_container}/{name}/{kind} does not exist."
            ) from None

    def lookup_or_create(self, container: str, kind: str, name: str, factory: Callable[[], Any]) -> Any:
        """The resource, made by `factory` if it is not there."""
        key = (container or self.default_container, kind, name)
        found = self._entries.get(key)
        if found is None:
            with self._lock:
                found = self._entries.get(key)
                if found is None:
                    found = self._entries[key] = factory()
        return found

    def getter(self, container: str, kind: str, name: str, factory: Callable[[], Any]) -> Callable[[], Any]:
        """A kernel that yields the resource anew each time, so that it sees a container that was cleared in between."""
        key = (container or self.default_container, kind, name)
        find = self._entries.get

        def get() -> Any:
            found = find(key)
            return found if found is not None else self.lookup_or_create(*key, factory)

        return get

    def cleanup(self, containers: Iterable[str] = ()) -> None:
        """Drop all of the named containers, of the default one if none is named. Unknown names are ignored."""
        wanted = set(containers) or {self.default_container}
        with self._lock:
            for key in [key for key in self._entries if key[0] in wanted]:
                del self._entries[key]

    def all_of(self, container: str, kind: str) -> list[Any]:
        """The resources of one kind in one container."""
        with self._lock:
            wanted = (container or self.default_container, kind)
            return [entry for key, entry in self._entries.items() if key[:2] == wanted]

    def lost(self, member: str, reason: str) -> None:
        """The process of task `member` is gone: resources that count on it are told."""
        with self._lock:
            found = [entry for entry in self._entries.values() if hasattr(entry, "lost")]
        for entry in found:
            entry.lost(member, reason)

    def statistics(self) -> dict[str, int]:
        """Number of resources by kind."""
        with self._lock:
            found: dict[str, int] = {}
            for _, kind, _ in self._entries:
                found[kind] = found.get(kind, 0) + 1
            return found


def shared_key(container: str, shared_name: str, node_name: str = "") -> tuple[str, str] | None:
    """Container and name of a resource by TF's rule; None if it is private to its kernel.

    `node_name` stands in for an empty shared_name: pass it for variables, "" for queues and accumulators. Raises
    InvalidArgumentError for a bad container or shared name.
    """
    if container and not _CONTAINER.match(container):
        raise errors.InvalidArgumentError(None, None, f"container contains invalid characters: {container}")
    if shared_name.startswith("_"):
        raise errors.InvalidArgumentError(None, None, f"shared_name cannot start with '_': {shared_name}")
    name = shared_name or node_name
    return (container, name) if name else None
