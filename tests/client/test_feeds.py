"""Feeds: what numpy converts is taken, what does not fit is refused in TF1's words before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest

from dtfzmq.base import dtypes
from dtfzmq.client.feeds import FeedSlot, flatten
from dtfzmq.graph.graph import Graph

FLOAT, INT, LONG, STRING, BOOL = dtypes.float32, dtypes.int32, dtypes.int64, dtypes.string, dtypes.bool_


def slot(dtype, shape=None, graph=None):
    graph = graph or Graph()
    op = graph.create_op("Placeholder", [], {"dtype": dtype}, [dtype], "x", [shape])
    return FeedSlot(op.outputs[0])


@pytest.mark.parametrize(
    "dtype, value, expected",
    [
        (FLOAT, 1, np.float32(1)),
        (FLOAT, 1.5, np.float32(1.5)),
        (FLOAT, np.float64(2.5), np.float32(2.5)),
        (FLOAT, [1, 2.5], np.array([1, 2.5], "f4")),
        (FLOAT, np.arange(6).reshape(2, 3).T, np.arange(6, dtype="f4").reshape(2, 3).T),
        (FLOAT, np.arange(6.0)[::-2], np.array([5, 3, 1], "f4")),
        (FLOAT, np.arange(3, dtype=">f4"), np.arange(3, dtype="f4")),
        (FLOAT, np.broadcast_to(np.array([1, 2], np.float32), (3, 2)), np.array([[1, 2]] * 3, "f4")),
        (FLOAT, np.zeros((0, 3)), np.zeros((0, 3), "f4")),
        (INT, 1.5, np.int32(1)),
        (INT, True, np.int32(1)),
        (INT, np.array(2**40), np.int32(0)),
        (LONG, 2**40, np.int64(2**40)),
        (BOOL, [True, False], np.array([True, False])),
    ],
)
def test_values_are_converted(dtype, value, expected):
    got = slot(dtype).convert(value)
    assert type(got) is np.ndarray and got.dtype == np.asarray(expected).dtype and got.dtype.isnative
    assert got.shape == np.shape(expected) and got.flags.c_contiguous
    np.testing.assert_array_equal(got, expected)


def test_none_fed_to_a_float_is_nan():
    assert np.isnan(slot(FLOAT).convert(None))


def test_values_that_fit_are_not_copied():
    value = np.ones(4, "f4")
    assert np.shares_memory(slot(FLOAT).convert(value), value)


@pytest.mark.parametrize(
    "value, expected",
    [
        ("é", "é".encode()),
        (b"a\0", b"a\0"),
        (["a", b"\xff"], [b"a", b"\xff"]),
        (np.array(["ab", "c"]), [b"ab", b"c"]),
        (np.array([["a"], [b""]], object), [[b"a"], [b""]]),
        ([], []),
    ],
)
def test_strings_become_bytes(value, expected):
    got = slot(STRING).convert(value)
    assert got.dtype == object
    assert got.tolist() == expected


@pytest.mark.parametrize("value", [2**40, -(2**31) - 1, [2**40]])
def test_integers_that_do_not_survive(value):
    with pytest.raises(TypeError, match="is not compatible with Tensor type .*int32"):
        slot(INT).convert(value)


@pytest.mark.parametrize(
    "value, error",
    [
        (np.ma.masked_array([1.0], [True]), "masked array"),
        (np.array(["2001-01-01"], "M8[D]"), "has no tensor type"),
        (np.zeros(2, [("a", "f4")]), "has no tensor type"),
        (np.zeros(2, np.longdouble), "has no tensor type"),
    ],
)
def test_values_without_a_tensor_type(value, error):
    with pytest.raises(TypeError, match=f"'x:0'.*{error}"):
        slot(FLOAT).convert(value)


def test_objects_in_strings_are_named():
    with pytest.raises(TypeError, match="'x:0' holds an int"):
        slot(STRING).convert([b"a", 3])


def test_a_tensor_is_no_value():
    graph = Graph()
    made = slot(FLOAT, graph=graph)
    with pytest.raises(TypeError, match=r"The value of a feed cannot be a tf.Tensor object"):
        made.convert(made.tensor)


@pytest.mark.parametrize(
    "shape, value, fits",
    [
        ([], 1.0, True),
        ([], [1.0], False),
        ([None, 2], np.zeros((5, 2)), True),
        ([None, 2], np.zeros((5, 3)), False),
        ([None, 2], np.zeros(2), False),
        (None, np.zeros((1, 2, 3)), True),
    ],
)
def test_static_shapes_are_held(shape, value, fits):
    made = slot(FLOAT, shape)
    if fits:
        made.convert(value)
    else:
        with pytest.raises(ValueError, match=r"Cannot feed value of shape \(.*\) for Tensor 'x:0', which has shape '"):
            made.convert(value)


def test_ragged_lists_are_value_errors():
    with pytest.raises(ValueError):
        slot(FLOAT).convert([[1], [1, 2]])


def test_keys_by_tensor_name_and_nesting():
    graph = Graph()
    a, b = (graph.create_op("Placeholder", [], {"dtype": FLOAT}, [FLOAT], n, [[]]).outputs[0] for n in "ab")
    assert list(flatten(graph, {a: 1, "b:0": 2})) == [(a, 1), (b, 2)]
    assert list(flatten(graph, {(a, b): (1, 2)})) == [(a, 1), (b, 2)]
    with pytest.raises(ValueError, match="Could not flatten dictionary"):
        list(flatten(graph, {(a, b): (1,)}))
    for bad in (a.op, "c:0", 3):
        with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
            list(flatten(graph, {bad: 1}))
    graph.prevent_feeding(a)
    with pytest.raises(ValueError, match="Tensor a:0 may not be fed"):
        list(flatten(graph, {a: 1}))


@pytest.mark.parametrize(
    "dtype, value, kind, said",
    [
        (INT, float("nan"), ValueError, "float fed to 'x:0' .* tensor of int32: cannot convert float NaN"),
        (FLOAT, 1 + 2j, TypeError, "complex fed to 'x:0' cannot be made a tensor of float32: "),
        (FLOAT, ["one"], ValueError, "list fed to 'x:0' .* of float32: could not convert string to float: 'one'"),
        (FLOAT, [[1.0], [1.0, 2.0]], ValueError, "list fed to 'x:0' .*inhomogeneous"),
        (INT, {}, TypeError, "dict fed to 'x:0'"),
    ],
)
def test_what_cannot_be_converted_names_its_feed(dtype, value, kind, said):
    with pytest.raises(kind, match=said):
        slot(dtype).convert(value)
