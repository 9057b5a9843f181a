"""Pruning: what is kept, what feeds replace, TensorFlow's texts for what cannot be."""

from __future__ import annotations

import sys

import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.node import Node
from dtfzmq.plan.part import Pruned
from dtfzmq.plan.prune import prune
from dtfzmq.plan.verify import verify
from tests.runtime.programs import Builder, F


def kept(pruned: Pruned) -> list[str]:
    verify("prune", pruned.nodes)
    return [n.name for n in pruned.nodes if n.op not in ("_Arg", "_Retval")]


def test_keeps_exactly_what_leads_to_fetches_and_targets() -> None:
    b = Builder()
    a, c = b.const(1, name="a"), b.const(2, name="c")
    s = b.binary("Add", a, c, name="s")
    b.binary("Mul", s, s, name="unused")
    t = b.add("NoOp", types=(), control=[s[0]], name="t")
    assert kept(prune(b.nodes, [], [s], [])) == ["a", "c", "s"]
    assert kept(prune(b.nodes, [], [], [t[0]])) == ["a", "c", "s", "t"]
    pruned = prune(b.nodes, [], [c], [])
    assert kept(pruned) == ["c"] and pruned.origins == [1, -1]


def test_a_feed_replaces_one_output_and_prunes_its_producers() -> None:
    b = Builder()
    x = b.placeholder(name="x")
    y = b.binary("Add", x, x, name="y")
    z = b.binary("Mul", y, y, name="z")
    pruned = prune(b.nodes, [y], [z], [])
    assert kept(pruned) == ["z"]
    arg = pruned.nodes[0]
    assert arg.op == "_Arg" and arg.attrs == {"index": 0} and pruned.nodes[1].inputs == ((0, 0), (0, 0))


def test_only_the_fed_output_is_replaced() -> None:
    b = Builder()
    x = b.const([1.0, 2.0], name="x")
    two = b.add("Split", [b.const(0, dtype=dtypes.int32), x], (F, F), num_split=2)
    s = b.binary("Add", (two[0], 0), (two[0], 1), name="s")
    pruned = prune(b.nodes, [(two[0], 0)], [s], [])
    assert "x" in kept(pruned)
    (add,) = [n for n in pruned.nodes if n.name == "s"]
    assert pruned.nodes[add.inputs[0][0]].op == "_Arg" and pruned.nodes[add.inputs[1][0]].op == "Split"


def test_control_edges_of_a_fed_node_stay_unless_it_is_a_placeholder() -> None:
    b = Builder()
    x = b.placeholder(name="x")
    y = b.add("Identity", [x], name="y")
    out = b.add("NoOp", types=(), control=[x[0], y[0]], name="out")
    assert kept(prune(b.nodes, [x, y], [], [out[0]])) == ["y", "out"]


def test_a_fed_variable_is_a_value() -> None:
    b = Builder()
    v = b.variable("v")
    out = b.add("Identity", [v], name="out")
    pruned = prune(b.nodes, [v], [out], [])
    assert kept(pruned) == ["out"] and pruned.nodes[0].dtypes == (F,)


@pytest.mark.parametrize(
    ("feeds", "fetches", "targets", "text"),
    [
        ([], [], [], "Must specify at least one target to fetch or execute."),
        ([(0, 0), (0, 0)], [(1, 0)], [], 'Endpoint "x:0" fed more than once.'),
        ([(0, 0)], [(0, 0)], [], "x:0 is both fed and fetched."),
        ([], [(1, 9)], [], "FetchOutputs y:9: output index too large, must be < 1"),
        ([(0, 3)], [(1, 0)], [], "FeedInputs: x:3: output index too large, must be < 1"),
        ([], [(2, 0)], [], "Tried to fetch data for 'n:0', which produces no output."),
    ],
)
def test_impossible_requests(
    feeds: list[tuple[int, int]], fetches: list[tuple[int, int]], targets: list[int], text: str
) -> None:
    b = Builder()
    x = b.placeholder(name="x")
    b.add("Identity", [x], name="y")
    b.add("NoOp", types=(), name="n")
    with pytest.raises(errors.InvalidArgumentError) as raised:
        prune(b.nodes, feeds, fetches, targets)
    assert text in raised.value.message


def branchy() -> tuple[Builder, int]:
    """An If of three outputs, the third for gradients only."""
    b = Builder()
    x, y = b.placeholder(name="x"), b.placeholder(name="y")
    pred = b.binary("Less", x, y, dtype=dtypes.bool_, name="pred")
    branches = []
    for k in range(2):
        inner = Builder(f"{k}/")
        p, q = inner.arg(), inner.arg()
        first, second = inner.add("Neg", [p], name="first"), inner.add("Neg", [q], name="second")
        for value in (first, second, inner.add("Neg", [second], name="third")):
            inner.ret(value)
        branches.append(inner)
    return b, b.branch(pred, [x, y], branches, [F, F, F], n_results=2, name="if")


def test_unread_outputs_of_an_if_go_with_all_they_need() -> None:
    b, index = branchy()
    pruned = prune(b.nodes, [], [(index, 1)], [])
    verify("prune", pruned.nodes)
    (node,) = [n for n in pruned.nodes if n.op == "If"]
    assert node.dtypes == (F,) and len(node.inputs) == 2
    assert [n.name for n in node.attrs["then_branch"].nodes if n.op == "Neg"] == ["0/second"]


def test_an_if_that_is_a_target_keeps_its_results_but_nothing_for_gradients() -> None:
    b, index = branchy()
    pruned = prune(b.nodes, [], [], [index])
    (node,) = [n for n in pruned.nodes if n.op == "If"]
    assert len(node.dtypes) == 2
    assert [n.name for n in node.attrs["else_branch"].nodes if n.op == "Neg"] == ["1/first", "1/second"]
    pruned = prune(b.nodes, [], [(index, 2)], [index])
    (node,) = [n for n in pruned.nodes if n.op == "If"]
    assert len(node.dtypes) == 3 and node.attrs["n_results"] == 2


def test_a_loop_saves_only_what_is_read() -> None:
    b = Builder()
    zero, more = b.const(0.0), b.const(1.0, name="more")
    cond, body = Builder("c/"), Builder("b/")
    args = [cond.arg() for _ in range(3)]
    cond.ret(cond.binary("Less", args[0], args[1], dtype=dtypes.bool_))
    args = [body.arg() for _ in range(3)]
    nxt = body.binary("Add", args[0], args[1])
    for value in (nxt, nxt, body.add("Neg", [args[2]], name="saved")):
        body.ret(value)
    loop = b.loop([zero], [b.const(1.0), more], cond, body, [F])
    for fetch, saved, more_is_kept in (((loop, 3), (), False), ((loop, 1), (1,), False), ((loop, 2), (1,), True)):
        pruned = prune(b.nodes, [], [(loop, 0), fetch], [])
        assert ("more" in kept(pruned)) is more_is_kept
        (node,) = [n for n in pruned.nodes if n.op == "While"]
        assert node.attrs["saved"] == saved and len(node.dtypes) == 2 + len(saved)
    pruned = prune(b.nodes, [], [(loop, 2)], [loop])
    (node,) = [n for n in pruned.nodes if n.op == "While"]
    assert node.attrs["saved"] == (1,) and "more" in kept(pruned)


@pytest.mark.slow
def test_a_chain_of_100_000_needs_no_recursion() -> None:
    assert sys.getrecursionlimit() <= 1000
    nodes = [Node("n0", "Const", (), (), "", {"value": None}, (F,))]
    nodes += [Node(f"n{i}", "Neg", ((i - 1, 0),), (), "", {}, (F,)) for i in range(1, 100_001)]
    pruned = prune(nodes, [], [(100_000, 0)], [])
    assert len(pruned.nodes) == 100_002
