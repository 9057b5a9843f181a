"""Examples and records as bytes: whatever is written is read again, and what is damaged is told."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtfzmq as tf
from dtfzmq.base import tfrecords
from dtfzmq.ops import examples
from dtfzmq.ops.parsing import parse_example
from dtfzmq.summary.proto import DecodeError

INTS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9)
FLOATS = st.lists(st.floats(width=32), max_size=9)
TEXTS = st.lists(st.binary(max_size=9), max_size=9)
FEATURE = st.one_of(
    INTS.map(lambda v: tf.train.Feature(int64_list=tf.train.Int64List(value=v))),
    FLOATS.map(lambda v: tf.train.Feature(float_list=tf.train.FloatList(value=v))),
    TEXTS.map(lambda v: tf.train.Feature(bytes_list=tf.train.BytesList(value=v))),
    st.just(tf.train.Feature()),
)
FEATURES = st.dictionaries(st.text(max_size=5), FEATURE, max_size=5)


def values(feature: Any) -> tuple[str, list[Any]]:
    """Kind and values of a feature, by its message."""
    kind = feature.WhichOneof("kind")
    names = {"int64_list": "int64", "float_list": "float", "bytes_list": "string", None: ""}
    return names[kind], list(getattr(feature, kind).value) if kind else []


def same(found: Any, expected: list[Any]) -> bool:
    """Whether values are equal, NaNs too."""
    if expected and isinstance(expected[0], float):
        return np.array_equal(found, np.array(expected, np.float32), equal_nan=True)
    return found.tolist() == expected


@given(FEATURES)
@settings(deadline=None)
def test_features_of_examples(features: dict[str, Any]) -> None:
    made = tf.train.Example(features=tf.train.Features(feature=features))
    data = made.SerializeToString()
    assert tf.train.Example.FromString(data).SerializeToString() == data
    found = examples.of_example(data)
    assert {name.decode() for name in found} == set(features)
    for name, feature in features.items():
        kind, numbers = examples.values_of(found[name.encode()])
        expected = values(feature)
        assert kind == expected[0] and same(numbers, expected[1])


@given(INTS)
@settings(deadline=None)
def test_numbers_one_by_one_are_those_of_a_block(numbers: list[int]) -> None:
    packed = tf.train.Int64List(value=numbers).SerializeToString()
    single = b"".join(b"\x08" + examples.varint(n & 2**64 - 1) for n in numbers)
    for data in (packed, single):
        kind, found = examples.values_of(examples.block(3, data))
        assert (kind, found.tolist(), found.dtype) == ("int64", numbers, np.int64)
    assert list(tf.train.Int64List.FromString(single).value) == numbers


@given(st.binary(max_size=60))
@settings(deadline=None, max_examples=300)
def test_bytes_that_are_no_examples(data: bytes) -> None:
    """Both readers refuse them with the error that they promise, or both take them for messages."""
    try:
        for feature in examples.of_example(data).values():
            examples.values_of(feature)
    except (ValueError, IndexError):
        pass
    try:
        tf.train.Example.FromString(data)
    except DecodeError:
        pass


@pytest.mark.parametrize("entry", [b"\x08\x01", b"\x10\x01", b"\x0a\x01\xff", b"\x12\x01\x0f"])
def test_entries_that_map_nothing(entry: bytes) -> None:
    with pytest.raises(DecodeError, match="Error parsing message"):
        tf.train.Features.FromString(b"\x0a" + bytes([len(entry)]) + entry)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1a\x03\x0a\x01\x80",  # a number that does not end
        b"\x1a\x04\x0a\x02\x01\x80",  # and one behind another
        b"\x1a\x0e\x0a\x0c\x01" + b"\x80" * 10 + b"\x01",  # one of more than ten bytes
        b"\x12\x05\x0a\x03abc",  # three bytes that are no float
        b"\x12\x02\x08\x01",  # a whole number for a float
        b"\x1a\x06\x0d\x01\x01\x01\x01\x01",  # a fixed one for a whole number
        b"\x08\x01",  # a number for a list
    ],
)
def test_features_that_are_none(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        examples.values_of(data)


@given(FEATURES, st.data())
@settings(deadline=None)
def test_damaged_examples(features: dict[str, Any], draw: Any) -> None:
    data = bytearray(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    if not data:
        return
    data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))
    del data[draw.draw(st.integers(0, len(data))) :]
    try:
        for feature in examples.of_example(bytes(data)).values():
            examples.values_of(feature)
    except (ValueError, IndexError):
        pass


def test_a_damaged_example_is_an_error_of_the_step() -> None:
    with tf.Graph().as_default():
        data = examples.block(1, examples.mapped({"a": b"\x1a\x03\x0a\x01\xff"}))
        found = parse_example([data], {"a": tf.VarLenFeature(tf.int64)})
        with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse"):
            session.run(found)


@given(st.lists(st.binary(max_size=200), max_size=8), st.sampled_from(["", "GZIP", "ZLIB"]))
@settings(deadline=None)
def test_records(records: list[bytes], kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        with tf.python_io.TFRecordWriter(path, kind) as writer:
            for i, record in enumerate(records):
                writer.write(record)
                if i % 3 == 2:
                    writer.flush()
        assert list(tf.python_io.tf_record_iterator(path, kind)) == records
        places = []
        file = tfrecords.RecordFile(str(path), kind)
        while (data := file.next()) is not None:
            places.append((file.at, data))
        file.close()
        ends = np.cumsum([len(record) + 16 for record in records]).tolist()
        assert places == list(zip(ends, records))


def test_what_was_flushed_is_in_the_file_and_a_closed_writer_refuses(tmp_path: Path) -> None:
    writer = tf.python_io.TFRecordWriter(tmp_path / "a", tf.python_io.TFRecordOptions("ZLIB", compression_level=9))
    writer.write("text")
    writer.flush()
    records = tf.python_io.tf_record_iterator(str(tmp_path / "a"), "ZLIB")
    assert next(records) == b"text"
    writer.close()
    writer.close()
    with pytest.raises(tf.errors.FailedPreconditionError, match="closed"):
        writer.write(b"more")
