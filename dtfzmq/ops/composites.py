"""Values that are several tensors or more than one: what cond and while_loop carry of them.

A class that registers here is a leaf of nested structures; branches and loops carry its tensors and make another of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.base.names import article
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops import nest

_KINDS: dict[type, tuple[Callable[[Any], list[Tensor]], Callable[[Any, Sequence[Tensor]], Any]]] = {}


def register(kind: type, parts: Callable[[Any], list[Tensor]], made: Callable[[Any, Sequence[Tensor]], Any]) -> None:
    """`parts(value)` gives the tensors of a value of class `kind`, `made(value, tensors)` one like it of others."""
    _KINDS[kind] = parts, made


def is_composite(value: Any) -> bool:
    """True of values whose class is registered."""
    return type(value) in _KINDS


def parts_of(value: Any) -> list[Any]:
    """The tensors of a leaf; a leaf that is no composite gives itself."""
    kind = _KINDS.get(type(value))
    return [value] if kind is None else kind[0](value)


def flatten(structure: Any) -> list[Any]:
    """Leaves of a nested structure, composites as their tensors."""
    return [part for leaf in nest.flatten(structure) for part in parts_of(leaf)]


def pack_like(structure: Any, tensors: Sequence[Any]) -> Any:
    """`tensors` in the shape of `structure`, which has composites where they are to be made."""
    leaves = []
    at = 0
    for leaf in nest.flatten(structure):
        kind = _KINDS.get(type(leaf))
        if kind is None:
            leaves.append(tensors[at])
            at += 1
        else:
            count = len(kind[0](leaf))
            leaves.append(kind[1](leaf, tensors[at : at + count]))
            at += count
    if at != len(tensors):
        raise ValueError(f"{len(tensors)} tensors were given for a structure of {at}.")
    return nest.pack_like(structure, leaves)


def assert_same_structure(first: Any, second: Any) -> None:
    """As nest has it, and composites stand at the same places. Raises ValueError or TypeError."""
    nest.assert_same_structure(first, second)
    for a, b in zip(nest.flatten(first), nest.flatten(second)):
        kinds = type(a), type(b)
        if kinds[0] is not kinds[1] and any(kind in _KINDS for kind in kinds):
            first_kind, second_kind = (article(kind.__name__) for kind in kinds)
            raise TypeError(
                f"The two structures don't have the same nested structure: {first_kind} stands where the other has "
                f"{second_kind}."
            )
        if len(parts_of(a)) != len(parts_of(b)):
            raise ValueError(f"Of two {kinds[0].__name__} at one place only one has a dense_shape.")


def invariants(leaf: Any, shape: TensorShape) -> list[TensorShape]:
    """The shapes of a loop variable's tensors, `shape` being what was said of the variable."""
    if isinstance(leaf, IndexedSlices):  # said of the values: how many rows there are may be left open
        rows = shape.dims_or_none
        known = [shape, TensorShape([rows[0] if rows else None])]
        return known if leaf.dense_shape is None else [*known, leaf.dense_shape.shape]
    if isinstance(leaf, SparseTensor):  # said of the dense shape; how many elements there are is open
        return [TensorShape([None, shape.ndims]), TensorShape([None]), TensorShape([shape.ndims])]
    return [shape] if not is_composite(leaf) else [part.shape for part in parts_of(leaf)]


def _slices(value: IndexedSlices) -> list[Tensor]:
    return [value.values, value.indices, *([] if value.dense_shape is None else [value.dense_shape])]


register(IndexedSlices, _slices, lambda value, tensors: IndexedSlices(*tensors))
register(
    SparseTensor, lambda value: [value.indices, value.values, value.dense_shape],
    lambda value, tensors: SparseTensor(*tensors),
)  # fmt: skip
