"""The ops If and While, and what is remembered of each so that a gradient can be built later.

Layout, as runtime/control and plan/flow read it::

    If(pred, *captures; then_branch, else_branch) -> *results, *intermediates of then_branch, *of else_branch
    While(*variables, *captures; cond, body, n_vars, saved) -> *final values, *one list per saved value, count

Everything that a gradient may ever read is declared as an output when the op is made, so that no graph is changed after
it was shipped; pruning drops what nobody reads. A branch gives a zero-size value for the other branch's intermediates.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import SCALAR, UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.func_graph import FuncGraph
from dtfzmq.graph.graph import Graph, Operation, Tensor
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.graph.registry import NO_GRAD, op
from dtfzmq.graph.shape_rules import scalar
from dtfzmq.ops.raw import raw


class BuiltIf:
    """An If op with the graphs of its branches; `outputs[b]` says which output carries a tensor of branch b."""

    def __init__(self, branches: Sequence[FuncGraph], results: Sequence[Sequence[Tensor]]) -> None:
        self.branches = branches
        self.results = results
        self.outputs: list[dict[Tensor, int]] = []


class BuiltWhile:
    """A While op with its graphs; `next` are the body's new values, `lists` says which output lists a tensor."""

    def __init__(self, cond: FuncGraph, body: FuncGraph, following: Sequence[Tensor], backward: bool) -> None:
        self.cond = cond
        self.body = body
        self.next = following
        self.backward = backward  # it is itself the gradient of a loop
        self.lists: dict[Tensor, int] = {}


_built: weakref.WeakKeyDictionary[Operation, Any] = weakref.WeakKeyDictionary()


def built(operation: Operation) -> Any:
    """The BuiltIf or BuiltWhile of an op. Raises LookupError for one that this program did not build."""
    found = _built.get(operation)
    if found is None:
        raise LookupError(f"No gradient defined for operation '{operation.name}': it was not built in this program.")
    return found


def trainable(dtype: DType) -> bool:
    """True for types that have derivatives; a list has one if its elements have."""
    base = dtype.base_dtype
    return base.is_floating or base.is_complex or base is dtypes.variant


def value_of(tensor: Tensor) -> Tensor:
    """A tensor that is a value: a reference is read here and now."""
    return passed_on(tensor) if tensor.dtype.is_ref else tensor


def passed_on(tensor: Tensor, name: str = "Identity") -> Tensor:
    """An Identity that is no operation of the program's: a gradient_override_map does not mean it."""
    made: Tensor = raw.Identity(tensor, name=name)
    made.op.attrs.pop("_gradient_op_type", None)
    return made


def _kept(graph: FuncGraph, present: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of a branch or body that a gradient may ask for, apart from those `present` anyway."""
    have = set(present)
    return [
        t
        for operation in graph.get_operations()
        if operation.type not in ("Const", "_Arg")
        for t in operation.outputs
        if t not in have and not t.dtype.is_ref and t.dtype not in (dtypes.string, dtypes.resource)
    ]


def _unify(graphs: Sequence[FuncGraph], fixed: int) -> list[Tensor]:
    """Give the graphs the same captures in one order, behind `fixed` other arguments; the outer tensors."""
    order: dict[Tensor, None] = {}
    for graph in graphs:
        order.update(dict.fromkeys(graph.captures))
    place = {outer: fixed + i for i, outer in enumerate(order)}
    for graph in graphs:
        by_inner = {inner: outer for outer, inner in graph.captures.items()}
        for arg in graph.args:
            outer = by_inner.get(arg)
            if outer is not None:
                arg.op.attrs["index"] = place[outer]
    return list(order)


def _subgraph(graph: FuncGraph, outputs: Sequence[Tensor], types: Sequence[DType]) -> Subgraph:
    nodes = [operation.node_def for operation in graph.get_operations()]
    for i, t in enumerate(outputs):
        nodes.append(Node(f"_retval_{i}", "_Retval", ((t.op._id, t.value_index),), (), "", {"index": i}, ()))
    return Subgraph(nodes, tuple(types), len(outputs))


def _control(outer: Graph, graphs: Sequence[FuncGraph]) -> Any:
    waits: dict[Operation, None] = {}
    for graph in graphs:
        waits.update(graph.outer_control)
    return outer.control_dependencies(list(waits))


def _nothing(graph: FuncGraph, dtype: DType, memo: dict[DType, Tensor]) -> Tensor:
    """The zero-size value that stands for an intermediate of the other branch."""
    if dtype not in memo:
        with graph.as_default(), graph.control_dependencies(None):
            if dtype is dtypes.variant:
                memo[dtype] = raw.EmptyList()
            else:
                memo[dtype] = convert_to_tensor(np.zeros(0, dtype.np_dtype), name="nothing")
    return memo[dtype]


def merged_shape(a: TensorShape, b: TensorShape) -> TensorShape:
    """What is known of a value that has one shape or the other."""
    x, y = a.dims_or_none, b.dims_or_none
    if x is None or y is None or len(x) != len(y):
        return UNKNOWN
    return a if x == y else TensorShape([p if p == q else None for p, q in zip(x, y)])


def make_if(
    outer: Graph, pred: Tensor, branches: Sequence[FuncGraph], results: Sequence[Sequence[Tensor]], name: str
) -> Operation:
    """Add the If op for two finished branches with `results` of the same types (values, not references)."""
    count = len(results[0])
    info = BuiltIf(branches, results)
    differentiable = any(trainable(t.dtype) for t in results[0]) and any(
        trainable(t.dtype) for graph in branches for t in graph.captures
    )
    extra = [_kept(graph, given) if differentiable else [] for graph, given in zip(branches, results)]
    memos: list[dict[DType, Tensor]] = [{}, {}]
    then_rows = [*results[0], *extra[0], *(_nothing(branches[0], t.dtype, memos[0]) for t in extra[1])]
    else_rows = [*results[1], *(_nothing(branches[1], t.dtype, memos[1]) for t in extra[0]), *extra[1]]
    info.outputs = [
        {t: i for i, t in reversed(list(enumerate([*results[0], *extra[0]])))},
        {
            **{t: count + len(extra[0]) + i for i, t in enumerate(extra[1])},
            **{t: i for i, t in reversed(list(enumerate(results[1])))},
        },
    ]
    captures = _unify(branches, 0)
    types = [t.dtype for t in captures]
    shapes = [merged_shape(a.shape, b.shape) for a, b in zip(results[0], results[1])]
    shapes += [t.shape for t in (*extra[0], *extra[1])]
    attrs = {
        "then_branch": _subgraph(branches[0], then_rows, types),
        "else_branch": _subgraph(branches[1], else_rows, types),
        "n_results": count,
    }
    with _control(outer, branches):
        made = outer.create_op("If", [pred, *captures], attrs, [t.dtype for t in then_rows], name, shapes)
    _built[made] = info
    return made


def make_while(
    outer: Graph,
    initial: Sequence[Tensor],
    cond: FuncGraph,
    pred: Tensor,
    body: FuncGraph,
    following: Sequence[Tensor],
    shapes: Sequence[TensorShape],
    name: str,
    save: bool = True,
    backward: bool = False,
    parallel_iterations: int = 10,
) -> Operation:
    """Add the While op for a finished condition and body, whose first arguments are the loop variables."""
    count = len(initial)
    info = BuiltWhile(cond, body, following, backward)
    keep: list[Tensor] = []
    if save and any(trainable(t.dtype) for t in initial):
        keep = [*body.args[:count], *_kept(body, ())]
    info.lists = {t: count + i for i, t in enumerate(keep)}
    captures = _unify([cond, body], count)
    types = [t.dtype.base_dtype for t in initial] + [t.dtype for t in captures]
    attrs = {
        "cond": _subgraph(cond, [pred], types),
        "body": _subgraph(body, [*following, *keep], types),
        "n_vars": count,
        "saved": tuple(range(count, count + len(keep))),
        "parallel_iterations": parallel_iterations,
    }
    out_types = [*types[:count], *[dtypes.variant] * len(keep), dtypes.int32]
    out_shapes = [*shapes, *[SCALAR] * len(keep), SCALAR]
    with _control(outer, [cond, body]):
        made = outer.create_op("While", [*initial, *captures], attrs, out_types, name, out_shapes)
    _built[made] = info
    return made


class BackwardGraph(FuncGraph):
    """The graph of the gradient of a branch or body, `forward`.

    A tensor of `forward` that is used here comes in as the output of the forward op that carries it; constants are
    made again, arguments are what they stood for outside. `index` (in a loop) says which iteration is undone.
    """

    def __init__(self, outer: Graph, scope: str, operation: Operation, forward: FuncGraph) -> None:
        super().__init__(outer, scope)
        self.operation = operation
        self.forward = forward
        self.index: Tensor | None = None
        self._standing: dict[Tensor, Tensor] = {}
        self._outside = {inner: outside for outside, inner in forward.captures.items()}

    def capture(self, tensor: Tensor) -> Tensor:
        """See Graph."""
        if tensor.op.graph is not self.forward:
            return super().capture(tensor)
        found = self._standing.get(tensor)
        if found is None:
            found = self._standing[tensor] = self._stand_in(tensor)
        return found

    def _stand_in(self, tensor: Tensor) -> Tensor:
        source = tensor.op
        outside = self._outside.get(tensor)
        if outside is not None:
            return self.capture(outside)
        if source.type == "Const":
            copy = self.create_op("Const", (), source.attrs, (tensor.dtype,), "Const", (tensor.shape,))
            return copy.outputs[0]
        info = built(self.operation)
        if isinstance(info, BuiltIf):
            carried = info.outputs[list(info.branches).index(self.forward)].get(tensor)
            if carried is not None:
                return self.capture(self.operation.outputs[carried])
        else:
            carried = info.lists.get(tensor)
            if carried is not None and self.index is not None:
                items = self.capture(self.operation.outputs[carried])
                attrs = {"dtype": tensor.dtype}
                # Where the list is: with what filled it, so that items travel and not lists.
                with self.device(None), self.device(source.device or None):
                    got = self.create_op(
                        "ListGet", (items, self.index), attrs, (tensor.dtype,), "ListGet", (tensor.shape,)
                    )
                return got.outputs[0]
        raise LookupError(
            f"The gradient of '{self.operation.name}' needs the value of {tensor}, which is not kept "
            "(a string, or a loop built with back_prop=False)."
        )


def _no_shapes(n: Operation) -> list[Any]:
    return [UNKNOWN] * len(n.outputs)


_list_get = op(
    "ListGet", "items: variant, index: int32; dtype: type -> item: dtype", shape=_no_shapes,
    kernel=lambda items, index: items[int(index)], grad=NO_GRAD("read by gradients of loops, which have none"),
)  # fmt: skip
_empty_list = op("EmptyList", "-> items: variant", shape=scalar, kernel=list, grad=NO_GRAD("has no input"))


def _write(value: Any, out: list[bytes]) -> None:
    if isinstance(value, list):
        out.append(_HEAD.pack(-1, len(value)))
        for item in value:
            _write(item, out)
        return
    if value is None:
        out.append(_HEAD.pack(-2, 0))
        return
    array = np.array(value, object) if isinstance(value, bytes) else np.asarray(value)
    name = dtypes.of_array(array).name.encode()
    out.append(_HEAD.pack(len(name), array.ndim) + name + struct.pack(f"<{array.ndim}q", *array.shape))
    if array.dtype != object:
        out.append(array.tobytes())
        return
    for text in array.reshape(-1).tolist():
        out.append(_HEAD.pack(-3, len(text)) + text)


def _read(data: memoryview, at: int) -> tuple[Any, int]:
    kind, count = _HEAD.unpack_from(data, at)
    at += _HEAD.size
    if kind == -2:
        return None, at
    if kind < 0:
        items = []
        for _ in range(count):
            item, at = _read(data, at)
            items.append(item)
        return items, at
    dtype = dtypes.as_dtype(bytes(data[at : at + kind]).decode()).np_dtype
    at += kind
    shape = struct.unpack_from(f"<{count}q", data, at)
    at += 8 * count
    size = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "O":
        texts = np.empty(size, object)
        for i in range(size):
            length = _HEAD.unpack_from(data, at)[1]
            at += _HEAD.size + length
            texts[i] = bytes(data[at - length : at])
        return texts.reshape(shape), at
    end = at + size * dtype.itemsize
    return np.frombuffer(data[at:end], dtype).reshape(shape), end


def _list_pack(items: list[Any]) -> np.ndarray:
    out: list[bytes] = []
    _write(items, out)
    return np.frombuffer(b"".join(out), np.uint8)


def _list_unpack(data: np.ndarray) -> list[Any]:
    items: list[Any] = _read(np.ascontiguousarray(data).data, 0)[0]
    return items


_HEAD = struct.Struct("<ii")
_list_pack_op = op(
    "ListPack", "items: variant -> data: uint8", shape=lambda n: [TensorShape([None])], kernel=_list_pack,
    grad=NO_GRAD("bytes"),
)  # fmt: skip
_list_unpack_op = op(
    "ListUnpack", "data: uint8 -> items: variant", shape=scalar, kernel=_list_unpack, grad=NO_GRAD("bytes")
)
