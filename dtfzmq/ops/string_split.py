"""Strings taken apart into sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops.arguments import scalar
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.shaping import invalid
from dtfzmq.ops.strings import TEXT, Array, words


def _apart(x: Array, cut: Callable[[bytes], list[bytes]]) -> tuple[Array, Array, Array]:
    rows = [cut(item) for item in x.reshape(-1).tolist()]
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = np.empty(len(indices), object)
    values[:] = [part for row in rows for part in row]
    widest = max((len(row) for row in rows), default=0)
    return np.array(indices, np.int64).reshape(-1, 2), values, np.array([len(rows), widest], np.int64)


def _by_characters(delimiters: bytes, skip_empty: bool) -> Callable[[bytes], list[bytes]]:
    """Cut at each of the delimiters; between all bytes if there is none."""
    marks = set(delimiters)

    def cut(s: bytes) -> list[bytes]:
        if not s:
            return []  # nothing has no parts, not even an empty one
        if not marks:
            return [s[i : i + 1] for i in range(len(s))]
        parts, begin = [], 0
        for i, c in enumerate(s):
            if c in marks:
                parts.append(s[begin:i])
                begin = i + 1
        parts.append(s[begin:])
        return [p for p in parts if p] if skip_empty else parts

    return cut


def _split_shape(n: Any) -> list[TensorShape]:
    n.inputs[0].shape.assert_has_rank(1)
    return [TensorShape([None, 2]), TensorShape([None]), TensorShape([2])]


def _mark(what: str, x: Array, mark: Array) -> bytes:
    """The text in a scalar, by which a vector is to be cut."""
    if np.ndim(x) != 1:
        raise invalid(f"input must be a vector, got shape {list(np.shape(x))}")
    return bytes(scalar(what, mark))


def _split_kernel(node: Any, env: Any) -> Any:
    skip_empty = node.attrs["skip_empty"]
    return lambda x, delimiter: _apart(x, _by_characters(_mark("delimiter", x, delimiter), skip_empty))


def _split_v2_kernel(node: Any, env: Any) -> Any:
    most = node.attrs["maxsplit"] if node.attrs["maxsplit"] > 0 else -1

    def split(x: Array, sep: Array) -> tuple[Array, Array, Array]:
        mark = _mark("sep", x, sep) or None
        return _apart(x, lambda s: s.split(mark, most))

    return split


_OUT = "indices: int64, values: string, shape: int64"
_split = op(
    "StringSplit", f"input: string, delimiter: string; skip_empty: bool = True -> {_OUT}", shape=_split_shape,
    make=_split_kernel, grad=TEXT,
    samples=[
        Sample(words(b"a b  c", b"d", b""), np.array(b" ", object)),
        Sample(words(b"a,b;"), np.array(b",;", object), skip_empty=False),
    ],
)  # fmt: skip
_split_v2 = op(
    "StringSplitV2", f"input: string, sep: string; maxsplit: int = -1 -> {_OUT}", shape=_split_shape,
    make=_split_v2_kernel, grad=TEXT,
    samples=[
        Sample(words(b"a  b", b""), np.array(b"", object)),
        Sample(words(b"a<>b<>c"), np.array(b"<>", object), maxsplit=1),
    ],
)  # fmt: skip


def _result(result_type: str) -> None:
    if result_type != "SparseTensor":
        raise ValueError(f"result_type must be 'SparseTensor', not {result_type!r}; there are no ragged tensors here.")


def string_split(
    source: Any, sep: Any = None, skip_empty: bool = True, delimiter: Any = None, result_type: str = "SparseTensor",
    name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """The parts of each string of a vector, cut at any character of `delimiter` (a space, if not given).

    The empty delimiter cuts between all bytes; `skip_empty` leaves empty parts out.
    """
    _result(result_type)
    mark = one_of("sep", sep, "delimiter", delimiter)
    return SparseTensor(*_split(source, " " if mark is None else mark, skip_empty=skip_empty, name=name))


def split(
    input: Any = None, sep: Any = None, maxsplit: int = -1, result_type: str = "SparseTensor", source: Any = None,
    name: str | None = None,
) -> SparseTensor:  # fmt: skip
    """The parts of each string of a vector, cut as Python's split does: at `sep`, or at white space if not given."""
    _result(result_type)
    text = convert_to_tensor(one_of("input", input, "source", source))
    return SparseTensor(*_split_v2(text, "" if sep is None else sep, maxsplit=maxsplit, name=name))
