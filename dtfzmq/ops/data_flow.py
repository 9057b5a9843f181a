"""TensorFlow 1's queue classes: handles in the graph of a queue that lives on a task.

With `shared_name` every session, graph and client that names it on that task uses the same queue; without, the queue
belongs to the session and dies with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtfzmq.base import dtypes as types
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape, as_shape, unknown_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor, get_default_graph
from dtfzmq.graph.scopes import name_scope
from dtfzmq.graph.static import constant_value
from dtfzmq.ops import queue_ops
from dtfzmq.ops.random import get_seed


def _as_types(dtypes: Any) -> list[DType]:
    found = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes]
    return [types.as_dtype(d).base_dtype for d in found]


def _as_shapes(shapes: Any, count: int, unknown_dims: bool = False) -> list[TensorShape]:
    one = isinstance(shapes, TensorShape) or (
        count == 1 and isinstance(shapes, (list, tuple)) and all(s is None or isinstance(s, int) for s in shapes)
    )
    if one:
        shapes = [shapes]
    found = [as_shape(s) for s in shapes]
    if len(found) != count:
        raise ValueError(f"Queue shapes must have the same length as dtypes, received len({found}), len {count}.")
    for shape in found:
        if unknown_dims:
            shape.with_rank_at_least(0)
        elif not shape.is_fully_defined():
            raise ValueError(f"All shapes must be fully defined: {found}")
    return found


def _as_names(names: Any, count: int) -> list[str] | None:
    if names is None:
        return None
    found = [names] if isinstance(names, str) else list(names)
    if len(found) != count:
        raise ValueError(
            f"List of names must have the same length as the list of dtypes, received {found} for {count} dtypes."
        )
    return found


class QueueBase:
    """What all queues do. An element is a tuple of tensors, one per component, a dict of them if the queue has `names`.

    A full queue holds an enqueue up, an empty one a dequeue. `close` lets what is inside be used up: then dequeues end
    as OutOfRangeError; an enqueue on a closed queue ends as CancelledError.
    """

    def __init__(
        self, dtypes: Any, shapes: Sequence[TensorShape] | None, names: list[str] | None, queue_ref: Tensor
    ) -> None:
        self._dtypes = _as_types(dtypes)
        if shapes is not None and len(shapes) != len(self._dtypes):
            raise ValueError(
                f"Queue shapes must have the same length as dtypes, received len({shapes}), len({self._dtypes})"
            )
        self._shapes = [unknown_shape() for _ in self._dtypes] if shapes is None else list(shapes)
        self._names = names
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.rsplit("/", 1)[-1]

    @staticmethod
    def from_list(index: Any, queues: Sequence[QueueBase]) -> QueueBase:
        """The queue `queues[index]`, chosen in each step; dtypes and names must agree, shapes are merged."""
        if not queues or not all(isinstance(q, QueueBase) for q in queues):
            raise TypeError("A list of queues expected")
        first = queues[0]
        if any(q.dtypes != first.dtypes for q in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if any(q.names != first.names for q in queues):
            raise TypeError("Queues do not have matching component names.")
        shapes = []
        for parts in zip(*(q.shapes for q in queues)):
            same = all(p.ndims == parts[0].ndims and str(p) == str(parts[0]) for p in parts)
            shapes.append(parts[0] if same else unknown_shape())
        chosen = queue_ops.select(convert_to_tensor(index, dtype=types.int32), [q.queue_ref for q in queues])
        return QueueBase(first.dtypes, shapes, first.names, chosen)

    @property
    def queue_ref(self) -> Tensor:
        """The handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """Name of the handle's op."""
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[DType]:
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        return self._names

    def _checked(self, vals: Any) -> list[Tensor]:
        if isinstance(vals, Mapping):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names) != sorted(vals):
                raise ValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: {sorted(vals)}, Queue: "
                    f"{sorted(self._names)}"
                )
            given: list[Any] = [vals[name] for name in self._names]
        else:
            if self._names:
                raise ValueError("You must enqueue a dictionary in a Queue with names")
            given = list(vals) if isinstance(vals, (list, tuple)) else [vals]
        if len(given) != len(self._dtypes) and len(self._dtypes) == 1 and isinstance(vals, (list, tuple)):
            given = [vals]
        if len(given) != len(self._dtypes):
            raise ValueError(f"Queue '{self.name}' has {len(self._dtypes)} components, but {len(given)} were given.")
        return [
            convert_to_tensor(value, dtype=dtype, name=f"component_{i}")
            for i, (value, dtype) in enumerate(zip(given, self._dtypes))
        ]

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """Put in one element."""
        with name_scope(name, f"{self._name}_enqueue") as scope:
            tensors = self._checked(vals)
            for tensor, shape in zip(tensors, self._shapes):
                tensor.get_shape().assert_is_compatible_with(shape)
            made: Operation = queue_ops.enqueue(self._queue_ref, tensors, name=scope)
            return made

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """Put in each slice along dimension 0 as an element."""
        with name_scope(name, f"{self._name}_EnqueueMany") as scope:
            tensors = self._checked(vals)
            batch = tensors[0].get_shape().with_rank_at_least(1)[0]
            for tensor, shape in zip(tensors, self._shapes):
                found = tensor.get_shape().with_rank_at_least(1)
                batch = batch.merge_with(found[0])
                found[1:].assert_is_compatible_with(shape)
            made: Operation = queue_ops.enqueue_many(self._queue_ref, tensors, name=scope)
            return made

    def _element(self, tensors: Any) -> Any:
        found = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
        if self._names:
            return dict(zip(self._names, found))
        return found[0] if len(found) == 1 else found

    def dequeue(self, name: str | None = None) -> Any:
        """Take one element: a tensor, a list of them, or a dict."""
        out = queue_ops.dequeue(self._queue_ref, self._dtypes, name=name or f"{self._name}_Dequeue")
        for tensor, shape in zip(out, self._shapes):
            tensor.set_shape(shape)
        return self._element(out)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """Take `n` elements, stacked along a new dimension 0. Needs shapes."""
        return self._many(queue_ops.dequeue_many, n, name or f"{self._name}_DequeueMany", exact=True)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """As `dequeue_many`; a closed queue gives fewer rather than fail, unless it is empty."""
        return self._many(queue_ops.dequeue_up_to, n, name or f"{self._name}_DequeueUpTo", exact=False)

    def _many(self, builder: Any, n: Any, name: str, exact: bool) -> Any:
        count = convert_to_tensor(n, dtype=types.int32, name="n")
        out = builder(self._queue_ref, count, self._dtypes, name=name)
        known = constant_value(count) if exact else None
        first = TensorShape([None if known is None else int(known)])
        for tensor, shape in zip(out, self._shapes):
            tensor.set_shape(first.concatenate(shape))
        return self._element(out)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """No more elements; blocked enqueues finish first, unless they are cancelled."""
        made: Operation = queue_ops.close(
            self._queue_ref, cancel_pending_enqueues, name=name or f"{self._name}_Close"
        )
        return made

    def is_closed(self, name: str | None = None) -> Tensor:
        """A bool scalar."""
        made: Tensor = queue_ops.is_closed(self._queue_ref, name=name or f"{self._name}_Is_Closed")
        return made

    def size(self, name: str | None = None) -> Tensor:
        """Number of elements inside, int32."""
        made: Tensor = queue_ops.size(self._queue_ref, name=name or f"{self._name}_Size")
        return made


def _container() -> str:
    return get_default_graph()._container


def _prepared(dtypes: Any, shapes: Any, names: Any, unknown_dims: bool = False) -> tuple[Any, Any, Any]:
    found = _as_types(dtypes)
    known = None if shapes is None else _as_shapes(shapes, len(found), unknown_dims)
    return found, known, _as_names(names, len(found))


class FIFOQueue(QueueBase):
    """First in, first out. `capacity` below 0 means no limit; `shapes` may be left out unless many are dequeued."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        found, known, called = _prepared(dtypes, shapes, names)
        ref = queue_ops.fifo_queue(found, known or [], capacity, _container(), shared_name or "", name=name)
        super().__init__(found, known, called, ref)


class RandomShuffleQueue(QueueBase):
    """Elements come out in random order; at least `min_after_dequeue` stay inside until the queue is closed."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        found, known, called = _prepared(dtypes, shapes, names)
        seed1, seed2 = get_seed(seed)
        ref = queue_ops.random_shuffle_queue(
            found, known or [], capacity, _container(), shared_name or "", min_after_dequeue, seed1 or 0, seed2 or 0,
            name=name,
        )  # fmt: skip
        super().__init__(found, known, called, ref)


class PaddingFIFOQueue(QueueBase):
    """First in, first out; sizes may vary where a shape says None, and `dequeue_many` pads to the largest."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        found, known, called = _prepared(dtypes, shapes, names, unknown_dims=True)
        ref = queue_ops.padding_fifo_queue(found, known, capacity, _container(), shared_name or "", name=name)
        super().__init__(found, known, called, ref)


class PriorityQueue(QueueBase):
    """The element with the smallest priority first; an element begins with its priority, an int64 scalar."""

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        found, known, called = _prepared(types, shapes, names)
        whole = [_INT64, *found]
        sized = [TensorShape([]), *([unknown_shape()] * len(found) if known is None else known)]
        ref = queue_ops.priority_queue(whole, sized, capacity, _container(), shared_name or "", name=name)
        super().__init__(whole, sized, None if called is None else ["priority", *called], ref)


class TokenQueue(QueueBase):
    """A FIFO queue of steps for synchronous replicas, of which `members` must be alive for tokens to come.

    A worker that waits for a token that cannot come any more, since one of them was lost or nobody gives tokens out,
    gets UnavailableError naming the lost task.
    """

    def __init__(self, dtype: Any, members: int, shared_name: str, name: str = "token_queue") -> None:
        found, known, called = _prepared(dtype, [TensorShape([])], None)
        ref = queue_ops.token_queue(found, known, -1, _container(), shared_name, members, name=name)
        super().__init__(found, known, called, ref)


_INT64 = types.int64
