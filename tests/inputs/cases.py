"""Input pipelines that TensorFlow is asked for too, as `python -m tests.inputs.pipelines`, where it is installed, does.

A case makes something with the functions of a module, with files in a folder; what it returns is told as JSON.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ANSWERS = Path(__file__).parent / "data" / "answers.json"
Case = Callable[[Any, str], Any]
_MOST = 40


def told(value: Any, folder: str) -> Any:
    """A value as JSON has it: arrays with type and shape, bytes as text, the folder by a name that stays."""
    if isinstance(value, dict):
        return {str(key): told(one, folder) for key, one in value.items()}
    if hasattr(value, "_fields"):
        return {name: told(getattr(value, name), folder) for name in value._fields}
    if isinstance(value, (list, tuple)):
        return [told(one, folder) for one in value]
    if isinstance(value, (bytes, str)):
        text = value.decode("latin1") if isinstance(value, bytes) else value
        return text.replace(folder, "<folder>")
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        kind = "string" if array.dtype == object else array.dtype.name
        return [kind, list(array.shape), told(array.reshape(-1).tolist(), folder)]
    return value


def said(error: Exception) -> str:
    """What an error says in one line, without the node where it came up and what each library words in its way."""
    lines = str(getattr(error, "message", error)).splitlines()
    node = next((i for i, line in enumerate(lines) if "[[" in line), 1)
    line = re.sub(r"'_\d+_", "'", lines[max(node - 1, 0)]) if lines else ""
    if type(error).__name__ == "DataLossError":
        return line.split(" at ")[0]
    return line.split(" (requested ")[0]


def dims(shape: Any) -> Any:
    """What is known of a shape."""
    return None if shape.ndims is None else shape.as_list()


def failure(error: Exception, folder: str) -> list[str]:
    """An error as an answer has it: its class and the first line of what it says."""
    return ["fails", type(error).__name__, told(said(error), folder)]


def answer(case: Case, tf: Any) -> Any:
    """What a case comes to."""
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        tf.set_random_seed(7)
        try:
            return json.loads(json.dumps(told(case(tf, folder), folder)))
        except Exception as error:
            return failure(error, folder)


def session_of(tf: Any) -> Any:
    """A session whose runs end."""
    return tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=20_000))


def run(tf: Any, fetches: Any) -> Any:
    """What a session makes of them."""
    with session_of(tf) as session:
        return session.run(fetches)


# -- readers -----------------------------------------------------------------------------------------------------------


def _files(folder: str, **contents: bytes) -> list[str]:
    for name, data in contents.items():
        Path(folder, name).write_bytes(data)
    return [os.path.join(folder, name) for name in contents]


def drained(tf: Any, fetches: Any, most: int = _MOST, last: Any = (), begin: Any = ()) -> Any:
    """What a session gets one by one with queue runners, until an error, which is told."""
    out: list[Any] = []
    with session_of(tf) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(list(begin))
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while len(out) < most:
                out.append(session.run(fetches))
        except Exception as error:
            out.append([type(error).__name__, said(error)])
        ends = session.run(list(last))
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    return [out, ends]


def read(reader: Callable[[Any], Any], names: Callable[[str], list[str]], up_to: int = 0, most: int = _MOST) -> Case:
    """What a reader gets of files."""

    def case(tf: Any, folder: str) -> Any:
        queue = tf.train.string_input_producer(names(folder), shuffle=False, num_epochs=1)
        made = reader(tf)
        got = made.read_up_to(queue, up_to) if up_to else made.read(queue)
        known = [dims(t.get_shape()) for t in got]
        names_ = [made.reader_ref.op.name, got[0].op.name, made.supports_serialize]
        return known, names_, drained(tf, got, most, [made.num_records_produced(), made.num_work_units_completed()])

    return case


def _written(tf: Any, folder: str, options: Any = None, damage: Callable[[bytearray], Any] = len) -> list[str]:
    path = os.path.join(folder, "records")
    with tf.python_io.TFRecordWriter(path, options) as writer:
        for record in (b"hello", b"", b"x" * 30):
            writer.write(record)
    data = bytearray(Path(path).read_bytes())
    damage(data)
    Path(path).write_bytes(data)
    return [path]


def written(how: str = "", damage: Callable[[bytearray], Any] = len) -> Case:
    """A file of records, written and read again by the reader."""

    def case(tf: Any, folder: str) -> Any:
        kind = tf.python_io.TFRecordCompressionType
        options = tf.python_io.TFRecordOptions({"": kind.NONE, "GZIP": kind.GZIP, "ZLIB": kind.ZLIB}[how])
        (path,) = _written(tf, folder, options, damage)
        plain = Path(path).read_bytes().hex() if not how else ""
        reader = tf.TFRecordReader(options=options)
        queue = tf.train.string_input_producer([path], shuffle=False, num_epochs=1)
        return plain, drained(tf, reader.read(queue), 6, [reader.num_records_produced()])

    return case


def _iterated(damage: Callable[[bytearray], Any], options: str = "") -> Case:
    def case(tf: Any, folder: str) -> Any:
        out: list[Any] = []
        try:
            for record in tf.python_io.tf_record_iterator(_written(tf, folder, None, damage)[0], options):
                out.append(record)
        except Exception as error:
            return [out, *failure(error, folder)]
        return out

    return case


def _flip(at: int) -> Callable[[bytearray], Any]:
    def damage(data: bytearray) -> None:
        data[at] ^= 1

    return damage


def _cut(data: bytearray) -> None:
    del data[-3:]


def _lines(folder: str) -> list[str]:
    return _files(folder, a=b"one\ntwo\r\n\nfour", none=b"", head=b"h\n", b=b"five\n")


def _fixed(folder: str) -> list[str]:
    return _files(folder, a=b"HHabcdefgF", none=b"HHF", b=b"HHklmF")


def _missing(folder: str) -> list[str]:
    return [os.path.join(folder, "missing"), *_files(folder, a=b"one\n")]


def _again(tf: Any, folder: str) -> Any:
    """A reader that is reset amid a file goes on with the next one."""
    queue = tf.FIFOQueue(10, tf.string)
    fill = queue.enqueue_many([_files(folder, a=b"1\n2\n3\n", b=b"4\n5\n")])
    reader = tf.TextLineReader(name="lines")
    got, reset = reader.read(queue, name="got"), reader.reset()
    counts = [reader.num_records_produced(), reader.num_work_units_completed()]
    with session_of(tf) as session:
        session.run(fill)
        first = [session.run(got), session.run(got), session.run(counts)]
        session.run(reset)
        return first, session.run(counts), session.run(got), session.run(counts), session.run(queue.size())


def _restored(tf: Any, folder: str) -> Any:
    queue = tf.FIFOQueue(10, tf.string)
    reader = tf.IdentityReader()
    with session_of(tf) as session:
        session.run(queue.enqueue_many([["a", "b", "c"]]))
        got = reader.read(queue)
        first = session.run(got)
        state = session.run(reader.serialize_state())
        session.run(got)
        session.run(reader.restore_state(state))
        return first, state, session.run(got), session.run(reader.num_records_produced())


def _unserialized(tf: Any, folder: str) -> Any:
    return run(tf, tf.TextLineReader().serialize_state())


def _of_numbers(tf: Any, folder: str) -> Any:
    queue = tf.FIFOQueue(3, tf.int32)
    with session_of(tf) as session:
        session.run(queue.enqueue([1]))
        return session.run(tf.IdentityReader().read(queue))


READ: dict[str, Case] = {
    "lines": read(lambda tf: tf.TextLineReader(), _lines),
    "lines without heads": read(lambda tf: tf.TextLineReader(skip_header_lines=1), _lines),
    "lines up to": read(lambda tf: tf.TextLineReader(), _lines, up_to=3),
    "files": read(lambda tf: tf.WholeFileReader(), _lines),
    "files up to": read(lambda tf: tf.WholeFileReader(), _lines, up_to=3),
    "names": read(lambda tf: tf.IdentityReader(), _lines),
    "names up to": read(lambda tf: tf.IdentityReader(), _lines, up_to=3),
    "pieces": read(lambda tf: tf.FixedLengthRecordReader(3, 2, 1), _fixed),
    "pieces up to": read(lambda tf: tf.FixedLengthRecordReader(3, 2, 1), _fixed, up_to=2),
    "pieces that overlap": read(lambda tf: tf.FixedLengthRecordReader(3, 2, 1, hop_bytes=2), _fixed),
    "pieces with gaps": read(lambda tf: tf.FixedLengthRecordReader(2, 0, 0, hop_bytes=3), _fixed),
    "pieces in order": read(lambda tf: tf.FixedLengthRecordReader(3), _fixed),
    "records": written(),
    "records in GZIP": written("GZIP"),
    "records in ZLIB": written("ZLIB"),
    "records with damaged data": written(damage=_flip(14)),
    "records with a damaged length": written(damage=_flip(2)),
    "records cut": written(damage=_cut),
    "records up to": lambda tf, folder: read(
        lambda tf: tf.TFRecordReader(), lambda folder: _written(tf, folder) * 2, up_to=2
    )(tf, folder),
    "records iterated": _iterated(len),
    "records iterated, damaged": _iterated(_flip(14)),
    "records iterated, cut": _iterated(_cut),
    "records of a kind": lambda tf, folder: tf.python_io.TFRecordOptions("LZMA"),
    "no file iterated": lambda tf, folder: list(tf.python_io.tf_record_iterator(folder + "/none")),
    "no folder to write": lambda tf, folder: tf.python_io.TFRecordWriter(folder + "/none/a") and None,
    "missing file": read(lambda tf: tf.TextLineReader(), _missing),
    "missing whole file": read(lambda tf: tf.WholeFileReader(), _missing),
    "missing records": read(lambda tf: tf.TFRecordReader(), _missing),
    "reset": _again,
    "restored": _restored,
    "not serialized": _unserialized,
    "names that are numbers": _of_numbers,
}
