"""Python and numpy values become constants by TensorFlow's rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import constant, convert_to_tensor, make_array
from dtfzmq.graph.graph import Graph


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (1, None, np.array(1, np.int32)),
        (2**40, None, np.array(2**40, np.int64)),
        (1.5, None, np.array(1.5, np.float32)),
        (True, None, np.array(True)),
        (1 + 2j, None, np.array(1 + 2j, np.complex128)),
        ([], None, np.zeros(0, np.float32)),
        ([1, 2.5], None, np.array([1, 2.5], np.float32)),
        (np.float64(2), None, np.array(2.0, np.float64)),
        ([np.float64(2)], None, np.array([2.0], np.float64)),
        (np.arange(3, dtype=">i4"), None, np.arange(3, dtype=np.int32)),
        (np.zeros((2, 3), order="F"), None, np.zeros((2, 3))),
        (1, "float64", np.array(1.0, np.float64)),
        ([[1], [2]], "int64", np.array([[1], [2]], np.int64)),
        (np.array(1.5), "float32", np.array(1.5, np.float32)),
        ("ä", None, np.array("ä".encode(), object)),
        ([b"a\0", b""], None, np.array([b"a\0", b""], object)),
        (np.array(["x", "yy"]), None, np.array([b"x", b"yy"], object)),
    ],
    ids=repr,
)
def test_values(value: Any, dtype: Any, want: np.ndarray[Any, Any]) -> None:
    got = make_array(value, None if dtype is None else dtypes.as_dtype(dtype))
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.tolist() == want.tolist()
    assert got.flags.c_contiguous and got.dtype.isnative


@pytest.mark.parametrize(
    ("value", "dtype", "error"),
    [
        (None, None, ValueError),
        (1.5, "int32", TypeError),
        ("a", "float32", TypeError),
        ([1, None], "float32", TypeError),
        ([[1], [2, 3]], None, ValueError),
        (object(), None, TypeError),
        (300, "int8", ValueError),
        (np.array([1.5]), "int32", TypeError),
        (np.zeros(2, [("a", "i4")]), None, TypeError),
    ],
    ids=repr,
)
def test_refusals(value: Any, dtype: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make_array(value, None if dtype is None else dtypes.as_dtype(dtype))


def test_a_constant_is_filled_frozen_and_its_own() -> None:
    source = np.ones(2, np.float32)
    with Graph().as_default():
        c = constant(source, name="c")
        source[:] = 9
        assert c.op.attrs["value"].tolist() == [1, 1]
        assert not c.op.attrs["value"].flags.writeable
        assert constant([1, 2], shape=[2, 2]).op.attrs["value"].tolist() == [[1, 2], [2, 2]]
        with pytest.raises(ValueError, match="Too many elements"):
            constant([1, 2, 3], shape=[2])


def test_a_tensor_is_passed_through_and_its_type_checked() -> None:
    with Graph().as_default():
        c = constant(1.0)
        assert convert_to_tensor(c) is c
        with pytest.raises(ValueError, match="requested dtype int32 for Tensor with dtype float32"):
            convert_to_tensor(c, "int32")
        assert convert_to_tensor(1, preferred_dtype="float32").dtype is dtypes.float32
        assert convert_to_tensor("x", preferred_dtype="float32").dtype is dtypes.string


def test_a_partly_known_shape_is_no_tensor() -> None:
    with Graph().as_default(), pytest.raises(ValueError, match=r"partially known TensorShape \(\?, 3\)"):
        convert_to_tensor(TensorShape([None, 3]))
