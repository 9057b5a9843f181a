"""Queues and accumulators as ops: what stands in the graph for state that waits.

The handle of a queue or accumulator is its object on the task where it lives, so every op on it stands there too. An
op that waits (enqueue, dequeue, take) holds no thread, and a cancelled one leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Operation
from dtfzmq.graph.registry import NO_GRAD, op
from dtfzmq.graph.shape_rules import none, scalar, unknown

_STATE = NO_GRAD("state that is not differentiable")
_WHERE = "container: str = '', shared_name: str = ''"
_COMPONENTS = f"; component_types: list(type), shapes: list(shape) = [], capacity: int = -1, {_WHERE}"
_SEEDS = "seed: int = 0, seed2: int = 0"


def _resource(node: Any, env: Any) -> Callable[[], Any]:
    found: Callable[[], Any] = env.resource(node)
    return found


def _declare_queue(name: str, more: str = "") -> Any:
    extra = f", {more}" if more else ""
    return op(
        name, f"{_COMPONENTS}{extra} -> handle: resource", shape=scalar, make=_resource, stateful=True, grad=_STATE,
    )  # fmt: skip


def _component_shapes(node: Operation) -> list[TensorShape]:
    return [TensorShape(None)] * len(node.outputs)


def _begin(call: Callable[..., None]) -> Callable[[Any, Any], Callable[..., None]]:
    """An asynchronous kernel that calls `call(ctx, done, *inputs)`."""

    def start(node: Any, env: Any) -> Callable[..., None]:
        return lambda ctx, inputs, done: call(ctx, done, *inputs)

    return start


def _enqueue_many(ctx: Any, done: Any, queue: Any, *parts: Any) -> None:
    queue.enqueue_many(ctx, parts, done)


fifo_queue = _declare_queue("FIFOQueueV2")
random_shuffle_queue = _declare_queue("RandomShuffleQueueV2", f"min_after_dequeue: int = 0, {_SEEDS}")
padding_fifo_queue = _declare_queue("PaddingFIFOQueueV2")
priority_queue = _declare_queue("PriorityQueueV2")
token_queue = _declare_queue("TokenQueue", "members: int = 0")

enqueue = op(
    "QueueEnqueueV2", "handle: resource, components: any*; timeout_ms: int = -1 ->", shape=none, stateful=True,
    start=_begin(lambda ctx, done, queue, *parts: queue.enqueue(ctx, parts, done)), grad=_STATE,
)  # fmt: skip
enqueue_many = op(
    "QueueEnqueueManyV2", "handle: resource, components: any*; timeout_ms: int = -1 ->", shape=none, stateful=True,
    start=_begin(_enqueue_many), grad=_STATE,
)  # fmt: skip
dequeue = op(
    "QueueDequeueV2",
    "handle: resource; component_types: list(type), timeout_ms: int = -1 -> components: component_types*",
    shape=_component_shapes, stateful=True,
    start=_begin(lambda ctx, done, queue: queue.dequeue(ctx, done)), grad=_STATE,
)  # fmt: skip
dequeue_many = op(
    "QueueDequeueManyV2",
    "handle: resource, n: int32; component_types: list(type), timeout_ms: int = -1 -> components: component_types*",
    shape=_component_shapes, stateful=True,
    start=_begin(lambda ctx, done, queue, n: queue.dequeue_many(ctx, int(n), done)), grad=_STATE,
)  # fmt: skip
dequeue_up_to = op(
    "QueueDequeueUpToV2",
    "handle: resource, n: int32; component_types: list(type), timeout_ms: int = -1 -> components: component_types*",
    shape=_component_shapes, stateful=True,
    start=_begin(lambda ctx, done, queue, n: queue.dequeue_up_to(ctx, int(n), done)), grad=_STATE,
)  # fmt: skip


def _close(node: Any, env: Any) -> Callable[..., None]:
    cancel = node.attrs["cancel_pending_enqueues"]
    return lambda queue: queue.close(cancel)


close = op(
    "QueueCloseV2", "handle: resource; cancel_pending_enqueues: bool = False ->", shape=none, make=_close,
    stateful=True, grad=_STATE,
)  # fmt: skip
size = op(
    "QueueSizeV2", "handle: resource -> size: int32", shape=scalar, kernel=lambda queue: np.int32(queue.size()),
    stateful=True, grad=_STATE,
)  # fmt: skip
is_closed = op(
    "QueueIsClosedV2", "handle: resource -> is_closed: bool", shape=scalar,
    kernel=lambda queue: np.bool_(queue.is_closed()), stateful=True, grad=_STATE,
)  # fmt: skip
select = op(
    "SelectQueue", "index: int32, handles: resource* -> handle: resource", shape=scalar,
    kernel=lambda index, *handles: handles[int(index)], stateful=True, grad=_STATE,
)  # fmt: skip

_ACCUMULATOR = f"; dtype: type, shape: shape, {_WHERE}, reduction_type: str = 'MEAN' -> handle: resource"
conditional_accumulator = op(
    "ConditionalAccumulator", _ACCUMULATOR, shape=scalar, make=_resource, stateful=True, grad=_STATE
)
sparse_conditional_accumulator = op(
    "SparseConditionalAccumulator", _ACCUMULATOR, shape=scalar, make=_resource, stateful=True, grad=_STATE
)


def _apply_grad(handle: Any, local_step: Any, gradient: Any) -> None:
    handle.apply_grad(gradient, int(local_step))


def _apply_sparse(node: Any, env: Any) -> Callable[..., None]:
    known = node.attrs["has_known_shape"]

    def apply(handle: Any, local_step: Any, indices: Any, values: Any, shape: Any) -> None:
        handle.apply_slices(indices, values, tuple(int(d) for d in shape) if known else None, int(local_step))

    return apply


accumulator_apply_gradient = op(
    "AccumulatorApplyGradient", "handle: resource, local_step: int64, gradient: N ->", shape=none, kernel=_apply_grad,
    stateful=True, grad=_STATE,
)  # fmt: skip
accumulator_take_gradient = op(
    "AccumulatorTakeGradient", "handle: resource, num_required: int32; dtype: type -> average: dtype", shape=unknown,
    start=_begin(lambda ctx, done, handle, n: handle.take_grad(ctx, int(n), done)), stateful=True, grad=_STATE,
)  # fmt: skip
sparse_accumulator_apply_gradient = op(
    "SparseAccumulatorApplyGradient",
    "handle: resource, local_step: int64, gradient_indices: int64, gradient_values: N, gradient_shape: int64; "
    "has_known_shape: bool = True ->",
    shape=none, make=_apply_sparse, stateful=True, grad=_STATE,
)  # fmt: skip
sparse_accumulator_take_gradient = op(
    "SparseAccumulatorTakeGradient",
    "handle: resource, num_required: int32; dtype: type -> indices: int64, values: dtype, shape: int64", shape=unknown,
    start=_begin(lambda ctx, done, handle, n: handle.take_grad(ctx, int(n), done)), stateful=True, grad=_STATE,
)  # fmt: skip
accumulator_num_accumulated = op(
    "AccumulatorNumAccumulated", "handle: resource -> num_accumulated: int32", shape=scalar,
    kernel=lambda handle: np.int32(handle.num_accumulated()), stateful=True, grad=_STATE,
)  # fmt: skip
accumulator_set_global_step = op(
    "AccumulatorSetGlobalStep", "handle: resource, new_global_step: int64 ->", shape=none,
    kernel=lambda handle, step: handle.set_global_step(int(step)), stateful=True, grad=_STATE,
)  # fmt: skip
