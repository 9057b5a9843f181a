"""Tensor bundles, TensorFlow's checkpoints of version 2: a file of bytes, and an index that says what they are.

`PREFIX.index` is a sorted table of the protocol buffers BundleHeaderProto and BundleEntryProto
(tensorflow/core/protobuf/tensor_bundle.proto); `PREFIX.data-00000-of-00001` has the elements, in rows, little-endian.
"""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import struct
from typing import Any, NamedTuple

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.crc32c import crc32c, masked
from dtfzmq.ops.protos import NUMBERS, block, parts, read_varint, shape_from_bytes, shape_to_bytes, varint
from dtfzmq.train.checkpoints import slices, table
from dtfzmq.train.checkpoints.slices import Part

Array = Any

_NAMES = {number: name for name, number in NUMBERS.items()}
_FIXED = struct.Struct("<I")


class Entry(NamedTuple):
    """What an index says of a tensor, or of a part of one. `parts`: it is kept in these."""

    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    parts: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        """As a BundleEntryProto."""
        out = b"\x08" + varint(NUMBERS[self.dtype]) + block(2, shape_to_bytes(self.shape))
        for field, value in ((3, self.shard), (4, self.offset), (5, self.size)):
            if value:
                out += varint(field << 3) + varint(value)
        if not self.parts:
            out += b"\x35" + _FIXED.pack(self.crc)
        return out + b"".join(block(7, part) for part in self.parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry:
        """IndexError, ValueError or TypeError if it is none."""
        fields = parts(data)
        one = dict(fields)
        if one.get(1) not in _NAMES:
            raise ValueError(f"a tensor of the unknown type {one.get(1)}")
        crc = _FIXED.unpack(one[6])[0] if 6 in one else 0
        shape = tuple(shape_from_bytes(one.get(2, b"")))
        pieces = tuple(value for number, value in fields if number == 7)
        return cls(_NAMES[one[1]], shape, one.get(3, 0), one.get(4, 0), one.get(5, 0), crc, pieces)


# -- writing -----------------------------------------------------------------------------------------------------------


class Writer:
    """A bundle in the making. Nothing is at `prefix` before `finish`, and then all of it.

    A bundle that was there stays whole until the new one has taken its place, whenever this process is killed. The
    errors of a full disk and the like are the system's, OSError.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._shards = _free_count(prefix)
        self._temporary = f"{prefix}.tempstate{secrets.token_hex(8)}"
        os.makedirs(os.path.dirname(prefix) or ".", exist_ok=True)
        self._file = open(self._temporary, "wb")  # noqa: SIM115  # `finish` or `abandon` closes it
        self._entries: dict[bytes, Entry] = {}

    def add(self, name: str, value: Array, whole: tuple[int, ...] = (), part: Part | None = None) -> None:
        """Write a tensor, or with `part` a part of one of the shape `whole`. ValueError for a name that is there."""
        own, dtype, told = name.encode(), dtypes.of_array(value).name, b""
        key, before = own, self._entries.get(own)
        if part is not None:
            key, told = slices.key(name, part), slices.to_proto(part)
            if before is not None and (before.dtype, before.shape) != (dtype, whole):
                raise ValueError(f"A part of {name} is {dtype} of shape {whole}, and others are not.")
        if key in self._entries or before is not None and not before.parts:
            raise ValueError(f"{name} is in the bundle already.")
        if part is not None:
            self._entries[own] = Entry(dtype, whole, 0, 0, 0, 0, (*(before.parts if before else ()), told))
        content, crc = _encoded(value)
        start = self._file.tell()
        for piece in content:
            self._file.write(piece)
        self._entries[key] = Entry(dtype, value.shape, 0, start, self._file.tell() - start, crc)

    def finish(self) -> None:
        """Put the bundle in its place."""
        header = b"\x08" + varint(self._shards) + block(3, b"\x08\x01")
        rows = [(b"", header), *((key, entry.to_bytes()) for key, entry in sorted(self._entries.items()))]
        _sync(self._file)
        index = self._temporary + ".index"
        try:
            with open(index, "wb") as file:
                file.write(table.to_bytes(rows))
                _sync(file)
            for shard in range(1, self._shards):
                open(_data_file(self._prefix, shard, self._shards), "wb").close()
            os.replace(self._temporary, _data_file(self._prefix, 0, self._shards))
            os.replace(index, self._prefix + ".index")
        finally:
            _unlink(index)
        for path in data_files(self._prefix):
            if not path.endswith(f"-of-{self._shards:05d}"):
                _unlink(path)

    def abandon(self) -> None:
        """Leave nothing, if it was not finished."""
        with contextlib.suppress(OSError):  # of a full disk, which has been told
            self._file.close()
        _unlink(self._temporary)


def _encoded(value: Array) -> tuple[list[Any], int]:
    """(what stands in the file, its checksum) of a tensor."""
    if value.dtype != object:
        flat = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return [flat], masked(crc32c(flat))
    texts = value.reshape(-1).tolist()
    lengths = b"".join(varint(len(text)) for text in texts)
    # Of the lengths the checksum is that of fixed numbers; it stands in the file, and is checked in its turn.
    fixed = b"".join(_FIXED.pack(len(t)) if len(t) < 2**32 else struct.pack("<Q", len(t)) for t in texts)
    crc = crc32c(fixed)
    told = _FIXED.pack(masked(crc))
    content = b"".join(texts)
    return [lengths, told, content], masked(crc32c(content, crc32c(told, crc)))


def _free_count(prefix: str) -> int:
    """A number of data files that no bundle at `prefix` has: the old data are whole until the new index is there."""
    taken = {path[-5:] for path in data_files(prefix)}
    return next(count for count in range(1, 100) if f"{count:05d}" not in taken)


def _data_file(prefix: str, shard: int, count: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{count:05d}"


def data_files(prefix: str) -> list[str]:
    """The data files of the bundle at `prefix`."""
    return glob.glob(glob.escape(prefix) + ".data-?????-of-?????")


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


# -- reading -----------------------------------------------------------------------------------------------------------


class Reader:
    """The tensors of a bundle, read when they are asked for; those of one that takes its place meanwhile, if one does.

    NotFoundError if there is no bundle at `prefix`, DataLossError if its files are not what was written.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._load()

    def _load(self) -> None:
        prefix, path = self._prefix, self._prefix + ".index"
        try:
            with open(path, "rb") as file:
                rows = table.from_bytes(file.read())
            header = dict(parts(rows.pop(b"")))
            self._shards = header.get(1, 0)
            self._entries = {key: Entry.from_bytes(row) for key, row in rows.items()}
            if header.get(2):
                raise ValueError("numbers of a big-endian machine")
        except FileNotFoundError:
            raise errors.NotFoundError(None, None, f"There is no checkpoint {prefix}: no file {path}.") from None
        except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
            text = f"{path} is not the index of a checkpoint, or damaged: {error}."
            raise errors.DataLossError(None, None, text) from None

    def names(self) -> list[str]:
        """The tensors, in order."""
        return [key.decode() for key in self._entries if not key.startswith(b"\x00")]

    def __contains__(self, name: str) -> bool:
        return name.encode() in self._entries

    def entry(self, name: str) -> Entry:
        """Type and shape of a tensor. NotFoundError if there is none of that name."""
        found = self._entries.get(name.encode())
        if found is None:
            raise errors.NotFoundError(None, None, f"Key {name} not found in checkpoint {self._prefix}")
        return found

    def read(self, name: str, part: Part | None = None) -> Array:
        """A tensor, or a part of it. DataLossError if a checksum says that it is not what was written."""
        try:
            return self._read(name, part)
        except FileNotFoundError:
            self._load()
        try:
            return self._read(name, part)
        except FileNotFoundError as error:
            raise self._damaged(name, f"there is no file {error.filename}") from None

    def _read(self, name: str, part: Part | None) -> Array:
        entry = self.entry(name)
        wanted = part or Part((0,) * len(entry.shape), entry.shape)
        if not entry.parts:
            value = self._stored(name, entry)
            return value if part is None else value[wanted.place]
        out = np.empty(wanted.size, dtypes.as_dtype(entry.dtype).np_dtype)
        left = out.size
        for proto in entry.parts:
            try:
                have, as_key = slices.from_proto(proto, entry.shape)
            except (IndexError, TypeError, ValueError) as error:
                raise self._damaged(name, str(error)) from None
            begin = np.maximum(have.offset, wanted.offset)
            size = np.minimum(np.add(have.offset, have.size), np.add(wanted.offset, wanted.size)) - begin
            if (size <= 0).any():
                continue
            stored = self._entries.get(slices.key(name, as_key))
            if stored is None or stored.shape != have.size or stored.dtype != entry.dtype:
                raise self._damaged(name, "one of its parts is missing")
            value = self._stored(name, stored)
            inside = Part(tuple(begin - have.offset), tuple(size))
            out[Part(tuple(begin - wanted.offset), tuple(size)).place] = value[inside.place]
            left -= int(size.prod())
        if left:
            raise self._damaged(name, "its parts do not fill it")
        return out

    def _stored(self, name: str, entry: Entry) -> Array:
        path = _data_file(self._prefix, entry.shard, self._shards)
        with open(path, "rb") as file:
            if entry.offset + entry.size > os.fstat(file.fileno()).st_size:
                raise self._damaged(name, f"{path} ends before it does")
            file.seek(entry.offset)
            raw = np.fromfile(file, np.uint8, entry.size)
        try:
            value, crc = self._decoded(raw, entry)
        except (IndexError, TypeError, ValueError, struct.error) as error:
            raise self._damaged(name, str(error)) from None
        if crc != entry.crc:
            raise self._damaged(name, f"its checksum is {crc:#x}, and {entry.crc:#x} was written")
        return value

    @staticmethod
    def _decoded(raw: Array, entry: Entry) -> tuple[Array, int]:
        dtype = dtypes.as_dtype(entry.dtype).np_dtype
        count = int(np.prod(entry.shape, dtype=object))
        if entry.dtype != "string":
            if count * dtype.itemsize != len(raw):
                raise ValueError("it has another size than its shape")
            return raw.view(dtype).reshape(entry.shape), masked(crc32c(raw))
        data, at, texts = raw.tobytes(), 0, []
        lengths = []
        for _ in range(count):
            length, at = read_varint(data, at)
            lengths.append(length)
        at += _FIXED.size
        if at + sum(lengths) != len(data):
            raise ValueError("its texts do not fill it")
        for length in lengths:
            texts.append(data[at : at + length])
            at += length
        value: Array = np.empty(count, object)
        value[:] = texts
        value = value.reshape(entry.shape)
        return value, _encoded(value)[1]

    def _damaged(self, name: str, why: str) -> errors.DataLossError:
        return errors.DataLossError(None, None, f"Tensor {name} of checkpoint {self._prefix} is damaged: {why}.")
