"""Messages to frames and back: every type and layout of array, and bytes that nobody should send."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dtfzmq.base import dtypes
from dtfzmq.wire import codec, messages, tensors
from dtfzmq.wire.message import Tensors, WireError, all_messages, layout_of, message

NUMERIC = [d for d in dtypes.all_types() if d.is_numpy_compatible and d is not dtypes.string]


@message
class CodecProbe:
    """Every kind of field that a message may have."""

    number: int
    text: str
    real: float
    flag: bool
    raw: bytes
    arrays: Tensors
    names: tuple[str, ...]
    pairs: list[tuple[str, int]]
    table: dict[str, Any]
    maybe: int | None = None
    more: Tensors = ()  # type: ignore[assignment]  # frozen default


def probe(arrays: list[Any], **fields: Any) -> CodecProbe:
    base: dict[str, Any] = {
        "number": 1,
        "text": "t",
        "real": 1.0,
        "flag": True,
        "raw": b"",
        "names": (),
        "pairs": [],
        "table": {},
    }
    return CodecProbe(**{**base, **fields}, arrays=arrays)


def trip(array: Any) -> Any:
    """An array through the wire."""
    return codec.decode(codec.encode(probe([array]))).arrays[0]


def bits(array: Any) -> tuple[Any, ...]:
    """What makes two arrays the same: type, shape and every bit in logical order."""
    whole = np.asarray(array)
    if whole.dtype.hasobject:
        return ("string", whole.shape, [x.encode() if isinstance(x, str) else bytes(x) for x in whole.ravel()])
    native = whole.astype(whole.dtype.newbyteorder("="))
    return (str(native.dtype), whole.shape, native.tobytes())


def variants(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The same logical values in other layouts of memory, and some others."""
    padded = np.zeros(array.nbytes + 1, np.uint8)
    shifted = padded[1:].view(array.dtype) if array.nbytes else array.ravel()
    shifted[...] = array.ravel()
    frozen = array.copy()
    frozen.flags.writeable = False
    return {
        "plain": array,
        "fortran": np.asfortranarray(array),
        "transposed": array.T,
        "strided": array[::2] if array.ndim else array,
        "reversed": array[::-1] if array.ndim else array,
        "broadcast": np.broadcast_to(array, (3, *array.shape)),
        "unaligned": shifted.reshape(array.shape),
        "read-only": frozen,
    }


@pytest.mark.parametrize("dtype", NUMERIC, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (0,), (0, 3), (2, 0, 3), (4, 6), (600,), (9000,)], ids=str)
def test_arrays_of_every_type_and_layout_survive(dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    itemsize = dtype.np_dtype.itemsize
    raw = rng.integers(0, 256, int(np.prod(shape)) * itemsize, np.uint8)
    if dtype is dtypes.bool_:
        raw = raw % 2
    array = raw.view(dtype.np_dtype).reshape(shape)
    for name, variant in variants(array).items():
        back = trip(variant)
        assert bits(back) == bits(variant), name
        assert back.flags.writeable and back.flags.aligned and back.flags.c_contiguous, name
        assert type(back) is np.ndarray
    if dtype.np_dtype.kind in "iufc" and itemsize > 1 and dtype is not dtypes.bfloat16:
        swapped = array.astype(array.dtype.newbyteorder(">"))
        assert bits(trip(swapped)) == bits(array)


def test_all_patterns_of_sixteen_bit_floats_survive() -> None:
    every = np.arange(65536, dtype=np.uint16)
    for dtype in (dtypes.float16, dtypes.bfloat16):
        back = trip(every.view(dtype.np_dtype))
        assert np.array_equal(back.view(np.uint16), every)
        assert back.dtype == dtype.np_dtype


def test_large_arrays_begin_at_multiples_of_sixty_four() -> None:
    assert trip(np.zeros(5000)).ctypes.data % 64 == 0


def test_a_received_array_shares_memory_with_no_other() -> None:
    first, second = codec.decode(codec.encode(probe([np.zeros(10), np.zeros(10)]))).arrays
    first[:] = 1
    assert not second.any()


@pytest.mark.parametrize(
    "items",
    [[], [b""], [b"a\0", b"", b"\xff\xfe"], [b"x" * 100_000, b"y"], ["text", "grün", b"raw"]],
    ids=["none", "empty", "bytes", "long", "text"],
)
def test_strings_survive(items: list[Any]) -> None:
    array = np.empty(len(items), object)
    array[:] = items
    back = trip(array)
    assert bits(back) == bits(array)
    assert all(type(x) is bytes for x in back)
    assert trip(np.array(b"zero-d", object)).shape == ()


def test_fixed_width_text_becomes_strings() -> None:
    assert trip(np.array(["ab", "c"])).tolist() == [b"ab", b"c"]
    assert trip(np.array([b"ab", b"c"])).tolist() == [b"ab", b"c"]


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}], object),
        np.zeros(3, "M8[s]"),
        np.zeros(3, [("a", "i4")]),
        np.ma.masked_array([1, 2], np.array([False, True])),
        np.array([1.0], np.longdouble),
    ],
    ids=["object", "datetime", "structured", "masked", "longdouble"],
)
def test_what_cannot_travel_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        codec.encode(probe([value]))


def test_nothing_is_imported_to_find_out_that_a_value_can_travel() -> None:
    code = "import sys, numpy; from dtfzmq.wire.tensors import normal; normal(numpy.float32(1)); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy.ma" not in done.stdout.split()


def test_numpy_scalars_are_welcome_in_headers_and_none_among_tensors() -> None:
    sent = probe([None, np.float32(2), 7], number=np.int64(5), table={"n": np.float32(0.5), "b": np.bool_(True)})
    back = codec.decode(codec.encode(sent))
    assert (back.number, back.table) == (5, {"n": 0.5, "b": True})
    assert back.arrays[0] is None and back.arrays[1].dtype == np.float32 and back.arrays[2].shape == ()


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
arrays = st.sampled_from(NUMERIC[:10]).flatmap(
    lambda d: hnp.arrays(d.np_dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    if d is not dtypes.bfloat16
    else st.just(np.zeros((2, 2), d.np_dtype))
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(arrays | st.none(), max_size=4),
    st.dictionaries(st.text(), plain, max_size=4),
    st.lists(st.text(), max_size=3),
    st.lists(st.tuples(st.text(), st.integers(-(2**60), 2**60)), max_size=3),
)
def test_any_message_survives(
    values: list[Any], table: dict[str, Any], names: list[str], pairs: list[tuple[str, int]]
) -> None:
    sent = probe(values, table=table, names=tuple(names), pairs=pairs, text="".join(names))
    back = codec.decode(codec.encode(sent))
    assert codec.same(sent, back)
    assert back.pairs == pairs and back.names == tuple(names)


def test_every_declared_message_can_be_laid_out() -> None:
    declared = {cls.__name__ for cls in all_messages()}
    assert {"RunStep", "RunGraph", "Hello"} <= declared
    for cls in all_messages():
        assert layout_of(cls).name == cls.__name__


def test_a_field_that_is_added_later_has_its_default_and_one_that_is_unknown_is_ignored() -> None:
    frames = codec.encode(messages.CloseSession("h"))
    longer = [codec.pack([*codec.unpack(frames[0]), "of a later version"])]
    assert codec.decode(longer) == messages.CloseSession("h")
    shorter = codec.pack(["RunGraph", "s", "h", 3, []])
    assert codec.decode([shorter]).trace == 0
    with pytest.raises(WireError, match="RunGraph lacks feeds"):
        codec.decode([codec.pack(["RunGraph", "s", "h", 3])])


@pytest.mark.parametrize(
    ("descriptor", "problem"),
    [
        (["float32", [2], 9], "does not take 9 bytes"),
        (["float32", [1 << 40, 1 << 40], 8], "does not take"),
        (["float32", [-1], 4], "shape is malformed"),
        (["float32", [True], 4], "shape is malformed"),
        (["float32", [2.0], 8], "shape is malformed"),
        (["float32", [1] * 40, 4], "40 dimensions"),
        (["float32", [0, 1 << 61], 0], "beyond what an array can have"),
        (["float32", [2], 1 << 50], "above the limit"),
        (["float32", [2], -8], "above the limit"),
        (["object", [2], 16], "is not an element type"),
        (["string", [1 << 40], 8], "too few for"),
        (["float32", 2, 8], "malformed"),
        ("float32", "malformed"),
        (["float32", [1 << 20], 1 << 22], "bytes are missing"),
    ],
)
def test_a_size_that_cannot_be_is_refused_before_memory_is_reserved(descriptor: Any, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        tensors.decode(descriptor, b"12345678", 0, 1 << 40)


def test_string_offsets_that_lie_are_refused() -> None:
    for offsets in ([0, 5, 2, 4], [1, 2, 3, 4], [0, 1, 2, 1 << 60], [0, 1, 2, 3]):
        data = np.array(offsets, "<u8").tobytes() + b"abcd"
        with pytest.raises(WireError, match="offsets"):
            tensors.decode(["string", [3], len(data)], data, 0, 1 << 40)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.binary(max_size=80), max_size=3))
def test_garbage_raises_nothing_but_a_wire_error(frames: list[bytes]) -> None:
    try:
        codec.decode(frames)
    except WireError:
        pass


@settings(max_examples=300, deadline=None)
@given(plain)
def test_well_formed_msgpack_of_any_kind_raises_nothing_but_a_wire_error(data: Any) -> None:
    for header in (data, ["CodecProbe", data], ["CodecProbe", 1, "t", 1.0, True, b"", [data], [], [], {}]):
        try:
            codec.decode([msgpack.packb(header), b"12345678"])
        except WireError:
            pass


def test_a_damaged_message_is_the_message_or_a_wire_error() -> None:
    rng = random.Random(5)
    frames = codec.encode(probe([np.arange(6, dtype=np.float32), np.array([b"ab", b"c"], object)]))
    for _ in range(3000):
        damaged = [bytearray(f) for f in frames]
        for _ in range(rng.randrange(1, 4)):
            frame = rng.choice(damaged)
            frame[rng.randrange(len(frame))] = rng.randrange(256)
        try:
            codec.decode([bytes(f) for f in damaged])
        except WireError:
            pass
