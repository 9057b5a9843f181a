"""Maximum and average pooling, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import full_dims, value_as_shape
from dtfzmq.ops import pool_kernels, windows
from dtfzmq.ops.blocks import with_space_to_batch
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.windows import Axis

Array = Any


def _axes(attrs: dict[str, Any], shape: Sequence[int], op_type: str) -> list[Axis]:
    """The geometry of a pooling node over an input of `shape`, batch and channels included."""
    rank = len(attrs["ksize"])
    if len(shape) != rank:
        raise errors.InvalidArgumentError(
            None, None, f"{op_type}: tensor_in must be {rank}-dimensional, not of shape {list(shape)}"
        )
    pairs = windows.explicit_pairs(attrs, rank)
    moves = zip((int(d) for d in shape), attrs["ksize"], attrs["strides"], pairs)
    return [windows.axis(size, window, stride, 1, attrs["padding"], pair) for size, window, stride, pair in moves]


def _pool_shape(rank: int) -> Any:
    def rule(n: Operation) -> list[TensorShape]:
        windows.check_padding(n)
        windows.channels_first(n.attrs["data_format"], rank, n.type)
        known = windows.with_rank(n.inputs[0], rank, n)
        for name in ("ksize", "strides"):
            values = n.attrs[name]
            if len(values) != rank:
                raise ValueError(f"{n.type} requires {rank} values of its attribute {name}, but got: {len(values)}")
            if min(values) < 1:
                raise ValueError(f"{n.type}: all {name} must be positive, got {list(values)}")
            if values[0] != 1:
                raise ValueError(f"Pooling is not yet supported on the batch dimension: {name} {list(values)}")
        pairs = windows.explicit_pairs(n.attrs, rank)
        moves = zip(known, n.attrs["ksize"], n.attrs["strides"], pairs)
        sizes = [windows.static_size(n, size, window, stride, 1, pair) for size, window, stride, pair in moves]
        return [TensorShape(sizes)] * len(n.outputs)

    return rule


def _like(i: int) -> Any:
    return lambda n: [n.inputs[i].shape]


def _attrs(rank: int) -> str:
    layout = "NHWC" if rank == 4 else "NDHWC"
    return (
        "ksize: list(int), strides: list(int), padding: str, explicit_paddings: list(int) = [], "
        f"data_format: str = '{layout}'"
    )


def _make(compute: Callable[..., Any], source: int = 0) -> Any:
    """A kernel over float32 for the half types; input `source` has the shape of the pooled input, or is it."""

    def make(node: Any, env: Any) -> Any:
        to, attrs = node.dtypes[0].np_dtype, node.attrs
        half = node.dtypes[0].is_floating and node.dtypes[0].size == 2

        def kernel(*inputs: Array) -> Array:
            axes = _axes(attrs, inputs[source].shape, node.op)
            if half:
                return compute(*(windows.wide(x) for x in inputs), axes).astype(to)
            return np.ascontiguousarray(compute(*inputs, axes))

        return kernel

    return make


def _max_grad_kernel(x: Array, y: Array, g: Array, axes: list[Axis]) -> Array:
    if y.shape != g.shape or y.shape != tuple(a.out for a in axes):
        raise errors.InvalidArgumentError(
            None, None, f"Expected grad and orig_output of shape {[a.out for a in axes]}, got {list(g.shape)} and "
            f"{list(y.shape)}"
        )  # fmt: skip
    return pool_kernels.maximum_gradient(x, y, g, axes)


def _average_grad(node: Any, env: Any) -> Any:
    to = node.dtypes[0].np_dtype

    def kernel(shape: Array, g: Array) -> Array:
        axes = _axes(node.attrs, shape.tolist(), node.op)
        if g.shape != tuple(a.out for a in axes):
            raise errors.InvalidArgumentError(
                None, None, f"Expected grad of shape {[a.out for a in axes]}, got {list(g.shape)}"
            )
        found = pool_kernels.average_gradient(windows.wide(g), axes)
        return np.ascontiguousarray(found).astype(to, copy=False)

    return kernel


_ODD: dict[str, Any] = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 1, 1], "padding": "SAME"}
_EVEN: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
_DEPTH: dict[str, Any] = {"ksize": [1, 1, 1, 2], "strides": [1, 1, 1, 2], "padding": "VALID"}
_TURNED: dict[str, Any] = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 1], "padding": "SAME", "data_format": "NCHW"}
_DEEP: dict[str, Any] = {"ksize": [1, 2, 2, 1, 1], "strides": [1, 1, 2, 1, 1], "padding": "SAME"}


def _pooled(compute: Any, x: Array, attrs: dict[str, Any]) -> Array:
    return compute(x, _axes({"explicit_paddings": [], **attrs}, x.shape, ""))


def _declare(rank: int, tail: str, x: Array, settings: Sequence[dict[str, Any]]) -> None:
    """The pooling ops of one rank. `tail` is what their names end in."""
    maximum, average = f"MaxPool{tail}", f"AvgPool{tail}"
    attrs = _attrs(rank)
    tops = [_pooled(pool_kernels.maximum, x, s) for s in settings]
    back = [mat(*y.shape, seed=4) for y in tops]

    def max_grad(n: Operation, g: Tensor) -> tuple[Tensor]:
        return (getattr(raw, f"{maximum}Grad")(n.inputs[0], n.outputs[0], g, **n.attrs),)

    def zeros_and(name: str) -> Any:
        def grad(n: Operation, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            x, y, _ = n.inputs
            return raw.ZerosLike(x), raw.ZerosLike(y), getattr(raw, name)(x, y, g, **n.attrs)

        return grad

    def average_grad(n: Operation, g: Tensor) -> tuple[Tensor]:
        known = full_dims(n.inputs[0])
        shape = raw.Shape(n.inputs[0]) if known is None else np.array(known, np.int32)
        return (getattr(raw, f"{average}Grad")(shape, g, **n.attrs),)

    op(
        maximum, f"input: R; {attrs} -> output: R", shape=_pool_shape(rank), make=_make(pool_kernels.maximum),
        grad=max_grad, samples=[Sample(x, **s) for s in settings],
    )  # fmt: skip
    op(
        f"{maximum}Grad", f"orig_input: R, orig_output: R, grad: R; {attrs} -> output: R", shape=_like(0),
        make=_make(_max_grad_kernel), grad=zeros_and(f"{maximum}GradGrad"),
        samples=[Sample(x, y, g, differentiable=False, **s) for y, g, s in zip(tops, back, settings)],
    )  # fmt: skip
    op(
        f"{maximum}GradGrad", f"orig_input: R, orig_output: R, grad: R; {attrs} -> output: R", shape=_like(1),
        make=_make(pool_kernels.maximum_gradient_gradient), grad=zeros_and(f"{maximum}Grad"),
        samples=[Sample(x, y, mat(*x.shape, seed=2), differentiable=False, **s) for y, s in zip(tops, settings)],
    )  # fmt: skip
    op(
        average, f"value: E; {attrs} -> output: E", shape=_pool_shape(rank), make=_make(pool_kernels.average),
        grad=average_grad, samples=[Sample(x, **s) for s in settings],
    )  # fmt: skip
    op(
        f"{average}Grad", f"orig_input_shape: int32, grad: E; {attrs} -> output: E",
        shape=lambda n: [value_as_shape(n.inputs[0])], make=_average_grad,
        grad=lambda n, g: (None, getattr(raw, average)(g, **n.attrs)),
        samples=[Sample(ints(*x.shape), g, **s) for g, s in zip(back, settings)],
    )  # fmt: skip


_declare(4, "", mat(2, 4, 6, 2), (_ODD, _EVEN, _DEPTH, _TURNED))
_declare(5, "3D", mat(1, 3, 4, 2, 2), (_DEEP,))


def _argmax_make(node: Any, env: Any) -> Any:
    to = node.dtypes[1].np_dtype

    def kernel(x: Array) -> tuple[Array, Array]:
        axes = _axes(node.attrs, x.shape, node.op)
        y = np.ascontiguousarray(pool_kernels.maximum(x, axes))
        return y, pool_kernels.places_of_maximum(x, y, axes, node.attrs["include_batch_in_index"], to)

    return kernel


def _argmax_grad_make(node: Any, env: Any) -> Any:
    def kernel(x: Array, g: Array, places: Array) -> Array:
        out = np.zeros((x.shape[0], int(np.prod(x.shape[1:]))), g.dtype)
        where = places.reshape(x.shape[0], -1).astype(np.int64)
        if not node.attrs["include_batch_in_index"]:
            where = where + np.arange(x.shape[0])[:, None] * out.shape[1]
        if where.size and not 0 <= where.min() <= where.max() < out.size:
            raise errors.InvalidArgumentError(None, None, f"Invalid output index: argmax must be in [0, {out.size})")
        np.add.at(out.reshape(-1), where.reshape(-1), g.reshape(-1))
        return out.reshape(x.shape)

    return kernel


_ARGMAX = "Targmax: type = int64, include_batch_in_index: bool = False"
op(
    "MaxPoolWithArgmax", f"input: R; {_attrs(4)}, {_ARGMAX} -> output: R, argmax: Targmax", shape=_pool_shape(4),
    make=_argmax_make, samples=[Sample(mat(2, 4, 6, 2), **_ODD),
                                Sample(mat(2, 4, 6, 2), include_batch_in_index=True, Targmax=dtypes.int32, **_EVEN)],
    grad=lambda n, g, _: (
        raw.MaxPoolGradWithArgmax(
            n.inputs[0], g, n.outputs[1], include_batch_in_index=n.attrs["include_batch_in_index"]
        ),
    ),
)  # fmt: skip
op(
    "MaxPoolGradWithArgmax", "input: R, grad: R, argmax: I; include_batch_in_index: bool = False -> output: R",
    shape=_like(0), make=_argmax_grad_make,
    grad=lambda n, g: (
        raw.ZerosLike(n.inputs[0]),
        raw.PickAtArgmax(g, n.inputs[2], include_batch_in_index=n.attrs["include_batch_in_index"]),
        None,
    ),
    samples=[Sample(mat(2, 3, 2, 1), mat(2, 2, 1, 1), np.array([0, 5, 3, 3], np.int64).reshape(2, 2, 1, 1))],
)  # fmt: skip


def _pick_make(node: Any, env: Any) -> Any:
    def kernel(x: Array, places: Array) -> Array:
        if node.attrs["include_batch_in_index"]:
            return x.reshape(-1)[places]
        rows = x.reshape(x.shape[0], -1)
        return np.take_along_axis(rows, places.reshape(x.shape[0], -1), 1).reshape(places.shape)

    return kernel


op(
    "PickAtArgmax", "input: R, argmax: I; include_batch_in_index: bool = False -> output: R", shape=_like(1),
    make=_pick_make,
    grad=lambda n, g: (
        raw.MaxPoolGradWithArgmax(
            n.inputs[0], g, n.inputs[1], include_batch_in_index=n.attrs["include_batch_in_index"]
        ),
        None,
    ),
    samples=[Sample(mat(2, 3, 2, 1), np.array([0, 5, 3, 3], np.int64).reshape(2, 2, 1, 1)),
             Sample(mat(2, 3, 2, 1), np.array([0, 5, 7, 9], np.int64).reshape(2, 2, 1, 1),
                    include_batch_in_index=True)],
)  # fmt: skip


def _pool(builder: Any, rank: int, value: Any, ksize: Any, strides: Any, padding: Any, layout: str, name: Any) -> Any:
    value = convert_to_tensor(value, name="value")
    attrs = windows.padding_attrs(padding, rank)
    return builder(
        value, ksize=windows.spread(ksize, rank, layout, "ksize"),
        strides=windows.spread(strides, rank, layout, "strides"), data_format=layout, name=name, **attrs,
    )  # fmt: skip


def max_pool(
    value: Any = None, ksize: Any = None, strides: Any = None, padding: Any = None, data_format: str | None = "NHWC",
    name: str | None = None, input: Any = None,
) -> Tensor:  # fmt: skip
    """The largest value of each window. `ksize` and `strides` are over all four axes, or of space alone."""
    value = one_of("input", input, "value", value)
    value = convert_to_tensor(value, name="value")
    with value.graph.name_scope(name or "MaxPool") as scope:
        return _pool(raw.MaxPool, 4, value, ksize, strides, padding, data_format or "NHWC", scope)


def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """max_pool, under its later name."""
    return max_pool(input, ksize, strides, padding, data_format, name or "MaxPool2d")


def avg_pool(
    value: Any = None, ksize: Any = None, strides: Any = None, padding: Any = None, data_format: str | None = "NHWC",
    name: str | None = None, input: Any = None,
) -> Tensor:  # fmt: skip
    """The mean of each window; what "SAME" pads does not count."""
    value = one_of("input", input, "value", value)
    value = convert_to_tensor(value, name="value")
    with value.graph.name_scope(name or "AvgPool") as scope:
        return _pool(raw.AvgPool, 4, value, ksize, strides, padding, data_format or "NHWC", scope)


avg_pool2d = avg_pool


def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NDHWC", name: str | None = None
) -> Tensor:
    """The largest value of each window over depth, height and width."""
    input = convert_to_tensor(input, name="input")
    with input.graph.name_scope(name or "MaxPool3D") as scope:
        return _pool(raw.MaxPool3D, 5, input, ksize, strides, padding, data_format or "NDHWC", scope)


def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NDHWC", name: str | None = None
) -> Tensor:
    """The mean of each window over depth, height and width."""
    input = convert_to_tensor(input, name="input")
    with input.graph.name_scope(name or "AvgPool3D") as scope:
        return _pool(raw.AvgPool3D, 5, input, ksize, strides, padding, data_format or "NDHWC", scope)


def _pool1d(builder: Any, input: Any, ksize: Any, strides: Any, padding: Any, layout: str | None, name: str) -> Tensor:
    layout = layout or "NWC"
    if layout not in ("NWC", "NCW"):
        raise ValueError('data_format must be "NWC" or "NCW".')
    axis = 2 if layout == "NCW" else 1
    input = convert_to_tensor(input, name="input")
    with input.graph.name_scope(name) as scope:
        size, step = (windows.spread(v, 3, layout, what) for v, what in ((ksize, "ksize"), (strides, "strides")))
        size, step = ([*v[:axis], 1, *v[axis:]] for v in (size, step))
        flat, layout = raw.ExpandDims(input, axis), "NHWC" if axis == 1 else "NCHW"
        made = _pool(builder, 4, flat, size, step, padding, layout, scope)
        return raw.Squeeze(made, squeeze_dims=[axis], name="Squeeze")


def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NWC", name: str | None = None
) -> Tensor:
    """The largest value of each window of [batch, width, channels]."""
    return _pool1d(raw.MaxPool, input, ksize, strides, padding, data_format, name or "MaxPool1d")


def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = "NWC", name: str | None = None
) -> Tensor:
    """The mean of each window of [batch, width, channels]."""
    return _pool1d(raw.AvgPool, input, ksize, strides, padding, data_format, name or "AvgPool1D")


def max_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """max_pool1d, max_pool or max_pool3d, by the rank of the input."""
    return _by_rank(
        "max_pool_v2", (max_pool1d, max_pool2d, max_pool3d), input, ksize, strides, padding, data_format, name
    )


def avg_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """avg_pool1d, avg_pool or avg_pool3d, by the rank of the input."""
    return _by_rank(
        "avg_pool_v2", (avg_pool1d, avg_pool2d, avg_pool3d), input, ksize, strides, padding, data_format, name
    )


def _by_rank(
    fn: str, made: Sequence[Any], input: Any, ksize: Any, strides: Any, padding: Any, layout: Any, name: Any
) -> Tensor:
    input = convert_to_tensor(input, name="input")
    rank = input.shape.ndims
    if rank not in (3, 4, 5):
        raise ValueError(f"{fn} needs an input of rank 3, 4 or 5, not of shape {input.shape}.")
    layout = layout or {3: "NWC", 4: "NHWC", 5: "NDHWC"}[rank]
    return made[rank - 3](input, ksize, strides, padding, data_format=layout, name=name)


class MaxPoolWithArgmax(NamedTuple):
    """What max_pool_with_argmax gives."""

    output: Tensor
    argmax: Tensor


def max_pool_with_argmax(
    input: Any, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC", Targmax: Any = None,
    name: str | None = None, output_dtype: Any = None, include_batch_in_index: bool = False,
) -> MaxPoolWithArgmax:  # fmt: skip
    """max_pool, and where each value comes from: (row * width + column) * channels + channel, as int64.

    With `include_batch_in_index` the number of the batch entry counts too.
    """
    if data_format != "NHWC":
        raise ValueError(f'Attempting to use data_format {data_format}: only "NHWC" is supported.')
    kind = dtypes.as_dtype(one_of("output_dtype", output_dtype, "Targmax", Targmax) or dtypes.int64)
    found = raw.MaxPoolWithArgmax(
        input, ksize=ksize, strides=strides, padding=padding, Targmax=kind,
        include_batch_in_index=include_batch_in_index, name=name,
    )  # fmt: skip
    return MaxPoolWithArgmax(*found)


def pool(
    input: Any, window_shape: Any, pooling_type: str, padding: str, dilation_rate: Any = None, strides: Any = None,
    name: str | None = None, data_format: str | None = None, dilations: Any = None,
) -> Tensor:  # fmt: skip
    """Pooling over 1 to 3 axes of space: "MAX" or "AVG", with windows of `window_shape`, dilated if asked.

    Raises ValueError if both strides and dilation are other than 1.
    """
    rate = one_of("dilations", dilations, "dilation_rate", dilation_rate)
    input = convert_to_tensor(input, name="input")
    window = [int(w) for w in window_shape]
    space = len(window)
    if space not in (1, 2, 3):
        raise ValueError("`window_shape` must have 1, 2 or 3 elements.")
    if pooling_type not in ("MAX", "AVG"):
        raise ValueError(f"pooling_type must be 'MAX' or 'AVG', not {pooling_type!r}.")
    steps, holes = ([1] * space if v is None else [int(i) for i in v] for v in (strides, rate))
    if max(steps) > 1 and max(holes) > 1:
        raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
    if padding == "SAME" and max(holes) > 1:
        raise ValueError("pooling with SAME padding is not implemented for dilation_rate > 1")
    layout = data_format or {1: "NWC", 2: "NHWC", 3: "NDHWC"}[space]
    fn = {"MAX": (max_pool1d, max_pool, max_pool3d), "AVG": (avg_pool1d, avg_pool, avg_pool3d)}[pooling_type][space - 1]
    with input.graph.name_scope(name or f"{pooling_type.lower()}_pool") as scope:
        if max(holes) == 1:
            return fn(input, window, steps, padding, data_format=layout, name=scope)
        return with_space_to_batch(
            input, holes, padding,
            lambda x, _, inner: fn(x, window, steps, inner, data_format=layout), data_format=layout,
        )  # fmt: skip
