"""Queues that are not first in, first out: in random order, by priority, and of elements that are padded."""

from __future__ import annotations

import collections
import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.queues import Cancellable, Done, Element, FIFOQueue


class RandomShuffleQueue(FIFOQueue):
    """Takes a random element; keeps at least `min_after_dequeue` inside until it is closed."""

    kind = "RandomShuffleQueue"

    def __init__(
        self,
        name: str,
        capacity: int,
        dtypes: Sequence[DType],
        shapes: Sequence[TensorShape | None] = (),
        min_after_dequeue: int = 0,
        rng: np.random.Generator | None = None,
    ) -> None:
        super().__init__(name, capacity, dtypes, shapes)
        self.min_after_dequeue = min_after_dequeue
        self._rng = rng if rng is not None else np.random.default_rng()

    def _storage(self) -> Any:
        return []

    def _put_back(self, elements: collections.deque[Element]) -> None:
        self._items.extend(elements)

    def _take(self) -> Element:
        items: list[Element] = self._items
        index = int(self._rng.integers(len(items)))
        items[index], items[-1] = items[-1], items[index]
        return items.pop()

    def _available(self) -> int:
        return len(self._items) - (0 if self._closed and not self._enqueues else self.min_after_dequeue)


class PaddingFIFOQueue(FIFOQueue):
    """A FIFO queue whose shapes may have unknown sizes; a dequeue of many pads each component to the largest."""

    kind = "PaddingFIFOQueue"

    def dequeue_many(self, ctx: Cancellable, count: int, done: Done, up_to: bool = False) -> None:
        """See FIFOQueue; shapes need only a known rank."""
        if count <= 0 or not self.shapes or any(shape is None or shape.ndims is None for shape in self.shapes):
            super().dequeue_many(ctx, count, done, up_to)
        else:
            self._take_many(ctx, count, done, up_to)

    def _stack(self, elements: Sequence[Element]) -> Element:
        stacked = []
        for parts, dtype in zip(zip(*elements), self.dtypes):
            shapes = [np.shape(part) for part in parts]
            largest = tuple(max(sizes) for sizes in zip(*shapes))
            out = np.zeros((len(parts), *largest), dtype.np_dtype)
            if out.dtype == object:
                out.fill(b"")
            for index, part in enumerate(parts):
                place: tuple[Any, ...] = (index, *map(slice, np.shape(part)), ...)
                out[place] = part
            stacked.append(out)
        return tuple(stacked)


class PriorityQueue(FIFOQueue):
    """Takes the element whose first component, an int64 scalar, is smallest; equal ones in the order they came."""

    kind = "PriorityQueue"

    def _storage(self) -> Any:
        self._sequence = 0
        return []

    def _put(self, element: Element) -> None:
        self._sequence += 1
        heapq.heappush(self._items, (int(element[0]), self._sequence, element))

    def _put_back(self, elements: collections.deque[Element]) -> None:
        # Back before every equal one that is inside: numbers below all that were given.
        for number, element in enumerate(elements):
            heapq.heappush(self._items, (int(element[0]), number - len(elements) - self._sequence, element))

    def _take(self) -> Element:
        element: Element = heapq.heappop(self._items)[2]
        return element
