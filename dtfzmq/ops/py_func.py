"""Python functions as ops. A function cannot travel: it runs in the process that built the graph, or not at all."""

from __future__ import annotations

import itertools
import os
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.dtypes import DType
from dtfzmq.base.names import article
from dtfzmq.base.signals import deferral
from dtfzmq.graph.convert import as_array, convert_to_tensor
from dtfzmq.graph.graph import Operation, get_default_graph
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import none, unknown

_PROCESS = os.urandom(8).hex()  # tells this process from others, whose functions have the same numbers
_functions: dict[str, Callable[..., Any]] = {}  # by token; entries live as long as their graph
_numbers = itertools.count()
_guard = threading.Lock()


def _keep(fn: Callable[..., Any]) -> str:
    token = f"{_PROCESS}:{next(_numbers)}"
    with _guard:
        _functions[token] = fn
    weakref.finalize(get_default_graph(), _functions.pop, token, None)
    return token


def _result(value: Any, wanted: DType, label: str, index: int) -> Any:
    array = np.asarray(as_array(value), order="C")
    if array.dtype.kind in "SUO":
        array = convert_to_tensor_value(value, label)
    found = dtypes.of_array(array)
    if found is not wanted:
        raise errors.InvalidArgumentError(
            None, None, f"{index}-th value returned by {label} is {found.name}, but expects {wanted.name}"
        )
    return np.array(array) if array is value else array


def convert_to_tensor_value(value: Any, label: str) -> np.ndarray:
    """Text or bytes of any nesting as an array of bytes. Raises InvalidArgumentError for other objects."""
    array = np.array(value, dtype=object)
    flat = array.reshape(-1).tolist()
    for i, item in enumerate(flat):
        if isinstance(item, str):
            flat[i] = item.encode()
        elif isinstance(item, bytes):
            flat[i] = bytes(item)
        else:
            raise errors.InvalidArgumentError(
                None, None, f"{label} returned {article(type(item).__name__)}, which is no tensor's element"
            )
    out = np.empty(array.size, object)
    out[:] = flat
    return out.reshape(array.shape)


# What TensorFlow makes of a function's exceptions; all others become UnknownError.
_CLASSES: tuple[tuple[type[Exception], type[errors.OpError]], ...] = (
    (StopIteration, errors.OutOfRangeError),
    (MemoryError, errors.ResourceExhaustedError),
    (NotImplementedError, errors.UnimplementedError),
    (TypeError, errors.InvalidArgumentError),
    (ValueError, errors.InvalidArgumentError),
)


def _raised(error: Exception, label: str) -> errors.OpError:
    """A function's exception as the error of its step, with the function's own lines of the traceback."""
    kind = next((ours for theirs, ours in _CLASSES if isinstance(error, theirs)), errors.UnknownError)
    told = "".join(traceback.format_tb(error.__traceback__)[2:])  # without the lines that call it
    return kind(None, None, f"{type(error).__name__}: {error}, raised in py_func '{label}':\n{told}".rstrip(":\n"))


def _kernel(node: Any, env: Any) -> Callable[..., Any]:
    token, label, wanted = node.attrs["token"], node.attrs["function"], node.attrs["Tout"]
    fn = _functions.get(token)
    if fn is None:
        raise errors.InvalidArgumentError(
            None, None,
            f"py_func '{label}' cannot run on {env.device}: the function lives in the process that built the graph. "
            "Start a server there and pin the op to a device of it with tf.device.",
        )  # fmt: skip

    def call(*inputs: np.ndarray) -> Any:
        try:
            given = [np.array(x) if isinstance(x, np.ndarray) and x.ndim else x[()] for x in inputs]
            returned = deferral.heard(fn, *given)
        except errors.OpError:
            raise
        except Exception as error:
            raise _raised(error, label) from error
        values = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if not wanted:
            return None
        if len(values) != len(wanted):
            raise errors.InvalidArgumentError(
                None, None, f"{label} returns {len(values)} values, but expects to see {len(wanted)} values."
            )
        out = tuple(_result(v, w, label, i) for i, (v, w) in enumerate(zip(values, wanted)))
        return out if len(out) != 1 else out[0]

    return call


_SAMPLE = f"{_PROCESS}:sample"
_functions[_SAMPLE] = lambda x: x * 2
_py_func = op(
    "PyFunc", "input: any*; token: str, function: str, Tout: list(type) -> output: Tout*", shape=unknown, make=_kernel,
    stateful=True, holds=True, grad=NO_GRAD("a Python function has no derivative"),
    samples=[Sample([np.float64(1.5)], token=_SAMPLE, function="double", Tout=[dtypes.float64])],
)  # fmt: skip
_py_call = op(
    "PyCall", "input: any*; token: str, function: str, Tout: list(type) ->", shape=none, make=_kernel, stateful=True,
    holds=True, grad=NO_GRAD("gives no value"),
    samples=[Sample([np.float64(1.5)], token=_SAMPLE, function="double", Tout=[])],
)  # fmt: skip


def py_func(
    func: Any, inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """What `func` returns for the values of `inp`: a tensor for one type in Tout, a list for a list of types.

    `func` takes and returns numpy arrays; what it returns must be of the types in Tout. It runs on a thread of the
    runtime, in the process that built the graph: elsewhere the step fails with InvalidArgumentError. Its exceptions
    fail the step. The results have no static shape and no gradient. `stateful` is accepted; it is never left out.
    """
    if not callable(func):
        raise ValueError(f"Expected func to be callable. Received func={func} of type {type(func)}.")
    many = isinstance(Tout, (list, tuple))
    kinds = [dtypes.as_dtype(t) for t in (Tout if many else [Tout])]
    label = getattr(func, "__name__", type(func).__name__)
    made = (_py_func if kinds else _py_call)(
        [convert_to_tensor(x) for x in inp], token=_keep(func), function=label, Tout=kinds, name=name or "PyFunc"
    )
    if isinstance(made, Operation):
        return made
    return list(made) if many else made[0]


def numpy_function(
    func: Callable[..., Any] | None = None, inp: Sequence[Any] = (), Tout: Any = None, stateful: bool = True,
    name: str | None = None,
) -> Any:  # fmt: skip
    """py_func under its later name."""
    if func is None:
        raise ValueError("numpy_function needs a function.")
    return py_func(func, inp, Tout, stateful, name)
