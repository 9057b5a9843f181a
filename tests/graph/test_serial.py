"""Node lists come back from the wire as they went, and malformed ones are refused."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.graph.serial import nodes_from_wire, nodes_to_wire

ATTRS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False),
        st.text(max_size=8),
        st.binary(max_size=8),
        st.sampled_from(dtypes.all_types()),
        st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=3).map(TensorShape),
        st.just(TensorShape(None)),
    ),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


def round_trip(nodes: list[Node]) -> list[Node]:
    plain, arrays = nodes_to_wire(nodes)
    return nodes_from_wire(msgpack.unpackb(msgpack.packb(plain)), arrays)


@given(st.dictionaries(st.text(min_size=1, max_size=5), ATTRS, max_size=4))
def test_attributes_survive(attrs: dict[str, Any]) -> None:
    (back,) = round_trip([Node("n", "Op", attrs=attrs)])
    assert back.attrs == attrs


def test_a_node_with_everything_survives() -> None:
    sub = Subgraph([Node("a", "_Arg", attrs={"index": 0}, dtypes=(dtypes.float32.ref,))], (dtypes.float32.ref,), 0)
    value = np.arange(6.0).reshape(2, 3)
    node = Node("b", "If", ((0, 1), (2, 0)), (1,), "/job:ps", {"v": value, "g": sub}, (dtypes.string, dtypes.variant))
    (back,) = round_trip([node])
    assert (back.name, back.op, back.device) == ("b", "If", "/job:ps")
    assert (back.inputs, back.control) == (((0, 1), (2, 0)), (1,))
    assert back.dtypes == node.dtypes and back.attrs["v"] is value
    inner = back.attrs["g"]
    assert inner.inputs == sub.inputs and inner.nodes[0].dtypes == (dtypes.float32.ref,)


@pytest.mark.parametrize(
    "plain",
    [
        3,
        [3],
        [["n"]],
        [[1, 2, [], [], "", None, []]],
        [["n", "Op", ["x"], [], "", None, []]],
        [["n", "Op", [], [], "", None, ["float99"]]],
        [["n", "Op", [], [], "", {"v": ["a", 5]}, []]],
        [["n", "Op", [], [], "", {"v": ["?", 5]}, []]],
    ],
    ids=repr,
)
def test_malformed_graphs_are_refused(plain: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="malformed"):
        nodes_from_wire(plain, [])
