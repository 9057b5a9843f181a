"""Ops on lists of tensors: what a TensorArray is made of, and what its gradients are.

A TensorArray is a value here: a Python list with an array or None (not written) per element, in a tensor of type
variant, its *flow*. A write gives a new list, so that no step, iteration or task shares one that changes. The gradient
of a flow is such a list as well: None, or an end before the element, stands for zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.node import Node
from dtfzmq.graph.registry import NO_GRAD, op
from dtfzmq.graph.shape_rules import scalar
from dtfzmq.graph.static import constant_value, full_dims
from dtfzmq.ops.constants import zeros_like
from dtfzmq.ops.raw import raw

Items = list[Any]

NAMES = (
    "TensorArrayV3", "TensorArrayWriteV3", "TensorArrayReadV3", "TensorArrayGatherV3", "TensorArrayScatterV3",
    "TensorArrayConcatV3", "TensorArraySplitV3", "TensorArraySizeV3", "TensorArrayCloseV3", "ListPut", "ListItem",
    "ListRows", "ListSpread", "ListJoin", "ListCut", "ListAddN",
)  # fmt: skip


def zeros_of(tensor: Tensor) -> Tensor:
    """A gradient of zero for a tensor; for a list, the list without elements."""
    if tensor.dtype.base_dtype is dtypes.variant:
        made: Tensor = raw.EmptyList()
        return made
    return zeros_like(tensor)


def total(parts: Sequence[Any]) -> Tensor:
    """The sum of gradients of one tensor."""
    tensors = [convert_to_tensor(p) for p in parts]
    made: Tensor = (raw.ListAddN if tensors[0].dtype is dtypes.variant else raw.AddN)(tensors)
    return made


def _shape_of(tensor: Tensor) -> Any:
    known = full_dims(tensor)
    return np.array(known, np.int32) if known is not None else raw.Shape(tensor)


def _bad(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


def _put(out: Items, index: int, value: Any, dynamic: bool, adds: bool) -> None:
    """Write one element of a list that is nobody else's."""
    if index < 0 or (index >= len(out) and not dynamic):
        what = "array is not resizeable and size is" if index >= 0 else "the index is negative; the size is"
        raise _bad(f"TensorArray: Tried to write to index {index} but {what}: {len(out)}")
    if index >= len(out):
        out.extend([None] * (index + 1 - len(out)))
    before = out[index]
    if before is not None:
        if not adds:
            raise _bad(
                f"TensorArray: Could not write to TensorArray index {index} because it has already been written to."
            )
        value = before + value
    out[index] = value


def _filler(node: Node, items: Items, wanted: str) -> Any:
    """What stands for an element that was not written: zeros, if the shape of the elements is known."""
    dtype = node.attrs["dtype"].np_dtype
    shape: TensorShape | None = node.attrs["element_shape"]
    if shape is not None and shape.is_fully_defined():
        sizes: Any = shape.as_list()
    else:
        sizes = next((np.shape(x) for x in items if x is not None), None)
    if sizes is None:
        raise _bad(
            f"TensorArray: Could not {wanted}. Furthermore, the element shape is not fully defined: "
            f"{shape if shape is not None else '<unknown>'}. Give element_shape, or write every element."
        )
    return np.full(sizes, b"", object) if dtype.kind == "O" else np.zeros(sizes, dtype)


def _get(node: Node, items: Items, index: int) -> Any:
    if not 0 <= index < len(items):
        raise _bad(f"TensorArray: Tried to read from index {index} but array size is: {len(items)}")
    found = items[index]
    return _filler(node, items, f"read from TensorArray index {index}") if found is None else found


def _write_kernel(node: Node, env: Any) -> Callable[..., Items]:
    dynamic, adds = node.attrs["dynamic_size"], node.attrs["accumulate"]

    def write(items: Items, index: Any, value: Any) -> Items:
        out = list(items)
        _put(out, int(index), value, dynamic, adds)
        return out

    return write


def _read_kernel(node: Node, env: Any) -> Callable[..., Any]:
    return lambda items, index: _get(node, items, int(index))


def _stacked(parts: Sequence[Any], dtype: Any) -> Any:
    shape = np.shape(parts[0])
    for i, part in enumerate(parts):
        if np.shape(part) != shape:
            raise _bad(
                f"TensorArray: Shapes of elements do not match: element 0 has shape {list(shape)} but element {i} has "
                f"shape {list(np.shape(part))}."
            )
    out = np.empty((len(parts), *shape), dtype)
    for i, part in enumerate(parts):
        out[i, ...] = part
    return out


def _gather_kernel(node: Node, env: Any) -> Callable[..., Any]:
    dtype = node.attrs["dtype"].np_dtype

    def gather(items: Items, indices: Any) -> Any:
        if not len(indices):
            return _filler(node, items, "stack no elements")[np.newaxis][:0]
        return _stacked([_get(node, items, i) for i in indices.tolist()], dtype)

    return gather


def _rows(value: Any) -> Any:
    """The entries along the first axis, text as arrays too."""
    return [np.array(text, object) for text in value] if value.ndim == 1 and value.dtype.kind == "O" else value


def _scatter_kernel(node: Node, env: Any) -> Callable[..., Items]:
    dynamic, adds = node.attrs["dynamic_size"], node.attrs["accumulate"]

    def scatter(items: Items, indices: Any, value: Any) -> Items:
        if len(indices) != len(value):
            raise _bad(
                f"TensorArray: Expected len(indices) == values.shape[0], but saw: {len(indices)} vs. {len(value)}"
            )
        out = list(items)
        for index, row in zip(indices.tolist(), _rows(value)):
            _put(out, index, row, dynamic, adds)
        return out

    return scatter


def _concat_kernel(node: Node, env: Any) -> Callable[..., Any]:
    dtype = node.attrs["dtype"].np_dtype

    def concat(items: Items) -> Any:
        parts = [_get(node, items, i) for i in range(len(items))]
        for i, part in enumerate(parts):
            if np.ndim(part) == 0:
                raise _bad(f"TensorArray: Concat saw a scalar shape at index {i} but requires at least vectors.")
            if np.shape(part)[1:] != np.shape(parts[0])[1:]:
                raise _bad(
                    f"TensorArray: Shapes must match but for the first dimension: element 0 has {list(parts[0].shape)},"
                    f" element {i} has {list(part.shape)}."
                )
        lengths = np.array([len(p) for p in parts], np.int64)
        if not parts:
            shape: TensorShape | None = node.attrs["element_shape"]
            rest = [] if shape is None or shape.ndims is None else shape.as_list()[1:]
            return np.zeros([0, *(d or 0 for d in rest)], dtype), lengths
        return np.concatenate(parts).astype(dtype, copy=False), lengths

    return concat


def _cuts(value: Any, lengths: Any) -> Items:
    ends = list(accumulate(lengths.tolist()))
    if (ends[-1] if ends else 0) != len(value):
        raise _bad(
            f"TensorArray: Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
            f"{ends[-1] if ends else 0} and value's shape is: {list(value.shape)}"
        )
    return [value[end - n : end] for n, end in zip(lengths.tolist(), ends)]


def _split_kernel(node: Node, env: Any) -> Callable[..., Items]:
    dynamic = node.attrs["dynamic_size"]

    def split(items: Items, value: Any, lengths: Any) -> Items:
        parts = _cuts(value, lengths)
        if len(parts) > len(items) and not dynamic or len(parts) < len(items):
            raise _bad(
                f"TensorArray's size is not equal to the size of lengths ({len(items)} vs. {len(parts)}), and the "
                "TensorArray is not marked as dynamically resizeable"
            )
        out = list(items)
        for i, part in enumerate(parts):
            _put(out, i, part, dynamic, False)
        return out

    return split


def _one_shape(n: Operation) -> list[Any]:
    shape = n.attrs["element_shape"]
    return [TensorShape(None) if shape is None else shape]


def _rows_shape(n: Operation) -> list[Any]:
    shape = n.attrs["element_shape"]
    return [TensorShape(None) if shape is None else n.inputs[1].shape.with_rank(1).concatenate(shape)]


def _concat_shape(n: Operation) -> list[Any]:
    shape = n.attrs["element_shape"]
    known = shape is not None and shape.ndims is not None
    return [TensorShape([None]).concatenate(shape[1:]) if known else TensorShape(None), TensorShape([None])]


def _item_kernel(node: Node, env: Any) -> Callable[..., Any]:
    dtype = node.attrs["dtype"].np_dtype

    def item(items: Items, index: Any, shape: Any) -> Any:
        i = int(index)
        found = items[i] if 0 <= i < len(items) else None
        return np.zeros(tuple(shape.tolist()), dtype) if found is None else found

    return item


def _rows_kernel(node: Node, env: Any) -> Callable[..., Any]:
    dtype = node.attrs["dtype"].np_dtype

    def rows(items: Items, indices: Any, shape: Any) -> Any:
        out = np.zeros(tuple(shape.tolist()), dtype)
        for k, i in enumerate(indices.tolist()):
            if i < len(items) and items[i] is not None:
                out[k] = items[i]
        return out

    return rows


def _spread(indices: Any, value: Any) -> Items:
    out: Items = [None] * (int(indices.max()) + 1 if len(indices) else 0)
    for i, row in zip(indices.tolist(), value):
        out[i] = row if out[i] is None else out[i] + row
    return out


def _join_kernel(node: Node, env: Any) -> Callable[..., Any]:
    dtype = node.attrs["dtype"].np_dtype

    def join(items: Items, lengths: Any, shape: Any) -> Any:
        out = np.zeros(tuple(shape.tolist()), dtype)
        end = 0
        for i, n in enumerate(lengths.tolist()):
            end += n
            if i < len(items) and items[i] is not None:
                out[end - n : end] = items[i]
        return out

    return join


def _add_lists(*lists: Items) -> Items:
    longest = max(lists, key=len)
    out = list(longest)
    for items in lists:
        if items is longest:
            longest = []  # only once, should it stand there twice
            continue
        for i, value in enumerate(items):
            if value is not None:
                before = out[i]
                out[i] = value if before is None else before + value
    return out


def _item_of(n: Operation, g: Tensor, index: Tensor, value: Tensor) -> Tensor:
    made: Tensor = raw.ListItem(g, index, _shape_of(value), dtype=value.dtype.base_dtype)
    made.set_shape(value.shape)
    return made


def _rows_of(g: Tensor, indices: Tensor, value: Tensor) -> Tensor:
    made: Tensor = raw.ListRows(g, indices, _shape_of(value), dtype=value.dtype.base_dtype)
    made.set_shape(value.shape)
    return made


def _joined(g: Tensor, lengths: Tensor, value: Tensor) -> Tensor:
    made: Tensor = raw.ListJoin(g, lengths, _shape_of(value), dtype=value.dtype.base_dtype)
    made.set_shape(value.shape)
    return made


def _shape_input(n: Operation) -> list[Any]:
    sizes = constant_value(n.inputs[2])
    return [TensorShape(None) if sizes is None else TensorShape(sizes.tolist())]


_NONE = NO_GRAD("no part of the values")

_new = op(
    "TensorArrayV3", "size: int32; dtype: type, element_shape: shape? = None -> flow: variant", shape=scalar,
    kernel=lambda size: [None] * int(size), grad=_NONE,
)  # fmt: skip
_write = op(
    "TensorArrayWriteV3",
    "flow_in: variant, index: int32, value: T; dynamic_size: bool = False, accumulate: bool = False -> flow: variant",
    shape=scalar, make=_write_kernel, grad=lambda n, g: (g, None, _item_of(n, g, n.inputs[1], n.inputs[2])),
)  # fmt: skip
_read = op(
    "TensorArrayReadV3", "flow: variant, index: int32; dtype: type, element_shape: shape? = None -> value: dtype",
    shape=_one_shape, make=_read_kernel, grad=lambda n, g: (raw.ListPut(n.inputs[1], g), None),
)  # fmt: skip
_gather = op(
    "TensorArrayGatherV3", "flow: variant, indices: int32; dtype: type, element_shape: shape? = None -> value: dtype",
    shape=_rows_shape, make=_gather_kernel, grad=lambda n, g: (raw.ListSpread(n.inputs[1], g), None),
)  # fmt: skip
_scatter = op(
    "TensorArrayScatterV3",
    "flow_in: variant, indices: int32, value: T; dynamic_size: bool = False, accumulate: bool = False"
    " -> flow: variant",
    shape=scalar, make=_scatter_kernel, grad=lambda n, g: (g, None, _rows_of(g, n.inputs[1], n.inputs[2])),
)  # fmt: skip
_concat = op(
    "TensorArrayConcatV3", "flow: variant; dtype: type, element_shape: shape? = None -> value: dtype, lengths: int64",
    shape=_concat_shape, make=_concat_kernel, grad=lambda n, g, _: (raw.ListCut(g, n.outputs[1]),),
)  # fmt: skip
_split = op(
    "TensorArraySplitV3",
    "flow_in: variant, value: T, lengths: int64; dynamic_size: bool = False -> flow: variant", shape=scalar,
    make=_split_kernel, grad=lambda n, g: (g, _joined(g, n.inputs[2], n.inputs[1]), None),
)  # fmt: skip
_size = op("TensorArraySizeV3", "flow: variant -> size: int32", shape=scalar, kernel=lambda items: np.int32(len(items)),
           grad=_NONE)  # fmt: skip
_close = op("TensorArrayCloseV3", "flow: variant ->", shape=lambda n: [], kernel=lambda items: None, grad=_NONE)

_list_put = op(
    "ListPut", "index: int32, value: T -> items: variant", shape=scalar,
    kernel=lambda index, value: [*[None] * int(index), value],
    grad=lambda n, g: (None, _item_of(n, g, n.inputs[0], n.inputs[1])),
)  # fmt: skip
_list_item = op(
    "ListItem", "items: variant, index: int32, shape: int32; dtype: type -> item: dtype", shape=_shape_input,
    make=_item_kernel, grad=lambda n, g: (raw.ListPut(n.inputs[1], g), None, None),
)  # fmt: skip
_list_rows = op(
    "ListRows", "items: variant, indices: int32, shape: int32; dtype: type -> rows: dtype", shape=_shape_input,
    make=_rows_kernel, grad=lambda n, g: (raw.ListSpread(n.inputs[1], g), None, None),
)  # fmt: skip
_list_spread = op(
    "ListSpread", "indices: int32, value: T -> items: variant", shape=scalar, kernel=_spread,
    grad=lambda n, g: (None, _rows_of(g, n.inputs[0], n.inputs[1])),
)  # fmt: skip
_list_join = op(
    "ListJoin", "items: variant, lengths: int64, shape: int32; dtype: type -> value: dtype", shape=_shape_input,
    make=_join_kernel, grad=lambda n, g: (raw.ListCut(g, n.inputs[1]), None, None),
)  # fmt: skip
_list_cut = op(
    "ListCut", "value: T, lengths: int64 -> items: variant", shape=scalar, kernel=_cuts,
    grad=lambda n, g: (_joined(g, n.inputs[1], n.inputs[0]), None),
)  # fmt: skip
_list_add = op(
    "ListAddN", "items: variant* -> sum: variant", shape=scalar, kernel=_add_lists,
    grad=lambda n, g: (g,) * len(n.inputs),
)  # fmt: skip
