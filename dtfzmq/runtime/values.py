"""Who owns an array: values are shared and never written, and what outlives its step owns its bytes.

A value is a numpy array or numpy scalar (variants: a Python list). Inside a step values are passed by reference and
nobody writes to them. The executor hands feeds to a plan as views, so an array that owns its memory is never the
user's.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dtfzmq.base import errors


def keep(value: Any) -> Any:
    """The value itself if it may outlive its step (it owns its bytes and is nobody's to write), else a copy.

    For what stores a value (queues, accumulators). A view may be of memory that the caller of `run` writes to later.
    """
    if type(value) is np.ndarray and not value.flags.owndata:
        return value.copy()
    return value


def lean(value: Any) -> Any:
    """The scalar that an array of rank 0 holds, with which kernels compute several times faster; else the value."""
    if type(value) is np.ndarray and value.ndim == 0 and value.dtype != object:
        return value[()]
    return value


def as_feed(value: Any) -> Any:
    """A view of an array that a caller may write to later, so that `keep` knows it; of rank 0, its scalar."""
    value = lean(value)
    if type(value) is np.ndarray and value.flags.owndata:
        return value.view()
    return value


def _count_in_list(values: list[Any], index: int) -> int:
    return sys.getrefcount(values[index])


# References to a value whose only home is one list, as `_count_in_list` sees them on this interpreter.
_ONLY_IN_LIST = _count_in_list([np.empty(1)], 0)


def release(values: list[Any]) -> list[Any]:
    """Make every array in `values` the caller's own: writeable and referenced by nothing else. Changes and returns it.

    `values` must be the only list that holds them. Copies what a variable, constant, queue or frame still shares.
    Raises ResourceExhaustedError if there is no memory for a copy.
    """
    for index in range(len(values)):
        value = values[index]
        if type(value) is not np.ndarray:
            continue
        flags = value.flags
        fit = flags.owndata and flags.writeable
        del value, flags
        if not fit or _count_in_list(values, index) != _ONLY_IN_LIST:
            try:
                values[index] = values[index].copy()
            except MemoryError as error:
                raise errors.wrap(error) from None
    return values
