"""tf.gradients: what it takes, what it returns, and which ops it adds."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.ops import array, families, math, nn, reductions, slicing
from dtfzmq.ops import constants as c
from dtfzmq.ops.gradients import gradients
from dtfzmq.ops.grouping import group
from dtfzmq.ops.hessians import hessians
from dtfzmq.ops.matmul import matmul
from tests.kit.evaluate import evaluate

assert families.DECLARED


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as g:
        yield g


def test_none_where_nothing_depends():
    x, z = c.constant(1.0), c.constant(2.0)
    assert gradients(x * 2.0, z) == [None]
    assert gradients(c.stop_gradient(x), x) == [None]
    assert gradients(math.floordiv(x, 2.0), x) == [None]
    assert gradients(math.greater(x, z), x) == [None]
    assert gradients(c.constant(3), c.constant(3)) == [None]


def test_of_itself_is_one():
    x = c.constant([1.0, 2.0])
    (g,) = gradients(x, x)
    np.testing.assert_array_equal(evaluate(g), [1, 1])


def test_several_ys_and_grad_ys_add_up():
    x = c.constant(3.0)
    (g,) = gradients([x * x, x * 2.0], x)
    assert evaluate(g) == 8
    (g,) = gradients([x * x, x * 2.0], x, grad_ys=[None, c.constant(10.0)])
    assert evaluate(g) == 26
    with pytest.raises(ValueError, match="2 grad_ys for 1 ys"):
        gradients([x], x, grad_ys=[None, None])
    with pytest.raises(ValueError, match="incompatible"):
        gradients([x], x, grad_ys=[c.constant([1.0, 2.0])])
    with pytest.raises(TypeError, match="does not match"):
        gradients([x], x, grad_ys=[c.constant(1)])


def test_total_derivative_through_another_x():
    a = c.constant(2.0)
    b = a * 3.0
    y = a + b * b
    ga, gb = gradients(y, [a, b])
    assert evaluate([ga, gb]) == [37, 12]
    ga, gb = gradients(y, [a, b], stop_gradients=[a, b])
    assert evaluate([ga, gb]) == [1, 12]


def test_integers_do_not_carry_derivatives():
    x = c.constant([1.5, 2.5])
    y = tf.cast(tf.cast(x, "int32"), "float32")
    assert gradients(y, x) == [None]


def test_rows_stay_sparse(graph):
    table = c.constant(np.arange(8, dtype=np.float32).reshape(4, 2))
    y = reductions.reduce_sum(slicing.gather(table, [1, 1, 3]))
    (g,) = gradients(y, table)
    assert isinstance(g, IndexedSlices)
    assert g.shape.as_list() == [4, 2]
    np.testing.assert_array_equal(evaluate(convert_to_tensor(g)), [[0, 0], [2, 2], [0, 0], [1, 1]])
    (both,) = gradients([y, reductions.reduce_sum(slicing.gather(table, [0]))], table)
    assert isinstance(both, IndexedSlices)
    np.testing.assert_array_equal(evaluate(convert_to_tensor(both))[:, 0], [1, 2, 0, 1])
    (mixed,) = gradients([y, reductions.reduce_sum(table * 2.0)], table)
    np.testing.assert_array_equal(evaluate(mixed)[:, 0], [2, 4, 2, 3])


def test_batch_of_unknown_size_costs_no_shape_ops(graph):
    x = c.placeholder("float32", [None, 3])
    w, b = c.zeros([3, 2]), c.zeros([2])
    loss = reductions.reduce_sum(nn.relu(matmul(x, w) + b))
    before = len(graph.get_operations())
    gw, gb = gradients(loss, [w, b])
    made = {o.type for o in graph.get_operations()[before:]}
    assert not made & {"SumToShape", "KeptShape"}
    assert gb.shape.as_list() == [2]
    got = evaluate([gw, gb], {x: np.ones((5, 3))})
    assert [g.shape for g in got] == [(3, 2), (2,)]


@pytest.mark.parametrize("a, b", [((3, 1), (1, 4)), ((4,), (3, 4)), ((), (2, 3)), ((2, 1, 3), (4, 1)), ((1,), (1,))])
@pytest.mark.parametrize("known", [True, False])
def test_broadcasting(a, b, known):
    x = c.placeholder("float64", list(a) if known else [None] * len(a))
    y = c.placeholder("float64", list(b) if known else None)
    gx, gy = gradients(x * y, [x, y])
    values = {x: np.full(a, 2.0), y: np.full(b, 3.0)}
    full = np.broadcast_shapes(a, b)
    count = int(np.prod(full))
    got = evaluate([gx, gy], values)
    assert got[0].shape == a and got[1].shape == b
    np.testing.assert_allclose(got[0], 3.0 * count / max(1, int(np.prod(a))))
    np.testing.assert_allclose(got[1], 2.0 * count / max(1, int(np.prod(b))))


def test_second_derivative():
    x = c.constant([1.0, 2.0], "float64")
    y = reductions.reduce_sum(x * x * x)
    (g,) = gradients(y, x)
    (h,) = gradients(g, x)
    np.testing.assert_allclose(evaluate(h), [6, 12])
    (full,) = hessians(y, x)
    np.testing.assert_allclose(evaluate(full), [[6, 0], [0, 12]])


def test_gated_gradients_wait_for_each_other(graph):
    x, z = c.constant(1.0), c.constant(2.0)
    gx, gz = gradients(x * z, [x, z], gate_gradients=True)
    assert evaluate([gx, gz]) == [2, 1]
    assert gx.op.control_inputs and gx.op.control_inputs == gz.op.control_inputs


def test_colocation_and_names(graph):
    with graph.device("/job:ps/task:1"):
        x = c.constant([1.0])
        y = tf.exp(x, name="e")
    (g,) = gradients(y, x, colocate_gradients_with_ops=True, name="back")
    assert g.op.name.startswith("back/e_grad/")
    assert g.device == "/job:ps/task:1"


def test_other_default_graph():
    x = c.constant(2.0)
    y = x * x
    with Graph().as_default():
        (g,) = gradients(y, x)
    assert g.graph is x.graph
    assert evaluate(g) == 4


def test_undeclared_op(graph):
    x = c.constant(1.0)
    odd = graph.create_op("NobodyKnowsThis", [x], {}, [x.dtype], "odd", [()]).outputs[0]
    with pytest.raises(LookupError, match="No gradient defined for operation 'odd'"):
        gradients(odd * 2.0, x)


def test_group_stands_once_on_each_device(graph):
    with graph.device("/job:ps/task:0"):
        a = c.constant(1.0)
    with graph.device("/job:ps/task:1"):
        b = c.constant(1.0)
    done = group(a, [b], name="all")
    assert done.name == "all"
    assert sorted(o.device for o in done.control_inputs) == ["/job:ps/task:0", "/job:ps/task:1"]
    assert group(a).control_inputs == [a.op]
    with pytest.raises(TypeError):
        group(3)


def test_unstacked_parts_that_nobody_reads_count_as_zero():
    x = c.constant(np.ones((3, 2), np.float32))
    first = array.unstack(x)[0]
    (g,) = gradients(first, x)
    np.testing.assert_array_equal(evaluate(g), [[1, 1], [0, 0], [0, 0]])
