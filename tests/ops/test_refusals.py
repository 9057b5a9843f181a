"""Bad values that are known in the step alone are refused as TensorFlow refuses them; see answered/refused.py."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from tests.ops.answered.refused import REFUSED

HUGE = {
    "range": (lambda n: tf.range(0, n), np.int64(2**40)),
    "fill": (lambda s: tf.fill(s, 1.0), np.array([2**31, 2**31], np.int64)),
    "tile": (lambda m: tf.tile([1.0, 2.0], m), np.array([2**61], np.int64)),
    "one_hot": (lambda d: tf.one_hot(np.zeros(2**20, np.int32), d), np.int32(2**31 - 1)),
    "linspace": (lambda n: tf.linspace(0.0, 1.0, n), np.int64(2**50)),
    "random_uniform": (tf.random_uniform, np.array([2**40], np.int64)),
    "scatter_nd": (lambda s: tf.scatter_nd(np.zeros((1, 1), np.int64), [1.0], s), np.array([2**62], np.int64)),
    "broadcast_to": (lambda s: tf.broadcast_to(1.0, s), np.array([2**45], np.int64)),
    "segment_join": (lambda n: tf.strings.unsorted_segment_join(["a"], [0], n), np.int64(2**45)),
    "pad": (lambda p: tf.pad([1.0], p), np.array([[2**60, 0]], np.int64)),
}


def _fed(arrays):
    return [tf.placeholder(tf.as_dtype(np.asarray(a).dtype), None) for a in arrays]


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_the_step(name):
    call, good, bad = REFUSED[name]
    with tf.Graph().as_default(), tf.Session() as session:
        fed = _fed(good)
        made = call(tf, *fed)
        session.run(made, dict(zip(fed, good)))
        taken = []
        for place, value in bad:
            try:
                session.run(made, dict(zip(fed, [*good[:place], value, *good[place + 1 :]])))
                taken.append((place, value.tolist()))
            except tf.errors.InvalidArgumentError:
                pass
        assert taken == []


@pytest.mark.parametrize("name", HUGE)
def test_what_no_memory_holds_fails_at_once(name):
    call, value = HUGE[name]
    with tf.Graph().as_default(), tf.Session() as session:
        (size,) = _fed([value])
        with pytest.raises((tf.errors.ResourceExhaustedError, tf.errors.InvalidArgumentError)):
            session.run(call(size), {size: value})


def test_integers_of_a_range_are_counted_without_rounding():
    with tf.Graph().as_default(), tf.Session() as session:
        limit = tf.placeholder(tf.int64, [])
        start = 2**53
        assert session.run(tf.range(tf.constant(start, tf.int64), limit), {limit: start + 3}).tolist() == [
            start, start + 1, start + 2,
        ]  # fmt: skip


OTHER_CLASSES = {
    "greedy": (
        tf.errors.FailedPreconditionError, lambda x, n: tf.nn.ctc_greedy_decoder(x, n)[1],
        np.zeros((4, 2, 3), np.float32), [[5, 2], [4], [4, 2, 1]],
    ),
    "beam": (
        tf.errors.FailedPreconditionError, lambda x, n: tf.nn.ctc_beam_search_decoder(x, n, 3)[1],
        np.zeros((4, 2, 3), np.float32), [[5, 2], [4], [4, 2, 1]],
    ),
    "reduce_join": (
        tf.errors.OutOfRangeError, tf.reduce_join, np.array([[b"a", b"b"]], object), [[2], [-3], [0, 2]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_CLASSES)
def test_refused_with_the_class_that_tensorflow_raises(name):
    error, call, given, bad = OTHER_CLASSES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        x, number = _fed([given, np.int32(0)])
        made = call(x, number)
        for value in bad:
            with pytest.raises(error):
                session.run(made, {x: given, number: value})


def test_the_sizes_of_a_transposed_convolution_may_be_those_of_space_alone():
    x, w = np.ones((2, 4, 5, 3), np.float32), np.ones((3, 3, 4, 3), np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        (sizes,) = _fed([np.int32(0)])
        made = tf.nn.conv2d_transpose(x, w, sizes, 2, "SAME")
        short, whole = (session.run(made, {sizes: s}) for s in ([8, 10], [2, 8, 10, 4]))
        np.testing.assert_array_equal(short, whole)


@pytest.mark.parametrize("errors", ["strict", "replace"])
@pytest.mark.parametrize(("encoding", "stand_in"), [("nope", 63), ("idna", 63), ("UTF-8", -5), ("UTF-8", 0x110000)])
def test_unknown_encodings_and_characters_are_refused(encoding, stand_in, errors):
    with tf.Graph().as_default(), tf.Session() as session:
        for text in ("", "a"):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(tf.strings.unicode_decode(text, encoding, errors, stand_in))
