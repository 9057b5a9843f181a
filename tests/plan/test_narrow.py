"""Gradients in fewer bytes: which edges, how exactly, and that training arrives all the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import dtypes
from dtfzmq.graph.node import Node
from dtfzmq.ops.wire_forms import FORMS, SMALL, pack, unpack
from dtfzmq.plan.optimize.narrow import form_of, narrow
from tests.kit.servers import start
from tests.runtime.programs import Builder

F = dtypes.float32
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
VALUES = np.random.RandomState(0).standard_normal((40, 5)).astype(np.float32)


@pytest.mark.parametrize(("form", "error"), [("float32", 0.0), ("float16", 5e-4), ("bfloat16", 4e-3)])
def test_what_a_form_keeps(form: str, error: float) -> None:
    packed = pack(VALUES, form)
    assert packed.dtype == np.uint8 and packed.size == 24 + VALUES.size * (4 if form == "float32" else 2)
    np.testing.assert_allclose(unpack(packed), VALUES, rtol=error, atol=1e-7)


def test_int8_has_a_scale() -> None:
    packed = pack(VALUES, "int8")
    assert packed.size == 24 + VALUES.size
    got, step = unpack(packed), np.abs(VALUES).max() / 127
    assert np.abs(got - VALUES).max() <= step * 0.501
    assert np.abs(got).max() == pytest.approx(np.abs(VALUES).max())


@pytest.mark.parametrize("form", FORMS)
def test_every_shape_survives(form: str) -> None:
    for shape in ((), (1,), (0, 3), (SMALL,), (3, 4, 5), (17, 1)):
        x = np.random.RandomState(1).standard_normal(shape).astype(np.float32)
        got = unpack(pack(x, form))
        assert got.shape == shape and got.dtype == np.float32
        if x.size <= SMALL:
            assert (got == x).all()  # small ones are sent as they are
    assert (unpack(pack(VALUES.T, form)) == unpack(pack(np.ascontiguousarray(VALUES.T), form))).all()


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_finite_is_seen(form: str) -> None:
    x = np.concatenate([VALUES.ravel(), [np.nan, np.inf, -np.inf, 1e30, 0.0]]).astype(np.float32)
    got = unpack(pack(x, form))
    assert np.isnan(got[-5]) and not np.isfinite(got[-4]) and not np.isfinite(got[-3])
    assert not unpack(pack(np.zeros(20, np.float32), form)).any()


def test_bfloat16_rounds_to_even() -> None:
    x = np.full(20, 1.0, np.float32)
    x[:3] = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20]
    assert unpack(pack(x, "bfloat16"))[:3].tolist() == [1.0, 1 + 2**-6, 1 + 2**-7]


def test_the_configuration_names_a_form() -> None:
    assert form_of({}) == form_of({"wire": {"gradients": "float32"}}) == ""
    assert form_of({"wire": {"gradients": "int8"}}) == "int8"
    config = tf.ConfigProto(wire=tf.WireOptions(gradients="int4"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="one of float16, bfloat16, int8, not 'int4'"):
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            session.run(tf.constant(1.0))


def program() -> tuple[Builder, dict[str, Any]]:
    """A variable on the ps, updated by the mean of a worker's gradient and its own, and read by the worker."""
    b = Builder()
    v = b.variable("v", PS, F, (4,))
    read = b.add("Identity", [v], (F,), PS, name="read")
    gradient = b.binary("Mul", read, b.const([2.0] * 4, WORKER, F), WORKER, F, name="gradient")
    other = b.const([1.0] * 4, PS, F, name="other")
    total = b.binary("Add", gradient, other, PS, F, name="total")
    b.add("ApplyGradientDescent", [v, b.const(0.5, PS, F), total], (F.ref,), PS, name="update", use_locking=False)
    loss = b.add("Square", [gradient], (F,), PS, name="loss")
    b.ret(loss)
    return b, {"gradient": gradient}


def by_name(nodes: list[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}


def test_only_gradients_that_come_from_another_task_are_narrowed() -> None:
    b, _ = program()
    nodes = narrow(b.nodes, "float16")
    found = by_name(nodes)
    added = [node for node in nodes if node.op in ("PackGradient", "UnpackGradient")]
    assert [(n.op, n.device) for n in added] == [("PackGradient", WORKER), ("UnpackGradient", PS)]
    assert nodes[found["total"].inputs[0][0]] is added[1]  # through the sum
    assert nodes[found["loss"].inputs[0][0]].name == "gradient"  # the same value, for something else: exact
    assert nodes[found["gradient"].inputs[0][0]].name == "read"  # weights are exact
    assert all(s < i for i, node in enumerate(nodes) for s, _ in node.inputs)


def test_a_graph_without_gradients_between_tasks_stays_the_same() -> None:
    b = Builder()
    v = b.variable("v", PS, F, (4,))
    b.add("ApplyGradientDescent", [v, b.const(0.5, PS, F), b.const([1.0] * 4, PS, F)], (F.ref,), PS, use_locking=False)
    assert narrow(b.nodes, "int8") is b.nodes


def trained(form: str) -> np.ndarray:
    """Weights after training on a worker with variables on a ps."""
    with start({"ps": 1, "worker": 1}) as servers, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            w = tf.Variable(tf.zeros([2000]))
            rows = tf.Variable(tf.zeros([50, 40]))
        with tf.device("/job:worker/task:0"):
            goal = tf.constant(np.linspace(-1, 1, 2000, dtype=np.float32) ** 3)
            loss = tf.reduce_sum(tf.square(w - goal)) + tf.reduce_sum(tf.square(tf.gather(rows, [3, 7]) - 1.0))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        config = tf.ConfigProto(wire=tf.WireOptions(gradients=form)) if form else None
        with tf.Session(servers["worker:0"].target, config=config) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(40):
                session.run(train)
            found, table = session.run([w, rows])
    np.testing.assert_allclose(table[[3, 7]], 1, atol=2e-2)
    assert not table[[0, 1, 2, 4]].any()
    np.testing.assert_allclose(found, np.linspace(-1, 1, 2000) ** 3, atol=1e-2 if form else 1e-3)
    return found


def test_training_arrives_and_is_exact_unless_asked_otherwise() -> None:
    exact = trained("")
    for form in ("float16", "bfloat16", "int8"):
        assert not np.array_equal(trained(form), exact), form
    np.testing.assert_array_equal(trained("float32"), exact)


def test_what_int8_lost_is_added_to_the_next_gradient() -> None:
    """A gradient of one large and many small entries: each alone would round to zero for ever."""
    with start({"ps": 1, "worker": 1}) as servers, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            w = tf.Variable(tf.zeros([100]))
        with tf.device("/job:worker/task:0"):
            gradient = tf.constant(np.array([100.0] + [0.1] * 99, np.float32))
        train = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, w)])
        config = tf.ConfigProto(wire=tf.WireOptions(gradients="int8"))
        with tf.Session(servers["worker:0"].target, config=config) as session:
            session.run(w.initializer)
            for _ in range(40):
                session.run(train)
            found = session.run(w)
    assert found[0] == pytest.approx(-4000, rel=1e-3)
    np.testing.assert_allclose(found[1:], -4, atol=0.8)
