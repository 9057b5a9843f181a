"""Running log-sum-exp along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat
from dtfzmq.ops.shaping import invalid

Array = np.ndarray


def _kernel(node: Any, env: Any) -> Any:
    exclusive, backwards = node.attrs["exclusive"], node.attrs["reverse"]

    def run(x: Array, axis: Array) -> Array:
        a = int(axis)
        if not -x.ndim <= a < x.ndim:
            raise invalid(f"Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got {a}")
        half = x.dtype.itemsize == 2
        y = np.moveaxis(x.astype(np.float32) if half else x, a, 0)
        y = np.logaddexp.accumulate(y[::-1] if backwards else y, 0)
        if exclusive:
            y = np.concatenate([np.full_like(y[:1], -np.inf), y[:-1]])
        return np.moveaxis(y[::-1] if backwards else y, 0, a).astype(x.dtype, copy=False)

    return run


def _grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
    """The positive and the negative part of g apart, each under its log."""
    x, axis = n.inputs
    lowest = convert_to_tensor(dtypes.as_dtype(g.dtype.base_dtype).min, dtype=g.dtype.base_dtype)
    options = {"exclusive": n.attrs["exclusive"], "reverse": not n.attrs["reverse"]}
    parts = []
    for part in (g, -g):
        positive = raw.Greater(part, raw.ZerosLike(part))
        log = raw.Log(raw.Select(positive, part, raw.OnesLike(part)))
        log = raw.Select(positive, log, raw.OnesLike(part) * lowest)
        parts.append(raw.Exp(raw.CumulativeLogsumexp(log - n.outputs[0], axis, **options) + x))
    return parts[0] - parts[1], None


_cumulative = op(
    "CumulativeLogsumexp", "x: E, axis: I; exclusive: bool = False, reverse: bool = False -> out: E", shape=same,
    make=_kernel, grad=_grad, samples=[Sample(mat(2, 4), np.int32(1)), Sample(mat(3, 2), np.int32(0), reverse=True)],
)  # fmt: skip


def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """log(cumsum(exp(x))) along an axis, safe for large x; `exclusive` begins with -inf."""
    return _cumulative(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def log_sigmoid(x: Any, name: str | None = None) -> Tensor:
    """log(1 / (1 + exp(-x))), safe for large and small x."""
    x = convert_to_tensor(x, name="x")
    with x.graph.name_scope(name or "LogSigmoid"):
        return -raw.Softplus(-x)
