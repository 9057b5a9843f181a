"""Checks of ranks, shapes and types, made while the graph is built as far as they are known then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.static import constant_value
from dtfzmq.ops.checks import Assert, is_numeric_tensor
from dtfzmq.ops.constants import no_op
from dtfzmq.ops.grouping import group
from dtfzmq.ops.raw import raw


def _dotted(message: str | None) -> str:
    return f"{message}.  " if message else ""


def _sizes(shape: TensorShape) -> str:
    return "unknown" if shape.ndims is None else str(tuple(shape.as_list()))


def _rank_check(
    x: Any, ranks: Sequence[Any], how: str, message: str | None, data: Any, summarize: Any, name: str
) -> Operation:
    """`how`: "", "at least" or "in" of the message; `ranks` are integers or scalar tensors."""
    x = convert_to_tensor(x, name="x")
    with x.graph.name_scope(name):
        tensors = [convert_to_tensor(r, name="rank") for r in ranks]
        for t in tensors:
            if not t.dtype.is_integer:
                raise TypeError(f"Rank must be integer type, but rank is of type {t.dtype.base_dtype.name}")
        known = [constant_value(t) for t in tensors]
        for value in known:
            if value is not None and value.ndim:
                raise ValueError("Rank must be a scalar.")
        words = " ".join(w for w in ("must have rank", how) if w)
        if x.shape.ndims is not None and all(k is not None for k in known):
            numbers = tuple(int(k) for k in known if k is not None)
            fits = x.shape.ndims >= numbers[0] if how == "at least" else x.shape.ndims in numbers
            if not fits:
                wanted = str(numbers) if how == "in" else str(numbers[0])
                raise ValueError(
                    f"{_dotted(message)}Tensor {x.name} {words} {wanted}.  Received rank {x.shape.ndims}, "
                    f"shape {_sizes(x.shape)}"
                )
            return no_op(name="static_checks_determined_all_ok")
        rank = raw.Rank(x)
        compare = raw.GreaterEqual if how == "at least" else raw.Equal
        conditions = [compare(rank, t if t.dtype is dtypes.int32 else raw.Cast(t, DstT=dtypes.int32)) for t in tensors]
        condition = conditions[0]
        for other in conditions[1:]:
            condition = raw.LogicalOr(condition, other)
        shown = data or [_dotted(message), f"Tensor {x.name} {words}", *tensors, "Received shape: ", raw.Shape(x)]
        return Assert(condition, shown, summarize)


def assert_rank(
    x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Fail unless x has this rank: ValueError now if it is known to have another, else the step."""
    return _rank_check(x, [rank], "", message, data, summarize, name or "assert_rank")


def assert_rank_at_least(
    x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Fail unless x has this rank or more: ValueError now if it is known to have less, else the step."""
    return _rank_check(x, [rank], "at least", message, data, summarize, name or "assert_rank_at_least")


def assert_rank_in(
    x: Any, ranks: Iterable[Any], data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """Fail unless x has one of these ranks: ValueError now if it is known to have another, else the step."""
    return _rank_check(x, list(ranks), "in", message, data, summarize, name or "assert_rank_in")


def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """An op that does nothing. Raises TypeError now if the tensor has another type."""
    tensor = convert_to_tensor(tensor, name="tensor")
    wanted = dtypes.as_dtype(tf_type)
    if tensor.dtype is not wanted:
        raise TypeError(f"{_dotted(message)}{tensor.name} must be of type {wanted!r}; got {tensor.dtype!r}")
    return no_op(name=name or "statically_determined_correct_type")


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """An op that does nothing. Raises TypeError now if x is not of an integer type."""
    x = convert_to_tensor(x, name="x")
    if not x.dtype.is_integer:
        raise TypeError(
            f'{_dotted(message)}Expected "x" to be integer type.  Found: {x.name} of dtype {x.dtype.base_dtype!r}'
        )
    return no_op(name=name or "statically_determined_was_integer")


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """The tensor. Raises ValueError now if it is not known to be a scalar."""
    tensor = convert_to_tensor(tensor, name=name or "tensor")
    if tensor.shape.ndims != 0:
        raise ValueError(
            f"{_dotted(message)}Expected scalar shape for {tensor.name}, saw shape: {_sizes(tensor.shape)}."
        )
    return tensor


def assert_proper_iterable(values: Any) -> None:
    """Raises TypeError unless `values` is an iterable of several things: no tensor, array or text."""
    if isinstance(values, (Tensor, np.ndarray, bytes, str)) or hasattr(values, "dense_shape"):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}')
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> DType:
    """The one floating type of all tensors, float32 if there are none. Raises ValueError if there is no such."""
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    first = None
    for t in tensors or ():
        if t is None:
            continue
        kind = t.dtype.base_dtype
        if wanted is None:
            wanted, first = kind, t
        elif kind is not wanted:
            of = "" if first is None else f" as {first.name}"
            raise ValueError(f"{t.name}, type={kind!r}, must be of the same type ({wanted!r}){of}.")
    wanted = wanted or dtypes.float32
    if not wanted.is_floating:
        raise ValueError(f"Expected floating point type, got {wanted!r}.")
    return wanted


def assert_shapes(
    shapes: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
) -> Operation:
    """Fail unless every tensor has its shape: a dict or pairs of tensor -> sizes (numbers, None, or names of sizes).

    A name stands for one size throughout; the first of several axes may be "..." or "*". Raises ValueError now where
    shapes are known to differ, else the step fails.
    """
    pairs = list(shapes.items()) if isinstance(shapes, dict) else list(shapes)
    named: dict[Any, tuple[Any, str]] = {}
    ops: list[Operation] = []
    for value, spec in pairs:
        x = convert_to_tensor(value)
        sizes = list(spec) if isinstance(spec, (list, tuple, str)) else [spec]
        if not sizes or spec == ():
            sizes = []
        open_start = bool(sizes) and sizes[0] in ("...", "*", Ellipsis)
        sizes = sizes[1:] if open_start else sizes
        check = assert_rank_at_least if open_start else assert_rank
        ops.append(check(x, len(sizes), data, summarize, message))
        known = x.shape.dims_or_none
        for i, size in enumerate(sizes):
            at = i - len(sizes)
            if size in (None, "."):
                continue
            actual: Any = None if known is None else known[at]
            if actual is None:
                actual = raw.Shape(x)[at]
            wanted: Any = size
            if isinstance(size, str):
                if size not in named:
                    named[size] = (actual, f"{x.name}")
                    continue
                wanted = named[size][0]
            if isinstance(actual, int) and isinstance(wanted, int):
                if actual != wanted:
                    raise ValueError(
                        f"{_dotted(message)}Specified by tensor {x.name} dimension {i} must have size {wanted}.  "
                        f"Received size {actual}, shape {_sizes(x.shape)}"
                    )
                continue
            text = f"{_dotted(message)}Tensor {x.name} dimension {i} must have size"
            shown = data or [text, wanted, "Received shape: ", raw.Shape(x)]
            ops.append(Assert(raw.Equal(actual, wanted), shown, summarize))
    return group(*ops, name=name or "assert_shapes")


__all__ = [
    "assert_integer", "assert_proper_iterable", "assert_rank", "assert_rank_at_least", "assert_rank_in",
    "assert_same_float_dtype", "assert_scalar", "assert_shapes", "assert_type", "is_numeric_tensor",
]  # fmt: skip
