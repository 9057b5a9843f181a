"""Public functions over parts of a tensor, and Tensor's [] operator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import Dimension
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.static import constant_value, dims, full_dims
from dtfzmq.ops import indexing, padding, scans
from dtfzmq.ops.array import int_vector
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints

newaxis = None
_OPS = indexing, padding, scans  # declare what is used here by name


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """`size[i]` elements from `begin[i]` along each axis; -1 is all the rest."""
    return raw.Slice(input_, int_vector(begin), int_vector(size), name=name)


def strided_slice(
    input_: Any, begin: Any, end: Any, strides: Any = None, begin_mask: int = 0, end_mask: int = 0,
    ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0, var: Any = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The slice that Python's [] writes, with bounds as tensors and what is left out as bit masks."""
    begin = convert_to_tensor(int_vector(begin))
    if strides is None:
        known = full_dims(begin)
        strides = raw.OnesLike(begin) if known is None else np.ones(known, begin.dtype.np_dtype)
    return raw.StridedSlice(
        input_, begin, int_vector(end), int_vector(strides), begin_mask=begin_mask, end_mask=end_mask,
        ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask, shrink_axis_mask=shrink_axis_mask, name=name,
    )  # fmt: skip


_slice_type = type(np.s_[:])


def _getitem(x: Tensor, key: Any) -> Tensor:
    """x[...] with ints, slices, ellipsis, newaxis and scalar tensors in it, or one boolean mask."""
    if isinstance(key, Tensor) and key.dtype.base_dtype is dtypes.bool_ or _is_mask(key):
        return boolean_mask(x, key)
    keys = tuple(key) if isinstance(key, (tuple, list)) else (key,)
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for i, item in enumerate(keys):
        bit = 1 << i
        if isinstance(item, _slice_type):
            if item.start is None:
                masks["begin_mask"] |= bit
            if item.stop is None:
                masks["end_mask"] |= bit
            begin.append(0 if item.start is None else _bound(item.start))
            end.append(0 if item.stop is None else _bound(item.stop))
            strides.append(1 if item.step is None else _bound(item.step))
            continue
        if item is Ellipsis:
            if masks["ellipsis_mask"]:
                raise ValueError("Multiple ellipses not allowed")
            masks["ellipsis_mask"] |= bit
            position: Any = 0
        elif item is None:
            masks["new_axis_mask"] |= bit
            position = 0
        else:
            masks["shrink_axis_mask"] |= bit
            position = _bound(item)
        begin.append(position)
        end.append(0 if masks["shrink_axis_mask"] & bit == 0 else position + 1)
        strides.append(1)
    with x.graph.name_scope("strided_slice") as scope:
        return raw.StridedSlice(x, int_vector(begin), int_vector(end), int_vector(strides), **masks, name=scope)


def _is_mask(key: Any) -> bool:
    return isinstance(key, np.ndarray) and key.dtype == np.bool_


def _bound(item: Any) -> Any:
    if isinstance(item, Tensor):
        if not item.dtype.is_integer:
            raise TypeError(f"An index is an integer, but {item} has DataType {item.dtype.name}.")
        if item.shape.ndims not in (None, 0):
            raise TypeError(f"An index must be a scalar, got shape {item.shape}; use tf.gather for several.")
        return item
    if isinstance(item, Dimension):
        item = item.value
    if isinstance(item, (bool, float)) or not hasattr(item, "__index__"):
        raise TypeError(
            "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors "
            f"are valid indices, got {item!r}"
        )
    return int(item)


Tensor._override_operator("__getitem__", _getitem)


def gather(
    params: Any, indices: Any, validate_indices: bool | None = None, name: str | None = None, axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:  # fmt: skip
    """The parts of `params` at `indices` along `axis` (0); one that is out of range fails the step."""
    if batch_dims < 0:
        indices = convert_to_tensor(indices)
        batch_dims += indices.shape.with_rank_at_least(1).rank or 0
    return raw.GatherV2(params, indices, batch_dims if axis is None else axis, batch_dims=batch_dims, name=name)


def gather_nd(
    params: Any, indices: Any, name: str | None = None, batch_dims: int = 0, bad_indices_policy: str = ""
) -> Tensor:
    """The elements or parts that the index vectors in the last axis of `indices` point at.

    One that points outside fails the step, whatever bad_indices_policy says. With `batch_dims` for each entry of so
    many first axes apart, which `params` and `indices` share; the rank of `indices` must be known then.
    """
    if not batch_dims:
        return raw.GatherNd(params, indices, name=name)
    indices = convert_to_tensor(indices, name="indices")
    rank = indices.shape.ndims
    if rank is None or not 0 < batch_dims < rank:
        raise ValueError(f"batch_dims = {batch_dims} must be less than rank(indices) = {rank}, which must be known.")
    with indices.graph.name_scope(name or "GatherNd") as scope:
        sizes = raw.Shape(indices)
        one = raw.ConcatV2([sizes[:-1], ints(1)], 0)
        lead = []
        for i in range(batch_dims):
            along = np.array([-1 if k == i else 1 for k in range(rank)], np.int32)
            counted = raw.Cast(raw.Range(0, sizes[i], 1), DstT=indices.dtype.base_dtype)
            lead.append(raw.BroadcastTo(raw.Reshape(counted, along), one))
        return raw.GatherNd(params, raw.ConcatV2([*lead, indices], -1), name=scope)


def scatter_nd(
    indices: Any, updates: Any, shape: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Zeros of a shape with `updates` added at `indices`; one outside fails, whatever bad_indices_policy says."""
    indices = convert_to_tensor(indices)
    return raw.ScatterNd(indices, updates, convert_to_tensor(int_vector(shape), dtype=indices.dtype), name=name)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """gather along the last axis of `indices`, for each entry of the axes before. Their rank must be known."""
    indices = convert_to_tensor(indices)
    rank = indices.shape.ndims
    if rank is None:
        raise ValueError("batch_gather needs indices of known rank; give them one with set_shape.")
    params = convert_to_tensor(params)
    found = raw.GatherV2(params, indices, rank - 1, batch_dims=rank - 1, name=name)
    found.set_shape(indices.shape.concatenate(params.shape[rank:]))
    return found


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """x where the condition holds, else y; with neither, the indices where it holds.

    The condition has the shape of x and y, or is a vector that chooses whole rows, or a scalar.
    """
    if (x is None) != (y is None):
        raise ValueError("x and y must both be non-None or both be None.")
    condition = convert_to_tensor(condition, preferred_dtype=dtypes.bool_, name="condition")
    if x is None:
        return raw.Where(condition, name=name)
    return raw.Select(condition, x, y, name=name)


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """where, with the condition, x and y broadcast to one shape."""
    if x is None or y is None:
        return where(condition, x, y, name)
    condition = convert_to_tensor(condition, preferred_dtype=dtypes.bool_, name="condition")
    return raw.SelectV2(condition, x, y, name=name)


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: int | None = None) -> Tensor:
    """The entries of `tensor` (from `axis` on) where the mask holds. The rank of the mask must be known."""
    tensor = convert_to_tensor(tensor, name="tensor")
    mask = convert_to_tensor(mask, name="mask")
    rank = mask.shape.ndims
    if rank is None:
        raise ValueError("Number of mask dimensions must be specified, even if some dimensions are None.")
    if rank == 0:
        raise ValueError("mask cannot be scalar.")
    a = axis or 0
    known = dims(tensor)
    tensor.shape[a : a + rank].assert_is_compatible_with(mask.shape)
    with tensor.graph.name_scope(name):
        if known is not None and None not in known:
            whole = math.prod(d or 0 for d in known[a : a + rank])
            sizes: Any = np.array([*known[:a], whole, *known[a + rank :]], np.int32)
        else:
            shape = raw.Shape(tensor)
            masked = raw.Prod(raw.Slice(shape, ints(a), ints(rank)), ints(0), keep_dims=True)
            sizes = raw.ConcatV2([shape[:a], masked, shape[a + rank :]], 0)
        flat = raw.Reshape(tensor, sizes)  # even for a vector: the gradient is dense, as in TensorFlow
        index = raw.Squeeze(raw.Where(raw.Reshape(mask, ints(-1))), squeeze_dims=[1])
        out = raw.GatherV2(flat, index, a)
    if known is not None:
        out.set_shape([*known[:a], None, *known[a + rank :]])
    return out


def one_hot(
    indices: Any, depth: Any, on_value: Any = None, off_value: Any = None, axis: int | None = None, dtype: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """A new axis of length `depth` with on_value (1) at each index and off_value (0) elsewhere; float32 by default."""
    to = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    given = [v for v in (on_value, off_value) if v is not None]
    if to is None:
        typed = [convert_to_tensor(v) for v in given]
        to = typed[0].dtype.base_dtype if typed else dtypes.float32
    for label, value in (("on_value", on_value), ("off_value", off_value)):
        if value is not None and convert_to_tensor(value, preferred_dtype=to).dtype.base_dtype is not to:
            raise TypeError(f"dtype {to.name} of {label} does not match dtype parameter {to.name}")
    on = convert_to_tensor(1 if on_value is None else on_value, dtype=to)
    off = convert_to_tensor(0 if off_value is None else off_value, dtype=to)
    indices = convert_to_tensor(indices)
    if indices.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
        indices = raw.Cast(indices, DstT=dtypes.int32)
    return raw.OneHot(indices, depth, on, off, axis=-1 if axis is None else axis, name=name or "one_hot")


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", name: str | None = None, constant_values: Any = 0
) -> Tensor:
    """More elements at the ends of each axis: a constant, or the mirror image ("REFLECT", "SYMMETRIC")."""
    mode = mode.upper()
    if not isinstance(paddings, Tensor):
        paddings = np.asarray(paddings, np.int32) if not _has_tensor(paddings) else convert_to_tensor(paddings)
    tensor = convert_to_tensor(tensor)
    if mode == "CONSTANT":
        if not isinstance(constant_values, Tensor) and constant_values == 0:
            constant_values = np.zeros((), tensor.dtype.base_dtype.np_dtype)
            if tensor.dtype.base_dtype is dtypes.string:
                constant_values = ""
        return raw.PadV2(
            tensor, paddings, convert_to_tensor(constant_values, dtype=tensor.dtype.base_dtype), name=name or "Pad"
        )
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise ValueError(f"Unknown padding mode: {mode}")
    return raw.MirrorPad(tensor, paddings, mode=mode, name=name)


def _has_tensor(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) or _has_tensor(v) for v in value)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Backwards along the axes in `axis`."""
    axis = [axis] if isinstance(axis, (int, np.integer)) else axis
    return raw.ReverseV2(tensor, int_vector(axis), name=name)


reverse_v2 = reverse


def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running sums along an axis; exclusive: of what stands before; reverse: from the end."""
    return raw.Cumsum(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Tensor:
    """Running products along an axis."""
    return raw.Cumprod(x, axis, exclusive=exclusive, reverse=reverse, name=name)


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool_, name: str | None = None) -> Tensor:
    """For each length a row with that many true entries, then false ones up to `maxlen` (the longest)."""
    lengths = convert_to_tensor(lengths)
    with lengths.graph.name_scope(name or "SequenceMask"):
        if maxlen is None:
            known = dims(lengths)
            axes = raw.Range(0, raw.Rank(lengths), 1) if known is None else np.arange(len(known), dtype=np.int32)
            value = constant_value(lengths)
            maxlen = raw.Maximum(raw.Max(lengths, axes), convert_to_tensor(0, dtype=lengths.dtype.base_dtype))
            if value is not None:
                maxlen = max([0, *np.ravel(value).tolist()])
        maxlen = convert_to_tensor(maxlen, dtype=lengths.dtype.base_dtype)
        zero, one = (convert_to_tensor(v, dtype=lengths.dtype.base_dtype) for v in (0, 1))
        mask = raw.Less(raw.Range(zero, maxlen, one), raw.ExpandDims(lengths, -1))
        to = dtypes.as_dtype(dtype)
        return mask if to is dtypes.bool_ else raw.Cast(mask, DstT=to)


def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """The coordinates of a grid over the given vectors: the first varies along columns ("xy") or rows ("ij")."""
    if indexing not in ("xy", "ij"):
        raise ValueError("Argument `indexing` parameter must be either 'xy' or 'ij'.")
    vectors = [convert_to_tensor(a) for a in args]
    if not vectors:
        return []
    count = len(vectors)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[:2] = [1, 0]
    with vectors[0].graph.name_scope(name):
        sizes = [raw.Size(v) for v in vectors]
        shape = raw.Pack([sizes[i] for i in order], axis=0)
        out = []
        for i, v in enumerate(vectors):
            column = np.array([-1 if order[j] == i else 1 for j in range(count)], np.int32)
            out.append(raw.BroadcastTo(raw.Reshape(v, column), shape))
        return out
