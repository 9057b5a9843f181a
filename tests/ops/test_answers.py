"""The numeric families against answers of TensorFlow 2.21 (tf.compat.v1): values, types, shapes and gradients.

`answered` holds the calls by name, data/answers.* their inputs and what TensorFlow gave. Gradients are of the outputs
times weights drawn by default_rng(1), with respect to every floating or complex input.
"""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.sparse import SparseTensor
from tests.kit.evaluate import evaluate
from tests.ops.answered import draws, edges, matrices, pictures_and_sound, segments_and_sets, text_and_signals, unknowns
from tests.ops.answered.table import CALLS

FILES = draws, edges, matrices, pictures_and_sound, segments_and_sets, text_and_signals, unknowns  # enter their calls
DATA = pathlib.Path(__file__).parent / "data"
ANSWERS = json.loads((DATA / "answers.json").read_text())
ARRAYS = dict(np.load(DATA / "answers.npz"))


def _array(name):
    text = ANSWERS["strings"].get(name)
    if text is None:
        return ARRAYS[name]
    out = np.empty(len(text["latin1"]), object)
    out[:] = [x.encode("latin1") for x in text["latin1"]]
    return out.reshape(text["shape"])


def _flat(made):
    if isinstance(made, SparseTensor):
        return [made.indices, made.values, made.dense_shape]
    if isinstance(made, (list, tuple)):
        return [x for item in made for x in _flat(item)]
    return [made]


def _agree(got, want, tolerance):
    got = np.asarray(got)
    assert got.shape == want.shape
    if want.dtype == object:
        assert got.ravel().tolist() == want.ravel().tolist()
        return
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, tolerance, tolerance)


def _known_as_well(own, theirs):
    """Whether everything that TensorFlow knew of a static shape is known here too, and the same."""
    if theirs is None:
        return True
    return own is not None and len(own) == len(theirs) and all(t in (None, o) for o, t in zip(own, theirs))


def _varies(t):
    return t.dtype.is_floating or t.dtype.is_complex


def test_every_call_has_an_answer():
    assert CALLS.keys() == ANSWERS["calls"].keys()


@pytest.mark.parametrize("name", CALLS)
def test_answer(name):
    answer = ANSWERS["calls"][name]
    with Graph().as_default():
        inputs = [convert_to_tensor(_array(key)) for key in answer["inputs"]]
        outputs = _flat(CALLS[name](tf, *inputs))
        values = evaluate(outputs)
        wanted = [_array(key) for key in answer["outputs"]]
        tolerance = 2e-2 if any(w.dtype == np.float16 for w in wanted) else 5e-4
        assert len(values) == len(wanted)
        for t, value, want, static in zip(outputs, values, wanted, answer["static"]):
            _agree(value, want, tolerance)
            own = None if t.shape.ndims is None else t.shape.as_list()
            assert _known_as_well(own, static), f"static shape {own}, TensorFlow knows {static}"
        if "grads" not in answer:
            return
        rng = np.random.default_rng(1)
        seeds = []
        for t, value in zip(outputs, values):
            if _varies(t):
                weights = rng.standard_normal(np.shape(value))
                weights = weights + 1j * rng.standard_normal(np.shape(value)) if t.dtype.is_complex else weights
                seeds.append(convert_to_tensor(np.asarray(weights).astype(t.dtype.np_dtype)))
        found = tf.gradients([t for t in outputs if _varies(t)], [t for t in inputs if _varies(t)], seeds)
        for g, key in zip(found, answer["grads"]):
            assert (g is None) == (key is None), f"a gradient only {'here' if key is None else 'in TensorFlow'}"
            if key is not None:
                _agree(evaluate(convert_to_tensor(g)), _array(key), 4 * tolerance)
