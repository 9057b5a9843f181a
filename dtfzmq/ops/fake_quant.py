"""Numbers rounded as a quantized model would have them, in floating point."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Operation
from dtfzmq.graph.node import Node
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat


def nudged(low: Any, high: Any, num_bits: int, narrow: bool) -> tuple[Any, Any, Any]:
    """(lowest, highest, step) of the grid nearest to [low, high] that has zero on it."""
    first, last = (1 if narrow else 0), 2**num_bits - 1
    with np.errstate(all="ignore"):
        scale = np.asarray((high - low) / np.float32(last - first), np.float32)
        zero = first - low / scale
    point = np.where(zero < first, first, np.where(zero > last, last, np.floor(zero + 0.5)))
    return ((first - point) * scale).astype(np.float32), ((last - point) * scale).astype(np.float32), scale


def _quantized(x: Any, low: Any, high: Any, num_bits: int, narrow: bool) -> Any:
    floor, ceiling, scale = nudged(low, high, num_bits, narrow)
    with np.errstate(all="ignore"):
        steps = np.floor((np.clip(x, floor, ceiling) - floor) / scale + np.float32(0.5))
    return np.where((low == 0) & (high == 0), np.float32(0), steps * scale + floor).astype(np.float32)


def _checked(num_bits: int) -> int:
    if not 2 <= num_bits <= 16:
        raise errors.InvalidArgumentError(None, None, f"num_bits must be between 2 and 16, inclusive, not {num_bits}.")
    return num_bits


def _args_kernel(node: Node, env: Any) -> Any:
    low, high = np.float32(node.attrs["min"]), np.float32(node.attrs["max"])
    bits, narrow = _checked(node.attrs["num_bits"]), node.attrs["narrow_range"]
    return lambda x: _quantized(x, low, high, bits, narrow)


def _args_grad_kernel(node: Node, env: Any) -> Any:
    low, high = np.float32(node.attrs["min"]), np.float32(node.attrs["max"])
    floor, ceiling, _ = nudged(low, high, _checked(node.attrs["num_bits"]), node.attrs["narrow_range"])
    return lambda g, x: np.where((x >= floor) & (x <= ceiling), g, np.float32(0))


def _vars_kernel(node: Node, env: Any) -> Any:
    bits, narrow = _checked(node.attrs["num_bits"]), node.attrs["narrow_range"]
    return lambda x, low, high: _quantized(x, low, high, bits, narrow)


def _vars_grad_kernel(node: Node, env: Any) -> Any:
    bits, narrow = _checked(node.attrs["num_bits"]), node.attrs["narrow_range"]

    def backward(g: Any, x: Any, low: Any, high: Any) -> Any:
        floor, ceiling, _ = nudged(low, high, bits, narrow)
        axes = tuple(range(np.ndim(x) - np.ndim(low)))
        below, above = x < floor, x > ceiling
        zero = np.float32(0)
        inside = np.where(below | above, zero, g)
        return inside, np.where(below, g, zero).sum(axes), np.where(above, g, zero).sum(axes)

    return backward


_ARGS = "min: float = -6.0, max: float = 6.0, num_bits: int = 8, narrow_range: bool = False"
_VARS = "num_bits: int = 8, narrow_range: bool = False"


def _attrs(n: Operation, *names: str) -> dict[str, Any]:
    return {name: n.attrs[name] for name in names}


def _three(n: Operation) -> list[TensorShape]:
    return [n.inputs[1].shape, n.inputs[2].shape, n.inputs[3].shape]


_X = mat(3, 2, dtype="float32", lo=-8.0, hi=8.0)
_LOW, _HIGH = np.array([-1.0, -3.0], np.float32), np.array([2.0, 3.0], np.float32)

fake_quant_with_min_max_args = op(
    "FakeQuantWithMinMaxArgs", f"inputs: float32; {_ARGS} -> outputs: float32", shape=same, make=_args_kernel,
    grad=lambda n, g: (
        raw.FakeQuantWithMinMaxArgsGradient(g, n.inputs[0], **_attrs(n, "min", "max", "num_bits", "narrow_range")),
    ),
    samples=[Sample(_X, differentiable=False)],
)  # fmt: skip
fake_quant_with_min_max_args_gradient = op(
    "FakeQuantWithMinMaxArgsGradient", f"gradients: float32, inputs: float32; {_ARGS} -> backprops: float32",
    shape=same, make=_args_grad_kernel, grad=NO_GRAD("of a gradient"), samples=[Sample(_X, _X)],
)  # fmt: skip


def _declare(name: str, low: Any, high: Any) -> tuple[Any, Any]:
    builder = op(
        name, f"inputs: float32, min: float32, max: float32; {_VARS} -> outputs: float32", shape=same,
        make=_vars_kernel,
        grad=lambda n, g: getattr(raw, f"{name}Gradient")(g, *n.inputs, **_attrs(n, "num_bits", "narrow_range")),
        samples=[Sample(_X, low, high, differentiable=False)],
    )  # fmt: skip
    backward = op(
        f"{name}Gradient",
        f"gradients: float32, inputs: float32, min: float32, max: float32; {_VARS}"
        " -> backprops_wrt_input: float32, backprop_wrt_min: float32, backprop_wrt_max: float32",
        shape=_three, make=_vars_grad_kernel, grad=NO_GRAD("of a gradient"), samples=[Sample(_X, _X, low, high)],
    )  # fmt: skip
    return builder, backward


fake_quant_with_min_max_vars, fake_quant_with_min_max_vars_gradient = _declare(
    "FakeQuantWithMinMaxVars", _LOW[0], _HIGH[0]
)
fake_quant_with_min_max_vars_per_channel, fake_quant_with_min_max_vars_per_channel_gradient = _declare(
    "FakeQuantWithMinMaxVarsPerChannel", _LOW, _HIGH
)

__all__ = [
    "fake_quant_with_min_max_args", "fake_quant_with_min_max_args_gradient", "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_gradient", "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient",
]  # fmt: skip
