"""A barrier between steps: tuples put together piece by piece, by key, and taken whole."""

from __future__ import annotations

import collections
import heapq
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.cells import shape_text
from dtfzmq.runtime.queues import Cancellable, Done
from dtfzmq.runtime.values import keep

_FIRST = -(2**63)  # the number of the first insertion


class _Take:
    """A take that waits."""

    __slots__ = ("barrier", "count", "ctx", "done", "small", "token")

    def __init__(self, barrier: Barrier, ctx: Cancellable, count: int, small: bool, done: Done) -> None:
        self.barrier = barrier
        self.ctx = ctx
        self.count = count
        self.small = small
        self.done = done
        self.token: Any = None

    def cancelled(self) -> None:
        """The step is over."""
        self.barrier._cancel(self)

    def held(self) -> None:
        """The step is held, or no more."""
        self.barrier._hold()


class Barrier:
    """Elements of several components under string keys; complete ones are taken in the order in which keys came.

    An insertion never waits, a take waits for as many complete elements as it wants. Any thread.
    """

    kind = "Barrier"

    def __init__(self, name: str, dtypes: Sequence[DType], shapes: Sequence[TensorShape | None] = ()) -> None:
        self.name = name
        self.dtypes = tuple(dtypes)
        self.shapes = tuple(shapes)
        self._lock = threading.Lock()
        # Invariant: a key is in _incomplete until all its components are there. Value: [number, components...]
        self._incomplete: dict[bytes, list[Any]] = {}
        self._ready: list[tuple[int, int, bytes, list[Any]]] = []
        self._takes: collections.deque[_Take] = collections.deque()
        self._insertions = 0
        self._sequence = 0
        self._closed = False
        self._cancelling = False

    def insert_many(self, component: int, keys: Any, values: Any) -> None:
        """Give each key its component. All or none is inserted.

        Raises InvalidArgumentError for a component given twice, or values that do not fit; CancelledError for new keys
        once the barrier is closed.
        """
        names = [bytes(key) for key in np.asarray(keys, object).reshape(-1).tolist()]
        self._check(component, names, values)
        calls: list[Callable[[], None]] = []
        with self._lock:
            new = {name for name in names if name not in self._incomplete}
            if self._cancelling or self._closed and new:
                text = (
                    f"Barrier {self.name} is closed.  Pending enqueues cancelled: {int(self._cancelling)}.  "
                    f"Number of new insertions: {len(new)}.  Number of incomplete keys: {len(self._incomplete)}."
                )
                raise errors.CancelledError(None, None, text)
            seen: set[bytes] = set()
            for name in names:
                entry = self._incomplete.get(name)
                if name in seen or entry is not None and entry[1 + component] is not None:
                    text = (
                        f"Key {name.decode(errors='replace')} already has a value for component {component} in barrier "
                        f"{self.name}"
                    )
                    raise errors.InvalidArgumentError(None, None, text)
                seen.add(name)
            number = _FIRST + self._insertions
            self._insertions += 1
            for i, name in enumerate(names):
                entry = self._incomplete.setdefault(name, [number, *[None] * len(self.dtypes)])
                entry[1 + component] = keep(np.asarray(values)[i, ...])
                if all(part is not None for part in entry[1:]):
                    del self._incomplete[name]
                    self._sequence += 1
                    heapq.heappush(self._ready, (entry[0], self._sequence, name, entry[1:]))
            self._serve(calls)
        _call(calls)

    def take_many(self, ctx: Cancellable, count: int, small: bool, done: Done) -> None:
        """(numbers, keys, *components) of `count` complete elements, stacked.

        With `small` a closed barrier gives what it has, if any. Fails OutOfRange if it cannot come to enough.
        """
        if count <= 0:
            done.fail(errors.InvalidArgumentError(None, None, f"num_elements must be positive, not {count}"))
            return
        take = _Take(self, ctx, count, small, done)
        calls: list[Callable[[], None]] = []
        with self._lock:
            self._takes.append(take)
            self._serve(calls)
            waits = take in self._takes
            if waits:  # registered under the lock, so that whoever ends it knows the token
                calls.append(lambda: self._watch(take))
        _call(calls)

    def close(self, cancel_pending_enqueues: bool = False) -> None:
        """No more new keys; with `cancel_pending_enqueues` no more components either. CancelledError if closed."""
        calls: list[Callable[[], None]] = []
        with self._lock:
            if self._closed and not (cancel_pending_enqueues and not self._cancelling):
                raise errors.CancelledError(None, None, f"Barrier '{self.name}' is already closed.")
            self._closed = True
            if cancel_pending_enqueues:
                self._cancelling = True
                self._incomplete.clear()
            self._serve(calls)
        _call(calls)

    def ready_size(self) -> int:
        """Number of complete elements."""
        with self._lock:
            return len(self._ready)

    def incomplete_size(self) -> int:
        """Number of elements that lack a component."""
        with self._lock:
            return len(self._incomplete)

    def match(self, dtypes: Sequence[DType], shapes: Sequence[TensorShape | None]) -> None:
        """Raise InvalidArgumentError if a node that shares this barrier asks for another one."""
        if tuple(dtypes) != self.dtypes or list(map(str, shapes)) != list(map(str, self.shapes)):
            raise errors.InvalidArgumentError(
                None, None, f"Shared barrier '{self.name}' has component types {[d.name for d in self.dtypes]} and "
                f"shapes {list(map(str, self.shapes))}, but {[d.name for d in dtypes]} and {list(map(str, shapes))} "
                "were requested",
            )  # fmt: skip

    # -- inside -------------------------------------------------------------------------------------------------------

    def _serve(self, calls: list[Callable[[], None]]) -> None:
        """End the takes that can be ended, in order, lock held."""
        while self._takes:
            take = next((take for take in self._takes if not take.ctx.held), None)
            if take is None:
                return
            count = take.count
            if len(self._ready) < count:
                total = len(self._ready) + len(self._incomplete)
                if not self._closed or total >= count:
                    return
                if take.small and self._incomplete:
                    return  # what is incomplete may still come
                if not take.small or not self._ready:
                    text = (
                        f"Barrier '{self.name}' is closed and has insufficient elements (requested {count}, total size "
                        f"{total})"
                    )
                    self._takes.remove(take)
                    self._forget(take, calls)
                    calls.append(partial(take.done.fail, errors.OutOfRangeError(None, None, text)))
                    continue
                count = len(self._ready)
            self._takes.remove(take)
            taken = [heapq.heappop(self._ready) for _ in range(count)]
            self._forget(take, calls)
            calls.append(partial(_give, take.done, taken))

    def _watch(self, take: _Take) -> None:
        token = take.ctx.on_cancel(take.cancelled, take.held)
        with self._lock:
            take.token = token
            gone = take not in self._takes
        if gone:
            take.ctx.off_cancel(token)
        else:
            self._hold()  # it may have been held and let go of before it was heard of

    def _hold(self) -> None:
        calls: list[Callable[[], None]] = []
        with self._lock:
            self._serve(calls)
        _call(calls)

    def _forget(self, take: _Take, calls: list[Callable[[], None]]) -> None:
        if take.token is not None:
            calls.append(lambda: take.ctx.off_cancel(take.token))

    def _cancel(self, take: _Take) -> None:
        calls: list[Callable[[], None]] = []
        with self._lock:
            if take not in self._takes:
                return
            self._takes.remove(take)
            self._serve(calls)
        error = errors.CancelledError(None, None, "Barrier take operation was cancelled")
        error.derived = True
        take.done.fail(error)
        _call(calls)

    def _check(self, component: int, names: Sequence[bytes], values: Any) -> None:
        problem = None
        if not 0 <= component < len(self.dtypes):
            problem = f"Component index {component} is not in [0, {len(self.dtypes)})"
        elif np.ndim(values) == 0 or len(values) != len(names):
            problem = f"{len(names)} keys were given for values of shape {shape_text(np.shape(values))}"
        else:
            shape = self.shapes[component] if component < len(self.shapes) else None
            if shape is not None and not shape.is_compatible_with(TensorShape(np.shape(values)[1:])):
                problem = f"Shape mismatch in component {component}. Expected {shape}, got {np.shape(values)[1:]}"
        if problem is not None:
            raise errors.InvalidArgumentError(None, None, f"{problem} (barrier '{self.name}')")


def _give(done: Done, taken: Sequence[tuple[int, int, bytes, list[Any]]]) -> None:
    try:
        stacked = _stacked(taken)
    except ValueError as exc:  # components of keys differ in shape
        done.fail(errors.wrap(exc, Barrier.kind))
        return
    done(stacked)


def _stacked(taken: Sequence[tuple[int, int, bytes, list[Any]]]) -> tuple[Any, ...]:
    keys = np.empty(len(taken), object)
    keys[:] = [name for _, _, name, _ in taken]
    parts = [np.stack([np.asarray(p) for p in column]) for column in zip(*(entry for _, _, _, entry in taken))]
    return (np.array([number for number, _, _, _ in taken], np.int64), keys, *parts)


def _call(calls: Sequence[Callable[[], None]]) -> None:
    for fn in calls:
        fn()
