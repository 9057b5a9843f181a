"""Event files: TensorFlow's framing, exact flushes, errors of the disk, what forks and exits leave."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtfzmq as tf
from dtfzmq.base import clock, tfrecords
from dtfzmq.summary import writer
from tests.kit.cluster import ROOT
from tests.summary import cases


def events(folder: Any) -> list[tf.Event]:
    """All events in a folder's files, but the version that each begins with."""
    found = []
    for path in sorted(Path(folder).iterdir()):
        first, *rest = tf.train.summary_iterator(path)
        assert first.file_version == "brain.Event:2" and first.wall_time > 0
        found += rest
    return found


def steps(folder: Any) -> list[int]:
    return [event.step for event in events(folder)]


def said(value: float = 1.0, tag: str = "a") -> tf.Summary:
    return tf.Summary(value=[tf.Summary.Value(tag=tag, simple_value=value)])


def test_what_tensorflow_wrote_is_read_and_written() -> None:
    found = list(tf.train.summary_iterator(str(cases.EVENTS)))
    assert found[0].file_version == "brain.Event:2" and found[1:] == cases.messages(tf)
    assert b"".join(tfrecords.framed(e.SerializeToString()) for e in found) == cases.EVENTS.read_bytes()


def test_a_program_and_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    before = clock.wall()
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        tf.summary.scalar("x", x)
        tf.summary.text("t", tf.as_string(x))
        merged = tf.summary.merge_all()
        with tf.summary.FileWriter(folder, graph, filename_suffix=".end") as file:
            for step in range(3):
                file.add_summary(session.run(merged, {x: step}), step)
            file.add_session_log(tf.SessionLog(status=tf.SessionLog.STOP), 3)
            assert file.get_logdir() == str(folder)
    (path,) = folder.iterdir()
    assert re.fullmatch(r"events\.out\.tfevents\.\d{10}\..+\.end", path.name)
    found = events(folder)
    assert [e.step for e in found] == [0, 1, 2, 3] and all(before <= e.wall_time <= clock.wall() for e in found)
    assert [e.summary.value[0].simple_value for e in found[:3]] == [0.0, 1.0, 2.0]
    # what is said of a tag is said once
    assert [e.summary.value[1].HasField("metadata") for e in found[:3]] == [True, False, False]
    assert found[3].session_log.status == tf.SessionLog.STOP


def test_the_file_and_the_first_event_are_there_at_once_and_others_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(clock, "now", lambda: now)
    file = tf.summary.FileWriter(str(tmp_path), flush_secs=30)
    assert steps(tmp_path) == []
    file.add_summary(said(), 1)
    assert steps(tmp_path) == [1]
    file.add_summary(said(), 2)
    now += 29
    file.add_summary(said(), 3)
    assert steps(tmp_path) == [1]
    now += 1
    file.add_summary(said(), 4)
    assert steps(tmp_path) == [1, 2, 3, 4]
    file.add_summary(said(), 5)
    file.flush()
    assert steps(tmp_path) == [1, 2, 3, 4, 5]
    file.add_summary(said(tag="long" * 300_000), 6)
    assert steps(tmp_path)[-1] == 6, "much does not wait"
    file.add_summary(said(), 7)
    file.close()
    assert steps(tmp_path)[-1] == 7


def test_a_closed_writer_says_so_and_can_be_reopened(tmp_path: Path) -> None:
    file = tf.train.SummaryWriter(tmp_path)
    file.close()
    file.close()
    with pytest.warns(UserWarning, match="Attempting to use a closed FileWriter. The operation will be a noop") as told:
        file.add_summary(said(), 1)
        file.add_session_log(tf.SessionLog())
        file.add_event(tf.Event())
        file.flush()
    assert [Path(w.filename).name for w in told] == [Path(__file__).name] * 4
    assert steps(tmp_path) == []
    file.reopen()
    file.reopen()
    file.add_event(tf.Event(step=2))
    file.close()
    assert steps(tmp_path) == [2] and len(list(tmp_path.iterdir())) == 2, "in a file of another name"


def test_no_graph_is_said_once(tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_told", set())
    graph = tf.Graph()
    with tf.summary.FileWriter(tmp_path, graph) as file:
        file.add_graph(graph, 3)
        file.add_graph(None, graph_def=graph)
        file.add_run_metadata(tf.RunMetadata(), "step1", 1)
        file.add_run_metadata(tf.RunMetadata(), "step2", 2)
        with pytest.raises(ValueError, match="The provided tag was already used for this event type"):
            file.add_run_metadata(tf.RunMetadata(), "step1")
        with pytest.raises(TypeError, match="The passed graph must be an instance of `Graph`"):
            file.add_graph(3)
        with pytest.raises(ValueError, match="Please pass only graph, or graph_def"):
            file.add_graph(graph, graph_def=graph)
    assert [m for m in caplog.messages if "Event files" in m] == [
        "Event files get no graphs: TensorBoard shows what summaries say, and not that.",
        "Event files get no metadata of runs: TensorBoard shows what summaries say, and not that.",
    ]
    with pytest.raises(TypeError, match="must be an instance of `Graph`"):
        tf.summary.FileWriter(tmp_path / "none", "graph")
    assert not (tmp_path / "none").exists() and steps(tmp_path) == []


@pytest.mark.parametrize("bad", [3, "text", None])
def test_what_is_no_summary(tmp_path: Path, bad: Any) -> None:
    with tf.summary.FileWriter(tmp_path) as file:
        with pytest.raises(TypeError, match="takes a tf.Summary"):
            file.add_summary(bad)
        with pytest.raises(TypeError, match="takes a tf.Event"):
            file.add_event(bad)
        with pytest.raises(ValueError, match="Error parsing message"):
            file.add_summary(b"junk")
    assert steps(tmp_path) == []


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        tf.summary.FileWriter(tmp_path / "file" / "folder")
    with pytest.raises(OSError, match="long"):
        tf.summary.FileWriter(tmp_path, filename_suffix="long" * 100)
    with pytest.raises(tf.errors.NotFoundError, match="nothing"):
        list(tf.train.summary_iterator(str(tmp_path / "nothing")))


def test_a_full_disk_is_told_and_nothing_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, room = os.write, 10

    def write(descriptor: int, data: Any) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = real(descriptor, bytes(data[:room]))
        room -= done
        return done

    file = tf.summary.FileWriter(tmp_path)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left"):
        file.add_summary(said(), 1)
    with pytest.raises(OSError, match="No space left"):
        file.add_summary(said(), 2)
    with pytest.raises(OSError, match="No space left"):
        file.flush()
    room = 1 << 20
    file.add_summary(said(), 3)
    file.flush()
    assert steps(tmp_path) == [1, 2, 3]
    file.add_summary(said(), 4)
    room = 15  # more than a record's head
    with pytest.raises(OSError, match="No space left"):
        file.close()
    with pytest.raises(tf.errors.DataLossError, match="truncated record"):
        steps(tmp_path)
    file.close()


def test_a_disk_that_is_full_when_the_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.listdir("/proc/self/fd")

    def write(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space left"):
        tf.summary.FileWriter(tmp_path)
    assert os.listdir("/proc/self/fd") == before


def test_many_threads(tmp_path: Path) -> None:
    with tf.summary.FileWriter(tmp_path, flush_secs=0) as file:

        def work(first: int) -> None:
            for step in range(first, first + 50):
                file.add_summary(said(), step)

        workers = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
    assert sorted(steps(tmp_path)) == [100 * i + j for i in range(4) for j in range(50)]


def test_a_handler_that_raises_amid_a_write_leaves_whole_records(tmp_path: Path, monkeypatch: Any) -> None:
    real, file = os.write, tf.summary.FileWriter(tmp_path)

    def write(descriptor: int, data: Any) -> int:
        done = real(descriptor, data)
        signal.raise_signal(signal.SIGUSR1)
        return done

    def handler(number: int, frame: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        monkeypatch.setattr(os, "write", write)
        with pytest.raises(TimeoutError):
            file.add_summary(said(), 1)
        with pytest.raises(TimeoutError):
            file.close()
            file.reopen()  # a new file begins with a record
    finally:
        monkeypatch.undo()
        signal.signal(signal.SIGUSR1, before)
    file.close()
    assert steps(tmp_path) == [1]


def test_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tf.summary.FileWriterCache
    first = cache.get(str(tmp_path / "a"))
    assert cache.get(str(tmp_path / "a")) is first and cache.get(str(tmp_path / "b")) is not first
    first.add_summary(said(), 1)
    first.add_summary(said(), 2)
    cache.clear()
    assert steps(tmp_path / "a") == [1, 2]
    again = cache.get(str(tmp_path / "a"))
    assert again is not first
    cache.clear()


def test_one_that_is_dropped_loses_nothing(tmp_path: Path) -> None:
    file = tf.summary.FileWriter(tmp_path)
    for step in range(3):
        file.add_summary(said(), step)
    del file
    assert steps(tmp_path) == [0, 1, 2]


PROGRAM = """
import os, sys
import dtfzmq as tf
from dtfzmq.base import clock, tfrecords
clock.wall = lambda: 1234567890.5
file = tf.summary.FileWriter(sys.argv[1])
for step in range(3):
    file.add_summary(tf.Summary(value=[{"tag": "a", "simple_value": step}]), step)
if sys.argv[2] == "fork":
    child = os.fork()
    if child == 0:
        file.add_summary(tf.Summary(), 10)
        file.add_summary(tf.Summary(), 11)
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0
    file.add_summary(tf.Summary(), 3)
if sys.argv[2] == "raise":
    raise ValueError("over")
"""


@pytest.mark.parametrize("how", ["end", "raise", "fork"])
def test_a_process_that_ends_leaves_all_in_the_file(tmp_path: Path, how: str) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=ROOT)
    assert done.returncode == (how == "raise"), done.stderr
    names = sorted(path.name.split(".")[3] for path in tmp_path.iterdir())
    if how == "fork":
        assert names == ["1234567890", "1234567891"] and steps(tmp_path) == [0, 1, 2, 3, 10, 11]
    else:
        assert names == ["1234567890"] and steps(tmp_path) == [0, 1, 2]


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    path, whole = tmp_path / "damaged", cases.EVENTS.read_bytes()
    ends = [0]
    for data in tfrecords.records(str(cases.EVENTS)):
        ends.append(ends[-1] + 16 + len(data))
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(tf.errors.DataLossError, match="(corrupted|truncated) record at"):
            list(tf.train.summary_iterator(path))
        path.write_bytes(whole[:at])
        begun = max(end for end in ends if end <= at)
        if at < begun + 12:  # a file that is cut amid a record's head ends before it, as TensorFlow has it
            assert len(list(tf.train.summary_iterator(path))) == ends.index(begun)
        else:
            with pytest.raises(tf.errors.DataLossError, match="truncated record at"):
                list(tf.train.summary_iterator(path))


@given(st.lists(st.binary(max_size=100), max_size=5), st.binary(max_size=30))
def test_records(tmp_path_factory: Any, data: list[bytes], junk: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "records"
    path.write_bytes(b"".join(map(tfrecords.framed, data)))
    assert list(tfrecords.records(str(path))) == data
    path.write_bytes(b"".join(map(tfrecords.framed, data)) + junk)
    found = []
    try:
        for each in tfrecords.records(str(path)):
            found.append(each)
    except tf.errors.DataLossError:
        pass
    assert found == data
