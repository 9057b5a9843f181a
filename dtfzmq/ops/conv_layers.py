"""tf.nn's convolutions, composed of the convolution ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.static import dims
from dtfzmq.ops import conv, windows
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of

_DECLARES = conv  # the ops used here

_OVER_2D = {"NWC": "NHWC", "NCW": "NCHW", "NHWC": "NHWC", "NCHW": "NCHW"}


def _required(fn: str, **given: Any) -> None:
    for name, value in given.items():
        if value is None:
            raise ValueError(f"{fn}() is missing its argument '{name}'.")


def _moves(rank: int, strides: Any, padding: Any, data_format: str, dilations: Any) -> dict[str, Any]:
    attrs = windows.padding_attrs(padding, rank)
    attrs["data_format"] = data_format
    attrs["strides"] = windows.spread(strides, rank, data_format, "strides")
    attrs["dilations"] = windows.spread(dilations, rank, data_format, "dilations")
    return attrs


def _pair(x: Any, w: Any, x_name: str = "input") -> tuple[Tensor, Tensor]:
    x = convert_to_tensor(x, name=x_name)
    return x, convert_to_tensor(w, None if isinstance(w, Tensor) else x.dtype.base_dtype, "filter")


def conv2d(
    input: Any, filter: Any = None, strides: Any = None, padding: Any = None, use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC", dilations: Any = (1, 1, 1, 1), name: str | None = None, filters: Any = None,
) -> Tensor:  # fmt: skip
    """2-D convolution of [batch, height, width, in] with filters [height, width, in, out].

    `padding` is "SAME", "VALID" or a pair of numbers per axis. "NCHW" has the channels second. Numbers are summed in
    the input's type, in float32 for the half types. Raises ValueError for sizes that do not go together.
    """
    filter = one_of("filters", filters, "filter", filter)
    _required("conv2d", filter=filter, padding=padding)
    attrs = _moves(4, strides, padding, data_format or "NHWC", dilations)
    return raw.Conv2D(*_pair(input, filter), name=name, **attrs)


def conv3d(
    input: Any, filter: Any = None, strides: Any = None, padding: Any = None, data_format: str | None = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1), name: str | None = None, filters: Any = None,
) -> Tensor:  # fmt: skip
    """3-D convolution of [batch, depth, height, width, in] with filters [depth, height, width, in, out]."""
    filter = one_of("filters", filters, "filter", filter)
    _required("conv3d", filter=filter, strides=strides, padding=padding)
    attrs = _moves(5, strides, padding, data_format or "NDHWC", dilations)
    return raw.Conv3D(*_pair(input, filter), name=name, **attrs)


def conv1d(
    value: Any = None, filters: Any = None, stride: Any = None, padding: Any = None,
    use_cudnn_on_gpu: bool | None = None, data_format: str | None = None, name: str | None = None, input: Any = None,
    dilations: Any = None,
) -> Tensor:  # fmt: skip
    """1-D convolution of [batch, width, in] with filters [width, in, out]: a 2-D one of height 1."""
    value = one_of("input", input, "value", value)
    _required("conv1d", value=value, filters=filters, padding=padding)
    layout = data_format or "NWC"
    axis = _height_axis(layout)
    value, filters = _pair(value, filters, "value")
    with value.graph.name_scope(name or "conv1d") as scope:
        attrs = _moves(4, _one_more(stride, layout), _padding_1d(padding, axis), _OVER_2D[layout],
                       _one_more(dilations, layout))  # fmt: skip
        x = raw.ExpandDims(value, axis, name="ExpandDims")
        w = raw.ExpandDims(filters, 0, name="ExpandDims_1")
        return raw.Squeeze(raw.Conv2D(x, w, name=scope, **attrs), squeeze_dims=[axis], name="Squeeze")


def _height_axis(layout: str) -> int:
    if layout not in _OVER_2D:
        raise ValueError('data_format must be "NWC" or "NCW".')
    return 2 if layout in ("NCW", "NCHW") else 1


def _one_more(value: Any, layout: str) -> list[int]:
    """A number, or a list over the axes of 1-D data, over the axes of 2-D data."""
    first = layout in ("NCW", "NCHW")
    full = windows.spread(value, 3, "NCW" if first else "NWC", "stride")
    return [*full[:2], 1, full[2]] if first else [full[0], 1, *full[1:]]


def _padding_1d(padding: Any, axis: int) -> Any:
    if isinstance(padding, str):
        return padding
    pairs = list(padding)
    return [*pairs[:axis], (0, 0), *pairs[axis:]]


def _output_sizes(output_shape: Any) -> Tensor:
    if isinstance(output_shape, (list, tuple)) and any(isinstance(d, Tensor) for d in output_shape):
        return raw.Pack([d if isinstance(d, Tensor) else np.int32(d) for d in output_shape], axis=0)
    if isinstance(output_shape, TensorShape):
        output_shape = output_shape.as_list()
    sizes = convert_to_tensor(output_shape, None if isinstance(output_shape, Tensor) else dtypes.int32, "output_shape")
    return raw.Cast(sizes, DstT=dtypes.int32) if sizes.dtype.base_dtype is dtypes.int64 else sizes


def _transposed(
    builder: Any, rank: int, value: Any, filter: Any, output_shape: Any, attrs: dict[str, Any], name: str
) -> Tensor:
    value, filter = _pair(value, filter, "value")
    first = windows.channels_first(attrs["data_format"], rank)
    channels, depth = dims(value), dims(filter)
    if channels is not None and depth is not None:
        got, wanted = channels[1 if first else -1], depth[-1]
        if got is not None and wanted is not None and got != wanted:
            raise ValueError(f"input channels does not match filter's input channels, {got} != {wanted}")
    sizes = _output_sizes(output_shape)
    if sizes.shape.ndims is not None and not sizes.shape.is_compatible_with([rank]):
        raise ValueError(f"output_shape must have shape ({rank},), got {sizes.shape}")
    return builder(sizes, filter, value, name=name, **attrs)


def conv2d_transpose(
    value: Any = None, filter: Any = None, output_shape: Any = None, strides: Any = None, padding: Any = "SAME",
    data_format: str | None = "NHWC", name: str | None = None, input: Any = None, filters: Any = None,
    dilations: Any = None,
) -> Tensor:  # fmt: skip
    """The transpose of conv2d: what maps its outputs back to inputs of `output_shape`. Filters are [h, w, out, in]."""
    value = one_of("input", input, "value", value)
    filter = one_of("filters", filters, "filter", filter)
    _required("conv2d_transpose", value=value, filter=filter, output_shape=output_shape)
    attrs = _moves(4, strides, padding, data_format or "NHWC", dilations)
    value = convert_to_tensor(value, name="value")
    with value.graph.name_scope(name or "conv2d_transpose") as scope:
        return _transposed(raw.Conv2DBackpropInput, 4, value, filter, output_shape, attrs, scope)


def conv3d_transpose(
    value: Any = None, filter: Any = None, output_shape: Any = None, strides: Any = None, padding: Any = "SAME",
    data_format: str | None = "NDHWC", name: str | None = None, input: Any = None, filters: Any = None,
    dilations: Any = None,
) -> Tensor:  # fmt: skip
    """The transpose of conv3d. Filters are [depth, height, width, out, in]."""
    value = one_of("input", input, "value", value)
    filter = one_of("filters", filters, "filter", filter)
    _required("conv3d_transpose", value=value, filter=filter, output_shape=output_shape, strides=strides)
    attrs = _moves(5, strides, padding, data_format or "NDHWC", dilations)
    value = convert_to_tensor(value, name="value")
    with value.graph.name_scope(name or "conv3d_transpose") as scope:
        return _transposed(raw.Conv3DBackpropInputV2, 5, value, filter, output_shape, attrs, scope)


def conv1d_transpose(
    input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any = "SAME", data_format: str | None = "NWC",
    dilations: Any = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The transpose of conv1d. Filters are [width, out, in]."""
    layout = data_format or "NWC"
    axis = _height_axis(layout)
    input, filters = _pair(input, filters)
    with input.graph.name_scope(name or "conv1d_transpose") as scope:
        attrs = _moves(4, _one_more(strides, layout), _padding_1d(padding, axis), _OVER_2D[layout],
                       _one_more(dilations, layout))  # fmt: skip
        sizes = _output_sizes(output_shape)
        sizes = raw.ConcatV2([sizes[:axis], np.array([1], np.int32), sizes[axis:]], 0)
        x, w = raw.ExpandDims(input, axis), raw.ExpandDims(filters, 0)
        made = _transposed(raw.Conv2DBackpropInput, 4, x, w, sizes, attrs, scope)
        return raw.Squeeze(made, squeeze_dims=[axis], name="Squeeze")


def conv_transpose(
    input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any = "SAME", data_format: str | None = None,
    dilations: Any = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """conv1d_transpose, conv2d_transpose or conv3d_transpose, by the length of `output_shape`."""
    count: Any = output_shape.shape.as_list()[0] if isinstance(output_shape, Tensor) else len(output_shape)
    made: dict[Any, Any] = {3: conv1d_transpose, 4: conv2d_transpose, 5: conv3d_transpose}
    if count not in made:
        raise ValueError(f"output_shape must be of length 3, 4 or 5 but was {count}.")
    layout = data_format or {3: "NWC", 4: "NHWC", 5: "NDHWC"}[int(count)]
    return made[count](input, filters, output_shape, strides, padding=padding, data_format=layout,
                       dilations=dilations, name=name)  # fmt: skip


def conv2d_backprop_input(
    input_sizes: Any, filter: Any = None, out_backprop: Any = None, strides: Any = None, padding: Any = None,
    use_cudnn_on_gpu: bool = True, data_format: str | None = "NHWC", dilations: Any = (1, 1, 1, 1),
    name: str | None = None, filters: Any = None,
) -> Tensor:  # fmt: skip
    """The derivative of conv2d with respect to its input of `input_sizes`."""
    filter = one_of("filters", filters, "filter", filter)
    attrs = _moves(4, strides, padding, data_format or "NHWC", dilations)
    return raw.Conv2DBackpropInput(_output_sizes(input_sizes), filter, out_backprop, name=name, **attrs)


def conv2d_backprop_filter(
    input: Any, filter_sizes: Any, out_backprop: Any, strides: Any, padding: Any, use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC", dilations: Any = (1, 1, 1, 1), name: str | None = None,
) -> Tensor:  # fmt: skip
    """The derivative of conv2d with respect to its filter of `filter_sizes`."""
    attrs = _moves(4, strides, padding, data_format or "NHWC", dilations)
    return raw.Conv2DBackpropFilter(input, _output_sizes(filter_sizes), out_backprop, name=name, **attrs)


def conv3d_backprop_filter(
    input: Any, filter_sizes: Any, out_backprop: Any, strides: Any, padding: Any, data_format: str = "NDHWC",
    dilations: Any = (1, 1, 1, 1, 1), name: str | None = None,
) -> Tensor:  # fmt: skip
    """The derivative of conv3d with respect to its filter of `filter_sizes`."""
    attrs = _moves(5, strides, padding, data_format, dilations)
    return raw.Conv3DBackpropFilterV2(input, _output_sizes(filter_sizes), out_backprop, name=name, **attrs)


conv3d_backprop_filter_v2 = conv3d_backprop_filter


def convolution(
    input: Any, filter: Any = None, padding: Any = None, strides: Any = None, dilation_rate: Any = None,
    name: str | None = None, data_format: str | None = None, filters: Any = None, dilations: Any = None,
) -> Tensor:  # fmt: skip
    """conv1d, conv2d or conv3d by the rank of the filter, dilated by `dilation_rate` if given.

    Raises ValueError if both strides and dilation are other than 1, or the ranks do not go together.
    """
    filter = one_of("filters", filters, "filter", filter)
    rate = one_of("dilations", dilations, "dilation_rate", dilation_rate)
    _required("convolution", filter=filter, padding=padding)
    x, w = _pair(input, filter)
    rank = w.shape.ndims if w.shape.ndims is not None else x.shape.ndims
    if rank is None or x.shape.ndims not in (None, rank):
        raise ValueError(f"input and filter must be of one known rank, not of shapes {x.shape} and {w.shape}.")
    if rank not in (3, 4, 5):
        raise ValueError(f"num_spatial_dims must be 1, 2 or 3, but is {rank - 2}.")
    steps, holes = _checked(strides, rate, rank - 2)
    layout = data_format or {3: "NWC", 4: "NHWC", 5: "NDHWC"}[rank]
    with x.graph.name_scope(name or "convolution") as scope:
        if rank == 3:
            return conv1d(x, w, steps, padding, data_format=layout, dilations=holes, name=scope)
        return (conv2d if rank == 4 else conv3d)(
            x, w, steps, padding, data_format=layout, dilations=holes, name=scope
        )


def _checked(strides: Any, rate: Any, space: int) -> tuple[list[int], list[int]]:
    steps, holes = (
        [1] * space if v is None else [int(v)] * space if isinstance(v, (int, np.integer)) else [int(i) for i in v]
        for v in (strides, rate)
    )
    if len(steps) != space or len(holes) != space:
        raise ValueError(f"strides and dilation_rate need {space} values, got {steps} and {holes}.")
    if min(steps) < 1 or min(holes) < 1:
        raise ValueError("all values of strides and dilation_rate must be positive")
    if max(steps) > 1 and max(holes) > 1:
        raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
    return steps, holes


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: str | None = None) -> Tensor:
    """conv2d with `rate` - 1 holes between the filter's values."""
    return convolution(value, filters, padding, dilation_rate=[int(rate)] * 2, name=name)


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """The transpose of atrous_conv2d. Filters are [height, width, out, in]."""
    if rate < 1:
        raise ValueError(f"rate {rate} cannot be less than one")
    return conv2d_transpose(value, filters, output_shape, 1, padding, dilations=[1, rate, rate, 1],
                            name=name or "atrous_conv2d_transpose")  # fmt: skip


def depthwise_conv2d_native(
    input: Any, filter: Any, strides: Any, padding: Any, data_format: str | None = "NHWC",
    dilations: Any = (1, 1, 1, 1), name: str | None = None,
) -> Tensor:  # fmt: skip
    """Each channel convolved with its own filters: [h, w, in, multiplier] gives in * multiplier channels."""
    attrs = _moves(4, strides, padding, data_format or "NHWC", dilations)
    return raw.DepthwiseConv2dNative(*_pair(input, filter), name=name, **attrs)


def depthwise_conv2d(
    input: Any, filter: Any, strides: Any, padding: Any, rate: Any = None, name: str | None = None,
    data_format: str | None = None, dilations: Any = None,
) -> Tensor:  # fmt: skip
    """depthwise_conv2d_native, dilated by `rate` (one number or one per axis of space)."""
    holes = _rates(one_of("dilations", dilations, "rate", rate), strides)
    x, w = _pair(input, filter)
    with x.graph.name_scope(name or "depthwise") as scope:
        return depthwise_conv2d_native(x, w, strides, padding, data_format, holes, name=scope)


def _rates(rate: Any, strides: Sequence[int]) -> Any:
    given = [1] if rate is None else [int(rate)] if isinstance(rate, (int, np.integer)) else [int(r) for r in rate]
    if max(given) > 1 and max(strides) > 1:
        raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
    return given


def separable_conv2d(
    input: Any, depthwise_filter: Any, pointwise_filter: Any, strides: Any, padding: Any, rate: Any = None,
    name: str | None = None, data_format: str | None = None, dilations: Any = None,
) -> Tensor:  # fmt: skip
    """depthwise_conv2d, and over its channels a 1x1 conv2d with the pointwise filter [1, 1, in * multiplier, out]."""
    holes = _rates(one_of("dilations", dilations, "rate", rate), strides)
    x, w = _pair(input, depthwise_filter)
    point = convert_to_tensor(
        pointwise_filter, None if isinstance(pointwise_filter, Tensor) else x.dtype.base_dtype, "pointwise_filter"
    )
    known = dims(point)
    if known is not None and (len(known) != 4 or known[0] not in (1, None) or known[1] not in (1, None)):
        raise ValueError(f"pointwise_filter must be of shape [1, 1, in, out], not {point.shape}.")
    layout = data_format or "NHWC"
    with x.graph.name_scope(name or "separable_conv2d") as scope:
        deep = depthwise_conv2d_native(x, w, strides, padding, layout, holes, name="depthwise")
        return conv2d(deep, point, [1, 1, 1, 1], "VALID", data_format=layout, name=scope)


def depthwise_conv2d_native_backprop_input(
    input_sizes: Any, filter: Any, out_backprop: Any, strides: Any, padding: Any, data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1), name: str | None = None,
) -> Tensor:  # fmt: skip
    """The derivative of depthwise_conv2d_native with respect to its input of `input_sizes`."""
    attrs = _moves(4, strides, padding, data_format, dilations)
    return raw.DepthwiseConv2dNativeBackpropInput(_output_sizes(input_sizes), filter, out_backprop, name=name, **attrs)


def depthwise_conv2d_native_backprop_filter(
    input: Any, filter_sizes: Any, out_backprop: Any, strides: Any, padding: Any, data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1), name: str | None = None,
) -> Tensor:  # fmt: skip
    """The derivative of depthwise_conv2d_native with respect to its filter of `filter_sizes`."""
    attrs = _moves(4, strides, padding, data_format, dilations)
    return raw.DepthwiseConv2dNativeBackpropFilter(input, _output_sizes(filter_sizes), out_backprop, name=name, **attrs)


depthwise_conv2d_backprop_input = depthwise_conv2d_native_backprop_input
depthwise_conv2d_backprop_filter = depthwise_conv2d_native_backprop_filter
