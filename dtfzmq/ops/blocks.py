"""Blocks of space moved into the batch or the channels, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops import windows
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.samples import ints, mat

Array = Any


def _invalid(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


def _divided(size: int | None, by: int, n: Operation) -> int | None:
    if size is None:
        return None
    if size % by:
        raise ValueError(
            f"Dimension size must be evenly divisible by {by} but is {size} for '{n.name}' (op: '{n.type}') with input "
            f"shapes: {', '.join(str(t.shape) for t in n.inputs)}."
        )
    return size // by


def _block_shape(n: Operation) -> tuple[Any, Any, list[int | None]] | None:
    """(blocks, amounts, sizes) as far as known, or None where even the rank is not."""
    blocks, amounts = constant_value(n.inputs[1]), constant_value(n.inputs[2])
    known = dims(n.inputs[0])
    if known is None:
        return None
    if blocks is not None and len(known) < 1 + blocks.size:
        raise ValueError(f"Shape must be at least rank {1 + blocks.size} but is rank {len(known)} for '{n.name}'")
    return blocks, amounts, list(known)


def _to_batch_shape(n: Operation) -> list[TensorShape]:
    found = _block_shape(n)
    if found is None:
        return [UNKNOWN]
    blocks, amounts, sizes = found
    if blocks is None:
        return [TensorShape([None] * len(sizes))]
    for i, block in enumerate(blocks.tolist(), 1):
        size = sizes[i]
        padded = None if size is None or amounts is None else size + int(amounts[i - 1].sum())
        sizes[i] = _divided(padded, block, n)
    sizes[0] = None if sizes[0] is None else sizes[0] * int(np.prod(blocks))
    return [TensorShape(sizes)]


def _to_space_shape(n: Operation) -> list[TensorShape]:
    found = _block_shape(n)
    if found is None:
        return [UNKNOWN]
    blocks, amounts, sizes = found
    if blocks is None:
        return [TensorShape([None] * len(sizes))]
    sizes[0] = _divided(sizes[0], int(np.prod(blocks)), n)
    for i, block in enumerate(blocks.tolist(), 1):
        size = sizes[i]
        sizes[i] = None if size is None or amounts is None else size * block - int(amounts[i - 1].sum())
        if (sizes[i] or 0) < 0:
            raise ValueError(f"Negative dimension size caused by subtracting {amounts[i - 1].sum()} from "
                             f"{(size or 0) * block} for '{n.name}' (op: '{n.type}').")  # fmt: skip
    return [TensorShape(sizes)]


def _check(x: Array, blocks: Array, amounts: Array, what: str) -> tuple[list[int], list[list[int]]]:
    if blocks.ndim != 1 or amounts.shape != (blocks.size, 2):
        raise _invalid(f"{what} should have shape [{blocks.size}, 2] instead of {list(amounts.shape)}")
    if x.ndim < 1 + blocks.size:
        raise _invalid(f"input rank should be >= {1 + blocks.size} instead of {x.ndim}")
    if blocks.size and blocks.min() < 1:
        raise _invalid(f"All values in block_shape must be positive, got {blocks.tolist()}")
    if amounts.size and amounts.min() < 0:
        raise _invalid(f"{what} must be non-negative, got {amounts.tolist()}")
    return blocks.tolist(), amounts.tolist()


def _to_batch(x: Array, block_shape: Array, paddings: Array) -> Array:
    blocks, pairs = _check(x, block_shape, paddings, "paddings")
    count = len(blocks)
    if any(p for pair in pairs for p in pair):
        sizes = [d + sum(pair) for d, pair in zip(x.shape[1:], pairs)]
        padded = np.zeros((x.shape[0], *sizes, *x.shape[1 + count :]), x.dtype)
        inner = (slice(None), *(slice(a, a + d) for d, (a, _) in zip(x.shape[1:], pairs)))
        padded[inner] = x
        x = padded
    shape = [x.shape[0]]
    for i, block in enumerate(blocks):
        size = x.shape[1 + i]
        if size % block:
            raise _invalid(f"padded_shape[{i}]={size} is not divisible by block_shape[{i}]={block}")
        shape += [size // block, block]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2)]
    rest = x.shape[1 + count :]
    moved = x.reshape(*shape, *rest).transpose(*order, *range(2 * count + 1, 2 * count + 1 + len(rest)))
    return moved.reshape(x.shape[0] * int(np.prod(blocks)), *shape[1::2], *rest)


def _to_space(x: Array, block_shape: Array, crops: Array) -> Array:
    blocks, pairs = _check(x, block_shape, crops, "crops")
    count, times = len(blocks), int(np.prod(blocks))
    if x.shape[0] % times:
        raise _invalid(f"Input batch dimension ({x.shape[0]}) is not divisible by product of block sizes ({times})")
    rest = x.shape[1 + count :]
    batch = x.shape[0] // times
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    moved = x.reshape(*blocks, batch, *x.shape[1:]).transpose(
        *order, *range(2 * count + 1, 2 * count + 1 + len(rest))
    )
    sizes = [d * b for d, b in zip(x.shape[1:], blocks)]
    out = moved.reshape(batch, *sizes, *rest)
    for size, (before, after) in zip(sizes, pairs):
        if before + after > size:
            raise _invalid(f"cropped_shape must be non-negative, got {size - before - after}")
    keep = (slice(None), *(slice(before, size - after) for size, (before, after) in zip(sizes, pairs)))
    return np.ascontiguousarray(out[keep])


_PAD, _NO_PAD = np.array([[0, 1], [1, 1]], np.int32), np.zeros((2, 2), np.int32)
_space_to_batch_nd = op(
    "SpaceToBatchND", "input: T, block_shape: I, paddings: I2 -> output: T", shape=_to_batch_shape, kernel=_to_batch,
    grad=lambda n, g: (raw.BatchToSpaceND(g, n.inputs[1], n.inputs[2]), None, None),
    samples=[
        Sample(mat(2, 3, 4, 2), ints(2, 3), _PAD), Sample(mat(1, 4, 4), ints(2, 2), _NO_PAD),
    ],
)  # fmt: skip
_batch_to_space_nd = op(
    "BatchToSpaceND", "input: T, block_shape: I, crops: I2 -> output: T", shape=_to_space_shape, kernel=_to_space,
    grad=lambda n, g: (raw.SpaceToBatchND(g, n.inputs[1], n.inputs[2]), None, None),
    samples=[Sample(mat(6, 2, 3, 2), ints(2, 3), _PAD), Sample(mat(4, 2, 2), ints(2, 2), _NO_PAD)],
)  # fmt: skip


def _turned(compute: Callable[[Array, int, bool], Array]) -> Any:
    def make(node: Any, env: Any) -> Any:
        block, first = node.attrs["block_size"], node.attrs["data_format"] == "NCHW"

        def kernel(x: Array) -> Array:
            if x.ndim != 4:
                raise _invalid(f"{node.op}: input must be 4-dimensional, not of shape {list(x.shape)}")
            return compute(x, block, first)

        return kernel

    return make


def _to_depth(x: Array, block: int, first: bool) -> Array:
    batch, height, width, depth = (x.shape[0], *x.shape[2:], x.shape[1]) if first else x.shape
    if height % block or width % block:
        raise _invalid(f"Image height {height} and width {width} should be divisible by block_size: {block}")
    rows, columns = height // block, width // block
    if first:
        parts = x.reshape(batch, depth, rows, block, columns, block).transpose(0, 3, 5, 1, 2, 4)
        return parts.reshape(batch, -1, rows, columns)
    parts = x.reshape(batch, rows, block, columns, block, depth).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(batch, rows, columns, block * block * depth)


def _from_depth(x: Array, block: int, first: bool) -> Array:
    batch, height, width, depth = (x.shape[0], *x.shape[2:], x.shape[1]) if first else x.shape
    if depth % (block * block):
        raise _invalid(f"Input depth dimension {depth} should be divisible by: {block * block}")
    deep = depth // (block * block)
    if first:
        parts = x.reshape(batch, block, block, deep, height, width).transpose(0, 3, 4, 1, 5, 2)
        return parts.reshape(batch, deep, height * block, width * block)
    parts = x.reshape(batch, height, width, block, block, deep).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(batch, height * block, width * block, deep)


def _block_rule(change: Callable[[list[Any], int, Operation], list[Any]]) -> Any:
    """A shape rule from one that changes [height, width, depth]."""

    def rule(n: Operation) -> list[TensorShape]:
        first = windows.channels_first(n.attrs["data_format"], 4, n.type)
        block = n.attrs["block_size"]
        if block < 2:
            raise ValueError(f"Value for attr 'block_size' of {block} must be at least minimum 2 for '{n.type}'")
        x = windows.with_rank(n.inputs[0], 4, n)
        height, width, depth = change([*windows.spatial(x, first), x[1 if first else -1]], block, n)
        return [TensorShape([x[0], depth, height, width] if first else [x[0], height, width, depth])]

    return rule


def _times(size: int | None, by: int) -> int | None:
    return None if size is None else size * by


_space_to_depth = op(
    "SpaceToDepth", "input: T; block_size: int, data_format: str = 'NHWC' -> output: T", make=_turned(_to_depth),
    shape=_block_rule(lambda s, b, n: [_divided(s[0], b, n), _divided(s[1], b, n), _times(s[2], b * b)]),
    grad=lambda n, g: (raw.DepthToSpace(g, **n.attrs),),
    samples=[Sample(mat(2, 4, 6, 2), block_size=2), Sample(mat(1, 2, 3, 6), block_size=3, data_format="NCHW")],
)  # fmt: skip
_depth_to_space = op(
    "DepthToSpace", "input: T; block_size: int, data_format: str = 'NHWC' -> output: T", make=_turned(_from_depth),
    shape=_block_rule(lambda s, b, n: [_times(s[0], b), _times(s[1], b), _divided(s[2], b * b, n)]),
    grad=lambda n, g: (raw.SpaceToDepth(g, **n.attrs),),
    samples=[Sample(mat(2, 2, 3, 8), block_size=2), Sample(mat(1, 18, 1, 2), block_size=3, data_format="NCHW")],
)  # fmt: skip


def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Blocks of block_size x block_size pixels become one pixel with block_size ** 2 times the channels."""
    return _space_to_depth(input, block_size=block_size, data_format=data_format, name=name)


def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """What space_to_depth does, undone."""
    return _depth_to_space(input, block_size=block_size, data_format=data_format, name=name)


def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Pad the axes after the first, and move each place within a block of `block_shape` into the batch."""
    return _space_to_batch_nd(input, block_shape, paddings, name=name)


def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """What space_to_batch_nd does, undone; `crops` is cut off."""
    return _batch_to_space_nd(input, block_shape, crops, name=name)


def _blocks(block_size: Any, block_shape: Any) -> Any:
    if block_shape is not None and block_size is None:
        return block_shape if not isinstance(block_shape, (int, np.integer)) else np.array([block_shape] * 2, np.int32)
    return np.array([one_of("block_shape", block_shape, "block_size", block_size)] * 2, np.int32)


def _images(input: Any) -> Tensor:
    """`input` with four axes, which the step makes sure of where it is not known."""
    x = convert_to_tensor(input, name="input")
    return raw.EnsureShape(x, shape=[None] * 4) if x.shape.ndims is None else x


def space_to_batch(
    input: Any, paddings: Any, block_size: int | None = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """space_to_batch_nd over height and width with blocks of block_size x block_size."""
    blocks = _blocks(block_size, block_shape)
    return _space_to_batch_nd(_images(input), blocks, paddings, name=name or "SpaceToBatchND")


def batch_to_space(
    input: Any, crops: Any, block_size: int | None = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """batch_to_space_nd over height and width with blocks of block_size x block_size."""
    return _batch_to_space_nd(_images(input), _blocks(block_size, block_shape), crops, name=name or "BatchToSpaceND")


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Any, Any]:
    """(paddings, crops) with which space_to_batch_nd divides sizes of `input_shape` into whole blocks, and back.

    At least `base_paddings` are added.
    """
    paddings, crops = _whole_blocks(input_shape, block_shape, base_paddings, name)
    return convert_to_tensor(paddings), convert_to_tensor(crops)


def _whole_blocks(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Any, Any]:
    """required_space_to_batch_paddings, as arrays if all arguments are known while building."""
    given = [input_shape, block_shape] + ([] if base_paddings is None else [base_paddings])
    tensors = [convert_to_tensor(v, None if isinstance(v, Tensor) else dtypes.int32) for v in given]
    known: list[Any] = [constant_value(t) for t in tensors]
    if all(v is not None for v in known):
        sizes, blocks = known[0], known[1]
        base = known[2] if len(known) > 2 else np.zeros((len(blocks), 2), np.int32)
        extra = -(sizes + base.sum(1)) % blocks
        paddings = np.stack([base[:, 0], base[:, 1] + extra], 1)
        return paddings.astype(np.int32), np.stack([np.zeros_like(extra), extra], 1).astype(np.int32)
    with tensors[0].graph.name_scope(name or "required_space_to_batch_paddings"):
        size_t, block_t = tensors[:2]
        zero = raw.ZerosLike(block_t)
        before, after = (tensors[2][:, 0], tensors[2][:, 1]) if len(tensors) > 2 else (zero, zero)
        over = raw.FloorMod(-(size_t + before + after), block_t)
        return raw.Pack([before, after + over], axis=1), raw.Pack([zero, over], axis=1)


def with_space_to_batch(
    input: Any, dilation_rate: Any, padding: str, op: Callable[[Tensor, int, str], Tensor],
    filter_shape: Any = None, spatial_dims: Sequence[int] | None = None, data_format: str | None = None,
) -> Tensor:  # fmt: skip
    """`op(input, number of axes of space, padding)` over each residue of `dilation_rate`: makes it a dilated one.

    "SAME" pads with zeros before the op, so that a maximum counts them; it needs `filter_shape`. Sizes must be known.
    """
    input = convert_to_tensor(input, name="input")
    rates = np.asarray(dilation_rate, np.int32)
    count = rates.size
    if rates.min() < 1:
        raise ValueError("dilation_rate must be positive")
    if (rates == 1).all():
        return op(input, count, padding)
    second = data_format is not None and data_format.startswith("NC")
    where = sorted(spatial_dims) if spatial_dims is not None else list(range(2 if second else 1, count + 1 + second))
    if padding == "SAME":
        if filter_shape is None:
            raise ValueError("filter_shape must be specified for SAME padding")
        over = (np.asarray(filter_shape, np.int32)[:count] - 1) * rates
        base = np.stack([over // 2, over - over // 2], 1)
    elif padding == "VALID":
        base = np.zeros((count, 2), np.int32)
    else:
        raise ValueError(f"Invalid padding method {padding!r}")
    known = dims(input)
    if known is None:
        raise ValueError("with_space_to_batch needs an input of known rank.")
    sizes = [known[i] for i in where]
    shape: Any = raw.GatherV2(raw.Shape(input), np.array(where, np.int32), 0) if None in sizes else np.array(sizes)
    paddings, crops = _whole_blocks(shape, rates, base)
    last = where[-1]
    blocks = np.ones(last, np.int32)
    blocks[[i - 1 for i in where]] = rates
    paddings, crops = (_placed(p, where, last) for p in (paddings, crops))
    split = _space_to_batch_nd(input, blocks, paddings)
    return _batch_to_space_nd(op(split, count, "VALID"), blocks, crops)


def _placed(pairs: Any, where: Sequence[int], last: int) -> Any:
    """Pairs of the axes `where` among those of all axes from 1 to `last`."""
    if len(where) == last:
        return pairs
    if isinstance(pairs, Tensor):
        zero = np.zeros(2, np.int32)
        return raw.Pack([pairs[where.index(i)] if i in where else zero for i in range(1, last + 1)], axis=0)
    out = np.zeros((last, 2), np.int32)
    out[[i - 1 for i in where]] = pairs
    return out
