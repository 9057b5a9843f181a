"""Bytes that are no serialized tensors, whole or sparse: refused in the step, in time that grows as they do."""

from __future__ import annotations

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.ops import protos
from tests.kit.evaluate import evaluate

INDICES, VALUES, SHAPE = np.array([[0, 1]], np.int64), np.array([1.0], np.float32), np.array([2, 3], np.int64)
LARGE = b"\xff" * 9 + b"\x01"  # 2**64 - 1
HALF = b"\x80" * 8 + b"\x40"  # 2**62


def _shaped(*sizes: bytes, kind: int = 9, more: bytes = b"") -> bytes:
    return bytes([8, kind]) + protos.block(2, b"".join(protos.block(2, b"\x08" + size) for size in sizes)) + more


@pytest.mark.parametrize("value", [0, 127, 128, 2**32, 2**63, 2**64 - 1])
def test_varints_end_where_they_end(value):
    data = protos.varint(value)
    assert protos.read_varint(b"-" + data + b"\xff", 1) == (value, 1 + len(data))


def test_no_varint_has_more_than_ten_bytes():
    with pytest.raises(ValueError, match="more than ten bytes"):
        protos.read_varint(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(IndexError):
        protos.read_varint(b"\xff" * 9, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 400_000, _shaped(LARGE), _shaped(LARGE, more=b"\x22\x08" + b"\0" * 8), _shaped(HALF, b"\x04"),
        _shaped(b"\x80" * 10 + b"\x01"), _shaped(*[HALF] * 5000), b"\x08\x09\x12\x04\x12\x02\x0a\x00",
        _shaped(b"\x01", kind=7, more=b"\x40\x05"), _shaped(b"\x01", b"\x04", kind=7, more=protos.block(4, HALF * 3)),
        _shaped(HALF, b"\x04", kind=7, more=protos.block(4, b"\0")), b"\x08\x63\x12\x00", b"",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [tf.int64, tf.string])
def test_what_is_no_tensor_is_refused(data, kind):
    with tf.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match="Could not parse|Type mismatch"):
        evaluate(tf.parse_tensor(data, kind))


@pytest.mark.parametrize(
    "parts, text",
    [
        ((INDICES.astype(np.float32), VALUES, SHAPE), "indices should be int64 but are float32"),
        ((INDICES.astype(np.int32), VALUES, SHAPE), "indices should be int64 but are int32"),
        ((np.array([[b"a", b"b"]], object), VALUES, SHAPE), "indices should be int64 but are string"),
        ((INDICES, VALUES, np.array([b"2", b"3"], object)), "shape should be int64 but are string"),
        ((INDICES, VALUES, SHAPE.astype(np.float64)), "shape should be int64 but are float64"),
        ((INDICES, np.float32(1), SHAPE), r"values should be a vector but received shape \[\]"),
        ((np.int64(1), VALUES, SHAPE), r"indices should be a matrix but received shape \[\]"),
        ((INDICES, VALUES, np.int64(2)), r"shape should be a vector but received shape \[\]"),
        ((INDICES[0], VALUES, SHAPE), r"indices should be a matrix but received shape \[2\]"),
        ((INDICES, VALUES[None], SHAPE), r"values should be a vector but received shape \[1, 1\]"),
        ((INDICES, VALUES, SHAPE[:1]), r"Indices of shape \[1, 2\] do not go with 1 values of a tensor of rank 1"),
        ((INDICES, VALUES.astype(np.int32), SHAPE), r"\[0\] has int32"),
        ((INDICES, VALUES, _shaped(b"\x80" * 10 + b"\x01")), "Could not parse"),
        ((INDICES, _shaped(LARGE, kind=1), SHAPE), "Could not parse"),
    ],
)
def test_parts_of_another_type_or_rank_are_refused(parts, text):
    row = [part if isinstance(part, bytes) else protos.tensor_to_bytes(np.asarray(part), packed=True) for part in parts]
    with tf.Graph().as_default(), pytest.raises(errors.InvalidArgumentError, match=text):
        evaluate(tf.deserialize_many_sparse([row], tf.float32).indices)
