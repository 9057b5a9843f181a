"""Gradients of complex numbers: of every op that takes them, by its samples moved off the real line."""

from __future__ import annotations

import numpy as np
import pytest

from dtfzmq.base import dtypes
from dtfzmq.graph import opdef, registry
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, Operation
from dtfzmq.ops import families
from dtfzmq.ops.gradients import gradients, trainable
from tests.kit.evaluate import evaluate

C = dtypes.complex128
# Of no use: the phase of what they give is nobody's choice, or they are no functions of a complex variable.
LEFT_OUT = {
    "Qr", "Svd", "SelfAdjointEigV2", "LogMatrixDeterminant", "SquaredDifference", "Sign", "L2Loss", "EinsumGrad",
    "SegmentMean", "SegmentProd", "UnsortedSegmentProd",
}  # fmt: skip


def takes_complex(definition):
    return any(spec.var[:1] in ("T", "N", "F") and C in opdef.allowed(spec.var) for spec in definition.signature.inputs
               if spec.var)  # fmt: skip


OPS = [
    d for d in registry.all_ops()
    if d.name in families.DECLARED and callable(d.grad) and d.samples and d.name not in LEFT_OUT and takes_complex(d)
]  # fmt: skip


def moved(definition, sample, rng):
    """The sample with complex numbers for its float64 ones."""
    args = []
    for spec, value in zip(definition.signature.inputs, sample.args):
        free = spec.var and spec.var[0] in "TNF" and C in opdef.allowed(spec.var)
        one = [np.asarray(item) for item in (value if spec.list else [value])]
        one = [a + 0.3j * rng.standard_normal(a.shape) if free and a.dtype == np.float64 else a for a in one]
        args.append([convert_to_tensor(a) for a in one] if spec.list else convert_to_tensor(one[0]))
    return args


@pytest.mark.parametrize("definition", OPS, ids=lambda d: d.name)
def test_op(definition):
    rng = np.random.default_rng(3)

    def drawn(like, is_complex):
        return rng.standard_normal(np.shape(like)) + (1j * rng.standard_normal(np.shape(like)) if is_complex else 0)

    for sample in definition.samples:
        if sample.fails or not sample.differentiable:
            continue
        with Graph().as_default():
            args = moved(definition, sample, rng)
            made = definition.builder(*args, **sample.attrs)
            inputs = [t for a in args for t in (a if isinstance(a, list) else [a])]
            outputs = list(made) if isinstance(made, tuple) else [made]
            ys = [t for t in outputs if not isinstance(t, Operation) and trainable(t.dtype)]
            xs = [t for t in inputs if trainable(t.dtype)]
            if not ys or not any(t.dtype.is_complex for t in xs):
                continue
            weights = [drawn(v, t.dtype.is_complex) for v, t in zip(evaluate(ys), ys)]
            seeds = [convert_to_tensor(np.asarray(w, t.dtype.np_dtype)) for w, t in zip(weights, ys)]
            found = [None if g is None else evaluate(convert_to_tensor(g)) for g in gradients(ys, xs, seeds)]
            at = [np.asarray(t.op.attrs["value"]) for t in xs]
            ways = [drawn(a, np.iscomplexobj(a)) for a in at]
            ends = []
            for step in (1e-6, -1e-6):
                values = evaluate(ys, {t: a + step * way for t, a, way in zip(xs, at, ways)})
                ends.append(sum(np.real(np.sum(np.conj(w) * v)) for w, v in zip(weights, values)))
            change = sum(np.real(np.sum(np.conj(g) * way)) for g, way in zip(found, ways) if g is not None)
            assert change == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-4)
