"""``tf.contrib.layers``: layers by TF-Slim's names. Each has a scope of its own, and takes defaults by `arg_scope`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.contrib.arg_scope import add_arg_scope
from dtfzmq.contrib.collecting import add_variable, collect, renaming
from dtfzmq.contrib.convolutions import (
    channels,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    convolution,
    convolution1d,
    convolution2d,
    convolution2d_transpose,
    convolution3d,
    convolution3d_transpose,
    finished,
    separable_conv2d,
    separable_convolution2d,
)
from dtfzmq.contrib.initializers import (
    variance_scaling_initializer,
    xavier_initializer,
    xavier_initializer_conv2d,
)
from dtfzmq.contrib.normalizing import batch_norm, instance_norm, layer_norm, unit_norm
from dtfzmq.contrib.optimizing import OPTIMIZER_CLS_NAMES, OPTIMIZER_SUMMARIES, optimize_loss
from dtfzmq.contrib.variables import model_variable
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers import core, pooling
from dtfzmq.layers.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)
from dtfzmq.ops import array, embedding, nn, reductions, slicing
from dtfzmq.ops.cast import cast
from dtfzmq.variables.initializers import Zeros
from dtfzmq.variables.scope import variable_scope

_XAVIER = xavier_initializer()
_ZEROS = Zeros()


@add_arg_scope
def fully_connected(
    inputs: Any, num_outputs: int, activation_fn: Any = nn.relu, normalizer_fn: Any = None,
    normalizer_params: Any = None, weights_initializer: Any = _XAVIER, weights_regularizer: Any = None,
    biases_initializer: Any = _ZEROS, biases_regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True, scope: Any = None,
) -> Tensor:  # fmt: skip
    """inputs x `weights`, then normalizer or `biases`, then activation (relu); in the scope "fully_connected"."""
    if isinstance(num_outputs, bool) or not isinstance(num_outputs, (int, np.integer)):
        raise ValueError(f"num_outputs type should be one of [int], got {type(num_outputs)}.")
    getter = renaming({"bias": "biases", "kernel": "weights"})
    with variable_scope(scope, "fully_connected", [inputs], reuse=reuse, custom_getter=getter) as sc:
        x = convert_to_tensor(inputs)
        layer = core.Dense(
            num_outputs, use_bias=normalizer_fn is None and biases_initializer is not None,
            kernel_initializer=weights_initializer, bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer, trainable=trainable,
            name=sc.name, dtype=x.dtype.base_dtype, _scope=sc, _reuse=reuse,
        )  # fmt: skip
        made = layer(x)
        variables = {"weights": layer.kernel, "biases": layer.bias}
        return finished(made, layer, sc, variables, normalizer_fn, normalizer_params, activation_fn,
                        variables_collections, outputs_collections)  # fmt: skip


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=nn.relu6)


def _pooled(kind: Any, default: str, scope: Any, inputs: Any, outputs_collections: Any, *args: Any) -> Tensor:
    *settings, data_format = args
    with variable_scope(scope, default, [inputs]) as sc:
        size, stride, padding = settings
        layer = kind(size, stride, padding.lower(), channels(data_format), _scope=sc)
        return collect(outputs_collections, sc, layer(convert_to_tensor(inputs)))


@add_arg_scope
def max_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str | None = "NHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Tensor:  # fmt: skip
    """The largest of each window, in the scope "MaxPool2D"."""
    return _pooled(pooling.MaxPooling2D, "MaxPool2D", scope, inputs, outputs_collections, kernel_size, stride, padding,
                   data_format)  # fmt: skip


@add_arg_scope
def avg_pool2d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str | None = "NHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Tensor:  # fmt: skip
    """The mean of each window, in the scope "AvgPool2D"."""
    return _pooled(pooling.AveragePooling2D, "AvgPool2D", scope, inputs, outputs_collections, kernel_size, stride,
                   padding, data_format)  # fmt: skip


@add_arg_scope
def max_pool3d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str | None = "NDHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Tensor:  # fmt: skip
    """The largest of each window, in the scope "MaxPool3D"."""
    return _pooled(pooling.MaxPooling3D, "MaxPool3D", scope, inputs, outputs_collections, kernel_size, stride, padding,
                   data_format)  # fmt: skip


@add_arg_scope
def avg_pool3d(
    inputs: Any, kernel_size: Any, stride: Any = 2, padding: str = "VALID", data_format: str | None = "NDHWC",
    outputs_collections: Any = None, scope: Any = None,
) -> Tensor:  # fmt: skip
    """The mean of each window, in the scope "AvgPool3D"."""
    return _pooled(pooling.AveragePooling3D, "AvgPool3D", scope, inputs, outputs_collections, kernel_size, stride,
                   padding, data_format)  # fmt: skip


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Tensor:
    """All axes but the first made one, in the scope "Flatten"."""
    with variable_scope(scope, "Flatten", [inputs]) as sc:
        return collect(outputs_collections, sc, core.flatten(convert_to_tensor(inputs)))


@add_arg_scope
def dropout(
    inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True,
    outputs_collections: Any = None, scope: Any = None, seed: int | None = None,
) -> Tensor:  # fmt: skip
    """Each element kept with probability `keep_prob` where `is_training` holds, in the scope "Dropout"."""
    with variable_scope(scope, "Dropout", [inputs]) as sc:
        layer = core.Dropout(1 - keep_prob, noise_shape, seed, name=sc.name, _scope=sc)
        return collect(outputs_collections, sc, layer(convert_to_tensor(inputs), training=is_training))


@add_arg_scope
def bias_add(
    inputs: Any, activation_fn: Any = None, initializer: Any = _ZEROS, regularizer: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    data_format: str | None = "NHWC", scope: Any = None,
) -> Tensor:  # fmt: skip
    """inputs + `biases`, in the scope "BiasAdd"."""
    with variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        x = convert_to_tensor(inputs)
        size = x.shape.as_list()[1 if channels(data_format) == "channels_first" else -1]
        if size is None:
            raise ValueError("`C` dimension must be known but is None")
        biases = model_variable("biases", shape=[size], dtype=x.dtype.base_dtype, initializer=initializer,
                                regularizer=regularizer, trainable=trainable)  # fmt: skip
        add_variable(biases, variables_collections, "biases")
        outputs = nn.bias_add(x, biases, data_format=data_format)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc, outputs)


@add_arg_scope
def one_hot_encoding(
    labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0, outputs_collections: Any = None,
    scope: Any = None,
) -> Tensor:  # fmt: skip
    """A row for each label, `on_value` at its class."""
    with variable_scope(scope, "OneHotEncoding", [labels]) as sc:
        x = convert_to_tensor(labels)
        x = cast(x, dtypes.int64) if x.dtype.base_dtype is dtypes.int32 else x
        return collect(outputs_collections, sc, slicing.one_hot(x, num_classes, on_value=on_value, off_value=off_value))


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Tensor:
    """softmax along the last axis, in the scope "softmax"."""
    with variable_scope(scope, "softmax", [logits]):
        return nn.softmax(logits)


@add_arg_scope
def repeat(inputs: Any, repetitions: int, layer: Any, *args: Any, **kwargs: Any) -> Any:
    """`layer` applied `repetitions` times, in the scopes scope/name_1, scope/name_2, ..."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Repeat", [inputs]):
        outputs = convert_to_tensor(inputs)
        name = scope or _name(layer)
        for i in range(repetitions):
            outputs = layer(outputs, *args, scope=f"{name}_{i + 1}", **kwargs)
        return outputs


@add_arg_scope
def stack(inputs: Any, layer: Any, stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """`layer` applied with each of `stack_args` in turn, in the scopes scope/name_1, scope/name_2, ..."""
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError("stack_args need to be a list or tuple")
    with variable_scope(scope, "Stack", [inputs]):
        outputs = convert_to_tensor(inputs)
        name = scope or _name(layer)
        for i, given in enumerate(stack_args):
            given = list(given) if isinstance(given, (list, tuple)) else [given]
            outputs = layer(outputs, *given, scope=f"{name}_{i + 1}", **kwargs)
        return outputs


def _name(layer: Any) -> str:
    inner = getattr(layer, "func", layer)
    return str(getattr(inner, "__name__", "stack")).rpartition(".")[2]


def embed_sequence(
    ids: Any, vocab_size: int | None = None, embed_dim: int | None = None, unique: bool = False,
    initializer: Any = None, regularizer: Any = None, trainable: bool = True, scope: Any = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """Rows of the variable `embeddings` [vocab_size, embed_dim] at `ids`, in the scope "EmbedSequence"."""
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            f"Must specify vocab size and embedding dimension when not reusing. Got vocab_size={vocab_size} and "
            f"embed_dim={embed_dim}"
        )
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if not reuse or (vocab_size and embed_dim) else None
        table = model_variable("embeddings", shape=shape, initializer=initializer, regularizer=regularizer,
                               trainable=trainable)  # fmt: skip
        return embedding.embedding_lookup(table, ids)


def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Tensor:
    """The largest of groups of channels: `num_units` are left."""
    with variable_scope(scope, "MaxOut", [inputs]):
        x = convert_to_tensor(inputs)
        sizes = x.shape.as_list()
        count = sizes[axis]
        if count is None or count % num_units:
            raise ValueError(f"number of features({count}) is not a multiple of num_units({num_units})")
        place = axis if axis >= 0 else axis + len(sizes)
        grouped = [-1 if n is None else n for n in sizes]
        grouped[place : place + 1] = [num_units, count // num_units]
        made: Tensor = reductions.reduce_max(array.reshape(x, grouped), axis=place + 1)
        return made
