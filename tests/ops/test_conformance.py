"""Recorded answers of TensorFlow 2.21 (tf.compat.v1), for every function of the op library that exists.

Functions that do not exist yet are counted and listed, not failed.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph
from dtfzmq.ops import families
from dtfzmq.ops.gradients import gradients
from tests.kit.evaluate import evaluate

DATA = pathlib.Path(__file__).parent / "data"
CASES = json.loads((DATA / "cases.json").read_text())["cases"]
ARRAYS = np.load(DATA / "cases.npz")
FOUND = {case["fn"]: families.public(case["fn"]) for case in CASES}
PRESENT = [case for case in CASES if FOUND[case["fn"]] is not None]


def _array(case, name):
    if name in case["strings"]:
        text = case["strings"][name]
        out = np.empty(len(text["latin1"]), object)
        out[:] = [x.encode("latin1") for x in text["latin1"]]
        return out.reshape(text["shape"])
    return ARRAYS[name]


def _flat(value) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in _flat(item)]
    return [value]


def _compare(got, want, tolerance, what):
    assert got.shape == want.shape, what
    if want.dtype == object:
        assert got.ravel().tolist() == want.ravel().tolist(), what
        return
    assert got.dtype == want.dtype, what
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=what)


@pytest.mark.parametrize("case", PRESENT, ids=lambda c: c["case"])
def test_recorded_answer(case):
    with Graph().as_default():
        tensors = {}

        def decode(entry):
            if "array" in entry:
                tensors[entry["array"]] = t = convert_to_tensor(_array(case, entry["array"]))
                return t
            if "list" in entry:
                return [decode(e) for e in entry["list"]]
            return dtypes.as_dtype(entry["dtype"]) if "dtype" in entry else entry["value"]

        args = [decode(a) for a in case["args"]]
        made = FOUND[case["fn"]](*args, **{k: decode(v) for k, v in case["kwargs"].items()})
        outputs = _flat(made)
        tolerance = 2e-2 if "float16" in case["dtypes"] else 2e-4
        values = evaluate(outputs)
        assert len(values) == len(case["outputs"])
        for t, value, name, static in zip(outputs, values, case["outputs"], case["static_shapes"]):
            _compare(np.asarray(value), _array(case, name), tolerance, name)
            if static is not None:
                assert t.shape.as_list() == static, f"static shape of {t}"
        if not case.get("cotangents"):
            return
        ys = [t for t in outputs if t.dtype.is_floating]
        xs = [tensors[g["wrt"]] for g in case["grads"]]
        found = gradients(ys, xs, [convert_to_tensor(_array(case, n)) for n in case["cotangents"]])
        for g, want in zip(found, case["grads"]):
            if want["grad"] is None:
                assert g is None, f"a gradient of {want['wrt']} where TensorFlow has none"
            else:
                assert g is not None, f"no gradient of {want['wrt']}"
                value = evaluate(convert_to_tensor(g))
                _compare(np.asarray(value), _array(case, want["grad"]), tolerance * 5, f"gradient of {want['wrt']}")


def test_missing_functions_are_counted(capsys):
    missing = sorted({case["fn"] for case in CASES} - {case["fn"] for case in PRESENT})
    with capsys.disabled():
        print(f"\nrecorded cases: {len(PRESENT)} of {len(CASES)} run; functions not there yet: {', '.join(missing)}")
    assert len(PRESENT) >= 200
