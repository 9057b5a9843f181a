"""Columns of parsed examples: one array, or the parts of a sparse one, of a feature of many rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.ops.examples import KIND_OF, values_of
from dtfzmq.ops.shaping import invalid

Array = Any
Row = dict[bytes, bytes]


class Place:
    """Where in the input something is, as errors say it: in a batch by name and row, alone by key."""

    def __init__(self, names: Sequence[bytes] = (), batch: bool = True) -> None:
        self._names = names
        self._batch = batch

    def name(self, row: int) -> str:
        """The row's name."""
        return self._names[row].decode(errors="replace") if len(self._names) else "<unknown>"

    def key(self, row: int, key: bytes) -> str:
        """A feature of a row."""
        told = f"Key: {key.decode(errors='replace')}"
        return f"Name: {self.name(row)}, {told}, Index: {row}.  " if self._batch else f"{told}.  "

    def missing(self, row: int, key: bytes, kind: str) -> Exception:
        """The error of a feature that has to be there."""
        name = f"Name: {self.name(row)}, " if self._batch else ""
        return invalid(
            f"{name}Feature: {key.decode(errors='replace')} (data type: {kind}) is required but could not be found."
        )


class InContext(Place):
    """Places in the context of a sequence."""

    def missing(self, row: int, key: bytes, kind: str) -> Exception:
        """The error of a feature that has to be there."""
        return invalid(
            f"Name: {self.name(row)}, Context feature '{key.decode(errors='replace')}' is required but could not be "
            "found."
        )


def decoded(parse: Callable[[bytes], Any], data: bytes, what: str = "example") -> Any:
    """What the bytes of an example say. InvalidArgumentError if they are none."""
    try:
        return parse(data)
    except (IndexError, ValueError, TypeError):
        text = data[:500].decode(errors="replace")
        raise invalid(f"Could not parse {what} input, value: '{text}'") from None


def _values(row: Row, key: bytes) -> tuple[str, Array]:
    """Kind and values of a row's feature; the kind is "" if it is not there or has none."""
    found = row.get(key)
    return ("", None) if found is None else decoded(values_of, found, "feature")


def shape_text(shape: Sequence[int | None]) -> str:
    """A shape as errors have it."""
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"


def _sizes(shape: TensorShape) -> list[int]:
    return [size or 0 for size in shape.as_list()]


def _checked(row: Row, key: bytes, kind: str, where: Callable[[], str]) -> Array | None:
    have, values = _values(row, key)
    if have and have != kind:
        raise invalid(f"{where()}Data types don't match. Data type: {have} but expected type: {kind}")
    return values if have else None


def dense(rows: Sequence[Row], key: bytes, dtype: Any, shape: TensorShape, default: Array, place: Place) -> Array:
    """A feature of one shape in all rows, [rows, *shape]. A default without elements makes it required."""
    kind, sizes = KIND_OF[dtype.name], _sizes(shape)
    out = np.empty((len(rows), math.prod(sizes)), dtype.np_dtype)
    for i, row in enumerate(rows):
        values = _checked(row, key, kind, functools.partial(place.key, i, key))
        if values is None:
            if np.size(default) == 0:
                raise place.missing(i, key, kind)
            values = np.asarray(default).reshape(-1)
        if len(values) != out.shape[1]:
            raise invalid(
                f"{place.key(i, key)}Number of {kind} values != expected.  Values size: {len(values)} but output shape:"
                f" {shape_text(sizes)}"
            )
        out[i] = values
    return out.reshape(len(rows), *sizes)


def lists(rows: Sequence[Row], key: bytes, dtype: Any, shape: TensorShape, default: Array, place: Place) -> Array:
    """A list of tensors in each row, [rows, longest, *shape[1:]], filled up with the default."""
    kind, inner = KIND_OF[dtype.name], _sizes(shape)[1:]
    stride, found = math.prod(inner), []
    for i, row in enumerate(rows):
        values = _checked(row, key, kind, functools.partial(place.key, i, key))
        values = np.empty(0, dtype.np_dtype) if values is None else values
        if len(values) % stride if stride else len(values):
            raise invalid(
                f"{place.key(i, key)}Number of {kind} values is not a multiple of stride length. Saw {len(values)} "
                f"values but output shape is: {shape_text([None, *inner])}"
            )
        found.append(values)
    most = max((len(values) for values in found), default=0)
    out = np.empty((len(rows), most), dtype.np_dtype)
    out.fill(np.asarray(default).item() if np.size(default) == 1 else (b"" if kind == "string" else 0))
    for i, values in enumerate(found):
        out[i, : len(values)] = values
    return out.reshape(len(rows), most // stride if stride else 0, *inner)


def sparse(rows: Sequence[Row], key: bytes, dtype: Any, place: Place) -> tuple[Array, Array, Array]:
    """Indices, values and shape of what each row has of a feature."""
    kind, found = KIND_OF[dtype.name], []
    for i, row in enumerate(rows):
        have, values = _values(row, key)
        if have and have != kind:
            text = f"Data types don't match. Expected type: {kind}, Actual type: {have}"
            raise invalid(place.key(i, key) + text)
        found.append(values if have else np.empty(0, dtype.np_dtype))
    counts = [len(values) for values in found]
    columns = [np.arange(count) for count in counts]
    indices = np.stack(
        [np.repeat(np.arange(len(rows)), counts), np.concatenate([np.empty(0, np.int64), *columns])], axis=1
    ).astype(np.int64)
    values = np.concatenate([np.empty(0, dtype.np_dtype), *found])
    return indices, values, np.array([len(rows), max(counts, default=0)], np.int64)


def steps(features: Sequence[bytes], key: bytes, dtype: Any, shape: TensorShape, place: Place) -> Array:
    """A feature of one shape in each step of a sequence, [steps, *shape]."""
    kind, sizes = KIND_OF[dtype.name], _sizes(shape)
    out = np.empty((len(features), math.prod(sizes)), dtype.np_dtype)
    for i, feature in enumerate(features):
        have, values = decoded(values_of, feature, "feature")
        if have != kind:
            raise invalid(
                f"Name: {place.name(0)}, Feature list: {key.decode(errors='replace')}, Index: {i}.  Data types don't "
                f"match. Expected type: {kind}"
            )
        if len(values) != out.shape[1]:
            raise invalid(
                f"Name: {place.name(0)}, Key: {key.decode(errors='replace')}, Index: {i}.  Number of {kind} values != "
                f"expected.  Values size: {len(values)} but output shape: {shape_text(sizes)}"
            )
        out[i] = values
    return out.reshape(len(features), *sizes)
