"""Memory of values: freed at the last use, written over only where nobody else looks, owned where they leave."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.runtime import plan as code
from dtfzmq.runtime.compile import compile_nodes
from dtfzmq.runtime.values import release
from tests.runtime.programs import Builder
from tests.runtime.running import CALLS, GATES, Started, compiled, declare, env


def test_values_are_freed_at_their_last_use() -> None:
    alive: list[Any] = []
    declare("TestFresh", "x: T -> y: T", kernel=lambda x: np.zeros(4))

    def look(x: Any) -> Any:
        alive.append(sys.getrefcount(GATES["array"][0]))
        return x

    declare("TestLook", "x: T -> y: T", kernel=look)

    def remember(x: Any) -> Any:
        GATES["array"] = [x]
        return x

    declare("TestKeep", "x: T -> y: T", kernel=remember)
    b = Builder()
    kept = b.add("TestKeep", [b.add("TestFresh", [b.arg()])])
    size = b.add("Size", [kept], (dtypes.int32,))
    last = b.add("TestLook", [size], (dtypes.int32,))
    Started(compiled(b, last), [np.float64(0)])
    assert alive == [2]  # the test's own list, and getrefcount's argument


def test_a_kernel_writes_over_a_dying_input_but_never_over_what_others_hold() -> None:
    b = Builder()
    x = b.arg()
    fresh = b.binary("TestAdd", x, x)
    first = b.add("TestCall", [fresh])
    over = b.add("TestOver", [first])
    plan = compiled(b, over)
    feed = np.ones(5)
    (result,) = Started(plan, [feed]).value
    assert result.tolist() == [-2] * 5 and feed.tolist() == [1] * 5
    kept = CALLS.pop()  # the test held the array, so it was left alone
    assert kept.tolist() == [2] * 5
    b = Builder()
    x = b.arg()
    chain = b.add("TestOver", [b.binary("TestAdd", x, x)])
    plan = compiled(b, b.add("TestOver", [chain]), x)
    assert {instruction[0] for chunk in plan.chunks[0] for instruction in chunk} >= {code.OVER}
    (result, same) = Started(plan, [feed]).value
    assert result.tolist() == [2] * 5 and same.tolist() == [1] * 5


def test_constants_variables_and_feeds_are_never_written() -> None:
    e = env()
    b = Builder()
    v = b.variable("v", shape=(3,))
    b.assign("Assign", v, b.const([1.0, 2.0, 3.0]))
    Started(compile_nodes(b.nodes, e))
    b = Builder()
    x, v, c = b.arg(), b.variable("v", shape=(3,)), b.const([1.0, 1.0, 1.0])
    read = b.add("Identity", [v])
    outs = [b.add("TestOver", [source]) for source in (x, read, c)]
    outs.append(b.binary("TestAdd", c, read))
    plan = compiled(b, *outs, e=e)
    feed = np.full(3, 5.0)
    for _ in range(2):
        results = Started(plan, [feed]).value
        assert [r.tolist() for r in results] == [[-5] * 3, [-1, -2, -3], [-1] * 3, [2, 3, 4]]
    assert feed.tolist() == [5] * 3


def test_over_needs_a_shape_that_fits() -> None:
    b = Builder()
    x, y = b.arg(), b.arg()
    small = b.binary("TestAdd", x, x)
    plan = compiled(b, b.binary("TestAdd", small, y))
    (result,) = Started(plan, [np.ones(3), np.ones((2, 3))]).value
    assert result.tolist() == [[3] * 3] * 2


def test_results_of_many_steps_stay_as_they_were() -> None:
    b = Builder()
    x = b.arg()
    plan = compiled(b, b.add("TestOver", [b.binary("TestAdd", x, x)]))
    results = [Started(plan, [np.full(4, float(k))]).value[0] for k in range(100)]
    assert [r.tolist() for r in results] == [[-2.0 * k] * 4 for k in range(100)]


def test_release_gives_arrays_that_are_the_callers_own() -> None:
    shared = np.ones(3)
    fresh = [np.ones(3)]
    address = fresh[0].ctypes.data
    assert release(fresh)[0].ctypes.data == address
    values: list[Any] = [shared, shared[:2], np.float64(1)]
    release(values)
    values[0][:] = values[1][:] = 7
    assert shared.tolist() == [1] * 3
    frozen = [np.ones(3)]
    frozen[0].flags.writeable = False
    assert release(frozen)[0].flags.writeable
