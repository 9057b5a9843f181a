"""Graphs, parts and steps that no dtfzmq would send: each is refused in words, and leaves the task as it was."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfzmq as tf
from dtfzmq.client.connection import Answer
from dtfzmq.wire import messages as m

TASK = "/job:local/replica:0/task:0"
CPU = f"{TASK}/device:CPU:0"
FLOAT = ["d", "float32"]
ONE = np.float32(1)
_steps = itertools.count(1)


def node(
    name: str = "a",
    op: str = "NoOp",
    inputs: Any = (),
    control: Any = (),
    attrs: Any = None,
    types: Any = (),
    device: str = CPU,
) -> list[Any]:
    """A node as it travels."""
    return [name, op, list(inputs), list(control), device, attrs, list(types)]


def arg(index: Any = 0, **more: Any) -> list[Any]:
    return node("arg", "_Arg", attrs={"index": index}, **{"types": ["float32"], **more})


def out(index: Any = 0, inputs: Any = (0, 0)) -> list[Any]:
    return node(f"out{index}", "_Retval", inputs, attrs={"index": index})


HOLDER = node("p", "Placeholder", attrs={"dtype": FLOAT, "shape": ["s", None]}, types=["float32"])


@pytest.fixture
def server(caplog: pytest.LogCaptureFixture) -> Iterator[tf.train.Server]:
    server = tf.train.Server.create_local_server()
    yield server
    server.stop()
    assert not [record for record in caplog.records if record.exc_info], "a sender's error is none of the server's"


@pytest.fixture
def session(server: tf.train.Server) -> Iterator[tf.Session]:
    config = tf.ConfigProto()
    config.rpc_options.use_rpc_for_inprocess_master = True
    with tf.Graph().as_default():
        x = tf.constant(2.0) * 3.0
        with tf.Session(server.target, config=config) as session:
            yield session
            assert session.run(x) == 6, "the task is as good as before"
            worker, rendezvous = server.core.worker, server.core.rendezvous.statistics()
            assert not worker.steps and not rendezvous.steps and not rendezvous.values


def ask(session: tf.Session, message: Any) -> Any:
    answer = Answer()
    with session._loop.held():
        session._connection.ask(message, answer)
    return session._loop.wait(answer, 10)


def run(session: tf.Session, graph: Any, fetch: str = "", target: str = "a") -> Any:
    """A session for a graph, and a step of it."""
    handle = ask(session, m.CreateSession(graph, [], {})).handle
    try:
        names = ((), (fetch,), ()) if fetch else ((), (), (target,))
        return ask(session, m.RunStep(handle, 1, 1, [], names)).fetches
    finally:
        ask(session, m.CloseSession(handle))


FUNCTION = ["g", [[node("r", "_Retval", [0, 0], attrs={"index": 0})], [], 1]]
LEAF = ["g", [[arg(), out()], ["float32"], 1]]


def looped(inner: Any) -> list[Any]:
    """A loop whose body is `inner`."""
    return node("a", "While", [0, 0], attrs={"cond": LEAF, "body": inner}, types=["float32"])


def nested(depth: int) -> list[Any]:
    """A function with so many loops in it, one in the other."""
    made = LEAF
    for _ in range(depth):
        made = ["g", [[arg(), looped(made), out(inputs=(1, 0))], ["float32"], 1]]
    return made


GRAPHS = {
    "control of itself": ([node(control=[0])], "a control input of 'a'"),
    "control from nowhere": ([node(control=[77])], "a control input of 'a'"),
    "control before the first": ([node(control=[-1])], "a control input of 'a'"),
    "control from behind": ([node(control=[1]), node("b")], "a control input of 'a'"),
    "control that is none": ([node(control=["x"])], "malformed"),
    "input from nowhere": ([HOLDER, node(op="Identity", inputs=[5, 0], types=["float32"])], "an input of 'a'"),
    "output that is none": ([HOLDER, node(op="Identity", inputs=[0, 9], types=["float32"])], "output 9 of 'p'"),
    "output before the first": ([HOLDER, node(op="Identity", inputs=[0, -1], types=["float32"])], "output -1 of 'p'"),
    "unknown op": ([node(op="Bogus", types=["float32"])], "'Bogus'"),
    "too few inputs": ([node(op="Add", types=["float32"])], "'a' has 0 inputs.*x: T, y: T -> z: T"),
    "too many inputs": ([HOLDER, node(op="Identity", inputs=[0, 0] * 2, types=["float32"])], "'a' has 2 inputs"),
    "too many outputs": ([node(types=["float32"])], "'a' has 1 outputs"),
    "no attributes": ([node(op="VariableV2", types=["float32_ref"])], "lacks the attribute 'container'"),
    "no value": ([node(op="Const", types=["float32"])], "constant without a value"),
    "no graph": ([HOLDER, node(op="While", inputs=[0, 0], attrs={"cond": 3}, types=["float32"])], "'cond' of 'a'"),
    "a graph that is malformed": (
        [HOLDER, node(op="While", inputs=[0, 0], attrs={"cond": FUNCTION, "body": FUNCTION}, types=["float32"])],
        "an input of 'r'",
    ),
    "graphs in graphs": ([HOLDER, looped(nested(100))], "'a' lies in 100 branches and bodies"),
    "what comes in": ([arg()], "no graph of a client"),
    "what goes out": ([HOLDER, out()], "no graph of a client"),
    "a transfer": ([node(op="_Recv", types=["float32"])], "no graph of a client"),
    "a device that is none": ([node(device="\0;;;%%")], "Malformed device"),
    "a group that is none": ([node(attrs={"_class": 5})], "_class.*'a'"),
    "no list": (5, "malformed"),
    "no nodes": ([["a"]], "malformed"),
}


@pytest.mark.parametrize(("graph", "text"), GRAPHS.values(), ids=GRAPHS)
def test_a_graph_that_no_client_would_send(session: tf.Session, graph: Any, text: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run(session, graph)


def part(session: tf.Session, graph: Any, feeds: int = 1, fetches: int = 1, partial: bool = False) -> str:
    return ask(session, m.RegisterGraph("s", graph, [], feeds, fetches, True, False, partial)).handle


PARTS = {
    "fed too high": ([arg(5), out()], 1, 1, "'arg' brings in none of the 1"),
    "fed below": ([arg(-1), out()], 1, 1, "'arg' brings in none"),
    "fed by text": ([arg("q"), out()], 1, 1, "'arg' brings in none"),
    "fed nothing": ([arg(types=[]), out()], 1, 1, "reads output 0|brings in none"),
    "fed more than there are": ([arg(), out()], 1 << 27, 1, "brings 1 values in and not"),
    "fed without a node": ([], 1 << 27, 0, "brings 0 values in and not"),
    "fed twice": ([arg(), arg(), out()], 2, 1, "brings 1 values in and not 2"),
    "fed fewer than none": ([], -1, 0, "brings 0 values in and not -1"),
    "taken too high": ([arg(), out(9)], 1, 1, "'out9' takes out none of the 1"),
    "taken twice": ([arg(), out(), out()], 1, 1, "'out0' takes out none"),
    "fewer than none": ([arg(), out()], 1, -1, "takes out none of the -1"),
    "more than there are": ([arg(), out()], 1, 1 << 27, "takes 1 values out and not"),
    "from behind": ([out(inputs=[1, 0]), arg()], 1, 1, "an input of 'out0'"),
    "from itself": ([node(op="Identity", inputs=[0, 0], types=["float32"]), out()], 0, 1, "an input of 'a'"),
    "control from nowhere": ([node(control=[9])], 0, 0, "a control input of 'a'"),
    "written to": ([arg(), node(op="Add", inputs=[0, 0] * 3, types=["float32"]), out(0, [1, 0])], 1, 1, "has 3 inputs"),
    "received without a key": ([node(op="_Recv", types=["float32"]), out()], 0, 1, "no _Recv"),
    "sent without a key": ([arg(), node(op="_Send", inputs=[0, 0])], 1, 0, "no _Send"),
    "unknown op": ([node(op="Bogus")], 0, 0, "'Bogus'"),
    "no device": ([node(device="")], 0, 0, "Missing device name"),
    "no list": (7, 0, 0, "malformed"),
}


@pytest.mark.parametrize(("graph", "feeds", "fetches", "text"), PARTS.values(), ids=PARTS)
def test_a_part_that_no_master_would_send(
    session: tf.Session, graph: Any, feeds: int, fetches: int, text: str
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        part(session, graph, feeds, fetches)


def test_steps_that_no_master_would_run(session: tf.Session, server: tf.train.Server) -> None:
    handle = part(session, [arg(), out()])
    assert ask(session, m.RunGraph("s", handle, next(_steps), [ONE])).fetches == [1]
    for feeds in ([], [ONE, ONE]):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"fed 1 tensors was given {len(feeds)}"):
            ask(session, m.RunGraph("s", handle, next(_steps), feeds))
    # A step that runs already is not begun again, and is fed and fetched only as it can be.
    step = next(_steps)
    partial = part(session, [arg(), out()], partial=True)
    running = Answer()
    with session._loop.held():
        session._connection.ask(m.RunGraph("s", partial, step, [None]), running)
    with pytest.raises(tf.errors.InvalidArgumentError, match="under way"):
        ask(session, m.RunGraph("s", partial, step, [None]))
    for indices, feeds, fetches in (((7,), [ONE], ()), ((-1,), [ONE], ()), ((0,), [], ()), ((), [], (1,))):
        with pytest.raises(tf.errors.InvalidArgumentError, match="no such feeds"):
            ask(session, m.PartialGraph("s", step, indices, feeds, fetches))
    assert ask(session, m.PartialGraph("s", step, (0,), [ONE], (0,))).fetches == [1]
    assert session._loop.wait(running, 10)


WRONG = {
    "elements": (np.ones((2, 3), np.float64), "'p:0' has elements of type float64, and it takes float32"),
    "text": (np.array([[b"a"] * 3], object), "'p:0' has elements of type string"),
    "rank": (np.ones(3, np.float32), r"'p:0' has shape \[3\], and its placeholder takes \[\?,3\]"),
    "size": (np.ones((2, 4), np.float32), r"'p:0' has shape \[2,4\]"),
}


@pytest.mark.parametrize(("value", "text"), WRONG.values(), ids=WRONG)
def test_values_that_do_not_fit_what_is_fed(session: tf.Session, value: Any, text: str) -> None:
    holder = node("p", "Placeholder", attrs={"dtype": FLOAT, "shape": ["s", [-1, 3]]}, types=["float32"])
    twice = node("a", "Add", [0, 0, 0, 0], types=["float32"])
    handle = ask(session, m.CreateSession([holder, twice], [], {})).handle
    names = (("p:0",), ("a:0",), ())
    fits = [np.ones((n, 3), np.float32) for n in (1, 5, 0)]
    for right in fits:  # the first time that the master hears of these names, and when it knows them
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            ask(session, m.RunStep(handle, 1, 1, [value], names))
        assert ask(session, m.RunStep(handle, 1, 1, [right], names)).fetches[0].shape == right.shape
    partial = ask(session, m.PartialRunSetup(handle, *names)).partial
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        ask(session, m.PartialRunStep(handle, partial, ("p:0",), [value], ("a:0",)))
    assert ask(session, m.PartialRunStep(handle, partial, ("p:0",), [fits[1]], ("a:0",))).fetches[0].shape == (5, 3)
    ask(session, m.CloseSession(handle))


def test_values_that_a_worker_does_not_take(session: tf.Session) -> None:
    handle, wrong = part(session, [arg(), out()]), np.float64(1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'arg' has elements of type float64"):
        ask(session, m.RunGraph("s", handle, next(_steps), [wrong]))
    assert ask(session, m.RunGraph("s", handle, next(_steps), [ONE])).fetches == [1]
    partial, running, step = part(session, [arg(), out()], partial=True), Answer(), next(_steps)
    with session._loop.held():
        session._connection.ask(m.RunGraph("s", partial, step, [None]), running)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'arg' has elements of type float64"):
        ask(session, m.PartialGraph("s", step, (0,), [wrong], (0,)))
    assert ask(session, m.PartialGraph("s", step, (0,), [ONE], (0,))).fetches == [1]
    assert session._loop.wait(running, 10)


def test_a_value_that_is_no_tensor(server: tf.train.Server) -> None:
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        x = tf.placeholder(tf.float32, [])
        y = x + 1.0
        assert session.run(y, {x: 1}) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="'Placeholder:0' is a float and no tensor"):
            ask(session, m.RunStep(session._handle, 9, 9, [1.0], ((x.name,), (y.name,), ())))
        assert session.run(y, {x: 1}) == 2


@pytest.mark.parametrize("bad", ["%%", "/job:x y", "/job:local/task:zz"])
def test_device_filters(server: tf.train.Server, bad: str) -> None:
    with tf.Graph().as_default():
        config = tf.ConfigProto(device_filters=["/job:local", bad])
        with tf.Session(server.target, config=config) as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"device filter cannot be read.*'{bad}'"):
                session.run(tf.constant(1.0))
