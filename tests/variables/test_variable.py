"""Variable in one process: names, values, updates, errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import dtfzmq as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def session(graph: tf.Graph) -> Iterator[tf.Session]:
    with tf.Session(graph=graph) as made:
        yield made


def test_names_and_static_facts(graph: tf.Graph) -> None:
    v = tf.Variable([1.0, 2.0], name="v")
    assert v.name == "v:0"
    assert v.op.type == "VariableV2"
    assert v.dtype is tf.float32.ref
    assert v.dtype.base_dtype is tf.float32
    assert v.get_shape().as_list() == [2]
    assert v.shape.as_list() == [2]
    assert v.graph is graph
    assert v.initializer.name == "v/Assign"
    assert v.value().op.name == "v/read"
    assert v.initial_value.op.name == "v/initial_value"
    assert repr(v) == "<tf.Variable 'v:0' shape=(2,) dtype=float32_ref>"
    assert tf.Variable(1).op.name == "Variable"
    assert tf.Variable(1).op.name == "Variable_1"


def test_the_first_value_of_a_function_is_made_beside_the_variable() -> None:
    with tf.device("/job:worker"):
        v = tf.Variable(lambda: tf.zeros([2]), name="v", dtype=tf.float32)
        w = tf.Variable(tf.zeros([2]), name="w")
    assert v.initial_value.op.name.startswith("v/Initializer/")
    assert v.initial_value.op.colocation_groups() == [b"loc:@v"]
    assert w.initial_value.op.device == "/job:worker"


def test_variables_compare_by_identity() -> None:
    v, w = tf.Variable(1.0), tf.Variable(1.0)
    assert v == v and v != w
    assert {v: 1, w: 2}[w] == 2
    assert v not in [w]
    with pytest.raises(TypeError, match="not iterable"):
        iter(v)
    assert v, "a variable is true: it is not its value"


def test_collections() -> None:
    v = tf.Variable(1.0)
    n = tf.Variable(2.0, trainable=False)
    local = tf.Variable(3.0, collections=[tf.GraphKeys.LOCAL_VARIABLES], trainable=False)
    assert tf.global_variables() == [v, n]
    assert tf.trainable_variables() == [v]
    assert tf.local_variables() == [local]
    with pytest.raises(ValueError, match="must be a list, tuple, or set"):
        tf.Variable(1.0, collections="variables")


def test_bad_first_values() -> None:
    with pytest.raises(ValueError, match="initial_value must be specified"):
        tf.Variable()
    with pytest.raises(ValueError, match="initial_value must have a shape specified"):
        tf.Variable(tf.placeholder(tf.float32))
    with pytest.raises(ValueError, match="compatible"):
        tf.Variable([1.0, 2.0], expected_shape=[3])


@pytest.mark.parametrize("value", [1.5, [[1, 2], [3, 4]], np.arange(3.0), np.int64(7), "text", [True, False], 2j])
def test_first_values_of_every_kind(session: tf.Session, value: object) -> None:
    v = tf.Variable(value)
    session.run(v.initializer)
    want = np.array(value)
    got = session.run(v)
    if want.dtype.kind == "U":
        assert got == b"text"
    else:
        np.testing.assert_array_equal(got, want)


def test_update_and_read(session: tf.Session) -> None:
    v = tf.Variable([1.0, 2.0])
    add, sub, put = v.assign_add([1.0, 1.0]), v.assign_sub([0.5, 0.5]), tf.assign(v, [9.0, 8.0])
    session.run(tf.global_variables_initializer())
    assert session.run(add).tolist() == [2.0, 3.0]
    assert session.run(sub).tolist() == [1.5, 2.5]
    assert session.run(put).tolist() == [9.0, 8.0]
    assert session.run(add.op) is None
    assert v.eval(session=session).tolist() == [10.0, 9.0]
    v.load([5.0, 6.0], session)
    assert session.run(v).tolist() == [5.0, 6.0]


def test_what_run_returned_is_not_changed_by_later_updates(session: tf.Session) -> None:
    v = tf.Variable(np.zeros(1000))
    add = v.assign_add(np.ones(1000))
    session.run(v.initializer)
    before = session.run(v)
    view = before[:10]
    session.run(add)
    assert before.max() == 0.0 and view.max() == 0.0
    before += 5.0
    assert session.run(v).max() == 1.0


def test_arithmetic_from_both_sides(session: tf.Session) -> None:
    v = tf.Variable([1.0, 2.0])
    array = np.array([3.0, 4.0], "float32")
    cases = [
        (v + 1.0, [2, 3]), (1.0 - v, [0, -1]), (v * array, [3, 8]), (array * v, [3, 8]), (array / v, [3, 2]),
        (-v, [-1, -2]), (v ** 2.0, [1, 4]), (v < 2.0, [True, False]), (v[0], 1), (v[-1:], [2]), (v + v, [2, 4]),
        (abs(-v), [1, 2]),
    ]  # fmt: skip
    session.run(v.initializer)
    for got, (_, want) in zip(session.run([case for case, _ in cases]), cases):
        np.testing.assert_array_equal(got, want)


def test_a_read_after_a_control_dependency_sees_the_update(session: tf.Session) -> None:
    v = tf.Variable(1.0)
    with tf.control_dependencies([v.assign(5.0)]):
        after = v.read_value()
    session.run(v.initializer)
    assert session.run(after) == 5.0


def test_rows(session: tf.Session) -> None:
    v = tf.Variable(np.zeros((4, 2), "float32"))
    ones = np.ones((3, 2), "float32")
    add = v.scatter_add(tf.IndexedSlices(tf.constant(ones), tf.constant([1, 3, 1])))
    sub = tf.scatter_sub(v, [0], ones[:1])
    put = tf.scatter_update(v, [2], [[7.0, 8.0]])
    session.run(v.initializer)
    assert session.run(add).tolist() == [[0, 0], [2, 2], [0, 0], [1, 1]]
    assert session.run(sub)[0].tolist() == [-1, -1]
    assert session.run(put)[2].tolist() == [7, 8]
    index = tf.placeholder(tf.int32, [1])
    bad = tf.scatter_update(v, index, [[7.0, 8.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 4 is not in \[0, 4\)"):
        session.run(bad, {index: [4]})
    assert session.run(v)[2].tolist() == [7, 8]


def test_counting_up(session: tf.Session) -> None:
    v = tf.Variable(0)
    count = v.count_up_to(2)
    session.run(v.initializer)
    assert [session.run(count), session.run(count)] == [0, 1]
    with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 2"):
        session.run(count)
    assert session.run(v) == 2


def test_a_value_that_is_missing_is_named(session: tf.Session) -> None:
    v = tf.Variable(1.0, name="v")
    for fetch in (v, v + 1.0, v.assign_add(1.0)):
        with pytest.raises(tf.errors.FailedPreconditionError, match="Attempting to use uninitialized value v"):
            session.run(fetch)
    assert not session.run(tf.is_variable_initialized(v))
    session.run(v.initializer)
    assert session.run(tf.is_variable_initialized(v))


def test_which_have_no_value(session: tf.Session) -> None:
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    missing = tf.report_uninitialized_variables()
    assert session.run(missing).tolist() == [b"a", b"b"]
    session.run(a.initializer)
    assert session.run(missing).tolist() == [b"b"]
    session.run(tf.variables_initializer([b]))
    assert session.run(missing).shape == (0,)


def test_shapes_of_assignments(session: tf.Session) -> None:
    v = tf.Variable(1.0, name="v")
    with pytest.raises(ValueError, match="compatible"):
        v.assign([1.0, 2.0])
    value = tf.placeholder(tf.float32)
    put = v.assign(value)
    session.run(v.initializer)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(put, {value: [1.0, 2.0]})
    assert "Assign requires shapes of both tensors to match. lhs shape= [] rhs shape= [2]" in caught.value.message
    assert session.run(v) == 1.0
    free = tf.Variable(value, validate_shape=False)
    session.run(free.initializer, {value: [1.0, 2.0]})
    assert session.run(free).tolist() == [1.0, 2.0]
    session.run(tf.assign(free, value, validate_shape=False), {value: 3.0})
    assert session.run(free) == 3.0


def test_initializers_may_depend_on_variables_in_any_order(session: tf.Session) -> None:
    a = tf.Variable(tf.random_normal([3], seed=1), name="a")
    b = tf.Variable(a.initialized_value() * 2.0, name="b")
    c = tf.Variable(b + 1.0, name="c")
    session.run(tf.global_variables_initializer())
    first, second, third = session.run([a, b, c])
    np.testing.assert_allclose(second, first * 2.0)
    np.testing.assert_allclose(third, second + 1.0)


def test_initialized_value_follows_the_variable(session: tf.Session) -> None:
    v = tf.Variable(1.0)
    value = v.initialized_value()
    assert session.run(value) == 1.0
    session.run(v.initializer)
    session.run(v.assign(4.0))
    assert session.run(value) == 4.0


def test_fed_variables_keep_their_value(session: tf.Session) -> None:
    v = tf.Variable(3.0)
    x = v * 17.0
    session.run(v.initializer)
    assert session.run(x, {v: 2.0}) == 34.0
    assert session.run(v) == 3.0


def test_a_variable_made_in_a_branch_lives_outside(session: tf.Session) -> None:
    made = []

    def branch() -> tf.Tensor:
        made.append(tf.Variable(2.0, name="inner"))
        return made[0] * 2.0

    out = tf.cond(tf.constant(True), branch, lambda: tf.constant(0.0))
    session.run(tf.global_variables_initializer())
    assert session.run(out) == 4.0


def test_gradients_reach_the_variable_through_any_read(session: tf.Session) -> None:
    v = tf.Variable(3.0)
    (g,) = tf.gradients(v * v.read_value(), [v])
    session.run(v.initializer)
    assert session.run(g) == 6.0


def test_each_dtype(session: tf.Session) -> None:
    names = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "string"]
    variables = []
    for name in names:
        value = np.array([b"a", b""], object) if name == "string" else np.array([1, 0], name)
        variables.append((tf.Variable(value, name=name), value))
    session.run(tf.global_variables_initializer())
    for (v, value), got in zip(variables, session.run([v for v, _ in variables])):
        assert got.dtype == value.dtype and got.tolist() == value.tolist()
        session.run(tf.assign(v, value[::-1].copy()))
        assert session.run(v).tolist() == value[::-1].tolist()


def test_assignment_to_a_slice(session: tf.Session) -> None:
    v = tf.Variable(np.arange(12, dtype=np.float32).reshape(3, 4))
    row = tf.placeholder(tf.int32, [])
    session.run(v.initializer)
    before = session.run(v)
    assert session.run(v[1:3, ::2].assign([[-1.0, -2.0], [-3.0, -4.0]])).tolist() == [
        [0, 1, 2, 3], [-1, 5, -2, 7], [-3, 9, -4, 11],
    ]  # fmt: skip
    session.run(v[row].assign(tf.zeros([4])), {row: 0})
    session.run(v[..., -1].assign(9.0))
    assert session.run(v).tolist() == [[0, 0, 0, 9], [-1, 5, -2, 9], [-3, 9, -4, 9]]
    assert before[0].tolist() == [0, 1, 2, 3]  # what was read is not changed
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"slice of shape \[4\] of value of shape \[3\]"):
        session.run(v[0].assign([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="Sliced assignment is only supported for variables"):
        tf.zeros([3])[0].assign(1.0)


def test_a_missing_value_is_reported_with_similar_names_that_have_one(session: tf.Session) -> None:
    there = [tf.Variable(1.0, name=name) for name in ("hidden/weights_1", "hidden/biases")]
    missing = tf.Variable(1.0, name="hidden/weights")
    session.run([v.initializer for v in there])
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        session.run(missing)
    text = "uninitialized value hidden/weights. Variables of similar names have one: hidden/weights_1"
    assert text in caught.value.message and "biases" not in caught.value.message


@pytest.mark.parametrize(
    ("there", "wanted"), [("v", "v_1"), ("v_12", "v_3"), ("net_1/w", "net/w"), ("net/w", "net_2/w_1")]
)
def test_names_that_differ_by_the_order_of_building_are_similar(session: tf.Session, there: str, wanted: str) -> None:
    other, missing = tf.Variable(1.0, name=there), tf.Variable(1.0, name=wanted)
    session.run(other.initializer)
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"value {wanted}. Variables .* have one: {there}\n"):
        session.run(missing)
