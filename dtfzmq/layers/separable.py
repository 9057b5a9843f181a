"""SeparableConv1D and SeparableConv2D: each channel by itself, then all channels at each place."""

from __future__ import annotations

from typing import Any

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers import naming
from dtfzmq.layers.convolutional import Conv
from dtfzmq.ops import array, conv_layers, nn
from dtfzmq.variables.initializers import Zeros


class _SeparableConv(Conv):
    """Variables: `depthwise_kernel` [*kernel_size, inputs, depth_multiplier], `pointwise_kernel`, `bias`."""

    def __init__(
        self, rank: int, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
        data_format: str = "channels_last", dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None,
        use_bias: bool = True, depthwise_initializer: Any = None, pointwise_initializer: Any = None,
        bias_initializer: Any = Zeros, depthwise_regularizer: Any = None, pointwise_regularizer: Any = None,
        bias_regularizer: Any = None, activity_regularizer: Any = None, depthwise_constraint: Any = None,
        pointwise_constraint: Any = None, bias_constraint: Any = None, trainable: bool = True, name: str | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            rank, filters, kernel_size, strides, naming.padding(padding), data_format, dilation_rate, activation,
            use_bias, bias_initializer=bias_initializer, bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer, bias_constraint=bias_constraint, trainable=trainable, name=name,
            **kwargs,
        )  # fmt: skip
        self.depth_multiplier = int(depth_multiplier)
        self._depthwise = (depthwise_initializer, depthwise_regularizer, depthwise_constraint)
        self._pointwise = (pointwise_initializer, pointwise_regularizer, pointwise_constraint)
        self.depthwise_kernel: Any = None
        self.pointwise_kernel: Any = None

    def build(self, input_shape: Any) -> None:
        """See Layer."""
        channels = self._input_channels(input_shape)
        first, then = self._depthwise, self._pointwise
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", [*self.kernel_size, channels, self.depth_multiplier], initializer=first[0],
            regularizer=first[1], constraint=first[2],
        )  # fmt: skip
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel", [*[1] * self.rank, channels * self.depth_multiplier, self.filters],
            initializer=then[0], regularizer=then[1], constraint=then[2],
        )  # fmt: skip
        self._add_bias_weight()
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """See Layer."""
        x, deep, point = convert_to_tensor(inputs), self.depthwise_kernel, self.pointwise_kernel
        strides, rate, axis = self.strides, self.dilation_rate, 2 if self._first else 1
        if self.rank == 1:  # a 2-D one of height 1
            strides, rate = strides * 2, (1, *rate)
            x, deep, point = (array.expand_dims(t, at) for t, at in ((x, axis), (deep, 0), (point, 0)))
        out = conv_layers.separable_conv2d(
            x, deep, point, self._over_axes(strides), self.padding.upper(), rate=list(rate),
            data_format=naming.layout(2, self._first),
        )  # fmt: skip
        if self.use_bias:
            out = nn.bias_add(out, self.bias, data_format="NCHW" if self._first else "NHWC")
        if self.rank == 1:
            out = array.squeeze(out, [axis])
        return out if self.activation is None else self.activation(out)


class SeparableConv1D(_SeparableConv):
    """The separable convolution over [batch, length, channels]."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(1, *args, **kwargs)


class SeparableConv2D(_SeparableConv):
    """The separable convolution over [batch, height, width, channels]."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(2, *args, **kwargs)


def separable_conv1d(
    inputs: Any, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
    data_format: str = "channels_last", dilation_rate: Any = 1, depth_multiplier: int = 1, activation: Any = None,
    use_bias: bool = True, depthwise_initializer: Any = None, pointwise_initializer: Any = None,
    bias_initializer: Any = Zeros, depthwise_regularizer: Any = None, pointwise_regularizer: Any = None,
    bias_regularizer: Any = None, activity_regularizer: Any = None, depthwise_constraint: Any = None,
    pointwise_constraint: Any = None, bias_constraint: Any = None, trainable: bool = True, name: str | None = None,
    reuse: Any = None,
) -> Tensor:  # fmt: skip
    """One `SeparableConv1D` layer on `inputs`."""
    layer = SeparableConv1D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, depth_multiplier, activation, use_bias,
        depthwise_initializer, pointwise_initializer, bias_initializer, depthwise_regularizer, pointwise_regularizer,
        bias_regularizer, activity_regularizer, depthwise_constraint, pointwise_constraint, bias_constraint, trainable,
        name, _scope=name, _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs)
    return made


def separable_conv2d(
    inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str = "channels_last", dilation_rate: Any = (1, 1), depth_multiplier: int = 1,
    activation: Any = None, use_bias: bool = True, depthwise_initializer: Any = None,
    pointwise_initializer: Any = None, bias_initializer: Any = Zeros, depthwise_regularizer: Any = None,
    pointwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
    depthwise_constraint: Any = None, pointwise_constraint: Any = None, bias_constraint: Any = None,
    trainable: bool = True, name: str | None = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """One `SeparableConv2D` layer on `inputs`."""
    layer = SeparableConv2D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, depth_multiplier, activation, use_bias,
        depthwise_initializer, pointwise_initializer, bias_initializer, depthwise_regularizer, pointwise_regularizer,
        bias_regularizer, activity_regularizer, depthwise_constraint, pointwise_constraint, bias_constraint, trainable,
        name, _scope=name, _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs)
    return made
