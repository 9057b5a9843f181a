"""Conv2DTranspose and Conv3DTranspose: the derivative of a convolution as a layer."""

from __future__ import annotations

from typing import Any

from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers import naming
from dtfzmq.layers.convolutional import Conv, batch_size
from dtfzmq.ops import array, conv_layers
from dtfzmq.variables.initializers import Zeros


class _ConvTranspose(Conv):
    """Each input element is spread over a window of the output. `kernel` is [*kernel_size, filters, inputs]."""

    def __init__(self, rank: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(rank, *args, **kwargs)
        self.padding = naming.padding(self.padding)

    def build(self, input_shape: Any) -> None:
        """See Layer."""
        self.kernel = self.add_weight(
            "kernel", [*self.kernel_size, self.filters, self._input_channels(input_shape)],
            initializer=self.kernel_initializer, regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )  # fmt: skip
        self._add_bias_weight()
        self.built = True

    def _sizes(self, space: list[Any]) -> list[Any]:
        """Sizes of the output's axes of space: numbers where those of the input are, else tensors (or None)."""
        return [
            None if n is None else n * s + (max(k - s, 0) if self.padding == "valid" else 0)
            for n, k, s in zip(space, self.kernel_size, self.strides)
        ]

    def call(self, inputs: Any) -> Tensor:
        """See Layer."""
        x = convert_to_tensor(inputs)
        known = x.shape.as_list()
        axes = range(2, self.rank + 2) if self._first else range(1, self.rank + 1)
        space = self._sizes([array.shape(x)[i] if known[i] is None else known[i] for i in axes])
        sizes = [batch_size(x), self.filters, *space] if self._first else [batch_size(x), *space, self.filters]
        transpose: Any = conv_layers.conv2d_transpose if self.rank == 2 else conv_layers.conv3d_transpose
        out = transpose(
            x, self.kernel, array.stack(sizes), self._over_axes(self.strides), self.padding.upper(),
            data_format=naming.layout(self.rank, self._first),
        )  # fmt: skip
        out.set_shape(self.compute_output_shape(x.shape))
        return self._finish(out)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """See Layer."""
        known = as_shape(input_shape).as_list()
        space = self._sizes(known[2:] if self._first else known[1:-1])
        return TensorShape([known[0], self.filters, *space] if self._first else [known[0], *space, self.filters])


class Conv2DTranspose(_ConvTranspose):
    """The transposed convolution over [batch, height, width, channels]."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
        data_format: str = "channels_last", activation: Any = None, *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(2, filters, kernel_size, strides, padding, data_format, 1, activation, *args, **kwargs)


class Conv3DTranspose(_ConvTranspose):
    """The transposed convolution over [batch, depth, height, width, channels]."""

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
        data_format: str = "channels_last", activation: Any = None, *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(3, filters, kernel_size, strides, padding, data_format, 1, activation, *args, **kwargs)


def conv2d_transpose(
    inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1), padding: str = "valid",
    data_format: str = "channels_last", activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
    bias_initializer: Any = Zeros, kernel_regularizer: Any = None, bias_regularizer: Any = None,
    activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
    trainable: bool = True, name: str | None = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """One `Conv2DTranspose` layer on `inputs`."""
    layer = Conv2DTranspose(
        filters, kernel_size, strides, padding, data_format, activation, use_bias, kernel_initializer,
        bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
        bias_constraint, trainable, name, _scope=name, _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs)
    return made


def conv3d_transpose(
    inputs: Any, filters: int, kernel_size: Any, strides: Any = (1, 1, 1), padding: str = "valid",
    data_format: str = "channels_last", activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
    bias_initializer: Any = Zeros, kernel_regularizer: Any = None, bias_regularizer: Any = None,
    activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
    trainable: bool = True, name: str | None = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """One `Conv3DTranspose` layer on `inputs`."""
    layer = Conv3DTranspose(
        filters, kernel_size, strides, padding, data_format, activation, use_bias, kernel_initializer,
        bias_initializer, kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
        bias_constraint, trainable, name, _scope=name, _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs)
    return made
