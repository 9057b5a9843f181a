"""dtypes and static shapes behave as TensorFlow 1's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfzmq.base import dtypes, shapes
from dtfzmq.base.shapes import Dimension, TensorShape

SIZES = st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=4)


@pytest.mark.parametrize("dtype", [d for d in dtypes.all_types() if d.is_numpy_compatible], ids=lambda d: d.name)
def test_every_type_is_found_by_each_of_its_names(dtype: dtypes.DType) -> None:
    assert dtypes.as_dtype(dtype.name) is dtype
    assert dtypes.as_dtype(dtype.np_dtype) is dtype
    assert dtypes.as_dtype(dtype.np_dtype.type) is dtype
    assert dtype.ref.base_dtype is dtype and dtype.ref.is_ref and not dtype.is_ref
    assert dtypes.as_dtype(dtype.ref.name) is dtype.ref
    assert dtype == dtype.name and dtype != dtype.ref


def test_spellings_and_refusals() -> None:
    assert dtypes.as_dtype("float") is dtypes.as_dtype(float) is dtypes.float32
    assert dtypes.as_dtype(">f8") is dtypes.float64
    assert dtypes.as_dtype("S3") is dtypes.string
    for bad in (None, "nothing", np.dtype("M8[s]"), np.dtype([("a", "i4")]), np.longdouble, object()):
        with pytest.raises(TypeError):
            dtypes.as_dtype(bad)


def test_limits() -> None:
    assert (dtypes.int8.min, dtypes.int8.max) == (-128, 127)
    assert dtypes.float32.max == np.finfo(np.float32).max
    with pytest.raises(TypeError):
        _ = dtypes.string.max


@given(SIZES, SIZES)
def test_static_broadcasting_agrees_with_numpy(a: list[int | None], b: list[int | None]) -> None:
    """Where numpy gives a shape for some filling of the unknown sizes, the static one is compatible with it."""
    filled = [tuple(1 if d is None else d for d in s) for s in (a, b)]
    try:
        want = np.broadcast_shapes(*filled)
    except ValueError:
        return
    assert shapes.broadcast(TensorShape(a), TensorShape(b)).is_compatible_with(
        TensorShape([None if None in (x, y) else w for w, x, y in zip_right(want, a, b)])
    )


def zip_right(
    want: tuple[int, ...], a: list[int | None], b: list[int | None]
) -> list[tuple[int, int | None, int | None]]:
    n = len(want)
    return list(zip(want, [1] * (n - len(a)) + a, [1] * (n - len(b)) + b))


def test_known_sizes_broadcast_exactly() -> None:
    assert shapes.broadcast(TensorShape([2, 1, 3]), TensorShape([4, 1])).as_list() == [2, 4, 3]
    with pytest.raises(ValueError, match="Dimensions must be equal, but are 2 and 3"):
        shapes.broadcast(TensorShape([2]), TensorShape([3]))


@given(SIZES, SIZES)
def test_merging_keeps_what_either_knows(a: list[int | None], b: list[int | None]) -> None:
    x, y = TensorShape(a), TensorShape(b)
    if x.is_compatible_with(y):
        merged = x.merge_with(y)
        assert merged.as_list() == [q if p is None else p for p, q in zip(a, b)]
    else:
        with pytest.raises(ValueError):
            x.merge_with(y)


def test_dimensions_compute_and_compare_like_tensorflows() -> None:
    assert Dimension(3) * 2 == 6 and (Dimension(None) + 1).value is None
    assert (Dimension(None) == Dimension(3)) is None
    assert str(TensorShape([None, 2])) == "(?, 2)" and str(TensorShape(None)) == "<unknown>"
    with pytest.raises(ValueError, match="as_list"):
        TensorShape(None).as_list()


def test_a_shape_shows_itself_as_in_tensorflow() -> None:
    assert repr(TensorShape([None, 3])) == "TensorShape([Dimension(None), Dimension(3)])"
    assert repr(TensorShape(None)) == "TensorShape(None)"
    assert str(TensorShape([None, 3])) == "(?, 3)"
