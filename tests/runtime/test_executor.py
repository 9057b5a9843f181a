"""The executor: suspension, errors, cancellation, partial runs, long chains."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.node import Node
from dtfzmq.runtime.compile import compile_nodes
from dtfzmq.runtime.device import Device, make_devices
from dtfzmq.runtime.executor import Run
from dtfzmq.runtime.feeds import Feeds
from dtfzmq.runtime.step import StepContext
from tests.runtime.programs import Builder, F
from tests.runtime.running import CALLS, GATES, TASK, Started, compiled, declare, env, open_gate
from tests.runtime.simulated import Cluster, Exchange, SimLoop, Step


@pytest.fixture(autouse=True)
def _clear() -> None:
    CALLS.clear()
    GATES.clear()


@pytest.mark.parametrize("busy_s", [0.0, 1.0])
def test_only_what_depends_on_a_waiting_op_waits(busy_s: float) -> None:
    b = Builder()
    x = b.arg()
    gate = b.add("TestGate", [x], name="gate")
    after = b.add("TestCall", [gate])
    beside = b.add("TestCall", [b.binary("Add", x, x)])
    started = Started(compiled(b, after, beside), [np.float64(1)], busy_s=busy_s)
    assert CALLS == [2] and not started.ends
    open_gate("gate", np.float64(5))
    assert started.go().value == [5, 2] and CALLS == [2, 5]


def test_a_dequeue_and_an_enqueue_of_one_step_meet() -> None:
    b = Builder()
    q = b.add(
        "FIFOQueueV2", (), (dtypes.resource,), name="q", component_types=[F], shapes=[], capacity=1, container="",
        shared_name="",
    )  # fmt: skip
    got = b.add("QueueDequeueV2", [q], component_types=[F])
    put = b.add("QueueEnqueueV2", [q, b.binary("Add", b.const(1.0), b.const(2.0))], ())
    last = b.add("Identity", [got], control=[put[0]])
    started = Started(compiled(b, last))
    assert started.value == [3]


def test_ops_that_complete_at_once_and_many_outputs() -> None:
    b = Builder()
    x = b.arg()
    two = b.add("TestTwo", [b.add("TestNow", [x])], (F, F))
    assert Started(compiled(b, (two[0], 1), two), [np.float64(1)]).value == [3, 2]


def test_an_error_names_its_node_and_task_and_nothing_new_starts() -> None:
    b = Builder()
    x = b.arg()
    gate = b.add("TestGate", [x], name="gate")
    bad = b.add("TestFail", [x], name="bad")
    late = b.add("TestCall", [gate])
    started = Started(compiled(b, late, bad), [np.float64(1)])
    with pytest.raises(errors.InvalidArgumentError) as raised:
        _ = started.value
    assert raised.value.message == "division by zero\n\t [[{{node bad}}]]"
    assert raised.value.origin == TASK and not raised.value.derived
    assert CALLS == [] and not started.ctx._watchers


def test_done_waits_for_all_that_was_started() -> None:
    b = Builder()
    x = b.arg()
    declare("TestDeaf", "x: T -> y: T", start=lambda n, e: lambda ctx, inputs, done: GATES.update(deaf=done))
    deaf = b.add("TestDeaf", [x])
    bad = b.add("TestFail", [x])
    started = Started(compiled(b, deaf, bad), [np.float64(1)])
    assert started.ctx.error is not None and not started.ends
    GATES["deaf"](np.float64(0))
    with pytest.raises(errors.InvalidArgumentError):
        _ = started.go().value


def test_an_exception_while_an_op_begins() -> None:
    b = Builder()
    bad = b.add("TestRaise", [b.arg()], name="bad")
    with pytest.raises(errors.UnknownError, match=r"no such key(.|\n)*\{\{node bad\}\}"):
        _ = Started(compiled(b, bad), [np.float64(1)]).value


def test_cancel_wakes_blocked_kernels_and_the_reason_wins() -> None:
    b = Builder()
    gate = b.add("TestGate", [b.arg()], name="gate")
    started = Started(compiled(b, gate), [np.float64(1)])
    assert not started.ends
    started.ctx.cancel(errors.AbortedError(None, None, "the master is gone"))
    with pytest.raises(errors.AbortedError, match="the master is gone"):
        _ = started.go().value
    started.ctx.cancel(errors.AbortedError(None, None, "again"))
    assert len(started.go().ends) == 1


def test_the_first_error_that_is_no_echo_is_the_steps() -> None:
    ctx = StepContext(1, SimLoop(), SimLoop())
    ctx.cancel(errors.make(errors.CANCELLED, "echo", derived=True))
    ctx.cancel(errors.make(errors.INTERNAL, "cause"))
    ctx.cancel(errors.make(errors.ABORTED, "later"))
    assert ctx.error is not None and ctx.error.message == "cause"
    heard: list[int] = []
    ctx.on_cancel(lambda: heard.append(1))
    assert heard == [1]


@pytest.mark.slow
def test_a_chain_of_100_000_ops_under_the_usual_recursion_limit() -> None:
    assert sys.getrecursionlimit() <= 1000
    b = Builder()
    x, one = b.arg(), b.const(1.0)
    for _ in range(100_000):
        x = b.binary("Add", x, one)
    plan = compiled(b, x)
    assert Started(plan, [np.float64(0)]).value == [100_000]
    assert len(plan.template) < 10


def test_partial_runs_take_feeds_one_by_one_and_yield_what_is_ready() -> None:
    b = Builder()
    x, y = b.arg(), b.arg()
    first = b.binary("Add", x, b.const(1.0))
    both = b.binary("Mul", first, y)
    plan = compiled(b, first, both, partial=True)
    feeds, got = Feeds(), dict[int, Any]()
    started = Started(plan, feeds, lambda index, value: got.update({index: value}))
    assert got == {} and not started.ends
    feeds.put(0, np.float64(2))
    started.go()
    assert got == {0: 3} and not started.ends
    feeds.put(1, np.float64(5))
    started.go()
    assert got == {0: 3, 1: 15} and started.value == [3, 15]


def test_a_partial_run_can_be_cancelled() -> None:
    b = Builder()
    plan = compiled(b, b.add("Neg", [b.arg()]), partial=True)
    started = Started(plan, Feeds(), lambda index, value: None)
    started.ctx.cancel(errors.CancelledError(None, None, "closed"))
    with pytest.raises(errors.CancelledError, match="closed"):
        _ = started.go().value
    assert not started.ctx._watchers


def test_a_partial_run_over_tasks() -> None:
    b = Builder()
    x = b.placeholder(name="x")
    out = b.binary("Add", b.add("Neg", [x], device="/job:b"), b.const(1.0), "/job:a")
    cluster = Cluster({"a": 1, "b": 1})
    cluster.extend(b.nodes)
    step = Step(cluster, 1)
    feeds, got = Feeds(), list[Any]()
    step.start(cluster.plan([x], [out]), [], feeds, lambda index, value: got.append((index, value)))
    cluster.loop.run()
    assert got == []
    feeds.put(0, np.float64(4))
    assert step.finish() == [-3] and got == [(0, -3)]


def test_unknown_ops_and_bad_kernels_are_refused_by_name() -> None:
    b = Builder()
    b.add("NoSuchOp", [b.arg()], name="n")
    with pytest.raises(errors.InvalidArgumentError, match=r"No OpKernel was registered(.|\n)*\{\{node n\}\}"):
        compiled(b)
    declare("TestPicky", "-> y: T", make=lambda node, env: node.attrs["needed"])
    b = Builder()
    b.add("TestPicky", name="picky")
    with pytest.raises(errors.OpError, match="{{node picky}}"):
        compiled(b)


def test_kernels_of_stateful_nodes_are_made_once_a_session() -> None:
    made: list[int] = []

    def make(node: Node, env: Any) -> Callable[[], int]:
        made.append(1)
        return lambda: len(made)

    declare("TestState", "-> y: T", make=make, stateful=True)
    e = env()
    b = Builder()
    plan = compiled(b, b.add("TestState", name="s"), e=e)
    compile_nodes(b.nodes, e)
    assert len(made) == 1 and Started(plan).value == [1]
    compile_nodes(b.nodes, env())
    assert len(made) == 2


def test_functions_are_compiled_for_kernels() -> None:
    b = Builder("f/")
    x = b.arg()
    b.ret(b.binary("Add", x, b.const(1.0)))
    assert env().compile(b.subgraph())(np.float64(2)) == [3]
    b = Builder("g/")
    b.ret(b.add("TestGate", [b.arg()]))
    with pytest.raises(errors.InvalidArgumentError, match="must not contain operations that wait"):
        env().compile(b.subgraph())


def test_the_trace_has_every_kernel_with_its_time() -> None:
    b = Builder()
    x = b.arg()
    plan = compiled(b, b.add("Neg", [b.binary("Add", x, x, name="sum")], name="neg"))
    loop = SimLoop()
    ctx = StepContext(1, loop, loop, trace=[])
    ends: list[Any] = []
    Run(plan, ctx, [np.float64(1)], lambda *end: ends.append(end)).start()
    loop.run()
    assert ends == [([-2], None)] and ctx.trace is not None
    assert [(device, node) for device, node, _, _ in ctx.trace] == [
        (plan.device, "sum"),
        (plan.device, "neg"),
    ]
    assert all(seconds >= 0 for *_, seconds in ctx.trace)


def test_devices_are_made_as_device_count_says() -> None:
    assert [d.name for d in make_devices(TASK, {"CPU": 2}, 1)] == [f"{TASK}/device:CPU:0", f"{TASK}/device:CPU:1"]
    assert len(make_devices(TASK, {"cpu": 0}, 1)) == 1 and isinstance(make_devices(TASK, {}, 1)[0], Device)
    with pytest.raises(errors.InvalidArgumentError, match="Unknown device type 'TPU'"):
        make_devices(TASK, {"TPU": 1}, 1)


def test_a_run_ends_after_what_it_sent_has_left() -> None:
    events: list[str] = []

    class Link:
        def push(self, step: int, items: list[tuple[str, Any]]) -> None:
            events.append("pushed")

    there = "/job:other/replica:0/task:0/device:CPU:0"
    here = f"{TASK}/device:CPU:0"
    b = Builder()
    x = b.add("_Recv", [], device=here, key=f"{there};7;{here};in;", send_device=there, recv_device=here)
    b.add("_Send", [b.const(1.0)], (), here, key=f"{here};7;{there};out;", send_device=here, recv_device=there)
    plan = compiled(b, x)
    loop, exchange = SimLoop(), Exchange()
    ctx = StepContext(1, loop, loop, exchange, lambda task: Link())
    plan.busy_s = 1.0
    Run(plan, ctx, [], lambda results, error: events.append("done")).start()
    loop.run(1)  # the runner's part; what it sends waits for the baton
    plan.busy_s = 0.0
    exchange.send(f"{there};7;{here};in;0:0", np.float64(1))
    assert events == []
    loop.run()
    assert events == ["pushed", "done"]


def test_an_error_amid_arrivals_loses_none_of_them() -> None:
    b = Builder()
    zero = b.const(0.0)
    cond, body = Builder("c/"), Builder("b/")
    cond.ret(cond.add("TestGate", [cond.arg()], name="odd"))
    body.ret(body.arg())
    loop = b.loop([zero], [], cond, body, [F])
    others = [b.add("TestGate", [b.arg()], name=f"gate{k}") for k in range(2)]
    started = Started(compiled(b, (loop, 0), *others), [np.float64(1), np.float64(2)])
    started.loop.call_soon(lambda: None)
    open_gate("gate0")
    open_gate("c/odd", np.zeros(3))  # no scalar: the loop cannot be tested
    open_gate("gate1")
    with pytest.raises(errors.InvalidArgumentError, match="must be a scalar"):
        _ = started.go().value
