"""Convolutions of tf.contrib.layers, over those of tf.layers: variables `weights` and `biases`."""

from __future__ import annotations

from typing import Any

from dtfzmq.contrib.arg_scope import add_arg_scope
from dtfzmq.contrib.collecting import add_variable, collect, renaming
from dtfzmq.contrib.initializers import xavier_initializer
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers import convolutional, separable, transposed
from dtfzmq.ops import conv_layers, nn
from dtfzmq.variables.initializers import Zeros
from dtfzmq.variables.scope import variable_scope

_XAVIER = xavier_initializer()
_ZEROS = Zeros()
_FORMATS = {
    None: "channels_last", "NHWC": "channels_last", "NWC": "channels_last", "NDHWC": "channels_last",
    "NCHW": "channels_first", "NCW": "channels_first", "NCDHW": "channels_first",
}  # fmt: skip


def channels(data_format: str | None) -> str:
    """channels_last or channels_first. Raises ValueError for a format that is neither."""
    if data_format not in _FORMATS:
        raise ValueError(f"Invalid data_format: {data_format!r}")
    return _FORMATS[data_format]


def finished(
    outputs: Any, layer: Any, scope: Any, variables: dict[str, Any], normalizer_fn: Any, normalizer_params: Any,
    activation_fn: Any, variables_collections: Any, outputs_collections: Any,
) -> Tensor:  # fmt: skip
    """What follows every layer: collections, normalizer, activation."""
    for name, made in variables.items():
        if made is not None:
            add_variable(made, variables_collections, name)
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect(outputs_collections, scope, outputs)


@add_arg_scope
def convolution(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: str | None = None, rate: Any = 1, activation_fn: Any = nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
    conv_dims: int | None = None,
) -> Tensor:  # fmt: skip
    """A convolution over one, two or three axes, by the rank of `inputs`; then normalizer or biases, and activation.

    Its scope is "Conv". Raises ValueError if `conv_dims` says another number of axes.
    """
    getter = renaming({"kernel": "weights", "bias": "biases"})
    with variable_scope(scope, "Conv", [inputs], reuse=reuse, custom_getter=getter) as sc:
        x = convert_to_tensor(inputs)
        rank = x.shape.ndims
        if rank is None or rank - 2 not in (1, 2, 3):
            raise ValueError(f"Convolution not supported for input with rank {rank}")
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
        layer = convolutional.Conv(
            rank - 2, num_outputs, kernel_size, stride, padding.lower(), channels(data_format), rate,
            use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer, bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer, trainable=trainable,
            name=sc.name, dtype=x.dtype.base_dtype, _scope=sc, _reuse=reuse,
        )  # fmt: skip
        made = layer(x)
        variables = {"weights": layer.kernel, "biases": layer.bias}
        return finished(made, layer, sc, variables, normalizer_fn, normalizer_params, activation_fn,
                        variables_collections, outputs_collections)  # fmt: skip


convolution2d = conv2d = convolution


@add_arg_scope
def convolution1d(*args: Any, **kwargs: Any) -> Tensor:
    """`convolution` of inputs of rank 3."""
    made: Tensor = convolution(*args, conv_dims=1, **kwargs)
    return made


@add_arg_scope
def convolution3d(*args: Any, **kwargs: Any) -> Tensor:
    """`convolution` of inputs of rank 5."""
    made: Tensor = convolution(*args, conv_dims=3, **kwargs)
    return made


conv1d, conv3d = convolution1d, convolution3d


def _transposed(
    kind: Any, default: str, inputs: Any, num_outputs: int, kernel_size: Any, stride: Any, padding: str,
    data_format: str | None, activation_fn: Any, normalizer_fn: Any, normalizer_params: Any, weights_initializer: Any,
    weights_regularizer: Any, biases_initializer: Any, biases_regularizer: Any, reuse: Any, variables_collections: Any,
    outputs_collections: Any, trainable: bool, scope: Any,
) -> Tensor:  # fmt: skip
    getter = renaming({"kernel": "weights", "bias": "biases"})
    with variable_scope(scope, default, [inputs], reuse=reuse, custom_getter=getter) as sc:
        x = convert_to_tensor(inputs)
        layer = kind(
            num_outputs, kernel_size, stride, padding.lower(), channels(data_format),
            use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer, bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer, trainable=trainable,
            name=sc.name, dtype=x.dtype.base_dtype, _scope=sc, _reuse=reuse,
        )  # fmt: skip
        made = layer(x)
        variables = {"weights": layer.kernel, "biases": layer.bias}
        return finished(made, layer, sc, variables, normalizer_fn, normalizer_params, activation_fn,
                        variables_collections, outputs_collections)  # fmt: skip


@add_arg_scope
def convolution2d_transpose(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: str | None = "NHWC", activation_fn: Any = nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """A transposed convolution over height and width; its scope is "Conv2d_transpose"."""
    return _transposed(
        transposed.Conv2DTranspose, "Conv2d_transpose", inputs, num_outputs, kernel_size, stride, padding,
        data_format, activation_fn, normalizer_fn, normalizer_params, weights_initializer, weights_regularizer,
        biases_initializer, biases_regularizer, reuse, variables_collections, outputs_collections, trainable, scope,
    )  # fmt: skip


@add_arg_scope
def convolution3d_transpose(
    inputs: Any, num_outputs: int, kernel_size: Any, stride: Any = 1, padding: str = "SAME",
    data_format: str | None = "NDHWC", activation_fn: Any = nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """A transposed convolution over depth, height and width; its scope is "Conv3d_transpose"."""
    return _transposed(
        transposed.Conv3DTranspose, "Conv3d_transpose", inputs, num_outputs, kernel_size, stride, padding,
        data_format, activation_fn, normalizer_fn, normalizer_params, weights_initializer, weights_regularizer,
        biases_initializer, biases_regularizer, reuse, variables_collections, outputs_collections, trainable, scope,
    )  # fmt: skip


conv2d_transpose, conv3d_transpose = convolution2d_transpose, convolution3d_transpose


@add_arg_scope
def separable_convolution2d(
    inputs: Any, num_outputs: int | None, kernel_size: Any, depth_multiplier: int = 1, stride: Any = 1,
    padding: str = "SAME", data_format: str | None = "NHWC", rate: Any = 1, activation_fn: Any = nn.relu,
    normalizer_fn: Any = None, normalizer_params: Any = None, weights_initializer: Any = _XAVIER,
    pointwise_initializer: Any = None, weights_regularizer: Any = None, biases_initializer: Any = _ZEROS,
    biases_regularizer: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Each channel by itself, then all channels at each place; without `num_outputs` the first half alone.

    Variables: `depthwise_weights`, `pointwise_weights`, `biases`, in the scope "SeparableConv2d".
    """
    getter = renaming(
        {"bias": "biases", "depthwise_kernel": "depthwise_weights", "pointwise_kernel": "pointwise_weights"}
    )
    with variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse, custom_getter=getter) as sc:
        x = convert_to_tensor(inputs)
        use_bias = normalizer_fn is None and biases_initializer is not None
        settings: dict[str, Any] = {
            "use_bias": use_bias, "bias_initializer": biases_initializer, "bias_regularizer": biases_regularizer,
            "trainable": trainable, "name": sc.name, "dtype": x.dtype.base_dtype, "_scope": sc, "_reuse": reuse,
        }  # fmt: skip
        layer: Any
        if num_outputs is None:
            layer = _Depthwise(depth_multiplier, kernel_size, stride, padding.lower(), channels(data_format), rate,
                               kernel_initializer=weights_initializer, kernel_regularizer=weights_regularizer,
                               **settings)  # fmt: skip
        else:
            layer = separable.SeparableConv2D(
                num_outputs, kernel_size, stride, padding.lower(), channels(data_format), rate, depth_multiplier,
                depthwise_initializer=weights_initializer,
                pointwise_initializer=pointwise_initializer or weights_initializer,
                depthwise_regularizer=weights_regularizer, pointwise_regularizer=weights_regularizer, **settings,
            )  # fmt: skip
        made = layer(x)
        variables = {"weights": layer.depthwise_kernel, "biases": layer.bias}
        if num_outputs is not None:
            add_variable(layer.pointwise_kernel, variables_collections, "weights")
        return finished(made, layer, sc, variables, normalizer_fn, normalizer_params, activation_fn,
                        variables_collections, outputs_collections)  # fmt: skip


separable_conv2d = separable_convolution2d


class _Depthwise(convolutional.Conv):
    """A convolution of each channel by itself, `depth_multiplier` filters each."""

    def __init__(self, depth_multiplier: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(2, depth_multiplier, *args, **kwargs)
        self.depthwise_kernel: Any = None

    def build(self, input_shape: Any) -> None:
        """See Layer."""
        count = self._input_channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel", [*self.kernel_size, count, self.filters], initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
        )  # fmt: skip
        self.filters *= count
        self._add_bias_weight()
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """See Layer."""
        out = conv_layers.depthwise_conv2d(
            inputs, self.depthwise_kernel, self._over_axes(self.strides), self.padding.upper(),
            rate=list(self.dilation_rate), data_format="NCHW" if self._first else "NHWC",
        )  # fmt: skip
        return self._finish(out)
