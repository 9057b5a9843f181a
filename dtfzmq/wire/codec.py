"""Messages to ``[msgpack header][one buffer]`` and back.

A header is a msgpack array; tensors in it are descriptors, and their bytes stand one after the other in the second
frame. The first few small ones of a message stand in their descriptors: a second frame costs more than the copies. On
a lane within one process tensors are handed over as read-only arrays in frames of their own. Whatever bytes come in,
decoding raises WireError and nothing else; there is no pickle.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import numpy as np

from dtfzmq.base import collecting, errors
from dtfzmq.wire import tensors
from dtfzmq.wire.message import WireError, layout_named, layout_of, plain

Array = tensors.Array
Announce = Callable[[Array, int], "list[Any] | None"]
# A header of so many bytes for each makes about one list.
_BYTES_PER_PART = 32
_LONG = collecting.LARGE * _BYTES_PER_PART
# Bytes of the tensors of one message that stand in its header. Measured: a second frame costs 3 us at each end, copying
# these into and out of a header 0.3 us.
IN_HEADER = 2048


class _Packer(threading.local):
    """A packer for each thread: making one takes longer than packing a header."""

    def __init__(self) -> None:
        self.one = msgpack.Packer(default=plain)


_packer = _Packer()


def pack(header: Any) -> bytes:
    """A header as msgpack. Raises TypeError, ValueError or OverflowError for what is not plain data."""
    data: bytes = _packer.one.pack(header)
    if len(data) > _LONG:
        _packer.one = msgpack.Packer(default=plain)  # the old one would keep memory for as much again
    return data


def unpack(frame: Any) -> list[Any]:
    """The array that a header frame holds. Raises WireError for anything else."""
    try:
        if len(frame) <= _LONG:
            header = msgpack.unpackb(frame)
        else:  # a graph's header holds a list per node
            with collecting.paused(len(frame) // _BYTES_PER_PART):
                header = msgpack.unpackb(frame)
    except Exception as exc:  # msgpack raises ValueError, TypeError, UnicodeDecodeError and classes of its own
        raise WireError(f"the header is not msgpack ({str(exc) or type(exc).__name__})") from None
    if type(header) is not list or not header:
        raise WireError("the header is not an array")
    return header


class TensorWriter:
    """Collects the tensors of one message.

    ``announce(array, limit)`` takes those that are not to travel with it, since they have more than `limit` bytes, or
    the message would have more than `most`; it returns None for strings that turn out to be smaller.
    """

    __slots__ = ("_announce", "_copy", "_left", "_limit", "_parts", "_reference", "_room")

    def __init__(
        self, reference: bool, announce: Announce | None = None, limit: int = 0, most: int = 0, copy: bool = False
    ) -> None:
        self._reference = reference
        self._copy = copy
        self._announce = announce
        self._limit = limit
        self._left = most
        self._parts: list[Any] = []
        self._room = IN_HEADER

    def add(self, value: Any) -> Any:
        """The descriptor of `value`; None stays None. Raises TypeError for what cannot travel."""
        if value is None:
            return None
        array = tensors.normal(value)
        if self._reference:
            frozen = array.copy() if self._copy else array.view()
            frozen.flags.writeable = False
            self._parts.append(frozen)
            return len(self._parts)
        if self._announce is not None:
            limit = min(self._limit, self._left)
            if array.nbytes > limit or array.dtype.hasobject:
                announced = self._announce(array, limit)
                if announced is not None:
                    return announced
        descriptor, data = tensors.encode(array)
        self._left -= len(data)
        if len(data) <= self._room:
            self._room -= len(data)
            descriptor[2] = data
        else:
            self._parts.append(data)
        return descriptor

    def frames(self, header: Any) -> list[Any]:
        """The message's frames, once `header` holds all descriptors."""
        parts = self._parts
        if self._reference:
            return [pack(header), *parts]
        if not parts:
            return [pack(header)]
        return [pack(header), parts[0] if len(parts) == 1 else b"".join(parts)]


class TensorReader:
    """Gives the tensors of one message in the order of their descriptors.

    `fetch(descriptor)` is asked for an announced one and returns what stands for it until it has come.
    """

    __slots__ = ("_at", "_data", "_fetch", "_frames", "_limit", "_reference")

    def __init__(
        self, frames: Sequence[Any], reference: bool, limit: int, fetch: Callable[[list[Any]], Any] | None = None
    ) -> None:
        self._frames = frames
        self._reference = reference
        self._data: Any = frames[1] if len(frames) > 1 else b""
        self._at = 0
        self._limit = limit
        self._fetch = fetch

    def take(self, descriptor: Any) -> Any:
        """The tensor of `descriptor`. Raises WireError, or UnimplementedError for bfloat16 without its package."""
        if descriptor is None:
            return None
        if self._reference:
            if type(descriptor) is not int or not 0 < descriptor < len(self._frames):
                raise WireError("a tensor's place is malformed")
            return self._frames[descriptor]
        if type(descriptor) is list:
            if len(descriptor) == 3 and type(descriptor[2]) is bytes:
                return tensors.within(descriptor, self._limit)
            if len(descriptor) == 4 and self._fetch is not None:
                return self._fetch(descriptor)
        array, self._at = tensors.decode(descriptor, self._data, self._at, self._limit)
        return array


def body(message: Any, writer: TensorWriter) -> list[Any]:
    """A message as ``[name, field, ...]`` with its tensors given to `writer`. Raises TypeError for a bad field."""
    layout = layout_of(type(message))
    out: list[Any] = [layout.name, *layout.values(message)]
    for i in layout.tensors:
        out[i + 1] = [writer.add(v) for v in out[i + 1]]
    return out


def message(data: Any, reader: TensorReader) -> Any:
    """The message that `body` made. Raises WireError."""
    if type(data) is not list or not data or type(data[0]) is not str:
        raise WireError("a message's body is malformed")
    layout = layout_named(data[0])
    values = data[1 : len(layout.fields) + 1]
    if len(values) < layout.required:
        raise WireError(f"{layout.name} lacks {layout.fields[len(values)]}")
    made: list[Any] = []
    try:
        for value, kind in zip(values, layout.kinds):
            if type(value) is kind:
                made.append(value)
            elif len(made) not in layout.tensors:
                made.append(layout.checks[len(made)](value))
            elif type(value) is list:
                made.append([reader.take(v) for v in value])
            else:
                raise WireError("not a list of tensors")
    except WireError as exc:
        raise WireError(f"{layout.name}.{layout.fields[len(made)]}: {exc}") from None
    return layout.cls(*made)


def encode(msg: Any) -> list[Any]:
    """A message with all its tensors as frames of its own: what files, tests and captures use."""
    writer = TensorWriter(reference=False)
    return writer.frames(body(msg, writer))


def decode(frames: Sequence[Any], limit: int = 1 << 40) -> Any:
    """The message of `encode`. Raises WireError and nothing else."""
    if not frames:
        raise WireError("there are no frames")
    try:
        return message(unpack(frames[0]), TensorReader(frames, False, limit))
    except errors.UnimplementedError as exc:
        raise WireError(exc.message) from None
    except (MemoryError, ValueError, TypeError, OverflowError) as exc:
        raise WireError(f"the message cannot be decoded ({exc})") from None


def same(a: Any, b: Any) -> bool:
    """True if two messages of one type are equal, tensors bit for bit; for tests and traces."""
    if type(a) is not type(b):
        return False
    layout = layout_of(type(a))
    for i, name in enumerate(layout.fields):
        x, y = getattr(a, name), getattr(b, name)
        if i in layout.tensors:
            if len(x) != len(y) or not all(_same_tensor(p, q) for p, q in zip(x, y)):
                return False
        elif x != y:
            return False
    return True


def _same_tensor(x: Any, y: Any) -> bool:
    if x is None or y is None:
        return x is y
    p, q = tensors.normal(x), tensors.normal(y)
    if p.dtype != q.dtype or p.shape != q.shape:
        return False
    if p.dtype.hasobject:
        return bool(np.all(p == q)) if p.size else True
    return p.tobytes() == q.tobytes()
