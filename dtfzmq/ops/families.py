"""All op families. Importing this module declares every op of the library."""

from __future__ import annotations

from typing import Final

from dtfzmq.graph import registry
from dtfzmq.ops import (
    array,
    broadcasting,
    cast,
    constants,
    elementwise,
    indexed_slices,
    indexing,
    math,
    matmul,
    reductions,
    slicing,
)

FAMILIES: Final = (
    constants,
    elementwise,
    math,
    cast,
    broadcasting,
    array,
    indexing,
    slicing,
    reductions,
    matmul,
    indexed_slices,
)
DECLARED: Final = frozenset(d.name for d in registry.all_ops())  # of these families and what they import
WITHOUT_KERNEL: Final = frozenset[str]()  # what the compiler carries out itself
WITHOUT_SAMPLES: Final = WITHOUT_KERNEL
