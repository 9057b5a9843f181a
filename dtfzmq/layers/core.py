"""Dense, Dropout and Flatten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers import naming
from dtfzmq.layers.base import InputSpec, Layer
from dtfzmq.ops import array, constants, matmul, nn
from dtfzmq.variables.initializers import Zeros


class Dense(Layer):
    """activation(inputs x kernel + bias), over the last axis of inputs of any rank from 2.

    Variables: `kernel` [inputs, units], `bias` [units]. Without an initializer of the kernel the scope's is taken.
    """

    def __init__(
        self, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
        bias_initializer: Any = Zeros, kernel_regularizer: Any = None, bias_regularizer: Any = None,
        activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
        trainable: bool = True, name: str | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs)
        self.units = int(units)
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
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        """See Layer. Raises ValueError if the size of the last axis is not known."""
        last = naming.dimension(as_shape(input_shape).as_list()[-1])
        if last is None:
            raise ValueError("The last dimension of the inputs to `Dense` should be defined. Found `None`.")
        self.input_spec = InputSpec(min_ndim=2, axes={-1: last})
        self.kernel = self.add_weight(
            "kernel", [last, self.units], initializer=self.kernel_initializer, regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )  # fmt: skip
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", [self.units], initializer=self.bias_initializer, regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )  # fmt: skip
        self.built = True

    def call(self, inputs: Any) -> Tensor:
        """See Layer."""
        x = convert_to_tensor(inputs)
        rank = x.shape.ndims
        if rank is not None and rank > 2:
            out = matmul.tensordot(x, self.kernel, [[rank - 1], [0]])
            out.set_shape([*x.shape.as_list()[:-1], self.units])
        else:
            out = matmul.matmul(x, self.kernel)
        if self.use_bias:
            out = nn.bias_add(out, self.bias)
        return out if self.activation is None else self.activation(out)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """See Layer."""
        return TensorShape([*as_shape(input_shape).with_rank_at_least(2).as_list()[:-1], self.units])


def dense(
    inputs: Any, units: int, activation: Any = None, use_bias: bool = True, kernel_initializer: Any = None,
    bias_initializer: Any = Zeros, kernel_regularizer: Any = None, bias_regularizer: Any = None,
    activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
    trainable: bool = True, name: str | None = None, reuse: Any = None,
) -> Tensor:  # fmt: skip
    """One `Dense` layer on `inputs`; with `reuse` the variables of the layer `name` again."""
    layer = Dense(
        units, activation, use_bias, kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        activity_regularizer, kernel_constraint, bias_constraint, trainable, name, _scope=name, _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs)
    return made


class Dropout(Layer):
    """In training: each element is zero with probability `rate`, the others are scaled up by 1 / (1 - rate)."""

    def __init__(
        self, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, name: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(self, inputs: Any, training: Any = False) -> Tensor:
        """See Layer. `training` is a bool or a tensor of one."""
        made: Tensor = naming.choose(training, lambda: self._dropped(inputs), lambda: constants.identity(inputs))
        return made

    def _dropped(self, inputs: Any) -> Tensor:
        keep = 1.0 - self.rate
        if keep == 0.0:
            return constants.zeros_like(inputs)
        shape = self.noise_shape
        if shape is not None and not isinstance(shape, Tensor):
            actual = array.shape(inputs)
            shape = array.stack([actual[i] if n is None else constants.constant(n) for i, n in enumerate(shape)])
        return nn.dropout(inputs, keep, noise_shape=shape, seed=self.seed)


def dropout(
    inputs: Any, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, training: Any = False,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """`Dropout` of `inputs`, where `training` holds."""
    made: Tensor = Dropout(rate, noise_shape, seed, name=name)(inputs, training=training)
    return made


class Flatten(Layer):
    """All axes but the first made one; channels first are moved last before."""

    def __init__(self, data_format: str = "channels_last", name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._first = naming.channels(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Tensor:
        """See Layer."""
        x = convert_to_tensor(inputs)
        rank = x.shape.ndims
        if self._first and rank is not None and rank > 2:
            x = array.transpose(x, [0, *range(2, rank), 1])
        size = _product(x.shape.as_list()[1:]) if rank is not None else None
        if size is not None:
            return array.reshape(x, [-1, size])
        batch = x.shape.as_list()[0] if rank else None
        out = array.reshape(x, array.stack([array.shape(x)[0] if batch is None else constants.constant(batch), -1]))
        out.set_shape([batch, None])
        return out

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """See Layer."""
        known = as_shape(input_shape).as_list()
        return TensorShape([known[0], _product(known[1:])])


def _product(sizes: Sequence[int | None]) -> int | None:
    return None if None in sizes else math.prod(n or 0 for n in sizes)


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """`Flatten` of `inputs`."""
    made: Tensor = Flatten(data_format, name=name)(inputs)
    return made


