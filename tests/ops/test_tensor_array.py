"""TensorArray and what is built on it, in one thread and over tasks; expected values are TensorFlow's."""

from __future__ import annotations

import numpy as np
import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.serial import graph_nodes, nodes_from_wire, nodes_to_wire
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops import array, control, functional, math, reductions, slicing, strings
from dtfzmq.ops import constants as c
from dtfzmq.ops.branching import _list_pack, _list_unpack
from dtfzmq.ops.gradients import gradients
from dtfzmq.ops.indexed_slices import IndexedSlices
from dtfzmq.ops.tensor_array import TensorArray
from tests.kit.evaluate import evaluate
from tests.runtime import simulated


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


def over_tasks(graph, fetches, feeds=None, seed=1):
    """The values that a cluster of three tasks gives; only arrays travel in it."""
    cluster = simulated.Cluster({"ps": 2, "worker": 1}, seed=seed)
    cluster.extend(nodes_from_wire(*nodes_to_wire(graph_nodes(graph))))
    return cluster.run(
        [(t.op._id, t.value_index) for t in fetches], {(t.op._id, 0): v for t, v in (feeds or {}).items()}
    )


def check(value, want):
    np.testing.assert_allclose(evaluate(value), want, rtol=1e-6)


def test_write_read_stack_and_shapes():
    a = TensorArray("float32", 3)
    assert a.element_shape.ndims is None and a.dtype is dtypes.float32 and a.handle is a.flow
    a = a.write(0, [1.0, 2.0]).write(2, [3.0, 4.0])
    assert a.element_shape.as_list() == [2]
    check(a.read(2), [3, 4])
    assert a.stack().shape.as_list() == [3, 2] and a.gather([0]).shape.as_list() == [1, 2]
    assert a.concat().shape.as_list() == [6]
    check(a.stack(), [[1, 2], [0, 0], [3, 4]])
    check(a.gather([2, 0]), [[3, 4], [1, 2]])
    check(a.concat(), [1, 2, 0, 0, 3, 4])
    check(a.identity().size(), 3)
    assert evaluate(a.close()) is None


def test_whole_values():
    x = c.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    check(TensorArray("float32", 3).unstack(x).stack(), evaluate(x))
    check(TensorArray("float32", 4).unstack(x).stack()[3], [0, 0])
    check(TensorArray("float32", 0, dynamic_size=True).unstack(x).size(), 3)
    check(TensorArray("float32", 3).scatter([2, 0, 1], x).read(0), [3, 4])
    pieces = TensorArray("float32", 2, infer_shape=False).split(x, [1, 2])
    check(pieces.read(1), [[3, 4], [5, 6]])
    check(pieces.concat(), evaluate(x))
    assert evaluate(TensorArray("float32", 0, element_shape=[2]).stack()).shape == (0, 2)
    assert evaluate(TensorArray("float32", 0, element_shape=[None, 2]).concat()).shape == (0, 2)
    texts = TensorArray("string", 2).unstack([b"a", b"b"])
    assert evaluate(texts.stack()).tolist() == [b"a", b"b"] and evaluate(texts.read(1)).item() == b"b"
    joined = functional.map_fn(lambda t: strings.string_join([t, "!"]), c.constant(["a", "b"]))
    assert evaluate(joined).tolist() == [b"a!", b"b!"]


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: TensorArray("float32", 3).read(0), "element shape is not fully defined"),
        (lambda: TensorArray("float32", 3).read(4), "Tried to read from index 4 but array size is: 3"),
        (lambda: TensorArray("float32", 3).write(3, 1.0).stack(), "index 3 but array is not resizeable and size is: 3"),
        (lambda: TensorArray("float32", 3).write(-1, 1.0).stack(), "Tried to write to index -1"),
        (lambda: TensorArray("float32", 1).write(0, 1.0).write(0, 2.0).stack(), "has already been written to"),
        (lambda: TensorArray("float32", 2).unstack([1.0, 2.0, 3.0]).stack(), "not resizeable"),
        (lambda: TensorArray("float32", 2, infer_shape=False).split([1.0, 2.0], [1, 2]).concat(), "sum of lengths"),
        (lambda: TensorArray("float32", 1, infer_shape=False).split([1.0, 2.0], [1, 1]).concat(), "size of lengths"),
        (lambda: TensorArray("float32", 1).write(0, 1.0).concat(), "requires at least vectors"),
        (
            lambda: TensorArray("float32", 2, infer_shape=False).write(0, [1.0]).write(1, [1.0, 2.0]).stack(),
            "Shapes of elements do not match",
        ),
    ],
)
def test_errors_of_a_step(make, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        evaluate(make())


def test_errors_of_the_program():
    with pytest.raises(ValueError, match="`size` must be provided"):
        TensorArray("float32")
    with pytest.raises(ValueError, match="both a `handle` and `size`"):
        TensorArray("float32", 2, handle=TensorArray("float32", 1).handle)
    a = TensorArray("float32", 2).write(0, [1.0, 2.0])
    with pytest.raises(ValueError, match="Inconsistent shapes: saw \\(1,\\) but expected \\(2,\\)"):
        a.write(1, [1.0])
    with pytest.raises(TypeError, match="TensorArray dtype is float32"):
        a.write(1, c.constant(1))
    with pytest.raises(ValueError, match="Dimensions must be equal"):
        TensorArray("float32", 2).scatter([1], [1.0, 2.0])


def test_gradients_of_every_access():
    x = c.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    w = c.constant([[1.0, 10.0], [100.0, 1000.0], [2.0, 3.0]])
    a = TensorArray("float32", 3).unstack(x)
    check(gradients(a.stack() * w, x)[0], evaluate(w))
    check(gradients(a.read(1) * w[1], x)[0], [[0, 0], [100, 1000], [0, 0]])
    check(gradients(a.gather([2, 2]) * w[:2], x)[0], [[0, 0], [0, 0], [101, 1010]])
    check(gradients(a.concat() * array.reshape(w, [-1]), x)[0], evaluate(w))
    check(gradients(a.read(0) * a.read(0), x)[0], [[2, 4], [0, 0], [0, 0]])
    pieces = TensorArray("float32", 2, infer_shape=False).split(x, [1, 2])
    check(gradients(pieces.read(1) * w[1:], x)[0], [[0, 0], [100, 1000], [2, 3]])
    check(gradients(pieces.concat() * w, x)[0], evaluate(w))
    (g,) = gradients(a.stack() * a.stack(), x)
    check(gradients(g * w, x)[0], 2 * evaluate(w))
    added = a.grad("g").write(1, [1.0, 1.0]).write(1, [2.0, 2.0])
    check(added.stack(), [[0, 0], [3, 3], [0, 0]])


def test_arrays_pass_loops_and_branches():
    x = c.constant(2.0)

    def step(i, a):
        return i + 1, a.write(i, x * families_cast(i))

    def families_cast(i):
        return reductions.reduce_sum(c.fill([i], 1.0))

    _, a = control.while_loop(lambda i, _: i < 4, step, (0, TensorArray("float32", 4)))
    assert isinstance(a, TensorArray) and a.stack().shape.as_list() == [4]
    check(a.stack(), [0, 2, 4, 6])
    check(gradients(a.stack() * [1.0, 2.0, 3.0, 4.0], x)[0], 20)
    chosen = control.cond(x > 1.0, lambda: TensorArray("float32", 1).write(0, x), lambda: TensorArray("float32", 1))
    check(chosen.read(0), 2)
    check(gradients(chosen.read(0) * 3.0, x)[0], 3)
    with pytest.raises(TypeError, match="TensorArray"):
        control.cond(x > 1.0, lambda: TensorArray("float32", 1), lambda: x)


def test_lists_as_bytes():
    items = [None, np.float32(3), np.zeros((2, 0)), [b"x", None], np.array([b"", b"\0y"], object)]
    back = _list_unpack(_list_pack(items))
    assert back[0] is None and back[1] == 3 and back[2].shape == (2, 0)
    assert back[3][0].item() == b"x" and back[3][1] is None and back[4].tolist() == [b"", b"\0y"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("places", [("ps", 0, "ps", 1), ("worker", 0, "ps", 0)])
def test_over_tasks(graph, places, reverse):
    x = c.placeholder("float32", [None])
    w = c.placeholder("float32", [])

    def step(acc, v):
        with graph_of(acc).device(f"/job:{places[2]}/task:{places[3]}"):
            return acc * w + v

    def graph_of(t):
        return t.graph

    with graph.device(f"/job:{places[0]}/task:{places[1]}"):
        y = functional.scan(step, x, initializer=c.constant(1.0), reverse=reverse)
    fetches = [y, *gradients(y, [x, w])]
    feeds = {x: np.array([1, 2, 3], np.float32), w: np.float32(0.5)}
    want = evaluate(fetches, feeds)
    for a, b in zip(over_tasks(graph, fetches, feeds), want):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_map_fn():
    x = c.constant([1.0, 2.0, 3.0])
    y = functional.map_fn(lambda v: v * v, x)
    assert y.shape.as_list() == [3]
    check(y, [1, 4, 9])
    check(gradients(y, x)[0], [2, 4, 6])
    pairs = functional.map_fn(lambda v: (v[0] + v[1], {"p": v[0] * v[1]}), (x, x),
                              dtype=(dtypes.float32, {"p": dtypes.float32}))  # fmt: skip
    check(pairs[1]["p"], [1, 4, 9])
    check(gradients([pairs[0], pairs[1]["p"]], x)[0], [4, 6, 8])
    check(functional.map_fn(lambda v: math.equal(v, 2.0), x, dtype="bool"), [False, True, False])
    p = c.placeholder("float32", [None, 3])
    y = functional.map_fn(lambda v: v + 1.0, p)
    assert y.shape.as_list() == [None, 3]
    for rows in (0, 2):
        assert evaluate(y, {p: np.zeros([rows, 3])}).shape == (rows, 3)
    nested = functional.map_fn(lambda row: functional.map_fn(lambda v: v * 2.0, row), p)
    check_fed = evaluate(gradients(nested, p)[0], {p: np.ones([2, 3])})
    np.testing.assert_array_equal(check_fed, np.full([2, 3], 2))
    for bad, error in (
        (lambda: functional.map_fn(lambda v: v, c.constant(1.0)), ValueError),
        (lambda: functional.map_fn(lambda v: v, []), ValueError),
        (lambda: functional.map_fn(None, x), TypeError),  # type: ignore[arg-type]  # the mistake that is tested
        (lambda: functional.map_fn(lambda v: (v, v), x), ValueError),
    ):
        with pytest.raises(error):
            bad()


def test_folds_and_scan():
    x = c.constant([1.0, 2.0, 3.0])
    check(functional.foldl(lambda a, v: a - v, x), -4)
    check(functional.foldr(lambda a, v: a - v, x), 0)
    check(functional.foldr(lambda a, v: a - v, x, initializer=1.0), -5)
    check(functional.scan(lambda a, v: a - v, x, reverse=True), [0, 1, 3])
    y = functional.scan(lambda a, v: (a[0] + v, a[1] * v), x, initializer=(0.0, 1.0))
    check(y[0], [1, 3, 6])
    check(y[1], [1, 2, 6])
    check(gradients(y[1], x)[0], [9, 4, 2])
    empty = functional.scan(lambda a, v: a + v, c.zeros([0, 3]), initializer=c.zeros([3]))
    assert evaluate(empty).shape == (0, 3)
    with pytest.raises(errors.InvalidArgumentError):
        evaluate(functional.foldl(lambda a, v: a + v, c.zeros([0])))


def test_rows_of_branches_and_loops_stay_rows(graph):
    table = c.placeholder("float32", [5, 2])
    pred = c.placeholder("bool", [])
    looked = control.cond(pred, lambda: slicing.gather(table, [1, 3]), lambda: c.ones([2, 2]))
    (g,) = gradients(looked * [[1.0, 2.0], [3.0, 4.0]], table)
    assert isinstance(g, IndexedSlices)
    feeds = {table: np.ones((5, 2)), pred: np.bool_(True)}
    values, indices = evaluate([g.values, g.indices], feeds)
    assert indices.tolist() == [1, 3] and values.tolist() == [[1, 2], [3, 4]]
    assert evaluate(g.indices, {**feeds, pred: np.bool_(False)}).tolist() == []
    assert evaluate(convert_to_tensor(g), {**feeds, pred: np.bool_(False)}).tolist() == np.zeros((5, 2)).tolist()

    total = control.while_loop(
        lambda i, s: i < 3, lambda i, s: (i + 1, s + reductions.reduce_sum(slicing.gather(table, [i, 4]))), (0, 0.0)
    )[1]
    (g,) = gradients(total, table)
    assert isinstance(g, IndexedSlices) and g.shape.as_list() == [5, 2]
    assert sorted(evaluate(g.indices, feeds).tolist()) == [0, 1, 2, 4, 4, 4]
    assert evaluate(convert_to_tensor(g), feeds)[:, 0].tolist() == [1, 1, 1, 0, 3]
    both = control.cond(pred, lambda: slicing.gather(table, [1]), lambda: table[:1])
    (g,) = gradients(both, table)
    assert evaluate(convert_to_tensor(g), {**feeds, pred: np.bool_(False)})[0].tolist() == [1, 1]
    slices = control.cond(
        pred, lambda: IndexedSlices(c.constant([1.0]), c.constant([2]), c.constant([4])),
        lambda: IndexedSlices(c.constant([1.0, 2.0]), c.constant([0, 1]), c.constant([4])),
    )  # fmt: skip
    assert isinstance(slices, IndexedSlices)
    assert evaluate(convert_to_tensor(slices), {pred: np.bool_(False)}).tolist() == [1, 2, 0, 0]
    looped = control.while_loop(
        lambda i, s: i < 2, lambda i, s: (i + 1, IndexedSlices(s.values * 2.0, s.indices, s.dense_shape)),
        (0, IndexedSlices(c.constant([1.0]), c.constant([2]), c.constant([4]))),
        shape_invariants=(TensorShape([]), TensorShape([None])),
    )[1]  # fmt: skip
    assert evaluate(convert_to_tensor(looped)).tolist() == [0, 0, 4, 0]


def test_sparse_tensors_pass_loops_and_branches():
    pred = c.placeholder("bool", [])
    one = SparseTensor([[0, 1]], [2.0], [2, 2])
    chosen = control.cond(pred, lambda: one, lambda: SparseTensor([[0, 0], [1, 1]], [3.0, 4.0], [2, 2]))
    assert isinstance(chosen, SparseTensor)
    assert evaluate(chosen.values, {pred: np.bool_(True)}).tolist() == [2]
    assert evaluate(chosen.indices, {pred: np.bool_(False)}).tolist() == [[0, 0], [1, 1]]
    looped = control.while_loop(
        lambda i, s: i < 3, lambda i, s: (i + 1, SparseTensor(s.indices, s.values * 2.0, s.dense_shape)), (0, one)
    )[1]
    assert isinstance(looped, SparseTensor) and evaluate(looped.values).tolist() == [16]
    values = c.constant([2.0])
    sparse = control.cond(pred, lambda: SparseTensor([[0, 1]], values * 3.0, [2, 2]), lambda: one)
    assert evaluate(gradients(sparse.values, values)[0], {pred: np.bool_(True)}).tolist() == [3]
