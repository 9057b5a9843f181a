"""Input pipelines against what TensorFlow answers."""

from __future__ import annotations

import json

import pytest

import dtfzmq as tf
from tests.inputs.cases import ANSWERS, answer
from tests.inputs.pipelines import CASES

RECORDED = json.loads(ANSWERS.read_text())
# Errors that TensorFlow words in another way, by kernels that came later or in Python; the class is the same.
REWORDED = {
    "dense of another size single", "sequence of another size", "sequence context missing",
    "a type that examples have not", "a text for bytes", "unknown rank", "unknown shape", "reset", "no feature",
}  # fmt: skip


@pytest.mark.parametrize("group, name", [(group, name) for group, cases in CASES.items() for name in cases])
def test_as_tensorflow(group: str, name: str) -> None:
    found, recorded = answer(CASES[group][name], tf), RECORDED[group][name]
    if name in REWORDED and recorded[0] == "fails":
        assert found[:2] == recorded[:2]
    else:
        assert found == recorded
