"""The executor: suspension, errors, cancellation, reuse of memory, partial runs, long chains."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.base.loop import Completion, Loop
from dtfzmq.base.threads import Pool
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.graph.opdef import NoGrad, OpDef
from dtfzmq.runtime import plan as code
from dtfzmq.runtime.compile import compile_function, compile_nodes
from dtfzmq.runtime.device import Device, make_devices
from dtfzmq.runtime.executor import Feeds, Run
from dtfzmq.runtime.kernel_env import KernelEnv
from dtfzmq.runtime.plan import Plan
from dtfzmq.runtime.resources import ResourceManager
from dtfzmq.runtime.step import StepContext
from dtfzmq.runtime.values import release
from tests.runtime.programs import Builder, F
from tests.runtime.simulated import Cluster, Exchange, SimLoop, Step

TASK = "/job:w/replica:0/task:0"


def declare(name: str, signature: str, **more: Any) -> None:
    if opdef.find(name) is None:
        opdef.add(OpDef(name, opdef.parse_signature(signature), lambda n: [], NoGrad("a test's op"), **more))


CALLS: list[Any] = []
GATES: dict[str, Any] = {}


def _gate(node: Node, env: Any) -> Callable[..., None]:
    def begin(ctx: StepContext, inputs: list[Any], done: Any) -> None:
        token = ctx.on_cancel(lambda: done.fail(errors.make(errors.CANCELLED, "gate cancelled", derived=True)))
        GATES[node.name] = (done, inputs, lambda: ctx.off_cancel(token))

    return begin


declare("TestGate", "x: T -> y: T", start=_gate)
def _call(x: Any) -> Any:
    CALLS.append(x)
    return x


def _thread(x: Any) -> Any:
    CALLS.append(threading.get_ident())
    return x


def _raise(node: Node, env: Any) -> Callable[..., None]:
    def begin(ctx: Any, inputs: list[Any], done: Any) -> None:
        raise KeyError("no such key")

    return begin


declare("TestCall", "x: T -> y: T", kernel=_call)
declare("TestFail", "x: T -> y: T", kernel=lambda x: 1 / 0)
declare("TestNow", "x: T -> y: T", start=lambda node, env: lambda ctx, inputs, done: done(inputs[0]))
declare("TestRaise", "x: T -> y: T", start=_raise)
declare("TestThread", "x: T -> y: T", kernel=_thread)
declare("TestHolds", "x: T -> y: T", kernel=_thread, holds=True)
declare("TestTwo", "x: T -> y: T, z: T", kernel=lambda x: (x + 1, x + 2))


def env() -> KernelEnv:
    return KernelEnv(make_devices(TASK, {}, 7)[0], ResourceManager("w"), compile_function)


class Started:
    """A run on a virtual loop, and what became of it."""

    def __init__(self, plan: Plan, feeds: Any = (), on_fetch: Any = None, busy_s: float = 0.0) -> None:
        self.loop = SimLoop()
        plan.busy_s = busy_s
        self.ctx = StepContext(1, self.loop, self.loop, Exchange())
        self.ends: list[tuple[Any, Any]] = []
        run = Run(plan, self.ctx, feeds, lambda results, error: self.ends.append((results, error)), on_fetch)
        run.start()
        self.loop.run()

    def go(self) -> Started:
        self.loop.run()
        return self

    @property
    def value(self) -> Any:
        ((results, error),) = self.ends
        if error is not None:
            raise error
        return results


def compiled(b: Builder, *fetches: tuple[int, int], e: KernelEnv | None = None, partial: bool = False) -> Plan:
    for fetch in fetches:
        b.ret(fetch)
    return compile_nodes(b.nodes, e or env(), partial)


def open_gate(name: str, value: Any = None) -> None:
    done, inputs, off = GATES.pop(name)
    off()
    done(inputs[0] if value is None else value)


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


def test_a_deadline_ends_a_step() -> None:
    b = Builder()
    plan = compiled(b, b.add("TestGate", [b.arg()], name="gate"))
    started = Started(plan, [np.float64(1)])
    started.ctx.set_deadline(5.0)
    with pytest.raises(errors.DeadlineExceededError) as raised:
        _ = started.go().value
    assert raised.value.message == "Operation timed out." and started.loop.now() == 5.0
    started.ctx.close()
    other = Started(plan, [np.float64(1)])
    other.ctx.set_deadline(5.0)
    other.ctx.close()
    open_gate("gate")
    assert other.go().value == [1]


def test_the_first_error_that_is_no_echo_is_the_steps() -> None:
    ctx = StepContext(1, SimLoop(), SimLoop())
    ctx.cancel(errors.make(errors.CANCELLED, "echo", derived=True))
    ctx.cancel(errors.make(errors.INTERNAL, "cause"))
    ctx.cancel(errors.make(errors.ABORTED, "later"))
    assert ctx.error is not None and ctx.error.message == "cause"
    heard: list[int] = []
    ctx.on_cancel(lambda: heard.append(1))
    assert heard == [1]


def test_a_chain_of_100_000_ops_under_the_usual_recursion_limit() -> None:
    assert sys.getrecursionlimit() <= 1000
    b = Builder()
    x, one = b.arg(), b.const(1.0)
    for _ in range(100_000):
        x = b.binary("Add", x, one)
    plan = compiled(b, x)
    assert Started(plan, [np.float64(0)]).value == [100_000]
    assert len(plan.template) < 10


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
    declare("TestOver", "x: F -> y: F", kernel=np.negative, out=True, inplace=(0,))
    declare("TestAdd", "x: F, y: F -> z: F", kernel=np.add, out=True, inplace=(0, 1))
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
    declare("TestOver", "x: F -> y: F", kernel=np.negative, out=True, inplace=(0,))
    declare("TestAdd", "x: F, y: F -> z: F", kernel=np.add, out=True, inplace=(0, 1))
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
    declare("TestAdd", "x: F, y: F -> z: F", kernel=np.add, out=True, inplace=(0, 1))
    b = Builder()
    x, y = b.arg(), b.arg()
    small = b.binary("TestAdd", x, x)
    plan = compiled(b, b.binary("TestAdd", small, y))
    (result,) = Started(plan, [np.ones(3), np.ones((2, 3))]).value
    assert result.tolist() == [[3] * 3] * 2


def test_results_of_many_steps_stay_as_they_were() -> None:
    declare("TestOver", "x: F -> y: F", kernel=np.negative, out=True, inplace=(0,))
    declare("TestAdd", "x: F, y: F -> z: F", kernel=np.add, out=True, inplace=(0, 1))
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
    values = [shared, shared[:2], np.float64(1)]
    release(values)
    values[0][:] = values[1][:] = 7
    assert shared.tolist() == [1] * 3
    frozen = [np.ones(3)]
    frozen[0].flags.writeable = False
    assert release(frozen)[0].flags.writeable


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


class Real:
    """A run on the real loop, from a caller's thread."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.pool = Pool("test-run")

    def __call__(self, plan: Plan, feeds: Sequence[Any] = (), ctx: StepContext | None = None) -> list[Any]:
        completion = Completion()

        def done(results: Any, error: Any) -> None:
            if error is not None:
                completion.fail(error)
            else:
                completion.set(results)

        with self.loop.held():
            Run(plan, ctx or StepContext(1, self.loop, self.pool), feeds, done).start()
        result: list[Any] = self.loop.wait(completion, 10)
        return result


@pytest.fixture()
def real() -> Any:
    runner = Real()
    yield runner
    runner.pool.close()


def test_short_plans_run_inline_unknown_long_and_holding_ones_do_not(real: Real) -> None:
    b = Builder()
    plan = compiled(b, b.add("TestThread", [b.arg()]))
    me = threading.get_ident()
    real(plan, [np.float64(1)])
    assert CALLS.pop() != me and plan.busy_s >= 0
    plan.busy_s = 1e-6
    real(plan, [np.float64(1)])
    assert CALLS.pop() == me
    plan.busy_s = 1.0
    real(plan, [np.float64(1)])
    assert CALLS.pop() != me
    b = Builder()
    holding = compiled(b, b.add("TestHolds", [b.arg()]))
    holding.busy_s = 1e-6
    real(holding, [np.float64(1)])
    assert CALLS.pop() != me


def test_a_busy_variable_sends_the_run_where_it_may_wait(real: Real) -> None:
    e = env()
    b = Builder()
    v = b.variable("v", shape=(2,))
    before = b.add("TestThread", [b.arg()])
    read = b.add("Identity", [v], control=[before[0]])
    plan = compiled(b, read, b.add("TestThread", [read]), e=e)
    start = Builder()
    w = start.variable("v", shape=(2,))
    start.assign("Assign", w, start.const([1.0, 2.0]))
    real(compile_nodes(start.nodes, e))
    held = e.resources.lookup("", "Variable", "v")
    entered, leave = threading.Event(), threading.Event()

    def hold(array: Any) -> None:
        entered.set()
        leave.wait()

    holder = threading.Thread(target=held.modify, args=(hold,))
    holder.start()
    entered.wait()
    plan.busy_s = 1e-6
    completion = Completion()
    with real.loop.held():
        Run(
            plan, StepContext(1, real.loop, real.pool), [np.float64(1)], lambda r, e: completion.set((r, e))
        ).start()
    assert not completion.done and [threading.get_ident()] == CALLS  # the baton did not wait
    leave.set()
    results, error = real.loop.wait(completion, 10)
    holder.join()
    assert error is None and results[0].tolist() == [1, 2]
    assert len(CALLS) == 2 and CALLS[1] != threading.get_ident()  # and what had run did not run again


def test_completions_from_many_threads(real: Real) -> None:
    def begin(ctx: Any, inputs: list[Any], done: Any) -> None:
        threading.Thread(target=done, args=(inputs[0],)).start()

    declare("TestElsewhere", "x: T -> y: T", start=lambda node, env: begin)
    b = Builder()
    x = b.arg()
    layers = [x]
    for _ in range(5):
        layers = [b.add("TestElsewhere", [source]) for source in (layers * 4)[:4]]
        layers = [b.binary("Add", layers[k], layers[k - 1]) for k in range(4)]
    plan = compiled(b, *layers)
    for busy_s in (1e-6, 1.0):
        plan.busy_s = busy_s
        for _ in range(5):
            assert real(plan, [np.float64(1)]) == [32] * 4


def test_exact_under_concurrent_steps(real: Real) -> None:
    e = env()
    start = Builder()
    v = start.variable("n", dtype=dtypes.int64, shape=())
    start.assign("Assign", v, start.const(0, dtype=dtypes.int64), dtype=dtypes.int64)
    real(compile_nodes(start.nodes, e))
    b = Builder()
    v = b.variable("n", dtype=dtypes.int64, shape=())
    b.assign("AssignAdd", v, b.const(1, dtype=dtypes.int64), dtype=dtypes.int64)
    plan = compile_nodes(b.nodes, e)
    threads = [threading.Thread(target=lambda: [real(plan) for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert e.resources.lookup("", "Variable", "n").read() == 400


def test_no_step_leaves_anything_behind(real: Real) -> None:
    b = Builder()
    x = b.arg()
    plan = compiled(b, b.add("TestNow", [b.binary("Add", x, x)]))
    feed = np.ones(1000)
    for busy_s in (1e-6, 1.0):
        plan.busy_s = busy_s
        real(plan, [feed])
    gc.collect()
    count = sys.getrefcount(feed)
    before = len(gc.get_objects())
    for _ in range(200):
        plan.busy_s = 1e-6
        real(plan, [feed])
    gc.collect()
    assert sys.getrefcount(feed) == count
    assert len(gc.get_objects()) - before < 50


def test_devices_are_made_as_device_count_says() -> None:
    assert [d.name for d in make_devices(TASK, {"CPU": 2}, 1)] == [f"{TASK}/device:CPU:0", f"{TASK}/device:CPU:1"]
    assert len(make_devices(TASK, {"cpu": 0}, 1)) == 1 and isinstance(make_devices(TASK, {}, 1)[0], Device)
    with pytest.raises(errors.InvalidArgumentError, match="Unknown device type 'TPU'"):
        make_devices(TASK, {"TPU": 1}, 1)
