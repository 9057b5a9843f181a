"""A graph cut over several tasks and devices yields what one device yields, control flow and all."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.node import Node
from dtfzmq.runtime import compile, segments
from dtfzmq.runtime.compile import compile_function
from dtfzmq.runtime.device import Device, register
from dtfzmq.runtime.kernel_env import KernelEnv
from tests.runtime.programs import Builder, F, Program, stripped
from tests.runtime.running import TASK  # noqa: F401  (declares test ops)
from tests.runtime.simulated import Cluster, Step

A, B, C = "/job:a/task:0", "/job:b/task:0", "/job:b/task:1"
PLACES = [f"{task}/cpu:{k}" for task in (A, B, C) for k in range(2)]


def check(seed: int, size: int, busy: float) -> None:
    rng = random.Random(seed)
    program = Program(rng, ["", A, *PLACES], size)
    fetches = rng.sample(program.values, min(4, len(program.values)))
    alone = Cluster({"a": 1})
    alone.extend(stripped(program.builder.nodes))
    many = Cluster({"a": 1, "b": 2}, devices=2, seed=seed)
    many.busy_s = busy
    many.extend(program.builder.nodes)
    for cluster in (alone, many):
        cluster.run(targets=program.starts)
    assert many.run(fetches) == alone.run(fetches)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 14), st.sampled_from([0.0, 1.0]))
def test_random_programs_compute_the_same(seed: int, size: int, busy: float) -> None:
    check(seed, size, busy)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 14))
def test_segments_of_very_many_receives_do_not_wait_for_more_than_they_need(seed: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile, "cut", functools.partial(segments.cut, exact=0))
        check(seed, size, float(seed % 2))


def test_both_ways_to_cut_agree_on_who_waits_for_what() -> None:
    rng = random.Random(5)
    for _ in range(200):
        nodes, waits = [], []
        for i in range(rng.randint(1, 25)):
            sources = [rng.randrange(i) for _ in range(rng.randint(0, 3))] if i else []
            nodes.append(Node(f"n{i}", "Add", tuple((s, 0) for s in sources[:2]), tuple(sources[2:]), "", {}, (F,)))
            waits.append(rng.random() < 0.3)
        # The asynchronous ops that each node depends on; those that its segment waits for, through other segments too.
        needs: list[set[int]] = []
        for node in nodes:
            sources = [*[s for s, _ in node.inputs], *node.control]
            needs.append(set().union(*(needs[s] | ({s} if waits[s] else set()) for s in sources)))
        ops = [i for i, wait in enumerate(waits) if wait]
        for exact in (0, 100):
            found = segments.cut(nodes, waits, exact)
            direct: list[set[int]] = [set() for _ in found.waits]
            for _ in nodes:
                for op, dependents in zip(ops, found.dependents):
                    for segment in dependents:
                        direct[segment] |= {op} | direct[found.of[op]]
                for segment, followers in enumerate(found.followers):
                    for follower in followers:
                        direct[follower] |= direct[segment]
            assert [direct[found.of[i]] for i in range(len(nodes))] == needs


def outcome(cluster: Cluster, fetches: list[tuple[int, int]]) -> Any:
    try:
        return cluster.run(fetches)
    except errors.OpError as error:
        assert not error.derived and "{{node" in error.message
        return type(error), "division by zero" in error.message


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 14), st.sampled_from([0.0, 1.0]))
def test_random_programs_fail_alike_and_end(seed: int, size: int, busy: float) -> None:
    rng = random.Random(seed)
    program = Program(rng, ["", A, *PLACES], size, failing=0.08)
    fetches = rng.sample(program.values, min(4, len(program.values)))
    alone = Cluster({"a": 1})
    alone.extend(stripped(program.builder.nodes))
    many = Cluster({"a": 1, "b": 2}, devices=2, seed=seed)
    many.busy_s = busy
    many.extend(program.builder.nodes)
    for cluster in (alone, many):
        cluster.run(targets=program.starts)
    assert outcome(many, fetches) == outcome(alone, fetches)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 14), st.integers(0, 60))
def test_a_step_cancelled_at_any_moment_ends(seed: int, size: int, turns: int) -> None:
    rng = random.Random(seed)
    program = Program(rng, ["", A, *PLACES], size)
    many = Cluster({"a": 1, "b": 2}, devices=2, seed=seed)
    many.busy_s = float(seed % 2)
    many.extend(program.builder.nodes)
    many.run(targets=program.starts)
    fetches = rng.sample(program.values, min(4, len(program.values)))
    step = Step(many, len(fetches))
    step.start(many.plan([], fetches), [])
    many.loop.run(turns)
    over = step.left == 0
    for context in step.contexts.values():
        context.cancel(errors.AbortedError(None, None, "enough"))
    try:
        step.finish()
    except errors.AbortedError as error:
        assert not over and "enough" in error.message


def test_cond_on_two_tasks_sends_only_what_is_taken() -> None:
    b = Builder()
    x = b.placeholder(name="x")
    pred = b.binary("Less", x, b.const(0.0), A, dtypes.bool_)
    then, otherwise = Builder("t/"), Builder("e/")
    arg = then.arg()
    then.ret(then.binary("Add", arg, arg, B))
    arg = otherwise.arg()
    otherwise.ret(otherwise.binary("Mul", otherwise.add("Identity", [arg], device=C), arg, A))
    index = b.branch(pred, [x], [then, otherwise], [F])
    out = b.add("Identity", [(index, 0)], device=A)
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    assert cluster.run([out], {x: np.float64(-3)}) == [-6]
    assert cluster.run([out], {x: np.float64(3)}) == [9]


def counting(turns: float, body_device: str, cond_device: str) -> tuple[Builder, int]:
    b = Builder()
    start, step = b.const(0.0), b.const(1.0, C)
    cond, body = Builder("c/"), Builder("b/")
    args = [cond.arg(), cond.arg(), cond.arg()]
    cond.ret(cond.binary("Less", args[0], cond.const(turns), cond_device, dtypes.bool_))
    args = [body.arg(), body.arg(), body.arg()]
    following = body.binary("Add", args[0], args[2], body_device)
    total = body.binary("Add", args[1], following, B)
    for value in (following, total, total):
        body.ret(value)
    return b, b.loop([start, start], [step], cond, body, [F, F])


def test_while_over_three_tasks() -> None:
    b, loop = counting(6, A, C)
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    assert cluster.run([(loop, 0), (loop, 1), (loop, 3)]) == [6, 21, 6]
    parts = cluster.plan(fetches=[(loop, 1)])
    assert {part.task.split("/")[1] + part.task[-1] for part in parts} == {"job:a0", "job:b0", "job:b1"}
    for part in parts:
        for node in part.nodes:
            if node.op == "While":
                assert node.attrs["saved"] == ()


def test_saved_values_of_a_loop_are_listed_in_order() -> None:
    b, loop = counting(4, A, A)
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    saved, turns = cluster.run([(loop, 2), (loop, 3)])
    assert saved == [1, 3, 6, 10] and turns == 4


def test_a_loop_of_many_turns_needs_no_recursion() -> None:
    b, loop = counting(3000, A, A)
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    assert cluster.run([(loop, 0)]) == [3000]


def test_a_read_of_a_variable_elsewhere_follows_control_dependencies() -> None:
    b = Builder()
    v = b.variable("v", B)
    start = b.assign("Assign", v, b.const(1.0))
    add = b.assign("AssignAdd", v, b.const(5.0, C))
    after = b.add("Identity", [v], device=A, control=[add[0]], name="after")
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    cluster.run(targets=[start[0]])
    for k in range(1, 4):
        assert cluster.run([after]) == [1 + 5 * k]


def test_each_iteration_reads_a_captured_variable_anew() -> None:
    b = Builder()
    v = b.variable("v", B)
    start = b.assign("Assign", v, b.const(10.0))
    zero = b.const(0.0)
    cond, body = Builder("c/"), Builder("b/")
    args = [cond.arg(), cond.arg(), cond.arg(F.ref)]
    cond.ret(cond.binary("Less", args[0], cond.const(3.0), A, dtypes.bool_))
    i, total, ref = body.arg(), body.arg(), body.arg(F.ref)
    added = body.assign("AssignAdd", ref, body.const(1.0))
    read = body.add("Identity", [ref], device=C, control=[added[0]])
    body.ret(body.binary("Add", i, body.const(1.0), A))
    body.ret(body.binary("Add", total, read, A))
    loop = b.loop([zero, zero], [v], cond, body, [F, F])
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    cluster.run(targets=[start[0]])
    assert cluster.run([(loop, 1)]) == [11 + 12 + 13]


def test_an_error_in_a_part_ends_the_others_and_names_node_and_task() -> None:
    b = Builder()
    x = b.placeholder(name="x")
    bad = b.add("MatMul", [x, x], device=B, name="bad", transpose_a=False, transpose_b=False)
    out = b.add("Identity", [bad], device=A)
    other = b.add("Identity", [b.add("Identity", [bad], device=C)], device=A)
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    with pytest.raises(errors.InvalidArgumentError) as raised:
        cluster.run([out, other], {x: np.ones((2, 3))})
    assert "{{node bad}}" in raised.value.message and raised.value.message.count("{{node") == 1
    assert raised.value.origin == "/job:b/replica:0/task:0" and not raised.value.derived


def test_uninitialised_variable_read_elsewhere() -> None:
    b = Builder()
    v = b.variable("v", B)
    out = b.binary("Add", b.add("Identity", [v], device=A), b.const(1.0), A)
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    with pytest.raises(errors.FailedPreconditionError, match="Attempting to use uninitialized value v"):
        cluster.run([out])


def test_values_pass_the_copy_hooks_of_their_device() -> None:
    moved: list[str] = []

    @register
    class Fake(Device):
        """Its values are numpy's, in a list of one."""

        type = "FAKE"

        @staticmethod
        def copy_in(value: Any) -> Any:
            moved.append("in")
            return [value]

        @staticmethod
        def copy_out(value: Any) -> Any:
            moved.append("out")
            return value[0]

    fake = Fake("/job:a/replica:0/task:0", 0, 7)
    b = Builder()
    x, near, const = b.placeholder(name="x"), b.const(2.0, A + "/cpu:0"), b.const(5.0, fake.name)
    come = b.add("Identity", [near], device=fake.name)
    fed = b.add("Identity", [x], device=fake.name)
    back = b.binary("Add", come, b.add("Identity", [const], device=A + "/cpu:0"), A + "/cpu:0")
    # Kernels get the device's own values, and operators do other things to lists than numpy's functions do.
    total = b.binary("TestAdd", b.binary("Mul", come, come, fake.name), const, fake.name)
    there = b.add("TestUnlist", [total], device=fake.name)
    cluster = Cluster({"a": 1})
    task = cluster.tasks[fake.task]
    task.devices.append(fake)
    task.envs[fake.name] = KernelEnv(fake, task.resources, compile_function)
    cluster.placer.devices.learn(fake.task, [d.name for d in task.devices])
    cluster.extend(b.nodes)
    assert cluster.run([back, fed, there], {x: np.float64(3)}) == [7, 3, 9]
    assert sorted(moved) == ["in"] * 3 + ["out"] * 4


def most_waiting(cluster: Cluster, fetches: list[tuple[int, int]]) -> tuple[list[Any], int]:
    """Run a step; what it yields, and how many tensors waited at one task at the most."""
    step = Step(cluster, len(fetches))
    most = 0
    step.start(cluster.plan([], fetches), [])
    while cluster.loop.ready:
        cluster.loop.run(1)
        most = max(most, *(len(context.exchange.values) for context in step.contexts.values()))  # type: ignore[union-attr]  # ours
    return step.finish(), most


@pytest.mark.parametrize("busy", [0.0, 1.0])
@pytest.mark.parametrize(("window", "turns"), [(10, 300), (1, 50), (10, 4), (10, 10), (3, 0)])
def test_no_share_of_a_loop_runs_far_ahead(busy: float, window: int, turns: int) -> None:
    # A counts, B adds up what A sends, C adds up what B sends: nothing ever goes back.
    b = Builder()
    zero = b.const(0.0)
    cond, body = Builder("c/"), Builder("b/")
    cond.ret(cond.binary("Less", cond.arg(), cond.const(float(turns)), A, dtypes.bool_))
    i, first, second = body.arg(), body.arg(), body.arg()
    following = body.binary("Add", i, body.const(1.0), A)
    total = body.binary("Add", first, following, B)
    for value in (following, total, body.binary("Add", second, total, C)):
        body.ret(value)
    for _ in range(2):
        cond.arg()
    loop = b.loop([zero, zero, zero], [], cond, body, [F, F, F], parallel_iterations=window)
    cluster = Cluster({"a": 1, "b": 2})
    cluster.busy_s = busy
    cluster.extend(b.nodes)
    sums = np.cumsum(np.arange(1, turns + 1.0))
    results, most = most_waiting(cluster, [(loop, 0), (loop, 1), (loop, 2)])
    assert results == [turns, sums[-1] if turns else 0, sums.sum()]
    # Per iteration A sends B the predicate and the number; B sends C the sum; and there is one signal back for each.
    assert most <= 4 * (window + 2)


def test_shares_that_wait_for_each_other_anyhow_need_no_window() -> None:
    b, loop = counting(6, A, C)
    cluster = Cluster({"a": 1, "b": 2})
    cluster.extend(b.nodes)
    windows = [
        (part.task, node.attrs["send_device"])
        for part in cluster.plan(fetches=[(loop, 1)])
        for outer in part.nodes if outer.op == "While"
        for node in outer.attrs["body"].nodes if node.op == "_Recv" and "window" in node.attrs
    ]  # fmt: skip
    # C tells A and B whether to go on, and has the counter from A: only B sends nothing back.
    assert sorted(task for task, _ in windows) == ["/job:a/replica:0/task:0", "/job:b/replica:0/task:1"]
    assert {device.partition("/device")[0] for _, device in windows} == {"/job:b/replica:0/task:0"}
