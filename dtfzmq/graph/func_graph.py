"""The graph of a branch or body while it is built; outer tensors used in it become inputs."""

from __future__ import annotations

from dtfzmq.base import errors
from dtfzmq.base.dtypes import DType
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.node import MOST_NESTED, Node, Subgraph
from dtfzmq.graph.tensor import Operation, Tensor


class FuncGraph(Graph):
    """Inherits the outer graph's scopes (names, devices), collections and seed.

    A tensor of an outer graph that an operation takes is captured: an ``_Arg`` stands for it, of the same type, so
    that a variable's reference stays a reference. A control input on an outer operation is kept in `outer_control`,
    for the operation that will hold this graph. UnimplementedError if too many lie one in the other.
    """

    def __init__(self, outer: Graph, scope: str = "") -> None:
        super().__init__()
        self.depth = outer.depth + 1
        if self.depth > MOST_NESTED:
            raise errors.UnimplementedError(
                None,
                None,
                f"Conds and loops are nested more than {MOST_NESTED} deep, which cannot be planned; tf.case and "
                "tf.switch_case nest one cond per branch. Nest fewer, or choose among values with tf.gather.",
            )
        self.outer = outer
        self.captures: dict[Tensor, Tensor] = {}
        self.args: list[Tensor] = []
        self.outer_control: dict[Operation, None] = {}
        self._of_thread.scopes = outer._scopes.inside(scope)
        self._collections = outer._collections
        self._seed = outer._seed
        self._op_seeds = outer._op_seeds
        self._scoped_state = outer._scoped_state

    def add_arg(self, dtype: DType, shape: object, name: str = "arg") -> Tensor:
        """A further input of this graph."""
        before = self._scopes
        self._of_thread.scopes = before.bare()
        try:
            op = self.create_op("_Arg", [], {"index": len(self.args)}, [dtype], f"_{name}", [shape])
        finally:
            self._of_thread.scopes = before
        self.args.append(op.outputs[0])
        return op.outputs[0]

    def capture(self, tensor: Tensor) -> Tensor:
        """See Graph. A tensor of a graph further out is captured through every graph between."""
        inner = self.captures.get(tensor)
        if inner is None:
            if tensor.op.graph is not self.outer:
                outer = self.outer.capture(tensor)
                return self.capture(outer)
            inner = self.captures[tensor] = self.add_arg(tensor.dtype, tensor.shape, "capture")
        return inner

    def capture_control(self, op: Operation) -> Operation | None:
        """See Graph."""
        self.outer_control[op] = None
        return None

    def subgraph(self, outputs: list[Tensor]) -> Subgraph:
        """The finished node list that returns `outputs`, each a tensor of this graph or captured on the way."""
        taken = [t if t.op.graph is self else self.capture(t) for t in outputs]
        nodes = [op.node_def for op in self._ops]
        for i, t in enumerate(taken):
            nodes.append(
                Node(f"_retval_{i}", "_Retval", ((t.op._id, t.value_index),), (), "", {"index": i}, ())
            )
        return Subgraph(nodes, tuple(t.dtype for t in self.args), len(taken))
