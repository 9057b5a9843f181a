"""Readers: whose turn it is, what a cancelled or held read leaves, and files that are not as they should be."""

from __future__ import annotations

import errno
import gzip
import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import dtypes, errors, tfrecords
from dtfzmq.base.shapes import TensorShape
from dtfzmq.ops.protos import varint
from dtfzmq.ops.raw import raw
from dtfzmq.runtime import readers
from dtfzmq.runtime.queues import FIFOQueue
from dtfzmq.runtime.readers import IdentityReader, Reader, TextLineReader
from tests.kit.waiting import wait_for


class Step:
    """What a read needs of its step. Its pool runs what it is given when the test says so."""

    def __init__(self) -> None:
        self.held = False
        self.tokens = 0
        self.watchers: dict[int, tuple[Callable[[], None], Callable[[], None] | None]] = {}
        self.work: list[Callable[[], None]] = []
        self.runner: Any = self

    def submit(self, fn: Callable[[], None]) -> None:
        self.work.append(fn)

    def go(self) -> None:
        while self.work:
            self.work.pop(0)()

    def on_cancel(self, fn: Callable[[], None], on_hold: Callable[[], None] | None = None) -> int:
        self.tokens += 1
        self.watchers[self.tokens] = fn, on_hold
        return self.tokens

    def off_cancel(self, token: int) -> None:
        self.watchers.pop(token, None)

    def cancel(self) -> None:
        watchers, self.watchers = list(self.watchers.values()), {}
        for fn, _ in watchers:
            fn()

    def hold(self, held: bool) -> None:
        self.held = held
        for _, fn in list(self.watchers.values()):
            if fn is not None:
                fn()


class Done:
    def __init__(self) -> None:
        self.value: Any = None
        self.error: errors.OpError | None = None

    def __call__(self, value: Any = None) -> None:
        assert self.value is None and self.error is None
        self.value = tuple(part.tolist() for part in value)

    def fail(self, error: errors.OpError) -> None:
        assert self.value is None and self.error is None
        self.error = error


def names(*given: str) -> FIFOQueue:
    queue = FIFOQueue("names", -1, [dtypes.string], [TensorShape([])])
    for name in given:
        put(queue, name)
    return queue


def put(queue: FIFOQueue, name: str) -> None:
    queue.enqueue(Step(), (np.array(name.encode(), object),), lambda value=None: None)  # type: ignore[arg-type]


def read(reader: Reader, queue: FIFOQueue, step: Step, count: int | None = None) -> Done:
    done = Done()
    reader.read(step, queue, count, done)
    return done


def test_a_read_that_waits_goes_on_in_the_pool_of_its_step() -> None:
    reader, queue, step = IdentityReader("r"), names(), Step()
    done = read(reader, queue, step)
    assert done.value is None and queue.waiting() == 1 and not step.work
    put(queue, "a")
    assert done.value is None  # whoever brought the name does not read
    step.go()
    assert done.value == (b"a", b"a") and not step.watchers


def test_reads_take_their_turns() -> None:
    reader, queue, steps = IdentityReader("r"), names(), [Step(), Step(), Step()]
    done = [read(reader, queue, step) for step in steps]
    for name in "abc":
        put(queue, name)
    for step in (steps[0], steps[1], steps[2]):
        step.go()
    assert [d.value for d in done] == [(b"a", b"a"), (b"b", b"b"), (b"c", b"c")]
    assert reader.records_produced() == reader.work_units_completed() == 3


def test_a_cancelled_read_takes_no_name_and_lets_the_next_one_go() -> None:
    reader, queue, first, second, third = IdentityReader("r"), names(), Step(), Step(), Step()
    gone, in_line, kept = read(reader, queue, first), read(reader, queue, second), read(reader, queue, third)
    second.cancel()  # it waits for its turn
    assert isinstance(in_line.error, errors.CancelledError) and in_line.error.derived
    first.cancel()  # it waits for a name
    first.go()
    assert isinstance(gone.error, errors.CancelledError)
    put(queue, "a")
    third.go()
    assert kept.value == (b"a", b"a") and queue.size() == 0
    assert not first.watchers and not third.watchers


def test_a_name_that_came_too_late_is_the_next_reads(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("1\n2\n")
    reader, queue, step = TextLineReader("r", 0), names(), Step()
    gone = read(reader, queue, step)
    put(queue, str(path))
    step.cancel()  # after the name was given to it, before the file is begun
    step.go()
    assert isinstance(gone.error, errors.CancelledError) and reader.records_produced() == 0
    assert read(reader, queue, Step()).value == (f"{path}:1".encode(), b"1")


def test_a_name_that_came_too_late_and_is_no_file_is_told_to_the_next_read(tmp_path: Path) -> None:
    reader, queue, step = TextLineReader("r", 0), names(), Step()
    gone = read(reader, queue, step)
    put(queue, str(tmp_path / "missing"))
    step.cancel()
    step.go()
    assert isinstance(gone.error, errors.CancelledError)
    assert isinstance(read(reader, queue, Step()).error, errors.NotFoundError)
    put(queue, str(tmp_path / "missing"))
    assert queue.size() == 1  # the name was taken once


def test_a_read_that_was_let_go_of_before_it_heard_of_it() -> None:
    class Quick(Step):
        def on_cancel(self, fn: Callable[[], None], on_hold: Callable[[], None] | None = None) -> int:
            self.held = False
            return super().on_cancel(fn, on_hold)

    reader, queue, step = IdentityReader("r"), names("a"), Quick()
    step.held = True
    done = read(reader, queue, step)
    step.go()
    assert done.value == (b"a", b"a") and not step.watchers


def test_a_held_read_lets_others_go_first() -> None:
    reader, queue, held, other = IdentityReader("r"), names("a", "b"), Step(), Step()
    held.held = True
    first = read(reader, queue, held)
    assert first.value is None
    assert read(reader, queue, other).value == (b"a", b"a")
    held.hold(False)
    held.go()
    assert first.value == (b"b", b"b") and not held.watchers


def test_a_closed_queue_ends_the_reads_in_line() -> None:
    reader, queue, steps = IdentityReader("r"), names(), [Step(), Step()]
    done = [read(reader, queue, step) for step in steps]
    queue.close()
    for step in steps:
        step.go()
    assert all(isinstance(d.error, errors.OutOfRangeError) for d in done)


def test_many_empty_files_are_no_deep_recursion(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    (tmp_path / "one").write_text("x")
    reader = TextLineReader("r", 0)
    queue = names(*[str(tmp_path / "none")] * 3000, str(tmp_path / "one"))
    assert read(reader, queue, Step()).value[1] == b"x"
    assert reader.work_units_completed() == 3000


def test_what_precedes_a_damaged_record_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "records"
    with tf.python_io.TFRecordWriter(path) as writer:
        for record in (b"1", b"2", b"3"):
            writer.write(record)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    queue = tf.FIFOQueue(3, tf.string)
    reader = tf.TFRecordReader()
    got, reset = reader.read_up_to(queue, 5), reader.reset()
    with tf.Session() as session:
        session.run(queue.enqueue_many([[str(path)]]))
        assert session.run(got)[1].tolist() == [b"1", b"2"]
        for _ in range(2):
            with pytest.raises(tf.errors.DataLossError, match=f"corrupted record at .* {path}"):
                session.run(got)
        session.run(reset)
        session.run(queue.enqueue_many([[str(path)]]))
        assert session.run(got)[1].tolist() == [b"1", b"2"]


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB"])
def test_a_file_that_is_not_compressed_as_said(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "records"
    path.write_bytes(b"no such thing at all")
    with pytest.raises(tf.errors.DataLossError, match=f"{path} cannot be uncompressed"):
        list(tf.python_io.tf_record_iterator(path, kind))
    with tf.python_io.TFRecordWriter(path, kind) as writer:
        writer.write(b"x" * 100)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(tf.errors.DataLossError, match=f"{path} cannot be uncompressed: .*end"):
        list(tf.python_io.tf_record_iterator(path, kind))
    path.write_bytes(b"")
    assert list(tf.python_io.tf_record_iterator(path, kind)) == []


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_a_file_that_ends_amid_a_head_ends_before_it(tmp_path: Path, kind: str) -> None:
    """As TensorFlow 2.21's iterator and reader have it; one that ends amid the data is damaged."""
    path = tmp_path / "records"
    whole = tfrecords.framed(b"1") + tfrecords.framed(b"2")
    pack: Any = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[kind]
    for length in range(17, 29):
        path.write_bytes(pack(whole[:length]))
        assert list(tf.python_io.tf_record_iterator(path, kind)) == [b"1"]
    reader = readers.TFRecordReader("r", kind)
    for number in (1, 2):
        assert read(reader, names(str(path)), Step(), 5).value == ([f"{path}:0".encode()], [b"1"])
        assert reader.work_units_completed() == number
    for length in range(29, 34):
        path.write_bytes(pack(whole[:length]))
        with pytest.raises(tf.errors.DataLossError, match="truncated record at 17"):
            list(tf.python_io.tf_record_iterator(path, kind))


@pytest.mark.parametrize("counts", [(5, 2, 0), (2, 5, 0), (2**63, 2**63, 0), (1, 1, 2**64 - 1)])
@pytest.mark.parametrize("kind", [tf.IdentityReader, tf.WholeFileReader])
def test_a_state_that_cannot_be_is_refused_and_changes_nothing(kind: Any, counts: tuple[int, int, int]) -> None:
    state = b"".join(varint(number << 3) + varint(count) for number, count in enumerate(counts, 1))
    with tf.Graph().as_default(), tf.Session() as session:
        reader = kind()
        with pytest.raises(tf.errors.InvalidArgumentError, match="when restoring in"):
            session.run(reader.restore_state(state))
        assert session.run(reader.serialize_state()) == b""


def test_a_state_told_as_a_file_is_begun_can_be_restored(tmp_path: Path) -> None:
    told: list[Any] = []

    class Told(IdentityReader):
        def _records(self, read: Any) -> bool:
            told.append(self.state())
            return super()._records(read)

    reader = Told("r")
    assert read(reader, names("a"), Step()).value == (b"a", b"a")
    for state in told:
        reader.restore(state)


@pytest.mark.parametrize("many", [False, True])
def test_a_file_that_becomes_shorter_gives_no_records_of_another_size(tmp_path: Path, many: bool) -> None:
    path = tmp_path / "pieces"
    path.write_bytes(b"x" * 300_000)
    reader, queue = readers.FixedLengthRecordReader("r", 100_000, 0, 0, 0, ""), names(str(path))
    assert len(read(reader, queue, Step()).value[1]) == 100_000
    os.truncate(path, 250_000 if many else 150_000)
    if many:
        assert [len(value) for value in read(reader, queue, Step(), 5).value[1]] == [100_000]
    for _ in range(2):
        error = read(reader, queue, Step(), 5 if many else None).error
        assert isinstance(error, errors.DataLossError) and f"{path} became shorter" in error.message
    reader.reset()
    put(queue, str(path))
    assert len(read(reader, queue, Step()).value[1]) == 100_000


def test_no_records_are_asked_for() -> None:
    reader, queue = IdentityReader("r"), names("a")
    assert read(reader, queue, Step(), 0).value == ([], []) and queue.size() == 1
    assert isinstance(read(reader, queue, Step(), -1).error, errors.InvalidArgumentError)


def test_no_fewer_lines_than_none_are_skipped() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        got = tf.TextLineReader(skip_header_lines=-1).num_records_produced()
        with pytest.raises(tf.errors.InvalidArgumentError, match="skip_header_lines must be >= 0 not -1"):
            session.run(got)


def test_a_name_with_a_scheme(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("1\n")
    name = f"file://{path}"
    assert read(TextLineReader("r", 0), names(name), Step()).value == (f"{name}:1".encode(), b"1")
    assert read(readers.WholeFileReader("r"), names(name), Step()).value == (name.encode(), b"1\n")
    with tf.python_io.TFRecordWriter(name) as writer:
        writer.write(b"2")
    assert list(tf.python_io.tf_record_iterator(name)) == [b"2"]
    assert path.read_bytes() == tfrecords.framed(b"2")


@pytest.mark.parametrize(
    "number, kind",
    [
        (errno.ENOENT, errors.NotFoundError), (errno.EACCES, errors.PermissionDeniedError),
        (errno.EPERM, errors.PermissionDeniedError), (errno.EISDIR, errors.FailedPreconditionError),
        (errno.ENOTDIR, errors.FailedPreconditionError), (errno.ENAMETOOLONG, errors.InvalidArgumentError),
        (errno.EMFILE, errors.ResourceExhaustedError), (errno.ENFILE, errors.ResourceExhaustedError),
        (errno.ENOSPC, errors.ResourceExhaustedError), (errno.EIO, errors.UnknownError),
    ],
)  # fmt: skip
def test_what_the_system_says(number: int, kind: type[errors.OpError]) -> None:
    error = tfrecords.failed("/a", OSError(number, os.strerror(number)))
    assert type(error) is kind and error.message == f"/a; {os.strerror(number)}"


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for name, kind in (("a/b", errors.FailedPreconditionError), ("x" * 300, errors.InvalidArgumentError)):
        assert type(read(TextLineReader("r", 0), names(f"{tmp_path}/{name}"), Step()).error) is kind


def test_shared_readers() -> None:
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(3, tf.string)
        one, two = (raw.IdentityReaderV2(shared_name="shared", name=name) for name in "ab")
        other = raw.WholeFileReaderV2(shared_name="shared", name="c")
        counts = [tf.ReaderBase(ref).num_records_produced() for ref in (one, two, other)]
        got = tf.ReaderBase(one).read(queue)
        with tf.Session() as session:
            session.run(queue.enqueue_many([["x"]]))
            session.run(got)
            assert session.run(counts[1]) == 1
            with pytest.raises(tf.errors.InvalidArgumentError, match="Shared reader 'shared' is a IdentityReader"):
                session.run(counts[2])


def test_threads_that_read_together_read_each_record_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n" for i in range(500)))
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(10, tf.string)
        with tf.control_dependencies([queue.enqueue([str(path)])]):
            fill = queue.close()
        _, line = tf.TextLineReader().read(queue)
        out = tf.FIFOQueue(1000, tf.string, shapes=[[]])
        runner = tf.train.QueueRunner(out, [out.enqueue([line])] * 3)
        rest = out.dequeue_up_to(1000)
        with tf.Session() as session:
            session.run(fill)
            coordinator = tf.train.Coordinator()
            threads = runner.create_threads(session, coordinator, start=True)
            for thread in threads[:3]:
                thread.join(20)
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=20)
            assert sorted(map(int, session.run(rest))) == list(range(500))
    wait_for(lambda: not any(t.name.startswith("QueueRunnerThread") for t in threading.enumerate()), 10)
