"""What the values that a client feeds are held against, whoever the client is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.names import article
from dtfzmq.graph.node import Node

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderWithDefault"})


class FedTensor:
    """One tensor that is fed: its name for people, its element type, and the sizes that its placeholder asks for."""

    __slots__ = ("dims", "dtype", "name", "shape")

    def __init__(self, name: str, dtype: dtypes.DType | None, dims: tuple[int | None, ...] | None) -> None:
        """`dtype` None: any; `dims` None: any shape; in it None: any size. UnimplementedError, TypeError as `np_dtype`.

        Any thread may make one; it is used on the baton.
        """
        self.name = name
        self.dtype = None if dtype is None else dtype.base_dtype.np_dtype
        self.dims = dims
        #: A shape that fits: the one that came last, so that the next is compared with it first.
        self.shape: tuple[int | None, ...] | None = dims

    def check(self, value: Any) -> None:
        """Raise InvalidArgumentError, with what came and what belongs there, unless `value` can be fed."""
        if not isinstance(value, (np.ndarray, np.generic)):
            what = article(type(value).__name__)
            raise errors.InvalidArgumentError(
                None, None, f"What was fed to '{self.name}' is {what} and no tensor; feed an array."
            )
        if self.dtype is not None and value.dtype != self.dtype:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"The value fed to '{self.name}' has elements of type {_name(value.dtype)}, and it takes "
                f"{_name(self.dtype)}; convert the value.",
            )
        dims = self.dims
        if dims is not None and not (
            len(dims) == value.ndim and all(d is None or d == n for d, n in zip(dims, value.shape))
        ):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"The value fed to '{self.name}' has shape {_text(value.shape)}, and its placeholder takes "
                f"{_text(dims)}; feed a value of that shape.",
            )
        self.shape = value.shape


def fed_tensors(nodes: Sequence[Node], endpoints: Iterable[tuple[int, int]]) -> tuple[FedTensor, ...]:
    """What is fed at `endpoints`, places (node, output) in a graph that a client built."""
    found = []
    for index, out in endpoints:
        node = nodes[index]
        shape = node.attrs.get("shape") if node.op in _PLACEHOLDERS else None
        dims = None if shape is None or shape.ndims is None else tuple(shape.as_list())
        found.append(FedTensor(f"{node.name}:{out}", node.dtypes[out], dims))
    return tuple(found)


def part_feeds(nodes: Iterable[Node], count: int) -> tuple[FedTensor, ...]:
    """What a part of a graph is fed: a type for each value that an `_Arg` brings in."""
    found = [FedTensor(f"feed {index}", None, None) for index in range(count)]
    for node in nodes:
        if node.op == "_Arg":
            found[node.attrs["index"]] = FedTensor(node.name, node.dtypes[0], None)
    return tuple(found)


def check_count(values: Sequence[Any], names: Sequence[str]) -> None:
    """Raise InvalidArgumentError unless there is one value for each of `names`."""
    if len(values) != len(names) or any(value is None for value in values):
        there = sum(value is not None for value in values)
        raise errors.InvalidArgumentError(
            None, None, f"This call feeds {len(names)} tensors ({', '.join(names)}), and {there} values came."
        )


def check_feeds(values: Sequence[Any], feeds: Sequence[FedTensor]) -> None:
    """Hold one value for each of `feeds` against it. Raises InvalidArgumentError that names the tensor."""
    for value, fed in zip(values, feeds):
        if type(value) is np.ndarray and value.dtype is fed.dtype and (fed.dims is None or value.shape == fed.shape):
            continue
        fed.check(value)


def _name(dtype: np.dtype[Any]) -> str:
    return "string" if dtype.hasobject else str(dtype)


def _text(shape: Sequence[int | None]) -> str:
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"
