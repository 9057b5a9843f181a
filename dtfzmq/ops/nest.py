"""Nested structures of lists, tuples, namedtuples and dicts: flatten, pack again, compare.

Dicts are walked in sorted order of their keys. Everything that is not one of the four is a leaf, None and arrays too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any


def is_nested(value: Any) -> bool:
    """True for list, tuple, namedtuple and mapping."""
    return isinstance(value, (list, tuple, Mapping))


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [value[key] for key in sorted(value)]
    return list(value)


def flatten(value: Any) -> list[Any]:
    """Leaves from left to right; a leaf itself gives a list of one."""
    if not is_nested(value):
        return [value]
    out: list[Any] = []
    for child in _children(value):
        out.extend(flatten(child))
    return out


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    if isinstance(structure, Mapping):
        packed = {key: _pack(structure[key], leaves) for key in sorted(structure)}
        return type(structure)((key, packed[key]) for key in structure)  # type: ignore[call-arg]  # dict and OrderedDict
    items = [_pack(child, leaves) for child in structure]
    if hasattr(structure, "_fields"):
        return type(structure)(*items)
    return type(structure)(items)


def pack_like(structure: Any, leaves: list[Any]) -> Any:
    """`leaves` in the shape of `structure`; ValueError if the count differs."""
    want = len(flatten(structure))
    if want != len(leaves):
        raise ValueError(f"Structure had {want} elements, but flat_sequence had {len(leaves)}. Structure: {structure}")
    return _pack(structure, iter(leaves))


def map_structure(fn: Callable[..., Any], *structures: Any) -> Any:
    """fn applied leaf by leaf to structures of one shape, result in the shape of the first."""
    for other in structures[1:]:
        assert_same_structure(structures[0], other)
    return pack_like(structures[0], [fn(*leaves) for leaves in zip(*(flatten(s) for s in structures))])


def assert_same_structure(first: Any, second: Any) -> None:
    """ValueError or TypeError (kinds of sequence differ) unless both nest alike."""
    if is_nested(first) != is_nested(second):
        raise ValueError(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: type={type(first).__name__} str={first}\n\n"
            f"Second structure: type={type(second).__name__} str={second}"
        )
    if not is_nested(first):
        return
    if type(first) is not type(second) and not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        raise TypeError(
            "The two structures don't have the same sequence type. First structure has type "
            f"{type(first)}, while second structure has type {type(second)}."
        )
    if isinstance(first, Mapping) and set(first) != set(second):
        raise ValueError(f"The two dictionaries don't have the same set of keys: {sorted(first)} and {sorted(second)}.")
    if len(first) != len(second):
        raise ValueError(
            f"The two structures don't have the same number of elements. First: {first}, second: {second}."
        )
    for a, b in zip(_children(first), _children(second)):
        assert_same_structure(a, b)
