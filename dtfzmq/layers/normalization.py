"""BatchNormalization: by the statistics of the batch in training, by their moving averages after."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import colocate_with, init_scope, name_scope
from dtfzmq.layers import naming
from dtfzmq.layers.base import InputSpec, Layer
from dtfzmq.ops import array, constants, elementwise, nn, training
from dtfzmq.ops import math as math_ops
from dtfzmq.ops.batch_norm import fused_batch_norm
from dtfzmq.ops.cast import cast
from dtfzmq.ops.clip import clip_by_value
from dtfzmq.variables.initializers import Ones, Zeros


class BatchNormalization(Layer):
    """gamma * (inputs - mean) / sqrt(variance + epsilon) + beta, statistics per place along `axis`.

    Variables: `gamma`, `beta`, `moving_mean`, `moving_variance`. In training the moving averages are updated by ops in
    the collection UPDATE_OPS, which the program runs with its training op: average * momentum + value * (1 -
    momentum), one update where the average lives. 4-D inputs are normalized by one fused op (`fused=False`: not).
    Raises ValueError for `virtual_batch_size` and `adjustment`, which are not supported.
    """

    def __init__(
        self, axis: Any = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
        beta_initializer: Any = Zeros, gamma_initializer: Any = Ones, moving_mean_initializer: Any = Zeros,
        moving_variance_initializer: Any = Ones, beta_regularizer: Any = None, gamma_regularizer: Any = None,
        beta_constraint: Any = None, gamma_constraint: Any = None, renorm: bool = False, renorm_clipping: Any = None,
        renorm_momentum: float = 0.99, fused: bool | None = None, trainable: bool = True,
        virtual_batch_size: int | None = None, adjustment: Any = None, name: str | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(trainable=trainable, name=name, **kwargs)
        if virtual_batch_size is not None or adjustment is not None:
            raise ValueError("virtual_batch_size and adjustment of batch normalization are not supported.")
        if renorm and fused:
            raise ValueError("Passing both `fused=True` and `renorm=True` is unsupported")
        unknown = set(renorm_clipping or ()) - {"rmax", "rmin", "dmax"}
        if unknown:
            raise ValueError(f"renorm_clipping {sorted(unknown)} contains keys not in ['rmax', 'rmin', 'dmax']")
        self.axis = axis
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = beta_initializer
        self.gamma_initializer = gamma_initializer
        self.moving_mean_initializer = moving_mean_initializer
        self.moving_variance_initializer = moving_variance_initializer
        self.beta_regularizer = beta_regularizer
        self.gamma_regularizer = gamma_regularizer
        self.beta_constraint = beta_constraint
        self.gamma_constraint = gamma_constraint
        self.renorm = renorm
        self.renorm_clipping = dict(renorm_clipping or {})
        self.renorm_momentum = renorm_momentum
        self.fused = fused
        self.gamma: Any = None
        self.beta: Any = None
        self.moving_mean: Any = None
        self.moving_variance: Any = None
        self.renorm_mean: Any = None
        self.renorm_stddev: Any = None
        self._axes: list[int] = []
        self._shape: list[int] = []

    def build(self, input_shape: Any) -> None:
        """See Layer. Raises ValueError for a bad axis, or one whose size is not known."""
        shape = as_shape(input_shape)
        rank = shape.ndims
        if rank is None:
            raise ValueError("Input has undefined rank.")
        given: list[int] = [int(self.axis)] if isinstance(self.axis, (int, np.integer)) else list(self.axis)
        axes = [a + rank if a < 0 else a for a in given]
        if any(not 0 <= a < rank for a in axes) or len(set(axes)) != len(axes):
            raise ValueError(f"Invalid axis {self.axis} for inputs of rank {rank}: axes are distinct and in range.")
        sizes = {a: naming.dimension(shape.as_list()[a]) for a in axes}
        if None in sizes.values():
            raise ValueError(f"Input has undefined `axis` dimension. Received input with shape {shape}. Axis value: "
                             f"{self.axis}")  # fmt: skip
        self._axes, self._shape = axes, [int(sizes[a] or 0) for a in axes]
        self.input_spec = InputSpec(ndim=rank, axes=sizes)
        can = rank == 4 and axes in ([1], [3]) and not self.renorm
        if self.fused and not can:
            raise ValueError(f"Unsupported axis for fused batch norm: inputs of rank 4, axis 1 or 3, not {self.axis}.")
        self.fused = can if self.fused is None else self.fused
        kind = self._statistics_dtype()
        if self.scale:
            self.gamma = self.add_weight("gamma", self._shape, kind, self.gamma_initializer, self.gamma_regularizer,
                                         constraint=self.gamma_constraint)  # fmt: skip
        if self.center:
            self.beta = self.add_weight("beta", self._shape, kind, self.beta_initializer, self.beta_regularizer,
                                        constraint=self.beta_constraint)  # fmt: skip
        self.moving_mean = self._average("moving_mean", self.moving_mean_initializer)
        self.moving_variance = self._average("moving_variance", self.moving_variance_initializer)
        if self.renorm:
            first = self.moving_variance_initializer
            with init_scope():
                self.renorm_mean = self._average("renorm_mean", self.moving_mean_initializer)
                self.renorm_stddev = self._average("renorm_stddev", first)
        self.built = True

    def _statistics_dtype(self) -> Any:
        return dtypes.float32 if self._dtype in (dtypes.float16, dtypes.bfloat16) else self._dtype or dtypes.float32

    def _average(self, name: str, initializer: Any) -> Any:
        return self.add_weight(name, self._shape, self._statistics_dtype(), initializer, trainable=False)

    def call(self, inputs: Any, training: Any = False) -> Tensor:
        """See Layer. `training` is a bool or a tensor of one."""
        x = convert_to_tensor(inputs)
        return self._fused(x, training) if self.fused else self._plain(x, training)

    def _moving(self, average: Any, value: Tensor, training: Any, momentum: float) -> Any:
        """The update of a moving average; where `training` does not hold, one that changes nothing."""
        decay = naming.choose(training, lambda: constants.constant(momentum), lambda: constants.constant(1.0))
        with name_scope("AssignMovingAvg") as scope, colocate_with(average.op):
            kind = average.dtype.base_dtype
            return training_update(average, cast(value, kind), cast(decay, kind), scope)

    def _fused(self, x: Tensor, training: Any) -> Tensor:
        kind = self._statistics_dtype()
        gamma = self.gamma if self.scale else constants.ones(self._shape, kind)
        beta = self.beta if self.center else constants.zeros(self._shape, kind)
        layout = "NCHW" if self._axes == [1] else "NHWC"

        def by_batch() -> Any:
            return fused_batch_norm(x, gamma, beta, epsilon=self.epsilon, data_format=layout)

        def by_averages() -> Any:
            return fused_batch_norm(x, gamma, beta, self.moving_mean, self.moving_variance, epsilon=self.epsilon,
                                    data_format=layout, is_training=False)  # fmt: skip

        out, mean, variance = naming.choose(training, by_batch, by_averages)
        out.set_shape(x.shape)
        if naming.known(training) is not False:
            for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
                self.add_update(self._moving(average, value, training, self.momentum), inputs=True)
        return out

    def _plain(self, x: Tensor, training: Any) -> Tensor:
        rank = len(x.shape.as_list())
        over = [i for i in range(rank) if i not in self._axes]
        # statistics along several axes, or an axis that is not the last, have to be laid out to be broadcast
        spread = self._axes != [rank - 1]
        sizes = [self._shape[self._axes.index(i)] if i in self._axes else 1 for i in range(rank)]

        def placed(value: Any) -> Any:
            return array.reshape(value, sizes) if spread and value is not None else value

        gamma, beta = placed(self.gamma), placed(self.beta)
        kind = self._statistics_dtype()
        value = x if x.dtype.base_dtype is kind else cast(x, kind)
        if naming.known(training) is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            batch_mean, batch_variance = nn.moments(value, over)
            if spread:  # axes as `axis` lists them, not in the order of the inputs
                order = [sorted(self._axes).index(a) for a in self._axes]
                if order != sorted(order):
                    batch_mean, batch_variance = (array.transpose(t, order) for t in (batch_mean, batch_variance))
            mean = naming.choose(training, lambda: batch_mean, lambda: self.moving_mean)
            variance = naming.choose(training, lambda: batch_variance, lambda: self.moving_variance)
            new_mean, new_variance = mean, variance
            if self.renorm:
                r, d, new_mean, new_variance = self._renorm(mean, variance, training)
                r, d = placed(r), placed(d)
                if gamma is not None:
                    r, d = r * gamma, d * gamma
                gamma, beta = r, d if beta is None else d + beta
            self.add_update(self._moving(self.moving_mean, new_mean, training, self.momentum), inputs=True)
            self.add_update(self._moving(self.moving_variance, new_variance, training, self.momentum), inputs=True)
        out = nn.batch_normalization(value, placed(mean), placed(variance), beta, gamma, self.epsilon)
        out = out if out.dtype.base_dtype is x.dtype.base_dtype else cast(out, x.dtype.base_dtype)
        out.set_shape(x.shape)
        return out

    def _renorm(self, mean: Tensor, variance: Tensor, training: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(r, d, mean, variance): corrections towards the averages, constant for gradients, and what to average.

        Source: Ioffe, "Batch Renormalization", 2017.
        """
        stddev = elementwise.sqrt(variance + self.epsilon)
        kept_mean, kept_stddev = self.renorm_mean.read_value(), self.renorm_stddev.read_value()
        limits = self.renorm_clipping
        r, d = stddev / kept_stddev, (mean - kept_mean) / kept_stddev
        if "rmin" in limits:
            r = math_ops.maximum(r, limits["rmin"])
        if "rmax" in limits:
            r = math_ops.minimum(r, limits["rmax"])
        if "dmax" in limits:
            d = clip_by_value(d, -limits["dmax"], limits["dmax"])
        r = naming.choose(training, lambda: r, lambda: constants.ones_like(r))
        d = naming.choose(training, lambda: d, lambda: constants.zeros_like(d))
        for average, value in ((self.renorm_mean, mean), (self.renorm_stddev, stddev)):
            self.add_update(self._moving(average, value, training, self.renorm_momentum), inputs=True)
        return constants.stop_gradient(r), constants.stop_gradient(d), mean, variance


def training_update(average: Any, value: Tensor, decay: Tensor, name: str) -> Any:
    """average = average * decay + value * (1 - decay), as one op where the average lives."""
    return training.assign_moving_average(average._ref(), value, decay, name=name)


def batch_normalization(
    inputs: Any, axis: Any = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True,
    scale: bool = True, beta_initializer: Any = Zeros, gamma_initializer: Any = Ones,
    moving_mean_initializer: Any = Zeros, moving_variance_initializer: Any = Ones, beta_regularizer: Any = None,
    gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None, training: Any = False,
    trainable: bool = True, name: str | None = None, reuse: Any = None, renorm: bool = False,
    renorm_clipping: Any = None, renorm_momentum: float = 0.99, fused: bool | None = None,
    virtual_batch_size: int | None = None, adjustment: Any = None,
) -> Tensor:  # fmt: skip
    """One `BatchNormalization` layer on `inputs`; run the ops of UPDATE_OPS with the training op."""
    layer = BatchNormalization(
        axis, momentum, epsilon, center, scale, beta_initializer, gamma_initializer, moving_mean_initializer,
        moving_variance_initializer, beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint, renorm,
        renorm_clipping, renorm_momentum, fused, trainable, virtual_batch_size, adjustment, name, _scope=name,
        _reuse=reuse,
    )  # fmt: skip
    made: Tensor = layer(inputs, training=training)
    return made
