"""Optimized programs compute what others do; wrong passes are found; and the switches of a session's configuration."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfzmq.base import errors
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.plan.optimize import run
from dtfzmq.plan.optimize.passes import Options
from dtfzmq.plan.optimize.run import optimize, options_of
from dtfzmq.plan.prune import prune
from tests.runtime.programs import Builder, Edge, Wasteful, stripped
from tests.runtime.simulated import Cluster

D = "/job:a/replica:0/task:0/device:CPU:0"
A, B, C = "/job:a/task:0", "/job:b/task:0", "/job:b/task:1"
PLACES = [f"{task}/cpu:{k}" for task in (A, B, C) for k in range(2)]
ALL = Options()


def optimized(b: Builder, fetches: list[Edge], targets: list[int] | None = None) -> list[Node]:
    return optimize(prune(b.nodes, [], fetches, targets or []).nodes, ALL)


def config(**optimizer: Any) -> dict[str, Any]:
    return {"graph_options": {"optimizer_options": optimizer}}


def test_switches() -> None:
    every = frozenset(run.PASSES)
    assert options_of({}).only == options_of(config(opt_level=0)).only == every
    assert options_of(config(opt_level=-1)).only == frozenset()
    assert options_of(config(opt_level=-1, do_constant_folding=True)).only == {"folding"}
    assert options_of(config(do_common_subexpression_elimination=False)).only == every - {"common"}
    assert options_of(config(max_folded_constant_in_bytes=5)).max_folded == 5
    b = Builder()
    nodes = prune(b.nodes, [], [b.const(1.0, D)], []).nodes
    assert optimize(nodes, options_of(config(opt_level=-1))) is nodes


def cluster(nodes: list[Node], optimizer: Options | None = ALL, seed: int | None = None) -> Cluster:
    made = Cluster({"a": 1, "b": 2}, devices=2, seed=seed, optimizer=optimizer)
    made.extend(nodes)
    return made


def compare(seed: int, size: int, options: Options) -> None:
    program = Wasteful(random.Random(seed), ["", A, *PLACES], size)
    fetches = program.rng.sample(program.values, min(4, len(program.values)))
    alone = Cluster({"a": 1})
    alone.extend(stripped(program.builder.nodes))
    many = cluster(program.builder.nodes, options, seed)
    many.busy_s = float(seed % 2)
    for one in (alone, many):
        one.run(targets=program.starts)
    assert many.run(fetches) == alone.run(fetches)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 30))
def test_random_programs_compute_the_same(seed: int, size: int) -> None:
    compare(seed, size, ALL)


@pytest.mark.parametrize("name", sorted(run.PASSES))
def test_each_pass_alone_changes_no_result(name: str) -> None:
    for seed in range(6):
        compare(seed, 25, Options(frozenset([name])))


def test_random_programs_give_the_passes_something_to_do() -> None:
    left_out = inlined = 0
    for seed in range(20):
        program = Wasteful(random.Random(seed), [D], 30)
        nodes = prune(program.builder.nodes, [], program.values[-4:], []).nodes
        before = len(nodes)
        nodes = optimize(nodes, ALL)
        left_out += before - len(nodes)
        inlined += sum(opdef.INLINE in node.attrs for node in nodes)
    assert left_out > 60 and inlined > 20


def test_a_pass_that_breaks_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(nodes: list[Node], keep: frozenset[int], options: Options) -> list[Node]:
        return nodes[::-1]

    def loses(nodes: list[Node], keep: frozenset[int], options: Options) -> list[Node]:
        return nodes[1:]

    b = Builder()
    alone = b.placeholder(D, name="alone")
    out = b.add("Neg", [b.placeholder(D)], device=D)
    monkeypatch.setitem(run.PASSES, "planted", backwards)
    with pytest.raises(errors.InternalError, match="After optimize planted: .*sources stand before"):
        optimized(b, [out])
    monkeypatch.setitem(run.PASSES, "planted", loses)
    with pytest.raises(errors.InternalError, match="After optimize planted: node 'alone' is lost"):
        optimized(b, [], targets=[alone[0]])


def test_a_pass_that_computes_something_else_is_found_by_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    def swaps(nodes: list[Node], keep: frozenset[int], options: Options) -> list[Node]:
        for node in nodes:
            if node.op == "Sub":
                node.inputs = node.inputs[::-1]
        return list(nodes)

    monkeypatch.setitem(run.PASSES, "planted", swaps)
    with pytest.raises(AssertionError):
        for seed in range(20):
            compare(seed, 25, ALL)
