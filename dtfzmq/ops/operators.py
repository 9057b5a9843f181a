"""Tensor's operators: + - * / // % ** @ & | ^ ~ < <= > >=. Importing this module puts them on."""

from __future__ import annotations

from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.graph import Tensor
from dtfzmq.ops import elementwise
from dtfzmq.ops.math import div, logical_xor, pair, truediv
from dtfzmq.ops.matmul import matmul
from dtfzmq.ops.raw import raw


def _binary(fn: Any, name: str) -> tuple[Any, Any]:
    def left(x: Tensor, y: Any) -> Any:
        return fn(x, y, name=name)

    def right(x: Tensor, y: Any) -> Any:
        return fn(y, x, name=name)

    return left, right


def _logic(on_bool: Any, on_int: Any) -> Any:
    def fn(x: Any, y: Any, name: str | None = None) -> Tensor:
        x, y = pair(x, y)
        return (on_bool if x.dtype.base_dtype is dtypes.bool_ else on_int)(x, y, name=name)

    return fn


def _install_operators() -> None:
    """Give Tensor its arithmetic, comparison and logic operators (== and != stay identity, as in TensorFlow 1)."""
    pairs = {
        "add": (raw.Add, "add"),
        "sub": (raw.Sub, "sub"),
        "mul": (raw.Mul, "mul"),
        "truediv": (truediv, "truediv"),
        "div": (div, "div"),
        "floordiv": (raw.FloorDiv, "floordiv"),
        "mod": (raw.FloorMod, "mod"),
        "pow": (raw.Pow, "pow"),
        "matmul": (matmul, "matmul"),
        "and": (_logic(raw.LogicalAnd, raw.BitwiseAnd), "and"),
        "or": (_logic(raw.LogicalOr, raw.BitwiseOr), "or"),
        "xor": (_logic(logical_xor, raw.BitwiseXor), "xor"),
    }
    for name, (fn, shown) in pairs.items():
        left, right = _binary(fn, shown)
        Tensor._override_operator(f"__{name}__", left)
        Tensor._override_operator(f"__r{name}__", right)
    for name, fn in {"lt": raw.Less, "le": raw.LessEqual, "gt": raw.Greater, "ge": raw.GreaterEqual}.items():
        Tensor._override_operator(f"__{name}__", lambda x, y, fn=fn: fn(x, y))
    Tensor._override_operator("__neg__", lambda x: raw.Neg(x))
    Tensor._override_operator("__abs__", lambda x: elementwise.abs(x))
    Tensor._override_operator("__invert__", _invert)


def _invert(x: Tensor) -> Tensor:
    return raw.LogicalNot(x) if x.dtype.base_dtype is dtypes.bool_ else raw.Invert(x)


_install_operators()
