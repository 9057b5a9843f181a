"""Batches: queues that runners fill with examples, and that give many at once, in order or shuffled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import name_scope
from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.graph.static import constant_value
from dtfzmq.ops import constants, sparse, sparse_serial, summarize
from dtfzmq.ops.cast import cast
from dtfzmq.ops.control import cond
from dtfzmq.ops.data_flow import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from dtfzmq.ops.math import maximum
from dtfzmq.ops.partitioning import dynamic_partition
from dtfzmq.ops.slicing import gather
from dtfzmq.train.queue_runner import QueueRunner, add_queue_runner


class _Kind(NamedTuple):
    """Of a component that is a sparse tensor: what its rows are made of again."""

    dtype: DType
    rank: int | None


class Examples:
    """What comes into a batch: the components of each list of tensors, sparse ones as rows of three texts."""

    def __init__(self, given: Sequence[Any], keep: Tensor, many: bool) -> None:
        self.dict = given[0] if isinstance(given[0], dict) else None
        if self.dict is not None and any(set(tensors) != set(self.dict) for tensors in given):
            raise ValueError("All dictionaries in tensors_list must have the same keys")
        listed = [[t[k] for k in sorted(t, key=str)] if isinstance(t, dict) else list(t) for t in given]
        tensors = [[t if isinstance(t, SparseTensor) else convert_to_tensor(t) for t in one] for one in listed]
        kinds = [[_kind(t, many) for t in one] for one in tensors]
        self.sparse = kinds[0]
        for some, others in zip(kinds, tensors):
            if [kind and kind.dtype for kind in some] != [kind and kind.dtype for kind in self.sparse]:
                raise ValueError(f"Inconsistent SparseTensors list: {tensors[0]} vs. {others}")
        self.lists = [[_stored(t, keep, many) for t in each] for each in tensors]
        self.types = [t.dtype.base_dtype for t in self.lists[0]]
        for one in self.lists[1:]:
            types = [t.dtype.base_dtype for t in one]
            if types != self.types:
                told = [", ".join(t.name for t in kinds) for kinds in (self.types, types)]
                raise TypeError(f"Expected types to be consistent: {told[0]} vs. {told[1]}.")

    def shapes(self, shapes: Any, many: bool) -> list[TensorShape]:
        """The shapes of one example's components. ValueError if a rank is not known."""
        if shapes is not None:
            return [as_shape(shape) for shape in shapes]
        for one in self.lists:
            for tensor in one:
                if tensor.get_shape().ndims is None:
                    raise ValueError(f"Cannot infer Tensor's rank: {tensor}")
        return [_common([t.get_shape()[1:] if many else t.get_shape() for t in column]) for column in zip(*self.lists)]

    def restored(self, got: Any) -> Any:
        """What came out of the queue, as it was given."""
        parts = list(got) if isinstance(got, (list, tuple)) else [got]
        out = [
            part if kind is None else sparse_serial.deserialize_many_sparse(part, kind.dtype, kind.rank)
            for part, kind in zip(parts, self.sparse)
        ]
        if self.dict is not None:
            return dict(zip(sorted(self.dict, key=str), out))
        return out if len(out) > 1 else out[0]


def _common(shapes: Sequence[TensorShape]) -> TensorShape:
    """What is known of all shapes alike. ValueError if they do not go together."""
    sizes = [shape.as_list() for shape in shapes]
    for shape in shapes[1:]:
        shapes[0].merge_with(shape)
    return TensorShape([column[0] if all(size == column[0] for size in column) else None for column in zip(*sizes)])


def _kind(tensor: Any, many: bool) -> _Kind | None:
    if not isinstance(tensor, SparseTensor):
        return None
    rank = tensor.dense_shape.get_shape().with_rank(1).as_list()[0]
    return _Kind(tensor.dtype, rank if rank is None or many else rank + 1)


def _stored(tensor: Any, keep: Tensor, many: bool) -> Tensor:
    if not isinstance(tensor, SparseTensor):
        return tensor
    if keep.get_shape().ndims == 1:
        tensor = sparse.sparse_retain(tensor, gather(keep, tensor.indices[:, 0]))
    if not many:
        return sparse_serial.serialize_sparse(tensor)
    return sparse_serial.serialize_many_sparse(tensor)


def _kept(keep_input: Any, many: bool) -> Tensor:
    """Whether examples are kept, as a tensor: a scalar, or a vector of those that come together."""
    keep = convert_to_tensor(keep_input)
    rank = keep.get_shape().ndims
    if rank is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if not many and rank == 1:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if rank > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep


def _enqueued(queue: QueueBase, tensors: list[Tensor], keep: Tensor, many: bool) -> Any:
    put = queue.enqueue_many if many else queue.enqueue
    if keep.get_shape().ndims == 1:
        return put([dynamic_partition(t, cast(keep, dtypes.int32), 2)[1] for t in tensors])
    known = constant_value(keep)
    if known is not None:
        return put(tensors) if known else constants.no_op()
    return cond(keep, lambda: put(tensors), constants.no_op)


def _batch(
    default_name: str, given: Sequence[Any], batch_size: Any, keep_input: Any, threads: int, many: bool, shapes: Any,
    smaller: bool, name: str | None, make: Callable[[Any, Any], QueueBase], spare: tuple[int, int],
) -> Any:  # fmt: skip
    """The way of all batches. `spare`: how many elements stay in the queue, and its capacity."""
    with name_scope(name, default_name) as scope:
        least, capacity = spare
        if default_name.startswith("shuffle") and capacity <= least:
            raise ValueError(f"capacity {capacity} must be bigger than min_after_dequeue {least}.")
        if not all(len(tensors) for tensors in given):
            raise ValueError("Expected at least one tensor in batch().")
        keep = _kept(keep_input, many)
        examples = Examples(given, keep, many)
        queue = make(examples.types, examples.shapes(shapes, many))
        if len(given) == 1:
            ops = [_enqueued(queue, examples.lists[0], keep, many)] * threads
        else:
            ops = [_enqueued(queue, tensors, keep, many) for tensors in examples.lists]
        add_queue_runner(QueueRunner(queue, ops))
        told, over = queue.size(), f"fraction_of_{capacity}_full"
        if default_name.startswith("shuffle"):
            told, over = maximum(0, told - least), f"fraction_over_{least}_of_{capacity - least}_full"
        summarize.scalar(over, cast(told, dtypes.float32) * (1.0 / (capacity - least)))
        take = queue.dequeue_up_to if smaller else queue.dequeue_many
        return examples.restored(take(batch_size, name=scope))


def _lists(tensors_list: Sequence[Any]) -> Sequence[Any]:
    if not tensors_list:
        raise ValueError("Expected at least one set of tensors")
    return tensors_list


def _in_order(
    default_name: str, given: Sequence[Any], batch_size: Any, keep_input: Any, num_threads: int, capacity: int,
    enqueue_many: bool, shapes: Any, dynamic_pad: bool, smaller: bool, shared_name: str | None, name: str | None,
) -> Any:  # fmt: skip
    def make(types: Any, known: Any) -> QueueBase:
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        return kind(capacity, types, known, shared_name=shared_name)

    return _batch(
        default_name, given, batch_size, keep_input, num_threads, enqueue_many, shapes, smaller, name, make,
        (0, capacity),
    )  # fmt: skip


def _shuffled(
    default_name: str, given: Sequence[Any], batch_size: Any, capacity: int, min_after_dequeue: int, keep_input: Any,
    num_threads: int, seed: int | None, enqueue_many: bool, shapes: Any, smaller: bool, shared_name: str | None,
    name: str | None,
) -> Any:  # fmt: skip
    def make(types: Any, known: Any) -> QueueBase:
        return RandomShuffleQueue(capacity, min_after_dequeue, types, known, seed=seed, shared_name=shared_name)

    return _batch(
        default_name, given, batch_size, keep_input, num_threads, enqueue_many, shapes, smaller, name, make,
        (min_after_dequeue, capacity),
    )  # fmt: skip


def batch(
    tensors: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32, enqueue_many: bool = False,
    shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Batches of examples: `batch_size` of them, stacked along a new axis, of a list or dict of tensors as it is given.

    A queue runner, which tf.train.start_queue_runners starts, evaluates `tensors` and puts them into a queue; with
    `enqueue_many` they are many examples along their first axis. Where what fills it has ended, so does the batch, as
    OutOfRangeError; a rest is given only if `allow_smaller_final_batch`. `dynamic_pad` fills sizes that are not known
    up to the largest of a batch; without it shapes have to be known, or it is a ValueError.
    """
    return _in_order(
        "batch", [tensors], batch_size, True, num_threads, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_batch(
    tensors: Any, keep_input: Any, batch_size: Any, num_threads: int = 1, capacity: int = 32,
    enqueue_many: bool = False, shapes: Any = None, dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False, shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As `batch`, of examples for which `keep_input` is true; it is a vector if each of many has its own."""
    return _in_order(
        "batch", [tensors], batch_size, keep_input, num_threads, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def batch_join(
    tensors_list: Sequence[Any], batch_size: Any, capacity: int = 32, enqueue_many: bool = False, shapes: Any = None,
    dynamic_pad: bool = False, allow_smaller_final_batch: bool = False, shared_name: str | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """As `batch`, of several lists of tensors, each evaluated by a thread of its own."""
    return _in_order(
        "batch_join", _lists(tensors_list), batch_size, True, 1, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_batch_join(
    tensors_list: Sequence[Any], keep_input: Any, batch_size: Any, capacity: int = 32, enqueue_many: bool = False,
    shapes: Any = None, dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As `batch_join`, of examples for which `keep_input` is true."""
    return _in_order(
        "batch_join", _lists(tensors_list), batch_size, keep_input, 1, capacity, enqueue_many, shapes, dynamic_pad,
        allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def shuffle_batch(
    tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, num_threads: int = 1,
    seed: int | None = None, enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As `batch`, of examples in random order, each drawn from more than `min_after_dequeue` until the end comes.

    Raises ValueError if `capacity` is not larger than that.
    """
    return _shuffled(
        "shuffle_batch", [tensors], batch_size, capacity, min_after_dequeue, True, num_threads, seed, enqueue_many,
        shapes, allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_shuffle_batch(
    tensors: Any, batch_size: Any, capacity: int, min_after_dequeue: int, keep_input: Any, num_threads: int = 1,
    seed: int | None = None, enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As `shuffle_batch`, of examples for which `keep_input` is true."""
    return _shuffled(
        "shuffle_batch", [tensors], batch_size, capacity, min_after_dequeue, keep_input, num_threads, seed,
        enqueue_many, shapes, allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def shuffle_batch_join(
    tensors_list: Sequence[Any], batch_size: Any, capacity: int, min_after_dequeue: int, seed: int | None = None,
    enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As `shuffle_batch`, of several lists of tensors, each evaluated by a thread of its own."""
    return _shuffled(
        "shuffle_batch_join", _lists(tensors_list), batch_size, capacity, min_after_dequeue, True, 1, seed,
        enqueue_many, shapes, allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip


def maybe_shuffle_batch_join(
    tensors_list: Sequence[Any], batch_size: Any, capacity: int, min_after_dequeue: int, keep_input: Any,
    seed: int | None = None, enqueue_many: bool = False, shapes: Any = None, allow_smaller_final_batch: bool = False,
    shared_name: str | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """As `shuffle_batch_join`, of examples for which `keep_input` is true."""
    return _shuffled(
        "shuffle_batch_join", _lists(tensors_list), batch_size, capacity, min_after_dequeue, keep_input, 1, seed,
        enqueue_many, shapes, allow_smaller_final_batch, shared_name, name,
    )  # fmt: skip
