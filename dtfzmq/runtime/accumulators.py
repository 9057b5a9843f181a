"""Conditional accumulators: gradients that are fresh enough add up, and a take waits until there are enough of them."""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.cells import shape_text, tf_name
from dtfzmq.runtime.queues import Cancellable, Done


class _Take:
    __slots__ = ("accumulator", "ctx", "done", "ended", "required", "token")

    def __init__(self, accumulator: ConditionalAccumulator, ctx: Cancellable, required: int, done: Done) -> None:
        self.accumulator = accumulator
        self.ctx = ctx
        self.required = required
        self.done = done
        self.ended = False
        self.token: Any = None

    def cancelled(self) -> None:
        self.accumulator._cancel(self)

    def held(self) -> None:
        self.accumulator._hold()


class ConditionalAccumulator:
    """Sums gradients of one shape. Any thread; a waiting take holds no thread.

    A gradient whose `local_step` is below the accumulator's step is stale and is dropped. A take yields the mean (or
    the sum) of all that were added, empties the accumulator and moves its step on by one.
    """

    kind = "ConditionalAccumulator"

    def __init__(self, name: str, dtype: DType, shape: TensorShape | None = None, reduction: str = "MEAN") -> None:
        if reduction not in ("MEAN", "SUM"):
            raise errors.InvalidArgumentError(
                None, None, f"Accumulator '{name}' has reduction_type '{reduction}'; it must be MEAN or SUM."
            )
        self.name = name
        self.dtype = dtype.base_dtype
        self.shape = shape
        self.reduction = reduction
        self._lock = threading.Lock()
        self._takes: collections.deque[_Take] = collections.deque()
        self._step = 0
        self._count = 0
        self._sum: Any = None

    def apply_grad(self, grad: Any, local_step: int) -> None:
        """Add a gradient unless it is stale. Raises InvalidArgumentError for another shape."""
        self._check_shape(np.shape(grad))
        calls: list[Callable[[], None]] = []
        with self._lock:
            if local_step < self._step:
                return
            if self._sum is None:
                self._sum = np.array(grad)
            elif np.shape(grad) != self._sum.shape:
                raise self._wrong_shape(self._sum.shape, np.shape(grad))
            else:
                np.add(self._sum, grad, out=self._sum)
            self._count += 1
            self._pump(calls)
        for fn in calls:
            fn()

    def take_grad(self, ctx: Cancellable, num_required: int, done: Done) -> None:
        """Yield the mean once `num_required` gradients are in; takes are served in order."""
        if num_required <= 0:
            done.fail(
                errors.InvalidArgumentError(
                    None,
                    None,
                    f"Argument num_required must be >= 1, but is {num_required} (accumulator '{self.name}').",
                )
            )
            return
        take = _Take(self, ctx, num_required, done)
        calls: list[Callable[[], None]] = []
        with self._lock:
            self._takes.append(take)
            self._pump(calls)
        for fn in calls:
            fn()
        if not take.ended:
            take.token = ctx.on_cancel(take.cancelled, take.held)
            self._hold()  # it may have been held and let go of before it was heard of
            if take.ended:
                ctx.off_cancel(take.token)

    def set_global_step(self, step: int) -> None:
        """Gradients of earlier steps are stale from now on."""
        with self._lock:
            self._step = step

    def num_accumulated(self) -> int:
        """Number of gradients inside."""
        with self._lock:
            return self._count

    def waiting(self) -> int:
        """Number of takes that wait."""
        with self._lock:
            return len(self._takes)

    def match(self, kind: str, dtype: DType, shape: TensorShape | None, reduction: str) -> None:
        """Raise InvalidArgumentError if a node that shares this accumulator asks for another one."""
        problem = None
        if kind != self.kind:
            problem = f"has type {self.kind} but requested type was {kind}"
        elif dtype.base_dtype is not self.dtype:
            problem = f"has dtype {tf_name(self.dtype)} but requested dtype was {tf_name(dtype.base_dtype)}"
        elif str(shape) != str(self.shape):
            problem = f"has shape {self.shape} but requested shape was {shape}"
        elif reduction != self.reduction:
            problem = f"has reduction type {self.reduction} but requested reduction type was {reduction}"
        if problem is not None:
            raise errors.InvalidArgumentError(None, None, f"Shared conditional accumulator '{self.name}' {problem}")

    def _pump(self, calls: list[Callable[[], None]]) -> None:
        while self._takes:
            take = next((take for take in self._takes if not take.ctx.held), None)
            if take is None or self._count < take.required:
                return
            self._takes.remove(take)
            total, count = self._sum, self._count
            self._sum = None
            self._count = 0
            self._step += 1
            take.ended = True
            calls.append(functools.partial(self._deliver, take, total, count))

    def _deliver(self, take: _Take, total: Any, count: int) -> None:
        if take.token is not None:
            take.ctx.off_cancel(take.token)
        if self.reduction == "MEAN":
            total = np.divide(total, total.dtype.type(count)).astype(total.dtype, copy=False)
        take.done(total)

    def _hold(self) -> None:
        calls: list[Callable[[], None]] = []
        with self._lock:
            self._pump(calls)
        for fn in calls:
            fn()

    def _cancel(self, take: _Take) -> None:
        with self._lock:
            if take.ended:
                return
            take.ended = True
            self._takes.remove(take)
            calls: list[Callable[[], None]] = []
            self._pump(calls)  # it may have held others up that want less
        error = errors.CancelledError(None, None, "TakeGrad operation was cancelled")
        error.derived = True
        take.done.fail(error)
        for fn in calls:
            fn()

    def apply_slices(self, indices: Any, values: Any, shape: tuple[int, ...] | None, local_step: int) -> None:
        """Only a sparse accumulator takes slices."""
        raise errors.InvalidArgumentError(None, None, f"Accumulator '{self.name}' is dense; it takes no slices.")

    def _check_shape(self, actual: tuple[int, ...]) -> None:
        if self.shape is not None and not self.shape.is_compatible_with(TensorShape(actual)):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Shape mismatch: expected {self.shape}, got {shape_text(actual)} (accumulator '{self.name}').",
            )

    def _wrong_shape(self, wanted: tuple[int, ...], actual: tuple[int, ...]) -> errors.OpError:
        return errors.InvalidArgumentError(
            None,
            None,
            f"Shape mismatch: expected {shape_text(wanted)}, got {shape_text(actual)} (accumulator '{self.name}').",
        )


class SparseConditionalAccumulator(ConditionalAccumulator):
    """Sums rows of a whole. A take yields (indices, values, shape): every index once, ascending.

    The mean of a row is over the gradients that had it, as TensorFlow's: a row of one gradient alone is not made
    smaller.
    """

    kind = "SparseConditionalAccumulator"

    def apply_slices(
        self, indices: Any, values: Any, dense_shape: tuple[int, ...] | None, local_step: int
    ) -> None:
        """Add rows unless they are stale. Raises InvalidArgumentError for rows that do not fit."""
        if np.ndim(indices) != 1 or np.ndim(values) < 1 or len(indices) != len(values):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"A sparse gradient of accumulator '{self.name}' must have as many indices as rows, got "
                f"{shape_text(np.shape(indices))} and {shape_text(np.shape(values))}.",
            )
        if dense_shape is not None:
            self._check_shape(dense_shape)
            if np.shape(values)[1:] != dense_shape[1:]:
                raise self._wrong_shape(dense_shape[1:], np.shape(values)[1:])
        calls: list[Callable[[], None]] = []
        with self._lock:
            if local_step < self._step:
                return
            if self._sum is None:
                self._sum = _Rows(np.shape(values)[1:], values.dtype)
            elif self._sum.row != np.shape(values)[1:]:
                raise self._wrong_shape(self._sum.row, np.shape(values)[1:])
            self._sum.add(indices, values, dense_shape)
            self._count += 1
            self._pump(calls)
        for fn in calls:
            fn()

    def _deliver(self, take: _Take, total: Any, count: int) -> None:
        if take.token is not None:
            take.ctx.off_cancel(take.token)
        take.done(total.joined(self.reduction == "MEAN"))


class _Rows:
    """Rows handed in so far; joined when they are taken, so that handing in costs a copy of the rows alone."""

    def __init__(self, row: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.row = row
        self.dtype = dtype
        self.indices: list[Any] = []
        self.values: list[Any] = []
        self.shape: tuple[int, ...] | None = None

    def add(self, indices: Any, values: Any, dense_shape: tuple[int, ...] | None) -> None:
        distinct, summed, _ = _sum_rows(np.asarray(indices, np.int64), values)
        self.indices.append(distinct)
        self.values.append(summed)
        if dense_shape is not None:
            self.shape = dense_shape

    def joined(self, mean: bool) -> tuple[Any, Any, Any]:
        """(indices, values, shape): equal indices summed or averaged; an unknown shape is empty."""
        distinct, values, place = _sum_rows(np.concatenate(self.indices), np.concatenate(self.values))
        if mean:
            counts = np.bincount(place, minlength=len(distinct)).astype(self.dtype)
            values /= counts.reshape(-1, *(1 for _ in self.row))
        return distinct, values, np.array(() if self.shape is None else self.shape, np.int64)


def _sum_rows(indices: Any, values: Any) -> tuple[Any, Any, Any]:
    """(distinct indices ascending, sums of their rows in fresh memory, place of each row among them)."""
    distinct, place = np.unique(indices, return_inverse=True)
    summed = np.zeros((len(distinct), *np.shape(values)[1:]), values.dtype)
    np.add.at(summed, place.reshape(-1), values)
    return distinct, summed, place.reshape(-1)
