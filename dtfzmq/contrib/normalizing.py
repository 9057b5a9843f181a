"""batch_norm, layer_norm, instance_norm and unit_norm of tf.contrib.layers."""

from __future__ import annotations

from typing import Any

from dtfzmq.contrib.arg_scope import add_arg_scope
from dtfzmq.contrib.collecting import add_variable, collect, renaming
from dtfzmq.contrib.variables import model_variable
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import add_to_collections, control_dependencies, get_collection_ref
from dtfzmq.layers.normalization import BatchNormalization
from dtfzmq.ops import array, constants, elementwise, nn, reductions
from dtfzmq.variables.initializers import Ones, Zeros
from dtfzmq.variables.scope import variable_scope

_STATISTICS = ("beta", "gamma", "moving_mean", "moving_variance")


@add_arg_scope
def batch_norm(
    inputs: Any, decay: float = 0.999, center: bool = True, scale: bool = False, epsilon: float = 0.001,
    activation_fn: Any = None, param_initializers: Any = None, param_regularizers: Any = None,
    updates_collections: Any = GraphKeys.UPDATE_OPS, is_training: Any = True, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    batch_weights: Any = None, fused: bool | None = None, data_format: str | None = "NHWC",
    zero_debias_moving_mean: bool = False, scope: Any = None, renorm: bool = False, renorm_clipping: Any = None,
    renorm_decay: float = 0.99, adjustment: Any = None,
) -> Tensor:  # fmt: skip
    """Batch normalization, in the scope "BatchNorm". The updates of the moving averages go to `updates_collections`.

    None there: the output waits for the updates. Raises ValueError for batch_weights and zero_debias_moving_mean,
    which are not supported.
    """
    if batch_weights is not None or zero_debias_moving_mean:
        raise ValueError("batch_weights and zero_debias_moving_mean of batch_norm are not supported.")
    if data_format not in (None, "NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    first, losses = param_initializers or {}, param_regularizers or {}
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse, custom_getter=renaming({})) as sc:
        x = convert_to_tensor(inputs)
        layer = BatchNormalization(
            axis=1 if data_format == "NCHW" else -1, momentum=decay, epsilon=epsilon, center=center, scale=scale,
            beta_initializer=first.get("beta", Zeros), gamma_initializer=first.get("gamma", Ones),
            moving_mean_initializer=first.get("moving_mean", Zeros),
            moving_variance_initializer=first.get("moving_variance", Ones), beta_regularizer=losses.get("beta"),
            gamma_regularizer=losses.get("gamma"), trainable=trainable, renorm=renorm, renorm_clipping=renorm_clipping,
            renorm_momentum=renorm_decay, adjustment=adjustment, fused=fused, name=sc.name, _scope=sc, _reuse=reuse,
        )  # fmt: skip
        kept = get_collection_ref(GraphKeys.UPDATE_OPS)
        count = len(kept)
        outputs = layer(x, training=is_training)
        updates = kept[count:]
        if updates_collections != GraphKeys.UPDATE_OPS:
            del kept[count:]
            if updates_collections is None:
                with control_dependencies(updates):
                    outputs = constants.identity(outputs)
            else:
                keys = [updates_collections] if isinstance(updates_collections, str) else updates_collections
                for update in updates:
                    add_to_collections(keys, update)
        for name in _STATISTICS:
            made = getattr(layer, name)
            if made is not None:
                add_variable(made, variables_collections, name)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc, outputs)


def _parameters(x: Tensor, shape: Any, center: bool, scale: bool, collections: Any, trainable: bool) -> tuple[Any, Any]:
    kind = x.dtype.base_dtype
    beta = gamma = None
    if center:
        beta = model_variable("beta", shape=shape, dtype=kind, initializer=Zeros(), trainable=trainable)
        add_variable(beta, collections, "beta")
    if scale:
        gamma = model_variable("gamma", shape=shape, dtype=kind, initializer=Ones(), trainable=trainable)
        add_variable(gamma, collections, "gamma")
    return beta, gamma


@add_arg_scope
def layer_norm(
    inputs: Any, center: bool = True, scale: bool = True, activation_fn: Any = None, reuse: Any = None,
    variables_collections: Any = None, outputs_collections: Any = None, trainable: bool = True,
    begin_norm_axis: int = 1, begin_params_axis: int = -1, scope: Any = None,
) -> Tensor:  # fmt: skip
    """Each row normalized over its axes from `begin_norm_axis` on; gain and shift per place from `begin_params_axis`.

    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.
    """
    with variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        x = convert_to_tensor(inputs)
        rank = x.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {x.name} has undefined rank.")
        begin = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or begin >= rank:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({begin}) must be < rank(inputs) ({rank})"
            )
        shape = x.shape[begin_params_axis:]
        if not shape.is_fully_defined():
            raise ValueError(f"Inputs {x.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {x.shape}")
        beta, gamma = _parameters(x, shape, center, scale, variables_collections, trainable)
        mean, variance = nn.moments(x, list(range(begin, rank)), keep_dims=True)
        outputs = nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)
        outputs.set_shape(x.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc, outputs)


@add_arg_scope
def instance_norm(
    inputs: Any, center: bool = True, scale: bool = True, epsilon: float = 1e-6, activation_fn: Any = None,
    param_initializers: Any = None, reuse: Any = None, variables_collections: Any = None,
    outputs_collections: Any = None, trainable: bool = True, data_format: str = "NHWC", scope: Any = None,
) -> Tensor:  # fmt: skip
    """Each channel of each row normalized over space, in the scope "InstanceNorm"."""
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        x = convert_to_tensor(inputs)
        rank = x.shape.ndims
        if rank is None:
            raise ValueError(f"Inputs {x.name} has undefined rank.")
        axis = 1 if data_format == "NCHW" else rank - 1
        beta, gamma = _parameters(x, x.shape[axis : axis + 1], center, scale, variables_collections, trainable)
        if axis == 1 and rank > 2:
            beta, gamma = (None if p is None else array.reshape(p, [1, -1, *[1] * (rank - 2)]) for p in (beta, gamma))
        mean, variance = nn.moments(x, [i for i in range(1, rank) if i != axis], keep_dims=True)
        outputs = nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(x.shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return collect(outputs_collections, sc, outputs)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: str | None = None) -> Tensor:
    """`inputs` with length 1 along `dim`."""
    with variable_scope(scope, "UnitNorm", [inputs]):
        x = convert_to_tensor(inputs)
        rank = x.shape.ndims or 0
        if dim < 0 or dim >= rank:
            raise ValueError(f"dim must be positive but smaller than the input rank: {dim}, {rank}.")
        length = elementwise.sqrt(reductions.reduce_sum(elementwise.square(x), axis=dim, keepdims=True) + epsilon)
        return x / length
