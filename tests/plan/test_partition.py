"""Partition: pairs, sharing, control edges, keys; and that verify catches planted problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dtfzmq.base import errors
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.plan.part import Part
from dtfzmq.plan.partition import partition_by_device, partition_by_task
from dtfzmq.plan.verify import RULES, switch, verify
from tests.runtime.programs import Builder, F

A, B = "/job:a/replica:0/task:0/device:CPU:0", "/job:b/replica:0/task:0/device:CPU:0"
A1 = "/job:a/replica:0/task:0/device:CPU:1"


def cut(b: Builder) -> dict[str, Part]:
    parts = partition_by_task(b.nodes, A, lambda device: 0xABC)
    for part in parts:
        verify("partition", part.nodes)
    return {part.task[5:6]: part for part in parts}


def ops(part: Part) -> list[str]:
    return [n.op for n in part.nodes]


def test_one_pair_for_each_output_and_destination() -> None:
    b = Builder()
    x = b.const(1.0, A)
    b.binary("Add", x, x, B)
    b.binary("Mul", x, x, B)
    parts = cut(b)
    assert ops(parts["a"]) == ["Const", "_Send"] and ops(parts["b"]) == ["_Recv", "Add", "Mul"]
    send, recv = parts["a"].nodes[1], parts["b"].nodes[0]
    assert send.attrs == recv.attrs
    assert send.attrs["key"] == f"{A};0000000000000abc;{B};{send.attrs['tensor_name']};"


def test_a_control_edge_rides_on_data_or_gets_an_empty_pair() -> None:
    b = Builder()
    x = b.const(1.0, A)
    b.add("NoOp", types=(), device=B, control=[x[0]])
    parts = cut(b)
    send = parts["a"].nodes[1]
    assert send.inputs == () and send.control == (0,)
    assert parts["b"].nodes[1].control == (0,)
    b.add("Neg", [x], device=B)
    b.add("NoOp", types=(), device=B, control=[x[0]])
    parts = cut(b)
    assert ops(parts["a"]) == ["Const", "_Send"] and ops(parts["b"]) == ["_Recv", "NoOp", "Neg", "NoOp"]


def test_feeds_go_to_every_part_and_fetches_come_from_their_own() -> None:
    b = Builder()
    b.arg()  # nobody takes it
    x = b.arg()
    near, far = b.add("Neg", [x], device=A), b.add("Neg", [x], device=B)
    for value in (far, near, x):
        b.ret(value)
    parts = cut(b)
    assert parts["a"].feeds == (1,) and parts["b"].feeds == (1,)
    assert parts["a"].fetches == (1, 2) and parts["b"].fetches == (0,)
    assert "_Send" not in ops(parts["a"])
    assert [n.attrs["index"] for n in parts["a"].nodes if n.op == "_Retval"] == [0, 1]


def test_each_reader_of_a_reference_has_its_own_pair_after_what_it_waits_for() -> None:
    b = Builder()
    v = b.variable("v", A)
    n = b.add("NoOp", types=(), device=A)
    b.add("Identity", [v], device=B)
    b.add("Identity", [v], device=B, control=[n[0]])
    parts = cut(b)
    sends = [node for node in parts["a"].nodes if node.op == "_Send" and node.inputs]
    assert len(sends) == 2 and sends[0].control == () and parts["a"].nodes[sends[1].control[0]].op == "NoOp"
    assert all(node.dtypes == (F,) for node in parts["b"].nodes if node.op == "_Recv" and node.name[0] == "v")


def test_a_part_on_one_task_is_left_alone_and_devices_are_split_alike() -> None:
    b = Builder()
    x = b.const(1.0, A)
    b.add("Neg", [x], device=A1)
    (part,) = cut(b).values()
    assert ops(part) == ["Const", "Neg"]
    shares = partition_by_device(part.nodes, A, lambda device: 1)
    for nodes in shares.values():
        verify("device", nodes)
    assert {device: [n.op for n in nodes] for device, nodes in shares.items()} == {
        A: ["Const", "_Send"],
        A1: ["_Recv", "Neg"],
    }


def good() -> list[Node]:
    attrs = {"send_device": B, "recv_device": A, "send_device_incarnation": 1, "tensor_name": "e", "T": F}
    attrs["key"] = f"{B};0000000000000001;{A};e;"
    return [
        Node("x", "_Arg", (), (), "", {"index": 0}, (F,)),
        Node("r", "_Recv", (), (), A, attrs, (F,)),
        Node("s", "Add", ((0, 0), (1, 0)), (), A, {}, (F,)),
        Node("out", "_Retval", ((2, 0),), (), "", {"index": 0}, ()),
    ]


def _order(nodes: list[Node]) -> None:
    nodes[2].inputs = ((0, 0), (3, 0))


def _output(nodes: list[Node]) -> None:
    nodes[2].inputs = ((0, 0), (1, 1))


def _index(nodes: list[Node]) -> None:
    nodes[0].attrs = {}


def _twice(nodes: list[Node]) -> None:
    nodes.append(Node("again", "_Retval", ((2, 0),), (), "", {"index": 0}, ()))


def _place(nodes: list[Node]) -> None:
    nodes[2].device = "/job:a"


def _task(nodes: list[Node]) -> None:
    nodes[2].device = B


def _key(nodes: list[Node]) -> None:
    nodes[1].attrs = {**nodes[1].attrs, "key": "other"}


def _same_key(nodes: list[Node]) -> None:
    nodes.insert(2, Node("r2", "_Recv", (), (), A, nodes[1].attrs, (F,)))
    nodes[3].inputs, nodes[4].inputs = ((0, 0), (1, 0)), ((3, 0),)


def _ref(nodes: list[Node]) -> None:
    nodes[1].dtypes = (F.ref,)


def _flow(nodes: list[Node]) -> None:
    empty = Subgraph([], (F,), 0)
    nodes.append(Node("if", "If", ((2, 0),), (), A, {"then_branch": empty, "else_branch": empty}, ()))


PLANTED = {
    "sources stand before their consumers": (_order, "s"),
    "every input is an output that exists": (_output, "s"),
    "_Arg and _Retval have an index and nothing else": (_index, "x"),
    "no output is returned twice": (_twice, "again"),
    "subgraphs fit their If or While": (_flow, "if.then_branch"),
    "every node has a full device": (_place, "s"),
    "every node is on this task": (_task, "s"),
    "every _Send and _Recv stands on its own side of its key": (_key, "r"),
    "no key is used twice": (_same_key, "r2"),
    "a received tensor is a value": (_ref, "r"),
}


@pytest.mark.parametrize("rule", PLANTED)
def test_verify_catches(rule: str) -> None:
    plant: Callable[[list[Node]], Any]
    plant, culprit = PLANTED[rule]
    verify("partition", good())
    nodes = good()
    plant(nodes)
    with pytest.raises(errors.InternalError) as raised:
        verify("partition", nodes)
    assert raised.value.message == f"After partition: node '{culprit}' breaks the rule \"{rule}\"."


def test_every_rule_has_its_planted_problem() -> None:
    assert {rule for rule, _ in RULES["partition"]} == set(PLANTED)


def test_every_pass_checks_itself_when_switched_on() -> None:
    b = Builder()
    b.nodes.append(Node("n", "NoOp", (), (), "/job:a", {}, ()))
    before = switch(True)
    try:
        with pytest.raises(errors.InternalError, match="After device: node 'n'"):
            partition_by_device(b.nodes, A, lambda device: 1)
        switch(False)
        assert partition_by_device(b.nodes, A, lambda device: 1)
    finally:
        switch(before)
