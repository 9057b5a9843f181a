"""Messages of protocol buffers as plain classes: a table of fields, and what programs do with them.

Fields left out of a table are kept as they came. Reading a message's field never makes it present; changing one does.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

from dtfzmq.ops.protos import block, fields, varint
from dtfzmq.summary.fields import FIXED, Field, Map, Repeated, single, sized


class DecodeError(ValueError):
    """The bytes are no such message."""


class FieldDescriptor(NamedTuple):
    """Which field it is, as `ListFields` tells."""

    name: str
    number: int


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
            if field.mapped:
                self._read(name, field).keep(value)
            elif field.repeated:
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
        if field.mapped:
            self._values[name] = Map(field, self)
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
        if field.repeated or field.mapped or not (field.message or field.oneof):
            raise ValueError(f"Field {type(self).__name__}.{field_name} does not have presence.")
        return field_name in self._values

    def WhichOneof(self, oneof_group: str) -> str | None:
        """The name of the field of a oneof that is present, or None. ValueError if there is no such oneof."""
        names = [name for name, field in self.FIELDS.items() if field.oneof == oneof_group]
        if not names or not oneof_group:
            raise ValueError(f"Protocol message {type(self).__name__} has no oneof {oneof_group}.")
        return next((name for name in names if name in self._values), None)

    def ListFields(self) -> list[tuple[FieldDescriptor, Any]]:
        """The fields that are present, or hold something, and their values; by number."""
        return [
            (FieldDescriptor(name, field.number), value)
            for name, field, value in sorted(self._present(), key=lambda item: item[1].number)
        ]

    def _present(self) -> Iterator[tuple[str, Field, Any]]:
        for name, field in self.FIELDS.items():
            value = self._values.get(name)
            alone = (field.message or field.oneof) and not (field.repeated or field.mapped)
            if value is not None and (alone or _told(value)):
                yield name, field, value

    def IsInitialized(self, errors: Any = None) -> bool:
        """True: no field is required."""
        return True

    def FindInitializationErrors(self) -> list[str]:
        """Nothing: no field is required."""
        return []

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

    def __copy__(self) -> Message:
        made = type(self)()
        made._rest = self._rest
        for name, value in self._values.items():
            if isinstance(value, (Repeated, Map)):
                made._values[name] = value.copied(made)
            else:
                made._values[name] = copy.copy(value)
        return made

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self).FromString, (self.SerializeToString(),)

    def __eq__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.SerializeToString() == other.SerializeToString())

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def SerializeToString(self, deterministic: bool = True) -> bytes:
        """Its bytes: the fields by number, then what is not in the table."""
        out: list[bytes] = []
        for _, field, value in sorted(self._present(), key=lambda item: item[1].number):
            key = varint(field.number << 3 | field.wire)
            if field.mapped:
                out.extend(key + entry for entry in value.encoded())
            elif not field.repeated:
                out.append(key + field.encoded(value))
            elif field.wire == 2:
                out.extend(key + field.encoded(item) for item in value)
            elif field.kind in FIXED:
                out.append(block(field.number, struct.pack(f"<{len(value)}{field.kind[0]}", *value)))
            else:
                out.append(block(field.number, b"".join(map(field.encoded, value))))
        return b"".join(out) + self._rest

    def SerializePartialToString(self, deterministic: bool = True) -> bytes:
        """As `SerializeToString`."""
        return self.SerializeToString(deterministic)

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
                    self._rest += varint(value) if wire == 0 else sized(value) if wire == 2 else value
        except (IndexError, ValueError, struct.error) as error:
            text = f"Error parsing message with type '{type(self).__name__}': {error or 'it ends early'}"
            raise DecodeError(text) from None
        self.SetInParent()
        return len(data)

    def _take(self, name: str, field: Field, value: Any) -> None:
        if field.repeated:
            self._read(name, field).keep([field.decoded(value)])
            return
        if field.mapped:
            self._read(name, field).decode(value)
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
        for name, field, value in self._present():
            if field.mapped:
                for key in value:
                    yield from (f"{name} {{", f"  key: {_shown(key, 'string')}", "  value {")
                    yield from (f"    {line}" for line in value[key]._lines())
                    yield from ("  }", "}")
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
    if kind in FIXED:
        digits = next((d for d in range(6, 9) if single(float(f"{value:.{d}g}")) == value), 9)
        return f"{value:.{digits}g}" if kind == "float" else repr(value).removesuffix(".0")
    if kind == "bool":
        return str(value).lower()
    if kind not in ("string", "bytes"):
        return str(value)
    data = value if isinstance(value, bytes) else value.encode()
    escapes = {34: '\\"', 92: "\\\\", 10: "\\n", 9: "\\t", 13: "\\r", 39: "\\'"}
    return '"' + "".join(escapes.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in data) + '"'
