"""Protocol buffers as bytes: the fields of a message, read and written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes

Array = Any

#: The numbers that TensorFlow's files give to types.
NUMBERS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7, "complex64": 8, "int64": 9,
    "bool": 10, "bfloat16": 14, "uint16": 17, "complex128": 18, "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip

_WORD = 2**64 - 1
_MOST_AXES = 254  # as TensorFlow's shapes


def varint(value: int) -> bytes:
    """A number from 0 on in groups of seven bits."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(the number at a place, its lowest 64 bits, where it ends). IndexError if the bytes end before it does.

    ValueError if it has more than ten bytes.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value & _WORD, at
    raise ValueError("a number of more than ten bytes")


def block(field: int, data: bytes) -> bytes:
    """A field that holds bytes, a text or a message."""
    return varint(field << 3 | 2) + varint(len(data)) + data


def parts(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a message: numbers, or bytes (a fixed one's too). IndexError or ValueError if it is none."""
    return [(field, value) for field, _, value in fields(data)]


def fields(data: bytes) -> list[tuple[int, int, Any]]:
    """(number, wire type, value) of each field of a message, as `parts`."""
    out: list[tuple[int, int, Any]] = []
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
            out.append((key >> 3, kind, value))
            continue
        if kind == 2:
            size, at = read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if at + size > len(data):
            raise ValueError("a field that ends after the message does")
        out.append((key >> 3, kind, data[at : at + size]))
        at += size
    return out


def tensor_to_bytes(x: Array, packed: bool = False) -> bytes:
    """As a TensorProto: type, shape, the elements' bytes; texts one by one, or `packed` behind all their lengths."""
    name = dtypes.of_array(x).name
    if x.dtype == object and packed:
        texts = x.reshape(-1).tolist()
        content = block(4, b"".join([*(varint(len(v)) for v in texts), *texts])) if texts else b""
    elif x.dtype == object:
        content = b"".join(block(8, v) for v in x.reshape(-1).tolist())
    else:
        content = block(4, np.ascontiguousarray(x).tobytes()) if x.size else b""
    return b"\x08" + varint(NUMBERS[name]) + block(2, shape_to_bytes(x.shape)) + content


def _unpacked(content: bytes, count: int) -> list[bytes]:
    at, sizes = 0, []
    for _ in range(count):
        size, at = read_varint(content, at)
        sizes.append(size)
    ends = list(itertools.accumulate(sizes, initial=at))
    if ends[-1] != len(content):
        raise ValueError("texts that do not fill what holds them")
    return [content[start:end] for start, end in zip(ends, ends[1:])]


def shape_to_bytes(shape: Iterable[int]) -> bytes:
    """As a TensorShapeProto."""
    return b"".join(block(2, b"\x08" + varint(d) if d else b"") for d in shape)


def shape_from_bytes(data: bytes) -> list[int]:
    """The sizes of which shape_to_bytes made these bytes. IndexError or ValueError if they are none."""
    sizes = [dict(parts(d)).get(1, 0) for number, d in parts(data) if number == 2]
    if len(sizes) > _MOST_AXES or not all(isinstance(size, int) and size < 2**63 for size in sizes):
        raise ValueError("a shape that no tensor has")
    if math.prod(sizes) >= 2**63:
        raise ValueError("more elements than can be counted")
    return sizes


def tensor_from_bytes(data: bytes) -> Array:
    """The array of which tensor_to_bytes made these bytes. IndexError, ValueError or TypeError if it is none."""
    told = parts(data)
    found = dict(told)
    kind = next((name for name, number in NUMBERS.items() if number == found.get(1)), "")
    shape = shape_from_bytes(found.get(2, b""))
    if kind == "string":
        texts = _unpacked(found[4], math.prod(shape)) if 4 in found else []
        texts += [v for number, v in told if number == 8]
        if not all(isinstance(v, bytes) for v in texts):
            raise ValueError("texts that are numbers")
        flat: Array = np.empty(len(texts), object)
        flat[:] = texts
    else:
        flat = np.frombuffer(found.get(4, b""), dtypes.as_dtype(kind).np_dtype)
    return flat.reshape(shape)
