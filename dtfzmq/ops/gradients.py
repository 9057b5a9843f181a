"""Reverse-mode differentiation of a graph."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Sequence
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, Operation, Tensor, get_default_graph
from dtfzmq.ops import operators
from dtfzmq.ops.constants import ones_like, zeros_like
from dtfzmq.ops.gradient_rules import rule_of
from dtfzmq.ops.grouping import tuple as together
from dtfzmq.ops.indexed_slices import IndexedSlices, concat_rows
from dtfzmq.ops.list_ops import total, zeros_of
from dtfzmq.ops.raw import raw

_OPERATORS = operators  # gradients are written with them

Gradient = Any  # Tensor | IndexedSlices | None

SUBGRAPHS = {"If", "While"}  # their gradients are also told which inputs are wanted, by `needed=`

TAKE_NONE = {  # their gradients take None for an output that nothing depends on, instead of zeros
    "If",
    "While",
    "IdentityN",
    "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
}

# Their gradients are written for real numbers: product with the derivative. For complex ones it is the conjugate of it.
HOLOMORPHIC = {
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Cumprod", "Div", "DivNoNan", "Exp", "Expm1",
    "Log", "Log1p", "MatMul", "Mul", "MulNoNan", "Pow", "Prod", "ProdGrad", "RealDiv", "Reciprocal", "ReciprocalGrad",
    "Rsqrt", "RsqrtGrad", "Sigmoid", "SigmoidGrad", "Sin", "Sinh", "Sqrt", "SqrtGrad", "Square", "Tan", "Tanh",
    "TanhGrad", "Xdivy", "Xlog1py", "Xlogy",
}  # fmt: skip


class AggregationMethod:
    """How gradients of one tensor are added up. Accepted for TF1's sake: there is one way here."""

    ADD_N = 0
    DEFAULT = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class UnconnectedGradients(enum.Enum):
    """What `gradients` gives where ys do not depend on an x."""

    NONE = "none"
    ZERO = "zero"


def _aslist(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def trainable(dtype: DType) -> bool:
    """True for types that have derivatives; a list has one if its elements have."""
    base = dtype.base_dtype
    return base.is_floating or base.is_complex or base is dtypes.variant


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: Any = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = "none",
) -> list[Gradient]:
    """d(sum of ys) / dx for each x: a Tensor, IndexedSlices if rows were gathered, None if ys do not depend on x.

    `grad_ys` are the derivatives of something with respect to ys (ones where None). `stop_gradients` are held constant.
    Integer and boolean ys count as not depending on anything. Raises ValueError for grad_ys that do not match,
    LookupError for an op type that is not declared.
    """
    if aggregation_method not in (None, 0, 1, 2):
        raise ValueError(
            f"Invalid `aggregation_method` specified {aggregation_method}. Accepted values are [0, 1, 2]."
        )
    targets = [convert_to_tensor(y, name="y") for y in _aslist(ys)]
    sources = [_source(x) for x in _aslist(xs)]
    seeds = _aslist(grad_ys) if grad_ys is not None else [None] * len(targets)
    if len(seeds) != len(targets):
        raise ValueError(f"Length mismatch. Passed {len(seeds)} grad_ys for {len(targets)} ys")
    stops = {_source(s) for s in _aslist(stop_gradients)} if stop_gradients is not None else set()
    if not targets:
        return [None] * len(sources)
    graph = targets[0].graph
    default = get_default_graph()
    if default is not graph and hasattr(default, "outer"):
        graph = default
        targets = [t if t.graph is graph else graph.capture(t) for t in targets]
    sources = [_inside(graph, x) for x in sources]
    stops = {_inside(graph, s) for s in stops}
    with contextlib.ExitStack() as stack:
        if default is not graph:
            stack.enter_context(graph.as_default())
        stack.enter_context(graph.name_scope(name or "gradients"))
        grads = _Backward(graph, sources, stops, bool(colocate_gradients_with_ops)).run(targets, seeds)
        if gate_gradients in (True, 2) and any(g is not None for g in grads):
            grads = _gated(grads)
        if getattr(unconnected_gradients, "value", unconnected_gradients) == "zero":
            grads = [zeros_like(x) if g is None else g for g, x in zip(grads, sources)]
    return grads


def _source(x: Any) -> Tensor:
    """xs and stop_gradients: variables mean the place, so that it is found whatever read of it was used."""
    if isinstance(x, IndexedSlices):
        return x.values
    return convert_to_tensor(x, name="x", as_ref=True)


def _inside(graph: Graph, tensor: Tensor) -> Tensor:
    """In a branch or body: what stands for an outer tensor there."""
    if tensor.graph is graph or not hasattr(graph, "outer"):
        return tensor
    return graph.capture(tensor)


def _gated(grads: list[Gradient]) -> list[Gradient]:
    dense = [g.values if isinstance(g, IndexedSlices) else g for g in grads]
    gated = together(dense)
    return [
        IndexedSlices(new, old.indices, old.dense_shape) if isinstance(old, IndexedSlices) else new
        for old, new in zip(grads, gated)
    ]


def backpropagate(graph: Graph, ys: Sequence[Tensor], seeds: Sequence[Any], xs: Sequence[Tensor]) -> list[Gradient]:
    """Gradients built into `graph` (the default), of tensors that may belong to the graph it is the backward of."""
    return _Backward(graph, list(xs), set(), True).run(list(ys), seeds)


def influences(x: Tensor, ys: Sequence[Tensor]) -> bool:
    """True if some y depends on x in a way that may be differentiated."""
    walk = _Backward(x.graph, [x], set(), False)
    walk.between(list(ys))
    return any(y in walk.reached for y in ys)


class _Backward:
    """One call of `gradients`: which operations lie between, and what has arrived at each tensor."""

    def __init__(self, graph: Graph, xs: list[Tensor], stops: set[Tensor], colocate: bool) -> None:
        self.graph = graph
        self.xs = xs
        self.stops = stops - set(xs)
        self.blocked = stops
        self.colocate = colocate
        self.arrived: dict[Tensor, list[Any]] = {}
        self.reached: set[Tensor] = set()

    def run(self, ys: list[Tensor], seeds: Sequence[Any]) -> list[Gradient]:
        between = self.between([y for y in ys if trainable(y.dtype)])
        for i, (y, seed) in enumerate(zip(ys, seeds)):
            if not trainable(y.dtype):
                continue
            if seed is None:
                if y.dtype.is_complex:
                    raise TypeError(f"Gradients of complex tensors ({y}) must set grad_ys.")
                seed = ones_like(y, name=f"grad_ys_{i}")
            else:
                seed = _checked_seed(seed, y, i)
            self.arrived.setdefault(y, []).append(seed)
        results: dict[Tensor, Gradient] = {}
        wanted = set(self.xs)
        with_outputs: dict[Operation, None] = dict.fromkeys(between)
        for x in self.xs:
            with_outputs.setdefault(x.op)
        for op in sorted(with_outputs, key=lambda o: o._id, reverse=True):
            grads = [self._take(t) for t in op.outputs]
            for t, g in zip(op.outputs, grads):
                if t in wanted:
                    results[t] = g
            if op in between and any(g is not None for g in grads):
                self._backward_op(op, grads)
        return [results.get(x) for x in self.xs]

    def between(self, ys: list[Tensor]) -> set[Operation]:
        """Operations on a differentiable way from xs to ys that are to be differentiated."""
        above: dict[Operation, None] = {}
        stack = [y.op for y in ys]
        while stack:
            op = stack.pop()
            if op not in above:
                above[op] = None
                stack.extend(t.op for t in op.inputs if t.op not in above)
        reached = self.reached = set(self.xs)
        found: set[Operation] = set()
        for op in sorted(above, key=lambda o: o._id):
            if any(t in reached and trainable(t.dtype) for t in op.inputs):
                found.add(op)
                reached.update(t for t in op.outputs if trainable(t.dtype) and t not in self.blocked)
        return found

    def _take(self, tensor: Tensor) -> Gradient:
        """The sum of what arrived at a tensor."""
        parts = self.arrived.pop(tensor, None)
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        if all(isinstance(p, IndexedSlices) for p in parts):
            return concat_rows(parts)
        return total(parts)

    def _backward_op(self, op: Operation, grads: list[Gradient]) -> None:
        grads = [None if t in self.blocked else g for t, g in zip(op.outputs, grads)]
        if all(g is None for g in grads):
            return
        rule = rule_of(op)
        if rule is None:
            return
        overridden = "_gradient_op_type" in op.attrs
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.graph.name_scope(op.name + "_grad"))
            if self.colocate:
                if op.graph is self.graph:
                    stack.enter_context(self.graph.colocate_with(op))
                elif op.device:
                    stack.enter_context(self.graph.device(op.device))
            given = self._given(op, grads, op.type in TAKE_NONE and not overridden)
            if op.type in SUBGRAPHS and not overridden:
                found = rule(op, *given, needed=[t in self.reached for t in op.inputs])
            elif op.type in HOLOMORPHIC and op.outputs[0].dtype.is_complex and not overridden:
                found = _conjugates(_aslist(rule(op, *_conjugates(given))))
            else:
                found = rule(op, *given)
        found = found if isinstance(found, (list, tuple)) else (found,)
        if len(found) != len(op.inputs):
            raise ValueError(
                f"Num gradients {len(found)} generated for op {op.name} do not match num inputs {len(op.inputs)}"
            )
        for i, (t, g) in enumerate(zip(op.inputs, found)):
            if g is not None and trainable(t.dtype):
                if isinstance(g, Tensor) and t.shape.is_compatible_with(g.shape):
                    g.set_shape(t.shape)
                elif isinstance(g, Tensor):
                    raise ValueError(
                        "Incompatible shapes between op input and calculated input gradient. Forward operation: "
                        f"{op.name}. Input index: {i}. Original input shape: {t.shape}. Calculated input gradient "
                        f"shape: {g.shape}"
                    )
                self.arrived.setdefault(t, []).append(g)

    def _given(self, op: Operation, grads: list[Gradient], take_none: bool) -> list[Gradient]:
        """Dense gradients for the op's rule; zeros for outputs that nothing depends on, unless the rule takes None."""
        out: list[Gradient] = []
        for t, g in zip(op.outputs, grads):
            if g is None and not take_none and trainable(t.dtype):
                out.append(zeros_of(t))
            elif isinstance(g, IndexedSlices) and op.type != "Identity":
                out.append(convert_to_tensor(g))
            else:
                out.append(g)
        return out


def _conjugates(grads: Sequence[Any]) -> list[Any]:
    return [raw.Conj(g) if isinstance(g, Tensor) and g.dtype.is_complex else g for g in grads]


def _checked_seed(seed: Any, y: Tensor, i: int) -> Gradient:
    if isinstance(seed, IndexedSlices):
        return seed
    seed = convert_to_tensor(seed, dtype=None if isinstance(seed, Tensor) else y.dtype.base_dtype, name=f"grad_ys_{i}")
    if seed.dtype.base_dtype is not y.dtype.base_dtype:
        raise TypeError(f"Gradient type {seed.dtype.name} for tensor {y} does not match its type {y.dtype.name}.")
    seed.shape.assert_is_compatible_with(y.shape)
    return seed


__all__ = ["AggregationMethod", "UnconnectedGradients", "gradients"]
