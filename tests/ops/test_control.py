"""cond and while_loop: values, structures, captures, errors, and gradients against differences and closed forms."""

from __future__ import annotations

import collections

import msgpack
import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import dtypes, errors
from dtfzmq.graph import registry
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, get_default_graph
from dtfzmq.graph.node import MOST_NESTED
from dtfzmq.graph.serial import graph_nodes, nodes_from_wire, nodes_to_wire
from dtfzmq.ops import constants as c
from dtfzmq.ops import control, families, math, nn, reductions, slicing
from dtfzmq.ops.gradients import gradients
from dtfzmq.ops.matmul import matmul
from tests.kit.evaluate import evaluate

assert families.DECLARED


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as g:
        yield g


def numeric(y, x, at, feeds=None, step=1e-6):
    """Central differences of a scalar y for a fed x, element by element."""
    at = np.asarray(at, np.float64)
    out = np.zeros_like(at)
    for i in np.ndindex(at.shape):
        ends = []
        for sign in (1, -1):
            moved = at.copy()
            moved[i] += sign * step
            ends.append(float(evaluate(y, {**(feeds or {}), x: moved})))
        out[i] = (ends[0] - ends[1]) / (2 * step)
    return out


def check_gradient(y, x, at, feeds=None):
    (g,) = gradients(y, x)
    assert g is not None
    got = evaluate(convert_to_tensor(g), {**(feeds or {}), x: at})
    np.testing.assert_allclose(got, numeric(y, x, at, feeds), rtol=1e-4, atol=1e-6)
    return got


def test_cond_takes_one_branch():
    p = c.placeholder("bool", [])
    x = c.placeholder("float32", [])
    y = control.cond(p, lambda: x * 2.0, lambda: x + 10.0)
    assert evaluate(y, {p: True, x: 3}) == 6
    assert evaluate(y, {p: False, x: 3}) == 13
    assert y.shape.as_list() == []


def test_cond_does_not_run_the_other_branch():
    p = c.placeholder("bool", [])
    x = c.constant(7)
    y = control.cond(p, lambda: x // c.placeholder_with_default(0, []), lambda: x)
    assert evaluate(y, {p: False}) == 7


def test_cond_structures_and_deprecated_names():
    p = c.placeholder("bool", [])
    x = c.constant(2.0)
    Pair = collections.namedtuple("Pair", "a b")
    out = control.cond(p, fn1=lambda: {"k": [x, Pair(x, x + 1)]}, fn2=lambda: {"k": [-x, Pair(x * 3, x)]})
    assert isinstance(out["k"][1], Pair)
    assert evaluate(out["k"][1].b, {p: True}) == 3
    assert evaluate(out["k"][1].a, {p: False}) == 6
    one = control.cond(p, lambda: [x], lambda: [x + 1])
    assert evaluate(one, {p: False}) == 3
    strict = control.cond(p, lambda: [x], lambda: [x + 1], strict=True)
    assert isinstance(strict, list)


@pytest.mark.parametrize("kind", ["cond", "while", "case"])
def test_what_is_nested_too_deep_is_refused_where_it_is_built(kind):
    x = c.placeholder("float32", [])

    def nested(depth):
        if depth == 0:
            return x + 1.0
        if kind == "case":
            return control.switch_case(depth, [lambda k=k: x + k for k in range(depth + 1)])
        if kind == "cond":
            return control.cond(x > 0.0, lambda: nested(depth - 1), lambda: x)
        return control.while_loop(lambda i, _: i < 1, lambda i, _: (i + 1, nested(depth - 1)), [0, x])[1]

    with tf.Session() as session:
        assert session.run(nested(MOST_NESTED), {x: 1}) == (1 + MOST_NESTED if kind == "case" else 2)
    with pytest.raises(errors.UnimplementedError, match="nested more than 100 deep"):
        nested(MOST_NESTED + 1)


def test_cond_misuse():
    p = c.placeholder("bool", [])
    x = c.constant(1.0)
    with pytest.raises(TypeError, match="Python bool"):
        control.cond(True, lambda: x, lambda: x)
    with pytest.raises(TypeError, match="callable"):
        control.cond(p, 5, lambda: x)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="must have a return value"):
        control.cond(p, lambda: None, lambda: x)
    with pytest.raises(ValueError, match="same type"):
        control.cond(p, lambda: x, lambda: c.constant(1))
    with pytest.raises(ValueError, match="Incompatible return values"):
        control.cond(p, lambda: [x, x], lambda: [x, x, x])
    with pytest.raises(TypeError, match="required"):
        control.cond(p, lambda: x)


def test_cond_merges_shapes():
    p = c.placeholder("bool", [])
    a, b = c.zeros([2, 3]), c.zeros([4, 3])
    assert control.cond(p, lambda: a, lambda: b).shape.as_list() == [None, 3]
    assert control.cond(p, lambda: a, lambda: c.zeros([3])).shape.ndims is None


def test_cond_of_operations_and_control(graph):
    p = c.placeholder("bool", [])
    outside = c.no_op("outside")

    def branch():
        with get_default_graph().control_dependencies([outside]):
            return c.no_op()

    done = control.cond(p, branch, lambda: c.no_op())
    assert done.dtype is dtypes.bool_
    assert evaluate(done, {p: False})
    node = next(o for o in graph.get_operations() if o.type == "If")
    assert node.control_inputs == [outside]


def test_cond_gradient_of_both_branches():
    p = c.placeholder("bool", [])
    x = c.placeholder("float64", [3])
    w = c.placeholder("float64", [3])
    y = reductions.reduce_sum(control.cond(p, lambda: x * x * w, lambda: tf.exp(x)))
    at = np.array([0.5, -1.0, 2.0])
    feeds = {w: np.array([2.0, 3.0, -1.0])}
    for taken in (True, False):
        check_gradient(y, x, at, {**feeds, p: taken})
    (gw,) = gradients(y, w)
    np.testing.assert_allclose(evaluate(gw, {**feeds, p: True, x: at}), at * at)
    np.testing.assert_allclose(evaluate(gw, {**feeds, p: False, x: at}), np.zeros(3))


def test_cond_gradient_is_none_without_a_path():
    p = c.placeholder("bool", [])
    x, z = c.constant(1.0), c.constant(2.0)
    y = control.cond(p, lambda: x * 2.0, lambda: c.stop_gradient(z))
    assert gradients(y, z) == [None]
    assert gradients(y, x)[0] is not None


def test_cond_second_derivative():
    p = c.placeholder("bool", [])
    x = c.placeholder("float64", [])
    y = control.cond(p, lambda: x * x * x, lambda: x * x)
    (g,) = gradients(y, x)
    (h,) = gradients(g, x)
    assert evaluate([g, h], {p: True, x: 2.0}) == [12, 12]
    assert evaluate([g, h], {p: False, x: 2.0}) == [4, 2]


def test_nested_cond_gradient():
    p, q = c.placeholder("bool", []), c.placeholder("bool", [])
    x = c.placeholder("float64", [2])

    def inner():
        t = x * 3.0
        return control.cond(q, lambda: t * x, lambda: t + x * x * x)

    y = reductions.reduce_sum(control.cond(p, inner, lambda: -x))
    for taken in (True, False):
        for deep in (True, False):
            check_gradient(y, x, np.array([0.7, -0.4]), {p: taken, q: deep})


def test_gradients_called_inside_a_branch():
    p = c.placeholder("bool", [])
    x = c.placeholder("float64", [])
    y = control.cond(p, lambda: gradients(x * x * x, x)[0], lambda: x)
    assert evaluate(y, {p: True, x: 2.0}) == 12


def test_cond_gathers_rows():
    p = c.placeholder("bool", [])
    table = c.placeholder("float64", [4, 2])
    y = reductions.reduce_sum(control.cond(p, lambda: slicing.gather(table, [1, 1, 3]), lambda: table[:3]))
    got = check_gradient(y, table, np.arange(8.0).reshape(4, 2), {p: True})
    np.testing.assert_array_equal(got[:, 0], [0, 2, 0, 1])


def test_case():
    i = c.placeholder("int32", [])
    out = control.case(
        [(math.equal(i, 0), lambda: c.constant(10)), (math.equal(i, 1), lambda: c.constant(20))],
        default=lambda: c.constant(30),
    )
    assert [int(evaluate(out, {i: k})) for k in range(3)] == [10, 20, 30]


def test_while_counts():
    i, total = control.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s + i), (c.constant(0), c.constant(10)))
    assert evaluate([i, total]) == [5, 20]
    alone = control.while_loop(lambda i: i < 3, lambda i: i + 1, [c.constant(0)])
    assert evaluate(alone) == 3
    kept = control.while_loop(lambda i: i < 3, lambda i: [i + 1], [c.constant(0)], return_same_structure=True)
    assert isinstance(kept, list)


def test_while_nested_structure_and_maximum():
    start = {"i": c.constant(0), "xs": [c.constant(1.0), c.constant(2.0)]}

    def body(i, xs):
        return {"i": i + 1, "xs": [xs[0] + xs[1], xs[0]]}

    out = control.while_loop(lambda i, xs: i < 100, body, start, maximum_iterations=4)
    assert evaluate([out["i"], *out["xs"]]) == [4, 11, 7]


def test_while_shapes():
    x = c.constant([1.0])
    with pytest.raises(ValueError, match="not an invariant for the loop"):
        control.while_loop(lambda x: True, lambda x: tf.concat([x, x], 0), [x])
    y = control.while_loop(
        lambda i, x: i < 3,
        lambda i, x: [i + 1, tf.concat([x, x], 0)],
        [c.constant(0), x],
        shape_invariants=[[], [None]],
    )
    assert y[1].shape.as_list() == [None]
    assert evaluate(y[1]).shape == (8,)


def test_while_misuse():
    with pytest.raises(TypeError, match="cond must be callable"):
        control.while_loop(1, lambda i: i, [c.constant(0)])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValueError, match="No loop variables"):
        control.while_loop(lambda: True, list, [])
    with pytest.raises(TypeError, match="boolean scalar"):
        control.while_loop(lambda i: i, lambda i: i + 1, [c.constant(0)])
    with pytest.raises(TypeError, match="enters the loop with type"):
        control.while_loop(lambda i: i < 1, lambda i: c.constant(1.0), [c.constant(0)])
    with pytest.raises(ValueError):
        control.while_loop(lambda i, j: i < 1, lambda i, j: [i], [c.constant(0), c.constant(1)])


@pytest.mark.parametrize("times", [0, 1, 4])
def test_while_gradient(times):
    x = c.placeholder("float64", [3])
    w = c.placeholder("float64", [3, 3])
    n = c.placeholder("int32", [])

    def body(i, h):
        return i + 1, nn.tanh(tf.reshape(matmul(tf.expand_dims(h, 0), w), [3]) + x)

    h = control.while_loop(lambda i, h: i < n, body, (c.constant(0), x * 2.0))[1]
    y = reductions.reduce_sum(h * h)
    rng = np.random.default_rng(3)
    at, weights = rng.standard_normal(3), rng.standard_normal((3, 3))
    check_gradient(y, x, at, {w: weights, n: times})
    if times:
        check_gradient(y, w, weights, {x: at, n: times})
    else:
        (gw,) = gradients(y, w)
        np.testing.assert_array_equal(evaluate(gw, {x: at, w: weights, n: 0}), np.zeros((3, 3)))


def test_while_power_has_the_exact_gradient():
    x = c.placeholder("float64", [])
    y = control.while_loop(
        lambda i, t: i < 5, lambda i, t: (i + 1, t * x), (c.constant(0), c.constant(1.0, "float64"))
    )[1]
    (g,) = gradients(y, x)
    assert evaluate([y, g], {x: 3.0}) == [243, 405]


def test_cond_in_while_gradient():
    x = c.placeholder("float64", [])

    def body(i, t):
        odd = math.equal(i % 2, 1)
        return i + 1, control.cond(odd, lambda: t * x, lambda: t + x * x)

    y = control.while_loop(lambda i, t: i < 5, body, (c.constant(0), x))[1]
    check_gradient(y, x, 1.3)


def test_while_in_cond_gradient():
    p = c.placeholder("bool", [])
    x = c.placeholder("float64", [])

    def loop():
        return control.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * x + t), (c.constant(0), x))[1]

    y = control.cond(p, loop, lambda: x * 2.0)
    check_gradient(y, x, 0.7, {p: True})
    check_gradient(y, x, 0.7, {p: False})


def test_while_in_while_gradient():
    x = c.placeholder("float64", [2])

    def outer(i, t):
        inner = control.while_loop(
            lambda j, u: j < i + 1, lambda j, u: (j + 1, u * x + nn.sigmoid(u)), (c.constant(0), t)
        )[1]
        return i + 1, inner + t

    y = reductions.reduce_sum(control.while_loop(lambda i, t: i < 3, outer, (c.constant(0), x * 1.0))[1])
    check_gradient(y, x, np.array([0.3, -0.6]))


def test_while_second_derivative_is_refused():
    x = c.constant(2.0)
    y = control.while_loop(lambda i, t: i < 2, lambda i, t: (i + 1, t * x), (c.constant(0), x))[1]
    (g,) = gradients(y, x)
    with pytest.raises(TypeError, match="Second-order gradient for while loops"):
        gradients(g, x)


def test_while_without_back_prop():
    x = c.constant(2.0)
    y = control.while_loop(lambda i, t: i < 2, lambda i, t: (i + 1, t * x), (c.constant(0), x), back_prop=False)[1]
    assert evaluate(y) == 8
    assert gradients(y, x) == [None]


def test_loops_survive_the_wire(graph):
    x = c.constant(3.0)
    y = control.while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t * x), (c.constant(0), x))[1]
    gradients(y, x)
    nodes = graph_nodes(graph)
    plain, arrays = nodes_to_wire(nodes)
    back = nodes_from_wire(msgpack.unpackb(msgpack.packb(plain)), arrays)
    for a, b in zip(nodes, back):
        if a.op == "While":
            assert [n.name for n in a.attrs["body"].nodes] == [n.name for n in b.attrs["body"].nodes]
            assert list(a.attrs["saved"]) == list(b.attrs["saved"])


def test_devices_reach_the_insides(graph):
    x = c.constant(1.0)

    def body(i, t):
        with get_default_graph().device("/job:ps/task:1"):
            u = t * 2.0
        return i + 1, u

    with graph.device("/job:worker/task:0"):
        control.while_loop(lambda i, t: i < 4, body, (c.constant(0), x))
    loop = next(o for o in graph.get_operations() if o.type == "While")
    devices = {n.op: n.device for n in loop.attrs["body"].nodes if n.op in ("Mul", "Add")}
    assert devices == {"Mul": "/job:ps/task:1", "Add": "/job:worker/task:0"}


def test_deep_chain_of_gradients():
    x = c.constant(1.0)
    y = x
    for _ in range(20_000):
        y = y + x
    (g,) = gradients(y, x)
    assert g.op.type == "AddN"
    assert len(g.op.inputs) == 20_001


def test_lists_travel_as_bytes():
    items = [np.arange(6, dtype=np.float32).reshape(2, 3), np.int32(4), [np.zeros((0, 2)), [np.bool_(True)]], []]
    pack, unpack = (registry.lookup(name).kernel for name in ("ListPack", "ListUnpack"))
    assert pack is not None and unpack is not None
    packed = pack(items)
    back = unpack(packed)
    assert packed.dtype == np.uint8
    np.testing.assert_array_equal(back[0], items[0])
    assert back[1] == 4 and back[1].dtype == np.int32
    assert back[2][0].shape == (0, 2) and back[2][1][0].dtype == np.bool_
    assert back[3] == []


def test_case_says_when_no_predicate_or_too_many_hold():
    p, q = c.placeholder("bool", []), c.placeholder("bool", [])
    first = control.case([(p, lambda: 1), (q, lambda: 2)])
    alone = control.case([(p, lambda: c.constant(1))])
    only = control.case([(p, lambda: 1), (q, lambda: 2)], default=lambda: 3, exclusive=True)
    assert evaluate([first, only], {p: np.bool_(False), q: np.bool_(True)}) == [2, 2]
    assert evaluate([first, alone], {p: np.bool_(True), q: np.bool_(True)}) == [1, 1]
    neither = {p: np.bool_(False), q: np.bool_(False)}
    assert evaluate(only, neither) == 3
    for t in (first, alone):
        with pytest.raises(errors.InvalidArgumentError, match="None of conditions evaluated as True"):
            evaluate(t, neither)
    with pytest.raises(errors.InvalidArgumentError, match="exclusive=True: more than 1 conditions"):
        evaluate(only, {p: np.bool_(True), q: np.bool_(True)})
