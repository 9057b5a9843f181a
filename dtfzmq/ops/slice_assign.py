"""Assignment to a slice of a variable: ``v[1:3, 0].assign(value)``. Importing this module puts `assign` on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.strided import StridedSpec

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def _make(node: Any, env: Any) -> Any:
    spec = StridedSpec(node.attrs)

    def kernel(ref: Any, begin: Any, end: Any, strides: Any, value: Any) -> Any:
        def put(array: np.ndarray) -> None:
            index = spec.index(array.shape, begin, end, strides)
            part, given = array[index], np.shape(value)
            if given != () and given != np.shape(part):
                raise errors.InvalidArgumentError(
                    None, None, f"Assignment to slice of shape {list(np.shape(part))} of value of shape {list(given)}"
                )
            array[index] = value

        return ref.modify(put)

    return kernel


def _shape(n: Operation) -> list[TensorShape]:
    return [n.inputs[0].shape]


_assign = op(
    "StridedSliceAssign",
    f"ref: ref(T), begin: I, end: I, strides: I, value: T; {', '.join(f'{m}: int = 0' for m in _MASKS)} "
    "-> output_ref: ref(T)",
    shape=_shape, make=_make, stateful=True, grad=NO_GRAD("changes a variable"),
    samples=[
        Sample(mat(4, 5), ints(1, 0), ints(3, 5), ints(1, 2), mat(2, 3)),
        Sample(mat(4, 5), ints(-1), ints(0), ints(1), mat(5), shrink_axis_mask=1),
    ],
)  # fmt: skip


def _variable_of(sliced: Tensor) -> Tensor | None:
    """The variable's reference, if `sliced` is a slice of a variable."""
    if sliced.op.type != "StridedSlice":
        return None
    source = sliced.op.inputs[0]
    while source.op.type == "Identity" and not source.dtype.is_ref:
        source = source.op.inputs[0]
    return source if source.dtype.is_ref else None


def assign_to_slice(sliced: Tensor, value: Any, name: str | None = None) -> Tensor:
    """An op that writes `value` where `sliced` was read from; its output is a reference to the whole variable.

    Raises ValueError unless `sliced` was made by [] on a variable.
    """
    ref = _variable_of(sliced)
    if ref is None:
        raise ValueError("Sliced assignment is only supported for variables")
    masks = {m: sliced.op.attrs.get(m, 0) for m in _MASKS}
    made: Tensor = _assign(ref, *sliced.op.inputs[1:4], value, name=name or "strided_slice/Assign", **masks)
    return made


Tensor._override_operator("assign", assign_to_slice)

__all__ = ["assign_to_slice"]
