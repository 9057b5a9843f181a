"""Recorded calls of TensorFlow 2.21's tf.compat.v1: how one is built into a graph, and compared with what was recorded.

``data/cases.json`` names functions, arguments and arrays of ``data/cases.npz``.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

import dtfzmq as tf
from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor

DATA = pathlib.Path(__file__).parent / "data"
CASES: list[dict[str, Any]] = json.loads((DATA / "cases.json").read_text())["cases"]
ARRAYS = np.load(DATA / "cases.npz")

Scope = Callable[[], Any]


def recorded(case, name):
    """An array of a case."""
    if name in case["strings"]:
        text = case["strings"][name]
        out = np.empty(len(text["latin1"]), object)
        out[:] = [x.encode("latin1") for x in text["latin1"]]
        return out.reshape(text["shape"])
    return ARRAYS[name]


def flat(value) -> list[Any]:
    """The tensors of a result."""
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in flat(item)]
    return [value]


def compare(got, want, tolerance, what):
    """Same shape, dtype and values within `tolerance`."""
    assert got.shape == want.shape, what
    if want.dtype == object:
        assert got.ravel().tolist() == want.ravel().tolist(), what
        return
    assert got.dtype == want.dtype, what
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=what)


class Built:
    """A case in the default graph: its tensors of input under `inputs()`, everything else under `rest()`."""

    def __init__(self, case, inputs: Scope = contextlib.nullcontext, rest: Scope = contextlib.nullcontext) -> None:
        self.case = case
        tensors: dict[str, Any] = {}

        def decode(entry):
            if "array" in entry:
                with inputs():
                    tensors[entry["array"]] = t = convert_to_tensor(recorded(case, entry["array"]))
                return t
            if "list" in entry:
                return [decode(e) for e in entry["list"]]
            return dtypes.as_dtype(entry["dtype"]) if "dtype" in entry else entry["value"]

        args = [decode(a) for a in case["args"]]
        kwargs = {k: decode(v) for k, v in case["kwargs"].items()}
        with rest():
            called: Any = functools.reduce(getattr, case["fn"].split("."), tf)
            made = called(*args, **kwargs)
            self.outputs = flat(made)
            self.grads: list[Any] = []
            if case.get("cotangents"):
                ys = [t for t in self.outputs if t.dtype.is_floating]
                xs = [tensors[g["wrt"]] for g in case["grads"]]
                seeds = [convert_to_tensor(recorded(case, n)) for n in case["cotangents"]]
                found = tf.gradients(ys, xs, seeds)
                self.grads = [None if g is None else convert_to_tensor(g) for g in found]
        self.fetches = [*self.outputs, *(g for g in self.grads if g is not None)]

    def check(self, values) -> None:
        """AssertionError unless the values of `fetches` are TensorFlow's."""
        case = self.case
        tolerance = 2e-2 if "float16" in case["dtypes"] else 2e-4
        assert len(self.outputs) == len(case["outputs"])
        left = iter(values)
        for t, name, static in zip(self.outputs, case["outputs"], case["static_shapes"]):
            compare(np.asarray(next(left)), recorded(case, name), tolerance, name)
            if static is not None:
                assert t.shape.as_list() == static, f"static shape of {t}"
        for g, want in zip(self.grads, case.get("grads") or ()):
            if want["grad"] is None:
                assert g is None, f"a gradient of {want['wrt']} where TensorFlow has none"
            else:
                assert g is not None, f"no gradient of {want['wrt']}"
                compare(np.asarray(next(left)), recorded(case, want["grad"]), tolerance * 5, f"d {want['wrt']}")
