"""``tf.nest``: nested structures of lists, tuples, namedtuples and dicts."""

from __future__ import annotations

from typing import Any

from dtfzmq.ops import nest as _nest
from dtfzmq.ops.nest import assert_same_structure, flatten, is_nested, map_structure


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """`flat_sequence` in the shape of `structure`; ValueError if their numbers differ."""
    return _nest.pack_like(structure, list(flat_sequence))
