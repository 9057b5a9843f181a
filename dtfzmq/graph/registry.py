"""The registry: one declaration per op, and the Python function that builds it into a graph."""

from __future__ import annotations

import collections
import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import as_shape
from dtfzmq.graph import opdef
from dtfzmq.graph.convert import convert_to_tensor, make_array
from dtfzmq.graph.graph import Graph, get_default_graph
from dtfzmq.graph.opdef import NO_GRAD, UNDEFINED, Arg, Attr, NoGrad, OpDef, Sample, all_ops, find, lookup
from dtfzmq.graph.tensor import Operation, Tensor

__all__ = ["NO_GRAD", "UNDEFINED", "OpDef", "Sample", "all_ops", "find", "graph_of", "lookup", "op"]


def op(
    name: str,
    signature: str,
    *,
    shape: Callable[[Operation], list[Any]],
    grad: Callable[..., Any] | NoGrad,
    kernel: Callable[..., Any] | None = None,
    make: Callable[..., Any] | None = None,
    start: Callable[..., Any] | None = None,
    samples: Sequence[Sample] = (),
    stateful: bool = False,
    out: bool = False,
    inplace: tuple[int, ...] = (),
    holds: bool = False,
) -> Callable[..., Any]:
    """Declare an op and return its builder ``fn(*inputs, *attrs, name=None)``.

    The builder converts its inputs, checks types and adds one operation to the graph of its inputs (the default graph
    if there are none). It returns the tensor, a named tuple of tensors if there are several outputs (a plain one if
    lists are among them), or the Operation if there is none.

    signature: see ``opdef``.
    shape: ``shape(op) -> [TensorShape, ...]``, one per output; raises ValueError if the inputs do not go together.
    grad: ``grad(op, *grads) -> (gradient per input, ...)``, ``NO_GRAD(reason)``, or
        ``UNDEFINED(reason)`` if asking for it is a LookupError.
    kernel: ``kernel(*inputs)``, for ops without attributes that matter.
    make: ``make(node, env) -> fn(*inputs)``, called once per node when a part is registered.
    start: ``start(node, env) -> begin(ctx, inputs, done)``, for ops that wait without holding a thread.
    samples: calls from which the tests of the registry are made.
    stateful: never folded, merged or shared; kernels live with the session.
    out: the function takes ``out=``, like a ufunc. inplace: inputs over which it may write when given as ``out``.
    holds: it may hold its thread for long, so it never runs on the I/O thread.
    """
    parsed = opdef.parse_signature(signature)
    definition = OpDef(
        name, parsed, shape, grad, kernel, make, start, tuple(samples), stateful, out, inplace, holds
    )
    definition.module = sys._getframe(1).f_globals["__name__"]
    opdef.add(definition)
    definition.builder = _builder(definition)
    return definition.builder


def graph_of(values: Sequence[Any]) -> Graph:
    """The graph in which an operation over `values` is made: the default one inside a branch or body, else theirs."""
    default = get_default_graph()
    for value in values:
        if type(value) is Tensor:
            graph = value.op.graph
            if graph is default or hasattr(default, "outer"):
                return default
            return graph
    return default


def _builder(definition: OpDef) -> Callable[..., Any]:
    name = definition.name
    sig = definition.signature
    n_inputs = len(sig.inputs)
    names = [a.name for a in sig.inputs] + [a.name for a in sig.attrs]
    plain = all(not a.list for a in sig.inputs)
    first_ref = next((i for i, a in enumerate(sig.inputs) if a.ref), -1)
    attr_specs = sig.attrs
    outputs = sig.outputs
    fields = () if any(o.list for o in outputs) else tuple(o.name for o in outputs)

    def build(*args: Any, **kwargs: Any) -> Any:
        op_name = kwargs.pop("name", None)
        if len(args) > len(names):
            if len(args) == len(names) + 1 and op_name is None:
                op_name = args[-1]
                args = args[:-1]
            else:
                raise TypeError(f"{name}() takes at most {len(names) + 1} arguments, got {len(args)}.")
        if len(args) != len(names) or kwargs:
            bound = dict(zip(names, args))
            for key, value in kwargs.items():
                if key not in names or key in bound:
                    raise TypeError(f"{name}() got an unexpected or repeated argument '{key}'.")
                bound[key] = value
            values = []
            for arg in sig.inputs:
                if arg.name not in bound:
                    raise TypeError(f"{name}() is missing its input '{arg.name}'.")
                values.append(bound[arg.name])
            attr_values = [bound.get(a.name, a.default) for a in attr_specs]
            for a in attr_specs:
                if a.required and a.name not in bound:
                    raise TypeError(f"{name}() is missing its attribute '{a.name}'.")
        else:
            values = list(args[:n_inputs])
            attr_values = list(args[n_inputs:])
        types: dict[str, DType] = {}
        op_name = op_name or name
        if plain and all(map(_is_typed, values)):
            tensors = _convert_plain(name, sig.inputs, values, types)
            attrs: dict[str, Any] = {}
        else:
            # constants of Python values are named inside the operation's name: ``y/x``, never ``x``
            with _scope_of(values, op_name) as op_name:
                if plain:
                    tensors, attrs = _convert_plain(name, sig.inputs, values, types), {}
                else:
                    tensors, attrs = _convert_lists(name, sig.inputs, values, types)
        for spec, value in zip(attr_specs, attr_values):
            attrs[spec.name] = _attr_value(name, spec, value)
        dtypes_out = [_output_type(o, types, attrs, tensors) for o in outputs] if not _counted(outputs) else (
            _listed_types(outputs, types, attrs, tensors)
        )
        graph = graph_of(tensors)
        home = tensors[first_ref].op if first_ref >= 0 else None
        if home is None or home.graph is not graph or home.type == "_Arg":
            made = graph.create_op(name, tensors, attrs, dtypes_out, op_name)
        else:
            # whatever device scope is in force, an update stands with its variable
            with graph.colocate_with(home):
                made = graph.create_op(name, tensors, attrs, dtypes_out, op_name)
        if not outputs:
            return made
        if len(outputs) == 1 and not outputs[0].list:
            return made.outputs[0]
        return _results(name, fields)._make(made.outputs) if fields else tuple(made.outputs)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"Add a ``{name}`` operation: ``{sig.text}``."
    return build


@functools.cache
def _results(name: str, fields: tuple[str, ...]) -> Any:
    """The named tuple of an op's outputs, as TensorFlow's has it; made when the first such op is."""
    return collections.namedtuple(name, fields)


@contextlib.contextmanager
def _scope_of(values: list[Any], op_name: str) -> Iterator[str]:
    """The name that an operation over `values` will have, open as a scope, in the graph in which it will be made."""
    flat: list[Any] = []
    for value in values:
        flat.extend(value if isinstance(value, (list, tuple)) else (value,))
    if all(map(_is_typed, flat)):
        yield op_name
        return
    graph = graph_of(flat)
    if graph is get_default_graph():
        with graph.name_scope(op_name) as scope:
            yield scope
        return
    with graph.as_default(), graph.name_scope(op_name) as scope:
        yield scope


def _type_class(name: str, arg: Arg, dtype: DType) -> None:
    if dtype.base_dtype not in opdef.allowed(arg.var):
        allowed = ", ".join(sorted(d.name for d in opdef.allowed(arg.var)))
        raise TypeError(
            f"Value passed to parameter '{arg.name}' of op '{name}' has DataType {dtype.base_dtype.name} not in list of"
            f" allowed values: {allowed}"
        )


def _is_typed(value: Any) -> bool:
    return isinstance(value, Tensor) or isinstance(getattr(value, "dtype", None), DType)


def _convert_plain(name: str, args: tuple[Arg, ...], values: list[Any], types: dict[str, DType]) -> list[Tensor]:
    """Convert single inputs. A tensor among the inputs of one type variable decides its type, else the first value."""
    for arg, value in zip(args, values):
        if arg.var and arg.var not in types and _is_typed(value):
            types[arg.var] = value.dtype.base_dtype
    return [_convert_one(name, arg, value, types) for arg, value in zip(args, values)]


def _convert_one(name: str, arg: Arg, value: Any, types: dict[str, DType]) -> Tensor:
    wanted = arg.type if arg.type is not None else types.get(arg.var)
    if type(value) is Tensor:
        tensor = value
    else:
        # numbers without a type of their own are int32; an array keeps its int64, as in TensorFlow
        loose = wanted is None and arg.var.startswith("I") and not isinstance(value, (np.ndarray, np.generic))
        preferred = dtypes.int32 if loose else None
        try:
            tensor = convert_to_tensor(
                value, None if _is_typed(value) else wanted, arg.name, preferred_dtype=preferred, as_ref=arg.ref
            )
        except ValueError as error:
            raise ValueError(f"Input '{arg.name}' of '{name}' Op: {error}") from None
        except TypeError as error:
            raise TypeError(f"Input '{arg.name}' of '{name}' Op: {error}") from None
    base = tensor.dtype.base_dtype
    if wanted is not None and base is not wanted:
        if arg.type is not None:
            raise TypeError(
                f"Input '{arg.name}' of '{name}' Op has type {base.name} that does not match expected type of"
                f" {wanted.name}."
            )
        raise TypeError(
            f"Input '{arg.name}' of '{name}' Op has type {base.name} that does not match type {wanted.name} of the"
            " other inputs."
        )
    if arg.ref and not tensor.dtype.is_ref:
        raise TypeError(f"'{name}' Op requires that input '{arg.name}' be a mutable tensor (e.g.: a tf.Variable)")
    if arg.var:
        if arg.var not in types:
            types[arg.var] = base
        _type_class(name, arg, base)
    return tensor


def _convert_lists(
    name: str, args: tuple[Arg, ...], values: list[Any], types: dict[str, DType]
) -> tuple[list[Tensor], dict[str, Any]]:
    """Convert inputs some of which are lists; the lengths go into attributes ``n_<input>``."""
    for arg, value in zip(args, values):
        if arg.var and not arg.mixed and arg.var not in types:
            for item in value if arg.list and isinstance(value, (list, tuple)) else [value]:
                if _is_typed(item):
                    types[arg.var] = item.dtype.base_dtype
                    break
    tensors: list[Tensor] = []
    attrs: dict[str, Any] = {}
    for arg, value in zip(args, values):
        if not arg.list:
            tensors.append(_convert_one(name, arg, value, types))
            continue
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"Expected list for '{arg.name}' argument to '{name}' Op, not {value!r}.")
        attrs[f"n_{arg.name}"] = len(value)
        for item in value:
            one = convert_to_tensor(item, name=arg.name) if arg.mixed else _convert_one(name, arg, item, types)
            tensors.append(one)
    return tensors, attrs


def _attr_value(name: str, spec: Attr, value: Any) -> Any:
    if value is None:
        if spec.optional or not spec.required:
            return None
        raise TypeError(f"Attribute '{spec.name}' of op '{name}' must not be None.")
    kind = spec.kind
    if kind.startswith("list("):
        items = value if isinstance(value, (list, tuple, np.ndarray)) else [value]
        inner = Attr(spec.name, kind[5:-1], False, True, None)
        return [_attr_value(name, inner, item) for item in items]
    try:
        if kind == "int":
            if isinstance(value, (float, np.floating)) and math.isfinite(value):
                return int(value)  # TensorFlow drops the fraction as well
            return int(value.__index__())
        if kind == "float":
            return float(value)
        if kind == "bool":
            return bool(value)
        if kind == "str":
            return value.decode() if isinstance(value, bytes) else str(value)
        if kind == "type":
            return dtypes.as_dtype(value).base_dtype
        if kind == "shape":
            return as_shape(value)
        if kind == "tensor":
            return make_array(value)
    except (TypeError, AttributeError):
        raise TypeError(f"Attribute '{spec.name}' of op '{name}' must be of kind {kind}, not {value!r}.") from None
    return value


def _counted(outputs: tuple[Arg, ...]) -> bool:
    return any(o.list for o in outputs)


def _output_type(arg: Arg, types: dict[str, DType], attrs: dict[str, Any], tensors: list[Tensor]) -> DType:
    if arg.type is not None:
        found = arg.type
    else:
        found = types[arg.var] if arg.var in types else attrs[arg.var]
    return found.ref if arg.ref else found


def _listed_types(
    outputs: tuple[Arg, ...], types: dict[str, DType], attrs: dict[str, Any], tensors: list[Tensor]
) -> list[DType]:
    found: list[DType] = []
    for arg in outputs:
        if not arg.list:
            found.append(_output_type(arg, types, attrs, tensors))
        elif arg.mixed:
            found.extend(t.dtype.base_dtype for t in tensors)
        elif arg.count:
            found.extend([_output_type(arg, types, attrs, tensors)] * int(attrs[arg.count]))
        elif isinstance(attrs.get(arg.var), list):
            found.extend(attrs[arg.var])
        else:
            found.extend([_output_type(arg, types, attrs, tensors)] * len(tensors))
    return found
