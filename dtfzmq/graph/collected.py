"""Collections: named lists that a graph carries along for the program."""

from __future__ import annotations

import re
from typing import Any


class Collected:
    """The collections of a graph. Source: TensorFlow 1's ``tf.Graph`` and ``tf.GraphKeys``."""

    def __init__(self) -> None:
        self._collections: dict[Any, list[Any]] = {}

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Append `value` to a collection."""
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names_: Any, value: Any) -> None:
        """Append `value` to each of several collections, once to each."""
        for name in (names_,) if isinstance(names_, str) else dict.fromkeys(names_):
            self.add_to_collection(name, value)

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of a collection; with `scope`, the items whose name it matches (``re.match``)."""
        items = list(self._collections.get(name, ()))
        if scope is None:
            return items
        pattern = re.compile(scope)
        return [item for item in items if hasattr(item, "name") and pattern.match(item.name)]

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The collection itself; changes to it count."""
        return self._collections.setdefault(name, [])

    def get_all_collection_keys(self) -> list[Any]:
        """The names of collections that are not empty."""
        return [k for k, v in self._collections.items() if v and isinstance(k, str)]

    def clear_collection(self, name: Any) -> None:
        """Empty a collection."""
        self._collections.pop(name, None)
