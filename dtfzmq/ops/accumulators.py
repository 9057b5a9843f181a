"""Conditional accumulators: gradients of many workers become one mean, those of an old step are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor, get_default_graph
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.ops import queue_ops
from dtfzmq.ops.cast import cast


def _step(value: Any) -> Tensor:
    if isinstance(value, int):
        return convert_to_tensor(value, dtype=dtypes.int64)
    return cast(convert_to_tensor(value), dtypes.int64)


class ConditionalAccumulatorBase:
    """What both kinds have: a count of gradients inside, and a step below which gradients are stale."""

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._shape = as_shape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.rsplit("/", 1)[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """Name of the handle's op."""
        return self._accumulator_ref.op.name

    @property
    def dtype(self) -> DType:
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """Number of gradients inside, int32."""
        made: Tensor = queue_ops.accumulator_num_accumulated(
            self._accumulator_ref, name=name or f"{self._name}_NumAccumulated"
        )
        return made

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """From now on gradients of earlier steps are dropped."""
        made: Operation = queue_ops.accumulator_set_global_step(
            self._accumulator_ref, _step(new_global_step), name=name
        )
        return made


def _reference(
    build: Callable[..., Tensor], dtype: Any, shape: Any, shared_name: str | None, name: str, reduction_type: str
) -> Tensor:
    if reduction_type not in ("MEAN", "SUM"):
        raise ValueError(f"reduction_type must be 'MEAN' or 'SUM', not '{reduction_type}'.")
    return build(
        dtypes.as_dtype(dtype).base_dtype, as_shape(shape), get_default_graph()._container, shared_name or "",
        reduction_type, name=name,
    )  # fmt: skip


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Averages (or sums) dense gradients. Shared between sessions by `shared_name`."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        ref = _reference(queue_ops.conditional_accumulator, dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, ref)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """Add a gradient, unless `local_step` is below the accumulator's step: then it is dropped without a word."""
        value = convert_to_tensor(grad, self._dtype)
        value.get_shape().assert_is_compatible_with(self._shape)
        made: Operation = queue_ops.accumulator_apply_gradient(
            self._accumulator_ref, _step(local_step), value, name=name
        )
        return made

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """Wait for `num_required` gradients; the mean of all inside. Empties, and moves the step on by one."""
        made: Tensor = queue_ops.accumulator_take_gradient(
            self._accumulator_ref, convert_to_tensor(num_required, dtype=dtypes.int32), self._dtype,
            name=name,
        )  # fmt: skip
        made.set_shape(self._shape)
        return made


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Averages (or sums) gradients that are rows of a larger whole, row by row."""

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        ref = _reference(queue_ops.sparse_conditional_accumulator, dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, ref)

    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: Any = 0, name: str | None = None) -> Operation:
        """`apply_grad` of the parts of `grad`."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: Any,
        grad_values: Any,
        grad_shape: Any = None,
        local_step: Any = 0,
        name: str | None = None,
    ) -> Operation:
        """Add rows, unless `local_step` is stale. `grad_shape` is the shape of the whole, if known."""
        shape = [] if grad_shape is None else cast(convert_to_tensor(grad_shape), dtypes.int64)
        made: Operation = queue_ops.sparse_accumulator_apply_gradient(
            self._accumulator_ref,
            _step(local_step),
            cast(convert_to_tensor(grad_indices), dtypes.int64),
            convert_to_tensor(grad_values, self._dtype),
            convert_to_tensor(shape, dtype=dtypes.int64),
            grad_shape is not None,
            name=name,
        )
        return made

    def take_grad(self, num_required: Any, name: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Wait for `num_required` gradients; (indices, values, shape) of their mean, every index once, in order."""
        made: tuple[Tensor, Tensor, Tensor] = queue_ops.sparse_accumulator_take_gradient(
            self._accumulator_ref, convert_to_tensor(num_required, dtype=dtypes.int32), self._dtype,
            name=name,
        )  # fmt: skip
        made[0].set_shape([None])
        if self._shape.ndims is not None:
            made[1].set_shape([None, *self._shape.as_list()[1:]])
        return made

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """`take_grad` as IndexedSlices."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)
