"""Texts and bytes that end with NULs, which numpy's arrays of fixed width would cut off, stay whole everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf

RAW = b"a\0\0"
TEXT = RAW.decode()
WHOLE = tf.FixedLenFeature([], tf.string)
DEFAULT = tf.FixedLenFeature([], tf.string, default_value=RAW)


def _features(**values):
    return tf.train.Features(
        feature={name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v])) for name, v in values.items()}
    )


EXAMPLE = tf.train.Example(features=_features(x=RAW)).SerializeToString()
SEQUENCE = tf.train.SequenceExample(context=_features(x=RAW)).SerializeToString()


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.parse_single_example(EXAMPLE, {"x": WHOLE})["x"],
        lambda: tf.parse_single_example(EXAMPLE, {"y": DEFAULT})["y"],
        lambda: tf.parse_single_sequence_example(SEQUENCE, {"x": WHOLE})[0]["x"],
        lambda: tf.parse_single_sequence_example(SEQUENCE, {"y": DEFAULT})[0]["y"],
        lambda: tf.parse_example([EXAMPLE], {"x": WHOLE})["x"][0],
        lambda: tf.constant(TEXT),
        lambda: tf.constant([TEXT, "b"])[0],
        lambda: tf.constant([RAW, "b"])[0],
        lambda: tf.constant(np.str_(TEXT)),
        lambda: tf.constant(np.bytes_(RAW)),
        lambda: tf.py_func(lambda: np.bytes_(RAW), [], tf.string),
        lambda: tf.py_func(lambda: np.array([TEXT, RAW], object), [], tf.string)[0],
    ],
)
def test_a_text_comes_out_whole(make):
    with tf.Graph().as_default(), tf.Session() as sess:
        got = sess.run(make())
    assert type(got) is bytes
    assert got == RAW


def test_beside_features_of_other_types():
    numbers = tf.train.Feature(int64_list=tf.train.Int64List(value=[7]))
    features = _features(x=RAW)
    features.feature["n"].CopyFrom(numbers)
    data = tf.train.Example(features=features).SerializeToString()
    with tf.Graph().as_default(), tf.Session() as sess:
        got = sess.run(tf.parse_single_example(data, {"x": WHOLE, "n": tf.FixedLenFeature([], tf.int64)}))
    assert got["x"] == RAW
    assert got["n"] == 7


def test_text_beside_bytes_that_are_no_ascii():
    with tf.Graph().as_default(), tf.Session() as sess:
        assert sess.run(tf.constant([b"\xff\0", "ä"])).tolist() == [b"\xff\0", "ä".encode()]
        returned = sess.run(tf.py_func(lambda: [[b"\xff\0", "ä"]], [], [tf.string]))
    assert returned[0].tolist() == [b"\xff\0", "ä".encode()]


@pytest.mark.parametrize("value", [RAW, [RAW, RAW], TEXT, [TEXT, "b"]])
def test_variables_set_from_python(value):
    want = [v.encode() if isinstance(v, str) else v for v in (value if isinstance(value, list) else [value])]
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(np.full(np.shape(value), b"", object))
        sess.run(v.initializer)
        v.load(value, sess)
        assert sess.run(v) == want[0] if np.ndim(value) == 0 else sess.run(v).tolist() == want
        sess.run(v.initializer)
        tf.contrib.framework.assign_from_values_fn({v.op.name: value})(sess)
        assert sess.run(v) == want[0] if np.ndim(value) == 0 else sess.run(v).tolist() == want


def test_the_test_case_tells_them_apart():
    class Case(tf.test.TestCase):
        pass

    case = Case()
    case.assertAllEqual(np.array([RAW, b"b"], object), [RAW, b"b"])
    with pytest.raises(AssertionError):
        case.assertAllEqual(RAW, b"a")
