"""How a message is declared: a frozen dataclass, and nothing else is written for it.

The annotations are the schema: coding, checking and the published JSON Schema follow from them. On the wire a message
is its name and its fields in order; a field that is added gets a default and goes last, so that older and newer peers
understand each other.
"""

from __future__ import annotations

import dataclasses
import operator
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:  # Python 3.10 has it not, and only type checkers need it

    def dataclass_transform(**_: object) -> Callable[[T], T]:
        """Mark a class decorator that makes dataclasses."""
        return lambda decorator: decorator


#: Tensors that travel as raw buffers beside the header. An entry may be None.
Tensors = Annotated[list[Any], "tensors"]

T = TypeVar("T")
Check = Callable[[Any], Any]


class WireError(Exception):
    """What came is not what this protocol says; the text tells what was wrong. Ends the connection it came on."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """How one message type is coded: its fields in order, each with a check, and which of them are tensors.

    A value of exactly the type that `kinds` names needs no check.
    """

    cls: type[Any]
    name: str
    fields: tuple[str, ...]
    checks: tuple[Check, ...]
    kinds: tuple[type | None, ...]
    tensors: frozenset[int]
    required: int
    values: Callable[[Any], tuple[Any, ...]]


_LAYOUTS: dict[str, Layout] = {}


def _scalar(kind: type, name: str) -> Check:
    def check(value: Any) -> Any:
        if type(value) is kind:
            return value
        raise WireError(f"{value!r:.60} is not {name}")

    return check


def _real(value: Any) -> Any:
    if type(value) is float or type(value) is int:
        return float(value)
    raise WireError(f"{value!r:.60} is not a number")


def _anything(value: Any) -> Any:
    return value


def _sequence(item: Check, make: Callable[[Any], Any]) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise WireError(f"{value!r:.60} is not a list")
        return make(value) if item is _anything else make([item(v) for v in value])

    return check


def _fixed(items: tuple[Check, ...]) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not list or len(value) != len(items):
            raise WireError(f"{value!r:.60} is not a list of {len(items)}")
        return tuple(item(v) for item, v in zip(items, value))

    return check


def _mapping(key: Check, item: Check) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise WireError(f"{value!r:.60} is not a map")
        return {key(k): item(v) for k, v in value.items()}

    return check


def _optional(item: Check) -> Check:
    return lambda value: None if value is None else item(value)


_SCALARS: dict[Any, Check] = {
    int: _scalar(int, "an integer"),
    str: _scalar(str, "a text"),
    bytes: _scalar(bytes, "bytes"),
    bool: _scalar(bool, "a truth value"),
    float: _real,
    Any: _anything,
    object: _anything,
    type(None): _optional(_anything),
}


_PLAIN = (int, str, bytes, bool, float)


def checker(hint: Any) -> Check:
    """The check that brings plain decoded data into the form that `hint` says. TypeError for a hint beyond us."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hint is list or hint is dict or hint is tuple:
        return _mapping(_anything, _anything) if hint is dict else _sequence(_anything, hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return checker(args[0])
    if origin is list:
        return _sequence(checker(args[0]), list)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return _sequence(checker(args[0]), tuple)
        return _fixed(tuple(checker(a) for a in args))
    if origin is dict:
        return _mapping(checker(args[0]), checker(args[1]))
    if origin is typing.Union or origin is types.UnionType:
        inner = [a for a in args if a is not type(None)]
        if len(inner) == 1 and len(args) == 2:
            return _optional(checker(inner[0]))
    raise TypeError(f"A message field cannot be of type {hint!r}; use plain types, lists, tuples, maps or Tensors.")


def _is_tensors(hint: Any) -> bool:
    return get_origin(hint) is Annotated and "tensors" in get_args(hint)[1:]


@dataclass_transform(frozen_default=True)
def message(cls: type[T]) -> type[T]:
    """Class decorator: a frozen dataclass that the codec can carry. TypeError for a name that another module took."""
    made: type[Any] = dataclasses.dataclass(frozen=True)(cls)
    before = _PENDING.get(made.__name__)
    if before is not None and before.__module__ != made.__module__:
        raise TypeError(f"There are two messages named {made.__name__}.")
    made.__layout__ = None  # filled at first use, when all names that annotations mention exist
    _PENDING[made.__name__] = made
    return made


_PENDING: dict[str, type[Any]] = {}


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda message: tuple(getattr(message, name) for name in names)


def layout_of(cls: type[Any]) -> Layout:
    """The layout of a message class. Raises TypeError for a class that is not a message."""
    found: Layout | None = getattr(cls, "__layout__", None)
    if found is not None and found.cls is cls:
        return found
    if _PENDING.get(cls.__name__) is not cls:
        raise TypeError(f"{cls.__name__} is not a message; declare it with @message.")
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = dataclasses.fields(cls)
    required = sum(
        1 for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )
    layout = Layout(
        cls,
        cls.__name__,
        tuple(f.name for f in fields),
        tuple(checker(hints[f.name]) for f in fields),
        tuple(hints[f.name] if hints[f.name] in _PLAIN else None for f in fields),
        frozenset(i for i, f in enumerate(fields) if _is_tensors(hints[f.name])),
        required,
        _getter([f.name for f in fields]),
    )
    cls.__layout__ = layout
    _LAYOUTS[layout.name] = layout
    return layout


def layout_named(name: str) -> Layout:
    """The layout of a message by its name on the wire. Raises WireError for an unknown one."""
    layout = _LAYOUTS.get(name)
    if layout is None:
        cls = _PENDING.get(name)
        if cls is None:
            raise WireError(f"there is no message named {name!r:.60}")
        layout = layout_of(cls)
    return layout


def all_messages() -> list[type[Any]]:
    """Every declared message class, by name."""
    return [_PENDING[name] for name in sorted(_PENDING)]


def plain(value: Any) -> Any:
    """For msgpack: numpy scalars as Python numbers. Raises TypeError for anything else that is not plain."""
    if isinstance(value, (np.integer, np.floating, np.bool_)):
        return value.item()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot travel in a header")
