"""Ops that watch values while a step runs: Print, Assert, check_numerics."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import none, same
from dtfzmq.ops.samples import mat


def summary(value: Any, count: int) -> str:
    """The first `count` elements in brackets (all if negative), as TensorFlow shows values."""
    array = np.asarray(value)
    if array.ndim == 0:
        return _text(array.item())
    flat = array.reshape(-1)
    shown = flat if count < 0 else flat[:count]
    return " ".join(_text(v) for v in shown.tolist()) + ("..." if len(shown) < len(flat) else "")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print_kernel(node: Any, env: Any) -> Any:
    message, first_n, count = node.attrs["message"], node.attrs["first_n"], node.attrs["summarize"]
    calls = itertools.count()

    def show(x: Any, *data: Any) -> Any:
        if first_n < 0 or next(calls) < first_n:
            sys.stderr.write(message + "".join(f"[{summary(d, count)}]" for d in data) + "\n")
            sys.stderr.flush()
        return x

    return show


_print = op(
    "Print", "input: T, data: any*; message: str = '', first_n: int = -1, summarize: int = 3 -> output: T", shape=same,
    make=_print_kernel, stateful=True, grad=lambda n, g: (g, *[None] * (len(n.inputs) - 1)),
    samples=[Sample(mat(2, 3), [mat(4)], message="sample ", first_n=0)],
)  # fmt: skip


def _assert_kernel(node: Any, env: Any) -> Any:
    count = node.attrs["summarize"]

    def check(condition: Any, *data: Any) -> None:
        if not condition:
            text = "".join(f"[{summary(d, count)}]" + " " for d in data)
            raise errors.InvalidArgumentError(None, None, f"assertion failed: {text}".rstrip())

    return check


_assert = op(
    "Assert", "condition: bool, data: any*; summarize: int = 3 ->", shape=none, make=_assert_kernel, stateful=True,
    grad=NO_GRAD("no output"), samples=[Sample(np.bool_(True), [mat(2)])],
)  # fmt: skip


def _check_kernel(node: Any, env: Any) -> Any:
    message = node.attrs["message"]

    def check(x: Any) -> Any:
        found = [word for word, test in (("Inf", np.isinf), ("NaN", np.isnan)) if test(x).any()]
        if found:
            raise errors.InvalidArgumentError(None, None, f"{message} : Tensor had {' and '.join(found)} values")
        return x

    return check


_check_numerics = op(
    "CheckNumerics", "tensor: E; message: str -> output: E", shape=same, make=_check_kernel,
    grad=lambda n, g: (check_numerics(g, "Not a number (NaN) or infinity (Inf) values detected in gradient."),),
    samples=[
        Sample(mat(2), message="here"),
        Sample(np.array([1, np.nan]), message="here", fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def Print(
    input_: Any, data: Sequence[Any], message: str | None = None, first_n: int | None = None,
    summarize: int | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """`input_`; each time it is computed, message and data are written to the standard error of its task.

    At most `first_n` times, and `summarize` elements (3) of each tensor.
    """
    return _print(
        input_, [convert_to_tensor(d) for d in data], message=message or "", first_n=-1 if first_n is None else first_n,
        summarize=3 if summarize is None else summarize, name=name,
    )  # fmt: skip


def Assert(condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None) -> Operation:
    """An operation that fails its step with InvalidArgumentError and `data` in the text unless `condition` holds."""
    condition = convert_to_tensor(condition, dtype=dtypes.bool_ if isinstance(condition, bool) else None)
    return _assert(
        condition, [convert_to_tensor(d) for d in data], summarize=3 if summarize is None else summarize, name=name
    )


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """`tensor`; the step fails with InvalidArgumentError and `message` if an element is infinite or nan."""
    return _check_numerics(tensor, message=message, name=name)


def verify_tensor_all_finite(t: Any, msg: str, name: str | None = None) -> Tensor:
    """`check_numerics` under its other name."""
    return check_numerics(t, msg, name)


