"""Readers: what stands in the graph for files that are read record by record, on the task where they lie.

The names of the files come from a queue of strings, which stands on that task too. A read that waits for a name holds
no thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.base.tfrecords import COMPRESSIONS
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, op
from dtfzmq.graph.shape_rules import none, scalar
from dtfzmq.ops.protos import block, parts, varint
from dtfzmq.ops.raw import raw

_STATE = NO_GRAD("state that is not differentiable")
_WHERE = "container: str = '', shared_name: str = ''"


def _declare(name: str, more: str = "") -> None:
    op(
        name, f"; {more}{_WHERE} -> reader_handle: resource", shape=scalar, make=lambda node, env: env.resource(node),
        stateful=True, grad=_STATE,
    )  # fmt: skip


def _read(node: Any, env: Any) -> Any:
    return lambda ctx, inputs, done: inputs[0].read(ctx, inputs[1], None, done)


def _read_up_to(node: Any, env: Any) -> Any:
    return lambda ctx, inputs, done: inputs[0].read(ctx, inputs[1], int(inputs[2]), done)


def _state(reader: Any) -> Any:
    *counts, work = reader.state()
    out = b"".join(varint(number << 3) + varint(count) for number, count in enumerate(counts, 1) if count)
    return np.array(out + (block(4, work) if work else b""), object)


def _restore(reader: Any, state: Any) -> None:
    data = bytes(np.asarray(state).item())
    try:
        found = dict(parts(data))
        counts = [int(found.get(number, 0)) for number in (1, 2, 3)]
        work = bytes(found.get(4, b""))
    except (IndexError, ValueError, TypeError):
        text = f"Could not parse state for {reader.name}: {data!r:.80}"
        raise errors.InvalidArgumentError(None, None, text) from None
    reader.restore((*counts, work))


_declare("IdentityReaderV2")
_declare("WholeFileReaderV2")
_declare("TextLineReaderV2", "skip_header_lines: int = 0, ")
_declare("TFRecordReaderV2", "compression_type: str = '', ")
_declare(
    "FixedLengthRecordReaderV2",
    "record_bytes: int, header_bytes: int = 0, footer_bytes: int = 0, hop_bytes: int = 0, encoding: str = '', ",
)
op(
    "ReaderReadV2", "reader_handle: resource, queue_handle: resource -> key: string, value: string", shape=scalar,
    start=_read, stateful=True, holds=True, grad=_STATE,
)  # fmt: skip
op(
    "ReaderReadUpToV2",
    "reader_handle: resource, queue_handle: resource, num_records: int64 -> keys: string, values: string",
    shape=lambda n: [TensorShape([None])] * 2, start=_read_up_to, stateful=True, holds=True, grad=_STATE,
)  # fmt: skip
op(
    "ReaderNumRecordsProducedV2", "reader_handle: resource -> records_produced: int64", shape=scalar,
    kernel=lambda reader: np.int64(reader.records_produced()), stateful=True, holds=True, grad=_STATE,
)  # fmt: skip
op(
    "ReaderNumWorkUnitsCompletedV2", "reader_handle: resource -> units_completed: int64", shape=scalar,
    kernel=lambda reader: np.int64(reader.work_units_completed()), stateful=True, holds=True, grad=_STATE,
)  # fmt: skip
op(
    "ReaderSerializeStateV2", "reader_handle: resource -> state: string", shape=scalar, kernel=_state, stateful=True,
    holds=True, grad=_STATE,
)  # fmt: skip
op(
    "ReaderRestoreStateV2", "reader_handle: resource, state: string ->", shape=none, kernel=_restore, stateful=True,
    holds=True, grad=_STATE,
)  # fmt: skip
op(
    "ReaderResetV2", "reader_handle: resource ->", shape=none, kernel=lambda reader: reader.reset(), stateful=True,
    holds=True, grad=_STATE,
)  # fmt: skip


class ReaderBase:
    """What all readers do. They read on the task where they stand, of files that are there, one after the other.

    A read ends as OutOfRangeError once the queue of names is closed and used up, and as NotFoundError or DataLossError
    where a file is not as it should be.
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether `serialize_state` and `restore_state` work."""
        return self._supports_serialize

    def read(self, queue: Any, name: str | None = None) -> Any:
        """(key, value) of the next record; the name of a file is taken out of the queue where one is needed."""
        return raw.ReaderReadV2(self._reader_ref, _handle(queue), name=name)

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """(keys, values) of the next records of one file, `num_records` at most and, but for 0, one at least."""
        return raw.ReaderReadUpToV2(self._reader_ref, _handle(queue), num_records, name=name)

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records were read, int64."""
        return raw.ReaderNumRecordsProducedV2(self._reader_ref, name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many files were read to their ends, int64."""
        return raw.ReaderNumWorkUnitsCompletedV2(self._reader_ref, name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Where the reader stands, as a text. UnimplementedError at run time if it may stand amid a file."""
        return raw.ReaderSerializeStateV2(self._reader_ref, name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """Go where `serialize_state` said."""
        made: Operation = raw.ReaderRestoreStateV2(self._reader_ref, state, name=name)
        return made

    def reset(self, name: str | None = None) -> Operation:
        """Begin anew with the next file, and count from 0 on."""
        made: Operation = raw.ReaderResetV2(self._reader_ref, name=name)
        return made


def _handle(queue: Any) -> Tensor:
    found: Tensor = queue if isinstance(queue, Tensor) else queue.queue_ref
    return found


class IdentityReader(ReaderBase):
    """Keys and values are the names themselves."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(raw.IdentityReaderV2(name=name), supports_serialize=True)


class WholeFileReader(ReaderBase):
    """A file's name is the key, and what is in it the value."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(raw.WholeFileReaderV2(name=name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """Lines without their ends, after the first `skip_header_lines` of each file; keys are ``file:number``."""

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(raw.TextLineReaderV2(skip_header_lines=skip_header_lines or 0, name=name))


class FixedLengthRecordReader(ReaderBase):
    """Pieces of `record_bytes` of each file between its head and its foot; keys are ``file:number``.

    Each begins `hop_bytes` behind the one before it, where they are given. With the encoding "ZLIB" the file is
    compressed.
    """

    def __init__(
        self, record_bytes: int, header_bytes: int | None = None, footer_bytes: int | None = None,
        hop_bytes: int | None = None, name: str | None = None, encoding: str | None = None,
    ) -> None:  # fmt: skip
        if (encoding or "") not in ("", "ZLIB"):
            raise ValueError(f"The encoding of records is '' or 'ZLIB', not {encoding!r}.")
        made = raw.FixedLengthRecordReaderV2(
            record_bytes=record_bytes, header_bytes=header_bytes or 0, footer_bytes=footer_bytes or 0,
            hop_bytes=hop_bytes or 0, encoding=encoding or "", name=name,
        )  # fmt: skip
        super().__init__(made)


class TFRecordReader(ReaderBase):
    """Records of files that tf.python_io.TFRecordWriter writes; keys are ``file:place``."""

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        given: Any = getattr(options, "compression_type", options) or ""
        kind = {1: "ZLIB", 2: "GZIP"}.get(given, given)
        if kind not in COMPRESSIONS:
            raise ValueError(f'Not a valid compression_type: "{kind}"')
        super().__init__(raw.TFRecordReaderV2(compression_type=kind, name=name))
