"""Sets in the last axis of tensors, and the distance between sequences: ops on sparse tensors of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.sparse import SparseTensor, SparseTensorValue
from dtfzmq.graph.static import value_as_shape
from dtfzmq.ops.arguments import sizes as sizes_of
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints
from dtfzmq.ops.shaping import invalid
from dtfzmq.ops.sparse_index import check_order, check_parts, flat, grid, sizes

Array = np.ndarray
_JOINS: dict[str, Callable[[set[Any], set[Any]], set[Any]]] = {
    "a-b": lambda a, b: a - b,
    "b-a": lambda a, b: b - a,
    "intersection": lambda a, b: a & b,
    "union": lambda a, b: a | b,
}


def _rows(indices: Array, values: Array, shape: Array) -> dict[int, set[Any]]:
    """The set of each row (all axes but the last) that has elements."""
    found: dict[int, set[Any]] = {}
    check_parts(indices, values, shape)
    check_order(indices, flat(indices, shape))
    for row, value in zip(flat(indices[:, :-1], shape[:-1]).tolist(), values.tolist()):
        found.setdefault(row, set()).add(value)
    return found


def _set_kernel(node: Any, env: Any) -> Any:
    join = _JOINS[node.attrs["set_operation"]]
    to = node.dtypes[1].np_dtype

    def combine(ai: Array, av: Array, a_shape: Array, bi: Array, bv: Array, b_shape: Array) -> tuple[Array, ...]:
        if len(a_shape) != len(b_shape) or np.any(a_shape[:-1] != b_shape[:-1]):
            raise invalid(f"Mismatched group shapes {a_shape[:-1].tolist()} and {b_shape[:-1].tolist()}")
        mine, yours = _rows(ai, av, a_shape), _rows(bi, bv, b_shape)
        keys: list[tuple[int, int]] = []
        values: list[Any] = []
        widest = 0
        for row in sorted(mine.keys() | yours.keys()):
            left = sorted(join(mine.get(row, set()), yours.get(row, set())))
            widest = max(widest, len(left))
            keys += [(row, i) for i in range(len(left))]
            values += left
        lead = tuple(int(d) for d in a_shape[:-1])
        numbers = np.array(keys, np.int64).reshape(-1, 2)
        columns = list(np.unravel_index(numbers[:, 0], lead)) if lead else []
        indices = np.stack([*columns, numbers[:, 1]], 1).astype(np.int64)
        out = np.empty(len(values), to)
        out[:] = values
        return indices, out, np.array([*lead, widest], np.int64)

    return combine


def _set_shape(n: Any) -> list[TensorShape]:
    rank = value_as_shape(n.inputs[2]).ndims
    return [TensorShape([None, rank]), TensorShape([None]), TensorShape([rank])]


_A = (grid((0, 0), (0, 1), (1, 0)), ints(1, 2, 3), sizes(2, 2))
_B = (grid((0, 0), (1, 0), (1, 1)), ints(2, 3, 4), sizes(2, 2))
_set_operation = op(
    "SparseToSparseSetOperation",
    "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64; set_operation: str "
    "-> indices: int64, values: T, shape: int64",
    shape=_set_shape, make=_set_kernel, grad=NO_GRAD("a set is no smooth function"),
    samples=[Sample(*_A, *_B, set_operation=join) for join in _JOINS],
)  # fmt: skip


def _size(indices: Array, values: Array, shape: Array) -> Array:
    out = np.zeros(int(np.prod(shape[:-1], dtype=np.int64)), np.int32)
    for row, found in _rows(indices, values, shape).items():
        out[row] = len(found)
    return out.reshape(shape[:-1])


_set_size = op(
    "SetSize", "indices: int64, values: T, shape: int64 -> size: int32", kernel=_size, grad=NO_GRAD("integer result"),
    shape=lambda n: [value_as_shape(n.inputs[2])[:-1]], samples=[Sample(*_A)],
)  # fmt: skip


def _distance(a: list[Any], b: list[Any]) -> int:
    """Levenshtein's distance."""
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
        last = row
    return last[-1]


def _edit_kernel(node: Any, env: Any) -> Any:
    normalize = node.attrs["normalize"]

    def edit(hi: Array, hv: Array, h_shape: Array, ti: Array, tv: Array, t_shape: Array) -> Array:
        check_parts(hi, hv, h_shape)
        check_parts(ti, tv, t_shape)
        for name, shape in (("hypothesis_shape", h_shape), ("truth_shape", t_shape)):
            sizes_of(name, shape)
        if len(h_shape) != len(t_shape):
            raise invalid(f"hypothesis and truth must be of one rank, not {len(h_shape)} and {len(t_shape)}")
        lead = np.maximum(h_shape[:-1], t_shape[:-1])
        sequences: list[dict[int, list[Any]]] = []
        for indices, values in ((hi, hv), (ti, tv)):
            found: dict[int, list[Any]] = {}
            for row, value in zip(flat(indices[:, :-1], lead).tolist(), values.tolist()):
                found.setdefault(row, []).append(value)
            sequences.append(found)
        out = np.zeros(int(np.prod(lead, dtype=np.int64)), np.float32)
        for row in range(len(out)):
            guess, truth = (s.get(row, []) for s in sequences)
            number: float = _distance(guess, truth)
            if normalize:
                number = number / len(truth) if truth else np.inf if guess else 0.0
            out[row] = number
        return out.reshape(lead)

    return edit


def _edit_shape(n: Any) -> list[TensorShape]:
    a, b = value_as_shape(n.inputs[2]).dims_or_none, value_as_shape(n.inputs[5]).dims_or_none
    if a is None or b is None:
        return [TensorShape(None)]
    return [TensorShape([None if x is None or y is None else max(x, y) for x, y in zip(a[:-1], b[:-1])])]


_edit_distance = op(
    "EditDistance",
    "hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, truth_indices: int64, truth_values: T, "
    "truth_shape: int64; normalize: bool = True -> output: float32",
    shape=_edit_shape, make=_edit_kernel, grad=NO_GRAD("counts"), samples=[Sample(*_A, *_B)],
)  # fmt: skip


def _elements(value: Any, like: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Indices, values and shape of a sparse or dense tensor; of a dense one every element counts."""
    if isinstance(value, (SparseTensor, SparseTensorValue)):
        sp = SparseTensor.from_value(value)
        return sp.indices, sp.values, sp.dense_shape
    x = convert_to_tensor(value, dtype=like)
    indices = raw.Where(raw.Fill(raw.Shape(x), True))
    return indices, raw.Reshape(x, ints(-1)), raw.Shape(x, out_type=dtypes.int64)


def _combined(a: Any, b: Any, how: str) -> SparseTensor:
    return SparseTensor(*_set_operation(*_elements(a), *_elements(b), set_operation=how))


def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """For each row of the last axis the values in either, in order. Dense or sparse tensors."""
    return _combined(a, b, "union")


def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """For each row of the last axis the values in both, in order. Dense or sparse tensors."""
    return _combined(a, b, "intersection")


def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """For each row of the last axis the values of a that are not in b (or the other way), in order."""
    return _combined(a, b, "a-b" if aminusb else "b-a")


def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """The number of distinct values in each row of the last axis of a sparse tensor."""
    if not isinstance(a, (SparseTensor, SparseTensorValue)):
        raise TypeError(f"Expected `SparseTensor`, got {a}.")
    return _set_size(*_elements(a))


def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    """Levenshtein's distance between the sequences in the last axis of two sparse tensors.

    `normalize` divides it by the length of the truth: infinite if that is 0 and the hypothesis is not.
    """
    for value in (hypothesis, truth):
        if not isinstance(value, (SparseTensor, SparseTensorValue)):
            raise TypeError(f"Hypothesis and truth must be SparseTensors, not {type(value).__name__}.")
    return _edit_distance(*_elements(hypothesis), *_elements(truth), normalize=normalize, name=name)
