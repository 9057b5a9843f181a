"""What kernels ask of sizes, axes and counts that come as tensors. All raise InvalidArgumentError.

What numpy would take otherwise - a vector of one for a scalar, a negative size - TensorFlow refuses.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfzmq.base import errors

_MOST_ELEMENTS = 2**63 - 1


def _refused(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


def scalar(what: str, x: Any) -> Any:
    """The number in a scalar."""
    if np.ndim(x):
        raise _refused(f"{what} must be a scalar, got shape {list(np.shape(x))}")
    return x.item() if hasattr(x, "item") else x


def single(what: str, x: Any) -> Any:
    """The number in a tensor of one element, whatever its rank."""
    if np.size(x) != 1:
        raise _refused(f"{what} must have exactly one element, got shape {list(np.shape(x))}")
    return np.asarray(x).item()


def vector(what: str, x: Any, size: int | None = None) -> list[int]:
    """The numbers in a vector, of `size` if given."""
    if np.ndim(x) != 1 or size is not None and len(x) != size:
        of = "" if size is None else f" of size {size}"
        raise _refused(f"{what} must be a vector{of}, got shape {list(np.shape(x))}")
    numbers: list[int] = x.tolist()
    return numbers


def sizes(what: str, x: Any) -> tuple[int, ...]:
    """A shape: a vector of numbers that are not negative, of no more elements than can be counted."""
    numbers = vector(what, x)
    for i, d in enumerate(numbers):
        if d < 0:
            raise _refused(f"{what}: size {i} must be non-negative, not {d}")
    if math.prod(d for d in numbers if d) > _MOST_ELEMENTS:
        raise _refused(f"{what} {numbers} has more elements than can be counted")
    return tuple(numbers)


def distinct_axes(what: str, axes: Any, rank: int) -> tuple[int, ...]:
    """Axes, none below 0 and none twice, from a vector in which they may count from the end."""
    seen: list[int] = []
    for i, a in enumerate(vector(what, axes)):
        if not -rank <= a < rank:
            raise _refused(f"'{what}'[{i}] = {a} is out of valid range [{-rank}, {rank})")
        if a % rank in seen:
            raise _refused(f"{what} {a % rank} specified more than once.")
        seen.append(a % rank)
    return tuple(seen)
