"""Sample inputs for op declarations: deterministic, without ties, away from where many functions have a corner."""

from __future__ import annotations

import math

import numpy as np

# Multiples of the golden ratio modulo 1: any run of them is spread evenly, and no two are equal.
_SPREAD = np.mod(np.arange(1024) * 0.6180339887498949 + 0.137, 1.0)


def mat(*shape: int, lo: float = -2.0, hi: float = 2.0, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Distinct values spread over (lo, hi); integers: lo..hi inclusive, with repeats. Same arguments, same array."""
    size = math.prod(shape)
    unit = _SPREAD[1 + 7 * seed : 1 + 7 * seed + size].reshape(shape)
    if dtype == "float64":
        return np.asarray(lo + unit * (hi - lo))
    if np.dtype(dtype).kind in "iu":
        return np.floor(lo + unit * (hi - lo + 1)).astype(dtype)
    return (lo + unit * (hi - lo)).astype(dtype)


def pos(*shape: int, lo: float = 0.3, hi: float = 2.7, seed: int = 0) -> np.ndarray:
    """Like mat, positive."""
    return mat(*shape, lo=lo, hi=hi, seed=seed)


def ints(*values: int, dtype: str = "int32") -> np.ndarray:
    """A vector of integers."""
    return np.array(values, dtype)


def bits(*shape: int, seed: int = 0) -> np.ndarray:
    """Array of bool with both values in it."""
    return mat(*shape, seed=seed) > 0
