"""Chains of element-wise ops as one kernel: every kind of input, errors, traces, and what a chain must not write to."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtfzmq.base import dtypes, errors
from dtfzmq.graph import opdef
from dtfzmq.plan.optimize.passes import Options
from dtfzmq.plan.optimize.run import optimize
from dtfzmq.plan.prune import prune
from dtfzmq.runtime import chains
from dtfzmq.runtime.chains import Chain
from dtfzmq.runtime.compile import compile_nodes
from dtfzmq.runtime.plan import Plan
from tests.runtime.programs import Builder, Edge, F
from tests.runtime.running import CALLS, TASK, Started, compiled, env, open_gate

D = f"{TASK}/device:CPU:0"
UNARY = {"Neg": np.negative, "Exp": np.exp, "Tanh": np.tanh, "Square": np.square, "Abs": np.abs}
BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Maximum": np.maximum}


def planned(b: Builder, fetches: list[Edge], inputs: list[Edge]) -> Plan:
    return compile_nodes(optimize(prune(b.nodes, inputs, fetches, []).nodes, Options()), env())


def chain_count(plan: Plan) -> int:
    return sum(type(one[1]) is Chain for chunks in plan.chunks for code in chunks for one in code)


def ran(plan: Plan, *feeds: Any) -> list[Any]:
    return Started(plan, list(feeds)).value


def random_chain(seed: int, length: int, inputs: int) -> tuple[Builder, list[Edge], Edge, Any]:
    """A tree of operations over some inputs, and the function that it is."""
    rng = random.Random(seed)
    b = Builder()
    sources = [b.placeholder(D) for _ in range(inputs)]
    steps: list[tuple[Any, list[int]]] = []
    edges = list(sources)
    unread: list[int] = []

    def pick() -> int:
        if unread and rng.random() < 0.7:
            return unread.pop(rng.randrange(len(unread)))
        return rng.randrange(inputs)

    for k in range(length):
        last = k == length - 1
        if last and len(unread) > 1:
            picked = [unread.pop(), unread.pop()]
        else:
            picked = [pick() for _ in range(rng.randint(1, 2))]
        if len(picked) == 1 and rng.random() < 0.2:
            picked *= 2
        name, fn = rng.choice(list(UNARY.items() if len(picked) == 1 else BINARY.items()))
        edges.append(b.add(name, [edges[i] for i in picked], device=D))
        steps.append((fn, picked))
        unread.append(len(edges) - 1)

    def expected(*values: Any) -> Any:
        found = list(values)
        with np.errstate(all="ignore"):
            for fn, picked in steps:
                found.append(fn(*[found[i] for i in picked]))
        return found[-1]

    return b, sources, edges[-1], expected


KINDS = ["scalars", "equal", "mixed", "broadcast", "strided", "large", "rank 0"]


def values_of(kind: str, rng: np.random.Generator, count: int) -> list[Any]:
    shapes: dict[str, Any] = {
        "equal": lambda k: rng.uniform(-1, 1, (3, 5)),
        "mixed": lambda k: np.float64(0.5) if k % 2 else rng.uniform(-1, 1, (3, 5)),
        "broadcast": lambda k: rng.uniform(-1, 1, [(3, 5), (5,), (4, 3, 5), (1, 1)][k % 4]),
        "strided": lambda k: rng.uniform(-1, 1, (6, 5)).T[::2],
        "large": lambda k: rng.uniform(-1, 1, (140_001,)),
        "scalars": lambda k: np.float64(rng.uniform(-1, 1)),
        "rank 0": lambda k: np.array(rng.uniform(-1, 1)),
    }
    return [shapes[kind](k) for k in range(count)]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(2, 12), st.integers(1, 4), st.sampled_from(KINDS))
def test_random_chains_compute_what_their_ops_do(seed: int, length: int, inputs: int, kind: str) -> None:
    b, sources, out, expected = random_chain(seed, length, inputs)
    given_values = values_of(kind, np.random.default_rng(seed), inputs)
    before = [np.copy(v) for v in given_values]
    used = prune(b.nodes, sources, [out], [])
    plan = compile_nodes(optimize(used.nodes, Options()), env())
    for _ in range(2):
        (value,) = ran(plan, *given_values)
        wanted = expected(*given_values)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        assert np.shape(value) == np.shape(wanted) and value.dtype == np.float64
    for value, copy in zip(given_values, before):
        np.testing.assert_array_equal(value, copy)


def test_a_chain_is_one_instruction() -> None:
    b = Builder()
    x = b.placeholder(D)
    y = x
    for _ in range(50):
        y = b.binary("Mul", b.add("Tanh", [y], device=D), x, D)
    plan = planned(b, [y], [x])
    assert chain_count(plan) == 2 and sum(len(code) for chunks in plan.chunks for code in chunks) == 2


def test_an_error_in_a_chain_names_its_node() -> None:
    b = Builder()
    x, y = b.placeholder(D), b.placeholder(D)
    total = b.binary("Add", b.add("Neg", [x], device=D), y, D, name="total")
    out = b.add("Exp", [b.add("Tanh", [total], device=D)], device=D)
    plan = planned(b, [out], [x, y])
    assert chain_count(plan) == 1
    with pytest.raises(errors.InvalidArgumentError, match=r"\{\{node total\}\}") as raised:
        ran(plan, np.ones(3), np.ones(4))
    assert raised.value.message.count("{{node") == 1


def test_an_error_in_a_piece_names_its_node() -> None:
    b = Builder()
    i64 = dtypes.int64
    x, y = b.placeholder(D, i64), b.placeholder(D, i64)
    quotient = b.binary("FloorDiv", b.add("Neg", [x], (i64,), D), y, D, i64, name="quotient")
    for last in (quotient, b.add("Neg", [quotient], (i64,), D)):
        plan = planned(b, [last], [x, y])
        assert chain_count(plan) == 1
        with pytest.raises(errors.InvalidArgumentError, match=r"(?s)zero.*\{\{node quotient\}\}"):
            ran(plan, np.ones(chains.PIECES_FROM, np.int64), np.zeros(chains.PIECES_FROM, np.int64))


def test_a_trace_tells_of_every_node_of_a_chain() -> None:
    b = Builder()
    x = b.placeholder(D)
    total = b.binary("Add", b.add("Neg", [x], device=D, name="neg"), x, D, name="add")
    out = b.add("Exp", [total], device=D, name="exp")
    plan = planned(b, [out], [x])
    assert chain_count(plan) == 1
    started = Started(plan, [np.float64(2)])
    assert started.value == [1.0]
    traced = Started(plan, [np.ones(3)], trace=[])
    assert traced.value[0].tolist() == [1.0] * 3
    assert [entry[1] for entry in traced.ctx.trace or ()] == ["neg", "add", "exp"]


def test_what_a_chain_reads_is_kept_until_it_runs() -> None:
    # "late" is the last reader of z in the list, but the chain that begins with "first" runs after it.
    b = Builder()
    x = b.placeholder(D)
    z = b.add("TestTwo", [x], (F, F), D)
    first = b.binary("Add", z, x, D, name="first")
    late = b.add("TestOver", [z], device=D, name="late")
    out = b.binary("Mul", first, x, D)
    plan = planned(b, [out, late], [x])
    assert chain_count(plan) == 1
    value, other = ran(plan, np.full(3, 2.0))
    assert value.tolist() == [10.0] * 3 and other.tolist() == [-3.0] * 3


def test_a_mark_on_what_cannot_be_computed_later_is_ignored() -> None:
    # Between the two something is waited for, so that they are not in one segment; and a mark may be a lie.
    b = Builder()
    x = b.placeholder(D)
    mark: dict[str, Any] = {opdef.INLINE: True}
    early = b.add("Neg", [x], device=D, **mark)
    gate = b.add("TestGate", [x], device=D, name="gate")
    out = b.binary("Add", early, gate, D)
    twice = b.add("Neg", [x], device=D, **mark)
    uses = [b.add("Exp", [twice], device=D) for _ in range(2)]
    call = b.add("TestCall", [b.add("Neg", [x], device=D, **mark)], device=D)
    nodes = prune(b.nodes, [x], [out, *uses, call], []).nodes
    plan = compile_nodes(nodes, env())
    assert chain_count(plan) == 0
    started = Started(plan, [np.float64(0.5)])
    open_gate("gate")
    assert started.go().value == [0.0, np.exp(-0.5), np.exp(-0.5), -0.5]


def test_scalars_are_those_of_numpys_functions() -> None:
    with np.errstate(all="ignore"):
        for function, operation in chains.OPERATORS.items():
            for kind in (np.float16, np.float32, np.float64, np.int8, np.int32, np.uint64, np.complex64):
                pairs = [(kind(5), kind(3)), (kind(100), kind(100)), (kind(3), kind(5))]
                if kind is not np.complex64 and kind(1.5) == 1.5:
                    pairs += [(kind(1), kind(0)), (kind(np.nan), kind(1))]
                    pairs += [(kind(-0.0), kind(0.0)), (kind(6e4), kind(6e4))]
                for x, y in pairs:
                    args = (x, y)[: function.nin]
                    expected, found = function(*args), operation(*args)
                    assert type(found) is type(expected)
                    np.testing.assert_array_equal(found, expected)


def test_a_constant_that_waits_holds_up_its_reader() -> None:
    b = Builder()
    x = b.const(1.0, D)
    gate = b.add("TestGate", [x], device=D, name="first")
    other = b.add("TestGate", [x], device=D, name="second")
    constant = b.add("Const", (), (F,), D, [gate[0]], value=np.array(3.0), dtype=F)
    out = b.add("TestCall", [b.binary("Add", constant, other, D)], device=D)
    started = Started(compiled(b, out), [])
    CALLS.clear()
    open_gate("second", np.float64(1))
    started.go()
    assert not CALLS
    open_gate("first", np.float64(1))
    assert started.go().value == [4.0]
