"""Argument orders, deprecated names, operators, static shapes and errors of the public functions."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import array, clip, embedding, extremes, families, math, nest, nn, reductions, slicing
from dtfzmq.ops import constants as c
from tests.kit.evaluate import evaluate

assert families.DECLARED
A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as g:
        yield g


def test_operators_with_numbers_and_arrays_on_either_side():
    x = c.constant(A)
    for got, want in [
        (x + 1, A + 1),
        (1 - x, 1 - A),
        (A * x, A * A),
        (A / (x + 1), A / (A + 1)),
        (x**2, A**2),
        (2.0**x, 2.0**A),
        (-x, -A),
        (abs(-x), A),
        (x // 2, A // 2),
        (7 % (x + 1), 7 % (A + 1)),
    ]:
        np.testing.assert_allclose(evaluate(got), want)
    np.testing.assert_array_equal(evaluate(x > 3), A > 3)
    np.testing.assert_array_equal(evaluate((x > 3) & (x < 9)), (A > 3) & (A < 9))
    np.testing.assert_array_equal(evaluate(~(x > 3)), A <= 3)
    assert (x + 1).op.name == "add_2" or (x + 1).op.type == "Add"


def test_division_of_integers():
    i = c.constant([7, -7])
    assert (i / 2).dtype.name == "float64"
    assert evaluate(i / 2).tolist() == [3.5, -3.5]
    assert evaluate(math.div(i, 2)).tolist() == [3, -4]
    assert evaluate(math.truncatediv(i, 2)).tolist() == [3, -3]
    assert evaluate(i % 3).tolist() == [1, 2]
    with pytest.raises(errors.InvalidArgumentError, match="Integer division by zero"):
        evaluate(i // 0)


@pytest.mark.parametrize(
    "key",
    [
        1, -1, slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(0, 100), slice(2, 1),
        (1, 2), (slice(1), -1), (Ellipsis, 0), (0, Ellipsis), (None, 1), (slice(None), None, slice(1, 3)),
        (Ellipsis, None), (slice(None, None, 2), slice(3, 0, -2)),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_indexing_is_numpys(key, known):
    x = c.constant(A) if known else c.placeholder("float32", [None, None])
    y = x[key]
    got = evaluate(y, {} if known else {x: A})
    np.testing.assert_array_equal(got, A[key])
    assert y.shape.is_compatible_with(A[key].shape)
    if known:
        assert y.shape.as_list() == list(A[key].shape)


def test_indexing_by_tensors_and_masks():
    x = c.constant(A)
    i = c.placeholder("int32", [])
    np.testing.assert_array_equal(evaluate(x[i], {i: 2}), A[2])
    np.testing.assert_array_equal(evaluate(x[:i, i], {i: 1}), A[:1, 1])
    np.testing.assert_array_equal(evaluate(x[x > 4]), A[A > 4])
    with pytest.raises(ValueError, match="out of bounds"):
        x[3]
    with pytest.raises(errors.InvalidArgumentError, match="out of bounds"):
        evaluate(x[i], {i: 7})
    for bad in (1.5, "a", True):
        with pytest.raises(TypeError, match="valid indices"):
            x[bad]


def test_shapes_through_shape_tensors():
    x = c.placeholder("float32", [None, 3, 4])
    assert array.reshape(x, [array.shape(x)[0], 12]).shape.as_list() == [None, 12]
    assert array.reshape(x, [-1, 12]).shape.as_list() == [None, 12]
    assert array.reshape(x, array.concat([array.shape(x)[:1], [12]], 0)).shape.as_list() == [None, 12]
    assert c.zeros(array.shape(x)).shape.as_list() == [None, 3, 4]
    assert c.zeros([array.shape(x)[0], 2]).shape.as_list() == [None, 2]


def test_both_orders_of_concat_and_old_names():
    a, b = c.constant(A), c.constant(A + 1)
    for made in (array.concat([a, b], 1), array.concat(1, [a, b]), array.concat(axis=1, values=[a, b])):
        np.testing.assert_array_equal(evaluate(made), np.concatenate([A, A + 1], 1))
    np.testing.assert_array_equal(evaluate(array.split(1, 2, a)[1]), A[:, 2:])
    np.testing.assert_array_equal(evaluate(array.pack([a, b])), np.stack([A, A + 1]))
    np.testing.assert_array_equal(evaluate(reductions.reduce_sum(a, reduction_indices=[1], keep_dims=True)), A.sum(1, keepdims=True))  # noqa: E501
    np.testing.assert_array_equal(evaluate(extremes.argmax(a, dimension=1)), A.argmax(1))
    np.testing.assert_array_equal(evaluate(array.expand_dims(a, dim=0)), A[None])
    np.testing.assert_array_equal(evaluate(math.mul(a, b)), A * (A + 1))
    with pytest.raises(ValueError, match="both"):
        reductions.reduce_sum(a, axis=0, reduction_indices=0)


def test_positional_cross_entropy_is_of_before_one_point_zero():
    logits, labels = c.constant(A), c.constant(np.eye(3, 4, dtype=np.float32))
    want = evaluate(nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    np.testing.assert_array_equal(evaluate(nn.softmax_cross_entropy_with_logits(logits, labels)), want)


def test_lists_of_tensors_are_stacked():
    x, y = c.constant(1.0), c.constant(2.0)
    assert evaluate(reductions.reduce_sum([x, y])) == 3
    np.testing.assert_array_equal(evaluate(convert_to_tensor([[x, 5], [y, x]])), [[1, 5], [2, 1]])


def test_where_has_three_forms():
    m = c.constant(A > 5)
    np.testing.assert_array_equal(evaluate(slicing.where(m)), np.argwhere(A > 5))
    np.testing.assert_array_equal(evaluate(slicing.where(m, c.constant(A), c.constant(-A))), np.where(A > 5, A, -A))
    got = evaluate(slicing.where([True, False, True], c.constant(A), c.constant(-A)))
    np.testing.assert_array_equal(got, np.stack([A[0], -A[1], A[2]]))
    with pytest.raises(ValueError, match="both be non-None"):
        slicing.where(m, A)


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda x: x + c.zeros([2, 2]), "Dimensions must be equal"),
        (lambda x: array.reshape(x, [5, -1]), "Cannot reshape a tensor with 12 elements"),
        (lambda x: array.concat([x, c.zeros([3, 4, 1])], 0), "one rank"),
        (lambda x: tf.matmul(x, x), "Dimensions must be equal, but are 4 and 3"),
        (lambda x: array.squeeze(x, [0]), "Can not squeeze"),
        (lambda x: reductions.reduce_sum(x, 5), "Invalid reduction dimension"),
        (lambda x: nn.bias_add(x, [1.0]), "not compatible"),
        (lambda x: array.split(x, 3, 1), "evenly divisible"),
    ],
)
def test_bad_shapes_are_named_while_building(make, text):
    with pytest.raises(ValueError, match=text):
        make(c.constant(A))


def test_types_must_match():
    x, i = c.constant(A), c.constant([1, 2, 3, 4])
    with pytest.raises(TypeError, match="does not match"):
        math.add(x, i)
    with pytest.raises(TypeError):
        c.constant([1, 2]) + 1.5


def test_unfed_placeholder_says_what_is_missing():
    x = c.placeholder("float", [None, 2], name="images")
    with pytest.raises(errors.InvalidArgumentError, match=r"'images' with dtype float and shape \[\?,2\]"):
        evaluate(x + 1)


def test_out_of_range_names_the_index():
    i = c.placeholder("int32", [None])
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[1\] = 9 is not in \[0, 3\)"):
        evaluate(slicing.gather(c.constant(A), i), {i: [0, 9]})
    with pytest.raises(errors.InvalidArgumentError, match="label value of 7"):
        labels = c.placeholder("int32", [None])
        loss = nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=c.constant(A))
        evaluate(loss, {labels: [0, 7, 1]})


def test_clipping_by_the_global_norm():
    x, y = c.constant([3.0, 0.0]), c.constant([4.0])
    clipped, norm = clip.clip_by_global_norm([x, None, y], 1.0)
    assert clipped[1] is None
    assert evaluate(norm) == 5
    np.testing.assert_allclose(evaluate(clipped[0]), [0.6, 0], rtol=1e-6)
    nothing, _ = clip.clip_by_global_norm([c.constant([np.nan])], 1.0)
    assert np.isnan(evaluate(nothing[0])).all()


def test_dropout():
    x = c.ones([1000])
    kept = evaluate(nn.dropout(x, 0.25, seed=3))
    assert set(np.unique(kept).tolist()) == {0.0, 4.0}
    assert 180 < (kept > 0).sum() < 320
    assert evaluate(nn.dropout(x, rate=0.0)).sum() == 1000
    with pytest.raises(ValueError, match=r"\(0, 1\]"):
        nn.dropout(x, 0.0)


def test_embedding_lookup_over_parts():
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    ids = c.placeholder("int64", [None])
    mod = embedding.embedding_lookup([table[i::3] for i in range(3)], ids)
    div = embedding.embedding_lookup([table[:3], table[3:5], table[5:]], ids, partition_strategy="div")
    for made in (mod, div):
        np.testing.assert_array_equal(evaluate(made, {ids: [6, 0, 3, 3]}), table[[6, 0, 3, 3]])
        assert made.shape.as_list() == [None, 2]


def test_nest():
    structure = {"b": [1, (2, 3)], "a": None}
    assert nest.flatten(structure) == [None, 1, 2, 3]
    assert nest.pack_like(structure, [9, 8, 7, 6]) == {"b": [8, (7, 6)], "a": 9}
    assert nest.map_structure(lambda a, b: a + b, [1, (2,)], [10, (20,)]) == [11, (22,)]
    with pytest.raises(ValueError, match="same number of elements"):
        nest.assert_same_structure([1, 2], [1])
    with pytest.raises(TypeError, match="sequence type"):
        nest.assert_same_structure([1], (1,))


@pytest.mark.parametrize("make", [
    tf.zeros, tf.random_normal, lambda s: tf.reshape([1.0], s), lambda s: tf.broadcast_to([1.0], s),
    lambda s: tf.scatter_nd(np.zeros((1, 1), np.int64), [[1.0]], s),
])  # fmt: skip
def test_a_partly_known_shape_is_refused(make):
    with tf.Graph().as_default():
        assert make(tf.TensorShape([1, 1])).shape.as_list() == [1, 1]
        with pytest.raises(ValueError, match=r"partially known TensorShape \(\?, 3\)"):
            make(tf.TensorShape([None, 3]))


def test_indices_in_arrays_keep_their_64_bits():
    far = np.array([2**40 + 1, 0])
    for made in (slicing.gather([1.0, 2.0, 3.0], far), slicing.gather_nd([1.0, 2.0, 3.0], far[:, None])):
        assert made.op.inputs[1].dtype.name == "int64"
        with pytest.raises(errors.InvalidArgumentError):
            evaluate(made)


def test_noise_shapes_of_dropout_take_sizes_that_are_not_known_from_the_input():
    x = np.ones((5, 4), np.float32)
    for shape in ([None, 1], tf.TensorShape([None, 1]), (tf.Dimension(None), 1), [5, 1], np.array([5, 1])):
        dropped = evaluate(nn.dropout(x, 0.5, shape, seed=1))
        assert dropped.shape == (5, 4) and np.ptp(dropped, 1).max() == 0
    with pytest.raises(ValueError, match="partially known"):
        nn.dropout(c.placeholder("float32", [None, 4]), 0.5, [None, 1])


@pytest.mark.parametrize("k", [[2], [[2]], []])
def test_the_k_of_top_k_is_a_scalar(k):
    with pytest.raises(ValueError, match="not compatible"):
        nn.top_k([1.0, 2.0, 3.0], tf.constant(k, tf.int32))
