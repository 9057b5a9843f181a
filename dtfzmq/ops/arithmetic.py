"""The ops of arithmetic, comparison and logic of two tensors, with broadcasting, and sums of many."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import broadcast
from dtfzmq.ops.broadcasting import unbroadcast
from dtfzmq.ops.elementwise import log, square
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import bits, ints, mat, pos

_PAIRS = [
    Sample(mat(2, 3), mat(2, 3, seed=1)),
    Sample(mat(2, 1, 3), mat(4, 1, seed=1)),
    Sample(mat(3), mat(2, 3, seed=2)),
    Sample(mat(), mat(2, seed=2)),
]
_NONZERO = [Sample(mat(2, 3), pos(2, 3, seed=1)), Sample(mat(2, 1, 3), pos(4, 1, seed=1)), Sample(mat(), pos(2))]
_POWERS = [Sample(pos(2, 3), mat(2, 3, seed=1)), Sample(pos(2, 1), mat(3, seed=1))]
_INTS = [Sample(ints(7, -7, 7, -7), ints(3, 3, -3, -3)), Sample(ints(5), np.int32(2))]
_BITS = [Sample(bits(2, 3), bits(3, seed=1))]
_BOOLEAN = NO_GRAD("boolean result")
_INTEGER = NO_GRAD("integer result")


def _add_kernel(node: Any, env: Any) -> Any:
    if node.dtypes[0].base_dtype is dtypes.string:
        return lambda x, y, out=None: np.array(np.add(x, y), object)
    return np.add


def _int_guard(fn: Any) -> Any:
    """Integers: a zero divisor is an error, as in TensorFlow. Floats: fn alone."""

    def guarded(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if not np.all(y) and np.size(x):
            raise errors.InvalidArgumentError(None, None, "Integer division by zero")
        return fn(x, y, out=out)

    return lambda node, env: guarded if node.dtypes[0].is_integer else fn


def _truncate_div(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    quotient = np.floor_divide(x, y, out=out)
    return np.add(quotient, (quotient < 0) & (quotient * y != x), out=out, dtype=x.dtype)


def _truncate_div_kernel(node: Any, env: Any) -> Any:
    if node.dtypes[0].is_unsigned:
        return _int_guard(np.floor_divide)(node, env)
    if node.dtypes[0].is_integer:
        return _int_guard(_truncate_div)(node, env)
    return lambda x, y, out=None: np.trunc(np.divide(x, y, out=out), out=out)


def _floor_div_kernel(node: Any, env: Any) -> Any:
    if node.dtypes[0].is_integer:
        return _int_guard(np.floor_divide)(node, env)
    return lambda x, y, out=None: np.floor(np.divide(x, y, out=out), out=out)  # floor_divide is nan for inf / 1


def _floor_mod(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    return np.remainder(x, y, out=out)


def _pow_kernel(node: Any, env: Any) -> Any:
    if not node.dtypes[0].is_integer:
        return np.power

    def power(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if np.any(np.less(y, 0)):
            raise errors.InvalidArgumentError(None, None, "Integers to negative integer powers are not allowed")
        return np.power(x, y, out=out)

    return power


def _div_no_nan(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    zero = np.equal(y, 0)
    return np.where(zero, y.dtype.type(0), np.divide(x, np.where(zero, y.dtype.type(1), y)))


def _squared_difference(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    away = np.subtract(x, y, out=out)
    return np.multiply(away.conj(), away, out=out) if away.dtype.kind == "c" else np.square(away, out=out)


def _both(n: Any, gx: Tensor, gy: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    return unbroadcast(gx, x, y), unbroadcast(gy, y, x)


def _mul_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    return _both(n, g * y, g * x)


def _div_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    over = g / y
    return _both(n, over, -over * n.outputs[0])


def _div_no_nan_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    over = raw.DivNoNan(g, y)
    return _both(n, over, -over * n.outputs[0])


def _pow_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    z = n.outputs[0]
    usable = raw.Greater(x, 0) if not x.dtype.is_complex else raw.NotEqual(x, 0)
    ones, zeros = raw.OnesLike(x), raw.ZerosLike(x)
    log_x = raw.Select(usable, log(raw.Select(usable, x, ones)), zeros)
    return _both(n, g * y * raw.Pow(x, y - 1), g * z * log_x)


def _mod_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    return _both(n, g, -g * raw.FloorDiv(x, y))


def _truncate_mod_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    return _both(n, g, -g * raw.TruncateDiv(x, y))


def _squared_difference_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = n.inputs
    gx = g * ((x - y) * 2)
    return _both(n, gx, -gx)


def _choose(compare: str) -> Any:
    """Gradient of Maximum and Minimum: to x where `compare`(x, y), else to y."""

    def grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, y = n.inputs
        taken = getattr(raw, compare)(x, y)
        zeros = raw.ZerosLike(g)
        return _both(n, raw.Select(taken, g, zeros), raw.Select(taken, zeros, g))

    return grad


def _atan2_grad(n: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    y, x = n.inputs
    over = g / (square(x) + square(y))
    return _both(n, x * over, -y * over)


_add = op(
    "Add", "x: T, y: T -> z: T", shape=broadcast, make=_add_kernel, out=True, inplace=(0, 1),
    grad=lambda n, g: _both(n, g, g), samples=_PAIRS,
)  # fmt: skip
_sub = op(
    "Sub", "x: N, y: N -> z: N", shape=broadcast, kernel=np.subtract, out=True, inplace=(0, 1),
    grad=lambda n, g: _both(n, g, -g), samples=_PAIRS,
)  # fmt: skip
_mul = op(
    "Mul",
    "x: N, y: N -> z: N",
    shape=broadcast,
    kernel=np.multiply,
    out=True,
    inplace=(0, 1),
    grad=_mul_grad,
    samples=_PAIRS,
)
_real_div = op(
    "RealDiv",
    "x: F, y: F -> z: F",
    shape=broadcast,
    kernel=np.divide,
    out=True,
    inplace=(0, 1),
    grad=_div_grad,
    samples=_NONZERO,
)
_div_no_nan_op = op(
    "DivNoNan", "x: F, y: F -> z: F", shape=broadcast, kernel=_div_no_nan, grad=_div_no_nan_grad, samples=_NONZERO
)
_floor_div = op(
    "FloorDiv", "x: R, y: R -> z: R", shape=broadcast, make=_floor_div_kernel, out=True, inplace=(0, 1),
    grad=NO_GRAD("piecewise constant"), samples=[*_INTS, *_NONZERO],
)  # fmt: skip
_floor_mod_op = op(
    "FloorMod", "x: R, y: R -> z: R", shape=broadcast, make=_int_guard(_floor_mod), out=True, inplace=(0, 1),
    grad=_mod_grad, samples=[*_INTS, *_NONZERO],
)  # fmt: skip
_truncate_div_op = op(
    "TruncateDiv", "x: R, y: R -> z: R", shape=broadcast, make=_truncate_div_kernel, out=True,
    grad=NO_GRAD("piecewise constant"), samples=_INTS,
)  # fmt: skip
_truncate_mod = op(
    "TruncateMod", "x: R, y: R -> z: R", shape=broadcast, make=_int_guard(np.fmod), out=True, inplace=(0, 1),
    grad=_truncate_mod_grad, samples=[*_INTS, *_NONZERO],
)  # fmt: skip
_pow = op(
    "Pow",
    "x: N, y: N -> z: N",
    shape=broadcast,
    make=_pow_kernel,
    out=True,
    inplace=(0, 1),
    grad=_pow_grad,
    samples=_POWERS,
)
_maximum = op(
    "Maximum", "x: R, y: R -> z: R", shape=broadcast, kernel=np.maximum, out=True, inplace=(0, 1),
    grad=_choose("GreaterEqual"), samples=_PAIRS,
)  # fmt: skip
_minimum = op(
    "Minimum", "x: R, y: R -> z: R", shape=broadcast, kernel=np.minimum, out=True, inplace=(0, 1),
    grad=_choose("LessEqual"), samples=_PAIRS,
)  # fmt: skip
_squared_difference_op = op(
    "SquaredDifference", "x: N, y: N -> z: N", shape=broadcast, kernel=_squared_difference, out=True, inplace=(0, 1),
    grad=_squared_difference_grad, samples=_PAIRS,
)  # fmt: skip
_atan2 = op(
    "Atan2",
    "y: E, x: E -> z: E",
    shape=broadcast,
    kernel=np.arctan2,
    out=True,
    inplace=(0, 1),
    grad=_atan2_grad,
    samples=_PAIRS,
)
_equal = op(
    "Equal",
    "x: T, y: T -> z: bool",
    shape=broadcast,
    kernel=np.equal,
    out=True,
    inplace=(0, 1),
    grad=_BOOLEAN,
    samples=_PAIRS,
)
_not_equal = op(
    "NotEqual",
    "x: T, y: T -> z: bool",
    shape=broadcast,
    kernel=np.not_equal,
    out=True,
    inplace=(0, 1),
    grad=_BOOLEAN,
    samples=_PAIRS,
)
_less = op(
    "Less",
    "x: R, y: R -> z: bool",
    shape=broadcast,
    kernel=np.less,
    out=True,
    inplace=(0, 1),
    grad=_BOOLEAN,
    samples=_PAIRS,
)
_less_equal = op(
    "LessEqual", "x: R, y: R -> z: bool", shape=broadcast, kernel=np.less_equal, out=True, inplace=(0, 1),
    grad=_BOOLEAN, samples=_PAIRS,
)  # fmt: skip
_greater = op(
    "Greater",
    "x: R, y: R -> z: bool",
    shape=broadcast,
    kernel=np.greater,
    out=True,
    inplace=(0, 1),
    grad=_BOOLEAN,
    samples=_PAIRS,
)
_greater_equal = op(
    "GreaterEqual", "x: R, y: R -> z: bool", shape=broadcast, kernel=np.greater_equal, out=True, inplace=(0, 1),
    grad=_BOOLEAN, samples=_PAIRS,
)  # fmt: skip
_logical_and = op(
    "LogicalAnd", "x: bool, y: bool -> z: bool", shape=broadcast, kernel=np.logical_and, out=True, inplace=(0, 1),
    grad=_BOOLEAN, samples=_BITS,
)  # fmt: skip
_logical_or = op(
    "LogicalOr", "x: bool, y: bool -> z: bool", shape=broadcast, kernel=np.logical_or, out=True, inplace=(0, 1),
    grad=_BOOLEAN, samples=_BITS,
)  # fmt: skip
_bitwise_and = op(
    "BitwiseAnd",
    "x: Z, y: Z -> z: Z",
    shape=broadcast,
    kernel=np.bitwise_and,
    out=True,
    inplace=(0, 1),
    grad=_INTEGER,
    samples=_INTS,
)
_bitwise_or = op(
    "BitwiseOr",
    "x: Z, y: Z -> z: Z",
    shape=broadcast,
    kernel=np.bitwise_or,
    out=True,
    inplace=(0, 1),
    grad=_INTEGER,
    samples=_INTS,
)
_bitwise_xor = op(
    "BitwiseXor",
    "x: Z, y: Z -> z: Z",
    shape=broadcast,
    kernel=np.bitwise_xor,
    out=True,
    inplace=(0, 1),
    grad=_INTEGER,
    samples=_INTS,
)


def _add_n_shape(n: Any) -> list[TensorShape]:
    shape = n.inputs[0].shape
    for t in n.inputs[1:]:
        shape = shape.merge_with(t.shape)
    return [shape]


def _add_n_kernel(*inputs: np.ndarray) -> np.ndarray:
    if len(inputs) == 1:
        return inputs[0]
    total = inputs[0] + inputs[1]
    for x in inputs[2:]:
        total += x
    return total


_add_n = op(
    "AddN", "inputs: N* -> sum: N", shape=_add_n_shape, kernel=_add_n_kernel,
    grad=lambda n, g: (g,) * len(n.inputs), samples=[Sample([mat(2, 3), mat(2, 3, seed=1), mat(2, 3, seed=2)])],
)  # fmt: skip
