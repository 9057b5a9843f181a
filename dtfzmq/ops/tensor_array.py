"""TensorArray: tensors by index, written once each, to be used in loops."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.dtypes import DType
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor, get_default_graph
from dtfzmq.graph.static import constant_value
from dtfzmq.ops import composites, list_ops
from dtfzmq.ops.raw import raw

_OPS = list_ops  # declares what is built here


class TensorArray:
    """An array of tensors of one type, by index. A write returns the array to go on with; the old one stays as it was.

    What it holds is the value of `flow`, which cond and while_loop carry, and which travels between tasks. All its
    operations stand on the device where it was made. It is differentiable through writes and reads.

    Different from TensorFlow 1: an element may be read more than once whatever `clear_after_read` says, and `handle`
    is the flow. Source: TensorFlow 1's ``tf.TensorArray``.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        if handle is not None and tensor_array_name:
            raise ValueError("Cannot construct with both handle and tensor_array_name")
        if handle is not None and not isinstance(handle, Tensor):
            raise TypeError("Handle must be a Tensor")
        if handle is None and size is None:
            raise ValueError("Argument `size` must be provided if handle is not provided.")
        if handle is not None and size is not None:
            raise ValueError("Cannot provide both a `handle` and `size` arguments at the same time.")
        if handle is not None and (element_shape is not None or dynamic_size is not None):
            raise ValueError("Cannot provide both `handle` and `element_shape` or `dynamic_size`.")
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._dynamic = bool(dynamic_size)
        self._infer = bool(infer_shape) or element_shape is not None
        # Shared by all arrays that come of this one: what a loop's body writes is known behind the loop.
        self._shape = [as_shape(element_shape)]
        self._adds = False
        known = None if self._dynamic or size is None else constant_value(convert_to_tensor(size, dtypes.int32))
        self._size = None if known is None else int(known)
        if handle is not None:
            self._flow = handle if flow is None else flow
        else:
            stem = name or "TensorArray"
            self._flow = raw.TensorArrayV3(size, self._dtype, self._attr_shape(), name=tensor_array_name or stem)
        self._device = self._flow.op.device

    def _attr_shape(self) -> TensorShape | None:
        return None if self._shape[0].ndims is None else self._shape[0]

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    @property
    def flow(self) -> Tensor:
        """The tensor that holds the elements."""
        return self._flow

    @property
    def handle(self) -> Tensor:
        """The same: there is no resource behind an array."""
        return self._flow

    @property
    def element_shape(self) -> TensorShape:
        """What is known of the shape of each element."""
        return self._shape[0]

    def _with(self, flow: Tensor) -> TensorArray:
        made = TensorArray.__new__(TensorArray)
        made.__dict__.update(self.__dict__)
        made._flow = flow
        return made

    def _merge(self, shape: TensorShape) -> None:
        if not self._infer:
            return
        if not self._shape[0].is_compatible_with(shape):
            raise ValueError(f"Inconsistent shapes: saw {shape} but expected {self._shape[0]}")
        self._shape[0] = self._shape[0].merge_with(shape)

    @contextlib.contextmanager
    def _placed(self, scope: str | None, values: Sequence[Any] = ()) -> Iterator[str | None]:
        """On the array's device; a name scope if one is given."""
        graph = get_default_graph()
        if not hasattr(graph, "outer"):
            graph = self._flow.graph
        with contextlib.ExitStack() as stack:
            if graph is not get_default_graph():
                stack.enter_context(graph.as_default())
            stack.enter_context(graph.device(None))
            stack.enter_context(graph.device(self._device or None))
            if scope:
                stack.enter_context(graph.name_scope(scope))
            yield scope

    def _converted(self, value: Any) -> Tensor:
        tensor = convert_to_tensor(value, None if isinstance(value, Tensor) else self._dtype, "value")
        if tensor.dtype.base_dtype is not self._dtype:
            raise TypeError(
                f"TensorArray dtype is {self._dtype.name} but the value to write, {tensor}, has dtype "
                f"{tensor.dtype.base_dtype.name}."
            )
        return tensor

    def identity(self) -> TensorArray:
        """The same array, by an operation of its own: control dependencies of this place hold for what follows."""
        return self._with(raw.Identity(self._flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """An array of the same size for gradients: writes to one index add up, what was not written reads as zeros.

        It stands beside what ``tf.gradients`` computes, which needs no such array.
        """
        if not source:
            raise ValueError("grad() needs a source.")
        with self._placed(name or "TensorArrayGrad"):
            base = self._flow if flow is None else flow
            fresh = raw.TensorArrayV3(raw.TensorArraySizeV3(base), self._dtype, self._attr_shape())
        made = self._with(fresh)
        made._adds = True
        return made

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at `index`. InvalidArgumentError if there is none, or none was written of a known shape."""
        with self._placed(None):
            value: Tensor = raw.TensorArrayReadV3(
                self._flow, index, self._dtype, self._attr_shape(), name=name or "TensorArrayReadV3"
            )
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with `value` at `index`. InvalidArgumentError if that was written, or lies behind a fixed end."""
        with self._placed(name or "TensorArrayWrite"):
            tensor = self._converted(value)
            self._merge(tensor.shape)
            return self._with(
                raw.TensorArrayWriteV3(self._flow, index, tensor, dynamic_size=self._dynamic, accumulate=self._adds)
            )

    def stack(self, name: str | None = None) -> Tensor:
        """All elements, along a new first axis. They have one shape."""
        with self._placed(name or "TensorArrayStack"):
            size = self._size
            indices = raw.Range(np.int32(0), self._size_tensor(), np.int32(1))
            value = self._gathered(indices, "TensorArrayGatherV3")
            if size is not None and value.shape.ndims is not None:
                value.set_shape([size, *value.shape.as_list()[1:]])
            return value

    pack = stack  # its name before 1.0

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at `indices` (a vector of int32), along a new first axis."""
        with self._placed(None):
            return self._gathered(convert_to_tensor(indices, dtypes.int32), name or "TensorArrayGatherV3")

    def _gathered(self, indices: Tensor, name: str) -> Tensor:
        value: Tensor = raw.TensorArrayGatherV3(self._flow, indices, self._dtype, self._attr_shape(), name=name)
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """All elements one behind the other along their first axis; they may differ in it."""
        with self._placed(None):
            shape = self._attr_shape()
            value, _ = raw.TensorArrayConcatV3(self._flow, self._dtype, shape, name=name or "TensorArrayConcatV3")
            size = self._size
            sizes = None if shape is None else shape.dims_or_none
            if size is not None and sizes and sizes[0] is not None:
                value.set_shape([size * sizes[0], *sizes[1:]])
            return value

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of `value` as its elements 0, 1, ..."""
        with self._placed(name or "TensorArrayUnstack"):
            tensor = self._converted(value)
            if tensor.shape.ndims == 0:
                raise ValueError("A scalar has no rows to unstack.")
            count = raw.StridedSlice(raw.Shape(tensor), [0], [1], [1], shrink_axis_mask=1)
            return self.scatter(raw.Range(np.int32(0), count, np.int32(1)), tensor)

    unpack = unstack  # its name before 1.0

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of `value` at `indices`."""
        with self._placed(name or "TensorArrayScatter"):
            tensor = self._converted(value)
            where = convert_to_tensor(indices, dtypes.int32)
            counts = [t.shape.as_list()[0] for t in (where, tensor) if t.shape.ndims]
            if len(counts) == 2 and None not in counts and counts[0] != counts[1]:
                raise ValueError(f"Dimensions must be equal, but are {counts[0]} and {counts[1]}: indices and rows.")
            self._merge(tensor.shape[1:] if tensor.shape.ndims is not None else TensorShape(None))
            return self._with(
                raw.TensorArrayScatterV3(self._flow, where, tensor, dynamic_size=self._dynamic, accumulate=self._adds)
            )

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array with pieces of `value` along its first axis as elements, `lengths[i]` rows for element i."""
        with self._placed(name or "TensorArraySplit"):
            tensor = self._converted(value)
            rows = convert_to_tensor(lengths)
            if rows.dtype is not dtypes.int64:
                rows = raw.Cast(rows, DstT=dtypes.int64)
            if self._infer and tensor.shape.ndims is not None:
                known = constant_value(rows)
                same = known is not None and known.ndim == 1 and len(known) and (known == known[0]).all()
                if same:
                    self._merge(TensorShape([int(known[0]), *tensor.shape.as_list()[1:]]))  # type: ignore[index]  # same
            return self._with(raw.TensorArraySplitV3(self._flow, tensor, rows, dynamic_size=self._dynamic))

    def _size_tensor(self) -> Any:
        return raw.TensorArraySizeV3(self._flow) if self._size is None else np.int32(self._size)

    def size(self, name: str | None = None) -> Tensor:
        """The number of elements."""
        with self._placed(None):
            found = self._size_tensor()
            return found if isinstance(found, Tensor) else convert_to_tensor(found, name=name)

    def close(self, name: str | None = None) -> Operation:
        """An operation that does nothing: what the array holds goes when its step needs it no more."""
        with self._placed(None):
            made: Operation = raw.TensorArrayCloseV3(self._flow, name=name or "TensorArrayCloseV3")
        return made

    def __repr__(self) -> str:
        return f"<TensorArray dtype={self._dtype.name} element_shape={self._shape[0]} flow={self._flow.name}>"


composites.register(TensorArray, lambda value: [value.flow], lambda value, tensors: value._with(tensors[0]))

__all__ = ["TensorArray"]
