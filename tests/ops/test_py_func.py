"""py_func: what it takes and gives, and what it says where the function is not."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.ops import py_func
from tests.kit.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_one_several_and_no_results():
    x = tf.constant([1.0, 2.0])
    seen: list = []
    one = tf.py_func(lambda v: v + np.float32(1), [x], tf.float32)
    two = tf.py_func(lambda v, s: (v.sum(), [s, "new"]), [x, "text"], [tf.float32, tf.string])
    none = tf.py_func(seen.append, [x], [])
    assert one.shape.ndims is None
    assert isinstance(two, list)
    assert isinstance(none, tf.Operation)
    with tf.Session() as session:
        got = session.run([one, two, none])
    np.testing.assert_array_equal(got[0], [2, 3])
    assert got[1][0] == 3
    assert got[1][1].tolist() == [b"text", b"new"]
    assert seen[0].tolist() == [1, 2]
    assert tf.gradients(one, x) == [None]


def test_an_input_may_be_written_to():
    x = tf.constant([1.0, 2.0])

    def change(v):
        v[0] = 9
        return v

    assert evaluate([tf.py_func(change, [x], tf.float32), x])[1].tolist() == [1, 2]


@pytest.mark.parametrize(
    "fn, error, text",
    [
        (lambda x: np.float64(1), errors.InvalidArgumentError, "is float64, but expects float32"),
        (lambda x: (x, x), errors.InvalidArgumentError, "returns 2 values, but expects to see 1 values"),
        (lambda x: object(), errors.InvalidArgumentError, "returned an object"),
        (lambda x: next(iter(())), errors.OutOfRangeError, "StopIteration"),
        (lambda x: int("x"), errors.InvalidArgumentError, "ValueError: invalid literal"),
        (lambda x: 1 // 0, errors.UnknownError, r"ZeroDivisionError: .*, raised in py_func(.|\n)*test_py_func.py"),
        (lambda x: [2][1], errors.UnknownError, "IndexError: list index"),
        (lambda x: {2: 3}[1], errors.UnknownError, "KeyError: 1"),
        (lambda x: (_ for _ in ()).throw(NotImplementedError("later")), errors.UnimplementedError, "later"),
        (lambda x: (_ for _ in ()).throw(errors.AbortedError(None, None, "own")), errors.AbortedError, "own"),
    ],
)
def test_what_goes_wrong_is_told(fn, error, text):
    y = tf.py_func(fn, [1.0], tf.float32)
    with tf.Session() as session, pytest.raises(error, match=text):
        session.run(y)
    with pytest.raises(ValueError, match="Expected func to be callable"):
        tf.py_func(3, [], tf.float32)


def test_elsewhere_the_function_and_the_device_are_named(monkeypatch):
    def mean_of_rows(x):
        return x

    y = tf.py_func(mean_of_rows, [1.0], tf.float32)
    monkeypatch.setattr(py_func, "_functions", {})  # as in another process
    with pytest.raises(errors.InvalidArgumentError, match="py_func 'mean_of_rows' cannot run on /job:.*CPU:0"):
        evaluate(y)


def test_a_function_lives_as_long_as_its_graph():
    before = set(py_func._functions)
    with tf.Graph().as_default():
        tf.py_func(lambda: np.float32(1), [], tf.float32)
    (added,) = set(py_func._functions) - before
    gc.collect()
    assert added not in py_func._functions
