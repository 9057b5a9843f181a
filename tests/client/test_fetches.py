"""Fetch arguments: every nesting comes back in its own shape; what cannot be fetched is refused in TF1's words."""

from __future__ import annotations

import collections

import attr
import pytest

import dtfzmq as tf
from dtfzmq.base import dtypes
from dtfzmq.client import fetches as module
from dtfzmq.client.call import structure
from dtfzmq.client.fetches import Fetches
from dtfzmq.graph.graph import Graph

Pair = collections.namedtuple("Pair", "left right")


@attr.s(auto_attribs=True)
class Both:
    one: object
    two: object


@pytest.fixture
def graph():
    graph = Graph()
    for name in ("a", "b", "c"):
        graph.create_op("Placeholder", [], {"dtype": dtypes.float32}, [dtypes.float32], name, [[]])
    graph.create_op("NoOp", [], {}, [], "nothing")
    return graph


def compiled(graph, fetches):
    made = Fetches(graph, fetches)
    return made, made.build([f"<{t.name}>" for t in made.tensors])


def test_every_nesting_keeps_its_shape(graph):
    a, b, c = (graph.get_tensor_by_name(f"{n}:0") for n in "abc")
    nothing = graph.get_operation_by_name("nothing")
    ordered = collections.OrderedDict([("z", a), ("y", [b, nothing])])
    made, got = compiled(
        graph,
        {
            "list": [a, b],
            "pair": Pair(c, (a,)),
            "op": nothing,
            "d": ordered,
            "e": [],
            "n": "b:0",
            "o": "nothing",
            "at": Both(a, {"k": c}),
        },
    )
    assert got == {
        "list": ["<a:0>", "<b:0>"],
        "pair": Pair("<c:0>", ("<a:0>",)),
        "op": None,
        "d": {"z": "<a:0>", "y": ["<b:0>", None]},
        "e": [],
        "n": "<b:0>",
        "o": None,
        "at": Both("<a:0>", {"k": "<c:0>"}),
    }
    assert type(got["d"]) is collections.OrderedDict
    assert [t.name for t in made.tensors] == ["a:0", "b:0", "c:0"], "each is asked for once"
    assert [op.name for op in made.targets] == ["nothing"]


def test_single_tensor_is_marked(graph):
    a = graph.get_tensor_by_name("a:0")
    assert Fetches(graph, a).single and not Fetches(graph, [a]).single


@pytest.mark.parametrize(
    "bad, error, text",
    [
        (None, TypeError, "Fetch argument None has invalid type <class 'NoneType'>"),
        ([None], TypeError, "Fetch argument None has invalid type"),
        (37, TypeError, "Fetch argument 37 has invalid type"),
        ("zzz:0", ValueError, "Fetch argument 'zzz:0' cannot be interpreted as a Tensor"),
        ("a:1", ValueError, "cannot be interpreted as a Tensor"),
        ("nothin", ValueError, "Did you mean 'nothing'"),
    ],
)
def test_what_cannot_be_fetched(graph, bad, error, text):
    with pytest.raises(error, match=text):
        Fetches(graph, bad)


def test_elements_of_other_graphs_and_unfetchable_ones(graph):
    other = Graph()
    stranger = other.create_op("Placeholder", [], {"dtype": dtypes.float32}, [dtypes.float32], "a", [[]]).outputs[0]
    with pytest.raises(ValueError, match="is not an element of this graph"):
        Fetches(graph, stranger)
    graph.prevent_fetching(graph.get_operation_by_name("a"))
    with pytest.raises(ValueError, match="marked as not fetchable"):
        Fetches(graph, "a:0")


def test_registered_types_are_fetched_by_their_parts(graph, monkeypatch):
    class Sparse:
        def __init__(self, parts):
            self.parts = parts

    monkeypatch.setattr(module, "_conversions", [])
    module.register_session_run_conversion_functions(
        Sparse, lambda s: (s.parts, lambda got: ("sparse", *got)), lambda s, v: list(zip(s.parts, v))
    )
    with pytest.raises(ValueError, match="already been registered"):
        module.register_session_run_conversion_functions(Sparse, lambda s: (s.parts, tuple))
    _, got = compiled(graph, [Sparse(["a:0", "b:0"]), "c:0"])
    assert got == [("sparse", "<a:0>", "<b:0>"), "<c:0>"]


def test_structure_tells_signatures_apart(graph):
    a, b = graph.get_tensor_by_name("a:0"), graph.get_tensor_by_name("b:0")
    forms = [a, [a], (a,), [a, b], [b, a], [[a], b], [a, [b]], {"x": a}, {"y": a}, {"x": b}, Pair(a, b), (a, b), "a:0"]
    keys = [structure(form) for form in forms]
    assert len({hash(key) or key for key in keys}) == len(set(keys)) == len(forms)
    assert structure([a, {"k": (b,)}]) == structure([a, {"k": (b,)}])


def test_the_master_is_told_of_a_signature_once_however_the_fetches_are_written():
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default(), tf.Session(server.target) as sess:
        x = tf.placeholder(tf.int32, [])
        y, z = x + 1, x + 2
        for i in range(3):
            assert sess.run(collections.OrderedDict(b=y, a=z), {x: i}) == {"b": i + 1, "a": i + 2}
            assert sess.run([[y], collections.OrderedDict(a=z)], {x: i}) == [[i + 1], {"a": i + 2}]
            assert sess.run(Both(y, z), {x: i}) == Both(i + 1, i + 2)
            assert sess.make_callable([y, z], [x])(i) == [i + 1, i + 2]
        (known,) = server.core.master.sessions.values()
        assert len(known.plans) == len(known.plans.calls) == 1
    server.stop()
