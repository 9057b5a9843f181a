"""Every declared op against its own samples: shapes, dtypes, gradients, the wire."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph import opdef, registry
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, Operation, Tensor
from dtfzmq.graph.node import Node
from dtfzmq.graph.serial import graph_nodes, nodes_from_wire, nodes_to_wire
from dtfzmq.ops import families
from dtfzmq.ops.gradients import gradients, trainable
from tests.kit.evaluate import Env, evaluate, run_nodes

DECLARED = [d for d in registry.all_ops() if d.name in families.DECLARED]
KNOWN_TO_THE_COMPILER = {d.name for d in DECLARED if d.kernel is None and d.make is None and d.start is None}


def _build(definition, sample):
    """(input tensors, outputs) of one call of the builder, inputs as placeholders would be: of known shape only."""
    inputs: list[Any] = []
    args: list[Any] = []
    for spec, value in zip(definition.signature.inputs, sample.args):
        if spec.list:
            tensors = [convert_to_tensor(v) for v in value]
            inputs += tensors
            args.append(tensors)
        else:
            tensor = convert_to_tensor(value)
            inputs.append(tensor)
            args.append(tensor)
    made = definition.builder(*args, **sample.attrs)
    outputs = [] if isinstance(made, Operation) else list(made) if isinstance(made, tuple) else [made]
    return inputs, outputs, made


def check_declaration_is_whole(definition):
    assert definition.samples or definition.name in families.WITHOUT_SAMPLES, f"{definition.name} has no samples"
    assert callable(definition.grad) or isinstance(definition.grad, registry.NO_GRAD), definition.name
    if not callable(definition.grad):
        assert definition.grad.reason
    kernels = [k for k in (definition.kernel, definition.make, definition.start) if k is not None]
    assert len(kernels) == (0 if definition.name in families.WITHOUT_KERNEL else 1), definition.name


def check_shape_and_dtype(definition, sample):
    with Graph().as_default():
        inputs, outputs, made = _build(definition, sample)
        if sample.fails is not None:
            with pytest.raises(sample.fails):
                evaluate(outputs)
            return
        if not outputs:
            assert evaluate(made) is None
            return
        copies = [np.array(t.op.attrs["value"]) for t in inputs]
        values = evaluate(outputs)
        for t, value in zip(outputs, values):
            if not t.dtype.is_numpy_compatible:
                continue
            assert dtypes.of_array(value) is t.dtype.base_dtype, t
            assert t.shape.is_compatible_with(np.shape(value)), (t, np.shape(value))
        for t, before in zip(inputs, copies):
            np.testing.assert_array_equal(before, t.op.attrs["value"], err_msg=f"{definition.name} wrote to an input")


def check_unknown_shapes_do_not_contradict(definition, sample):
    if sample.fails is not None or definition.name in families.WITHOUT_KERNEL:
        return
    with Graph().as_default() as graph:
        feeds: dict[Any, Any] = {}
        args: list[Any] = []

        def unknown(value):
            array = np.array(convert_to_tensor(value).op.attrs["value"])
            made = graph.create_op("Placeholder", (), {"dtype": dtypes.of_array(array), "shape": None},
                                   (dtypes.of_array(array),), "in", (None,))  # fmt: skip
            feeds[made.outputs[0]] = array
            return made.outputs[0]

        for spec, value in zip(definition.signature.inputs, sample.args):
            args.append([unknown(v) for v in value] if spec.list else unknown(value))
        made = definition.builder(*args, **sample.attrs)
        outputs = [] if isinstance(made, Operation) else list(made) if isinstance(made, tuple) else [made]
        for t, value in zip(outputs, evaluate(outputs, feeds) if outputs else []):
            if t.dtype.is_numpy_compatible:
                assert t.shape.is_compatible_with(np.shape(value)), (t, np.shape(value))


def check_out_argument(definition, sample):
    if not definition.out or sample.fails is not None:
        return
    with Graph().as_default() as graph:
        inputs, outputs, _ = _build(definition, sample)
        values = evaluate([*inputs, *outputs])
        node = outputs[0].op.node_def
        env = Env()
        fn = definition.kernel if definition.kernel is not None else definition.make(node, env)
        want = values[-1]
        if np.ndim(want) == 0 or want.dtype == object:
            return
        out = np.empty_like(want)
        with np.errstate(all="ignore"):
            got = fn(*values[:-1], out=out)
        assert got is out, f"{definition.name} did not return out"
        np.testing.assert_array_equal(out, want)
        for position in definition.inplace:
            given = [np.array(v) for v in values[:-1]]
            if given[position].shape == want.shape and given[position].dtype == want.dtype:
                with np.errstate(all="ignore"):
                    fn(*given, out=given[position])
                np.testing.assert_array_equal(given[position], want, err_msg=f"over input {position}")
        assert graph is outputs[0].graph


def _widest(t):
    return np.complex128 if t.dtype.is_complex else np.float64


def _normal(rng, shape, t):
    real = rng.standard_normal(shape)
    return real + 1j * rng.standard_normal(shape) if t.dtype.is_complex else real


def check_gradient(definition, sample):
    """One random projection of the Jacobian against central differences, in float64 or complex128.

    The gradient with respect to a complex z is d/dx + i d/dy, so the change along a direction d is Re(conj(g) d).
    """
    if not callable(definition.grad) or sample.fails is not None or not sample.differentiable:
        return
    with Graph().as_default():
        inputs, outputs, _ = _build(definition, sample)
        free = [t for t in inputs if trainable(t.dtype)]
        ys = [t for t in outputs if trainable(t.dtype)]
        if not free or not ys:
            return
        rng = np.random.default_rng(7)
        at = [np.asarray(t.op.attrs["value"], _widest(t)) for t in free]
        values = evaluate(ys)
        weights = [_normal(rng, np.shape(v), t) for v, t in zip(values, ys)]
        seeds = [convert_to_tensor(w.astype(t.dtype.np_dtype)) for w, t in zip(weights, ys)]
        found = gradients(ys, free, seeds)
        for g, t in zip(found, free):
            if g is not None:
                dense = convert_to_tensor(g)
                assert dense.dtype.base_dtype is t.dtype.base_dtype
                assert dense.shape.is_compatible_with(t.shape), (dense, t)
        got = evaluate([convert_to_tensor(g) for g in found if g is not None])
        directions = [_normal(rng, a.shape, t) for a, t in zip(at, free)]
        analytic = 0.0
        rest = iter(got)
        for g, d, t in zip(found, directions, free):
            if g is not None:
                value = next(rest)
                assert value.shape == d.shape, (definition.name, t, value.shape, d.shape)
                analytic += float(np.sum(np.conj(value) * d).real)
            else:
                d[...] = 0  # declared constant in this input
        step = 1e-6

        def projected(sign):
            moved = {t: a + sign * step * d for t, a, d in zip(free, at, directions)}
            return sum(float(np.sum(v * np.conj(w)).real) for v, w in zip(evaluate(ys, moved), weights))

        numeric = (projected(1) - projected(-1)) / (2 * step)
        assert analytic == pytest.approx(numeric, rel=2e-4, abs=2e-5), definition.name


def check_survives_the_wire(definition, sample):
    if sample.fails is not None or definition.name in families.WITHOUT_KERNEL:
        return
    with Graph().as_default() as graph:
        _, outputs, _ = _build(definition, sample)
        nodes = graph_nodes(graph)
        plain, arrays = nodes_to_wire(nodes)
        back = nodes_from_wire(msgpack.unpackb(msgpack.packb(plain)), arrays)
        assert [(n.name, n.op, n.inputs, n.control, n.dtypes) for n in back] == [
            (n.name, n.op, n.inputs, n.control, n.dtypes) for n in nodes
        ]
        if not outputs or not sample.values:
            return
        want = evaluate(outputs)
        tail = [registry_retval(i, t) for i, t in enumerate(outputs)]
        with np.errstate(all="ignore"):
            got = run_nodes([*back, *tail], [], Env())
        for i, (t, value) in enumerate(zip(outputs, want)):
            if t.dtype.is_numpy_compatible:
                np.testing.assert_array_equal(got[i], value)


def registry_retval(i: int, t: Tensor):
    return Node(f"ret{i}", "_Retval", ((t.op._id, t.value_index),), (), "", {"index": i}, ())


def test_a_missing_sample_is_named():
    class Bare:
        name = "Bare"
        samples = ()
        grad = staticmethod(lambda n, g: (g,))
        kernel = np.abs
        make = start = None

    with pytest.raises(AssertionError, match="Bare has no samples"):
        check_declaration_is_whole(Bare)


def _retyped(definition, sample, dtype):
    """The sample with every float input (if `dtype` is floating) or every number as `dtype`; None if that cannot be."""
    variables = {a.var for a in definition.signature.inputs if a.var[:1] in ("T", "N", "F", "R", "E")}
    changed = False
    args = []
    for spec, value in zip(definition.signature.inputs, sample.args):
        one = []
        for item in value if spec.list else [value]:
            array = np.asarray(item)
            if spec.var in variables and array.dtype == np.float64 and dtype in opdef.allowed(spec.var):
                with np.errstate(all="ignore"):
                    array = (np.abs(array) + 1 if dtype.is_integer else array).astype(dtype.np_dtype)
                changed = True
            one.append(array)
        args.append(one if spec.list else one[0])
    if not changed or definition.name == "Bitcast":
        return None
    return registry.Sample(*args, **sample.attrs)


def check_results_keep_their_type(definition, sample):
    """float32 in, float32 out, whatever numpy would promote to; so for the other types that the signature allows."""
    if definition.name in families.WITHOUT_KERNEL:
        return
    types = [dtypes.as_dtype(n) for n in ("float32", "float16", "bfloat16", "int32", "uint8", "complex64")]
    for dtype in types:
        other = _retyped(definition, sample, dtype)
        if other is None or sample.fails is not None:
            continue
        with Graph().as_default():
            _, outputs, _ = _build(definition, other)
            for t, value in zip(outputs, evaluate(outputs) if outputs else []):
                if t.dtype.is_numpy_compatible:
                    assert dtypes.of_array(np.asarray(value)) is t.dtype.base_dtype, (t, np.asarray(value).dtype)


@pytest.mark.parametrize("definition", DECLARED, ids=lambda d: d.name)
def test_op(definition):
    """One test per op, so that the op is named in what fails; a failing sample is named by its number."""
    check_declaration_is_whole(definition)
    checks = (
        check_shape_and_dtype,
        check_unknown_shapes_do_not_contradict,
        check_out_argument,
        check_gradient,
        check_survives_the_wire,
        check_results_keep_their_type,
    )
    for i, sample in enumerate(definition.samples):
        for check in checks:
            try:
                check(definition, sample)
            except Exception as error:
                raise AssertionError(f"{check.__name__}: sample {i} of {definition.name}: {error}") from error


@pytest.mark.parametrize(
    "field, wrong",
    [
        ("grad", lambda n, g: (g,)),
        ("shape", lambda n: [TensorShape([7])]),
        ("kernel", lambda x, out=None: np.exp(x).astype(np.float32)),
        ("kernel", lambda x, out=None: np.exp(x, out=x)),
        ("samples", ()),
    ],
    ids=["gradient", "shape", "type", "writes to its input", "no samples"],
)
def test_a_wrong_declaration_is_caught(monkeypatch, field, wrong):
    definition = registry.lookup("Exp")
    monkeypatch.setattr(definition, field, wrong)
    with pytest.raises(AssertionError, match="Exp"):
        test_op(definition)
