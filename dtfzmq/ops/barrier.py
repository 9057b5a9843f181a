"""`Barrier`: a handle in the graph of a barrier that lives on a task. Components come by key, whole elements go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, op
from dtfzmq.graph.shape_rules import none, scalar

_STATE = NO_GRAD("state that is not differentiable")


def _make(node: Any, env: Any) -> Any:
    return env.resource(node)


def _insert(node: Any, env: Any) -> Any:
    component = node.attrs["component_index"]
    return lambda handle, keys, values: handle.insert_many(component, keys, values)


def _take(node: Any, env: Any) -> Any:
    small = node.attrs["allow_small_batch"]
    return lambda ctx, inputs, done: inputs[0].take_many(ctx, int(inputs[1]), small, done)


def _close(node: Any, env: Any) -> Any:
    cancel = node.attrs["cancel_pending_enqueues"]
    return lambda handle: handle.close(cancel)


_barrier = op(
    "Barrier",
    "; component_types: list(type), shapes: list(shape) = [], capacity: int = -1, container: str = '', "
    "shared_name: str = '' -> handle: resource",
    shape=scalar, make=_make, stateful=True, grad=_STATE,
)  # fmt: skip
_insert_many = op(
    "BarrierInsertMany", "handle: resource, keys: string, values: T; component_index: int ->", shape=none, make=_insert,
    stateful=True, grad=_STATE,
)  # fmt: skip
_take_many = op(
    "BarrierTakeMany",
    "handle: resource, num_elements: int32; component_types: list(type), allow_small_batch: bool = False, "
    "timeout_ms: int = -1 -> indices: int64, keys: string, values: component_types*",
    shape=lambda n: [TensorShape([None])] * 2 + [TensorShape(None)] * (len(n.outputs) - 2), start=_take, stateful=True,
    grad=_STATE,
)  # fmt: skip
_close_op = op(
    "BarrierClose", "handle: resource; cancel_pending_enqueues: bool = False ->", shape=none, make=_close,
    stateful=True, grad=_STATE,
)  # fmt: skip
_ready_size = op(
    "BarrierReadySize", "handle: resource -> size: int32", shape=scalar,
    kernel=lambda handle: np.int32(handle.ready_size()), stateful=True, grad=_STATE,
)  # fmt: skip
_incomplete_size = op(
    "BarrierIncompleteSize", "handle: resource -> size: int32", shape=scalar,
    kernel=lambda handle: np.int32(handle.incomplete_size()), stateful=True, grad=_STATE,
)  # fmt: skip


class Taken(NamedTuple):
    """What `take_many` gives: numbers of the insertions that brought the keys, the keys, one tensor a component."""

    indices: Tensor
    keys: Tensor
    values: list[Tensor]


class Barrier:
    """Elements put together piece by piece, by string keys, and taken whole.

    With `shared_name` every session and graph that names it on that task uses the same barrier.
    """

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        self._types = [dtypes.as_dtype(t).base_dtype for t in (types if isinstance(types, (list, tuple)) else [types])]
        if shapes is None:
            self._shapes: list[TensorShape] = []
        else:
            given = shapes if isinstance(shapes, list) and not isinstance(shapes, TensorShape) else [shapes]
            self._shapes = [as_shape(s) for s in given]
            if len(self._shapes) != len(self._types):
                raise ValueError(f"Barrier shapes must have the same length as types: {shapes} for {self._types}.")
            for i, shape in enumerate(self._shapes):
                if shape.num_elements() == 0:
                    raise ValueError(f"Empty tensors are not supported, but received shape '{shape}' at index {i}")
        self._barrier_ref: Tensor = _barrier(
            component_types=self._types, shapes=self._shapes, shared_name=shared_name or "", name=name
        )

    @property
    def barrier_ref(self) -> Tensor:
        """The handle."""
        return self._barrier_ref

    @property
    def name(self) -> str:
        """Name of the handle's op."""
        return self._barrier_ref.op.name

    @property
    def types(self) -> Sequence[DType]:
        return self._types

    def _named(self, name: str | None, what: str) -> str:
        return name or f"{self.name.rsplit('/', 1)[-1]}_{what}"

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Give each of `keys` its component: a row of `values`. A key is complete when it has all components."""
        kind = self._types[component_index]
        made: Operation = _insert_many(
            self._barrier_ref, convert_to_tensor(keys, dtype=dtypes.string), convert_to_tensor(values, dtype=kind),
            component_index=component_index, name=self._named(name, "BarrierInsertMany"),
        )  # fmt: skip
        return made

    def take_many(
        self, num_elements: Any, allow_small_batch: bool = False, timeout: int | None = None, name: str | None = None
    ) -> Taken:
        """Complete elements, in the order in which their keys came first; waits for `num_elements` of them.

        With `allow_small_batch` a closed barrier gives fewer, if it has any.
        """
        indices, keys, *parts = _take_many(
            self._barrier_ref, convert_to_tensor(num_elements, dtype=dtypes.int32), component_types=self._types,
            allow_small_batch=allow_small_batch, timeout_ms=-1 if timeout is None else timeout,
            name=self._named(name, "BarrierTakeMany"),
        )  # fmt: skip
        count = None if isinstance(num_elements, Tensor) or allow_small_batch else int(num_elements)
        for tensor in (indices, keys):
            tensor.set_shape([count])
        for tensor, shape in zip(parts, self._shapes):
            tensor.set_shape(TensorShape([count]).concatenate(shape))
        return Taken(indices, keys, parts)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """No more new keys; what is incomplete can be completed, unless `cancel_pending_enqueues`."""
        made: Operation = _close_op(
            self._barrier_ref, cancel_pending_enqueues=cancel_pending_enqueues, name=self._named(name, "BarrierClose")
        )
        return made

    def ready_size(self, name: str | None = None) -> Tensor:
        """Number of complete elements."""
        made: Tensor = _ready_size(self._barrier_ref, name=self._named(name, "BarrierReadySize"))
        return made

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Number of elements that lack a component."""
        made: Tensor = _incomplete_size(self._barrier_ref, name=self._named(name, "BarrierIncompleteSize"))
        return made
