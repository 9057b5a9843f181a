"""Messages: what they hold, TensorFlow's bytes, and what programs do with them."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dtfzmq as tf
from dtfzmq.base import tfrecords
from dtfzmq.ops import protos
from dtfzmq.summary.proto import DecodeError, Field, Message
from tests.summary import cases

RECORDED = list(tfrecords.records(str(cases.EVENTS)))


@pytest.mark.parametrize("number", range(7))
def test_messages_are_tensorflows_bytes(number: int) -> None:
    """Recorded by TensorFlow 2.21; the file's version comes first."""
    event = cases.messages(tf)[number]
    assert event.SerializeToString() == RECORDED[1 + number]
    assert tf.Event.FromString(RECORDED[1 + number]) == event
    assert event.ByteSize() == len(RECORDED[1 + number])


def test_what_is_not_known_is_kept() -> None:
    event = tf.Event.FromString(RECORDED[0])  # with source_metadata, which has no attribute here
    assert event.file_version == "brain.Event:2"
    assert b"events_writer" in event.SerializeToString() and event.SerializeToString() == RECORDED[0]


def test_reading_makes_nothing_present_and_writing_does() -> None:
    event = tf.Event()
    assert event.summary.value == [] and len(event.summary.value) == 0 and event.session_log.msg == ""
    assert event.WhichOneof("what") is None and not event.HasField("summary") and event.SerializeToString() == b""
    event.summary.value.add(tag="a").histo.bucket.append(1)
    assert event.HasField("summary") and event.WhichOneof("what") == "summary"
    assert event.summary.value[0].HasField("histo") and event.summary.value[0].WhichOneof("value") == "histo"
    event.file_version = "x"
    assert event.WhichOneof("what") == "file_version" and not event.HasField("summary")
    event.summary.SetInParent()
    assert event.HasField("summary") and event.file_version == ""


def test_a_value_holds_one_thing() -> None:
    value = tf.Summary.Value(tag="a", simple_value=1)
    value.image.height = 3
    assert not value.HasField("simple_value") and value.simple_value == 0.0
    value.simple_value = 0
    assert value.WhichOneof("value") == "simple_value" and value.image.height == 0
    assert tf.Summary.Value.FromString(value.SerializeToString()).HasField("simple_value")
    value.ClearField("simple_value")
    assert value.WhichOneof("value") is None and value.tag == "a"


def test_numbers_are_kept_as_the_field_has_them() -> None:
    value = tf.Summary.Value(simple_value=0.1)
    assert value.simple_value == pytest.approx(0.1) and value.simple_value != 0.1
    value.simple_value = 1e300
    assert value.simple_value == math.inf
    value.simple_value = -1e300
    assert value.simple_value == -math.inf
    assert tf.Summary.Value(tag=b"a").tag == "a"
    assert tf.Event(step=True).step == 1
    assert tf.train.Int64List(value=[True, False]).SerializeToString() == b"\n\x02\x01\x00"
    assert tf.train.BytesList(value=np.array([b"a\0"], object)).value == [b"a\0"]
    assert type(tf.train.BytesList(value=[np.bytes_(b"a")]).value[0]) is bytes


@pytest.mark.parametrize(
    "bad, error, text",
    [
        (lambda m: m.value.add(tga=1), ValueError, 'Protocol message Value has no "tga" field.'),
        (lambda m: tf.Event(stepp=1), ValueError, 'Protocol message Event has no "stepp" field.'),
        (lambda m: m.value.add(tag=1), TypeError, "bad argument type for built-in operation"),
        (lambda m: m.value.add(simple_value="x"), TypeError, "must be real number, not str"),
        (lambda m: setattr(m, "valu", 1), AttributeError, 'Protocol message Summary has no "valu" field.'),
        (lambda m: m.valu, AttributeError, "valu"),
        (lambda m: setattr(m, "value", []), AttributeError, 'Assignment not allowed to .*"value"'),
        (lambda m: setattr(m.value[0], "histo", tf.HistogramProto()), AttributeError, "Assignment not allowed to"),
        (lambda m: m.ParseFromString("a"), TypeError, "expected bytes, str found"),
        (lambda m: setattr(tf.Event(), "step", 1.5), TypeError, "'float' object cannot be interpreted as an integer"),
        (lambda m: setattr(tf.Event(), "step", 2**63), ValueError, "Value out of range: 9223372036854775808"),
        (lambda m: m.value.append(3), TypeError, "Expected a"),
        (lambda m: tf.Event(summary=3), TypeError, "Expected a Summary"),
        (lambda m: tf.Summary.Image(encoded_image_string=3), TypeError, "expected bytes, int found"),
        (lambda m: tf.Summary.Image(encoded_image_string="a"), TypeError, "expected bytes, str found"),
        (lambda m: tf.Summary.Image(encoded_image_string=bytearray(b"a")), TypeError, "bytes, bytearray found"),
        (lambda m: tf.train.BytesList(value=["x"]), TypeError, "expected bytes, str found"),
        (lambda m: tf.train.BytesList(value=[bytearray(b"x")]), TypeError, "expected bytes, bytearray found"),
        (lambda m: tf.train.BytesList().value.append("x"), TypeError, "expected bytes, str found"),
        (lambda m: tf.train.BytesList(value="ab"), TypeError, "one str found"),
        (lambda m: tf.train.BytesList(value=b"ab"), TypeError, "one bytes found"),
        (lambda m: tf.train.Int64List(value=b"ab"), TypeError, "one bytes found"),
        (lambda m: tf.train.FloatList(value=bytearray(b"ab")), TypeError, "one bytearray found"),
        (lambda m: tf.train.Int64List().value.extend(b"ab"), TypeError, "one bytes found"),
        (lambda m: tf.train.Int64List().value.MergeFrom(b"ab"), TypeError, "one bytes found"),
        (lambda m: tf.train.Int64List(value=[1]).value.__setitem__(slice(1), b"ab"), TypeError, "one bytes found"),
        (lambda m: m.HasField("value"), ValueError, "does not have presence"),
        (lambda m: m.value[0].HasField("tag"), ValueError, "does not have presence"),
        (lambda m: m.HasField("no"), ValueError, "has no field no"),
        (lambda m: m.ClearField("no"), ValueError, "has no field no"),
        (lambda m: m.WhichOneof("no"), ValueError, "has no oneof no"),
        (lambda m: m.CopyFrom(tf.Event()), TypeError, "instance of same class"),
        (lambda m: tf.HistogramProto().bucket.add(), AttributeError, "add"),
        (lambda m: hash(m), TypeError, "unhashable"),
    ],
)
def test_what_is_refused(bad: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        bad(tf.Summary(value=[tf.Summary.Value(tag="a")]))


def test_copies_are_apart() -> None:
    value = tf.Summary.Value(tag="a", simple_value=1)
    summary = tf.Summary(value=[value, {"tag": "b"}, None or value])
    value.tag = "changed"
    assert [v.tag for v in summary.value] == ["a", "b", "a"]
    for made in (copy.copy(summary), copy.deepcopy(summary), pickle.loads(pickle.dumps(summary))):
        assert made == summary and made is not summary
        made.value[0].tag = "c"
        assert made != summary and summary.value[0].tag == "a"
    other = tf.Summary()
    other.CopyFrom(summary)
    other.MergeFrom(summary)
    assert len(other.value) == 6
    del other.value[1:]
    other.value[0] = value
    assert other.value == [value]
    other.Clear()
    assert other == tf.Summary() and other != tf.Event()


def test_fields_are_listed() -> None:
    event = tf.Event(step=0, summary=tf.Summary(value=[{"tag": "a"}]), wall_time=1)
    assert event.log_message.message == ""  # which makes it no more present
    told = [(field.name, field.number, value) for field, value in event.ListFields()]
    assert told == [("wall_time", 1, 1.0), ("summary", 5, event.summary)]
    assert [field.name for field, _ in tf.Event(file_version="").ListFields()] == ["file_version"]
    features = tf.train.Features()
    assert len(features.feature) == 0 and features.ListFields() == [] and tf.Summary(value=[]).ListFields() == []
    features.feature["b"].int64_list.value.append(1)
    ((field, value),) = features.ListFields()
    assert (field.name, list(value)) == ("feature", ["b"])


def test_every_message_is_whole() -> None:
    event = tf.Event(step=3)
    assert event.IsInitialized() and event.FindInitializationErrors() == []
    assert event.SerializePartialToString(deterministic=True) == event.SerializeToString()


def test_values_are_merged() -> None:
    numbers = tf.train.Int64List(value=[1])
    numbers.value.MergeFrom([7])
    numbers.value.MergeFrom(tf.train.Int64List(value=[9]).value)
    assert numbers.value == [1, 7, 9]
    summary, other = tf.Summary(value=[{"tag": "a"}]), tf.Summary(value=[{"tag": "b"}])
    summary.value.MergeFrom(other.value)
    other.value[0].tag = "c"
    assert [value.tag for value in summary.value] == ["a", "b"]
    event = tf.Event()
    event.summary.value.MergeFrom(other.value)
    assert event.HasField("summary")


def test_messages_that_come_in_two_parts_are_one() -> None:
    first = tf.Event(summary=tf.Summary(value=[{"tag": "a"}])).SerializeToString()
    second = tf.Event(summary=tf.Summary(value=[{"tag": "b"}]), step=2).SerializeToString()
    assert [v.tag for v in tf.Event.FromString(first + second).summary.value] == ["a", "b"]
    unpacked = protos.varint(7 << 3 | 1) + bytes(8)
    assert tf.HistogramProto.FromString(unpacked * 2).bucket == [0.0, 0.0]


def test_text() -> None:
    summary = tf.Summary(value=[{"tag": 'a"\n', "simple_value": 0.1}, {"image": {"encoded_image_string": b"\xff\\"}}])
    assert str(summary) == (
        'value {\n  tag: "a\\"\\n"\n  simple_value: 0.1\n}\n'
        'value {\n  image {\n    encoded_image_string: "\\377\\\\"\n  }\n}\n'
    )
    assert repr(tf.Event(wall_time=2.0, step=3)) == "wall_time: 2\nstep: 3\n"


@pytest.mark.parametrize("data", [b"junk", b"\x0a\x05\x0a", b"\x0a\x03\x0a\x01\xff", b"\xff" * 11])
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(DecodeError, match="Error parsing message with type 'Summary'"):
        tf.Summary.FromString(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        event = tf.Event.FromString(data)
    except DecodeError:
        return
    again = event.SerializeToString()
    assert tf.Event.FromString(again).SerializeToString() == again


class Everything(Message):
    """A field of each kind, alone and repeated."""

    FIELDS = {
        f"{kind}{'s' * repeated}": Field(1 + 2 * i + repeated, kind, bool(repeated))
        for i, kind in enumerate(("double", "float", "int64", "int32", "enum", "bool", "string", "bytes"))
        for repeated in (0, 1)
    }


_ONE: dict[str, Any] = {
    "double": st.floats(allow_nan=False), "float": st.floats(width=32, allow_nan=False),
    "int64": st.integers(-(2**63), 2**63 - 1), "int32": st.integers(-(2**31), 2**31 - 1),
    "enum": st.integers(-(2**31), 2**31 - 1), "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"])), "bytes": st.binary(),
}  # fmt: skip
_ALL = {f"{k}{'s' * r}": st.lists(v, max_size=4) if r else v for k, v in _ONE.items() for r in (0, 1)}


@given(st.fixed_dictionaries({}, optional=_ALL))
def test_what_is_written_is_read(values: dict[str, Any]) -> None:
    made = Everything(**values)
    data = made.SerializeToString()
    back = Everything.FromString(data)
    assert back == made and back.SerializeToString() == data
    for name, value in values.items():
        assert getattr(back, name) == value
    str(back)
