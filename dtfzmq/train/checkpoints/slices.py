"""How a tensor bundle names the parts of a partitioned variable.

A key holds the name and the place of the part, so coded that keys sort as what they hold; a reader finds a part by
making its key. The code is TensorFlow's ordered code: numbers with their length in front, texts with escapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dtfzmq.ops.protos import block, parts, varint


class Part(NamedTuple):
    """Where a part of a tensor begins in each dimension, and how far it goes."""

    offset: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def place(self) -> tuple[slice, ...]:
        """It as an index of an array."""
        return tuple(slice(o, o + s) for o, s in zip(self.offset, self.size))


def key(name: str, part: Part) -> bytes:
    """The key of a part."""
    text = name.encode().replace(b"\xff", b"\xff\x00").replace(b"\x00", b"\x00\xff")
    ends = b"".join(_signed(o) + _signed(s) for o, s in zip(part.offset, part.size))
    return b"\x00" + text + b"\x00\x01" + _unsigned(len(part.offset)) + ends


def _unsigned(value: int) -> bytes:
    size = -(-value.bit_length() // 8)
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """A number from 0 on: as many leading ones as it has bytes, a zero for its sign, its bits. Or -1: all there is."""
    if value < 0:
        return b"\x7f"
    size = value.bit_length() // 7 + 1
    return (value | ((1 << size) - 1) << (7 * size)).to_bytes(size, "big")


def to_proto(part: Part) -> bytes:
    """It as a TensorSliceProto."""
    extents = [(b"\x08" + varint(o) if o else b"") + b"\x10" + varint(s) for o, s in zip(part.offset, part.size)]
    return b"".join(block(1, extent) for extent in extents)


def from_proto(data: bytes, shape: Sequence[int]) -> tuple[Part, Part]:
    """(the part, the same as its key has it) of a TensorSliceProto. ValueError if no tensor of `shape` has it.

    An extent without a length is all of its dimension.
    """
    extents = [dict(parts(extent)) for number, extent in parts(data) if number == 1]
    if len(extents) != len(shape):
        raise ValueError("a part of another rank than its tensor")
    offset = tuple(extent.get(1, 0) for extent in extents)
    size = tuple(extent.get(2, whole) for extent, whole in zip(extents, shape))
    if any(o + s > whole for o, s, whole in zip(offset, size, shape)):
        raise ValueError("a part that reaches beyond its tensor")
    return Part(offset, size), Part(offset, tuple(extent.get(2, -1) for extent in extents))
