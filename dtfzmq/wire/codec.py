"""Messages to ``[msgpack header][one buffer]`` and back.

A header is a msgpack array; tensors in it are descriptors, and their bytes stand one after the other in the second
frame. On a lane within one process tensors are handed over as read-only arrays in frames of their own. Whatever bytes
come in, decoding raises WireError and nothing else; there is no pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import numpy as np

from dtfzmq.base import collecting, errors
from dtfzmq.wire import tensors
from dtfzmq.wire.message import WireError, find_layout, layout_named, layout_of, plain

Array = tensors.Array
Announce = Callable[[Array], "list[Any] | None"]
# A header of so many bytes for each makes about one list.
_BYTES_PER_PART = 32


def pack(header: Any) -> bytes:
    """A header as msgpack. Raises TypeError, ValueError or OverflowError for what is not plain data."""
    data: bytes = msgpack.packb(header, default=plain)
    return data


def unpack(frame: Any) -> list[Any]:
    """The array that a header frame holds. Raises WireError for anything else."""
    try:
        # A graph's header holds a list per node; other messages are far below the bound.
        with collecting.paused(len(frame) // _BYTES_PER_PART):
            header = msgpack.unpackb(frame)
    except Exception as exc:  # msgpack raises ValueError, TypeError, UnicodeDecodeError and classes of its own
        raise WireError(f"the header is not msgpack ({exc})") from None
    if type(header) is not list or not header:
        raise WireError("the header is not an array")
    return header


class TensorWriter:
    """Collects the tensors of one message; `announce` takes those that are not to travel with it."""

    __slots__ = ("_announce", "_copy", "_parts", "_reference", "nbytes")

    def __init__(self, reference: bool, announce: Announce | None = None, copy: bool = False) -> None:
        self._reference = reference
        self._copy = copy
        self._announce = announce
        self._parts: list[Any] = []
        self.nbytes = 0

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
            announced = self._announce(array)
            if announced is not None:
                return announced
        descriptor, data = tensors.encode(array)
        self._parts.append(data)
        self.nbytes += len(data)
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
        if type(descriptor) is list and len(descriptor) == 4 and self._fetch is not None:
            return self._fetch(descriptor)
        array, self._at = tensors.decode(descriptor, self._data, self._at, self._limit)
        return array


def has_tensors(message: Any) -> bool:
    """True if the message's type has fields for tensors."""
    return bool(layout_of(type(message)).tensors)


def body(message: Any, writer: TensorWriter) -> list[Any]:
    """A message as ``[name, field, ...]`` with its tensors given to `writer`. Raises TypeError for a bad field."""
    layout = layout_of(type(message))
    out: list[Any] = [layout.name, *layout.values(message)]
    for i in layout.tensors:
        out[i + 1] = [writer.add(v) for v in out[i + 1]]
    return out


def plain_body(message: Any) -> list[Any]:
    """`body` of a message without tensors."""
    layout = layout_of(type(message))
    return [layout.name, *layout.values(message)]


def plain_message(data: list[Any]) -> Any:
    """The message of `plain_body`; None if its type has tensors. Raises WireError."""
    layout = find_layout(data[0]) if data else None
    return message(data, _NO_TENSORS) if layout is not None and not layout.tensors else None


def message(data: Any, reader: TensorReader) -> Any:
    """The message that `body` made. Raises WireError."""
    if type(data) is not list or not data or type(data[0]) is not str:
        raise WireError("a message's body is malformed")
    layout = layout_named(data[0])
    values = data[1 : len(layout.fields) + 1]
    if len(values) < layout.required:
        raise WireError(f"{layout.name} lacks {layout.fields[len(values)]}")
    made: list[Any] = []
    checks, of_tensors = layout.checks, layout.tensors
    try:
        for value in values:
            i = len(made)
            if i not in of_tensors:
                made.append(checks[i](value))
            elif type(value) is list:
                made.append([reader.take(v) for v in value])
            else:
                raise WireError("not a list of tensors")
    except WireError as exc:
        raise WireError(f"{layout.name}.{layout.fields[len(made)]}: {exc}") from None
    return layout.cls(*made)


_NO_TENSORS = TensorReader((), False, 0)


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
