"""State between sessions: sharing by name, containers, isolation, exactness under concurrency."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.base import threads
from tests.kit.servers import start

PS = "/job:ps/task:0"
Servers = dict[str, tf.train.Server]


@pytest.fixture
def servers() -> Iterator[Servers]:
    with start({"ps": 1, "worker": 2}) as made:
        yield made


def counter(value: float = 0.0, name: str = "v", dtype: object = tf.float32) -> tf.Graph:
    """A graph with one variable on the ps, its read and an addition."""
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS):
        v = tf.Variable(value, name=name, dtype=dtype)
        tf.identity(v, name="read")
        v.assign_add(tf.constant(1, dtype=dtype), name="add")
    return graph


def run(session: tf.Session, name: str) -> object:
    return session.run(session.graph.get_tensor_by_name(name))


def test_equal_names_on_one_task_are_one_variable_for_all_masters(servers: Servers) -> None:
    with tf.Session(servers["worker:0"].target, graph=counter(5.0)) as first:
        first.run(first.graph.get_operation_by_name("v/Assign"))
        with tf.Session(servers["worker:1"].target, graph=counter()) as second:
            assert run(second, "read:0") == 5.0
            run(second, "add:0")
        assert run(first, "read:0") == 6.0
    with tf.Session(servers["ps:0"].target, graph=counter()) as third:
        assert run(third, "read:0") == 6.0


def test_an_isolated_session_shares_nothing(servers: Servers) -> None:
    target = servers["worker:0"].target
    alone = tf.ConfigProto(isolate_session_state=True)
    with tf.Session(target, graph=counter(5.0)) as shared, tf.Session(target, graph=counter(7.0), config=alone) as own:
        shared.run(shared.graph.get_operation_by_name("v/Assign"))
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value v"):
            run(own, "read:0")
        own.run(own.graph.get_operation_by_name("v/Assign"))
        assert (run(own, "read:0"), run(shared, "read:0")) == (7.0, 5.0)


def test_another_shape_reads_what_is_stored_and_cannot_assign(servers: Servers) -> None:
    with tf.Session(servers["worker:0"].target, graph=counter(7.0)) as first:
        first.run(first.graph.get_operation_by_name("v/Assign"))
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS):
        v = tf.Variable([1.0, 2.0], name="v")
    with tf.Session(servers["worker:0"].target, graph=graph) as session:
        assert session.run(v) == 7.0
        for change, said in ((v.initializer, r"lhs shape= \[\] rhs shape= \[2\]"), (v.assign_add([1.0, 2.0]), "")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=said + ".*another program left.*tf.Session.reset"):
                session.run(change)
    tf.Session.reset(servers["worker:0"].target)
    with tf.Session(servers["worker:0"].target, graph=graph) as session:
        session.run(v.initializer)
        assert session.run(v).tolist() == [1.0, 2.0]


def test_another_dtype_is_an_error(servers: Servers) -> None:
    with tf.Session(servers["worker:0"].target, graph=counter()) as first:
        first.run(first.graph.get_operation_by_name("v/Assign"))
    with tf.Session(servers["worker:0"].target, graph=counter(0, dtype=tf.int32)) as second:
        said = "Output 0 of type float_ref does not match declared output.*tf.Session.reset"
        with pytest.raises(tf.errors.InternalError, match=said):
            run(second, "read:0")


def test_containers_are_apart_and_cleared_by_name(servers: Servers) -> None:
    def build(where: str, value: float) -> tuple[tf.Graph, tf.Variable]:
        graph = tf.Graph()
        with graph.as_default(), tf.device(PS), tf.container(where):
            return graph, tf.Variable(value, name="v")

    target = servers["worker:0"].target
    for where, value in (("c1", 1.0), ("c2", 2.0), ("", 3.0)):
        graph, v = build(where, value)
        with tf.Session(target, graph=graph) as session:
            session.run(v.initializer)
    tf.Session.reset(target, ["c1"])
    found: list[object] = []
    for where in ("c1", "c2", ""):
        graph, v = build(where, 0.0)
        with tf.Session(target, graph=graph) as session:
            found.append(session.run(v) if session.run(tf_initialized(graph, v)) else None)
    assert found == [None, 2.0, 3.0]
    graph, v = build("no_underscores", 0.0)
    with tf.Session(target, graph=graph) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="container contains invalid characters: no_under"):
            session.run(v.initializer)


def tf_initialized(graph: tf.Graph, v: tf.Variable) -> tf.Tensor:
    with graph.as_default():
        return tf.is_variable_initialized(v)


def test_additions_of_many_sessions_add_up_exactly(servers: Servers) -> None:
    targets = [servers[f"worker:{i % 2}"].target for i in range(8)]
    with tf.Session(targets[0], graph=counter()) as first:
        first.run(first.graph.get_operation_by_name("v/Assign"))

        def work(target: str) -> None:
            with tf.Session(target, graph=counter()) as session:
                step = session.make_callable(session.graph.get_operation_by_name("add"))
                for _ in range(100):
                    step()

        workers = [threads.start(work, f"adder-{i}", target) for i, target in enumerate(targets)]
        for worker in workers:
            worker.join(30)
        assert run(first, "read:0") == 800.0


def test_a_read_never_sees_half_an_assignment(servers: Servers) -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.device(PS):
        v = tf.Variable(np.zeros(1 << 18, "float32"), name="big")
        value = tf.placeholder(tf.float32, [])
        put = v.assign(tf.fill([1 << 18], value)).op
        add = v.assign_add(tf.fill([1 << 18], value)).op
    with tf.Session(servers["worker:0"].target, graph=graph) as writer:
        with tf.Session(servers["worker:1"].target, graph=graph) as reader:
            writer.run(v.initializer)

            def write() -> None:
                for step in range(40):
                    writer.run(put if step % 2 else add, {value: float(step)})

            thread = threads.start(write, "writer")
            while thread.is_alive():
                seen = reader.run(v)
                assert seen.min() == seen.max()
            thread.join(10)


def test_each_dtype_on_a_remote_task(servers: Servers) -> None:
    graph = tf.Graph()
    names = ["float16", "float64", "int8", "int32", "int64", "uint8", "bool", "complex64", "string"]
    with graph.as_default(), tf.device(PS):
        pairs = []
        for name in names:
            value = np.array([b"a", b""], object) if name == "string" else np.array([1, 0], name)
            pairs.append((tf.Variable(value, name=name), value))
        start = tf.global_variables_initializer()
    with tf.Session(servers["worker:0"].target, graph=graph) as session:
        session.run(start)
        for (_, value), got in zip(pairs, session.run([v for v, _ in pairs])):
            assert got.dtype == value.dtype and got.tolist() == value.tolist()
