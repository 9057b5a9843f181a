"""The objects behind stateful ops, made from a node's attributes: variables, queues, accumulators, readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.node import Node
from dtfzmq.runtime import accumulators, cells, queue_kinds, queues, readers
from dtfzmq.runtime.barrier import Barrier
from dtfzmq.runtime.resources import ResourceManager, shared_key
from dtfzmq.runtime.token_queue import TokenQueue

Getter = Callable[[], Any]


def resource(node: Node, resources: ResourceManager) -> Getter:
    """The kernel of a node that stands for state: yields its object.

    With a shared name (a variable: or its node's name) the object is the one of that name in the node's container,
    whoever made it; otherwise it belongs to this kernel. Raises InvalidArgumentError for a bad container or name, and
    the kernel does if the object that is there is not what the node asks for.
    """
    return _MAKERS[node.op](node, resources)


def _variable(node: Node, resources: ResourceManager) -> Getter:
    key = shared_key(node.attrs["container"], node.attrs["shared_name"], node.name)
    container, name = key if key is not None else ("", node.name)
    return cells.variable(resources, container, name, node.name, node.dtypes[0], node.attrs["shape"])


def _found(
    node: Node, resources: ResourceManager, kind: str, make: Callable[[str], Any], match: Callable[[Any], None]
) -> Getter:
    key = shared_key(node.attrs["container"], node.attrs["shared_name"])
    if key is None:
        own = make(node.name)
        return lambda: own
    get = resources.getter(key[0], kind, key[1], lambda: make(key[1]))
    checked: list[Any] = [None]

    def shared() -> Any:
        found = get()
        if found is not checked[0]:
            match(found)
            checked[0] = found
        return found

    return shared


def _queue(kind: str, factory: Callable[..., Any]) -> Callable[[Node, ResourceManager], Getter]:
    def make(node: Node, resources: ResourceManager) -> Getter:
        attrs = node.attrs
        types: list[DType] = attrs["component_types"]
        shapes: list[TensorShape] = attrs["shapes"]
        capacity: int = attrs["capacity"]
        extra: dict[str, Any] = {}
        if kind == "RandomShuffleQueue":
            extra["min_after_dequeue"] = attrs["min_after_dequeue"]
            seeds = (attrs["seed"], attrs["seed2"])
            extra["rng"] = np.random.default_rng([s & 0xFFFFFFFFFFFFFFFF for s in seeds] if any(seeds) else None)

        def build(name: str) -> Any:
            return factory(name, capacity, types, shapes, **extra)

        # all kinds share one name space, so that a name used for another kind is an error and not another queue
        return _found(node, resources, "Queue", build, lambda q: q.match(kind, node.name, capacity, types, shapes))

    return make


def _token_queue(node: Node, resources: ResourceManager) -> Getter:
    attrs = node.attrs
    asked = (attrs["capacity"], attrs["component_types"], attrs["shapes"])

    def build(name: str) -> Any:
        return TokenQueue(name, *asked, attrs["members"])

    def check(queue: Any) -> None:
        queue.match(TokenQueue.kind, node.name, *asked)
        queue.regroup(attrs["members"])

    return _found(node, resources, "Queue", build, check)


def _accumulator(kind: str, factory: Callable[..., Any]) -> Callable[[Node, ResourceManager], Getter]:
    def make(node: Node, resources: ResourceManager) -> Getter:
        attrs = node.attrs
        dtype, shape, reduction = attrs["dtype"], attrs["shape"], attrs["reduction_type"]

        def build(name: str) -> Any:
            return factory(name, dtype, shape, reduction)

        return _found(node, resources, "Accumulator", build, lambda a: a.match(kind, dtype, shape, reduction))

    return make


def _barrier(node: Node, resources: ResourceManager) -> Getter:
    asked = (node.attrs["component_types"], node.attrs["shapes"])
    return _found(node, resources, "Barrier", lambda name: Barrier(name, *asked), lambda b: b.match(*asked))


def _reader(factory: Callable[..., readers.Reader], *names: str) -> Callable[[Node, ResourceManager], Getter]:
    def make(node: Node, resources: ResourceManager) -> Getter:
        given = [node.attrs[name] for name in names]
        made = factory(node.name, *given)  # what it cannot be made of fails here, not under a lock

        def match(found: readers.Reader) -> None:
            found.match(made.kind, node.name)

        return _found(node, resources, "Reader", lambda name: factory(name, *given), match)

    return make


_SIZES = ("record_bytes", "header_bytes", "footer_bytes", "hop_bytes")
_MAKERS: dict[str, Callable[[Node, ResourceManager], Getter]] = {
    "VariableV2": _variable,
    "FIFOQueueV2": _queue("FIFOQueue", queues.FIFOQueue),
    "RandomShuffleQueueV2": _queue("RandomShuffleQueue", queue_kinds.RandomShuffleQueue),
    "PaddingFIFOQueueV2": _queue("PaddingFIFOQueue", queue_kinds.PaddingFIFOQueue),
    "PriorityQueueV2": _queue("PriorityQueue", queue_kinds.PriorityQueue),
    "TokenQueue": _token_queue,
    "ConditionalAccumulator": _accumulator("ConditionalAccumulator", accumulators.ConditionalAccumulator),
    "Barrier": _barrier,
    "IdentityReaderV2": _reader(readers.IdentityReader),
    "WholeFileReaderV2": _reader(readers.WholeFileReader),
    "TextLineReaderV2": _reader(readers.TextLineReader, "skip_header_lines"),
    "TFRecordReaderV2": _reader(readers.TFRecordReader, "compression_type"),
    "FixedLengthRecordReaderV2": _reader(readers.FixedLengthRecordReader, *_SIZES, "encoding"),
    "SparseConditionalAccumulator": _accumulator(
        "SparseConditionalAccumulator", accumulators.SparseConditionalAccumulator
    ),
}
