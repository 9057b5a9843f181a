"""Values from nothing (constants, fills, ranges, placeholders), and values passed on (identity, groups)."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors, shapes
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import constant as _constant
from dtfzmq.graph.convert import convert_to_tensor, make_array
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import constant_value, full_dims, value_as_shape
from dtfzmq.ops.arguments import single, sizes
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import bits, ints, mat

_SOURCE = NO_GRAD("has no input")


def _const_kernel(node: Any, env: Any) -> Any:
    value = node.attrs["value"]
    return lambda: value


_const = op(
    "Const", "; value: tensor, dtype: type -> output: dtype", shape=lambda n: [TensorShape(n.attrs["value"].shape)],
    make=_const_kernel, grad=_SOURCE, samples=[Sample(dtype=dtypes.float64, value=mat(2, 3))],
)  # fmt: skip


def _fill_shape(n: Any) -> list[TensorShape]:
    known = constant_value(n.inputs[0])
    if known is not None and known.size and known.min() < 0:
        raise ValueError(f"Fill dimensions must be >= 0, not {known.tolist()}.")
    return [value_as_shape(n.inputs[0])]


def _fill_kernel(dims: np.ndarray, value: np.ndarray) -> np.ndarray:
    to = sizes("dims", dims)
    value = np.array(value, object) if isinstance(value, bytes) else np.asarray(value)
    single("value", value)
    return np.full(to, value.reshape(()), value.dtype)


_fill = op(
    "Fill", "dims: I, value: T -> output: T", shape=_fill_shape, kernel=_fill_kernel,
    grad=lambda n, g: (None, raw.Sum(g, raw.Range(0, raw.Rank(g), 1))),
    samples=[Sample(ints(2, 3), mat()), Sample(ints(0), mat())],
)  # fmt: skip


def _like_kernel(number: int, text: bytes) -> Any:
    def make(node: Any, env: Any) -> Any:
        dtype = node.dtypes[0].np_dtype
        return lambda x: np.full(np.shape(x), text if dtype.hasobject else number, dtype)

    return make


_zeros_like = op(
    "ZerosLike", "x: T -> y: T", shape=same, make=_like_kernel(0, b""), grad=NO_GRAD("constant"),
    samples=[Sample(mat(2, 3)), Sample(ints(1, 2)), Sample(bits(2))],
)  # fmt: skip
_ones_like = op(
    "OnesLike", "x: T -> y: T", shape=same, make=_like_kernel(1, b""), grad=NO_GRAD("constant"),
    samples=[Sample(mat(2, 3)), Sample(ints(1, 2)), Sample(bits(2))],
)  # fmt: skip


def _range_shape(n: Any) -> list[TensorShape]:
    bounds = [constant_value(t) for t in n.inputs]
    if any(b is None for b in bounds):
        return [TensorShape([None])]
    start, limit, delta = (b.item() for b in bounds if b is not None)
    try:
        return [TensorShape([_steps(start, limit, delta)])]
    except errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None


def _steps(start: Any, limit: Any, delta: Any) -> int:
    """How many numbers a range has, counted without rounding if they are integers."""
    if delta == 0:
        raise errors.InvalidArgumentError(None, None, f"Requires delta != 0: {delta}")
    if (start > limit) if delta > 0 else (start < limit):
        sides = ("<=", ">") if delta > 0 else (">=", "<")
        raise errors.InvalidArgumentError(
            None, None, f"Requires start {sides[0]} limit when delta {sides[1]} 0: {start}/{limit}"
        )
    if isinstance(delta, int):
        return -((start - limit) // delta)
    count = np.ceil((limit - start) / delta)
    if not abs(count) < 2**63:
        raise errors.InvalidArgumentError(None, None, f"Requires ((limit - start) / delta) <= 2**63 - 1: {count}")
    return int(count)


def _range_kernel(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
    dtype = np.asarray(start).dtype
    count = _steps(*(single(what, x) for what, x in (("start", start), ("limit", limit), ("delta", delta))))
    if dtype.kind in "iu" and delta == 1:
        return np.arange(start.item(), start.item() + count, dtype=dtype)
    return (start.reshape(()) + np.arange(count, dtype=dtype) * delta.reshape(())).astype(dtype, copy=False)


_range = op(
    "Range", "start: R, limit: R, delta: R -> output: R", shape=_range_shape, kernel=_range_kernel,
    grad=NO_GRAD("stepwise"),
    samples=[
        Sample(np.int32(2), np.int32(20), np.int32(3)),
        Sample(np.float64(0), np.float64(1), np.float64(0.25)),
        Sample(np.int32(5), np.int32(0), np.int32(-2)),
    ],
)  # fmt: skip


def _linspace_shape(n: Any) -> list[TensorShape]:
    count = constant_value(n.inputs[2])
    return [TensorShape([None if count is None else int(count)])]


def _linspace_kernel(start: np.ndarray, stop: np.ndarray, num: np.ndarray) -> np.ndarray:
    if num < 1:
        raise errors.InvalidArgumentError(None, None, f"Requires num > 0: {num}")
    return np.linspace(start, stop, int(num), dtype=np.asarray(start).dtype)


_linspace = op(
    "LinSpace", "start: F, stop: F, num: I -> output: F", shape=_linspace_shape, kernel=_linspace_kernel,
    grad=NO_GRAD("stepwise"), samples=[Sample(np.float64(0), np.float64(2), np.int32(5))],
)  # fmt: skip


def _type_text(dtype: dtypes.DType) -> str:
    return {"float32": "float", "float64": "double", "float16": "half"}.get(dtype.name, dtype.name)


def _placeholder_kernel(node: Any, env: Any) -> Any:
    shape = node.attrs["shape"]
    dims = None if shape is None else shape.dims_or_none
    known = "" if dims is None else " and shape [" + ",".join("?" if d is None else str(d) for d in dims) + "]"
    text = (
        f"You must feed a value for placeholder tensor '{node.name}' "
        f"with dtype {_type_text(node.dtypes[0])}{known}"
    )  # fmt: skip

    def unfed() -> None:
        raise errors.InvalidArgumentError(None, None, text)

    return unfed


_placeholder = op(
    "Placeholder", "; dtype: type, shape: shape? = None -> output: dtype",
    shape=lambda n: [as_shape(n.attrs["shape"])], make=_placeholder_kernel, grad=_SOURCE,
    samples=[Sample(dtype=dtypes.float32, shape=TensorShape([2, None]), fails=errors.InvalidArgumentError)],
)  # fmt: skip


def _pass(x: Any) -> Any:
    return x


_placeholder_with_default = op(
    "PlaceholderWithDefault", "input: T; shape: shape -> output: T", shape=lambda n: [as_shape(n.attrs["shape"])],
    kernel=_pass, grad=lambda n, g: (g,), samples=[Sample(mat(2, 3), shape=TensorShape([2, None]))],
)  # fmt: skip
_identity = op(
    "Identity", "input: T -> output: T", shape=same, kernel=_pass, grad=lambda n, g: (g,), samples=[Sample(mat(2, 3))]
)
_stop_gradient = op(
    "StopGradient", "input: T -> output: T", shape=same, kernel=_pass, grad=NO_GRAD("asked for by the user"),
    samples=[Sample(mat(2, 3))],
)  # fmt: skip
_prevent_gradient = op(
    "PreventGradient", "input: T; message: str = '' -> output: T", shape=same, kernel=_pass,
    grad=NO_GRAD("not differentiable"), samples=[Sample(mat(2))],
)  # fmt: skip
_identity_n = op(
    "IdentityN", "input: any* -> output: any*", shape=lambda n: [t.shape for t in n.inputs],
    kernel=lambda *inputs: inputs if len(inputs) != 1 else inputs[0], grad=lambda n, *grads: grads,
    samples=[Sample([mat(2, 3), mat(4, seed=2)])],
)  # fmt: skip
_no_op = op("NoOp", "->", shape=lambda n: [], kernel=lambda: None, grad=_SOURCE, samples=[Sample()])


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """A tensor with a fixed value.

    `shape` reshapes the value; one that is too short is filled up with its last element. Raises ValueError if the value
    has too many elements or (verify_shape) another shape, TypeError if it does not fit `dtype`.
    """
    if verify_shape and shape is not None:
        got = make_array(value, None if dtype is None else dtypes.as_dtype(dtype).base_dtype).shape
        if got != tuple(as_shape(shape).as_list()):
            raise TypeError(f"Expected Tensor's shape: {as_shape(shape)}, got {got}.")
    return _constant(value, dtype, shape, name)


def _sizes(shape: Any) -> tuple[int, ...] | Tensor:
    """A tuple if the sizes are known while building, else an int32 or int64 vector."""
    if isinstance(shape, Tensor):
        known = constant_value(shape)
        if known is None:
            return shape
        return tuple(int(d) for d in np.atleast_1d(known))
    if isinstance(shape, TensorShape):
        return tuple(int(d) for d in shape) if shape.is_fully_defined() else convert_to_tensor(shape)
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    try:
        return tuple(int(d) for d in as_shape(shape))
    except (TypeError, ValueError):
        return convert_to_tensor(shape, dtype=dtypes.int32)


_SMALL = 1000  # elements; more are made by a Fill at run time so that graphs stay small


def _filled(shape: Any, number: Any, dtype: dtypes.DType, name: str | None) -> Tensor:
    known = _sizes(shape)
    value = np.array(number, dtype.np_dtype)
    if isinstance(known, tuple) and int(np.prod(known, dtype=np.int64)) < _SMALL:
        return _constant(np.full(known, value, dtype.np_dtype), dtype=dtype, name=name or "Const")
    dims = known if isinstance(known, Tensor) else np.array(known, np.int32)
    return _fill(dims, value, name=name)


def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Zeros of a shape (False of bool, empty strings)."""
    dtype = dtypes.as_dtype(dtype).base_dtype
    return _filled(shape, b"" if dtype is dtypes.string else 0, dtype, name or "zeros")


def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Ones of a shape (True of bool)."""
    return _filled(shape, 1, dtypes.as_dtype(dtype).base_dtype, name or "ones")


def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """A tensor of shape `dims` full of a scalar."""
    if not isinstance(dims, Tensor):
        dims = convert_to_tensor(dims, dtype=dtypes.int32 if isinstance(dims, (list, tuple)) else None)
    return _fill(dims, value, name=name)


def _like(builder: Any, number: int, tensor: Any, dtype: Any, name: str | None, optimize: bool) -> Tensor:
    tensor = convert_to_tensor(tensor, name="tensor")
    to = tensor.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
    known = full_dims(tensor)
    if optimize and known is not None and to is not dtypes.string:
        return _filled(known, number, to, name)
    if to is tensor.dtype.base_dtype:
        return builder(tensor, name=name)
    value = np.array(b"", object) if to is dtypes.string else np.array(number, to.np_dtype)
    return _fill(raw.Shape(tensor), value, name=name)


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Zeros in the shape of `tensor`, of its dtype or `dtype`."""
    return _like(_zeros_like, 0, tensor, dtype, name or "zeros_like", optimize)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Tensor:
    """Ones in the shape of `tensor`, of its dtype or `dtype`."""
    return _like(_ones_like, 1, tensor, dtype, name or "ones_like", optimize)


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """start, start + delta, ... below limit; one argument is the limit. Mixed dtypes become the widest of them."""
    if limit is None:
        start, limit = 0, start
    parts = [p if isinstance(p, Tensor) else convert_to_tensor(p, dtype=dtype) for p in (start, limit, delta)]
    order = [dtypes.int32, dtypes.int64, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64]
    if dtype is None:
        kinds = [p.dtype.base_dtype for p in parts]
        dtype = max(kinds, key=lambda d: order.index(d) if d in order else -1)
    to = dtypes.as_dtype(dtype)
    parts = [p if p.dtype.base_dtype is to else _retyped(p, to) for p in parts]
    return _range(*parts, name=name)


def _retyped(tensor: Tensor, to: dtypes.DType) -> Tensor:
    value = constant_value(tensor)
    return raw.Cast(tensor, DstT=to) if value is None else convert_to_tensor(value.astype(to.np_dtype))


def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Tensor:
    """`num` evenly spaced values from start to stop, both included, along a new axis.

    Of start and stop whose rank is not known yet, axis is 0 and they have to be scalars.
    """
    start = convert_to_tensor(start, name="start")
    stop = convert_to_tensor(stop, dtype=start.dtype.base_dtype, name="stop")
    num = convert_to_tensor(num, name="num")
    rank = shapes.broadcast(start.shape, stop.shape).ndims
    if rank is None and axis == 0:
        rank, start, stop = 0, raw.Reshape(start, []), raw.Reshape(stop, [])
    if rank is None or not -rank - 1 <= axis <= rank:
        raise ValueError(f"linspace along axis {axis} needs start and stop of known rank >= {axis}, not {rank}.")
    axis %= rank + 1
    with start.graph.name_scope(name or "linspace"):
        if start.dtype.is_integer:
            wide = dtypes.float32 if start.dtype.size < 4 else dtypes.float64
            start, stop = raw.Cast(start, DstT=wide), raw.Cast(stop, DstT=wide)
        first = raw.ExpandDims(start if rank == start.shape.ndims == 0 else start + raw.ZerosLike(stop), axis)
        last = raw.ExpandDims(stop if rank == stop.shape.ndims == 0 else stop + raw.ZerosLike(start), axis)
        one = convert_to_tensor(1, dtype=num.dtype.base_dtype)
        known = constant_value(num)
        steps: Any = raw.Maximum(num - one, one)
        if known is not None:
            steps = convert_to_tensor(np.maximum(known - 1, 1).astype(known.dtype))
        step = (last - first) / raw.Cast(steps, DstT=first.dtype)
        end = steps if known is not None and known >= 0 else raw.Select(num < one - one, -one, steps)
        inner = raw.Cast(raw.Range(one, end, one), DstT=first.dtype)  # which refuses a negative number
        along = np.array([-1 if i == axis else 1 for i in builtins.range(rank + 1)], np.int32)
        whole = raw.ConcatV2([first, first + step * raw.Reshape(inner, along), last], axis)
        if known is not None and known > 1:
            return whole
        size: list[Any] = [num if i == axis else one * -1 for i in builtins.range(rank + 1)]
        return raw.Slice(whole, raw.ZerosLike(raw.Pack(size, axis=0)), raw.Pack(size, axis=0))


lin_space = linspace


def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """The identity matrix, or a batch of it."""
    both = [num_rows, num_rows if num_columns is None else num_columns]
    batch = [] if batch_shape is None else batch_shape
    known: list[Any] = [constant_value(v) if isinstance(v, Tensor) else v for v in (*both, batch)]
    if not any(v is None for v in known) and not any(isinstance(v, Tensor) for v in known[2]):
        value = np.eye(int(known[0]), int(known[1]), dtype=dtypes.as_dtype(dtype).np_dtype)
        return _constant(np.broadcast_to(value, (*(int(d) for d in known[2]), *value.shape)), name=name or "eye")
    batch = convert_to_tensor(batch, dtypes.int32)
    with batch.graph.name_scope(name or "eye") as scope:
        down, across = (raw.Range(0, convert_to_tensor(v, dtypes.int32), 1) for v in both)
        ones = raw.Cast(raw.Equal(raw.ExpandDims(down, 1), across), DstT=dtypes.as_dtype(dtype))
        return raw.BroadcastTo(ones, raw.ConcatV2([batch, raw.Shape(ones)], 0), name=scope)


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """A tensor that must be fed; running what needs it unfed raises InvalidArgumentError."""
    static = None if shape is None else as_shape(shape)
    return _placeholder(dtype=dtypes.as_dtype(dtype).base_dtype, shape=static, name=name)


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """`input`, unless it is fed."""
    return _placeholder_with_default(input, shape=as_shape(shape), name=name)


def identity(input: Any, name: str | None = None) -> Any:
    """The same value as a new tensor."""
    if hasattr(input, "with_values"):
        return input.with_values(identity(input.values, name))
    return _identity(input, name=name)


def identity_n(input: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """The same values as new tensors, all of which exist once every input does."""
    out = _identity_n([convert_to_tensor(x) for x in input], name=name)
    return list(out) if isinstance(out, (list, tuple)) else [out]


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value, a constant for gradients."""
    return _stop_gradient(input, name=name)


def no_op(name: str | None = None) -> Operation:
    """An operation that does nothing; it can carry control dependencies."""
    return _no_op(name=name)
