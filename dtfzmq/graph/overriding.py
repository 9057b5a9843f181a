"""Gradients of other names for the operations of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dtfzmq.graph.collected import Collected


class Overriding(Collected):
    """The part of a graph that says which gradient its new operations have."""

    def __init__(self) -> None:
        super().__init__()
        self._gradients: dict[str, str] = {}

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Operations of a type (key) made inside the block have the gradient registered under another name (value)."""
        pairs = op_type_map.items() if isinstance(op_type_map, dict) else [(None, None)]
        if not all(isinstance(x, str) for pair in pairs for x in pair):
            raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        before = self._gradients
        self._gradients = {**before, **op_type_map}
        try:
            yield
        finally:
            self._gradients = before
