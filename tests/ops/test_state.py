"""Every op that updates a variable, against its own samples and against plain numpy; in place, exact, without waste."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import dtypes, errors, threads
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph import registry
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.opdef import OpDef, Sample
from dtfzmq.ops import families, state, training
from dtfzmq.runtime.cells import VariableCell

UPDATES = [d for d in registry.all_ops() if d.name in families.OF_STATE and any(a.ref for a in d.signature.inputs)]
CASES = [pytest.param(d, s, id=f"{d.name}-{i}") for d in UPDATES for i, s in enumerate(d.samples)]


class Env:
    """What kernels of these ops are made with."""

    xp = np
    device = "/job:localhost/replica:0/task:0/device:CPU:0"


def cell(value: Any) -> VariableCell:
    array = np.asarray(value)
    return VariableCell("v", dtypes.of_array(array)).assign(array)


def build(definition: OpDef, sample: Sample) -> tuple[Any, list[Any]]:
    """The op of a sample in the default graph, and what its kernel is given: a cell for each reference."""
    tensors: list[Any] = []
    values: list[Any] = []
    for number, (spec, value) in enumerate(zip(definition.signature.inputs, sample.args)):
        array = np.asarray(value)
        if spec.ref:
            tensors.append(state.variable(array.shape, dtypes.of_array(array), name=f"v{number}"))
            values.append(cell(array))
        else:
            tensors.append(convert_to_tensor(array))
            values.append(array)
    assert definition.builder is not None
    return definition.builder(*tensors, **sample.attrs), values


def kernel(definition: OpDef, node: Any) -> Any:
    if definition.kernel is not None:
        return definition.kernel
    assert definition.make is not None
    return definition.make(node, Env())


@pytest.mark.parametrize(("definition", "sample"), CASES)
def test_samples(definition: OpDef, sample: Sample) -> None:
    """The result fits its declared shape and dtype; inputs that are no references are not written."""
    with Graph().as_default():
        out, values = build(definition, sample)
        before = [np.array(v) if isinstance(v, np.ndarray) else None for v in values]
        result = kernel(definition, out.op.node_def)(*values)
    if out.dtype.is_ref:
        assert result is values[0]
        result = result.read()
    assert out.get_shape().is_compatible_with(TensorShape(np.shape(result)))
    assert dtypes.of_array(np.asarray(result)) is out.dtype.base_dtype
    for was, value in zip(before, values):
        if was is not None:
            np.testing.assert_array_equal(was, value)


@pytest.mark.parametrize(("definition", "sample"), CASES)
def test_a_leased_value_is_left_alone_and_gives_the_same_result(definition: OpDef, sample: Sample) -> None:
    results = []
    for leased in (False, True):
        with Graph().as_default():
            out, values = build(definition, sample)
            cells = [v for v in values if isinstance(v, VariableCell)]
            leases = [c.read() for c in cells] if leased else []
            copies = [np.array(lease) for lease in leases]
            kernel(definition, out.op.node_def)(*values)
        for lease, copy in zip(leases, copies):
            np.testing.assert_array_equal(lease, copy)
        del leases
        results.append([np.array(c.read()) for c in cells])
    for plain, other in zip(*results):
        np.testing.assert_array_equal(plain, other)


@pytest.mark.parametrize(("definition", "sample"), CASES)
def test_float32_stays_float32(definition: OpDef, sample: Sample) -> None:
    if not any(np.asarray(a).dtype == np.float64 for a in sample.args):
        return
    smaller = Sample(
        *(np.asarray(a, "float32") if np.asarray(a).dtype == np.float64 else a for a in sample.args), **sample.attrs
    )
    results = []
    for used in (sample, smaller):
        with Graph().as_default():
            out, values = build(definition, used)
            kernel(definition, out.op.node_def)(*values)
        results.append([np.asarray(v.read()) for v in values if isinstance(v, VariableCell)])
    for wide, narrow in zip(*results):
        assert narrow.dtype == np.float32
        np.testing.assert_allclose(narrow, wide, rtol=2e-5, atol=1e-6)


DENSE = [d for d in UPDATES if d.name.startswith("Apply")]


@pytest.mark.parametrize("definition", DENSE, ids=lambda d: d.name)
@pytest.mark.parametrize("size", [5, 16384, 40000])
def test_blocks_do_not_show(definition: OpDef, size: int) -> None:
    """The result for many elements is that of each element alone."""
    sample = definition.samples[0]
    random = np.random.RandomState(1)
    big: list[Any] = []
    for spec, value in zip(definition.signature.inputs, sample.args):
        array = np.asarray(value)
        big.append(random.uniform(0.5, 2.0, size) if array.ndim else array)
        assert array.ndim or not spec.ref
    run = _runner(definition, big)
    whole = run(big)
    places = [0, size // 2, size - 1]
    for place in places:
        one = run([v[place : place + 1] if np.ndim(v) else v for v in big])
        for all_of, single in zip(whole, one):
            np.testing.assert_allclose(all_of[place], single[0], rtol=1e-12)


def _runner(definition: OpDef, args: list[Any]) -> Any:
    def run(values: list[Any]) -> list[np.ndarray]:
        with Graph().as_default(), np.errstate(invalid="ignore"):
            out, made = build(definition, Sample(*values))
            kernel(definition, out.op.node_def)(*made)
        return [np.array(v.read()) for v in made if isinstance(v, VariableCell)]

    return run


@pytest.mark.parametrize("definition", DENSE, ids=lambda d: d.name)
def test_an_update_in_place_takes_no_memory_of_its_size(definition: OpDef) -> None:
    size = 1 << 18
    args = [np.full(size, 1.5) if np.ndim(a) else np.asarray(a) for a in definition.samples[0].args]
    with Graph().as_default():
        out, values = build(definition, Sample(*args))
        run = kernel(definition, out.op.node_def)
    run(*values)
    tracemalloc.start()
    run(*values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size * 8 / 3, f"{peak} bytes for an array of {size * 8}"


def test_a_transposed_gradient() -> None:
    v, grad = cell(np.zeros((3, 2))), np.arange(6.0).reshape(2, 3).T
    training._dense((v,), training.rules.gradient_descent, 1, grad, (np.float64(1.0),))
    np.testing.assert_array_equal(v.read(), -grad)


def test_scalars() -> None:
    v, m = cell(np.float32(1.0)), cell(np.float32(0.0))
    scalars = (np.float32(0.5), np.float32(0.9))
    training._dense((v, m), training.rules.momentum, 1, np.float32(2.0), scalars)
    assert (v.read(), m.read()) == (0.0, 2.0)
    assert type(v.read()) is np.float32


def test_updates_of_a_variable_and_its_slot_are_one() -> None:
    """Many threads: the slot counts the updates, the variable sums what the slot was at each."""
    v, m = cell(np.zeros(100)), cell(np.zeros(100))
    one, scalars = np.ones(100), (np.float64(1.0), np.float64(1.0))

    def work() -> None:
        for _ in range(200):
            training._dense((v, m), training.rules.momentum, 1, one, scalars)

    for worker in [threads.start(work, f"updater-{i}") for i in range(4)]:
        worker.join(20)
    assert m.read().min() == m.read().max() == 800
    assert v.read().min() == v.read().max() == -800 * 801 / 2


def test_a_slot_without_a_value_leaves_the_variable_as_it_was() -> None:
    v, m = cell(np.ones(4)), VariableCell("m", dtypes.float64)
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized value m"):
        training._dense((v, m), training.rules.momentum, 1, np.ones(4), (np.float64(1.0), np.float64(1.0)))
    np.testing.assert_array_equal(v.read(), np.ones(4))


@pytest.mark.parametrize("bad", [7, -1])
def test_rows_that_are_not_there(bad: int) -> None:
    v = cell(np.ones((4, 2)))
    indices = np.array([0, bad], np.int32)
    with pytest.raises(errors.InvalidArgumentError, match=rf"indices\[1\] = {bad} is not in \[0, 4\)"):
        training._rows((v,), training.rules.gradient_descent, 1, np.ones((2, 2)), indices, (np.float64(1.0),))
    np.testing.assert_array_equal(v.read(), np.ones((4, 2)))


def test_sums_of_repeated_rows_are_in_order_of_appearance() -> None:
    values, indices = training._sum_duplicates(np.arange(8.0).reshape(4, 2), np.array([5, 2, 5, 1]))
    assert indices.tolist() == [5, 2, 1]
    assert values.tolist() == [[4.0, 6.0], [2.0, 3.0], [6.0, 7.0]]


def test_only_a_variable_can_be_updated() -> None:
    with Graph().as_default():
        with pytest.raises(TypeError, match="assign needs a variable"):
            state.assign(convert_to_tensor(1.0), 2.0)


_ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


def _updated(change):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(_ROWS)
        session.run(tf.global_variables_initializer())
        returned = session.run(change(v))
        return returned, session.run(v)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("scatter_update", lambda old, new: new), ("scatter_add", np.add), ("scatter_sub", np.subtract),
        ("scatter_mul", np.multiply), ("scatter_div", np.divide), ("scatter_min", np.minimum),
        ("scatter_max", np.maximum),
    ],
)  # fmt: skip
def test_variables_change_rows(method, change):
    delta = np.array([[2.0, 3.0, 4.0], [5.0, 1.0, 20.0]], np.float32)
    returned, after = _updated(lambda v: getattr(v, method)(tf.IndexedSlices(tf.constant(delta), tf.constant([0, 2]))))
    wanted = np.array(_ROWS, np.float32)
    wanted[[0, 2]] = change(wanted[[0, 2]], delta)
    np.testing.assert_allclose(after, wanted, 1e-6)
    np.testing.assert_array_equal(returned, after)


def test_variables_change_and_give_what_index_vectors_point_at():
    _, after = _updated(lambda v: v.scatter_nd_update([[0, 1], [2, 2]], [10.0, 11.0]))
    np.testing.assert_array_equal(after, [[1, 10, 3], [4, 5, 6], [7, 8, 11]])
    _, after = _updated(lambda v: v.scatter_nd_add([[0, 1], [0, 1]], [10.0, 11.0]))
    np.testing.assert_array_equal(after, [[1, 23, 3], [4, 5, 6], [7, 8, 9]])
    _, after = _updated(lambda v: v.scatter_nd_sub([[1]], [[1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(after, [[1, 2, 3], [3, 3, 3], [7, 8, 9]])
    np.testing.assert_array_equal(_updated(lambda v: v.gather_nd([[2, 0], [1, 1]]))[0], [7, 5])
    np.testing.assert_array_equal(_updated(lambda v: v.sparse_read([2, 0]))[0], [[7, 8, 9], [1, 2, 3]])


def test_batches_of_rows_are_replaced_each_in_its_entry():
    indices, rows = [[0, 2], [1, 0], [2, 1]], [[20.0, 30.0], [50.0, 10.0], [0.0, 60.0]]
    wanted = [[20, 2, 30], [10, 50, 6], [7, 60, 0]]
    _, after = _updated(lambda v: tf.batch_scatter_update(v, indices, rows))
    np.testing.assert_array_equal(after, wanted)
    _, after = _updated(lambda v: v.batch_scatter_update(tf.IndexedSlices(tf.constant(rows), tf.constant(indices))))
    np.testing.assert_array_equal(after, wanted)
    _, after = _updated(lambda v: tf.batch_scatter_update(v, [2, 0], [[0.0] * 3, [1.0] * 3]))
    np.testing.assert_array_equal(after, [[1, 1, 1], [4, 5, 6], [0, 0, 0]])
    with pytest.raises(errors.InvalidArgumentError):
        _updated(lambda v: tf.batch_scatter_update(v, [[3]], [[1.0]]))
