"""SparseTensor: feed, fetch, errors, and a round trip through a session."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from tests.kit.evaluate import evaluate

INDICES = np.array([[0, 1], [1, 0], [1, 2]], np.int64)
VALUE = tf.SparseTensorValue(INDICES, np.array([1.0, 2, 3], np.float32), np.array([2, 3], np.int64))
DENSE = np.array([[0, 1, 0], [2, 0, 3]], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_feed_and_fetch():
    sp = tf.sparse_placeholder(tf.float32)
    doubled = tf.SparseTensor(sp.indices, sp.values * 2, sp.dense_shape)
    dense = tf.sparse_tensor_to_dense(doubled)
    with tf.Session() as session:
        for value in (VALUE, tuple(VALUE)):
            back, whole = session.run([doubled, dense], {sp: value})
            assert isinstance(back, tf.SparseTensorValue)
            np.testing.assert_array_equal(back.indices, INDICES)
            np.testing.assert_array_equal(back.values, [2, 4, 6])
            np.testing.assert_array_equal(back.dense_shape, [2, 3])
            np.testing.assert_array_equal(whole, 2 * DENSE)
        got = session.run({"same": tf.SparseTensor.from_value(VALUE)})
        np.testing.assert_array_equal(got["same"].values, VALUE.values)
        assert doubled.eval({sp: VALUE}, session).values.tolist() == [2, 4, 6]


def test_placeholder_of_known_shape():
    sp = tf.sparse_placeholder(tf.float32, [2, 3], name="x")
    assert sp.shape.as_list() == [2, 3]
    assert sp.values.name == "x/values:0"
    assert sp.indices.shape.as_list() == [None, 2]
    with tf.Session() as session:
        total = session.run(tf.sparse_reduce_sum(sp, 1), {sp: VALUE})
    np.testing.assert_array_equal(total, [1, 5])
    with pytest.raises(ValueError):
        tf.SparseTensor(INDICES, [1.0, 2.0], [2, 3])
    with pytest.raises(TypeError, match="Neither a SparseTensor nor SparseTensorValue"):
        tf.sparse_reorder(tf.zeros([2]))


@pytest.mark.parametrize(
    "rows, text",
    [
        ([[0, 5]], r"indices\[0\] = \[0,5\] is out of bounds: need 0 <= index < \[2,3\]"),
        ([[1, 0], [0, 1]], r"indices\[1\] = \[0,1\] is out of order"),
        ([[1, 0], [1, 0]], r"indices\[1\] = \[1,0\] is repeated"),
    ],
)
def test_bad_indices_are_named(rows, text):
    indices = np.array(rows, np.int64)
    dense = tf.sparse_to_dense(indices, [2, 3], np.ones(len(rows), np.float32))
    with pytest.raises(errors.InvalidArgumentError, match=text):
        evaluate(dense)
    if "bounds" not in text:
        assert evaluate(tf.sparse_to_dense(indices, [2, 3], 1.0, validate_indices=False)).sum() in (1, 2)


def test_dense_factor_first_and_back_through_the_product():
    sp = tf.SparseTensor.from_value(VALUE)
    b = tf.constant(np.arange(8, dtype=np.float32).reshape(4, 2))
    product = tf.sparse_tensor_dense_matmul(b, sp)
    np.testing.assert_array_equal(evaluate(product), evaluate(b) @ DENSE)
    values, dense = tf.gradients(product, [sp.values, b])
    np.testing.assert_array_equal(evaluate(dense), np.ones((4, 3)) @ DENSE.T)
    np.testing.assert_array_equal(evaluate(values), [12, 16, 16])


def test_shapes_that_do_not_go_together():
    a, b = tf.SparseTensor.from_value(VALUE), tf.SparseTensor(INDICES, [1.0, 2, 3], [4, 5])
    with pytest.raises(ValueError, match="should match except in the axis"):
        tf.sparse_concat(1, [a, b])
    with pytest.raises(ValueError, match="at least as large"):
        tf.sparse_reset_shape(b, [2, 2])
    size = tf.placeholder(tf.int64, [2])
    with pytest.raises(errors.InvalidArgumentError, match="at least as large"):
        evaluate(tf.sparse_reset_shape(b, size).dense_shape, {size: [2, 2]})
    with pytest.raises(ValueError, match="Cannot reshape a tensor with 6 elements"):
        tf.sparse_reshape(a, [4, 2])
    with pytest.raises(ValueError, match="Keyword arguments are required"):
        tf.sparse_split(a, 2, 1)
    with pytest.raises(TypeError, match="At least one input should be SparseTensor"):
        tf.sparse_add(tf.zeros([2]), tf.zeros([2]))


def test_mask_of_slices():
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([4, 7, 9]))
    masked = tf.sparse_mask(slices, [7])
    assert evaluate([masked.indices, masked.values])[0].tolist() == [4, 9]
    assert evaluate(masked.values).tolist() == [[1], [3]]


def test_sets_of_rows_and_distance_of_words():
    a, b = tf.constant([["a", "b"], ["c", "c"]]), tf.constant([["b", "z"], ["d", "c"]])
    both = tf.sets.set_intersection(a, b)
    assert evaluate(both.values).tolist() == [b"b", b"c"]
    assert evaluate(both.dense_shape).tolist() == [2, 1]
    with pytest.raises(TypeError, match="must be SparseTensors"):
        tf.edit_distance(a, b)
    with pytest.raises(errors.InvalidArgumentError, match="Mismatched group shapes"):
        evaluate(tf.sets.set_union(tf.constant([[1]]), tf.constant([[1], [2]])).values)


def test_values_alone_are_mapped():
    sp = tf.SparseTensor.from_value(VALUE)
    scale = tf.constant([[10.0], [100.0]])
    for made, want in [
        (sp * 2.0, [2, 4, 6]), (sp * scale, [10, 200, 300]), (sp / tf.constant([1.0, 2.0, 4.0]), [0.5, 2, 0.75]),
        (tf.negative(sp), [-1, -2, -3]), (tf.square(sp), [1, 4, 9]), (tf.cast(sp, tf.int32), [1, 2, 3]),
        (tf.identity(sp), [1, 2, 3]), (tf.scalar_mul(3.0, sp), [3, 6, 9]),
    ]:  # fmt: skip
        assert isinstance(made, tf.SparseTensor)
        np.testing.assert_array_equal(evaluate(made.values), want)
        np.testing.assert_array_equal(evaluate(made.indices), INDICES)
    assert evaluate([tf.shape(sp), tf.size(sp), tf.rank(sp)])[0].tolist() == [2, 3]
    assert evaluate(tf.size(sp)) == 6
    assert evaluate(tf.rank(sp)) == 2
    scaled = sp * scale
    np.testing.assert_array_equal(evaluate(tf.gradients(scaled.values, scale)[0]), [[1], [5]])
    with pytest.raises(ValueError, match="of at most the rank 2"):
        sp * tf.zeros([1, 1, 1])
