"""Optimizers, schedules and averages: TensorFlow's trajectories, structure, errors, exactness."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import threads
from dtfzmq.train import slots
from tests.kit.servers import start

RECORD = json.loads((Path(__file__).parent / "data" / "trajectories.json").read_text())
PROBLEM = RECORD["problem"]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def case_name(case: dict[str, Any]) -> str:
    return f"{case.get('optimizer', case.get('fn'))}{case['args']}{case['kwargs'] or ''}"


@pytest.mark.parametrize("case", RECORD["optimizers"], ids=case_name)
def test_trajectories(case: dict[str, Any]) -> None:
    """A dense and a sparse variable, six steps, to TensorFlow's recorded values; names of slots and variables too."""
    w = tf.Variable(np.array(PROBLEM["w0"], "float32"), name="w")
    e = tf.Variable(np.array(PROBLEM["e0"], "float32"), name="e")
    step = tf.train.get_or_create_global_step()
    x, y = (np.array(PROBLEM[k], "float32") for k in "xy")
    rows = tf.gather(e, np.array(PROBLEM["ids"], "int32"))
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.constant(x), w) + tf.reduce_sum(rows, 1) - y))
    settings = dict(case["kwargs"])
    if case["optimizer"] == "AdagradDAOptimizer":
        settings["global_step"] = step
    optimizer = getattr(tf.train, case["optimizer"])(*case["args"], **settings)
    train = optimizer.minimize(loss, global_step=step)
    assert sorted(v.op.name for v in tf.global_variables()) == case["variables"]
    assert sorted(optimizer.get_slot_names()) == sorted(case["slot_names"])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for want in case["steps"]:
            session.run(train)
            got = session.run({"w": w, "e": e, "loss": loss, "global_step": step})
            for name in ("w", "e", "loss"):
                np.testing.assert_allclose(got[name], want[name], rtol=2e-5, atol=2e-6, err_msg=name)
            assert got["global_step"] == want["global_step"]


@pytest.mark.parametrize("case", RECORD["schedules"], ids=case_name)
def test_schedules(case: dict[str, Any]) -> None:
    step = tf.placeholder(tf.int32, [])
    make: Any = functools.reduce(getattr, case["fn"].split("."), tf)
    rate = make(*[step if a == "global_step" else a for a in case["args"]], **case["kwargs"])
    with tf.Session() as session:
        got = [session.run(rate, {step: at}) for at in case["at"]]
    np.testing.assert_allclose(got, case["values"], rtol=1e-5, atol=1e-8)


def test_moving_averages() -> None:
    record = RECORD["moving_average"]
    v = tf.Variable(1.0, name="v")
    plain, updates = tf.train.ExponentialMovingAverage(0.9), tf.placeholder(tf.int32, [])
    counted = tf.train.ExponentialMovingAverage(0.99, num_updates=updates)
    assert plain.average_name(v) == "v/ExponentialMovingAverage"
    ops = plain.apply([v]), counted.apply([v])
    average = plain.average(v)
    assert average is not None and average.op.name == "v/ExponentialMovingAverage"
    assert tf.moving_average_variables() == [v]
    with pytest.raises(ValueError, match="Moving average already computed for: v:0"):
        plain.apply([v])
    with pytest.raises(TypeError, match="must be half, float, or double"):
        plain.apply([tf.Variable(1)])
    got: list[list[float]] = [[], []]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for k, value in enumerate(record["v_each_step"]):
            session.run(v.assign(value))
            session.run(ops[0])
            session.run(ops[1], {updates: k})
            for series, average in zip(got, session.run([plain.average(v), counted.average(v)])):
                series.append(average)
    np.testing.assert_allclose(got[0], record["decay_0.9"], rtol=1e-5)
    np.testing.assert_allclose(got[1], record["decay_0.99_num_updates_k"], rtol=1e-5)


def test_an_average_of_a_tensor_may_be_corrected_for_its_start_at_zero() -> None:
    x = tf.placeholder(tf.float32, [])
    value = tf.identity(x)
    average = tf.train.ExponentialMovingAverage(0.5, zero_debias=True)
    op = average.apply([value])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for want in (4.0, 4.0, 4.0):
            session.run(op, {x: 4.0})
            assert session.run(average.average(value)) == pytest.approx(want)


def test_an_integer_global_step_is_skipped_and_counted() -> None:
    w, step = tf.Variable(1.0, name="w"), tf.Variable(0)
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    pairs = optimizer.compute_gradients(w * w)
    assert [(g is None, v) for g, v in pairs] == [(False, w), (True, step)]
    train = optimizer.apply_gradients(pairs, global_step=step)
    float_step = tf.get_variable("steps", [], initializer=tf.constant_initializer(0), trainable=False)
    again = optimizer.minimize(w * w, global_step=float_step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run([w, step]) == [0.0, 1]
        session.run(again)
        assert session.run(float_step) == 1.0


def test_names_of_ops() -> None:
    w = tf.Variable(1.0, name="w")
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(0.5).minimize(w * w, global_step=step)
    assert train.name == "GradientDescent"
    assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == [train]
    names = {op.name: op.type for op in w.graph.get_operations() if op.name.startswith("GradientDescent")}
    assert names == {
        "GradientDescent/learning_rate": "Const",
        "GradientDescent/update_w/ApplyGradientDescent": "ApplyGradientDescent",
        "GradientDescent/update": "NoOp",
        "GradientDescent/value": "Const",
        "GradientDescent": "AssignAdd",
    }
    assert tf.train.AdamOptimizer().minimize(w * w, name="go").name == "go"


def test_the_global_step_is_added_to_last() -> None:
    w = tf.Variable(1.0)
    step = tf.train.create_global_step()
    train = tf.train.AdamOptimizer().minimize(w * w, global_step=step)
    sources = [train, *(t.op for t in train.inputs)]
    assert {op.name for source in sources for op in source.control_inputs} == {"Adam/update"}
    with pytest.raises(ValueError, match="already exists"):
        tf.train.create_global_step()
    assert tf.train.get_global_step() is step
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert tf.train.global_step(session, step) == 0


def test_a_global_step_that_is_none() -> None:
    assert tf.train.get_global_step() is None
    tf.Variable([1.0], name="global_step", trainable=False)
    with pytest.raises(TypeError, match="does not have integer type"):
        tf.train.get_global_step()


def test_errors() -> None:
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(tf.constant(1.0))
    w, unused = tf.Variable(1.0, name="w"), tf.Variable(1.0, name="unused")
    with pytest.raises(ValueError, match="No gradients provided for any variable, check your graph"):
        optimizer.minimize(tf.constant(1.0))
    with pytest.raises(ValueError, match="No variables provided"):
        optimizer.apply_gradients([])
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.apply_gradients([(None, unused)])
    with pytest.raises(ValueError, match="gate_gradients must be one of"):
        optimizer.compute_gradients(w * w, gate_gradients=7)
    with pytest.raises(ValueError, match="Invalid type"):
        optimizer.minimize(tf.constant(1), var_list=[w])
    with pytest.raises(NotImplementedError, match="unsupported type"):
        optimizer.minimize(w * w, var_list=[3.0])
    with pytest.raises(ValueError, match="Must specify the optimizer name"):
        tf.train.GradientDescentOptimizer(0.5, name="")


def test_wrong_gradient_shapes_are_seen_at_run_time_and_change_nothing() -> None:
    w = tf.Variable([1.0, 2.0])
    grad = tf.placeholder(tf.float32)
    train = tf.train.MomentumOptimizer(0.5, 0.9).apply_gradients([(grad, w)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="do not have the same shape"):
            session.run(train, {grad: [1.0]})
        assert session.run(w).tolist() == [1.0, 2.0]
        session.run(train, {grad: [1.0, 2.0]})
        assert session.run(w).tolist() == [0.5, 1.0]


def test_gates_and_settings_by_function() -> None:
    w, v = tf.Variable(2.0), tf.Variable(3.0)
    rate = tf.placeholder(tf.float32, [])
    optimizer = tf.train.GradientDescentOptimizer(lambda: rate)
    for gate in (optimizer.GATE_NONE, optimizer.GATE_OP, optimizer.GATE_GRAPH):
        train = optimizer.minimize(w * v, gate_gradients=gate)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train, {rate: 1.0})
            assert session.run([w, v]) == [-1.0, 1.0]


def test_a_constraint_holds_after_each_step() -> None:
    w = tf.Variable(1.0, constraint=lambda v: tf.maximum(v, 0.0))
    train = tf.train.GradientDescentOptimizer(10.0).minimize(w * w)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(w) == 0.0


def test_slots_and_variables_of_an_optimizer() -> None:
    w = tf.Variable([1.0, 2.0], name="w")
    optimizer = tf.train.AdamOptimizer()
    assert optimizer.get_slot(w, "m") is None
    optimizer.minimize(tf.reduce_sum(w * w))
    names = [v.op.name for v in optimizer.variables()]
    assert names == ["beta1_power", "beta2_power", "w/Adam", "w/Adam_1"]
    m, v = optimizer.get_slot(w, "m"), optimizer.get_slot(w, "v")
    assert m is not None and m.op.name == "w/Adam"
    assert v is not None and v.get_shape().as_list() == [2]
    assert not set(optimizer.variables()) & set(tf.trainable_variables())


def test_partitioned_variables_are_trained_by_part() -> None:
    whole = tf.get_variable(
        "v", initializer=np.arange(5, dtype="float32"), partitioner=tf.fixed_size_partitioner(2)
    )
    optimizer = tf.train.MomentumOptimizer(0.5, 0.9)
    train = optimizer.minimize(tf.reduce_sum(tf.square(tf.convert_to_tensor(whole))))
    slot = optimizer.get_slot(list(whole)[1], "momentum")
    assert slot is not None and slot.op.name == "v/part_1/Momentum"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(tf.convert_to_tensor(whole)).tolist() == [0.0] * 5


def test_slots_are_whole_in_a_scope_that_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    w = tf.get_variable("w", [4])
    optimizer = tf.train.MomentumOptimizer(0.5, 0.9)
    partitioner = tf.fixed_size_partitioner(2)
    with tf.variable_scope("s", partitioner=partitioner) as scope:
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(slots, "Zeros", lambda: lambda shape, **_: 1 // 0)
            optimizer.minimize(tf.reduce_sum(w * w))
        assert scope.partitioner is partitioner
        optimizer.minimize(tf.reduce_sum(w * w))
        slot = optimizer.get_slot(w, "momentum")
        assert isinstance(slot, tf.Variable) and slot.get_shape().as_list() == [4]
        assert scope.partitioner is partitioner and len(tf.get_variable("v", [4])) == 2


def test_concurrent_updates_are_exact() -> None:
    """Eight threads on two masters: every one of the additions counts, in the variable and in its slot."""
    steps, count = 40, 8
    with start({"ps": 1, "worker": 2}) as servers:
        graph = tf.Graph()
        with graph.as_default(), tf.device("/job:ps/task:0"):
            w = tf.Variable(np.zeros(1000, "float32"), name="w")
            e = tf.Variable(np.zeros((10, 4), "float32"), name="e")
            ones = tf.ones([1000])
            rows = tf.IndexedSlices(tf.ones([3, 4]), tf.constant([1, 5, 1]), tf.constant([10, 4]))
            optimizer = tf.train.MomentumOptimizer(1.0, 1.0)
            dense = optimizer.apply_gradients([(ones, w)])
            sparse = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(rows, e)])
            initialize = tf.global_variables_initializer()
            slot = optimizer.get_slot(w, "momentum")

        def work(index: int) -> None:
            with tf.Session(servers[f"worker:{index % 2}"].target, graph=graph) as session:
                for _ in range(steps):
                    session.run([dense, sparse])

        with tf.Session(servers["ps:0"].target, graph=graph) as session:
            session.run(initialize)
            workers = [threads.start(work, f"trainer-{i}", i) for i in range(count)]
            for worker in workers:
                worker.join(30)
            total = steps * count
            accumulated, values, table = session.run([slot, w, e])
        assert accumulated.min() == accumulated.max() == total
        assert values.min() == values.max() == -total * (total + 1) / 2
        assert (table[1].tolist(), table[5].tolist(), np.abs(table[0]).max()) == ([-2 * total] * 4, [-total] * 4, 0.0)


@pytest.mark.parametrize(
    "make, want",
    [
        (lambda: tf.train.GradientDescentOptimizer(0.1), 0.5119999942779541),
        (lambda: tf.train.MomentumOptimizer(0.1, 0.9), 0.06200000485777868),
        (lambda: tf.train.AdagradOptimizer(0.1), 0.7822991905701097),
        (lambda: tf.train.AdamOptimizer(0.1), 0.7015873258432849),
        (lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.3), 0.4725550549844405),
        (lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01), 0.6374378242854821),
    ],
)
def test_settings_beside_doubles_are_the_floats_that_tensorflow_takes_them_for(make: Any, want: float) -> None:
    v = tf.Variable(np.ones(2))
    train = make().minimize(tf.reduce_sum(v**2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        np.testing.assert_allclose(session.run(v), [want] * 2, rtol=1e-14)
