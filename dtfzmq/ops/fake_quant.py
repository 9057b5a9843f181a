"""Numbers rounded as a quantized model would have them, in floating point."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.node import Node
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat

Array = Any


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



def _steps_kernel(node: Any, env: Any) -> Any:
    """x to the nearest of the numbers that `num_bits` can tell apart in the range, 0 among them."""
    attrs = node.attrs
    bits, signed = attrs["num_bits"], attrs["signed_input"]
    low = (-(1 << (bits - 1)) + attrs["narrow_range"] if signed else 0) * 1.0
    high = ((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1) * 1.0
    nearest = np.rint if attrs["round_mode"] == "HALF_TO_EVEN" else lambda x: np.floor(x + x.dtype.type(0.5))

    def kernel(x: Array, least: Array, most: Array) -> Array:
        kind = x.dtype.type
        if not attrs["range_given"]:
            least, most = (x.min(), x.max()) if x.size else (kind(0), kind(0))
        if least > most:
            raise errors.InvalidArgumentError(None, None, f"Invalid range: input_min {least} > input_max {most}")
        by_low = low / least if low * least > 0 else np.inf
        by_high = high / most if high * most > 0 else np.inf
        step = kind(1 / min(by_low, by_high)) if min(by_low, by_high) < np.inf else kind(0)
        if not step:
            return np.zeros_like(x)
        return nearest(np.clip(x, kind(low) * step, kind(high) * step) / step) * step

    return kernel


op(
    "QuantizeAndDequantizeV2",
    "input: E, input_min: E, input_max: E; signed_input: bool = True, num_bits: int = 8, range_given: bool = False, "
    "round_mode: str = 'HALF_TO_EVEN', narrow_range: bool = False -> output: E",
    shape=same, make=_steps_kernel, grad=lambda n, g: (g, None, None),
    samples=[
        Sample(_X, _LOW[1], _HIGH[1], differentiable=False),
        Sample(_X, _LOW[0], _HIGH[0], num_bits=4, range_given=True, narrow_range=True, differentiable=False),
    ],
)  # fmt: skip


def quantize_and_dequantize(
    input: Any, input_min: Any, input_max: Any, signed_input: bool = True, num_bits: int = 8,
    range_given: bool = False, round_mode: str = "HALF_TO_EVEN", name: str | None = None, narrow_range: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers that are left of `input` after it was rounded to num_bits; gradients pass as if it was not.

    The range is [input_min, input_max] if range_given, else that of the input.
    """
    x = convert_to_tensor(input, name="input")
    low, high = (
        t if isinstance(t, Tensor) else convert_to_tensor(t, x.dtype.base_dtype) for t in (input_min, input_max)
    )
    return raw.QuantizeAndDequantizeV2(
        x, low, high, signed_input=signed_input, num_bits=num_bits, range_given=range_given, round_mode=round_mode,
        narrow_range=narrow_range, name=name,
    )  # fmt: skip


__all__ = [
    "fake_quant_with_min_max_args", "fake_quant_with_min_max_args_gradient", "fake_quant_with_min_max_vars",
    "fake_quant_with_min_max_vars_gradient", "fake_quant_with_min_max_vars_per_channel",
    "fake_quant_with_min_max_vars_per_channel_gradient", "quantize_and_dequantize",
]  # fmt: skip
