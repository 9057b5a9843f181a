"""Conv1D, Conv2D and Conv3D: one layer over one, two or three axes of space."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers import naming
from dtfzmq.layers.base import InputSpec, Layer
from dtfzmq.ops import array, conv_layers, nn, slicing
from dtfzmq.variables.initializers import Zeros


class Conv(Layer):
    """activation(convolution of inputs with kernel + bias), over `rank` axes of space.

    Variables: `kernel` [*kernel_size, inputs, filters], `bias` [filters]. `padding` is "valid" or "same", for one axis
    also "causal". Raises ValueError if strides and dilation_rate are both above 1.
    """

    def __init__(
        self, rank: int, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
        data_format: str = "channels_last", dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
        kernel_initializer: Any = None, bias_initializer: Any = Zeros, kernel_regularizer: Any = None,
        bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
        bias_constraint: Any = None, trainable: bool = True, name: str | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.rank = rank
        self.filters = int(filters)
        self.kernel_size = naming.sizes(kernel_size, rank, "kernel_size")
        self.strides = naming.sizes(strides, rank, "strides")
        self.padding = naming.padding(padding, causal=rank == 1)
        self.data_format = data_format
        self.dilation_rate = naming.sizes(dilation_rate, rank, "dilation_rate")
        self.activation = naming.activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.kernel: Any = None
        self.bias: Any = None
        self._first = naming.channels(data_format)
        self.input_spec = InputSpec(ndim=rank + 2)
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError("`strides > 1` not supported in conjunction with `dilation_rate > 1`")

    def _input_channels(self, input_shape: Any) -> int:
        axis = 1 if self._first else -1
        found = naming.dimension(as_shape(input_shape).as_list()[axis])
        if found is None:
            raise ValueError("The channel dimension of the inputs should be defined. Found `None`.")
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={axis: found})
        return found

    def _add_bias_weight(self) -> None:
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", [self.filters], initializer=self.bias_initializer, regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )  # fmt: skip

    def build(self, input_shape: Any) -> None:
        """See Layer."""
        self.kernel = self.add_weight(
            "kernel", [*self.kernel_size, self._input_channels(input_shape), self.filters],
            initializer=self.kernel_initializer, regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )  # fmt: skip
        self._add_bias_weight()
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """See Layer."""
        x = convert_to_tensor(inputs)
        layout, padding = naming.layout(self.rank, self._first), self.padding.upper()
        if self.padding == "causal":
            before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            pads = [[0, 0], [before, 0], [0, 0]]
            x = slicing.pad(x, np.array([pads[0], pads[2], pads[1]] if self._first else pads, np.int32))
            padding = "VALID"
        if self.rank == 1:
            out = conv_layers.conv1d(x, self.kernel, self.strides[0], padding, data_format=layout, name="Conv1D",
                                     dilations=self.dilation_rate[0])  # fmt: skip
        else:
            convolve: Any = conv_layers.conv2d if self.rank == 2 else conv_layers.conv3d
            out = convolve(
                x, self.kernel, self._over_axes(self.strides), padding, data_format=layout,
                dilations=self._over_axes(self.dilation_rate), name=f"Conv{self.rank}D",
            )  # fmt: skip
        return self._finish(out)

    def _over_axes(self, values: tuple[int, ...]) -> list[int]:
        return [1, 1, *values] if self._first else [1, *values, 1]

    def _finish(self, out: Tensor) -> Tensor:
        if self.use_bias:
            out = nn.bias_add(out, self.bias, data_format="NCHW" if self._first else "NHWC")
        return out if self.activation is None else self.activation(out)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """See Layer."""
        known = as_shape(input_shape).as_list()
        space = known[2:] if self._first else known[1:-1]
        moves = zip(space, self.kernel_size, self.strides, self.dilation_rate)
        sizes = [output_size(n, k, s, self.padding, d) for n, k, s, d in moves]
        return TensorShape([known[0], self.filters, *sizes] if self._first else [known[0], *sizes, self.filters])


def output_size(size: int | None, window: int, stride: int, padding: str, dilation: int = 1) -> int | None:
    """How many windows fit along an axis of `size`."""
    if size is None:
        return None
    reach = (window - 1) * dilation + 1
    return -(-(size if padding in ("same", "causal") else size - reach + 1) // stride)


class Conv1D(Conv):
    """`Conv` over [batch, length, channels]."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
        data_format: str = "channels_last", dilation_rate: Any = 1, *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(1, filters, kernel_size, strides, padding, data_format, dilation_rate, *args, **kwargs)


class Conv2D(Conv):
    """`Conv` over [batch, height, width, channels]."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
        data_format: str = "channels_last", dilation_rate: Any = (1, 1), *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(2, filters, kernel_size, strides, padding, data_format, dilation_rate, *args, **kwargs)


class Conv3D(Conv):
    """`Conv` over [batch, depth, height, width, channels]."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
        data_format: str = "channels_last", dilation_rate: Any = (1, 1, 1), *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(3, filters, kernel_size, strides, padding, data_format, dilation_rate, *args, **kwargs)


def conv1d(
    inputs: Any, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
    data_format: str = "channels_last", dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
    kernel_initializer: Any = None, bias_initializer: Any = Zeros, kernel_regularizer: Any = None,
    bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
    bias_constraint: Any = None, trainable: bool = True, name: str | None = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """One `Conv1D` layer on `inputs`."""
    layer = Conv1D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer,
        bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
        bias_constraint, trainable, name, _scope=name, _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs)
    return made


def conv2d(
    inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str = "channels_last", dilation_rate: Any = (1, 1), activation: Any = None, use_bias: bool = True,
    kernel_initializer: Any = None, bias_initializer: Any = Zeros, kernel_regularizer: Any = None,
    bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
    bias_constraint: Any = None, trainable: bool = True, name: str | None = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """One `Conv2D` layer on `inputs`."""
    layer = Conv2D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer,
        bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
        bias_constraint, trainable, name, _scope=name, _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs)
    return made


def conv3d(
    inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
    data_format: str = "channels_last", dilation_rate: Any = (1, 1, 1), activation: Any = None, use_bias: bool = True,
    kernel_initializer: Any = None, bias_initializer: Any = Zeros, kernel_regularizer: Any = None,
    bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
    bias_constraint: Any = None, trainable: bool = True, name: str | None = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """One `Conv3D` layer on `inputs`."""
    layer = Conv3D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, activation, use_bias, kernel_initializer,
        bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
        bias_constraint, trainable, name, _scope=name, _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs)
    return made


def batch_size(x: Tensor) -> Any:
    """The first size of `x`: a number if it is known, else a tensor."""
    known = x.shape.as_list()[0]
    return array.shape(x)[0] if known is None else known
