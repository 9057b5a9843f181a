"""Check ops: what passes, what fails while building, what fails the step, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from tests.kit.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


PAIRS = [
    (tf.assert_equal, [1, 2], [1, 2], [1, 3]),
    (tf.assert_none_equal, [1, 2], [2, 1], [1, 3]),
    (tf.assert_less, [1, 2], [2, 3], [2, 2]),
    (tf.assert_less_equal, [1, 2], [1, 2], [0, 2]),
    (tf.assert_greater, [1, 2], [0, 1], [0, 2]),
    (tf.assert_greater_equal, [1, 2], [1, 2], [2, 2]),
]


@pytest.mark.parametrize("check, x, good, bad", PAIRS, ids=lambda v: getattr(v, "__name__", None))
def test_comparisons(check, x, good, bad):
    assert evaluate(check(x, good)) is None
    with pytest.raises(errors.InvalidArgumentError, match="did not hold element-wise"):
        check(x, bad)  # both are known
    fed = tf.placeholder(tf.int32, name="fed")
    op = check(fed, good, message="told")
    assert evaluate(op, {fed: x}) is None
    with pytest.raises(errors.InvalidArgumentError, match=r"failed: \[told\] \[Condition x .* \[x \(fed:0\) = \]"):
        evaluate(check(fed, bad, message="told"), {fed: x})


SIGNS = [
    (tf.assert_negative, -1, 0), (tf.assert_positive, 1, 0), (tf.assert_non_negative, 0, -1),
    (tf.assert_non_positive, 0, 1),
]  # fmt: skip


@pytest.mark.parametrize("check, good, bad", SIGNS, ids=lambda v: getattr(v, "__name__", None))
def test_signs(check, good, bad):
    fed = tf.placeholder(tf.float32)
    assert evaluate(check(fed), {fed: good}) is None
    with pytest.raises(errors.InvalidArgumentError, match="Condition x .* 0 did not hold element-wise"):
        evaluate(check(fed), {fed: bad})
    with pytest.raises(errors.InvalidArgumentError, match="Condition x .* 0 did not hold element-wise"):
        check([good, bad])


def test_words_are_tensorflows():
    fed = tf.placeholder(tf.float32, [None, None], name="x")
    op = tf.Assert(tf.reduce_all(fed > 5), [fed, "text", tf.constant(["a", "b"]), tf.constant([True])])
    with pytest.raises(errors.InvalidArgumentError) as found:
        evaluate(op, {fed: [[1.5, 2, 1e10], [3, 4, 5]]})
    assert found.value.message.startswith("assertion failed: [[1.5 2 1e+10]...] [text] [a b] [1]")
    with pytest.raises(errors.InvalidArgumentError) as found:
        tf.assert_equal([1, 2], [1, 3], message="m")
    assert found.value.message.splitlines()[:2] == ["m", "Condition x == y did not hold element-wise:"]


def test_near():
    fed = tf.placeholder(tf.float64)
    assert evaluate(tf.assert_near(fed, 1.0), {fed: 1 + 1e-15}) is None
    assert evaluate(tf.assert_near(fed, 1.0, rtol=0.1), {fed: 1.05}) is None
    with pytest.raises(errors.InvalidArgumentError, match="x and y not equal to tolerance"):
        evaluate(tf.assert_near(fed, 1.0), {fed: 1.05})


def test_ranks_and_types_while_building():
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    for bad, text in [
        (
            lambda: tf.assert_rank(x, 1, message="mm"),
            r"mm\.  Tensor x:0 must have rank 1\.  Received rank 2, shape \(None, 3\)",
        ),
        (lambda: tf.assert_rank_at_least(x, 3), "must have rank at least 3"),
        (lambda: tf.assert_rank_in(x, [1, 3]), r"must have rank in \(1, 3\)"),
        (lambda: tf.assert_scalar(x), r"Expected scalar shape for x:0, saw shape: \(None, 3\)\."),
        (lambda: tf.assert_same_float_dtype([tf.constant(1)]), "Expected floating point type"),
        (lambda: tf.assert_same_float_dtype([x, tf.constant(1.0, tf.float64)]), "must be of the same type"),
        (lambda: tf.debugging.assert_shapes({x: ["n", 4]}), "dimension 1 must have size 4"),
    ]:
        with pytest.raises(ValueError, match=text):
            bad()
    for wrong, text in [
        (lambda: tf.assert_type(x, tf.int32), "x:0 must be of type .*int32.*; got .*float32"),
        (lambda: tf.assert_integer(x), 'Expected "x" to be integer type'),
        (lambda: tf.assert_proper_iterable(5), 'Expected argument "values" to be iterable'),
        (lambda: tf.assert_proper_iterable(x), 'to be a "proper" iterable'),
    ]:
        with pytest.raises(TypeError, match=text):
            wrong()
    assert tf.assert_same_float_dtype([x, None]) is tf.float32
    assert tf.assert_same_float_dtype() is tf.float32
    assert evaluate([tf.assert_rank(x, 2), tf.assert_rank_in(x, [1, 2]), tf.assert_integer(3)]) == [None] * 3
    assert tf.is_numeric_tensor(x)
    assert not tf.is_numeric_tensor(3)


def test_ranks_and_shapes_in_the_step():
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with pytest.raises(errors.InvalidArgumentError, match=r"must have rank\] \[1\] \[Received shape: \]"):
        evaluate(tf.assert_rank(x, 1), {x: 3.0})
    assert evaluate(tf.assert_rank_at_least(x, 1), {x: [[1.0]]}) is None
    shapes = tf.debugging.assert_shapes([(x, ("n", "m")), (y, ("n",))])
    assert evaluate(shapes, {x: np.ones((2, 3)), y: np.ones(2)}) is None
    with pytest.raises(errors.InvalidArgumentError, match="dimension 0 must have size"):
        evaluate(shapes, {x: np.ones((2, 3)), y: np.ones(3)})


def test_numerics_of_a_whole_graph():
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.log(x, name="y")
    check = tf.add_check_numerics_ops()
    assert evaluate(check, {x: [1, 2]}) is None
    with pytest.raises(errors.InvalidArgumentError, match="y:0 : Tensor had NaN values"):
        evaluate(check, {x: [1, -2]})
    tf.cond(x[0] > 0, lambda: x, lambda: -x)
    with pytest.raises(ValueError, match="not compatible with TensorFlow control flow"):
        tf.add_check_numerics_ops()


def test_print_lays_out_tensors(capsys):
    x = tf.constant([[1, 2], [3, 4]])
    rows = tf.reshape(tf.range(64), [8, 8])
    evaluate(tf.print("a", x, {"k": tf.constant(5)}, [1, x], tf.constant(["p", "q"]), tf.constant("s")))
    evaluate(tf.print(rows, summarize=1, sep="|", end="!"))
    evaluate(tf.print(tf.constant([1e-10, 3.14159265]), tf.constant([True]), summarize=-1))
    written = capsys.readouterr().err
    assert written == (
        "a [[1 2]\n [3 4]] {'k': 5} [1, [[1 2]\n [3 4]]] [\"p\" \"q\"] \"s\"\n"
        "[[0 ... 7]\n ...\n [56 ... 63]]!"
        "[1e-10 3.14159274] [1]\n"
    )
    with pytest.raises(ValueError, match="Unrecognized keyword"):
        tf.print(x, color="red")
    with pytest.raises(ValueError, match="expects 2 tensors, but the inputs only has 1"):
        tf.strings.format("{} {}", x)
