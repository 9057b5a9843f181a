"""Input pipelines that TensorFlow is asked for too: `python tests/inputs/cases.py`, where it is installed, records.

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


# -- messages ----------------------------------------------------------------------------------------------------------


def ints(tf: Any, *values: int) -> Any:
    """A feature of whole numbers."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def floats(tf: Any, *values: float) -> Any:
    """A feature of numbers."""
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def texts(tf: Any, *values: bytes) -> Any:
    """A feature of texts."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(tf: Any, **features: Any) -> Any:
    """An example."""
    return tf.train.Example(features=tf.train.Features(feature=features))


def _large(tf: Any) -> Any:
    return example(
        tf, b=ints(tf, 1, -1, 2**62, 0, 300), a=texts(tf, b"x", b"", b"\xff"), c=floats(tf, 0.5, -2.0, 1e30),
        d=ints(tf), e=tf.train.Feature(),
    )  # fmt: skip


def _grown(tf: Any) -> Any:
    made = tf.train.Example()
    made.features.feature["n"].int64_list.value.extend([3, 4])
    made.features.feature["n"].int64_list.value.append(5)
    made.features.feature["t"].bytes_list.value.append(b"abc")
    made.features.feature["z"].CopyFrom(floats(tf, 2.5))
    return made


def _sequence(tf: Any) -> Any:
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={"n": ints(tf, 2)}),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                "w": tf.train.FeatureList(feature=[ints(tf, 1), ints(tf, 2), ints(tf, 3)]),
                "v": tf.train.FeatureList(feature=[texts(tf, b"a", b"b"), texts(tf), texts(tf, b"c")]),
            }
        ),
    )


def _bytes(make: Callable[[Any], Any]) -> Case:
    def case(tf: Any, folder: str) -> Any:
        made = make(tf)
        data = made.SerializeToString(deterministic=True)
        back = type(made).FromString(data)
        return [data.hex(), back == made, str(made) if len(made.features.feature) < 2 else ""]

    return case


def _looked_at(tf: Any, folder: str) -> Any:
    made = tf.train.Example.FromString(_large(tf).SerializeToString())
    feature = made.features.feature
    return [
        sorted(feature), "a" in feature, "zz" in feature, len(feature), list(feature["b"].int64_list.value),
        feature["b"].WhichOneof("kind"), feature["e"].WhichOneof("kind"), feature["d"].HasField("int64_list"),
        list(feature["a"].bytes_list.value), list(feature["c"].float_list.value), sorted(k for k, _ in feature.items()),
        len(feature["new"].int64_list.value), "new" in feature, feature.get("none"),
    ]  # fmt: skip


def _sequence_bytes(tf: Any, folder: str) -> Any:
    made = _sequence(tf)
    lists = made.feature_lists.feature_list
    data = made.SerializeToString(deterministic=True)
    return [data.hex(), sorted(lists), len(lists["w"].feature), tf.train.SequenceExample.FromString(data) == made]


MESSAGES: dict[str, Case] = {
    "example": _bytes(_large),
    "example of one": _bytes(lambda tf: example(tf, a=ints(tf, 1, 2))),
    "example of none": _bytes(lambda tf: tf.train.Example()),
    "example of two": _bytes(lambda tf: example(tf, b=texts(tf, b"hi\n"), a=floats(tf, 0.1))),
    "example grown": _bytes(_grown),
    "example looked at": _looked_at,
    "sequence": _sequence_bytes,
    "ints that are floats": lambda tf, folder: tf.train.Int64List(value=[1.5]).value[0],
    "a text for bytes": lambda tf, folder: list(tf.train.BytesList(value=[3]).value),
}

# -- parsing -----------------------------------------------------------------------------------------------------------


def session_of(tf: Any) -> Any:
    """A session whose runs end."""
    return tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=20_000))


def _run(tf: Any, fetches: Any) -> Any:
    with session_of(tf) as session:
        return session.run(fetches)


def parsed(features: Callable[[Any], Any], *examples: Callable[[Any], Any], single: bool = False, **how: Any) -> Case:
    """The values that some features of examples have, and what is known of their shapes before."""

    def case(tf: Any, folder: str) -> Any:
        data = [made if isinstance(made, bytes) else made.SerializeToString() for made in (e(tf) for e in examples)]
        one = tf.parse_single_example if single else tf.parse_example
        found = one(data[0] if single else data, features(tf), **how)
        known = {key: dims(value.get_shape()) for key, value in found.items()}
        return [known, _run(tf, found)]

    return case


def _dense(tf: Any) -> Any:
    return {
        "i": tf.FixedLenFeature([], tf.int64),
        "f": tf.FixedLenFeature([2], tf.float32),
        "t": tf.FixedLenFeature([1, 2], tf.string, default_value=[[b"x", b"y"]]),
        "d": tf.FixedLenFeature([], tf.int64, default_value=-1),
    }


def _first(tf: Any) -> Any:
    return example(tf, i=ints(tf, 5), f=floats(tf, 1.5, 2.5), t=texts(tf, b"a", b"b"), d=ints(tf, 7), other=ints(tf, 9))


def _second(tf: Any) -> Any:
    return example(tf, i=ints(tf, -6), f=floats(tf, 0.0, -1.0))


def _of(key: str, kind: str) -> Callable[[Any], Any]:
    return lambda tf: {key: tf.FixedLenFeature([], getattr(tf, kind))}


def _lists(tf: Any) -> Any:
    return {
        "q": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
        "p": tf.FixedLenSequenceFeature([2], tf.float32, allow_missing=True, default_value=-1.0),
    }


def _pairs(tf: Any) -> Any:
    return {"sp": tf.SparseFeature("ix", "val", tf.float32, 10), "s2": tf.VarLenFeature(tf.string)}


def _sequences(single: Callable[[Any], Any], more: Callable[[Any], Any]) -> Case:
    def case(tf: Any, folder: str) -> Any:
        found = tf.parse_single_sequence_example(_sequence(tf).SerializeToString(), single(tf), more(tf))
        return _run(tf, found)

    return case


def _none(tf: Any) -> Any:
    return None


def _shaped_unknown(tf: Any, folder: str) -> Any:
    placed = tf.placeholder(tf.string)
    found = tf.parse_example(placed, _dense(tf))
    with session_of(tf) as session:
        data = [_first(tf).SerializeToString()]
        return session.run(found, {placed: data})


PARSED: dict[str, Case] = {
    "dense": parsed(_dense, _first, _second),
    "dense single": parsed(_dense, _first, single=True),
    "dense defaults": parsed(_dense, _second, single=True),
    "dense missing": parsed(_dense, _first, lambda tf: example(tf, i=ints(tf, 1))),
    "dense missing single": parsed(_dense, lambda tf: example(tf, f=floats(tf, 1, 2)), single=True),
    "dense missing named": parsed(_of("i", "int64"), _second, lambda tf: example(tf), example_names=["a", "b"]),
    "dense of another kind": parsed(_of("i", "float32"), _first),
    "dense of another kind single": parsed(_of("t", "int64"), _first, single=True),
    "dense of another size": parsed(_of("f", "float32"), _first),
    "dense of another size single": parsed(_of("f", "float32"), _first, single=True),
    "dense empty": parsed(_of("i", "int64"), lambda tf: example(tf, i=ints(tf))),
    "dense kind not set": parsed(_of("i", "int64"), lambda tf: example(tf, i=tf.train.Feature())),
    "no example": parsed(_of("i", "int64"), lambda tf: b"abc"),
    "no example single": parsed(_of("i", "int64"), lambda tf: b"abc", single=True),
    "an unknown batch": _shaped_unknown,
    "sparse": parsed(
        lambda tf: {"s": tf.VarLenFeature(tf.int64), "s2": tf.VarLenFeature(tf.string)},
        lambda tf: example(tf, s=ints(tf, 1, 2, 3)), lambda tf: example(tf, s2=texts(tf, b"a")),
        lambda tf: example(tf, s=ints(tf, 4), s2=texts(tf, b"b", b"c")),
    ),
    "sparse single": parsed(
        lambda tf: {"s": tf.VarLenFeature(tf.float32), "s2": tf.VarLenFeature(tf.string)},
        lambda tf: example(tf, s=floats(tf, 1, 2)), single=True,
    ),
    "sparse of another kind": parsed(
        lambda tf: {"s": tf.VarLenFeature(tf.float32)}, lambda tf: example(tf, s=ints(tf, 1))
    ),
    "sparse by index": parsed(
        _pairs, lambda tf: example(tf, ix=ints(tf, 3, 0), val=floats(tf, 0.5, 1.5)),
        lambda tf: example(tf, ix=ints(tf, 9), val=floats(tf, 2.5), s2=texts(tf, b"q")),
    ),
    "sparse by index single": parsed(
        _pairs, lambda tf: example(tf, ix=ints(tf, 3, 0), val=floats(tf, 0.5, 1.5)), single=True
    ),
    "sparse by two indices": parsed(
        lambda tf: {"sp": tf.SparseFeature(["y", "x"], "val", tf.int64, [5, 10])},
        lambda tf: example(tf, x=ints(tf, 3, 0), y=ints(tf, 4, 4), val=ints(tf, 7, 8)),
    ),
    "sparse without an index": parsed(lambda tf: {"sp": tf.SparseFeature("", "val", tf.int64, 5)}, _first),
    "one key for both": parsed(
        lambda tf: {"sp": tf.SparseFeature("a", "i", tf.int64, 5), "i": tf.FixedLenFeature([], tf.int64)}, _first
    ),
    "keys beyond ASCII": parsed(lambda tf: {"é/ b": tf.FixedLenFeature([], tf.int64, 4)}, _first),
    "required of no elements": parsed(lambda tf: {"e": tf.FixedLenFeature([0], tf.int64)}, _second),
    "a default of another size": parsed(lambda tf: {"e": tf.FixedLenFeature([2], tf.int64, [1])}, _second),
    "lists": parsed(
        _lists, lambda tf: example(tf, q=ints(tf, 1, 2, 3), p=floats(tf, 1, 2)),
        lambda tf: example(tf, q=ints(tf, 4)), lambda tf: example(tf, p=floats(tf, 1, 2, 3, 4)),
    ),
    "lists single": parsed(
        _lists, lambda tf: example(tf, q=ints(tf, 1, 2, 3), p=floats(tf, 1, 2, 3, 4)), single=True
    ),
    "lists of another size": parsed(_lists, lambda tf: example(tf, p=floats(tf, 1, 2, 3))),
    "lists not allowed": parsed(
        lambda tf: {"q": tf.FixedLenSequenceFeature([], tf.int64)}, lambda tf: example(tf, q=ints(tf, 1))
    ),
    "no features": parsed(lambda tf: {}, _first),
    "unknown size": parsed(lambda tf: {"i": tf.FixedLenFeature([None], tf.int64)}, _first),
    "no feature": parsed(lambda tf: {"i": "int"}, _first),
    "a type that examples have not": parsed(_of("i", "int32"), _first),
    "not a scalar": lambda tf, folder: tf.parse_single_example([b"", b""], _dense(tf)),
    "sequence": _sequences(
        lambda tf: {"n": tf.FixedLenFeature([], tf.int64)},
        lambda tf: {"w": tf.FixedLenSequenceFeature([], tf.int64), "v": tf.VarLenFeature(tf.string)},
    ),
    "sequence missing": _sequences(_none, lambda tf: {"u": tf.FixedLenSequenceFeature([], tf.int64)}),
    "sequence missing allowed": _sequences(
        _none, lambda tf: {"u": tf.FixedLenSequenceFeature([3], tf.int64, allow_missing=True)}
    ),
    "sequence of another kind": _sequences(_none, lambda tf: {"w": tf.FixedLenSequenceFeature([], tf.float32)}),
    "sequence of another size": _sequences(_none, lambda tf: {"v": tf.FixedLenSequenceFeature([2], tf.string)}),
    "sequence context missing": _sequences(lambda tf: {"m": tf.FixedLenFeature([], tf.int64)}, _none),
}

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
    return _run(tf, tf.TextLineReader().serialize_state())


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
