"""Sorted tables: files of keys and values in order, as LevelDB lays them out and TensorFlow writes its indices.

The format is LevelDB's doc/table_format.md: blocks of entries, a block that says where the blocks are, and a footer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from dtfzmq.base.crc32c import crc32c, masked
from dtfzmq.ops.protos import read_varint, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_BLOCK = 1 << 18
_RESTART = 16  # entries that share the start of their keys with the one before, at most


def _block(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    out, restarts, before = bytearray(), [0], b""
    for count, (key, value) in enumerate(entries):
        shared = 0
        if count % _RESTART:
            most = min(len(before), len(key))
            while shared < most and before[shared] == key[shared]:
                shared += 1
        elif count:
            restarts.append(len(out))
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block that is shorter than its own table")
    at, key = 0, b""
    while at < end:
        shared, at = read_varint(block, at)
        rest, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if at + rest + size > end or shared > len(key):
            raise ValueError("an entry that ends after its block does")
        key = key[:shared] + block[at : at + rest]
        at += rest + size
        yield key, block[at - size : at]


def to_bytes(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The table of entries whose keys ascend."""
    out, index, waiting, size = bytearray(), list[tuple[bytes, bytes]](), list[tuple[bytes, bytes]](), 0

    def flush(block: bytes) -> bytes:
        handle = varint(len(out)) + varint(len(block))
        block += b"\0"  # not compressed
        out.extend(block + struct.pack("<I", masked(crc32c(block))))
        return handle

    for entry in entries:
        waiting.append(entry)
        size += len(entry[0]) + len(entry[1])
        if size >= _BLOCK:
            index.append((entry[0], flush(_block(waiting))))
            waiting, size = [], 0
    if waiting:
        index.append((waiting[-1][0], flush(_block(waiting))))
    handles = flush(_block(())) + flush(_block(index))
    return bytes(out) + handles.ljust(_FOOTER - 8, b"\0") + struct.pack("<Q", _MAGIC)


def from_bytes(data: bytes) -> dict[bytes, bytes]:
    """The entries of a table, in order. ValueError or IndexError, with a text, if the bytes are none."""
    if len(data) < _FOOTER or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise ValueError("it does not end as a table does")
    at = len(data) - _FOOTER
    beside, at = _handle(data, at)
    _read(data, *beside)  # of what is beside the entries TensorFlow has none; it may be damaged all the same
    index, _ = _handle(data, at)
    found: dict[bytes, bytes] = {}
    for _, handle in _entries(_read(data, *index)):
        found.update(_entries(_read(data, *_handle(handle, 0)[0])))
    return found


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """((where a block begins, its size), where this ends)."""
    start, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return (start, size), at


def _read(data: bytes, start: int, size: int) -> bytes:
    end = start + size
    if end + 5 > len(data):
        raise ValueError("a block that ends after the file does")
    if struct.unpack("<I", data[end + 1 : end + 5])[0] != masked(crc32c(data[start : end + 1])):
        raise ValueError("a block whose checksum is another")
    if data[end] != 0:
        raise ValueError("a compressed block")
    return data[start:end]
