"""The fields of messages of protocol buffers: what they hold, and its bytes."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from typing import Any, NamedTuple

from dtfzmq.ops.protos import block, parts, read_varint, varint

_WORD = 2**64 - 1
_RANGES = {"int64": 63, "int32": 31, "enum": 31}
#: Numbers of one size, whatever they are.
FIXED = {"double": struct.Struct("<d"), "float": struct.Struct("<f")}
_FLOAT = struct.Struct("f")



class Field(NamedTuple):
    """What is known of a field. `kind`: double, float, int64, int32, enum, bool, string, bytes, or the message's class.

    Of the fields with the same `oneof` one at most is present. One that is `mapped` has messages by text.
    """

    number: int
    kind: Any
    repeated: bool = False
    oneof: str = ""
    mapped: bool = False

    @property
    def message(self) -> bool:
        """Whether it holds messages."""
        return not isinstance(self.kind, str)

    @property
    def wire(self) -> int:
        """The wire type of one value."""
        return {"double": 1, "float": 5, "string": 2, "bytes": 2}.get(self.kind, 0) if not self.message else 2

    def default(self) -> Any:
        """What is read where nothing was written."""
        return {"double": 0.0, "float": 0.0, "string": "", "bytes": b"", "bool": False}.get(self.kind, 0)

    def taken(self, value: Any) -> Any:
        """A value as it is kept. TypeError or ValueError for one that this field cannot hold."""
        if self.message:
            return self._message(value)
        if self.kind in _RANGES or self.kind == "bool":
            number = int(value.__index__()) if hasattr(value, "__index__") else None
            if number is None:
                raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
            if self.kind == "bool":
                return bool(number)
            if not -(1 << _RANGES[self.kind]) <= number < 1 << _RANGES[self.kind]:
                raise ValueError(f"Value out of range: {number}")
            return number
        if self.kind == "string":
            if not isinstance(value, (str, bytes)):
                raise TypeError(f"bad argument type for built-in operation: {value!r:.80} is not a text")
            return value.decode() if isinstance(value, bytes) else value
        if self.kind == "bytes":
            if not isinstance(value, bytes):
                raise TypeError(f"expected bytes, {type(value).__name__} found")
            return bytes(value)
        if isinstance(value, (str, bytes)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        return float(value) if self.kind == "double" else single(float(value))

    def all_taken(self, values: Iterable[Any]) -> list[Any]:
        """Values as they are kept. TypeError or ValueError if one cannot be, or for a text: that is one value."""
        if isinstance(values, (str, bytes, bytearray)):
            raise TypeError(f"expected values of a repeated field, one {type(values).__name__} found")
        return [self.taken(value) for value in values]

    def _message(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self.kind(**value)
        if type(value) is not self.kind:
            raise TypeError(f"Expected a {self.kind.__name__}, but got {value!r:.80}.")
        return copy.copy(value)

    def encoded(self, value: Any) -> bytes:
        """One value, without its key."""
        if self.message:
            return sized(value.SerializeToString())
        if self.kind in FIXED:
            return FIXED[self.kind].pack(value)
        if self.wire == 2:
            return sized(value.encode() if self.kind == "string" else value)
        return varint(int(value) & _WORD)

    def decoded(self, data: Any) -> Any:
        """The value of what stood behind its key. ValueError if it is none."""
        if self.message:
            return self.kind.FromString(data)
        if self.kind in FIXED:
            return FIXED[self.kind].unpack(data)[0]
        if self.kind == "string":
            return data.decode()
        if self.wire == 2:
            return bytes(data)
        if self.kind == "bool":
            return bool(data)
        bits = _RANGES[self.kind] + 1
        return (data + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

    def unpacked(self, data: bytes) -> list[Any]:
        """The numbers of a repeated field that stand in one block."""
        if self.kind in FIXED:
            size = FIXED[self.kind].size
            return list(struct.unpack(f"<{len(data) // size}{self.kind[0]}", data))
        at, out = 0, []
        while at < len(data):
            number, at = read_varint(data, at)
            out.append(self.decoded(number))
        return out


def sized(data: bytes) -> bytes:
    """Bytes behind their number."""
    return varint(len(data)) + data


def single(value: float) -> float:
    """A number as a float32 has it; infinite if it is beyond that."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


class Repeated(MutableSequence[Any]):
    """The values of a repeated field; `add` makes one more of a repeated message."""

    __slots__ = ("_field", "_items", "_owner")

    def __init__(self, field: Field, owner: Any) -> None:
        self._field, self._items, self._owner = field, list[Any](), owner

    def __getitem__(self, at: Any) -> Any:
        return self._items[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self._items[at] = self._field.all_taken(value) if isinstance(at, slice) else self._field.taken(value)
        self._owner.SetInParent()

    def __delitem__(self, at: Any) -> None:
        del self._items[at]
        self._owner.SetInParent()

    def __len__(self) -> int:
        return len(self._items)

    def insert(self, index: int, value: Any) -> None:
        """Put a value, or a copy of a message, at a place."""
        self._items.insert(index, self._field.taken(value))
        self._owner.SetInParent()

    def extend(self, values: Iterable[Any]) -> None:
        """Append values, or copies of messages; all or, where one cannot be, none."""
        self._items.extend(self._field.all_taken(values))
        self._owner.SetInParent()

    def MergeFrom(self, other: Iterable[Any]) -> None:
        """As `extend`."""
        self.extend(other)

    def copied(self, owner: Any) -> Repeated:
        """The same values in another message."""
        made = Repeated(self._field, owner)
        made._items.extend(map(copy.copy, self._items) if self._field.message else self._items)
        return made

    def add(self, **values: Any) -> Any:
        """Append a new message with these fields, and return it."""
        if not self._field.message:
            raise AttributeError("a repeated field of numbers or texts has no attribute 'add'")
        made = self._field.kind(**values)
        self._items.append(made)
        self._owner.SetInParent()
        return made

    def sort(self, **how: Any) -> None:
        """As that of a list."""
        self._items.sort(**how)

    def keep(self, values: Iterable[Any]) -> None:
        """Append values that need no look: they were read from a message."""
        self._items.extend(values)

    def __eq__(self, other: Any) -> bool:
        return self._items == (other._items if isinstance(other, Repeated) else other)

    def __repr__(self) -> str:
        return repr(self._items)


class Map(Mapping[str, Any]):
    """The messages of a mapped field by their texts. Asking for one that is not there makes it, unless by `get`."""

    __slots__ = ("_field", "_items", "_owner")

    def __init__(self, field: Field, owner: Any) -> None:
        self._field, self._items, self._owner = field, dict[str, Any](), owner

    def __getitem__(self, key: Any) -> Any:
        text = _TEXT.taken(key)
        if text not in self._items:
            self._items[text] = self._field.kind()
            self._owner.SetInParent()
        return self._items[text]

    def get(self, key: Any, default: Any = None) -> Any:
        """The message, or the default."""
        return self._items.get(_TEXT.taken(key), default)

    def get_or_create(self, key: Any) -> Any:
        """The message, a new one if there was none."""
        return self[key]

    def __setitem__(self, key: str, value: Any) -> None:
        raise ValueError("May not set values directly, call my_map[key].foo = 5")

    def __delitem__(self, key: str) -> None:
        del self._items[key]

    def __contains__(self, key: object) -> bool:
        return _TEXT.taken(key) in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Drop all."""
        self._items.clear()

    def keep(self, messages: Mapping[Any, Any]) -> None:
        """Take copies of messages in, in the place of those with the same texts."""
        for key, value in messages.items():
            self._items[_TEXT.taken(key)] = self._field.taken(value)
        self._owner.SetInParent()

    def copied(self, owner: Any) -> Map:
        """The same messages in another one."""
        made = Map(self._field, owner)
        made._items.update((key, copy.copy(value)) for key, value in self._items.items())
        return made

    def decode(self, data: bytes) -> None:
        """Take in what one entry's bytes say."""
        found = dict(parts(data))
        key, value = found.get(1, b""), found.get(2, b"")
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise ValueError("an entry of a map that is none")
        self._items[key.decode()] = self._field.decoded(value)

    def encoded(self) -> Iterator[bytes]:
        """The bytes of the entries, by their texts."""
        for key in sorted(self._items, key=str.encode):
            yield sized(block(1, key.encode()) + block(2, self._items[key].SerializeToString()))

    def __repr__(self) -> str:
        return repr(self._items)


_TEXT = Field(1, "string")
