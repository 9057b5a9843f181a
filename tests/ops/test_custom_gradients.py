"""Gradients that the program gives: registered, mapped, decorated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.ops import control, gradient_rules
from dtfzmq.ops.custom_gradient import custom_gradient, grad_pass_through, recompute_grad
from dtfzmq.ops.gradient_rules import NotDifferentiable, RegisterGradient
from dtfzmq.ops.gradients import gradients
from tests.kit.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    monkeypatch.setattr(gradient_rules, "_RULES", {})
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("fn", [
    lambda x: tf.unique(x)[0], lambda x: tf.image.resize_area(tf.reshape(x, [1, 2, 2, 1]), [3, 3]),
    lambda x: tf.bitcast(tf.bitcast(x, tf.int32), tf.float32) + tf.bitcast(x, tf.float32),
    lambda x: tf.setdiff1d(x, x[:1])[0], lambda x: tf.cast(tf.random_poisson(x, []), tf.float32),
    lambda x: tf.gradients(tf.nn.lrn(tf.reshape(x, [1, 2, 2, 1])), x), lambda x: tf.gradients(tf.igamma(x, 2.0), x),
    lambda x: tf.sparse_reduce_max(tf.SparseTensor([[0], [2]], x[:2], [3])),
])  # fmt: skip
def test_where_tensorflow_defines_no_gradient_asking_for_it_is_an_error(fn):
    x = tf.constant([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(LookupError, match="No gradient defined"):
        tf.gradients(fn(x), x)
    assert tf.gradients(tf.stop_gradient(tf.unique(x)[0]), x) == [None]


def test_mapped_gradients(graph):
    RegisterGradient("TenTimes")(lambda op, g: g * 10.0)
    NotDifferentiable("None")
    x = tf.constant([1.0, 2.0])
    with graph.gradient_override_map({"Identity": "TenTimes", "Tanh": "None"}):
        y, z = tf.identity(x), tf.tanh(x)
        looped = control.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.identity(v)), (0, x))[1]
        chosen = tf.cond(x[0] > 0.0, lambda: tf.identity(x), lambda: x)
    assert y.op.get_attr("_gradient_op_type") == "TenTimes"
    assert evaluate(gradients(y, x)[0]).tolist() == [10, 10]
    assert gradients(z, x) == [None]
    assert evaluate(gradients(looped, x)[0]).tolist() == [1000, 1000]
    assert evaluate(gradients(chosen, x)[0]).tolist() == [10, 10]
    assert evaluate(gradients(tf.identity(x), x)[0]).tolist() == [1, 1]
    with graph.gradient_override_map({"Identity": "Unknown"}):
        y = tf.identity(x)
    with pytest.raises(LookupError, match="No gradient defined for operation 'Identity_"):
        gradients(y, x)


def test_registration_errors(graph):
    RegisterGradient("Mine")(lambda op, g: g)
    for name in ("Mine", "Add"):
        with pytest.raises(KeyError, match=f"Registering two gradient with name '{name}'"):
            RegisterGradient(name)(lambda op, g: g)
    no_name: Any = 3
    for call in (RegisterGradient, NotDifferentiable):
        with pytest.raises(TypeError, match="op_type must be a string"):
            call(no_name)
    for bad in (3, {3: "a"}, {"a": 3}):
        with pytest.raises(TypeError, match="op_type_map must be a dictionary"):
            with graph.gradient_override_map(bad):
                pass


def test_a_gradient_of_the_wrong_shape_is_refused(graph):
    RegisterGradient("Scalar")(lambda op, g: tf.reduce_sum(g))
    x = tf.constant([1.0, 2.0])
    with graph.gradient_override_map({"Identity": "Scalar"}):
        y = tf.identity(x)
    with pytest.raises(ValueError, match="Incompatible shapes between op input and calculated input gradient"):
        gradients(y, x)


def test_custom_gradient():
    @custom_gradient
    def product(a, b):
        return {"p": a * b}, lambda d: (d * 2.0, d * 3.0)

    x = tf.constant([1.0, 2.0])
    y = product(x, x)["p"]
    assert y.shape.as_list() == [2] and evaluate(y).tolist() == [1, 4]
    assert evaluate(gradients(y, x)[0]).tolist() == [5, 5]
    chosen = control.cond(x[0] > 0.0, lambda: product(x, x)["p"], lambda: x)
    assert evaluate(gradients(chosen, x)[0]).tolist() == [5, 5]
    looped = control.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, product(v, x)["p"]), (0, x))[1]
    assert evaluate(gradients(looped, x)[0]).tolist() == [13, 13]  # 2 * 2, and 3 * (1 + 2)
    with pytest.raises(ValueError, match="keywords arguments"):
        product(x, b=x)
    with pytest.raises(TypeError, match="a grad_fn"):
        custom_gradient(lambda a: a)(x)
    wrong = custom_gradient(lambda a: (a, lambda d: (d, d)))(x)
    with pytest.raises(ValueError, match="Num gradients 3 generated"):
        gradients(wrong, x)


def test_variables_of_a_custom_gradient(graph):
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    seen = []

    @custom_gradient
    def scaled(a):
        def grad(d, variables=None):
            seen.extend(variables)
            return d * 2.0, [d * 7.0]

        return a * v, grad

    @custom_gradient
    def forgetful(a):
        return a * v, lambda d: d

    x = tf.constant([1.0, 2.0])
    found = gradients(scaled(x), [x, v])
    with tf.Session(graph=graph) as session:
        session.run(v.initializer)
        assert [g.tolist() for g in session.run(found)] == [[2, 2], [7, 7]]
        assert seen == [v]
        again = recompute_grad(lambda a: tf.tanh(a * v))(x)
        plain = tf.tanh(x * v)
        for a, b in zip(*session.run([gradients(again, [x, v]), gradients(plain, [x, v])])):
            np.testing.assert_allclose(a, b)
    with pytest.raises(TypeError, match="must accept a 'variables'"):
        forgetful(x)


def test_pass_through():
    x = tf.constant([1.5, 2.5])
    y = grad_pass_through(tf.floor)(x)
    assert evaluate(y).tolist() == [1, 2]
    assert evaluate(gradients(y, x)[0]).tolist() == [1, 1]
