"""Where along an axis the largest and the smallest element stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.samples import mat


def _arg_shape(n: Any) -> list[TensorShape]:
    known = dims(n.inputs[0])
    axis = constant_value(n.inputs[1])
    if known is None:
        return [UNKNOWN]
    if axis is None:
        return [TensorShape([None] * max(0, len(known) - 1))]
    a = int(axis)
    if not known:  # the kernel refuses a scalar, as TensorFlow's does
        return [TensorShape([])]
    if not -len(known) <= a < len(known):
        raise ValueError(f"Dimension ({a}) must be in the range [{-len(known)}, {len(known)}).")
    return [TensorShape([d for i, d in enumerate(known) if i != a % len(known)])]


def _arg_kernel(fn: Callable[..., Any], worst: float) -> Any:
    def make(node: Any, env: Any) -> Any:
        to = node.dtypes[0].np_dtype

        def kernel(x: np.ndarray, axis: np.ndarray) -> np.ndarray:
            a = int(axis)
            if not -x.ndim <= a < x.ndim:
                raise errors.InvalidArgumentError(
                    None, None, f"Expected dimension in the range [{-x.ndim}, {x.ndim}), but got {a}"
                )
            if x.shape[a] == 0:
                raise errors.InvalidArgumentError(
                    None, None, f"Reduction axis {a % x.ndim} is empty in shape {list(x.shape)}"
                )
            found = fn(x, a)
            if x.dtype.kind not in "biu":
                picked = np.take_along_axis(x, np.expand_dims(found, a), a)
                if (picked != picked).any():  # numpy stops at a nan, TensorFlow passes over it
                    found = fn(np.where(x == x, x, worst), a)
            return found.astype(to)

        return kernel

    return make


_ARG = "input: T, dimension: I; output_type: type = int64 -> output: output_type"
_ARG_SAMPLES = [Sample(mat(3, 4), np.int32(0)), Sample(mat(3, 4), np.int32(-1), output_type=dtypes.int32)]
_arg_max = op(
    "ArgMax", _ARG, shape=_arg_shape, make=_arg_kernel(np.argmax, -np.inf), grad=NO_GRAD("index"), samples=_ARG_SAMPLES
)
_arg_min = op(
    "ArgMin", _ARG, shape=_arg_shape, make=_arg_kernel(np.argmin, np.inf), grad=NO_GRAD("index"), samples=_ARG_SAMPLES
)


def _search(builder: Any, what: str) -> Any:
    def search(
        input: Any,
        axis: Any = None,
        name: str | None = None,
        dimension: Any = None,
        output_type: Any = dtypes.int64,
    ) -> Tensor:
        axis = one_of("axis", axis, "dimension", dimension)
        return builder(input, 0 if axis is None else axis, output_type=dtypes.as_dtype(output_type), name=name)

    search.__doc__ = f"The index of the {what} element along `axis` (0 if not given); the first of equals."
    return search


argmax = _search(_arg_max, "largest")
argmin = _search(_arg_min, "smallest")


def arg_max(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """argmax with its first order of arguments."""
    return _arg_max(input, dimension, output_type=dtypes.as_dtype(output_type), name=name)


def arg_min(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """argmin with its first order of arguments."""
    return _arg_min(input, dimension, output_type=dtypes.as_dtype(output_type), name=name)
