"""Plans on the real loop: where they run, and what many threads at once leave exact."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import clock, dtypes, errors
from dtfzmq.base.completion import Completion
from dtfzmq.base.loop import Loop
from dtfzmq.base.threads import Pool
from dtfzmq.runtime.compile import compile_nodes
from dtfzmq.runtime.executor import Run
from dtfzmq.runtime.pace import LIMIT_S
from dtfzmq.runtime.plan import BRIEF_S, CALM, FEW_BYTES, FEW_COUNT, SHORT_S, SURPRISE_S, SURPRISES, TIMES, Plan
from dtfzmq.runtime.step import StepContext
from tests.runtime.programs import Builder, Program, stripped
from tests.runtime.running import CALLS, TASK, compiled, declare, env
from tests.runtime.simulated import Cluster, SimLoop, Step


@pytest.fixture(autouse=True)
def _clear() -> None:
    CALLS.clear()


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


class Clock:
    """Stands in for the clocks that a run looks at: a kernel `TestSpend` takes `each` seconds, all else nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, each: float) -> None:
        self.now = 0.0
        self.each = each
        #: What the next one takes more.
        self.once = 0.0
        for name in ("cpu", "perf"):
            monkeypatch.setattr(clock, name, lambda: self.now)
        monkeypatch.setattr(Clock, "current", self, raising=False)


def _spend(x: Any) -> Any:
    found: Any = vars(Clock)["current"]
    found.now += found.each + found.once
    found.once = 0.0
    CALLS.append(threading.get_ident())
    return x


def _later(ctx: Any, inputs: list[Any], done: Any) -> None:
    ctx.loop.call_soon(done, inputs[0])


declare("TestSpend", "x: T -> y: T", kernel=_spend)
declare("TestLater", "x: T -> y: T", start=lambda node, env: _later)


def test_a_plan_that_is_long_but_waits_often_runs_inline(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, SHORT_S / 2)
    b = Builder()
    x = b.arg()
    for _ in range(10):
        x = b.add("TestSpend", [b.add("TestLater", [x])])
    plan = compiled(b, x)
    real(plan, [np.float64(1)])
    CALLS.clear()
    real(plan, [np.float64(1)])
    assert [threading.get_ident()] * 10 == CALLS
    long = Clock(monkeypatch, SHORT_S * 2)
    for _ in range(9):
        CALLS.clear()
        real(plan, [np.float64(1)])
    assert threading.get_ident() not in CALLS
    plan.busy_s = 0.0
    for _ in range(9):
        long.once, long.each = 2 * LIMIT_S, 0.0  # one long kernel among many
        CALLS.clear()
        real(plan, [np.float64(1)])
    assert threading.get_ident() not in CALLS


@pytest.mark.parametrize("arrives", [False, True], ids=["fed", "arrives"])
@pytest.mark.parametrize(
    "sizes",
    [
        (np.zeros(FEW_BYTES, np.uint8), np.zeros(FEW_BYTES * TIMES + 1, np.uint8)),
        (np.int32(FEW_COUNT), np.int32(FEW_COUNT * TIMES + 1)),
        (np.array([-1, FEW_COUNT]), np.array([FEW_COUNT * TIMES + 1, 0])),
        (np.array([2, FEW_COUNT // 2]), np.array([FEW_COUNT, TIMES, 2])),
        (np.array(b"x" * FEW_BYTES, object), np.array(b"x" * FEW_BYTES * TIMES * 2, object)),
        (np.array([b"x"] * 100, object), np.array([b"x" * FEW_BYTES] * 100, object)),
    ],
    ids=["bytes", "number", "shape", "sizes", "text", "texts"],
)
def test_large_inputs_of_a_short_plan_run_elsewhere(
    real: Real, monkeypatch: pytest.MonkeyPatch, sizes: tuple[Any, Any], arrives: bool
) -> None:
    spending = Clock(monkeypatch, 0.0)
    b = Builder()
    x = b.arg()
    plan = compiled(b, b.add("TestSpend", [b.add("TestLater", [x]) if arrives else x]))
    me, (small, large) = threading.get_ident(), sizes
    real(plan, [small])
    for each, value, inline in (
        (0.0, small, True), (1.0, large, False), (1.0, large, False), (0.0, small, True),
        (0.0, large, False), (0.0, large, True),
    ):  # fmt: skip
        spending.each = each
        CALLS.clear()
        ctx = StepContext(1, real.loop, real.pool)
        ctx.caller = here = Here(real.pool)
        real(plan, [value], ctx)
        assert ([me] == CALLS) is inline and not here.asked, "what is large for it is not known of it"


@pytest.mark.parametrize(
    "value",
    [np.float64(1), np.zeros(2 * FEW_BYTES, np.uint8), np.int64(2 * FEW_COUNT)],
    ids=["small", "bytes", "number"],
)
def test_a_plan_that_was_long_on_the_baton_does_not_run_there_before_it_was_short_for_long(
    real: Real, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    """Its inputs do not tell."""
    spending = Clock(monkeypatch, 0.0)
    b = Builder()
    plan = compiled(b, b.add("TestSpend", [b.arg()]))

    def inline(once: float = 0.0) -> bool:
        spending.once = once
        CALLS.clear()
        real(plan, [value])
        return [threading.get_ident()] == CALLS

    assert not inline()
    for _ in range(2):
        for once in (SURPRISE_S / 2, *[SURPRISE_S * 2] * SURPRISES):
            assert plan.short and inline(once)
            for _ in range(20):
                inline()
        assert not plan.brief
        for _ in range(CALM // 20):
            assert not inline(SURPRISE_S * 2)
            assert not any(inline() for _ in range(20))
        assert not any(inline() for _ in range(CALM - 20))
        assert inline()


def test_a_run_that_fails_was_long_on_the_baton_as_well(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    spending = Clock(monkeypatch, 0.0)
    b = Builder()
    plan = compiled(b, b.add("TestFail", [b.add("TestSpend", [b.arg()])]))
    plan.busy_s = 0.0
    here = []
    for _ in range(SURPRISES + 1):
        spending.once = SURPRISE_S * 2
        with pytest.raises(errors.InvalidArgumentError):
            real(plan, [np.float64(1)])
        here.append(CALLS.pop() == threading.get_ident())
    assert here == [True] * SURPRISES + [False]


def test_large_inputs_that_came_first_are_large_once_the_plan_is_short(
    real: Real, monkeypatch: pytest.MonkeyPatch
) -> None:
    spending = Clock(monkeypatch, 0.0)
    b = Builder()
    plan = compiled(b, b.add("TestSpend", [b.arg()]))
    small, large = np.zeros(FEW_BYTES, np.uint8), np.zeros(10 * FEW_BYTES, np.uint8)
    where = []
    for _ in range(3):
        spending.once = 1.0
        CALLS.clear()
        real(plan, [large])
        where.append(CALLS == [threading.get_ident()])  # noqa: SIM300
        for _ in range(50):
            real(plan, [small])
        assert plan.short
    assert where == [False, True, False], "it is believed once"


def test_what_is_answered_at_once_keeps_the_baton_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, SHORT_S / 2)
    here, there = f"{TASK}/device:CPU:0", f"{TASK}/device:CPU:1"

    class Echo:
        """Another plan on the same baton: gives back at once what it gets."""

        def __init__(self) -> None:
            self.given: dict[str, Any] = {}
            self.waiting: dict[str, Any] = {}

        def recv(self, key: str, done: Any) -> None:
            self.waiting[key] = done
            self.meet(key)

        def send(self, key: str, value: Any) -> None:
            back = key.replace("out", "in")
            self.given[back] = value
            self.meet(back)

        def abort(self, error: Any) -> None:
            raise AssertionError(error)

        def meet(self, key: str) -> None:
            if key in self.given and key in self.waiting:
                self.waiting.pop(key)(self.given.pop(key), None)

    b = Builder()
    x = b.arg()
    for k in range(100):
        b.add("_Send", [x], (), here, key=f"{there};7;{here};out{k};", send_device=here, recv_device=there)
        x = b.add("_Recv", [], device=here, key=f"{there};7;{here};in{k};", send_device=there, recv_device=here)
        x = b.add("TestSpend", [x])
    plan = compiled(b, x)
    plan.busy_s = 0.0
    loop, ends = SimLoop(), []
    Run(plan, StepContext(1, loop, loop, Echo()), [np.float64(1)], lambda *end: ends.append(end)).start()
    assert 0 < len(CALLS) < 50 and not ends
    loop.run()
    assert len(CALLS) == 100 and ends == [([1.0], None)]


class Here:
    """The thread of a caller that waits: stands in for it by saying when it was asked."""

    def __init__(self, runner: Any) -> None:
        self.asked = 0
        self._runner = runner

    def submit(self, fn: Any) -> None:
        self.asked += 1
        self._runner.submit(fn)


def test_only_plans_that_were_brief_borrow_the_thread_of_their_caller(real: Real) -> None:
    b = Builder()
    plan = compiled(b, b.add("TestHolds", [b.arg()]))
    asked = []
    for known in (None, None, None, 2 * BRIEF_S, None, None):
        if known is not None:
            plan.observe(known, known)
        ctx = StepContext(1, real.loop, real.pool)
        ctx.caller = here = Here(real.pool)
        real(plan, [np.float64(1)], ctx)
        CALLS.pop()
        asked.append(here.asked)
    assert asked == [0, 1, 1, 0, 0, 0], "not while it is unknown, nor soon after it was long"
    for _ in range(5):
        plan.observe(0.0, 0.0)
    assert plan.brief


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


def across(real: Real, cluster: Cluster, fetches: list[tuple[int, int]], targets: Sequence[int] = ()) -> list[Any]:
    cluster.loop, cluster.runner = real.loop, real.pool
    step, completion = Step(cluster, len(fetches)), Completion()
    step.ended = lambda: completion.set(None)
    with real.loop.held():
        step.start(cluster.plan([], fetches, targets), [])
    real.loop.wait(completion, 20)
    if step.error is not None:
        raise step.error
    return step.results


@pytest.mark.slow
@pytest.mark.parametrize("busy_s", [0.0, 1.0, -1.0])
def test_random_programs_over_tasks_devices_and_threads(real: Real, busy_s: float) -> None:
    places = [f"/job:{job}/cpu:{k}" for job in "ab" for k in range(2)]
    for seed in range(25):
        rng = random.Random(seed)
        program = Program(rng, ["", *places], 1 + seed)
        fetches = rng.sample(program.values, min(4, len(program.values)))
        alone = Cluster({"a": 1})
        alone.extend(stripped(program.builder.nodes))
        alone.run(targets=program.starts)
        many = Cluster({"a": 1, "b": 1}, devices=2, seed=seed)
        many.busy_s = busy_s
        many.extend(program.builder.nodes)
        across(real, many, [], program.starts)
        expected = alone.run(fetches)
        for _ in range(3):
            assert across(real, many, fetches) == expected
