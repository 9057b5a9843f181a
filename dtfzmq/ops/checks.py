"""Checks that fail a step, or the building of the graph where the answer is known already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.dtypes import DType
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Graph, Operation, Tensor, get_default_graph
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import none, same
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.grouping import group
from dtfzmq.ops.printing import summary
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat


def _assert_kernel(node: Any, env: Any) -> Any:
    limit = node.attrs["summarize"]

    def check(condition: np.ndarray, *data: np.ndarray) -> None:
        if not np.all(condition):
            text = " ".join(f"[{summary(np.asarray(x), limit)}]" for x in data)
            raise errors.InvalidArgumentError(None, None, f"assertion failed: {text}")

    return check


_assert = op(
    "Assert", "condition: bool, data: any*; summarize: int = 3 ->", shape=none, make=_assert_kernel, stateful=True,
    grad=NO_GRAD("gives no value"), samples=[Sample(np.bool_(True), [mat(2)])],
)  # fmt: skip


def _numerics_kernel(node: Any, env: Any) -> Any:
    message = node.attrs["message"]

    def check(x: np.ndarray) -> np.ndarray:
        if not np.all(np.isfinite(x)):
            found = [what for what, test in (("Inf", np.isinf), ("NaN", np.isnan)) if np.any(test(x))]
            raise errors.InvalidArgumentError(None, None, f"{message} : Tensor had {' and '.join(found)} values")
        return x

    return check


_check_numerics = op(
    "CheckNumerics", "tensor: F; message: str = '' -> output: F", shape=same, make=_numerics_kernel,
    grad=lambda n, g: (raw.CheckNumerics(g, message=_IN_GRADIENT + n.attrs["message"]),),
    samples=[
        Sample(mat(2, 3), message="m"),
        Sample(np.array([1.0, np.nan]), message="m", fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip
_IN_GRADIENT = "Not a number (NaN) or infinity (Inf) values detected in gradient. "


def Assert(condition: Any, data: Any, summarize: int | None = None, name: str | None = None) -> Operation:
    """Fail the step with InvalidArgumentError and the values of `data` unless the condition holds.

    Run the op, or let others wait for it by control_dependencies. Up to `summarize` (3) elements are shown of each.
    """
    return _assert(condition, list(data), summarize=3 if summarize is None else summarize, name=name or "Assert")


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """`tensor`, unless something in it is nan or infinite: then the step fails with InvalidArgumentError."""
    return _check_numerics(tensor, message=message, name=name)


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """`t`, unless something in it is nan or infinite. `x` and `message` are the new names of the arguments."""
    tensor = convert_to_tensor(x if t is None else t, name="x")
    text = msg if message is None else message
    with tensor.graph.name_scope(name or "VerifyFinite"):
        return raw.Identity(_check_numerics(tensor, message=text or ""))


assert_all_finite = verify_tensor_all_finite


def add_check_numerics_ops() -> Operation:
    """An op that checks every floating tensor of the graph, in order; the first bad one fails, with its name.

    Raises ValueError if the graph has loops or branches, whose insides it could not see.
    """
    graph: Graph = get_default_graph()
    last: list[Any] = []
    for node in list(graph.get_operations()):
        if node.type in ("If", "While"):
            raise ValueError(
                "`tf.add_check_numerics_ops() is not compatible with TensorFlow control flow operations such as "
                f"`tf.cond()` or `tf.while_loop()`; found {node.name}."
            )
        for i, output in enumerate(node.outputs):
            if output.dtype.base_dtype in (dtypes.float16, dtypes.float32, dtypes.float64):
                with graph.control_dependencies(last):
                    last = [_check_numerics(output, message=f"{node.name}:{i}")]
    return group(*last)


def _static_failure(data: Sequence[Any]) -> errors.InvalidArgumentError:
    texts = []
    for item in data:
        value = constant_value(item) if isinstance(item, Tensor) else None
        texts.append(str(item if value is None else value))
    return errors.InvalidArgumentError(None, None, "\n".join(texts))


def _name(x: Tensor) -> str:
    return x.name


def _compare(sign: str, build: Callable[[Tensor, Tensor], Tensor], static: Callable[[Any, Any], Any], doc: str) -> Any:
    def check(
        x: Any, y: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
        name: str | None = None,
    ) -> Operation:  # fmt: skip
        x, y = _pair(x, y)
        with x.graph.name_scope(name or check.__name__):
            shown = data
            if shown is None:
                condition = f"Condition x {sign} y did not hold element-wise:"
                shown = [condition, f"x ({_name(x)}) = ", x, f"y ({_name(y)}) = ", y]
            if message:
                shown = [message, *shown]
            known = constant_value(x), constant_value(y)
            if known[0] is not None and known[1] is not None and not np.all(static(*known)):
                raise _static_failure(shown if data is not None else [message or "", *shown[-5:]])
            return Assert(_all(build(x, y)), shown, summarize)

    check.__name__ = check.__qualname__ = doc.split()[0]
    check.__doc__ = (
        f"Fail the step (now, if both are constants) with InvalidArgumentError unless x {sign} y everywhere."
    )
    return check


def _pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    if isinstance(y, Tensor) and not isinstance(x, Tensor):
        y = convert_to_tensor(y, name="y")
        return convert_to_tensor(x, dtype=y.dtype.base_dtype, name="x"), y
    x = convert_to_tensor(x, name="x")
    return x, convert_to_tensor(y, dtype=None if isinstance(y, Tensor) else x.dtype.base_dtype, name="y")


def _all(condition: Tensor) -> Tensor:
    known = dims(condition)
    axes = raw.Range(0, raw.Rank(condition), 1) if known is None else np.arange(len(known), dtype=np.int32)
    return raw.All(condition, axes)


assert_equal = _compare("==", lambda x, y: raw.Equal(x, y), np.equal, "assert_equal")
assert_none_equal = _compare("!=", lambda x, y: raw.NotEqual(x, y), np.not_equal, "assert_none_equal")
assert_less = _compare("<", lambda x, y: raw.Less(x, y), np.less, "assert_less")
assert_less_equal = _compare("<=", lambda x, y: raw.LessEqual(x, y), np.less_equal, "assert_less_equal")
assert_greater = _compare(">", lambda x, y: raw.Greater(x, y), np.greater, "assert_greater")
assert_greater_equal = _compare(">=", lambda x, y: raw.GreaterEqual(x, y), np.greater_equal, "assert_greater_equal")


def _against_zero(sign: str, build: Callable[[Tensor, Tensor], Tensor], static: Any, doc: str) -> Any:
    def check(
        x: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
    ) -> Operation:
        x = convert_to_tensor(x, name="x")
        with x.graph.name_scope(name or check.__name__):
            shown = data
            if shown is None:
                shown = [message or "", f"Condition x {sign} 0 did not hold element-wise:", f"x ({_name(x)}) = ", x]
            known = constant_value(x)
            if known is not None and not np.all(static(known, 0)):
                raise _static_failure(shown)
            return Assert(_all(build(x, raw.ZerosLike(x))), shown, summarize)

    check.__name__ = check.__qualname__ = doc
    check.__doc__ = (
        f"Fail the step (now, if x is a constant) with InvalidArgumentError unless x {sign} 0 everywhere."
    )
    return check


assert_negative = _against_zero("<", lambda x, y: raw.Less(x, y), np.less, "assert_negative")
assert_positive = _against_zero(">", lambda x, y: raw.Greater(x, y), np.greater, "assert_positive")
assert_non_negative = _against_zero(
    ">=", lambda x, y: raw.GreaterEqual(x, y), np.greater_equal, "assert_non_negative"
)
assert_non_positive = _against_zero("<=", lambda x, y: raw.LessEqual(x, y), np.less_equal, "assert_non_positive")


def assert_near(
    x: Any, y: Any, rtol: Any = None, atol: Any = None, data: Any = None, summarize: int | None = None,
    message: str | None = None, name: str | None = None,
) -> Operation:  # fmt: skip
    """Fail the step unless |x - y| <= atol + rtol |y| everywhere; both tolerances are 10 epsilons of the type."""
    x, y = _pair(x, y)
    with x.graph.name_scope(name or "assert_near"):
        real_type = x.dtype.base_dtype.real_dtype
        eps = 10 * float(np.finfo(real_type.np_dtype).eps)
        rtol = convert_to_tensor(eps if rtol is None else rtol, dtype=real_type, name="rtol")
        atol = convert_to_tensor(eps if atol is None else atol, dtype=real_type, name="atol")
        size = (lambda t: raw.ComplexAbs(t, Tout=real_type)) if x.dtype.is_complex else raw.Abs
        shown = data
        if shown is None:
            what = f"x and y not equal to tolerance rtol = {rtol}, atol = {atol}"
            shown = [message or "", what, f"x ({_name(x)}) = ", x, f"y ({_name(y)}) = ", y]
        return Assert(_all(raw.LessEqual(size(x - y), atol + rtol * size(y))), shown, summarize)


def _increasing(build: Any, name: str) -> Any:
    def check(x: Any, name: str | None = None) -> Tensor:
        x = convert_to_tensor(x, name="x")
        with x.graph.name_scope(name or check.__name__):
            flat = raw.Reshape(x, ints(-1))
            count = raw.Maximum(raw.Size(flat) - 1, 0)
            whole = raw.ExpandDims(raw.Minimum(count, raw.Size(flat)), 0)
            before = raw.Slice(flat, ints(0), whole)
            after = raw.Slice(flat, raw.Minimum(ints(1), raw.ExpandDims(raw.Size(flat), 0)), whole)
            return _all(build(before, after))

    check.__name__ = check.__qualname__ = name
    return check


is_non_decreasing = _increasing(lambda a, b: raw.LessEqual(a, b), "is_non_decreasing")
is_non_decreasing.__doc__ = "Whether each element, row by row, is at least the one before."
is_strictly_increasing = _increasing(lambda a, b: raw.Less(a, b), "is_strictly_increasing")
is_strictly_increasing.__doc__ = "Whether each element, row by row, is more than the one before."


def is_numeric_tensor(tensor: Any) -> bool:
    """True for a Tensor of numbers."""
    if not isinstance(tensor, Tensor):
        return False
    kind: DType = tensor.dtype.base_dtype
    return kind.is_floating or kind.is_integer or kind.is_complex
