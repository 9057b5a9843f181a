"""Files of records, written and read by a program itself: what ``tf.python_io`` has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from dtfzmq.base import tfrecords


class TFRecordCompressionType:
    """How a file of records is compressed."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """How a file of records is written and read. Of zlib's settings only `compression_level` makes a difference."""

    compression_type_map: ClassVar[dict[int, str]] = {
        TFRecordCompressionType.ZLIB: "ZLIB", TFRecordCompressionType.GZIP: "GZIP", TFRecordCompressionType.NONE: "",
    }  # fmt: skip

    def __init__(
        self, compression_type: Any = None, flush_mode: int | None = None, input_buffer_size: int | None = None,
        output_buffer_size: int | None = None, window_bits: int | None = None, compression_level: int | None = None,
        compression_method: int | None = None, mem_level: int | None = None, compression_strategy: int | None = None,
    ) -> None:  # fmt: skip
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """"", "ZLIB" or "GZIP", of options, of a TFRecordCompressionType or of such a text. ValueError for others."""
        if not options:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if options in cls.compression_type_map:
            return cls.compression_type_map[options]
        if options in tfrecords.COMPRESSIONS:
            return str(options)
        raise ValueError(f'Not a valid compression_type: "{options}"')


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a file.

    NotFoundError if there is no such file; DataLossError for a record that is not what was written, or not all of it. A
    file that ends within the first twelve bytes of a record ends before it.
    """
    return tfrecords.records(tfrecords.path_of(path), TFRecordOptions.get_compression_type_string(options))


class TFRecordWriter:
    """Writes records to a new file, which has them all once it is closed, as by the end of a ``with``."""

    def __init__(self, path: Any, options: Any = None) -> None:
        given = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
        kind = TFRecordOptions.get_compression_type_string(given)
        self._file = tfrecords.RecordWriter(tfrecords.path_of(path), kind, given.compression_level)

    def write(self, record: Any) -> None:
        """Append a record of bytes, or of a text in UTF-8."""
        self._file.write(record.encode() if isinstance(record, str) else bytes(record))

    def flush(self) -> None:
        """What was written is in the file."""
        self._file.flush()

    def close(self) -> None:
        """Everything is in the file, which is closed."""
        self._file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
