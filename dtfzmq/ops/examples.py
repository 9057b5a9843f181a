"""Examples as bytes (tensorflow/core/example/example.proto): the features that are asked for, as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dtfzmq.ops.protos import block, fields, parts, varint

Array = Any

#: A feature's kinds as errors name them, by the field that each has in a Feature.
KINDS = {1: "string", 2: "float", 3: "int64"}
#: The same by the names of types.
KIND_OF = {"string": "string", "float32": "float", "int64": "int64"}
_TYPES = {"float": np.float32, "int64": np.int64}


def by_name(features: Iterable[bytes]) -> dict[bytes, bytes]:
    """The bytes of each feature (or list of features) of messages that map names to them. ValueError, IndexError."""
    out: dict[bytes, bytes] = {}
    for message in features:
        for number, entry in parts(message):
            if number == 1:
                found = dict(parts(_bytes(entry)))
                out[_bytes(found.get(1, b""))] = _bytes(found.get(2, b""))
    return out


def of_example(data: bytes) -> dict[bytes, bytes]:
    """The bytes of an example's features, by name. ValueError or IndexError if it is none."""
    return by_name(_bytes(value) for number, value in parts(data) if number == 1)


def of_sequence(data: bytes) -> tuple[dict[bytes, bytes], dict[bytes, list[bytes]]]:
    """The bytes of the features of a sequence and of each step, by name. ValueError or IndexError if it is none."""
    told = parts(data)
    lists = by_name(_bytes(value) for number, value in told if number == 2)
    steps = {name: [_bytes(v) for number, v in parts(entry) if number == 1] for name, entry in lists.items()}
    return by_name(_bytes(value) for number, value in told if number == 1), steps


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number where there should be bytes")
    return value


def values_of(feature: bytes) -> tuple[str, Array]:
    """Kind and values of a feature; the kind is "" if none is set. ValueError or IndexError if it is none."""
    kind, found = "", b""
    for number, value in parts(feature):
        if number in KINDS:
            now = KINDS[number]
            found = found + _bytes(value) if now == kind else _bytes(value)
            kind = now
    if not kind:
        return "", np.empty(0)
    if kind == "string":
        texts = [_bytes(value) for number, value in parts(found) if number == 1]
        out = np.empty(len(texts), object)
        out[:] = texts
        return kind, out
    pieces = [_numbers(kind, wire, value) for number, wire, value in fields(found) if number == 1]
    return kind, pieces[0] if len(pieces) == 1 else np.concatenate([np.empty(0, np.dtype(_TYPES[kind])), *pieces])


def _numbers(kind: str, wire: int, value: Any) -> Array:
    """The numbers of one field: one alone, or a block of them."""
    if kind == "float":
        if wire not in (2, 5) or len(value) % 4:
            raise ValueError("bytes that are no floats")
        return np.frombuffer(value, "<f4").astype(np.float32)
    if wire == 2:
        return _varints(value)
    if wire != 0:
        raise ValueError("bytes that are no whole numbers")
    return np.array([value], np.uint64).view(np.int64)


def _varints(data: bytes) -> Array:
    """The int64s of a block, in groups of seven bits."""
    raw = np.frombuffer(data, np.uint8)
    if not len(raw):
        return np.empty(0, np.int64)
    ends = np.flatnonzero(raw < 128)
    if len(ends) == len(raw):
        return raw.astype(np.int64)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise ValueError("a number that does not end")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > 10:
        raise ValueError("a number of more than ten bytes")
    place = (np.arange(len(raw)) - np.repeat(starts, lengths)).astype(np.uint64)
    bits = (raw & 127).astype(np.uint64) << place * np.uint64(7)
    return np.bitwise_or.reduceat(bits, starts).view(np.int64)


def feature(value: Any) -> bytes:
    """A feature of an array of texts, floats or whole numbers: for samples."""
    array = np.asarray(value)
    if array.dtype == object:
        return block(1, b"".join(block(1, text) for text in array.tolist()))
    if array.dtype.kind == "f":
        return block(2, block(1, array.astype("<f4").tobytes()))
    return block(3, block(1, b"".join(varint(int(number) & 2**64 - 1) for number in array.tolist())))


def example(**features: Any) -> bytes:
    """An example of arrays by name: for samples."""
    return block(1, mapped({name: feature(value) for name, value in features.items()}))


def mapped(messages: dict[str, bytes]) -> bytes:
    """A message that maps names to messages: for samples."""
    return b"".join(block(1, block(1, name.encode()) + block(2, value)) for name, value in messages.items())
