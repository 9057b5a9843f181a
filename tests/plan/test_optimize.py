"""Each pass of optimize: what it leaves out, what it leaves alone; and that nothing computes another result."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import dtypes, errors
from dtfzmq.base.dtypes import DType
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.plan.optimize import common, folding
from dtfzmq.plan.optimize.passes import Options
from dtfzmq.plan.optimize.run import optimize
from dtfzmq.plan.prune import prune
from tests.runtime import running
from tests.runtime.programs import Builder, Edge, F
from tests.runtime.simulated import Cluster

D = "/job:a/replica:0/task:0/device:CPU:0"
OTHER = "/job:b/replica:0/task:0/device:CPU:0"
A, B = "/job:a/task:0", "/job:b/task:0"
ALL = Options()


def only(*names: str) -> Options:
    return Options(frozenset(names))


def optimized(b: Builder, fetches: list[Edge], options: Options = ALL, targets: list[int] | None = None) -> list[Node]:
    return optimize(prune(b.nodes, [], fetches, targets or []).nodes, options)


def names(nodes: list[Node]) -> list[str]:
    return [node.name for node in nodes]


def by_name(nodes: list[Node], name: str) -> Node:
    (found,) = [node for node in nodes if node.name == name]
    return found


# -- folding ----------------------------------------------------------------------------------------------------------


def test_operations_over_constants_become_constants() -> None:
    b = Builder()
    two = b.const([1.0, 2.0], D)
    total = b.binary("Add", two, two, D, name="total")
    product = b.binary("Mul", total, b.const(3.0, D), D, name="product")
    out = b.binary("Sub", product, b.placeholder(D, name="x"), D, name="out")
    nodes = optimized(b, [out], only("folding"))
    assert [n.op for n in nodes] == ["Const", "Placeholder", "Sub", "_Retval"]
    folded = by_name(nodes, "product")
    assert folded.device == D and folded.attrs["value"].tolist() == [6.0, 12.0]
    assert folded.attrs["dtype"] is F and folded.dtypes == (F,)


def test_a_fetched_operation_is_folded_under_its_name() -> None:
    b = Builder()
    out = b.binary("Add", b.const(1.0, D), b.const(2.0, D), D, name="sum")
    nodes = optimized(b, [out])
    assert [(n.name, n.op) for n in nodes][:1] == [("sum", "Const")]
    assert nodes[0].attrs["value"] == 3.0


def test_a_target_is_not_folded() -> None:
    b = Builder()
    out = b.binary("Add", b.const(1.0, D), b.const(2.0, D), D, name="sum")
    assert by_name(optimized(b, [], targets=[out[0]]), "sum").op == "Add"


def test_random_numbers_waits_and_failures_are_not_folded() -> None:
    b = Builder()
    one = b.const(1.0, D)
    fails = b.add("TestFail", [one], device=D, name="fails")
    shape = b.const([2], D, dtypes.int32)
    rand = b.add("RandomUniform", [shape], (F,), D, name="rand", seed=0, seed2=0, dtype=F)
    waits = b.binary("Add", one, one, D, name="waits", control=[rand[0]])
    fetches = [b.binary("Add", x, one, D) for x in (fails, rand, waits)]
    assert {"fails", "rand", "waits"} <= set(names(optimized(b, fetches)))
    with pytest.raises(errors.OpError, match=r"\{\{node fails\}\}"):
        cluster = Cluster({"a": 1}, optimizer=ALL)
        cluster.extend(b.nodes)
        cluster.run([fetches[0]])


def test_large_results_stay_operations() -> None:
    def fill(size: int, limit: int = 0) -> str:
        b = Builder()
        made = b.add("Fill", [b.const([size], D, dtypes.int64), b.const(1.0, D)], device=D, name="fill")
        return by_name(optimized(b, [b.add("Neg", [made], device=D)], Options(max_folded=limit)), "fill").op

    assert fill(10**13) == "Fill"  # would not fit into memory: its size is known before
    assert fill(100_000) == "Fill"
    b = Builder()
    x = b.const(np.ones(20_000), D)
    nodes = optimized(b, [b.add("Neg", [b.add("Neg", [x], device=D, name="inner")], device=D)], only("folding"))
    assert [n.op for n in nodes] == ["Const", "_Retval"]  # no larger than what it replaces
    b = Builder()
    made = b.add("Fill", [b.const([100], D, dtypes.int32), b.const(1.0, D)], device=D, name="fill")
    out = b.binary("Add", made, b.placeholder(D), D)
    assert by_name(optimized(b, [out], Options(max_folded=799)), "fill").op == "Fill"
    assert by_name(optimized(b, [out], Options(max_folded=800)), "fill").op == "Const"


def test_what_waited_for_constants_does_not_wait() -> None:
    b = Builder()
    one = b.const(1.0, D)
    out = b.binary("Add", one, one, D, control=[one[0]], name="sum")
    assert by_name(optimized(b, [b.binary("Add", out, b.placeholder(D), D)]), "sum").op == "Const"


# -- identities -------------------------------------------------------------------------------------------------------


def kept_middle(op: str, *inputs: Any, dtype: DType = F, **more: Any) -> bool:
    """Whether the node between a placeholder and a fetched Neg stays; "x" among the inputs is the placeholder."""
    b = Builder()
    x = b.placeholder(D, dtype, name="x")
    sources = [x if value == "x" else b.const(value, D, dtype) for value in inputs]
    middle = b.add(op, sources, (dtype,), D, name="middle", **more)
    nodes = optimized(b, [b.add("Neg", [middle], (dtype,), D)], only("identities"))
    if "middle" not in names(nodes):
        assert [n.op for n in nodes] == ["Placeholder", "Neg", "_Retval"]
        return False
    return True


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Identity", ["x"]), ("StopGradient", ["x"]), ("Mul", ["x", 1.0]), ("Mul", [1.0, "x"]), ("RealDiv", ["x", 1.0]),
        ("Add", ["x", -0.0]), ("Add", [-0.0, "x"]), ("Sub", ["x", 0.0]),
    ],
)  # fmt: skip
def test_operations_that_change_nothing_are_left_out(op: str, inputs: list[Any]) -> None:
    assert not kept_middle(op, *inputs)


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("Mul", ["x", 2.0]), ("Mul", ["x", [1.0]]), ("Mul", ["x", math.nan]), ("RealDiv", [1.0, "x"]),
        # A negative zero would become a positive one.
        ("Add", ["x", 0.0]), ("Sub", ["x", -0.0]), ("Sub", [0.0, "x"]), ("Neg", ["x"]),
    ],
)  # fmt: skip
def test_operations_that_may_change_something_stay(op: str, inputs: list[Any]) -> None:
    assert kept_middle(op, *inputs)


def test_integers_have_one_zero() -> None:
    assert not kept_middle("Add", "x", 0, dtype=dtypes.int32)
    assert not kept_middle("Cast", "x", dtype=dtypes.int32, DstT=dtypes.int32)


def test_a_cast_to_another_type_stays() -> None:
    b = Builder()
    x = b.placeholder(D, dtypes.int32)
    out = b.add("Neg", [b.add("Cast", [x], (F,), D, name="cast", DstT=F)], device=D)
    assert "cast" in names(optimized(b, [out]))


def test_what_undoes_the_operation_before_is_left_out_with_it() -> None:
    b = Builder()
    x = b.placeholder(D)
    perm, back, other = ([2, 0, 1], [1, 2, 0], [0, 2, 1])
    p, q, r = (b.const(v, D, dtypes.int32) for v in (perm, back, other))
    first = b.add("Transpose", [x, p], device=D)
    there = b.add("Transpose", [first, q], device=D)
    elsewhere = b.add("Transpose", [first, r], device=D, name="elsewhere")
    twice = b.add("Neg", [b.add("Neg", [there], device=D)], device=D)
    nodes = optimized(b, [b.add("Exp", [twice], device=D)])
    assert [n.op for n in nodes] == ["Placeholder", "Exp", "_Retval"]
    assert "elsewhere" in names(optimized(b, [b.add("Exp", [elsewhere], device=D)]))


def test_an_identity_stays_where_it_is_asked_for_waits_reads_or_moves() -> None:
    b = Builder()
    x = b.placeholder(D)
    variable = b.variable("v", D)
    asked = b.add("Identity", [x], device=D, name="asked")
    waits = b.add("Identity", [x], device=D, name="waits", control=[variable[0]])
    reads = b.add("Identity", [variable], device=D, name="reads")
    moves = b.add("Identity", [x], device=OTHER, name="moves")
    target = b.add("Identity", [x], device=D, name="target")
    out = b.add("AddN", [waits, reads, moves, asked], device=D, N=4, T=F)
    stay = {"asked", "waits", "reads", "moves", "target"}
    assert stay <= set(names(optimized(b, [out, asked], targets=[target[0]])))


def test_who_waits_for_what_is_left_out_waits_for_its_source() -> None:
    b = Builder()
    queue = b.add("TestCall", [b.placeholder(D)], device=D, name="queue")
    same = b.add("Identity", [queue], device=D, name="same")
    after = b.add("Neg", [b.placeholder(D)], device=D, control=[same[0]], name="after")
    nodes = optimized(b, [after])
    assert names(nodes).count("same") == 0
    assert [nodes[s].name for s in by_name(nodes, "after").control] == ["queue"]


# -- common subexpressions --------------------------------------------------------------------------------------------


def test_equal_operations_are_computed_once() -> None:
    b = Builder()
    x = b.placeholder(D)
    sums = [b.binary("Add", x, b.const(1.5, D), D, name=f"sum{k}") for k in range(3)]
    out = b.add("AddN", [b.add("Exp", [s], device=D) for s in sums], device=D, N=3, T=F)
    nodes = optimized(b, [out], only("common"))
    assert [n.op for n in nodes] == ["Placeholder", "Const", "Add", "Exp", "AddN", "_Retval"]
    assert "sum0" in names(nodes) and nodes[4].inputs == ((3, 0),) * 3


def test_operations_that_differ_are_not_merged() -> None:
    b = Builder()
    x, y = b.placeholder(D), b.placeholder(D)
    variable = b.variable("v", D)
    one = b.const(1.0, D)

    def cast(dtype: DType) -> Edge:
        return b.add("Cast", [x], (dtype,), D, DstT=dtype)

    pairs = [
        (b.binary("Sub", x, y, D), b.binary("Sub", y, x, D)),
        (b.add("Exp", [x], device=D), b.add("Exp", [x], device=OTHER)),
        (b.add("Exp", [y], device=D), b.add("Exp", [y], device=D, control=[variable[0]])),
        (b.add("Identity", [variable], device=D), b.add("Identity", [variable], device=D)),
        (b.const(1.0, D, dtypes.float32), b.const(1.0, D, dtypes.int32)),
        (cast(dtypes.int32), cast(dtypes.int64)),
        (b.const(0.0, D), b.const(-0.0, D)),
        (b.add("TestGate", [one], device=D), b.add("TestGate", [one], device=D)),
    ]
    uses = [b.add("TestTwo", [source], (b.nodes[source[0]].dtypes[0],) * 2, D) for pair in pairs for source in pair]
    before = {b.nodes[s].name for pair in pairs for s, _ in pair}
    assert before <= set(names(optimized(b, uses, only("common"))))


def test_fetched_operations_are_never_merged_away() -> None:
    b = Builder()
    x = b.placeholder(D)
    first, second = (b.add("Exp", [x], device=D, name=f"exp{k}") for k in range(2))
    assert {"exp0", "exp1"} <= set(names(optimized(b, [first, second])))


def test_placeholders_are_not_one() -> None:
    b = Builder()
    out = b.binary("Add", b.placeholder(D, name="x"), b.placeholder(D, name="y"), D)
    assert {"x", "y"} <= set(names(optimized(b, [out])))


# -- waits ------------------------------------------------------------------------------------------------------------


def test_waits_that_say_nothing_new_go() -> None:
    b = Builder()
    x = b.placeholder(D)
    first = b.add("TestCall", [x], device=D)
    second = b.add("TestCall", [x], device=D, control=[first[0]])
    one = b.const(1.0, D)
    third = b.add("TestCall", [second], device=D, control=[first[0], second[0], one[0]], name="third")
    fourth = b.add("TestCall", [x], device=D, control=[third[0], second[0]], name="fourth")
    nodes = optimized(b, [fourth], only("waits"))
    assert by_name(nodes, "third").control == ()
    assert [nodes[s].name for s in by_name(nodes, "fourth").control] == ["third"]


def test_who_reads_a_variable_says_in_full_what_it_waits_for() -> None:
    b = Builder()
    v = b.variable("v", B)
    start = b.assign("Assign", v, b.const(1.0, B))
    add = b.assign("AssignAdd", v, b.const(5.0, B), control=[start[0]])
    after = b.add("Identity", [b.add("Identity", [v], device=B, control=[add[0]])], device=A)
    read = b.binary("Add", v, after, A, control=[add[0], after[0]], name="read")
    nodes = optimized(b, [read], only("waits"))
    assert len(by_name(nodes, "read").control) == 2


# -- chains -----------------------------------------------------------------------------------------------------------


def marked(nodes: list[Node]) -> set[str]:
    return {n.name for n in nodes if opdef.INLINE in n.attrs}


def test_chains_are_marked_up_to_their_last_node() -> None:
    b = Builder()
    x, y = b.placeholder(D), b.placeholder(D)
    first = b.binary("Add", x, y, D, name="first")
    second = b.binary("Mul", first, first, D, name="second")
    third = b.add("Exp", [second], device=D, name="third")
    total = b.add("Sum", [third, b.const(0, D, dtypes.int32)], device=D, keep_dims=False)
    shared = b.add("Neg", [x], device=D, name="shared")
    uses = [b.add("Exp", [shared], device=D) for _ in range(2)]
    waited = b.add("Neg", [y], device=D, name="waited")
    reader = b.add("Exp", [waited], device=D)
    after = b.add("Exp", [x], device=D, control=[waited[0]])
    apart = b.add("Exp", [b.add("Neg", [x], device=D, name="apart")], device=OTHER)
    compared = b.binary("Less", b.add("Neg", [x], device=D, name="compared"), y, D, dtypes.bool_)
    nodes = optimized(b, [total, *uses, reader, after, apart, compared], only("chains"))
    assert marked(nodes) == {"first", "second"}


def test_long_chains_are_cut() -> None:
    b = Builder()
    x = b.placeholder(D)
    for _ in range(1000):
        x = b.add("Neg", [x], device=D)
    assert len(marked(optimized(b, [x], only("chains")))) == 984


def test_a_fetched_node_is_not_within_a_chain() -> None:
    b = Builder()
    inner = b.add("Neg", [b.placeholder(D)], device=D)
    outer = b.add("Exp", [inner], device=D)
    assert not marked(optimized(b, [inner, outer]))


SPLITTABLE = [d for d in opdef.all_ops() if d.elementwise and not d.name.startswith("Test")]


@pytest.mark.parametrize("definition", SPLITTABLE, ids=lambda d: d.name)
def test_ops_of_chains_are_element_wise(definition: opdef.OpDef) -> None:
    sample = next(s for s in definition.samples if s.fails is None)
    args = [np.asarray(a) for a in sample.args]
    kinds = tuple(dtypes.of_array(a) for a in args)
    args = [a.reshape(-1) for a in np.broadcast_arrays(*args)]
    node = Node("n", definition.name, tuple((i, 0) for i in range(len(args))), (), D, dict(sample.attrs), kinds[:1])
    for spec in definition.signature.attrs:
        node.attrs.setdefault(spec.name, spec.default)
    kernel = definition.make(node, running.env()) if definition.make else definition.kernel
    assert kernel is not None
    if args[0].dtype == object:
        return
    with np.errstate(all="ignore"):
        whole = kernel(*args)
        parts = [kernel(*[a[k : k + 1] for a in args]) for k in range(args[0].size)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-6)


# -- all together -----------------------------------------------------------------------------------------------------


def test_subgraphs_are_optimized_too() -> None:
    b = Builder()
    x = b.placeholder(D, name="x")
    pred = b.binary("Less", x, b.const(0.0, D), D, dtypes.bool_)
    branches = []
    for name in "te":
        inner = Builder(f"{name}/")
        arg = inner.arg()
        total = inner.binary("Add", inner.const(1.0, D), inner.const(2.0, D), D)
        same = [inner.add("Exp", [arg], device=D) for _ in range(2)]
        inner.ret(inner.add("AddN", [*same, total], device=D, N=3, T=F))
        branches.append(inner)
    index = b.branch(pred, [x], branches, [F])
    nodes = optimized(b, [b.add("Neg", [(index, 0)], device=D)])
    for attr in ("then_branch", "else_branch"):
        (flow,) = [n for n in nodes if n.op == "If"]
        assert sorted(n.op for n in flow.attrs[attr].nodes) == ["AddN", "Const", "Exp", "_Arg", "_Retval"]


def test_ten_thousand_nodes_take_little_time() -> None:
    b = Builder()
    x = b.placeholder(D)
    y = x
    for _ in range(10_000):
        y = b.binary("Add", y, x, D)
    nodes = prune(b.nodes, [], [y], []).nodes
    start = time.thread_time()
    optimize(nodes, ALL)
    assert time.thread_time() - start < 0.25  # measured: 0.02


def test_folding_of_one_graph_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def folded(op: str, **more: Any) -> int:
        b = Builder()
        x = b.const(1.0, D)
        for k in range(20):
            x = b.add(op, [x], device=D, name=f"n{k}", **more)
        nodes = optimized(b, [b.binary("Add", x, b.placeholder(D), D)], Options(frozenset(["folding"])))
        return 20 - sum(n.op == op for n in nodes)

    assert folded("Neg") == folded("ZerosLike") == 20
    monkeypatch.setattr(folding, "MOST_ASKED", 7)
    assert folded("Neg") == 20 and folded("ZerosLike") == 7
    monkeypatch.setattr(folding, "MOST", 5)
    assert folded("Neg") == 5


@pytest.mark.parametrize("differ", ["control", "device", "attribute"])
def test_operations_that_read_the_same_are_compared_with_few(monkeypatch: pytest.MonkeyPatch, differ: str) -> None:
    compared: list[str] = []
    same = common._same

    def counted(a: Node, b: Node) -> bool:
        compared.append(b.name)
        return same(a, b)

    monkeypatch.setattr(common, "_same", counted)
    b = Builder()
    x = last = b.placeholder(D)
    count, fetches = 400, []
    for k in range(count):
        control = [last[0]] if differ == "control" else []
        device = f"/job:a/replica:0/task:{k}/device:CPU:0" if differ == "device" else D
        last = b.add("Neg", [x], device=device, control=control, number=k if differ == "attribute" else 0)
        fetches.append(last)
    twin = b.add("Neg", [x], device=D, control=b.nodes[fetches[0][0]].control, number=0)
    nodes = optimized(b, [*fetches, b.add("Exp", [twin], device=D, name="reads")], only("common"))
    assert sum(n.op == "Neg" for n in nodes) == count, "the twin alone is the same as another"
    assert len(compared) <= 20 * count
