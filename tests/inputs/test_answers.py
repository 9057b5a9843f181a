"""Input pipelines against what TensorFlow answers."""

from __future__ import annotations

import json

import pytest

import dtfzmq as tf
from tests.inputs.cases import ANSWERS, answer, drained
from tests.inputs.pipelines import CASES

RECORDED = json.loads(ANSWERS.read_text())
# Errors that TensorFlow words in another way, by kernels that came later or in Python; the class is the same.
REWORDED = {
    "dense of another size single", "sequence of another size", "sequence context missing",
    "a type that examples have not", "a text for bytes", "unknown rank", "unknown shape", "reset", "no feature",
    "a default of another size",
}  # fmt: skip


@pytest.mark.parametrize("group, name", [(group, name) for group, cases in CASES.items() for name in cases])
def test_as_tensorflow(group: str, name: str) -> None:
    found, recorded = answer(CASES[group][name], tf), RECORDED[group][name]
    if name in REWORDED and recorded[0] == "fails":
        assert found[:2] == recorded[:2]
    else:
        assert found == recorded


def test_sparse_tensors_of_which_some_are_kept() -> None:
    """TensorFlow 2's first API cannot make such a graph."""
    with tf.Graph().as_default():
        number = tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
        number = tf.cast(number, tf.int64)
        made = tf.SparseTensor([[0], [1]], tf.stack([number, -number]), [number + 2])
        got = tf.train.maybe_batch({"n": number, "s": made}, tf.not_equal(number, 1), 2)
        out, _ = drained(tf, got)
    assert [one["n"].tolist() for one in out[:-1]] == [[0, 2], [3, 4]]
    assert [one["s"].values.tolist() for one in out[:-1]] == [[0, 0, 2, -2], [3, -3, 4, -4]]
    assert out[1]["s"].dense_shape.tolist() == [2, 6] and out[-1][0] == "OutOfRangeError"
