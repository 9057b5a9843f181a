"""What a program asks of values: whether they are tensors, what is known of them."""

from __future__ import annotations

from typing import Any

from dtfzmq.base.shapes import Dimension, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.static import constant_value
from dtfzmq.ops.constants import identity


def is_tensor(x: Any) -> bool:
    """True of tensors, variables and what stands for several tensors."""
    return isinstance(x, (Tensor, IndexedSlices)) or hasattr(x, "_as_graph_element") or hasattr(x, "dense_shape")


def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """`value` as it is if it is IndexedSlices or a SparseTensor, else as a tensor."""
    if isinstance(value, IndexedSlices) or hasattr(value, "dense_shape"):
        if dtype is not None and value.dtype.base_dtype != dtype:
            raise ValueError(f"Tensor conversion requested dtype {dtype} for Tensor with dtype {value.dtype.name}")
        return value
    return convert_to_tensor(value, dtype, name)


def get_static_value(tensor: Any, partial: bool = False) -> Any:
    """The constant that a tensor will be in every step, as an array; None if that is not known."""
    return constant_value(tensor)


def dimension_value(dimension: Any) -> int | None:
    """The size of a Dimension, or None."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """The Dimension of an axis; unknown for a shape of unknown rank."""
    return Dimension(None) if shape.ndims is None else shape[index]


def guarantee_const(input: Any, name: str | None = None) -> Tensor:
    """The tensor itself."""
    made: Tensor = identity(input, name)
    return made


__all__ = [
    "convert_to_tensor_or_indexed_slices", "dimension_at_index", "dimension_value", "get_static_value",
    "guarantee_const", "is_tensor",
]  # fmt: skip
