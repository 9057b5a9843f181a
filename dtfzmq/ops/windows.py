"""The geometry of sliding windows: sizes and padding of convolutions and pooling, and how attributes spell them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dtfzmq.base import errors
from dtfzmq.graph.graph import Operation, Tensor

Pairs = tuple[tuple[int, int], ...]
_PADDINGS = ("SAME", "VALID")
_LAST = {3: ("NWC",), 4: ("NHWC",), 5: ("NDHWC",)}
_FIRST = {3: ("NCW",), 4: ("NCHW",), 5: ("NCDHW",)}


class Axis(NamedTuple):
    """How a window moves along one axis."""

    size: int  # of the input
    window: int
    stride: int
    dilation: int
    out: int  # how many places the window has
    before: int  # padding
    after: int

    @property
    def extent(self) -> int:
        """What a window spans, holes of dilation included."""
        return (self.window - 1) * self.dilation + 1


def out_size(
    size: int, window: int, stride: int, dilation: int, padding: str, pair: tuple[int, int] = (0, 0)
) -> tuple[int, int, int]:
    """(places, padding before, padding after) along one axis; the number of places may come out negative."""
    extent = (window - 1) * dilation + 1
    if padding == "SAME":
        out = -(-size // stride)
        total = max((out - 1) * stride + extent - size, 0)
        return out, total // 2, total - total // 2
    before, after = pair if padding == "EXPLICIT" else (0, 0)
    return (size + before + after - extent) // stride + 1, before, after


def axis(
    size: int, window: int, stride: int, dilation: int, padding: str, pair: tuple[int, int] = (0, 0)
) -> Axis:
    """The geometry along one axis. Raises InvalidArgumentError if no window fits."""
    out, before, after = out_size(size, window, stride, dilation, padding, pair)
    if out < 0:
        raise errors.InvalidArgumentError(
            None, None,
            f"Computed output size would be negative: {out} [input_size: {size}, effective_filter_size: "
            f"{(window - 1) * dilation + 1}, stride: {stride}]",
        )  # fmt: skip
    return Axis(size, window, stride, dilation, out, before, after)


def static_size(
    op: Operation, size: int | None, window: int | None, stride: int, dilation: int, pair: tuple[int, int] = (0, 0)
) -> int | None:
    """What is known of the number of places while the graph is built. ValueError if no window fits."""
    padding = op.attrs["padding"]
    if size is None or padding == "SAME" and window is None:
        return -(-size // stride) if size is not None and padding == "SAME" else None
    if window is None:
        return None
    out = out_size(size, window, stride, dilation, padding, pair)[0]
    if padding != "SAME" and size + sum(pair) < (window - 1) * dilation + 1:
        shapes = ", ".join(str(t.shape) for t in op.inputs)
        raise ValueError(
            f"Negative dimension size caused by subtracting {(window - 1) * dilation + 1} from {size + sum(pair)} for "
            f"'{op.name}' (op: '{op.type}') with input shapes: {shapes}."
        )
    return out


def channels_first(data_format: str, rank: int, op_type: str = "") -> bool:
    """Whether a layout has its channels second. ValueError for a word that is none of this rank."""
    if data_format in _FIRST[rank]:
        return True
    if data_format in _LAST[rank]:
        return False
    allowed = ", ".join(f'"{w}"' for w in (*_LAST[rank], *_FIRST[rank]))
    raise ValueError(f"Attr 'data_format'{_of(op_type)} passed string '{data_format}' not in: {allowed}.")


def _of(op_type: str) -> str:
    return f" of '{op_type}' Op" if op_type else ""


def _bad_padding(padding: Any, op_type: str = "") -> ValueError:
    allowed = '"SAME", "VALID", "EXPLICIT"'
    return ValueError(f"Attr 'padding'{_of(op_type)} passed string '{padding}' not in: {allowed}.")


def spatial(values: Sequence[Any], first: bool) -> tuple[Any, ...]:
    """The part of a list over all axes that is about space."""
    return tuple(values[2:] if first else values[1:-1])


def spread(value: Any, rank: int, data_format: str, what: str) -> list[int]:
    """A list over all axes from a number, one number per axis of space, or such a list. ValueError else."""
    if value is None:
        value = 1
    given = [int(value)] if isinstance(value, (int, np.integer)) else [int(v) for v in value]
    if len(given) == rank:
        return given
    if len(given) == 1:
        given = given * (rank - 2)
    if len(given) != rank - 2:
        raise ValueError(f"{what} should be of length 1, {rank - 2} or {rank} but was {len(given)}")
    return [1, 1, *given] if channels_first(data_format, rank) else [1, *given, 1]


def padding_attrs(padding: Any, rank: int) -> dict[str, Any]:
    """The attributes for "SAME", "VALID", or a list with a pair per axis. ValueError for anything else."""
    if isinstance(padding, str):
        if padding not in _PADDINGS:
            raise _bad_padding(padding)
        return {"padding": padding}
    pairs = [tuple(int(p) for p in pair) for pair in padding or ()]
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"padding must be \"SAME\", \"VALID\" or a list of {rank} pairs, not {padding!r}.")
    if all(pair == (0, 0) for pair in pairs):
        return {"padding": "VALID"}
    return {"padding": "EXPLICIT", "explicit_paddings": [p for pair in pairs for p in pair]}


def explicit_pairs(attrs: dict[str, Any], rank: int) -> Pairs:
    """The pair per axis that the attributes give, zeros if none."""
    flat = attrs.get("explicit_paddings") or [0] * (2 * rank)
    return tuple((flat[2 * i], flat[2 * i + 1]) for i in range(rank))


def check_moves(op: Operation, names: Sequence[str], rank: int, first: bool) -> None:
    """ValueError if strides or dilations are of another rank, not positive, or move along batch or channels."""
    for name in names:
        values = op.attrs[name]
        if len(values) != rank:
            raise ValueError(f"{op.type} requires {rank} values of its attribute {name}, but got: {len(values)}")
        if min(values) < 1:
            raise ValueError(f"{op.type}: all {name} must be positive, got {list(values)}")
        if values[0] != 1 or values[1 if first else -1] != 1:
            raise ValueError(
                f"Current implementation does not yet support {name} in the batch and depth dimensions: {list(values)}"
            )


def check_padding(op: Operation) -> None:
    """ValueError if the padding is no word that is known."""
    padding = op.attrs["padding"]
    if padding not in _PADDINGS and not (padding == "EXPLICIT" and op.attrs.get("explicit_paddings")):
        raise _bad_padding(padding, op.type)


def with_rank(tensor: Tensor, rank: int, op: Operation) -> tuple[int | None, ...]:
    """The static sizes of an input that must be of `rank`. ValueError if it is of another."""
    shape = tensor.shape
    if shape.ndims is not None and shape.ndims != rank:
        raise ValueError(f"Shape must be rank {rank} but is rank {shape.ndims} for '{op.name}' (op: '{op.type}') with "
                         f"input shapes: {', '.join(str(t.shape) for t in op.inputs)}.")  # fmt: skip
    return shape.dims_or_none if shape.ndims is not None else (None,) * rank  # type: ignore[return-value]  # known here


def mirrored(a: Axis) -> Axis:
    """The geometry of the way back where the stride is 1: windows over the output. Its padding may be negative."""
    before = a.extent - 1 - a.before
    return Axis(a.out, a.window, 1, a.dilation, a.size, before, a.size - a.out + a.extent - 1 - before)


def wide(x: Any) -> Any:
    """The array in a type that BLAS and sums are exact enough in: float32 for the half types."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
