"""Queues and accumulators: blocking without threads, close, cancellation, exact texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.accumulators import ConditionalAccumulator
from dtfzmq.runtime.barrier import Barrier
from dtfzmq.runtime.queue_kinds import PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from dtfzmq.runtime.queues import FIFOQueue


class Step:
    def __init__(self) -> None:
        self.watchers: dict[int, Callable[[], None]] = {}
        self.holders: dict[int, Callable[[], None] | None] = {}
        self.next = 0
        self.cancelled = False
        self.held = False

    def on_cancel(self, fn: Callable[[], None], on_hold: Callable[[], None] | None = None) -> int:
        self.next += 1
        if self.cancelled:
            fn()
        else:
            self.watchers[self.next] = fn
            self.holders[self.next] = on_hold
        return self.next

    def off_cancel(self, token: int) -> None:
        self.watchers.pop(token, None)
        self.holders.pop(token, None)

    def hold(self, held: bool) -> None:
        self.held = held
        for fn in list(self.holders.values()):
            if fn is not None:
                fn()

    def cancel(self) -> None:
        self.cancelled = True
        for fn in list(self.watchers.values()):
            fn()


class Done:
    def __init__(self) -> None:
        self.values: list[Any] = []
        self.errors: list[errors.OpError] = []

    def __call__(self, value: Any = None) -> None:
        self.values.append(value)

    def fail(self, error: errors.OpError) -> None:
        self.errors.append(error)

    @property
    def pending(self) -> bool:
        return not self.values and not self.errors


def scalars(capacity: int = 10, shapes: bool = True) -> FIFOQueue:
    return FIFOQueue("q", capacity, [dtypes.float32], [TensorShape([])] if shapes else [])


def put(queue: FIFOQueue, *values: float, step: Step | None = None) -> list[Done]:
    dones = []
    for value in values:
        dones.append(Done())
        queue.enqueue(step or Step(), (np.float32(value),), dones[-1])
    return dones


def take(queue: FIFOQueue, step: Step | None = None) -> Done:
    done = Done()
    queue.dequeue(step or Step(), done)
    return done


def take_many(queue: FIFOQueue, count: int, step: Step | None = None, up_to: bool = False) -> Done:
    done = Done()
    queue.dequeue_many(step or Step(), count, done, up_to)
    return done


def test_first_in_first_out_with_blocking_on_both_sides() -> None:
    queue = scalars(2)
    waiting = [take(queue), take(queue)]
    assert all(done.pending for done in waiting) and queue.waiting() == 2
    put(queue, 1, 2)
    assert [done.values for done in waiting] == [[1], [2]]
    dones = put(queue, 3, 4, 5, 6)
    assert [done.pending for done in dones] == [False, False, True, True]
    assert take(queue).values == [3] and not dones[2].pending and dones[3].pending
    assert [take(queue).values[0] for _ in range(3)] == [4, 5, 6]
    assert queue.size() == 0 and queue.waiting() == 0


def test_many() -> None:
    queue = scalars(3)
    done = Done()
    queue.enqueue_many(Step(), (np.arange(5, dtype=np.float32),), done)
    assert done.pending and queue.size() == 3
    got = take_many(queue, 4)
    assert got.values[0].tolist() == [0, 1, 2, 3] and not done.pending
    assert take_many(queue, 0).values[0].shape == (0,)
    more = take_many(queue, 5)  # more than the queue can hold at once
    assert more.pending
    put(queue, 5, 6, 7, 8)
    assert more.values[0].tolist() == [4, 5, 6, 7, 8]


def test_close_semantics_and_texts() -> None:
    queue = scalars(1)
    done = put(queue, 1, 2)
    queue.close()
    assert put(queue, 3)[0].errors[0].message == "FIFOQueue 'q' is closed."
    assert isinstance(put(queue, 3)[0].errors[0], errors.CancelledError)
    assert done[1].pending
    assert take(queue).values == [1] and done[1].values == [None] and take(queue).values == [2]
    error = take(queue).errors[0]
    assert isinstance(error, errors.OutOfRangeError)
    assert error.message == "FIFOQueue 'q' is closed and has insufficient elements (requested 1, current size 0)"
    with pytest.raises(errors.CancelledError, match="Queue 'q' is already closed."):
        queue.close()


def test_close_ends_waiting_dequeues_and_gives_back() -> None:
    queue = scalars()
    put(queue, 1, 2)
    three = take_many(queue, 3)
    one = take(queue)
    assert three.pending and one.pending
    queue.close()
    assert "(requested 3, current size 2)" in three.errors[0].message
    assert one.values == [1]
    assert take_many(queue, 5, up_to=True).values[0].tolist() == [2]
    assert isinstance(take_many(queue, 5, up_to=True).errors[0], errors.OutOfRangeError)


def test_close_can_cancel_pending_enqueues() -> None:
    queue = scalars(1)
    dones = put(queue, 1, 2)
    queue.close(cancel_pending_enqueues=True)
    assert dones[1].errors[0].message == "Enqueue operation was cancelled"
    assert take(queue).values == [1]


def test_a_cancelled_dequeue_steals_nothing() -> None:
    queue, step = scalars(), Step()
    put(queue, 1, 2)
    blocked = take_many(queue, 3, step)
    assert queue.size() == 0
    step.cancel()
    assert blocked.errors[0].message == "Dequeue operation was cancelled" and blocked.errors[0].derived
    assert queue.size() == 2 and queue.waiting() == 0
    assert take(queue).values == [1]
    late = take_many(queue, 3, step)  # the step is over: ends at once
    assert late.errors and queue.size() == 1


def test_a_cancelled_enqueue_leaves_no_ghost_and_lets_others_by() -> None:
    queue, step = scalars(1), Step()
    put(queue, 1)
    blocked = put(queue, 2, step=step)[0]
    other = put(queue, 3)[0]
    step.cancel()
    assert blocked.errors[0].message == "Enqueue operation was cancelled"
    assert take(queue).values == [1] and not other.pending and take(queue).values == [3]


def test_a_finished_attempt_forgets_its_step() -> None:
    queue, step = scalars(), Step()
    waiting = take(queue, step)
    put(queue, 1, step=step)
    assert waiting.values == [1] and step.watchers == {}


def test_elements_own_their_bytes() -> None:
    queue = FIFOQueue("q", 4, [dtypes.float32])
    mine = np.zeros(4, np.float32)
    done = Done()
    queue.enqueue(Step(), (mine[:2],), done)
    mine[:] = 7
    assert take(queue).values[0].tolist() == [0, 0]


def test_shapes_are_checked() -> None:
    queue = FIFOQueue("q", 4, [dtypes.float32], [TensorShape([2])])
    done = Done()
    queue.enqueue(Step(), (np.zeros(3, np.float32),), done)
    assert done.errors[0].message == "Shape mismatch in tuple component 0. Expected [2], got [3]"
    without = take_many(scalars(shapes=False), 2)
    assert "require the components to have specified shapes" in without.errors[0].message


def test_sharing_asks_for_the_same_queue() -> None:
    queue = scalars(5)
    shapes = [TensorShape([])]
    queue.match("FIFOQueue", "n", 5, [dtypes.float32], shapes)
    for args, text in [
        (
            ("FIFOQueue", "n", 9, [dtypes.float32], shapes),
            "Shared queue 'q' has capacity 5 but requested capacity was 9",
        ),
        (
            ("FIFOQueue", "n", 5, [dtypes.int32], shapes),
            "Shared queue 'q' has component types float but requested component types were int32",
        ),
        (("FIFOQueue", "n", 5, [dtypes.float32], []), "Shared queue 'q' has component shapes"),
        (
            ("PriorityQueue", "n", 5, [dtypes.float32], shapes),
            "has type 'FIFOQueue' that does not match type of Node 'n'",
        ),
    ]:
        with pytest.raises(errors.InvalidArgumentError) as raised:
            queue.match(*args)
        assert text in raised.value.message


def test_random_shuffle_keeps_a_minimum_until_closed() -> None:
    queue = RandomShuffleQueue("q", 10, [dtypes.float32], [TensorShape([])], 2, np.random.default_rng(1))
    put(queue, *range(5))
    got = [take(queue).values[0] for _ in range(3)]
    blocked = take(queue)
    assert blocked.pending
    queue.close()
    got += [blocked.values[0], take(queue).values[0]]
    assert sorted(got) == [0, 1, 2, 3, 4]


def test_priority() -> None:
    queue = PriorityQueue("q", 10, [dtypes.int64, dtypes.string])
    for number, text in [(3, b"c"), (1, b"a"), (1, b"b")]:
        queue.enqueue(Step(), (np.int64(number), np.array(text, object)), Done())
    assert [take(queue).values[0][1][()] for _ in range(3)] == [b"a", b"b", b"c"]


def test_padding() -> None:
    queue = PaddingFIFOQueue("q", 10, [dtypes.int32], [TensorShape([None])])
    for size in (1, 3):
        queue.enqueue(Step(), (np.ones(size, np.int32),), Done())
    assert take_many(queue, 2).values[0].tolist() == [[1, 0, 0], [1, 1, 1]]


@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.bool_,
                                   dtypes.uint8, dtypes.bfloat16, dtypes.complex64, dtypes.string])  # fmt: skip
def test_padding_leaves_scalars_as_they_are(dtype: dtypes.DType) -> None:
    queue = PaddingFIFOQueue("q", 10, [dtype, dtypes.int32], [TensorShape([]), TensorShape([None])])
    given: list[Any] = [b"a", b"", b"b\0"] if dtype is dtypes.string else [1, 0, 1]
    scalars = np.array(given, dtype.np_dtype)
    queue.enqueue(Step(), (scalars[0, ...], np.ones(1, np.int32)), Done())
    queue.enqueue_many(Step(), (scalars[1:], np.ones((2, 3), np.int32)), Done())
    first, second = take_many(queue, 3).values[0]
    assert first.dtype == dtype.np_dtype and first.tolist() == scalars.tolist()
    assert second.tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 1]]


def test_what_cannot_be_stacked_stays_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = PaddingFIFOQueue("q", 10, [dtypes.int32], [TensorShape([None])])
    for size in (1, 3):
        queue.enqueue(Step(), (np.ones(size, np.int32),), Done())

    def full(elements: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(queue, "_stack", full)
        assert len(take_many(queue, 2).errors) == 1 and queue.size() == 2
    assert take_many(queue, 2).values[0].tolist() == [[1, 0, 0], [1, 1, 1]]


def test_accumulator_waits_and_yields_the_mean() -> None:
    acc = ConditionalAccumulator("a", dtypes.float32, TensorShape([2]))
    done = Done()
    acc.take_grad(Step(), 2, done)
    mine = np.array([1, 2], np.float32)
    acc.apply_grad(mine, 0)
    mine[:] = 100
    assert done.pending and acc.num_accumulated() == 1
    acc.apply_grad(np.array([3, 4], np.float32), 0)
    assert done.values[0].tolist() == [2, 3] and done.values[0].dtype == np.float32
    acc.apply_grad(np.ones(2, np.float32), 0)  # stale: the take moved the step to 1
    assert acc.num_accumulated() == 0
    acc.set_global_step(5)
    acc.apply_grad(np.ones(2, np.float32), 4)
    acc.apply_grad(np.ones(2, np.float32), 5)
    assert acc.num_accumulated() == 1


def test_a_cancelled_take_lets_those_behind_it_have_what_is_enough_for_them() -> None:
    acc, greedy, modest = ConditionalAccumulator("a", dtypes.float32, TensorShape([])), Step(), Done()
    acc.take_grad(greedy, 3, Done())
    acc.take_grad(Step(), 1, modest)
    acc.apply_grad(np.float32(4), 0)
    assert modest.pending
    greedy.cancel()
    assert modest.values == [4] and acc.num_accumulated() == 0


def test_accumulator_cancellation_and_bad_input() -> None:
    acc, step, done = ConditionalAccumulator("a", dtypes.float32, TensorShape([2])), Step(), Done()
    acc.take_grad(step, 1, done)
    step.cancel()
    assert done.errors[0].message == "TakeGrad operation was cancelled" and acc.waiting() == 0
    acc.apply_grad(np.ones(2, np.float32), 0)
    assert acc.num_accumulated() == 1
    with pytest.raises(errors.InvalidArgumentError, match="Shape mismatch"):
        acc.apply_grad(np.ones(3, np.float32), 0)
    bad = Done()
    acc.take_grad(Step(), 0, bad)
    assert "num_required must be >= 1" in bad.errors[0].message
    scalar = ConditionalAccumulator("s", dtypes.float64, None, "SUM")
    scalar.apply_grad(np.float64(1), 0)
    scalar.apply_grad(np.float64(2), 0)
    total = Done()
    scalar.take_grad(Step(), 1, total)
    assert total.values == [3.0]
    with pytest.raises(errors.InvalidArgumentError, match="has dtype float but requested dtype was int32"):
        acc.match("ConditionalAccumulator", dtypes.int32, TensorShape([2]), "MEAN")


def test_a_held_dequeue_gives_back_what_it_has_and_keeps_its_place() -> None:
    queue = scalars()
    held, other = Step(), Step()
    first, second = Done(), Done()
    queue.dequeue_many(held, 2, first)
    queue.dequeue_many(other, 2, second)
    put(queue, 1.0)
    held.hold(True)
    put(queue, 2.0)
    assert first.pending and second.values[0].tolist() == [1.0, 2.0]
    third = Done()
    queue.dequeue(other, third)
    held.hold(False)
    put(queue, 3.0, 4.0, 5.0)
    assert first.values[0].tolist() == [3.0, 4.0] and third.values == [5.0]
    assert not held.watchers and not held.holders and queue.size() == 0


def test_a_held_dequeue_outlives_the_end_of_its_queue() -> None:
    queue, held, empty = scalars(), Step(), scalars()
    one, some, none = Done(), Done(), Done()
    queue.dequeue(held, one)
    queue.dequeue_many(held, 5, some, up_to=True)
    empty.dequeue(held, none)
    held.hold(True)
    put(queue, 1.0, 2.0, 3.0)
    queue.close()
    empty.close()
    assert one.pending and some.pending and none.pending and queue.size() == 3
    assert take(queue).values == [1.0], "others go on"
    held.hold(False)
    assert one.values == [2.0] and some.values[0].tolist() == [3.0]
    assert isinstance(none.errors[0], errors.OutOfRangeError)
    assert not held.watchers and queue.waiting() == empty.waiting() == 0


def test_two_dequeues_never_wait_for_each_other() -> None:
    queue, held = scalars(), Step()
    first, second = Done(), Done()
    queue.dequeue_many(held, 2, first)
    queue.dequeue_many(Step(), 2, second)
    held.hold(True)
    put(queue, 1.0)
    held.hold(False)
    put(queue, 2.0)
    assert second.values[0].tolist() == [1.0, 2.0] and first.pending
    put(queue, 3.0, 4.0)
    assert first.values[0].tolist() == [3.0, 4.0]


def test_a_dequeue_that_begins_held_waits_though_there_is_something() -> None:
    queue, step, done = scalars(), Step(), Done()
    put(queue, 1.0)
    step.hold(True)
    queue.dequeue(step, done)
    assert done.pending and queue.size() == 1
    step.hold(False)
    assert done.values == [1.0]


def test_what_is_let_go_of_before_it_was_watched_is_served() -> None:
    class Late(Step):
        def on_cancel(self, fn: Callable[[], None], on_hold: Callable[[], None] | None = None) -> int:
            self.held = False  # on another thread, just before
            return super().on_cancel(fn, on_hold)

    queue, taken = scalars(), Done()
    put(queue, 1.0)
    step = Late()
    step.held = True
    queue.dequeue(step, taken)
    assert taken.values == [1.0]

    gradients, mean = ConditionalAccumulator("a", dtypes.float32), Done()
    gradients.apply_grad(np.float32(3), 0)
    step = Late()
    step.held = True
    gradients.take_grad(step, 1, mean)
    assert mean.values == [3.0]

    barrier, got = Barrier("b", [dtypes.float32]), Done()
    barrier.insert_many(0, [b"k"], np.ones(1, np.float32))
    step = Late()
    step.held = True
    barrier.take_many(step, 1, False, got)
    assert len(got.values) == 1


def test_others_take_from_a_barrier_while_the_first_is_held() -> None:
    barrier, held, other = Barrier("b", [dtypes.float32]), Step(), Step()
    first, second = Done(), Done()
    held.hold(True)
    barrier.take_many(held, 1, False, first)
    barrier.take_many(other, 1, False, second)
    barrier.insert_many(0, [b"k"], np.ones(1, np.float32))
    assert first.pending and second.values[0][1].tolist() == [b"k"]
    barrier.insert_many(0, [b"l"], np.ones(1, np.float32))
    assert first.pending
    held.hold(False)
    assert first.values[0][1].tolist() == [b"l"]
