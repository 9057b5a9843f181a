"""Messages of protocol buffers as plain classes: a table of fields, and what programs do with them.

Fields left out of a table are kept as they came. Reading a message's field never makes it present; changing one does.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterable, MutableSequence
from typing import Any, ClassVar, NamedTuple

from dtfzmq.ops.protos import block, fields, read_varint, varint

_WORD = 2**64 - 1
_RANGES = {"int64": 63, "int32": 31, "enum": 31}
_FIXED = {"double": struct.Struct("<d"), "float": struct.Struct("<f")}
_FLOAT = struct.Struct("f")


class DecodeError(ValueError):
    """The bytes are no such message."""


class Field(NamedTuple):
    """What is known of a field. `kind`: double, float, int64, int32, enum, bool, string, bytes, or the message's class.

    Of the fields with the same `oneof` one at most is present.
    """

    number: int
    kind: Any
    repeated: bool = False
    oneof: str = ""

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
            if not isinstance(value, (str, bytes, bytearray)):
                raise TypeError(f"expected bytes, {type(value).__name__} found")
            return value.encode() if isinstance(value, str) else bytes(value)
        if isinstance(value, (str, bytes)):
            raise TypeError(f"must be real number, not {type(value).__name__}")
        return float(value) if self.kind == "double" else _single(float(value))

    def _message(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self.kind(**value)
        if type(value) is not self.kind:
            raise TypeError(f"Expected a {self.kind.__name__}, but got {value!r:.80}.")
        return copy.copy(value)

    def encoded(self, value: Any) -> bytes:
        """One value, without its key."""
        if self.message:
            return _sized(value.SerializeToString())
        if self.kind in _FIXED:
            return _FIXED[self.kind].pack(value)
        if self.wire == 2:
            return _sized(value.encode() if self.kind == "string" else value)
        return varint(int(value) & _WORD)

    def decoded(self, data: Any) -> Any:
        """The value of what stood behind its key. ValueError if it is none."""
        if self.message:
            return self.kind.FromString(data)
        if self.kind in _FIXED:
            return _FIXED[self.kind].unpack(data)[0]
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
        if self.kind in _FIXED:
            size = _FIXED[self.kind].size
            return list(struct.unpack(f"<{len(data) // size}{self.kind[0]}", data))
        at, out = 0, []
        while at < len(data):
            number, at = read_varint(data, at)
            out.append(self.decoded(number))
        return out


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def _single(value: float) -> float:
    """A number as a float32 has it; infinite if it is beyond that."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


class Repeated(MutableSequence[Any]):
    """The values of a repeated field; `add` makes one more of a repeated message."""

    __slots__ = ("_field", "_items", "_owner")

    def __init__(self, field: Field, owner: Message) -> None:
        self._field, self._items, self._owner = field, list[Any](), owner

    def __getitem__(self, at: Any) -> Any:
        return self._items[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        take = self._field.taken
        self._items[at] = list(map(take, value)) if isinstance(at, slice) else take(value)
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


def _accessors(name: str, field: Field) -> property:
    def get(self: Message) -> Any:
        return self._read(name, field)

    def put(self: Message, value: Any) -> None:
        if field.repeated or field.message:
            raise AttributeError(f'Assignment not allowed to composite field "{name}" in protocol message object.')
        self._write(name, field.taken(value))

    return property(get, put)


class Message:
    """A message. Subclasses have a table `FIELDS`, by name; its fields are their attributes and keyword arguments."""

    FIELDS: ClassVar[dict[str, Field]] = {}

    def __init_subclass__(cls) -> None:
        cls.declare(cls.FIELDS)

    @classmethod
    def declare(cls, table: dict[str, Field]) -> None:
        """Give the class its table: for those whose fields are of classes that come later."""
        cls.FIELDS = table
        for name, field in table.items():
            setattr(cls, name, _accessors(name, field))

    def __init__(self, **values: Any) -> None:
        self._values: dict[str, Any] = {}
        self._unborn: dict[str, Any] = {}  # messages that were read, and have nothing in them yet
        self._rest = b""
        self._owner: tuple[Message, str] | None = None  # of which this is an unborn field
        for name, value in values.items():
            field = self.FIELDS.get(name)
            if field is None:
                raise ValueError(f'Protocol message {type(self).__name__} has no "{name}" field.')
            if value is None:
                continue
            if field.repeated:
                self._read(name, field).extend(value)
            else:
                self._write(name, field.taken(value))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS and not name.startswith("_"):
            raise AttributeError(f'Protocol message {type(self).__name__} has no "{name}" field.')
        object.__setattr__(self, name, value)

    def _read(self, name: str, field: Field) -> Any:
        found = self._values.get(name)
        if found is not None:
            return found
        if field.repeated:
            self._values[name] = Repeated(field, self)
            return self._values[name]
        if not field.message:
            return field.default()
        made = self._unborn.get(name)
        if made is None:
            made = self._unborn[name] = field.kind()
            made._owner = self, name
        return made

    def _write(self, name: str, value: Any) -> None:
        self._alone(name)
        self._values[name] = value
        self.SetInParent()

    def _alone(self, name: str) -> None:
        """Drop the field that is present of those of which this one is to be."""
        oneof = self.FIELDS[name].oneof
        present = self.WhichOneof(oneof) if oneof else None
        if present is not None and present != name:
            del self._values[present]

    def SetInParent(self) -> None:
        """Make this message present in the one of which it is a field."""
        if self._owner is not None:
            (owner, name), self._owner = self._owner, None
            owner._unborn.pop(name, None)
            owner._write(name, self)

    # -- asking, clearing, copying -------------------------------------------------------------------------------------

    def _known(self, name: str) -> Field:
        field = self.FIELDS.get(name)
        if field is None:
            raise ValueError(f"Protocol message {type(self).__name__} has no field {name}.")
        return field

    def HasField(self, field_name: str) -> bool:
        """Whether a message, or one of a oneof, is present. ValueError for other fields: those have always a value."""
        field = self._known(field_name)
        if field.repeated or not (field.message or field.oneof):
            raise ValueError(f"Field {type(self).__name__}.{field_name} does not have presence.")
        return field_name in self._values

    def WhichOneof(self, oneof_group: str) -> str | None:
        """The name of the field of a oneof that is present, or None. ValueError if there is no such oneof."""
        names = [name for name, field in self.FIELDS.items() if field.oneof == oneof_group]
        if not names or not oneof_group:
            raise ValueError(f"Protocol message {type(self).__name__} has no oneof {oneof_group}.")
        return next((name for name in names if name in self._values), None)

    def ClearField(self, field_name: str) -> None:
        """Make a field as it was before it was written."""
        self._known(field_name)
        self._values.pop(field_name, None)
        self.SetInParent()

    def Clear(self) -> None:
        """Make all fields as they were before they were written."""
        self._values.clear()
        self._rest = b""
        self.SetInParent()

    def CopyFrom(self, other_msg: Message) -> None:
        """Be as another message of this type."""
        if other_msg is not self:
            data = self._of_same(other_msg)
            self.Clear()
            self.MergeFromString(data)

    def MergeFrom(self, other_msg: Message) -> None:
        """Take what is present in another message; values of repeated fields come behind those here."""
        self.MergeFromString(self._of_same(other_msg))

    def _of_same(self, other: Message) -> bytes:
        if type(other) is not type(self):
            raise TypeError(f"Parameter must be instance of same class: expected {type(self)} got {type(other)}.")
        return other.SerializeToString()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self).FromString, (self.SerializeToString(),)

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.SerializeToString() == other.SerializeToString())

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def SerializeToString(self, deterministic: bool = True) -> bytes:
        """Its bytes: the fields by number, then what is not in the table."""
        out = []
        for name, field in sorted(self.FIELDS.items(), key=lambda item: item[1].number):
            value = self._values.get(name)
            if value is None or not (field.message or field.oneof) and not _told(value):
                continue
            key = varint(field.number << 3 | field.wire)
            if not field.repeated:
                out.append(key + field.encoded(value))
            elif field.wire == 2:
                out.extend(key + field.encoded(item) for item in value)
            elif field.kind in _FIXED:
                out.append(block(field.number, struct.pack(f"<{len(value)}{field.kind[0]}", *value)))
            else:
                out.append(block(field.number, b"".join(map(field.encoded, value))))
        return b"".join(out) + self._rest

    def ByteSize(self) -> int:
        """How many bytes it is."""
        return len(self.SerializeToString())

    def ParseFromString(self, serialized: bytes) -> int:
        """Be the message of these bytes. DecodeError if they are none."""
        self.Clear()
        return self.MergeFromString(serialized)

    def MergeFromString(self, serialized: bytes) -> int:
        """Take what is present in the message of these bytes. DecodeError if they are none."""
        if isinstance(serialized, str):
            raise TypeError("expected bytes, str found")
        data = bytes(serialized)
        by_number = {field.number: (name, field) for name, field in self.FIELDS.items()}
        try:
            for number, wire, value in fields(data):
                name, field = by_number.get(number, ("", None))
                if field is not None and wire == field.wire:
                    self._take(name, field, value)
                elif field is not None and field.repeated and wire == 2:
                    self._read(name, field).keep(field.unpacked(value))
                else:
                    self._rest += varint(number << 3 | wire)
                    self._rest += varint(value) if wire == 0 else _sized(value) if wire == 2 else value
        except (IndexError, ValueError, struct.error) as error:
            text = f"Error parsing message with type '{type(self).__name__}': {error or 'it ends early'}"
            raise DecodeError(text) from None
        self.SetInParent()
        return len(data)

    def _take(self, name: str, field: Field, value: Any) -> None:
        if field.repeated:
            self._read(name, field).keep([field.decoded(value)])
            return
        self._alone(name)
        before = self._values.get(name)
        if field.message and before is not None:
            before.MergeFromString(value)
        else:
            self._values[name] = field.decoded(value)

    @classmethod
    def FromString(cls, s: bytes) -> Any:
        """The message of these bytes. DecodeError if they are none."""
        made = cls()
        made.MergeFromString(s)
        return made

    # -- text ----------------------------------------------------------------------------------------------------------

    def _lines(self) -> Iterable[str]:
        for name, field in self.FIELDS.items():
            value = self._values.get(name)
            if value is None or not (field.message or field.oneof) and not _told(value):
                continue
            for item in value if field.repeated else [value]:
                if field.message:
                    yield f"{name} {{"
                    yield from (f"  {line}" for line in item._lines())
                    yield "}"
                else:
                    yield f"{name}: {_shown(item, field.kind)}"

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    __repr__ = __str__


def _told(value: Any) -> bool:
    """Whether a value that is there by default as well is written: -0.0 is."""
    return bool(value) or isinstance(value, float) and str(value) == "-0.0"


def _shown(value: Any, kind: str) -> str:
    """A value in the text of a message."""
    if kind in _FIXED:
        digits = next((d for d in range(6, 9) if _single(float(f"{value:.{d}g}")) == value), 9)
        return f"{value:.{digits}g}" if kind == "float" else repr(value).removesuffix(".0")
    if kind == "bool":
        return str(value).lower()
    if kind not in ("string", "bytes"):
        return str(value)
    data = value if isinstance(value, bytes) else value.encode()
    escapes = {34: '\\"', 92: "\\\\", 10: "\\n", 9: "\\t", 13: "\\r", 39: "\\'"}
    return '"' + "".join(escapes.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data) + '"'
