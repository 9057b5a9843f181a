"""Initializers: callables `(shape, dtype=None, partition_info=None) -> Tensor` that make first values.

Each is a class; TensorFlow 1's lower-case names (`zeros_initializer`) are aliases of the classes. A seed of None
means the graph's seed rule; equal graph and op seeds give equal values on every run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.graph.graph import Tensor
from dtfzmq.ops import array, constants, decompositions, diag, elementwise
from dtfzmq.ops import random as random_ops

Shape = Any


class Initializer:
    """Base of all: `__call__` returns a tensor of the given shape and dtype; `get_config` names its settings."""

    dtype: DType = dtypes.float32

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        raise TypeError(f"{type(self).__name__} is an abstract initializer: use one of its subclasses.")

    def get_config(self) -> dict[str, Any]:
        """Keyword arguments that make an equal initializer."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """The initializer that `get_config` described."""
        return cls(**config)

    def _dtype(self, dtype: Any) -> DType:
        return self.dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype


def _floating(dtype: Any) -> DType:
    found = dtypes.as_dtype(dtype).base_dtype
    if not found.is_floating:
        raise ValueError(f"Expected floating point type, got {found!r}.")
    return found


def _shape_list(shape: Shape) -> list[int]:
    if isinstance(shape, (int, np.integer)):
        return [int(shape)]
    as_list = getattr(shape, "as_list", None)
    return [int(d) for d in (as_list() if as_list is not None else shape)]


class Zeros(Initializer):
    """All zeros (False, b'')."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return constants.zeros(shape, self._dtype(dtype))

    def get_config(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}


class Ones(Initializer):
    """All ones (True)."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return constants.ones(shape, self._dtype(dtype))

    def get_config(self) -> dict[str, Any]:
        return {"dtype": self.dtype.name}


class Constant(Initializer):
    """One value for all elements, or a list or array whose elements fill the shape in row order.

    A list shorter than the shape repeats its last element; with `verify_shape` the shapes must agree.
    """

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                f"Invalid type for initial value: {type(value)}. Expected Python scalar, list or tuple of values, "
                "or numpy.ndarray."
            )
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(
        self, shape: Shape, dtype: Any = None, partition_info: Any = None, verify_shape: bool | None = None
    ) -> Tensor:
        verify = self._verify_shape if verify_shape is None else verify_shape
        return constants.constant(self.value, dtype=self._dtype(dtype), shape=shape, verify_shape=verify)

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value, "dtype": self.dtype.name}


class RandomUniform(Initializer):
    """Uniform in [minval, maxval); integers need an explicit `maxval`, floats default to 1 where None."""

    def __init__(
        self, minval: Any = 0, maxval: Any = None, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return random_ops.random_uniform(shape, self.minval, self.maxval, self._dtype(dtype), seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"minval": self.minval, "maxval": self.maxval, "seed": self.seed, "dtype": self.dtype.name}


class RandomNormal(Initializer):
    """Normal with the given mean and standard deviation."""

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return random_ops.random_normal(shape, self.mean, self.stddev, self._dtype(dtype), seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"mean": self.mean, "stddev": self.stddev, "seed": self.seed, "dtype": self.dtype.name}


class TruncatedNormal(RandomNormal):
    """Normal, values further than two standard deviations from the mean drawn again."""

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return random_ops.truncated_normal(shape, self.mean, self.stddev, self._dtype(dtype), seed=self.seed)


class UniformUnitScaling(Initializer):
    """Uniform of half-width `factor * sqrt(3 / inputs)`, inputs being all dimensions but the last multiplied."""

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.factor = factor
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        full = _shape_list(shape if partition_info is None else partition_info.full_shape)
        inputs = 1.0
        for dim in full[:-1]:
            inputs *= float(dim)
        limit = math.sqrt(3.0 / max(inputs, 1.0)) * self.factor
        return random_ops.random_uniform(shape, -limit, limit, self._dtype(dtype), seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {"factor": self.factor, "seed": self.seed, "dtype": self.dtype.name}


def compute_fans(shape: Sequence[int]) -> tuple[float, float]:
    """(fan_in, fan_out) of a weight: the last two dimensions times the receptive field before them."""
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    field = 1.0
    for dim in shape[:-2]:
        field *= dim
    return shape[-2] * field, shape[-1] * field


class VarianceScaling(Initializer):
    """Zero mean, variance `scale / n`, n being fan_in, fan_out or their average (`fan_avg`).

    `distribution`: 'truncated_normal' (alias 'normal'), 'untruncated_normal' or 'uniform'.
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        if scale <= 0.0:
            raise ValueError("`scale` must be positive float.")
        if mode not in {"fan_in", "fan_out", "fan_avg"}:
            raise ValueError("Invalid `mode` argument:", mode)
        distribution = distribution.lower()
        if distribution not in {"normal", "uniform", "truncated_normal", "untruncated_normal"}:
            raise ValueError("Invalid `distribution` argument:", distribution)
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        wanted = self._dtype(dtype)
        full = _shape_list(shape if partition_info is None else partition_info.full_shape)
        fan_in, fan_out = compute_fans(full)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, n)
        if self.distribution in ("normal", "truncated_normal"):
            # 0.8796... is the standard deviation of a unit normal cut at two deviations
            stddev = math.sqrt(variance) / 0.87962566103423978
            return random_ops.truncated_normal(shape, 0.0, stddev, wanted, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return random_ops.random_normal(shape, 0.0, math.sqrt(variance), wanted, seed=self.seed)
        limit = math.sqrt(3.0 * variance)
        return random_ops.random_uniform(shape, -limit, limit, wanted, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        return {
            "scale": self.scale,
            "mode": self.mode,
            "distribution": self.distribution,
            "seed": self.seed,
            "dtype": self.dtype.name,
        }


class GlorotUniform(VarianceScaling):
    """Uniform, variance 2 / (fan_in + fan_out): also known as Xavier. The default of `get_variable`."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed, "dtype": self.dtype.name}


class GlorotNormal(VarianceScaling):
    """Truncated normal, variance 2 / (fan_in + fan_out)."""

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed, "dtype": self.dtype.name}


class Identity(Initializer):
    """A 2-D matrix with `gain` on the diagonal."""

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _floating(dtype)

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        full = _shape_list(shape if partition_info is None else partition_info.full_shape)
        if len(full) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices.")
        wanted = self._dtype(dtype)
        value = self.gain * np.eye(full[0], full[1])
        if partition_info is not None:
            rows, columns = _shape_list(shape)
            row, column = partition_info.var_offset
            value = value[row : row + rows, column : column + columns]
        return constants.constant(value.astype(wanted.as_numpy_dtype), dtype=wanted)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "dtype": self.dtype.name}


class Orthogonal(Initializer):
    """Columns (or rows, where there are fewer) orthonormal, times `gain`; all dimensions but the last are rows."""

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Shape, dtype: Any = None, partition_info: Any = None) -> Tensor:
        full = _shape_list(shape)
        if len(full) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional")
        rows, columns = math.prod(full[:-1]), full[-1]
        tall = [max(rows, columns), min(rows, columns)]
        drawn = random_ops.random_normal(tall, dtype=self._dtype(dtype), seed=self.seed)
        q, r = decompositions.qr(drawn)
        # signs that make the distribution uniform
        q = q * elementwise.sign(diag.diag_part(r))
        if rows < columns:
            q = array.transpose(q)
        return array.reshape(q, full) * self.gain

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "seed": self.seed, "dtype": self.dtype.name}


def he_normal(seed: int | None = None) -> VarianceScaling:
    """Truncated normal, variance 2 / fan_in."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform, variance 2 / fan_in."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Truncated normal, variance 1 / fan_in."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform, variance 1 / fan_in."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = dtypes.float32) -> VarianceScaling:
    """`contrib.layers.xavier_initializer`: Glorot's, uniform or normal."""
    return GlorotUniform(seed, dtype) if uniform else GlorotNormal(seed, dtype)


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
random_uniform_initializer = RandomUniform
random_normal_initializer = RandomNormal
truncated_normal_initializer = TruncatedNormal
uniform_unit_scaling_initializer = UniformUnitScaling
variance_scaling_initializer = VarianceScaling
glorot_uniform_initializer = GlorotUniform
glorot_normal_initializer = GlorotNormal
identity_initializer = Identity
orthogonal_initializer = Orthogonal
