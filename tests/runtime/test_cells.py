"""VariableCell: leases, exactness, no torn reads."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.runtime.cells import Busy, VariableCell, thread_state, variable
from dtfzmq.runtime.resources import ResourceManager, shared_key


def cell(value: Any, dtype: Any = dtypes.float32) -> VariableCell:
    made = VariableCell("v", dtype, np.shape(value))
    made.assign(np.asarray(value, dtype.np_dtype))
    return made


def test_uninitialised_read_names_the_variable() -> None:
    empty = VariableCell("layer/w", dtypes.float32, (2,))
    assert not empty.is_initialized()
    with pytest.raises(errors.FailedPreconditionError, match="Attempting to use uninitialized value layer/w"):
        empty.read()
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized value"):
        empty.update(np.add, np.float32(1))
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized value"):
        empty.modify(lambda a: None)


def test_update_writes_in_place_only_without_a_lease() -> None:
    v = cell([1, 2, 3])
    address = v.read().ctypes.data
    v.update(np.add, np.ones(3, np.float32))
    assert v.read().ctypes.data == address
    lease = v.read()
    v.update(np.add, np.ones(3, np.float32))
    assert lease.tolist() == [2, 3, 4]
    assert v.read().tolist() == [3, 4, 5]
    assert v.read().ctypes.data != address
    del lease
    v.update(np.add, np.ones(3, np.float32))
    assert v.read().tolist() == [4, 5, 6]


def test_what_is_of_another_shape_is_let_go_of() -> None:
    v = cell(np.zeros(1000))
    lease = v.read()
    large = weakref.ref(lease)
    v.assign(np.ones(3, np.float32), validate_shape=False)  # the large array is leased, so it is not written
    del lease
    assert large() is None, "it cannot be written again: nothing of that shape comes"


def test_a_view_and_a_memoryview_are_leases() -> None:
    v = cell(np.zeros(8))
    view = v.read()[2:4]
    v.update(np.add, np.ones(8, np.float32))
    assert view.tolist() == [0, 0]
    exported = memoryview(v.read())
    v.assign(np.full(8, 7, np.float32))
    assert np.asarray(exported).tolist() == [1] * 8
    assert v.read().tolist() == [7] * 8


def test_frozen_buffer_is_written_again_after_the_lease() -> None:
    v = cell(np.zeros(4))
    v.read().flags.writeable = False
    v.update(np.add, np.ones(4, np.float32))
    assert v.read().tolist() == [1] * 4


def test_modify_copies_a_leased_array() -> None:
    v = cell(np.zeros(4))
    lease = v.read()

    def put(array: np.ndarray, index: int) -> None:
        array[index] += 5

    v.modify(put, 1)
    assert lease.tolist() == [0] * 4
    assert v.read().tolist() == [0, 5, 0, 0]
    address = v.read().ctypes.data
    v.modify(put, 2)
    assert v.read().ctypes.data == address
    assert v.read().tolist() == [0, 5, 5, 0]
    scalar = cell(np.float32(3))
    scalar.modify(lambda a: a.__iadd__(2))
    assert scalar.read() == 5


def test_a_failing_update_keeps_the_value() -> None:
    v = cell(np.zeros(4))

    def bad(old: Any, out: Any) -> None:
        raise ValueError("no")

    for fn in (lambda: v.update(bad), lambda: v.modify(bad, 1)):
        with pytest.raises(ValueError):
            fn()
        assert v.read().tolist() == [0] * 4
        lease = v.read()
        with pytest.raises(ValueError):
            fn()
        assert v.read() is lease
    with pytest.raises(errors.InvalidArgumentError, match="shape"):
        v.update(np.add, np.ones(3, np.float32))
    assert v.read().tolist() == [0] * 4


def test_assign_checks_the_shape_unless_told_not_to() -> None:
    v = cell(np.float32(1))
    with pytest.raises(errors.InvalidArgumentError) as raised:
        v.assign(np.zeros(2, np.float32))
    expected = "Assign requires shapes of both tensors to match. lhs shape= [] rhs shape= [2]"
    assert raised.value.message.startswith(expected)
    v.assign(np.zeros((2, 3), np.float32), validate_shape=False)
    assert v.read().shape == (2, 3)


def test_assign_copies_what_it_is_given() -> None:
    mine = np.ones(3, np.float32)
    v = cell(mine)
    mine[:] = 9
    assert v.read().tolist() == [1] * 3
    v.assign(v.read() * 2)
    v.assign(v.read()[::-1])
    assert v.read().tolist() == [2] * 3


def test_strings_keep_their_type() -> None:
    v = VariableCell("s", dtypes.string, ())
    v.assign(np.array(b"abc", object))
    assert v.read()[()] == b"abc"


@pytest.mark.parametrize("shape", [(), (33,)])
def test_eight_writers_lose_nothing(shape: tuple[int, ...]) -> None:
    v = cell(np.zeros(shape), dtypes.int64)
    one = np.ones(shape, np.int64)
    go = threading.Event()

    def work() -> None:
        go.wait()
        for i in range(300):
            if i % 3 and shape:
                v.modify(lambda a: a.__iadd__(1))
            else:
                v.update(np.add, one)
            v.read()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert np.all(v.read() == 8 * 300)


def test_readers_never_see_a_torn_value() -> None:
    v = cell(np.zeros(200_000))
    stop = threading.Event()

    def write() -> None:
        k = 0
        while not stop.is_set():
            k += 1
            v.assign(np.full(200_000, k % 100, np.float32))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(200):
            value = v.read()
            assert value.min() == value.max()
    finally:
        stop.set()
        writer.join()


def test_busy_where_one_may_not_wait() -> None:
    v = cell(np.zeros(4))
    entered, leave = threading.Event(), threading.Event()

    def hold(array: np.ndarray) -> None:
        entered.set()
        leave.wait()

    holder = threading.Thread(target=v.modify, args=(hold,))
    holder.start()
    entered.wait()
    thread_state.may_not_wait = True
    try:
        for blocked in (v.read, lambda: v.update(np.add, np.ones(4, np.float32)), v.is_initialized):
            with pytest.raises(Busy):
                blocked()
    finally:
        thread_state.may_not_wait = False
        leave.set()
        holder.join()
    assert v.read().tolist() == [0] * 4


def test_variables_are_shared_by_name_and_containers_cleared() -> None:
    manager = ResourceManager("ps")
    first = variable(manager, "", "v", "v", dtypes.float32, TensorShape([2]))
    second = variable(manager, "ps", "v", "v", dtypes.float32.ref, None)
    other = variable(manager, "c1", "v", "v", dtypes.float32, None)
    first().assign(np.ones(2, np.float32))
    assert second() is first() and other() is not first()
    wrong = variable(manager, "", "v", "n", dtypes.int32, None)
    with pytest.raises(errors.InternalError, match="type float_ref does not match declared output type int32_ref"):
        wrong()
    manager.cleanup(["c1", "unknown"])
    assert first().is_initialized()
    manager.cleanup()
    assert not first().is_initialized() and manager.statistics() == {"Variable": 1}


def test_shared_key_follows_tf() -> None:
    assert shared_key("", "", "v") == ("", "v")
    assert shared_key("c", "q") == ("c", "q")
    assert shared_key("c", "") is None
    with pytest.raises(errors.InvalidArgumentError, match="container contains invalid characters: a_b"):
        shared_key("a_b", "q")
    with pytest.raises(errors.InvalidArgumentError, match="shared_name cannot start with '_'"):
        shared_key("", "_q")
