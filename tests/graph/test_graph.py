"""Graphs: names, scopes, devices, control inputs, colocation, collections, exports."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import dtypes
from dtfzmq.graph.func_graph import FuncGraph
from dtfzmq.graph.graph import Graph, get_default_graph, reset_default_graph
from dtfzmq.graph.tensor import Operation, Tensor
from tests.kit.rival import Rival


def make(graph: Graph, name: str = "op", *inputs: Tensor, outputs: int = 1) -> Operation:
    return graph.create_op("AnOp", inputs, {}, [dtypes.float32] * outputs, name, [None] * outputs)


@pytest.fixture
def graph() -> Graph:
    return Graph()


def test_names_are_made_unique_case_apart(graph: Graph) -> None:
    assert [make(graph, n).name for n in ("a", "a", "A", "a_1", "b")] == ["a", "a_1", "A_2", "a_1_1", "b"]
    with pytest.raises(ValueError, match="not a valid"):
        make(graph, "a b")


def test_name_scopes_nest_repeat_and_reopen(graph: Graph) -> None:
    with graph.name_scope("s") as s:
        assert s == "s/" and make(graph, "x").name == "s/x"
        with graph.name_scope("t"):
            assert make(graph, "x").name == "s/t/x"
        with graph.name_scope(""):
            assert make(graph, "x").name == "x"
    with graph.name_scope("s"):
        assert make(graph, "x").name == "s_1/x"
    with graph.name_scope("s/"):
        assert make(graph, "x").name == "s/x_1"


def test_inner_devices_win_field_by_field(graph: Graph) -> None:
    with graph.device("/job:ps/task:0"):
        assert make(graph).device == "/job:ps/task:0"
        with graph.device("/job:worker"):
            assert make(graph).device == "/job:worker/task:0"
            with graph.device(None):
                assert make(graph).device == ""
        with graph.device("/cpu:1"):
            assert make(graph).device == "/job:ps/task:0/device:CPU:1"
    assert make(graph).device == ""
    with pytest.raises(ValueError, match="Malformed"), graph.device("/nope"):
        pass


def test_device_functions_see_the_operation_and_what_inner_scopes_asked(graph: Graph) -> None:
    def choose(op: Operation) -> str:
        return op.device or f"/job:{'ps' if op.type == 'AnOp' else 'worker'}"

    with graph.device(choose):
        assert make(graph).device == "/job:ps"
        with graph.device("/task:7"):
            assert make(graph).device == "/task:7"
    with graph.device("/task:3"), graph.device(choose):
        assert make(graph).device == "/job:ps/task:3"


def test_control_inputs_come_from_all_scopes_but_not_twice(graph: Graph) -> None:
    a, b = make(graph, "a"), make(graph, "b")
    with graph.control_dependencies([a]):
        with graph.control_dependencies([b.outputs[0]]):
            c = make(graph, "c")
            assert c.control_inputs == [a, b]
            # d waits for a and b through its input c already
            assert make(graph, "d", c.outputs[0]).control_inputs == []
        assert make(graph, "e", a.outputs[0]).control_inputs == []
        with graph.control_dependencies(None):
            assert make(graph, "f").control_inputs == []
        assert make(graph, "g").control_inputs == [a]


def test_colocation_names_the_group_and_takes_the_device(graph: Graph) -> None:
    with graph.device("/job:ps/task:0"):
        a = make(graph, "a")
    with graph.device("/job:ps/task:1"), graph.colocate_with(a):
        b = make(graph, "b")
    assert b.device == "/job:ps/task:0" and b.colocation_groups() == [b"loc:@a"]
    assert a.colocation_groups() == [b"loc:@a"]


def test_elements_by_name_with_a_hint(graph: Graph) -> None:
    loss = make(graph, "loss")
    assert graph.as_graph_element("loss") is loss
    assert graph.as_graph_element("loss:0") is loss.outputs[0] is graph.get_tensor_by_name("loss:0")
    with pytest.raises(KeyError, match="Did you mean 'loss'"):
        graph.as_graph_element("los:0")
    with pytest.raises(KeyError, match="only has 1 outputs"):
        graph.as_graph_element("loss:3")
    with pytest.raises(ValueError, match="Perhaps you meant to use 'loss:0'"):
        graph.get_tensor_by_name("loss")
    with pytest.raises(ValueError, match="not an element of this graph"):
        Graph().as_graph_element(loss)
    with pytest.raises(TypeError, match="Can not convert a int"):
        graph.as_graph_element(3)


def test_a_finalized_graph_does_not_grow(graph: Graph) -> None:
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        make(graph)


def test_default_graphs_are_a_stack_per_thread(graph: Graph) -> None:
    reset_default_graph()
    outer = get_default_graph()
    with graph.as_default():
        assert get_default_graph() is graph
        with pytest.raises(AssertionError):
            reset_default_graph()
    assert get_default_graph() is outer


def test_collections(graph: Graph) -> None:
    op = make(graph, "scope/x")
    graph.add_to_collection("c", op)
    graph.add_to_collections(["c", "d", "d"], 5)
    assert graph.get_collection("c") == [op, 5] and graph.get_collection("d") == [5]
    assert graph.get_collection("c", scope="scope") == [op]
    graph.get_collection_ref("c").clear()
    assert graph.get_all_collection_keys() == ["d"]


def test_tensors_are_symbols(graph: Graph) -> None:
    t = make(graph, "t").outputs[0]
    for misuse in (bool, len, list):
        with pytest.raises(TypeError):
            misuse(t)
    with pytest.raises(ValueError, match="No default session"):
        t.eval()
    t.set_shape([None, 3])
    with pytest.raises(ValueError, match="not compatible"):
        t.set_shape([2, 4])


def test_networkx_export_has_data_and_control_edges(graph: Graph) -> None:
    a = make(graph, "a", outputs=2)
    with graph.control_dependencies([a]):
        make(graph, "b")
    make(graph, "c", a.outputs[1])
    out = graph.to_networkx()
    assert list(out.edges(data=True)) == [
        ("a", "b", {"output": -1, "input": -1, "control": True}),
        ("a", "c", {"output": 1, "input": 0, "control": False}),
    ]


def test_an_input_of_another_graph_is_refused(graph: Graph) -> None:
    t = make(Graph(), "t").outputs[0]
    with pytest.raises(ValueError, match="same graph"):
        make(graph, "u", t)


def test_a_branch_captures_outer_tensors_and_control(graph: Graph) -> None:
    with graph.device("/job:ps/task:1"), graph.name_scope("cond"):
        x = make(graph, "x").outputs[0]
        inner = FuncGraph(graph, "cond")
        with inner.as_default(), inner.control_dependencies([x.op]):
            y = make(inner, "y", x, x)
    assert y.device == "/job:ps/task:1" and y.name == "cond/y"
    assert list(inner.captures) == [x] and list(inner.outer_control) == [x.op]
    sub = inner.subgraph([y.outputs[0], x])
    assert [n.op for n in sub.nodes] == ["_Arg", "AnOp", "_Retval", "_Retval"]
    assert sub.inputs == (dtypes.float32,) and sub.outputs == 2
    assert sub.nodes[1].inputs == ((0, 0), (0, 0)) and sub.nodes[3].inputs == ((0, 0),)


def test_operations_know_where_they_were_made(graph: Graph) -> None:
    assert "test_graph.py:" in make(graph).traceback


def test_ids_are_creation_order(graph: Graph) -> None:
    ops: list[Any] = [make(graph) for _ in range(3)]
    assert [op._id for op in ops] == [0, 1, 2] and graph.version == 3
    assert np.all([a is b for a, b in zip(graph.get_operations(), ops)])


def test_several_outputs_have_the_names_of_the_declaration():
    with Graph().as_default():
        found: Any = tf.unique_with_counts([3, 1, 3])
        assert (found.y, found.idx, found.count) == tuple(found) and type(found).__name__ == "UniqueWithCounts"
        y, idx = tf.unique([3, 1, 3])
        with tf.Session() as sess:
            got = sess.run(found)
            assert got.y.tolist() == [3, 1] and got.count.tolist() == [2, 1]
            assert sess.run([y, idx])[1].tolist() == [0, 1, 0]


def in_a_thread(work: Any) -> Any:
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(work()))
    thread.start()
    thread.join(20)
    return got[0]


def test_scopes_are_each_thread_s_own(graph: Graph) -> None:
    first = make(graph, "first")
    with (
        graph.name_scope("here"), graph.device("/cpu:1"), graph.control_dependencies([first]),
        graph.colocate_with(first), graph.container("box"), graph.gradient_override_map({"AnOp": "Other"}),
    ):  # fmt: skip
        theirs = in_a_thread(lambda: make(graph, "theirs"))
        assert in_a_thread(lambda: graph._container) == ""
        ours = make(graph, "ours")
    assert (theirs.name, theirs.device, theirs.control_inputs, theirs.attrs) == ("theirs", "", [], {})
    assert (ours.name, ours.control_inputs) == ("here/ours", [first])

    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with graph.name_scope("there"), graph.device("/cpu:2"), graph.control_dependencies([first]):
            entered.set()
            leave.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    assert entered.wait(20)
    with graph.name_scope("here"), graph.control_dependencies([ours]):
        leave.set()
        thread.join(20)
        between = make(graph, "between")
    after = make(graph, "after")
    assert (between.name, between.device, between.control_inputs) == ("here_1/between", "", [ours])
    assert (after.name, after.device, after.control_inputs) == ("after", "", [])


@pytest.mark.slow
class Meddled(dict[Any, Any]):
    """A dict in whose look-ups a rival comes."""

    rival: Rival

    def get(self, *args: Any) -> Any:
        found = super().get(*args)
        self.rival.come()
        return found


@pytest.mark.parametrize("create", [False, True])
def test_a_name_that_two_threads_ask_for_at_once_goes_to_one(create: bool, graph: Graph) -> None:
    def name() -> str:
        return make(graph, "a").name if create else graph.unique_name("a")

    rival = Rival(name)
    graph._lock = rival.watched(graph._lock)
    graph._names_in_use = Meddled()
    graph._names_in_use.rival = rival
    assert {name(), rival.result()} == {"a", "a_1"}


def test_operations_of_two_threads_are_numbered_one_by_one(graph: Graph) -> None:
    rival = Rival(lambda: make(graph, "b"))
    graph._lock = rival.watched(graph._lock)
    with graph.device(lambda op: rival.come()):
        ours = make(graph, "a")
    assert {ours._id, rival.result()._id} == {0, 1}
    assert [op._id for op in graph.get_operations()] == [0, 1]


def test_threads_that_build_and_run_one_graph(graph: Graph) -> None:
    wrong: list[Any] = []

    def work(k: int) -> None:
        try:
            with graph.as_default(), tf.Session(graph=graph) as sess:
                for i in range(20):
                    with tf.name_scope(f"t{k}"), tf.variable_scope(f"s{k}_{i}"):
                        x = tf.constant(float(i), name="x")
                        v = tf.get_variable("v", initializer=1.0)
                        z = x * 2.0 + 1.0
                        with tf.control_dependencies([x.op]):
                            y = tf.identity(z)
                    if not (x.name.startswith(f"t{k}") and v.name == f"s{k}_{i}/v:0"):
                        wrong.append((k, x.name, v.name))
                    if y.op.control_inputs != [x.op] or sess.run(y) != 2 * i + 1:
                        wrong.append((k, y.op.control_inputs))
        except Exception as error:
            wrong.append((k, repr(error)))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(before)
    assert wrong == []
    names = [op.name for op in graph.get_operations()]
    assert len(set(names)) == len(names)
