"""Queues between steps: blocked enqueues and dequeues hold no thread, and a cancelled one leaves nothing behind.

The op's `begin(ctx, inputs, done)` calls `queue.enqueue(ctx, element, done)` and so on. `done(value)` or
`done.fail(error)` comes at most once, from whichever thread completes the attempt, outside the queue's lock. An
element is a tuple of one array per component. A dequeue's value is the array if there is one component, else the
tuple.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.cells import shape_text, tf_name
from dtfzmq.runtime.values import keep

Element = tuple[Any, ...]


class Cancellable(Protocol):
    """What a blocking attempt needs of its step (runtime/step.StepContext)."""

    #: While true, nothing is taken for the step.
    held: bool

    def on_cancel(self, fn: Callable[[], None], on_hold: Callable[[], None] | None = None) -> Any:
        """Call `fn` when the step is cancelled, at once if it is; `on_hold` when `held` was set. Returns a token."""

    def off_cancel(self, token: Any) -> None:
        """Forget it."""


class Done(Protocol):
    """How an asynchronous op ends."""

    def __call__(self, value: Any = None) -> None:
        """It succeeded."""

    def fail(self, error: errors.OpError) -> None:
        """It failed."""


class _Attempt:
    """One enqueue or dequeue that has not ended."""

    __slots__ = ("ctx", "done", "elements", "ended", "many", "queue", "token", "up_to", "wanted")

    def __init__(self, queue: FIFOQueue, ctx: Cancellable, done: Done) -> None:
        self.queue = queue
        self.ctx = ctx
        self.done = done
        self.ended = False
        self.token: Any = None
        # An enqueue: what is not in the queue yet. A dequeue: what was taken for it.
        self.elements: collections.deque[Element] = collections.deque()
        self.wanted = 0
        self.many = False
        self.up_to = False

    def watch(self) -> None:
        """Hear of cancellation; called without the lock, after a first try."""
        if not self.ended:
            self.token = self.ctx.on_cancel(self.cancelled, self.held)
            self.held()  # it may have been held and let go of before it was heard of
            if self.ended:
                self.ctx.off_cancel(self.token)

    def cancelled(self) -> None:
        """The step is over: end as Cancelled, unless ended; give back what was taken."""
        self.queue._cancel(self)

    def held(self) -> None:
        """The step is held, or no more: others may go first, or it is its turn."""
        self.queue._hold(self)


class FIFOQueue:
    """First in, first out. Any thread. `capacity` below 0 is unbounded; `shapes` may be empty: any."""

    kind = "FIFOQueue"

    def __init__(
        self, name: str, capacity: int, dtypes: Sequence[DType], shapes: Sequence[TensorShape | None] = ()
    ) -> None:
        self.name = name
        self.capacity = capacity
        self.dtypes = tuple(dtypes)
        self.shapes = tuple(shapes)
        self._lock = threading.Lock()
        self._closed = False
        self._enqueues: collections.deque[_Attempt] = collections.deque()
        self._dequeues: collections.deque[_Attempt] = collections.deque()
        self._items: Any = self._storage()

    # -- storage, for subclasses --------------------------------------------------------------------------------------

    def _storage(self) -> Any:
        return collections.deque()

    def _put(self, element: Element) -> None:
        self._items.append(element)

    def _put_back(self, elements: collections.deque[Element]) -> None:
        self._items.extendleft(reversed(elements))

    def _take(self) -> Element:
        element: Element = self._items.popleft()
        return element

    def _available(self) -> int:
        return len(self._items)

    def _stack(self, elements: Sequence[Element]) -> Element:
        return tuple(np.stack(parts) for parts in zip(*elements))

    # -- operations ---------------------------------------------------------------------------------------------------

    def enqueue(self, ctx: Cancellable, element: Element, done: Done) -> None:
        """Put one element in; waits while the queue is full. Fails Cancelled if the queue is closed."""
        try:
            self._check(element, 0)
        except errors.OpError as error:
            done.fail(error)
            return
        attempt = _Attempt(self, ctx, done)
        attempt.elements.append(tuple(map(keep, element)))
        self._begin(attempt, self._enqueues)

    def enqueue_many(self, ctx: Cancellable, components: Element, done: Done) -> None:
        """Put in every slice along dimension 0, one by one; those that are in stay in if the rest is cancelled."""
        try:
            self._check(components, 1)
        except errors.OpError as error:
            done.fail(error)
            return
        attempt = _Attempt(self, ctx, done)
        attempt.elements.extend(zip(*(_rows(keep(part)) for part in components)))
        self._begin(attempt, self._enqueues)

    def dequeue(self, ctx: Cancellable, done: Done) -> None:
        """Take one element; waits while there is none. Fails OutOfRange if the queue is closed and used up."""
        attempt = _Attempt(self, ctx, done)
        attempt.wanted = 1
        self._begin(attempt, self._dequeues)

    def dequeue_many(self, ctx: Cancellable, count: int, done: Done, up_to: bool = False) -> None:
        """Take `count` elements, stacked along a new dimension 0.

        With `up_to` a closed queue gives what it has, if any.
        """
        error = None
        if not self.shapes or any(shape is None or not shape.is_fully_defined() for shape in self.shapes):
            error = f"{self.kind}'s DequeueMany and DequeueUpTo require the components to have specified shapes."
        elif count < 0:
            error = f"DequeueManyOp requested {count} < 0 elements"
        if error is not None:
            done.fail(errors.InvalidArgumentError(None, None, error))
            return
        if count == 0:
            self._give(done, self._empty())
            return
        self._take_many(ctx, count, done, up_to)

    def _take_many(self, ctx: Cancellable, count: int, done: Done, up_to: bool) -> None:
        attempt = _Attempt(self, ctx, done)
        attempt.wanted = count
        attempt.many = True
        attempt.up_to = up_to
        self._begin(attempt, self._dequeues)

    def dequeue_up_to(self, ctx: Cancellable, count: int, done: Done) -> None:
        """`dequeue_many` that a closed queue answers with fewer."""
        self.dequeue_many(ctx, count, done, up_to=True)

    def close(self, cancel_pending_enqueues: bool = False) -> None:
        """No more enqueues; what is pending finishes first, unless cancelled.

        Raises CancelledError if closed already.
        """
        calls: list[Callable[[], None]] = []
        with self._lock:
            if self._closed and not (cancel_pending_enqueues and self._enqueues):
                raise errors.CancelledError(None, None, f"Queue '{self.name}' is already closed.")
            self._closed = True
            if cancel_pending_enqueues:
                for attempt in self._enqueues:
                    self._end(attempt, calls, _cancelled("Enqueue"))
                self._enqueues.clear()
            self._pump(calls)
        _call(calls)

    def size(self) -> int:
        """Number of elements inside."""
        with self._lock:
            return len(self._items)

    def is_closed(self) -> bool:
        """True once closed."""
        return self._closed

    def waiting(self) -> int:
        """Number of blocked attempts."""
        with self._lock:
            return len(self._enqueues) + len(self._dequeues)

    def match(
        self,
        kind: str,
        node_name: str,
        capacity: int,
        dtypes: Sequence[DType],
        shapes: Sequence[TensorShape | None],
    ) -> None:
        """Raise InvalidArgumentError if a node that shares this queue asks for another one."""
        problem = None
        if kind != self.kind:
            problem = f"has type '{self.kind}' that does not match type of Node '{node_name}': {kind}"
        elif capacity != self.capacity and not (capacity < 0 and self.capacity < 0):
            problem = f"has capacity {self.capacity} but requested capacity was {capacity}"
        elif tuple(dtypes) != self.dtypes:
            problem = f"has component types {_types(self.dtypes)} but requested component types were {_types(dtypes)}"
        elif [_dims(shape) for shape in shapes] != [_dims(shape) for shape in self.shapes]:
            problem = (
                f"has component shapes [{', '.join(map(str, self.shapes))}] but requested component shapes were "
                f"[{', '.join(map(str, shapes))}]"
            )
        if problem is not None:
            raise errors.InvalidArgumentError(None, None, f"Shared queue '{self.name}' {problem}")

    # -- inside -------------------------------------------------------------------------------------------------------

    def _begin(self, attempt: _Attempt, line: collections.deque[_Attempt]) -> None:
        calls: list[Callable[[], None]] = []
        with self._lock:
            if line is self._enqueues and self._closed:
                text = f"{self.kind} '{self.name}' is closed."
                self._end(attempt, calls, errors.CancelledError(None, None, text))
            else:
                line.append(attempt)
                self._pump(calls)
        _call(calls)
        attempt.watch()

    def _pump(self, calls: list[Callable[[], None]]) -> None:
        """Serve both lines as far as it goes, lock held; what is to be told goes to `calls`."""
        enqueues, dequeues, items = self._enqueues, self._dequeues, self._items
        moved = True
        while moved:
            moved = False
            while enqueues and (self.capacity < 0 or len(items) < self.capacity or not enqueues[0].elements):
                attempt = enqueues[0]
                if attempt.elements:
                    self._put(attempt.elements.popleft())
                    moved = True
                if not attempt.elements:
                    enqueues.popleft()
                    self._end(attempt, calls, None)
                    moved = True
            while dequeues and self._available() > 0:
                taker = dequeues[0] if not dequeues[0].ctx.held else _not_held(dequeues)
                if taker is None:
                    break
                taker.elements.append(self._take())
                moved = True
                if len(taker.elements) == taker.wanted:
                    dequeues.remove(taker)
                    self._end(taker, calls, None)
                elif taker is not dequeues[0]:  # who has some comes first: two might wait for each other's
                    dequeues.remove(taker)
                    dequeues.appendleft(taker)
        if self._closed and not enqueues:
            # Those that are held learn of it when they are let go of.
            for attempt in [attempt for attempt in dequeues if not attempt.ctx.held]:
                if attempt.ended:
                    continue
                dequeues.remove(attempt)
                if attempt.up_to and attempt.elements:
                    self._end(attempt, calls, None)
                    continue
                had = len(attempt.elements)
                if had:
                    self._put_back(attempt.elements)
                text = (
                    f"{self.kind} '{self.name}' is closed and has insufficient elements "
                    f"(requested {attempt.wanted}, current size {len(items)})"
                )
                self._end(attempt, calls, errors.OutOfRangeError(None, None, text))
                if had:  # those behind may be content with what this one gave back
                    self._pump(calls)

    def _end(self, attempt: _Attempt, calls: list[Callable[[], None]], error: errors.OpError | None) -> None:
        attempt.ended = True
        if attempt.token is not None:
            calls.append(lambda: attempt.ctx.off_cancel(attempt.token))
        if error is not None:
            calls.append(lambda: attempt.done.fail(error))
        elif attempt.wanted:
            calls.append(lambda: self._deliver(attempt))
        else:
            calls.append(attempt.done)

    def _deliver(self, attempt: _Attempt) -> None:
        try:
            element = self._stack(attempt.elements) if attempt.many else attempt.elements[0]
        except Exception as exc:
            self._undo(attempt)
            attempt.done.fail(errors.wrap(exc, self.kind))
            return
        self._give(attempt.done, element)

    def _undo(self, attempt: _Attempt) -> None:
        """Give back what was taken for an attempt that has ended."""
        calls: list[Callable[[], None]] = []
        with self._lock:
            self._put_back(attempt.elements)
            self._pump(calls)
        _call(calls)

    def _give(self, done: Done, element: Element) -> None:
        done(element[0] if len(self.dtypes) == 1 else element)

    def _cancel(self, attempt: _Attempt) -> None:
        calls: list[Callable[[], None]] = []
        with self._lock:
            if attempt.ended:
                return
            line = self._dequeues if attempt.wanted else self._enqueues
            line.remove(attempt)
            if attempt.wanted and attempt.elements:
                self._put_back(attempt.elements)
            attempt.token = None
            self._end(attempt, calls, _cancelled("Dequeue" if attempt.wanted else "Enqueue"))
            self._pump(calls)
        _call(calls)

    def _hold(self, attempt: _Attempt) -> None:
        calls: list[Callable[[], None]] = []
        with self._lock:
            if attempt.ended or not attempt.wanted:
                return
            if attempt.ctx.held and attempt.elements:
                self._put_back(attempt.elements)
                attempt.elements.clear()
            self._pump(calls)
        _call(calls)

    def _empty(self) -> Element:
        return tuple(
            np.empty((0, *(shape.as_list() if shape is not None else ())), dtype.np_dtype)
            for shape, dtype in zip(self.shapes, self.dtypes)
        )

    def _check(self, parts: Element, skip: int) -> None:
        if len(parts) != len(self.dtypes):
            raise errors.InvalidArgumentError(
                None, None, f"Wrong number of components in tuple. Expected {len(self.dtypes)}, got {len(parts)}."
            )
        if skip and any(np.ndim(part) == 0 or len(part) != len(parts[0]) for part in parts):
            raise errors.InvalidArgumentError(
                None, None, "All components of an enqueue_many must have one size in dimension 0."
            )
        for index, (part, shape) in enumerate(zip(parts, self.shapes)):
            if shape is not None and not self._fits(shape, np.shape(part)[skip:]):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Shape mismatch in tuple component {index}. "
                    f"Expected {_dims_text(shape)}, got {shape_text(np.shape(part)[skip:])}",
                )

    def _fits(self, shape: TensorShape, actual: tuple[int, ...]) -> bool:
        return shape.is_compatible_with(TensorShape(actual))


def _rows(part: Any) -> Any:
    # Iterating a vector of strings would yield bare bytes.
    return [part[i, ...] for i in range(len(part))] if part.dtype == object else part


def _not_held(line: collections.deque[_Attempt]) -> _Attempt | None:
    return next((attempt for attempt in line if not attempt.ctx.held), None)


def _call(calls: list[Callable[[], None]]) -> None:
    for fn in calls:
        fn()


def _cancelled(what: str) -> errors.OpError:
    error = errors.CancelledError(None, None, f"{what} operation was cancelled")
    error.derived = True
    return error


def _types(dtypes: Sequence[DType]) -> str:
    return ", ".join(map(tf_name, dtypes))


def _dims(shape: TensorShape | None) -> tuple[int | None, ...] | None:
    return None if shape is None or shape.ndims is None else tuple(shape.as_list())


def _dims_text(shape: TensorShape) -> str:
    return "[" + ",".join("?" if size is None else str(size) for size in shape.as_list()) + "]"
