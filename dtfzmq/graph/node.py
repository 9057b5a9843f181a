"""The lean form of an operation, in which masters and workers think: flat lists, sources by index."""

from __future__ import annotations

import dataclasses
from typing import Any

from dtfzmq.base.dtypes import DType

# So many subgraphs lie one in the other at most. Planning and compiling go into them recursively, in up to seven frames
# each, of the thousand that an interpreter has by default.
MOST_NESTED = 100


class Node:
    """One operation of a node list.

    `inputs` are pairs (index of the source in the same list, output of it), `control` indices alone. `dtypes` are the
    types of the outputs, reference types included. A node list is in topological order: sources stand before their
    consumers. Nodes are shared between lists and never changed after they were made.
    """

    __slots__ = ("attrs", "control", "device", "dtypes", "inputs", "name", "op")

    def __init__(
        self,
        name: str,
        op: str,
        inputs: tuple[tuple[int, int], ...] = (),
        control: tuple[int, ...] = (),
        device: str = "",
        attrs: dict[str, Any] | None = None,
        dtypes: tuple[DType, ...] = (),
    ) -> None:
        self.name = name
        self.op = op
        self.inputs = inputs
        self.control = control
        self.device = device
        self.attrs: dict[str, Any] = attrs if attrs is not None else {}
        self.dtypes = dtypes

    def moved(self, inputs: tuple[tuple[int, int], ...], control: tuple[int, ...], device: str | None = None) -> Node:
        """The same operation with sources renumbered, on `device` if given."""
        return Node(
            self.name, self.op, inputs, control, self.device if device is None else device, self.attrs, self.dtypes
        )

    def __repr__(self) -> str:
        return f"Node({self.name!r}, {self.op!r}, inputs={self.inputs}, control={self.control}, device={self.device!r})"


@dataclasses.dataclass(frozen=True)
class Subgraph:
    """A branch or body: a self-contained node list with its way in and out.

    `_Arg` nodes (attr ``index``) bring the values of `inputs` in, `_Retval` nodes (attr ``index``) take `outputs`
    values out. Values of the outer graph come in as further inputs.
    """

    nodes: list[Node]
    inputs: tuple[DType, ...]
    outputs: int
