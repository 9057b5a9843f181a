"""Variables as ops: the variable itself, assignment, and updates of rows.

A variable op yields a reference: at run time the cell that holds the value. Whoever takes a reference updates the
value where it lives, atomically; `use_locking` is accepted and always in force.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import scalar
from dtfzmq.ops.samples import ints, mat

_UPDATE = NO_GRAD("changes a variable")


def _assigned_shape(node: Operation) -> list[TensorShape]:
    ref, value = node.inputs[0].shape, node.inputs[1].shape
    return [ref.merge_with(value) if node.attrs.get("validate_shape", True) else value]


def _assign_kernel(node: Any, env: Any) -> Callable[..., Any]:
    validate = node.attrs["validate_shape"]
    return lambda ref, value: ref.assign(value, validate)


_variable = op(
    "VariableV2", "; shape: shape, dtype: type, container: str = '', shared_name: str = '' -> ref: ref(dtype)",
    shape=lambda n: [as_shape(n.attrs["shape"])], make=lambda node, env: env.resource(node), stateful=True,
    grad=NO_GRAD("has no input"), samples=[Sample(shape=TensorShape([2, 3]), dtype=dtypes.float32)],
)  # fmt: skip
_assign = op(
    "Assign", "ref: ref(T), value: T; validate_shape: bool = True, use_locking: bool = True -> output_ref: ref(T)",
    shape=_assigned_shape, make=_assign_kernel, stateful=True, grad=_UPDATE, samples=[Sample(mat(2, 3), mat(2, 3))],
)  # fmt: skip
_assign_add = op(
    "AssignAdd", "ref: ref(N), value: N; use_locking: bool = False -> output_ref: ref(N)", shape=_assigned_shape,
    kernel=lambda ref, value: ref.update(np.add, value), stateful=True, grad=_UPDATE,
    samples=[Sample(mat(2, 3), mat(2, 3)), Sample(ints(1, 2), ints(3, 4))],
)  # fmt: skip
_assign_sub = op(
    "AssignSub", "ref: ref(N), value: N; use_locking: bool = False -> output_ref: ref(N)", shape=_assigned_shape,
    kernel=lambda ref, value: ref.update(np.subtract, value), stateful=True, grad=_UPDATE,
    samples=[Sample(mat(2, 3), mat(2, 3)), Sample(ints(1, 2), ints(3, 4))],
)  # fmt: skip
_is_variable_initialized = op(
    "IsVariableInitialized", "ref: ref(T) -> is_initialized: bool", shape=scalar,
    kernel=lambda ref: np.bool_(ref.is_initialized()), stateful=True, grad=NO_GRAD("boolean result"),
    samples=[Sample(mat(2, 3))],
)  # fmt: skip
_initialized_value = op(
    "InitializedValue", "ref: ref(T), initial: T -> value: T", shape=lambda n: [n.inputs[1].shape],
    kernel=lambda ref, initial: ref.read() if ref.is_initialized() else initial, stateful=True,
    grad=NO_GRAD("a first value is not trained"), samples=[Sample(mat(2, 3), mat(2, 3))],
)  # fmt: skip


def _count_up_to_kernel(node: Any, env: Any) -> Callable[..., Any]:
    limit = node.attrs["limit"]

    def count(ref: Any) -> Any:
        before: list[Any] = []

        def step(value: Any) -> Any:
            if value >= limit:
                raise errors.OutOfRangeError(None, None, f"Reached limit of {limit}")
            before.append(value)
            return value + type(value)(1)

        ref.update(step)
        return before[0]

    return count


_count_up_to = op(
    "CountUpTo", "ref: ref(I); limit: int -> output: I", shape=scalar, make=_count_up_to_kernel, stateful=True,
    grad=_UPDATE, samples=[Sample(np.int32(1), limit=3)],
)  # fmt: skip


def _scatter_shape(node: Operation) -> list[TensorShape]:
    ref, indices, updates = (t.shape for t in node.inputs)
    if ref.ndims is not None and ref.ndims < 1:
        raise ValueError(f"Shape must be at least rank 1 but is rank {ref.ndims}")
    if ref.ndims is not None and indices.ndims is not None and updates.ndims != 0:
        indices.concatenate(ref[1:]).assert_is_compatible_with(updates)
    return [ref]


def _scatter(change: Callable[[np.ndarray, np.ndarray, np.ndarray], None], ref: Any, indices: Any, updates: Any) -> Any:
    def run(array: np.ndarray) -> None:
        rows = np.asarray(indices)
        check_rows(rows, array.shape[0] if array.ndim else 0)
        if np.ndim(updates) and np.shape(updates) != rows.shape + array.shape[1:]:
            raise errors.InvalidArgumentError(
                None,
                None,
                "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape "
                f"{list(np.shape(updates))}, indices.shape {list(rows.shape)}, params.shape {list(array.shape)}",
            )
        change(array, rows, updates)

    return ref.modify(run)


def check_rows(rows: np.ndarray, count: int) -> None:
    """Raise InvalidArgumentError, naming the first bad one, unless all indices are in [0, count)."""
    if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= count):
        bad = np.argwhere((rows < 0) | (rows >= count))[0]
        place = ",".join(str(int(i)) for i in bad)
        raise errors.InvalidArgumentError(
            None, None, f"indices[{place}] = {int(rows[tuple(bad)])} is not in [0, {count})"
        )


def _put(array: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> None:
    array[rows] = updates


def _at(ufunc: np.ufunc) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    def change(array: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> None:
        ufunc.at(array, rows, updates)

    return change


def _declare_scatter(name: str, kind: str, change: Callable[[np.ndarray, np.ndarray, np.ndarray], None]) -> Any:
    return op(
        name,
        f"ref: ref({kind}), indices: I, updates: {kind}; use_locking: bool = True -> output_ref: ref({kind})",
        shape=_scatter_shape,
        kernel=lambda ref, indices, updates: _scatter(change, ref, indices, updates),
        stateful=True,
        grad=_UPDATE,
        samples=[Sample(mat(3, 2), ints(0, 2), mat(2, 2)), Sample(mat(3), np.int64(1), mat())],
    )


_scatter_update = _declare_scatter("ScatterUpdate", "T", _put)
_scatter_add = _declare_scatter("ScatterAdd", "N", _at(np.add))
_scatter_sub = _declare_scatter("ScatterSub", "N", _at(np.subtract))
_scatter_mul = _declare_scatter("ScatterMul", "N", _at(np.multiply))
_scatter_div = _declare_scatter("ScatterDiv", "F", _at(np.true_divide))
_scatter_min = _declare_scatter("ScatterMin", "R", _at(np.minimum))
_scatter_max = _declare_scatter("ScatterMax", "R", _at(np.maximum))


def variable(
    shape: Any, dtype: Any, name: str | None = None, container: str = "", shared_name: str = ""
) -> Tensor:
    """A bare variable: the reference, with no value. The value lives under `shared_name`, or the op's name."""
    made: Tensor = _variable(
        shape=as_shape(shape),
        dtype=dtypes.as_dtype(dtype).base_dtype,
        container=container,
        shared_name=shared_name,
        name=name or "Variable",
    )
    return made


def _checked_ref(ref: Any, what: str) -> Any:
    element = ref._ref() if hasattr(ref, "_ref") else ref
    if not isinstance(element, Tensor) or not element.dtype.is_ref:
        raise TypeError(f"{what} needs a variable (a mutable tensor), not {ref!r}.")
    return element


def assign(
    ref: Any, value: Any, validate_shape: bool | None = True, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Replace the value of `ref`. The result is the reference, readable after the assignment.

    With `validate_shape` the stored shape stays; without, the variable takes the shape of `value`.
    """
    made: Tensor = _assign(
        _checked_ref(ref, "assign"), value, validate_shape is not False, use_locking, name=name or "Assign"
    )
    return made


def assign_add(ref: Any, value: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """Add `value`, of the variable's shape, to `ref`."""
    made: Tensor = _assign_add(_checked_ref(ref, "assign_add"), value, use_locking, name=name or "AssignAdd")
    return made


def assign_sub(ref: Any, value: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """Subtract `value`, of the variable's shape, from `ref`."""
    made: Tensor = _assign_sub(_checked_ref(ref, "assign_sub"), value, use_locking, name=name or "AssignSub")
    return made


def is_variable_initialized(ref: Any, name: str | None = None) -> Tensor:
    """A bool scalar: does the variable have a value?"""
    made: Tensor = _is_variable_initialized(
        _checked_ref(ref, "is_variable_initialized"), name=name or "IsVariableInitialized"
    )
    return made


def initialized_value(ref: Any, initial: Any, name: str | None = None) -> Tensor:
    """The value of `ref`, or `initial` if it has none."""
    made: Tensor = _initialized_value(_checked_ref(ref, "initialized_value"), initial, name=name)
    return made


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """The value before adding one; OutOfRangeError once it is `limit`."""
    made: Tensor = _count_up_to(_checked_ref(ref, "count_up_to"), limit, name=name)
    return made


def _scatter_function(builder: Callable[..., Any], what: str, doc: str) -> Callable[..., Tensor]:
    def scatter(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Tensor:
        made: Tensor = builder(_checked_ref(ref, what), indices, updates, use_locking, name=name)
        return made

    scatter.__name__ = scatter.__qualname__ = what
    scatter.__doc__ = doc
    return scatter


scatter_update = _scatter_function(_scatter_update, "scatter_update", "Replace the rows `indices` by `updates`.")
scatter_add = _scatter_function(_scatter_add, "scatter_add", "Add `updates` to the rows `indices`; repeats add up.")
scatter_sub = _scatter_function(_scatter_sub, "scatter_sub", "Subtract `updates` from the rows `indices`.")
scatter_mul = _scatter_function(_scatter_mul, "scatter_mul", "Multiply the rows `indices` by `updates`.")
scatter_div = _scatter_function(_scatter_div, "scatter_div", "Divide the rows `indices` by `updates`.")
scatter_min = _scatter_function(_scatter_min, "scatter_min", "Lower the rows `indices` to `updates`.")
scatter_max = _scatter_function(_scatter_max, "scatter_max", "Raise the rows `indices` to `updates`.")
