"""Initializers of tf.contrib.layers: Xavier's, and variance scaling by contrib's own rule."""

from __future__ import annotations

import math
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.ops import random
from dtfzmq.variables.initializers import compute_fans


def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None,
    dtype: Any = dtypes.float32,
) -> Any:  # fmt: skip
    """Variance factor / n, n being FAN_IN, FAN_OUT or FAN_AVG; normal (truncated) unless `uniform`.

    Raises TypeError for an integer dtype or factor, ValueError for another mode.
    """
    default = dtypes.as_dtype(dtype)
    if not default.is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        wanted = default if dtype is None else dtypes.as_dtype(dtype).base_dtype
        full = shape if partition_info is None else partition_info.full_shape
        sizes = [float(d) for d in (full.as_list() if hasattr(full, "as_list") else full)]
        fans = compute_fans([int(d) for d in sizes]) if sizes else (1.0, 1.0)
        n = {"FAN_IN": fans[0], "FAN_OUT": fans[1], "FAN_AVG": sum(fans) / 2.0}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / n)
            return random.random_uniform(shape, -limit, limit, wanted, seed=seed)
        # 1.3 makes up for what the truncation takes of the variance
        return random.truncated_normal(shape, 0.0, math.sqrt(1.3 * factor / n), wanted, seed=seed)

    return initializer


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = dtypes.float32) -> Any:
    """Variance 2 / (fan_in + fan_out): what layers of tf.contrib use if nothing is said."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer
