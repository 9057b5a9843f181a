"""Records of bytes in a file as TensorFlow frames them (tensorflow/core/lib/io/record_writer.h, record_reader.h).

A record is its length, eight bytes, and their checksum, then the data and theirs; all little-endian. The whole file may
be compressed.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from dtfzmq.base import errors
from dtfzmq.base.crc32c import crc32c, masked

#: What `compression_type` may be.
COMPRESSIONS = ("", "ZLIB", "GZIP")
_HEAD = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_KINDS: dict[int | None, type[errors.OpError]] = {
    errno.ENOENT: errors.NotFoundError,
    errno.EACCES: errors.PermissionDeniedError,
    errno.EPERM: errors.PermissionDeniedError,
    errno.EISDIR: errors.FailedPreconditionError,
    errno.ENOTDIR: errors.FailedPreconditionError,
    errno.ENAMETOOLONG: errors.InvalidArgumentError,
    errno.EMFILE: errors.ResourceExhaustedError,
    errno.ENFILE: errors.ResourceExhaustedError,
    errno.ENOSPC: errors.ResourceExhaustedError,
}
# Data are read in pieces, so that a length that is damaged asks for no more memory than the file is large.
_PIECE = 1 << 20


def framed(data: bytes) -> bytes:
    """A record."""
    length = struct.pack("<Q", len(data))
    return length + _CRC.pack(masked(crc32c(length))) + data + _CRC.pack(masked(crc32c(data)))


def failed(path: str, error: OSError) -> errors.OpError:
    """What the system says of a file, as TensorFlow does."""
    kind = _KINDS.get(error.errno, errors.UnknownError)
    return kind(None, None, f"{path}; {error.strerror or error}")


def local(path: str) -> str:
    """A path without the ``file://`` that it may start with."""
    return path.removeprefix("file://")


def opened(path: str) -> Any:
    """A file to be read. NotFoundError and its kin if it cannot be."""
    try:
        return open(local(path), "rb")
    except OSError as error:
        raise failed(path, error) from None


class _Inflated(io.RawIOBase):
    """The bytes that a file of zlib's holds."""

    def __init__(self, file: Any) -> None:
        self._file, self._undo, self._began = file, zlib.decompressobj(), False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        made = b""
        while not made and not self._undo.eof:
            packed = self._undo.unconsumed_tail or self._file.read(_PIECE)
            if not packed and self._began:
                raise EOFError("the file ends before its data do")
            if not packed:
                return 0
            self._began = True
            made = self._undo.decompress(packed, len(target))
        target[: len(made)] = made
        return len(made)

    def close(self) -> None:
        self._file.close()
        super().close()


class RecordFile:
    """A file of records, read one after the other. Errors as those of `records`."""

    def __init__(self, path: str, compression: str = "") -> None:
        self._path = path
        self._whole = opened(path)
        self._file: Any = self._whole
        if compression == "GZIP":
            self._file = gzip.GzipFile(fileobj=self._whole)
        elif compression == "ZLIB":
            self._file = io.BufferedReader(_Inflated(self._whole))
        #: Where the next record begins, in what the file is uncompressed.
        self.at = 0
        self._failed: errors.OpError | None = None

    def next(self) -> bytes | None:
        """The data of the next record, or None after the last one. One that is damaged is met again and again."""
        if self._failed is not None:
            raise self._failed
        try:
            return self._next()
        except errors.OpError as error:
            self._failed = error
            raise

    def _next(self) -> bytes | None:
        head = self._read(_HEAD.size)
        if len(head) < _HEAD.size:  # amid a head as well, as TensorFlow has it
            return None
        length, crc = _HEAD.unpack(head)
        if masked(crc32c(head[:8])) != crc:
            raise self._lost("corrupted")
        data = self._read(length)
        tail = self._read(_CRC.size)
        if len(data) < length or len(tail) < _CRC.size:
            raise self._lost("truncated")
        if masked(crc32c(data)) != _CRC.unpack(tail)[0]:
            raise self._lost("corrupted")
        self.at += _HEAD.size + length + _CRC.size
        return data

    def _lost(self, how: str) -> errors.DataLossError:
        return errors.DataLossError(None, None, f"{how} record at {self.at} of {self._path}")

    def _read(self, length: int) -> bytes:
        pieces = []
        try:
            while length > 0:
                piece = self._file.read(min(length, _PIECE))
                if not piece:
                    break
                pieces.append(piece)
                length -= len(piece)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise errors.DataLossError(None, None, f"{self._path} cannot be uncompressed: {error}") from None
        except OSError as error:
            raise failed(self._path, error) from None
        return b"".join(pieces)

    def close(self) -> None:
        """Close it."""
        self._file.close()
        self._whole.close()


def records(path: str, compression: str = "") -> Iterator[bytes]:
    """The data of a file's records.

    NotFoundError if there is no such file; DataLossError for a record that is not what was written, or not all of it. A
    file that ends amid the head of a record, its length and the checksum of that, ends before it.
    """
    file = RecordFile(path, compression)
    try:
        while (data := file.next()) is not None:
            yield data
    finally:
        file.close()


class RecordWriter:
    """Writes records to a file, which begins anew. What the system says of it is told as `failed` has it."""

    def __init__(self, path: str, compression: str = "", level: int | None = None) -> None:
        self._path = path
        try:
            self._whole = open(local(path), "wb")  # noqa: SIM115  # closed by close()
        except OSError as error:
            raise failed(path, error) from None
        self._pack: Any = None
        if compression:
            bits = zlib.MAX_WBITS + (16 if compression == "GZIP" else 0)
            self._pack = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, bits)

    def write(self, record: bytes) -> None:
        """Append a record. FailedPreconditionError after `close`."""
        self._look()
        data = framed(record)
        self._put(data if self._pack is None else self._pack.compress(data))

    def flush(self) -> None:
        """What was written is in the file. FailedPreconditionError after `close`."""
        self._look()
        if self._pack is not None:
            self._put(self._pack.flush(zlib.Z_SYNC_FLUSH))
        try:
            self._whole.flush()
        except OSError as error:
            raise failed(self._path, error) from None

    def _look(self) -> None:
        if self._whole.closed:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")

    def _put(self, data: bytes) -> None:
        try:
            self._whole.write(data)
        except OSError as error:
            raise failed(self._path, error) from None

    def close(self) -> None:
        """Everything is in the file, which is closed."""
        if self._whole.closed:
            return
        if self._pack is not None:
            self._put(self._pack.flush())
        try:
            self._whole.close()
        except OSError as error:
            raise failed(self._path, error) from None


def path_of(name: Any) -> str:
    """A path as the system has it: of a text, of bytes, or of what stands for a path."""
    return os.fsdecode(os.fspath(name))
