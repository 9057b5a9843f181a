"""Control flow: cond, case, while_loop. Branches and bodies are graphs of their own inside one If or While op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.func_graph import FuncGraph
from dtfzmq.graph.graph import Graph, Operation, Tensor, get_default_graph
from dtfzmq.graph.registry import graph_of
from dtfzmq.ops import composites, flow_grad, nest
from dtfzmq.ops.branching import make_if, make_while, passed_on, value_of
from dtfzmq.ops.raw import raw

_GRADIENTS = flow_grad  # declares If and While


def _leaf(value: Any, graph: FuncGraph) -> Tensor:
    """One result of a branch or body as a value of its graph; an Operation gives True once it has run."""
    if isinstance(value, Operation):
        own = value if value.graph is graph else graph.capture_control(value)
        with graph.control_dependencies([] if own is None else [own]):
            return passed_on(convert_to_tensor(True))
    tensor = convert_to_tensor(value)
    if tensor.graph is not graph:
        tensor = graph.capture(tensor)
    return value_of(tensor)


def _leaves(value: Any, graph: FuncGraph) -> Any:
    """One result as values of its graph; a composite stays one."""
    if not composites.is_composite(value):
        return _leaf(value, graph)
    return composites.pack_like(value, [_leaf(part, graph) for part in composites.parts_of(value)])


def _branch(outer: Graph, scope: str, fn: Callable[[], Any], label: str) -> tuple[FuncGraph, Any]:
    graph = FuncGraph(outer, scope)
    with graph.as_default():
        result = fn()
        if result is None:
            raise ValueError(f"{label} must have a return value.")
        return graph, nest.map_structure(lambda leaf: _leaves(leaf, graph), result)


def _single(structure: Any) -> Any:
    """A list or tuple of one element stands for the element, unless cond is strict."""
    if isinstance(structure, (list, tuple)) and len(structure) == 1 and not hasattr(structure, "_fields"):
        return structure[0]
    return structure


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """true_fn() if the scalar `pred` holds when the step runs, else false_fn(): only one of them runs.

    Both return the same nested structure of tensors of the same types. A tensor made outside is computed whichever
    branch is taken. Raises TypeError for a Python bool, ValueError or TypeError for results that differ.
    """
    true_fn = _renamed("true_fn", true_fn, "fn1", fn1)
    false_fn = _renamed("false_fn", false_fn, "fn2", fn2)
    if not callable(true_fn):
        raise TypeError("true_fn must be callable.")
    if not callable(false_fn):
        raise TypeError("false_fn must be callable.")
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool")
    outer = graph_of([pred])
    pred = convert_to_tensor(pred, name="pred")
    if pred.dtype.base_dtype is not dtypes.bool_:
        raise TypeError(f"pred must be a boolean scalar, but is {pred}.")
    if pred.shape.ndims not in (None, 0):
        raise ValueError(f"pred must be a scalar, but has shape {pred.shape}.")
    with outer.name_scope(name or "cond") as scope:
        prefix = scope.rstrip("/")
        then_graph, then_result = _branch(outer, f"{prefix}/true", true_fn, "true_fn")
        else_graph, else_result = _branch(outer, f"{prefix}/false", false_fn, "false_fn")
        if not strict:
            then_result, else_result = _single(then_result), _single(else_result)
        try:
            composites.assert_same_structure(then_result, else_result)
        except TypeError as error:
            raise TypeError(f"Incompatible return types of true_fn and false_fn: {error}") from None
        except ValueError as error:
            raise ValueError(f"Incompatible return values of true_fn and false_fn: {error}") from None
        rows = [composites.flatten(then_result), composites.flatten(else_result)]
        for a, b in zip(*rows):
            if a.dtype is not b.dtype:
                raise ValueError(
                    f"Outputs of true_fn and false_fn must have the same type: {a.dtype.name}, {b.dtype.name}"
                )
        made = make_if(outer, _own(outer, value_of(pred)), [then_graph, else_graph], rows, "If")
        return composites.pack_like(then_result, _delivered(outer, made, len(rows[0])))


def _own(graph: Graph, tensor: Tensor) -> Tensor:
    return tensor if tensor.graph is graph else graph.capture(tensor)


def _delivered(outer: Graph, made: Operation, count: int) -> list[Tensor]:
    """The results as tensors of their own: what waits for one of them does not ask for all that the op could save."""
    with outer.as_default(), outer.control_dependencies(None):
        return [passed_on(t, "Merge") for t in made.outputs[:count]]


def _renamed(name: str, fn: Any, old_name: str, old: Any) -> Any:
    if old is not None:
        if fn is not None:
            raise TypeError(f"cond(): '{old_name}' is deprecated in favor of '{name}'; do not use both.")
        return old
    if fn is None:
        raise TypeError(f"cond(): {name} argument required")
    return fn


def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the first function whose predicate holds, else of `default`.

    Without a default a step in which no predicate holds fails with InvalidArgumentError; with `exclusive` one in which
    several hold. A dict of pairs is walked in the order of its predicates' names.
    """
    if isinstance(pred_fn_pairs, Mapping):
        pairs = sorted(pred_fn_pairs.items(), key=lambda item: item[0].name)
    elif isinstance(pred_fn_pairs, (list, tuple)):
        pairs = list(pred_fn_pairs)
    else:
        raise TypeError("fns must be a list, tuple, or dict")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Each entry in pred_fn_pairs must be a 2-tuple")
        if not isinstance(pair[0], Tensor) or pair[0].dtype.base_dtype is not dtypes.bool_:
            raise TypeError(f"pred must be Tensor of type bool: {pair[0]!r}")
        if not callable(pair[1]):
            raise TypeError(f"fn for pred {pair[0].name} must be callable.")
    if default is not None and not callable(default):
        raise TypeError("default must be callable.")
    if not pairs:
        raise ValueError("case() needs at least one pair of a predicate and a function.")
    graph = graph_of([pred for pred, _ in pairs])
    with graph.as_default(), graph.name_scope(name):
        checks = [_at_most_one(pairs)] if exclusive else []
        rest = default if default is not None else _some_case(pairs)
        for pred, fn in reversed(pairs[1:] if default is not None else pairs[1:-1]):
            rest = _otherwise(pred, fn, rest, strict)
        with graph.control_dependencies(checks):
            if default is None and len(pairs) == 1:
                return rest()
            return cond(pairs[0][0], pairs[0][1], rest, strict=strict)


def _at_most_one(pairs: Sequence[Any]) -> Operation:
    held = raw.Pack([raw.Cast(pred, DstT=dtypes.int32) for pred, _ in pairs], axis=0)
    names = ", ".join(pred.name for pred, _ in pairs)
    text = f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated as True:"
    made: Operation = raw.Assert(raw.LessEqual(raw.Sum(held, [0]), np.int32(1)), [text, held], summarize=len(pairs))
    return made


def _some_case(pairs: Sequence[Any]) -> Callable[[], Any]:
    """The last function, where it is known that no other predicate holds."""

    def last() -> Any:
        graph = get_default_graph()
        held = raw.Pack([raw.Cast(pred, DstT=dtypes.int32) for pred, _ in pairs], axis=0)
        text = "Input error: None of conditions evaluated as True:"
        check = raw.Assert(value_of(pairs[-1][0]), [text, held], summarize=len(pairs))
        with graph.control_dependencies([check]):
            result = pairs[-1][1]()
            return nest.map_structure(_after, result)

    return last


def _after(leaf: Any) -> Any:
    """A result as a tensor made here and now, so that it waits for what it has to wait for."""
    if leaf is None or isinstance(leaf, Operation) or composites.is_composite(leaf):
        return leaf
    return passed_on(convert_to_tensor(leaf))


def _otherwise(pred: Tensor, fn: Any, rest: Any, strict: bool) -> Callable[[], Any]:
    return lambda: cond(pred, fn, rest, strict=strict)


def switch_case(branch_index: Any, branch_fns: Any, default: Callable[[], Any] | None = None,
                name: str = "switch_case") -> Any:  # fmt: skip
    """The result of the function whose number is `branch_index`, else of `default` (the last, or highest, without).

    `branch_fns` is a list of functions, of pairs (number, function), or a dict of such.
    """
    if isinstance(branch_fns, Mapping):
        numbered = sorted(branch_fns.items())
    elif not isinstance(branch_fns, (list, tuple)):
        raise TypeError("branch_fns must be a list, tuple, or dict")
    elif all(callable(f) for f in branch_fns):
        numbered = list(enumerate(branch_fns))
    else:
        numbered = sorted(branch_fns, key=lambda pair: pair[0])
    if not numbered:
        raise ValueError("Must provide at least one item in branch_fns")
    for number, fn in numbered:
        if not isinstance(number, int) or not callable(fn):
            raise TypeError(f"Each entry of branch_fns is a whole number and a callable, not {number!r} and {fn!r}.")
    if len({number for number, _ in numbered}) != len(numbered):
        raise ValueError("The numbers of branch_fns must be distinct.")
    index = convert_to_tensor(branch_index, dtypes.int32 if isinstance(branch_index, int) else None)
    rest = default if default is not None else numbered.pop()[1]
    for number, fn in reversed(numbered):
        rest = _chosen(index, number, fn, rest, name)
    return rest()


def _chosen(index: Tensor, number: int, fn: Any, rest: Any, name: str) -> Callable[[], Any]:
    same = np.array(number, index.dtype.as_numpy_dtype)
    return lambda: cond(raw.Equal(index, same), fn, rest, strict=True, name=name)


def _invariants(loop_vars: Any, flat: Sequence[Tensor], shape_invariants: Any) -> list[TensorShape]:
    if shape_invariants is None:
        return [t.shape for t in flat]
    leaves, shapes = nest.flatten(loop_vars), _flat_shapes(shape_invariants)
    if len(shapes) != len(leaves):
        raise ValueError(f"shape_invariants has {len(shapes)} entries for {len(leaves)} loop variables.")
    given: list[TensorShape] = []
    for leaf, wanted in zip(leaves, shapes):
        given += composites.invariants(leaf, as_shape(wanted))
    for t, shape in zip(flat, given):
        if not _covers(shape, t.shape):
            raise ValueError(
                f"The shape invariant specified for {t.name} is not compatible with the initial shape of the loop "
                f"variable. It enters the loop with shape {t.shape}, but the specified shape invariant is {shape}."
            )
    return given


def _flat_shapes(value: Any) -> list[Any]:
    """Shapes are leaves, though a list of sizes looks like a structure."""
    if isinstance(value, Mapping):
        return [s for key in sorted(value) for s in _flat_shapes(value[key])]
    if isinstance(value, (list, tuple)) and not all(v is None or hasattr(v, "__index__") for v in value):
        return [s for v in value for s in _flat_shapes(v)]
    if isinstance(value, (list, tuple)) and not value:
        return [value]
    return [value]


def _covers(wide: TensorShape, narrow: TensorShape) -> bool:
    """True if every shape that `narrow` allows is allowed by `wide`."""
    a, b = wide.dims_or_none, narrow.dims_or_none
    if a is None:
        return True
    return b is not None and len(a) == len(b) and all(p is None or p == q for p, q in zip(a, b))


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Run body(*loop_vars) while cond(*loop_vars) holds; the last values, in the structure of loop_vars.

    A list of one variable gives that variable alone unless return_same_structure. A variable keeps its type, and its
    shape unless `shape_invariants` says what of it may change. Iterations run one after the other; no task of a loop
    over several runs more than parallel_iterations ahead of another. swap_memory is accepted. `maximum_iterations`
    bounds the count. Raises TypeError and ValueError for misuse.
    """
    if not callable(cond):
        raise TypeError("cond must be callable.")
    if not callable(body):
        raise TypeError("body must be callable.")
    if parallel_iterations < 1:
        raise TypeError("parallel_iterations must be a positive integer.")
    if not nest.is_nested(loop_vars):
        loop_vars = [loop_vars]
    if not composites.flatten(loop_vars):
        raise ValueError("No loop variables provided")
    outer = get_default_graph()
    if not hasattr(outer, "outer"):
        outer = graph_of([v for v in composites.flatten(loop_vars) if isinstance(v, Tensor)])
    with outer.as_default(), outer.name_scope(name or "while") as scope:
        prefix = scope.rstrip("/")
        flat = [_initial(v, outer) for v in composites.flatten(loop_vars)]
        structure = composites.pack_like(loop_vars, flat)
        shapes = _invariants(structure, flat, shape_invariants)
        count = len(flat)
        if maximum_iterations is not None:
            limit = _own(outer, convert_to_tensor(maximum_iterations, dtype=dtypes.int32, name="maximum_iterations"))
            if limit.shape.ndims not in (None, 0):
                raise ValueError(f"maximum_iterations must be a scalar, saw shape: {limit.shape}")
            flat = [*flat, convert_to_tensor(np.int32(0))]
            shapes = [*shapes, TensorShape(())]
        test, pred = _test_graph(outer, f"{prefix}/cond", cond, structure, flat, shapes, count, maximum_iterations)
        graph, following = _body_graph(outer, f"{prefix}/body", body, structure, flat, shapes, count)
        made = make_while(
            outer, flat, test, pred, graph, following, shapes, "While",
            save=back_prop, parallel_iterations=parallel_iterations,
        )  # fmt: skip
        finals = _exits(outer, made, shapes[:count], count)
    packed = composites.pack_like(loop_vars, finals)
    return packed if return_same_structure else _single(packed)


def _initial(value: Any, outer: Graph) -> Tensor:
    return value_of(_own(outer, convert_to_tensor(value)))


def _variables(graph: FuncGraph, flat: Sequence[Tensor], shapes: Sequence[TensorShape]) -> list[Tensor]:
    return [graph.add_arg(t.dtype.base_dtype, shape, t.op.name.rpartition("/")[2]) for t, shape in zip(flat, shapes)]


def _call(fn: Callable[..., Any], structure: Any, args: list[Tensor]) -> Any:
    packed = composites.pack_like(structure, args)
    return fn(**packed) if isinstance(packed, Mapping) else fn(*packed)


def _test_graph(
    outer: Graph, scope: str, fn: Any, structure: Any, flat: Sequence[Tensor], shapes: Sequence[TensorShape],
    count: int, limit: Any,
) -> tuple[FuncGraph, Tensor]:  # fmt: skip
    graph = FuncGraph(outer, scope)
    with graph.as_default():
        args = _variables(graph, flat, shapes)
        pred = convert_to_tensor(_call(fn, structure, args[:count]))
        if pred.dtype.base_dtype is not dtypes.bool_:
            raise TypeError(f"cond must return a boolean scalar, but returned {pred}.")
        if pred.shape.ndims not in (None, 0):
            raise ValueError(f"cond must return a boolean scalar, but returned shape {pred.shape}.")
        pred = value_of(_own(graph, pred))
        if limit is not None:
            below = raw.Less(args[-1], convert_to_tensor(limit, dtype=dtypes.int32))
            pred = raw.LogicalAnd(below, pred)
    return graph, pred


def _body_graph(
    outer: Graph, scope: str, fn: Any, structure: Any, flat: Sequence[Tensor], shapes: Sequence[TensorShape], count: int
) -> tuple[FuncGraph, list[Tensor]]:
    graph = FuncGraph(outer, scope)
    with graph.as_default():
        args = _variables(graph, flat, shapes)
        result = _call(fn, structure, args[:count])
        if not nest.is_nested(result):
            result = [result]
        if (
            isinstance(structure, (list, tuple))
            and not hasattr(structure, "_fields")
            and isinstance(result, (list, tuple))
        ):
            result = type(structure)(result) if not hasattr(result, "_fields") else result
        composites.assert_same_structure(structure, result)
        following = [_leaf(v, graph) for v in composites.flatten(result)]
        for before, after, shape in zip(flat, following, shapes):
            if after.dtype is not before.dtype.base_dtype:
                raise TypeError(
                    f"Loop variable {before.name} enters the loop with type {before.dtype.base_dtype.name}, but has "
                    f"type {after.dtype.name} after one iteration."
                )
            if not _covers(shape, after.shape):
                raise ValueError(
                    f"The shape for {after.name} is not an invariant for the loop. It enters the loop with shape "
                    f"{before.shape}, but has shape {after.shape} after one iteration. Provide shape invariants using "
                    "either the `shape_invariants` argument of tf.while_loop or set_shape() on the loop variables."
                )
        if len(flat) > count:
            following.append(raw.Add(args[-1], np.int32(1)))
    return graph, following


def _exits(outer: Graph, made: Operation, shapes: Sequence[TensorShape], count: int) -> list[Tensor]:
    with outer.control_dependencies(None):
        finals = [passed_on(t, "Exit") for t in made.outputs[:count]]
    for t, shape in zip(finals, shapes):
        t.set_shape(shape)
    return finals
