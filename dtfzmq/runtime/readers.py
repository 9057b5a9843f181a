"""Readers: records of files, whose names come from a queue, one after the other. A read that waits holds no thread.

Reads of one reader follow each other. One that needs a name waits at the queue as a dequeue does, so that a cancelled
one takes none. A name that came as its step was cancelled is kept for the next read, and so is the rest of a file.
Sources: tensorflow/core/framework/reader_base.cc and the kernels of each reader.
"""

from __future__ import annotations

import collections
import os
import threading
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.tfrecords import RecordFile, failed, opened
from dtfzmq.base.threads import Runner
from dtfzmq.runtime.queues import Cancellable, Done

Record = tuple[bytes, bytes]


class Step(Cancellable, Protocol):
    """What a read needs of its step."""

    #: Runs what may take long.
    runner: Runner


class _Read:
    """One read that has not ended; it is also the `done` of its dequeue."""

    __slots__ = ("came", "count", "ctx", "done", "ended", "error", "gone", "many", "name", "queue", "reader", "records",
                 "token", "waits")  # fmt: skip

    def __init__(self, reader: Reader, ctx: Step, queue: Any, count: int, many: bool, done: Done) -> None:
        self.reader = reader
        self.ctx = ctx
        self.queue = queue
        self.count = count
        self.many = many
        self.done = done
        self.records: list[Record] = []
        self.token: Any = None
        self.gone = False  # the step is over
        self.ended = False
        # Of its dequeue: the answer came; it came, or will, after the dequeue returned.
        self.came = False
        self.waits = False
        self.name = b""
        self.error: errors.OpError | None = None

    def __call__(self, value: Any = None) -> None:
        self.name = value.item() if isinstance(value, np.ndarray) else bytes(value)
        self.reader._answered(self)

    def fail(self, error: errors.OpError) -> None:
        """The queue gives no name."""
        self.error = error
        self.reader._answered(self)

    def cancelled(self) -> None:
        """The step is over."""
        self.reader._cancel(self)


class Reader:
    """What all readers do. Any thread. Subclasses say how a file is begun and what its next record is."""

    kind = "ReaderBase"
    #: A file is one record.
    whole = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._line: collections.deque[_Read] = collections.deque()
        self._busy: _Read | None = None
        self._kept: bytes | None = None  # a name that was taken and not begun
        # What stands below belongs to who holds this, for as long as it takes to read.
        self._files = threading.Lock()
        self._started = 0
        self._finished = 0
        self._produced = 0
        self._work = b""

    # -- files, for subclasses; under `_files` -------------------------------------------------------------------------

    def _begin(self, path: str) -> None:
        """A file's turn has come."""

    def _next(self) -> Record | None:
        """Key and value of the next record, or None at the end of the file."""
        raise NotImplementedError

    def _end(self) -> None:
        """Nothing more is read of the file."""

    # -- operations ----------------------------------------------------------------------------------------------------

    def read(self, ctx: Step, queue: Any, count: int | None, done: Done) -> None:
        """The next record, as (key, value), or vectors of up to `count`, which are of one file.

        Fails OutOfRange if the queue is closed and used up; NotFound and its kin for a file that cannot be read.
        """
        problem = ""
        if tuple(queue.dtypes) != (dtypes.string,):
            problem = "Expected queue with single string component"
        elif count is not None and count < 0:
            problem = f"num_records must not be negative, but is {count}"
        if problem:
            done.fail(errors.InvalidArgumentError(None, None, problem))
            return
        if count == 0:
            done((np.empty(0, object), np.empty(0, object)))
            return
        read = _Read(self, ctx, queue, count or 1, count is not None, done)
        with self._lock:
            self._line.append(read)
            first = self._pick()
        if first is read:
            self._go_on(read)
        else:
            self._submit(first)
        if not read.ended:
            read.token = ctx.on_cancel(read.cancelled, self._let)
            self._let()  # it may have been held and let go of before it was heard of
            if read.ended:
                ctx.off_cancel(read.token)

    def records_produced(self) -> int:
        """How many records were read."""
        with self._files:
            return self._produced

    def work_units_completed(self) -> int:
        """How many files were read to their ends."""
        with self._files:
            return self._finished

    def reset(self) -> None:
        """Begin anew, with the next file."""
        with self._files:
            self._close()
            self._work = b""
            self._started = self._finished = self._produced = 0

    def state(self) -> tuple[int, int, int, bytes]:
        """Files begun and finished, records read, and the last name. UnimplementedError if it may stand amid a file."""
        if not self.whole:
            raise errors.UnimplementedError(None, None, "Reader SerializeState")
        with self._files:  # a name that was taken and not read yet counts as not begun
            return self._finished, self._finished, self._produced, self._work

    def restore(self, state: tuple[int, int, int, bytes]) -> None:
        """Stand where `state` says. InvalidArgumentError for counts that cannot be."""
        if not self.whole:
            raise errors.UnimplementedError(None, None, "Reader RestoreState")
        started, finished, produced, _ = state
        problem = ""
        if not all(0 <= count < 1 << 63 for count in (started, finished, produced)):
            problem = "Unexpected negative value"
        elif started != finished:
            problem = "Inconsistent work started vs. finished"
        if problem:
            text = f"{problem} when restoring in {self.name}: {started} begun, {finished} finished, {produced} records"
            raise errors.InvalidArgumentError(None, None, text)
        with self._files:
            self._started, self._finished, self._produced, self._work = state

    def match(self, kind: str, name: str) -> None:
        """Raise InvalidArgumentError if a node that shares this reader asks for another one."""
        if kind != self.kind:
            text = f"Shared reader '{self.name}' is a {self.kind}, but node '{name}' asks for a {kind}"
            raise errors.InvalidArgumentError(None, None, text)

    # -- whose turn it is ----------------------------------------------------------------------------------------------

    def _pick(self) -> _Read | None:
        """The read whose turn has come, if any; lock held."""
        if self._busy is None:
            self._busy = next((read for read in self._line if not read.ctx.held), None)
            if self._busy is not None:
                self._line.remove(self._busy)
                return self._busy
        return None

    def _submit(self, read: _Read | None) -> None:
        """Let a read go on where it may take long: whoever brought its turn may hold up others."""
        if read is not None:
            read.ctx.runner.submit(partial(self._go_on, read))

    def _let(self) -> None:
        with self._lock:
            first = self._pick()
        self._submit(first)

    def _cancel(self, read: _Read) -> None:
        with self._lock:
            read.gone = True
            if read not in self._line:
                return  # its dequeue hears of it as well; one that reads now comes to its end
            self._line.remove(read)
            read.ended = True
        read.done.fail(_cancelled())

    def _answered(self, read: _Read) -> None:
        with self._lock:
            read.came = True
            waits = read.waits
        if waits:
            self._submit(read)

    def _finish(self, read: _Read, call: Callable[[], None]) -> None:
        with self._lock:
            read.ended = True
            self._busy = None
            following = self._pick()
        if read.token is not None:
            read.ctx.off_cancel(read.token)
        self._submit(following)
        call()

    # -- reading -------------------------------------------------------------------------------------------------------

    def _go_on(self, read: _Read) -> None:
        """Read, by whoever brought the turn or the name, until it has ended or waits for a name."""
        try:
            while not self._records(read):
                if not self._named(read):
                    return
        except Exception as error:
            self._finish(read, partial(read.done.fail, errors.wrap(error, self.kind)))
            return
        self._finish(read, partial(_give, read))

    def _named(self, read: _Read) -> bool:
        """Begin the file of the next name. False if the name is not there yet."""
        if not read.came and self._kept is None:
            read.queue.dequeue(read.ctx, read)
            with self._lock:
                if not read.came:
                    read.waits = True
                    return False
        if read.came:
            read.came = read.waits = False
            if read.error is not None:
                raise read.error
            self._kept = read.name
        if read.gone:
            raise _cancelled()
        with self._files:
            name, self._kept = self._kept or b"", None
            self._begin(os.fsdecode(name))
            self._work = name
            self._started += 1
        return True

    def _records(self, read: _Read) -> bool:
        """Read of the file that was begun, if any. False if another one is needed."""
        if read.came:
            return False
        with self._files:
            while self._started > self._finished and len(read.records) < read.count:
                if read.gone and not read.records:
                    raise _cancelled()
                try:
                    found = self._next()
                except errors.OpError:
                    if read.records:
                        return True  # the next read meets it again
                    raise
                if found is not None:
                    self._produced += 1
                    read.records.append(found)
                if found is None or self.whole:
                    self._finished = self._started
                    self._close()
                    break
        return bool(read.records)

    def _close(self) -> None:
        self._end()
        self._finished = self._started


def _give(read: _Read) -> None:
    if not read.many:
        key, value = read.records[0]
        read.done((np.array(key, object), np.array(value, object)))
        return
    keys, values = np.empty(len(read.records), object), np.empty(len(read.records), object)
    keys[:] = [key for key, _ in read.records]
    values[:] = [value for _, value in read.records]
    read.done((keys, values))


def _cancelled() -> errors.OpError:
    error = errors.CancelledError(None, None, "Read operation was cancelled")
    error.derived = True
    return error


class IdentityReader(Reader):
    """Names as they come."""

    kind = "IdentityReader"
    whole = True

    def _begin(self, path: str) -> None:
        self._name = os.fsencode(path)

    def _next(self) -> Record | None:
        return self._name, self._name


class WholeFileReader(IdentityReader):
    """Each file as one record."""

    kind = "WholeFileReader"

    def _next(self) -> Record | None:
        path = os.fsdecode(self._name)
        try:
            with opened(path) as file:
                return self._name, file.read()
        except OSError as error:
            raise failed(path, error) from None


class _FileReader(Reader):
    """Has a file open for as long as it reads of it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._file: Any = None
        self._path = ""

    def _end(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _record(self, place: int, value: bytes) -> Record:
        return os.fsencode(self._path) + b":%d" % place, value


class TextLineReader(_FileReader):
    """Lines, without their ends. Keys count from 1 on, and the lines that are left out with them."""

    kind = "TextLineReader"

    def __init__(self, name: str, skip: int) -> None:
        super().__init__(name)
        if skip < 0:
            raise errors.InvalidArgumentError(None, None, f"skip_header_lines must be >= 0 not {skip}")
        self._skip = skip
        self._number = 0

    def _begin(self, path: str) -> None:
        self._path, self._file, self._number = path, opened(path), 0
        while self._number < self._skip and self._line_of_file() is not None:
            pass

    def _line_of_file(self) -> bytes | None:
        try:
            line: bytes = self._file.readline()
        except OSError as error:
            raise failed(self._path, error) from None
        if not line:
            return None
        self._number += 1
        return line.removesuffix(b"\n").removesuffix(b"\r")

    def _next(self) -> Record | None:
        line = self._line_of_file()
        return None if line is None else self._record(self._number, line)


class TFRecordReader(_FileReader):
    """Records as TFRecordWriter writes them. A key has the place of its record in the file."""

    kind = "TFRecordReader"

    def __init__(self, name: str, compression: str) -> None:
        super().__init__(name)
        self._compression = compression

    def _begin(self, path: str) -> None:
        self._path, self._file = path, RecordFile(path, self._compression)

    def _next(self) -> Record | None:
        at = self._file.at
        data = self._file.next()
        return None if data is None else self._record(at, data)


class FixedLengthRecordReader(_FileReader):
    """Pieces of one size, each `hop` bytes behind the one before it, between a file's head and its foot."""

    kind = "FixedLengthRecordReader"

    def __init__(self, name: str, size: int, header: int, footer: int, hop: int, encoding: str) -> None:
        super().__init__(name)
        if size <= 0 or header < 0 or footer < 0 or hop < 0:
            text = (
                f"record_bytes must be positive and others not negative: record_bytes {size}, header_bytes {header}, "
                f"footer_bytes {footer}, hop_bytes {hop}"
            )
            raise errors.InvalidArgumentError(None, None, text)
        self._size, self._header, self._footer, self._hop = size, header, footer, hop or size
        self._zipped = encoding == "ZLIB"
        self._data = b""
        self._number = self._stop = 0

    def _begin(self, path: str) -> None:
        file = opened(path)
        try:
            if self._zipped:
                self._data = zlib.decompress(file.read())
            length = len(self._data) if self._zipped else os.fstat(file.fileno()).st_size
        except zlib.error as error:
            file.close()
            raise errors.DataLossError(None, None, f"{path} cannot be uncompressed: {error}") from None
        self._path, self._file, self._number, self._stop = path, file, 0, length - self._footer

    def _next(self) -> Record | None:
        at = self._header + self._number * self._hop
        if at + self._size > self._stop:
            return None
        if self._zipped:
            value = self._data[at : at + self._size]
        else:
            try:
                self._file.seek(at)
                value = self._file.read(self._size)
            except OSError as error:
                raise failed(self._path, error) from None
        if len(value) < self._size:
            raise errors.DataLossError(None, None, f"{self._path} became shorter as it was read: no record at {at}")
        self._number += 1
        return self._record(self._number - 1, value)

    def _end(self) -> None:
        super()._end()
        self._data = b""
