"""Tensor bundles: read what TensorFlow wrote, write the same bytes, and notice every damage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtfzmq as tf
from dtfzmq.train.checkpoints import slices, table
from dtfzmq.train.checkpoints.bundle import Reader, Writer
from dtfzmq.train.checkpoints.slices import Part

# Written by TensorFlow 2.21's compat.v1.train.Saver from a graph with these variables.
RECORDED = str(Path(__file__).parent.parent / "data" / "checkpoint" / "recorded")
VALUES: dict[str, Any] = {
    "b": np.array([True, False]),
    "bf": np.array([1, 2], ml_dtypes.bfloat16),
    "c": np.array([1 + 2j], np.complex64),
    "d": np.array(3.5),
    "empty": np.zeros((0, 3), np.float32),
    "f": np.arange(12, dtype=np.float32).reshape(3, 4),
    "h": np.array([1, 2], np.float16),
    "i": np.array(-7, np.int32),
    "in/ner": np.array(b"hi", object),
    "l": np.arange(5),
    "p/w": np.arange(400, dtype=np.float32).reshape(200, 2),
    "s": np.array([[b"abc", b""], [b"x" * 300, b"\x00\xff"]], object),
    "u8": np.arange(4, dtype=np.uint8),
    "wide": np.arange(300, dtype=np.int64),
}
PARTS = [Part((0, 0), (67, 2)), Part((67, 0), (67, 2)), Part((134, 0), (66, 2))]


def write(prefix: str, values: dict[str, Any] = VALUES) -> None:
    writer = Writer(prefix)
    try:
        for name, value in values.items():
            if name == "p/w":
                for part in PARTS:
                    writer.add(name, value[part.place], (200, 2), part)
            else:
                writer.add(name, value)
        writer.finish()
    finally:
        writer.abandon()


def same(reader: Reader, values: dict[str, Any] = VALUES) -> bool:
    assert reader.names() == sorted(values)
    return all((reader.read(name) == value).all() for name, value in values.items())


def test_what_tensorflow_wrote_is_read() -> None:
    reader = Reader(RECORDED)
    assert same(reader)
    for name, value in VALUES.items():
        got = reader.read(name)
        assert got.dtype == value.dtype and got.shape == value.shape and reader.entry(name).shape == value.shape


def test_what_is_written_is_what_tensorflow_writes(tmp_path: Path) -> None:
    write(str(tmp_path / "ours"))
    ours, theirs = ((Path(path + ".index").read_bytes()) for path in (str(tmp_path / "ours"), RECORDED))
    assert table.from_bytes(ours) == table.from_bytes(theirs)
    data = (tmp_path / "ours.data-00000-of-00001").read_bytes()
    assert data == Path(RECORDED + ".data-00000-of-00001").read_bytes()


@pytest.mark.parametrize("part", [Part((60, 0), (100, 2)), Part((0, 1), (200, 1)), Part((134, 0), (1, 2))])
def test_a_part_across_parts(part: Part) -> None:
    assert (Reader(RECORDED).read("p/w", part) == VALUES["p/w"][part.place]).all()
    assert (Reader(RECORDED).read("f", Part((1, 1), (2, 3))) == VALUES["f"][1:, 1:]).all()


def test_a_bundle_takes_the_place_of_another(tmp_path: Path) -> None:
    prefix = str(tmp_path / "x")
    for round_ in range(4):
        values = {"v": np.full(1000, round_)}
        write(prefix, values)
        assert same(Reader(prefix), values)
        assert len(list(tmp_path.iterdir())) <= 3


def test_a_reader_goes_on_with_the_bundle_that_took_the_place_of_its_own(tmp_path: Path) -> None:
    prefix = str(tmp_path / "x")
    write(prefix, {"v": np.full(1000, 1)})
    reader = Reader(prefix)
    write(prefix, {"v": np.full(1000, 2)})
    assert reader.read("v")[0] == 2


class Killed(BaseException):
    """What a process that was killed does not catch."""


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """killed_at(n): from the n-th change of the file system on nothing more happens to it. Returns what counts them."""
    seen: list[str] = []

    def arm(n: int) -> list[str]:
        seen.clear()
        for name in ("replace", "unlink", "fsync"):
            real = getattr(os, name)

            def change(*args: Any, real: Any = real, name: str = name) -> Any:
                seen.append(name)
                if len(seen) > n:
                    raise Killed
                return real(*args)

            monkeypatch.setattr(os, name, change)
        return seen

    return arm


def test_one_that_is_killed_leaves_the_old_bundle_or_the_new(tmp_path: Path, killed_at: Any, monkeypatch: Any) -> None:
    old, new = {"v": np.full(1000, 1)}, {"v": np.full(1000, 2)}
    found = []
    for n in range(20):
        prefix = str(tmp_path / str(n) / "x")
        write(prefix, old)
        seen = killed_at(n)
        try:
            write(prefix, new)
        except Killed:
            pass
        over = len(seen) <= n
        monkeypatch.undo()
        found.append(int(Reader(prefix).read("v")[0]))
        if over:
            break
        write(prefix, new)
        assert same(Reader(prefix), new), "and the next one takes its place"
    assert over and found == sorted(found) and {1, 2} == set(found)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[str]:
    for path in Path(RECORDED).parent.iterdir():
        shutil.copy(path, tmp_path)
    yield str(tmp_path / "recorded")


def test_every_damaged_byte_of_the_data_is_noticed(copy: str) -> None:
    path = Path(copy + ".data-00000-of-00001")
    whole = path.read_bytes()
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(tf.errors.DataLossError, match="Tensor .* is damaged"):
            same(Reader(copy))
    path.write_bytes(whole[:-1])
    with pytest.raises(tf.errors.DataLossError, match="ends before it does"):
        same(Reader(copy))
    path.unlink()
    with pytest.raises(tf.errors.DataLossError, match="there is no file"):
        same(Reader(copy))


def test_every_damaged_byte_of_the_index_is_noticed(copy: str) -> None:
    path = Path(copy + ".index")
    whole = path.read_bytes()
    for at in range(len(whole)):
        if len(whole) - 48 + 6 <= at < len(whole) - 8:
            continue  # zeros that fill the footer
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(tf.errors.DataLossError):
            same(Reader(copy))
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.raises(tf.errors.DataLossError, match="is not the index of a checkpoint, or damaged"):
            Reader(copy)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_of_tables(data: bytes) -> None:
    for tail in (b"", bytes(40) + (0xDB4775248B80FB57).to_bytes(8, "little")):
        with pytest.raises((ValueError, IndexError)):
            table.from_bytes(data + tail)


@given(st.dictionaries(st.binary(max_size=40), st.binary(max_size=100), max_size=80))
def test_tables_hold_what_they_were_given(entries: dict[bytes, bytes]) -> None:
    assert table.from_bytes(table.to_bytes(sorted(entries.items()))) == dict(sorted(entries.items()))


def test_a_table_of_many_blocks() -> None:
    entries = {f"layer{i:06d}/weights".encode(): bytes(64) for i in range(20_000)}
    assert table.from_bytes(table.to_bytes(entries.items())) == entries


@settings(max_examples=200)
@given(st.text(max_size=5), st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=3))
def test_keys_of_parts_sort_as_what_they_hold(name: str, ends: list[tuple[int, int]]) -> None:
    part = Part(tuple(o for o, _ in ends), tuple(s for _, s in ends))
    later = Part(tuple(o + 1 for o in part.offset), part.size)
    key = slices.key(name, part)
    assert key < slices.key(name + "a", part) or "\x00" in name
    assert not ends or key < slices.key(name, later)
    shape = [o + s for o, s in ends]
    assert slices.from_proto(slices.to_proto(part), shape)[0] == part


def test_names_and_parts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    writer = Writer(str(tmp_path / "x"))
    writer.add("a", np.zeros(2))
    writer.add("w", np.zeros(2), (4,), Part((0,), (2,)))
    for name, value, whole, part in [
        ("a", np.zeros(2), (), None),
        ("a", np.zeros(2), (4,), Part((0,), (2,))),
        ("w", np.zeros(4), (), None),
        ("w", np.zeros(2), (4,), Part((0,), (2,))),
        ("w", np.zeros(2), (5,), Part((2,), (2,))),
        ("w", np.zeros(2, np.float32), (4,), Part((2,), (2,))),
    ]:
        with pytest.raises(ValueError, match="in the bundle already|others are not"):
            writer.add(name, value, whole, part)
    writer.finish()
    reader = Reader(str(tmp_path / "x"))
    with pytest.raises(tf.errors.DataLossError, match="its parts do not fill it"):
        reader.read("w")
    assert (reader.read("w", Part((1,), (1,))) == 0).all()
    with pytest.raises(tf.errors.NotFoundError, match="Key b not found in checkpoint"):
        reader.read("b")
