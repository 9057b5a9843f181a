"""Strings and numbers: one written as the other, bytes as tensors; strings joined along axes and by segments."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.arguments import scalar
from dtfzmq.ops.fingerprints import fingerprint64
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import axes_of, one_of
from dtfzmq.ops.samples import bits, ints, mat
from dtfzmq.ops.shaping import invalid
from dtfzmq.ops.strings import TEXT, Array, mapped, words


def _format(node: Any, kind: dtypes.DType) -> str:
    """The printf format of as_string. Raises InvalidArgumentError for one that the type does not have."""
    precision, width, fill = (node.attrs[k] for k in ("precision", "width", "fill"))
    scientific, shortest = node.attrs["scientific"], node.attrs["shortest"]
    real = kind.is_floating or kind.is_complex
    given = {"precision": precision > -1, "scientific format": scientific, "shortest format": shortest}
    for what, asked in given.items():
        if asked and not real:
            raise invalid(f"{what} not supported for datatype {kind.name}")
    if scientific and shortest:
        raise invalid("Cannot select both scientific and shortest notation")
    if len(fill) > 1:
        raise invalid("Fill string must be one or fewer characters")
    if fill not in ("", "0", "+", "-", " "):
        raise invalid(f"Fill argument not supported: {fill}")
    text = "%" + fill + (str(width) if width > -1 else "")
    if not real:
        return text + "d"
    return text + (f".{precision}" if precision > -1 else "") + ("e" if scientific else "g" if shortest else "f")


def _number(x: Any, text: str) -> str:
    return text % x if np.isfinite(x) else _plain(text) % x


def _as_string_kernel(node: Any, env: Any) -> Any:
    def as_string(x: Array) -> Array:
        kind = dtypes.of_array(x)
        text = _format(node, kind)
        flat = x.reshape(-1)
        items = (flat.astype(np.float64) if kind is dtypes.bfloat16 else flat).tolist()
        if kind.is_complex:
            found = [f"({_number(z.real, text)},{_number(z.imag, text)})".encode() for z in items]
        elif kind is dtypes.bool_:
            found = [b"true" if item else b"false" for item in items]
        else:
            found = items if kind is dtypes.string else [_number(item, text).encode() for item in items]
        out = np.empty(x.size, object)
        out[:] = found
        return out.reshape(x.shape)

    return as_string


def _plain(text: str) -> str:
    """The format for nan and infinity: width and side alone, no zeros in front."""
    found = re.match(r"%([-]?)[0+ ]?(\d*)", text)
    return f"%{found[1]}{found[2]}s" if found else "%s"


_as_string = op(
    "AsString",
    "input: T; precision: int = -1, scientific: bool = False, shortest: bool = False, width: int = -1, "
    "fill: str = '' -> output: string",
    shape=same, make=_as_string_kernel, grad=TEXT,
    samples=[
        Sample(mat(2)), Sample(ints(1, -2), width=4, fill="0"),
        Sample(bits(2)), Sample(mat(2, dtype="float32"), precision=2, scientific=True),
    ],
)  # fmt: skip


def _raw_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[0].np_dtype
    swapped = not node.attrs["little_endian"] and to.itemsize > 1
    stored = to.newbyteorder(">") if swapped else to

    def decode(x: Array) -> Array:
        items = x.reshape(-1).tolist()
        if not items:
            return np.zeros((*x.shape, 0), to)
        size = len(items[0])
        for i, item in enumerate(items):
            if len(item) != size:
                raise invalid(
                    "DecodeRaw requires input strings to all be the same size, but element "
                    f"{i} has size {len(item)} != {size}"
                )
        if size % to.itemsize:
            raise invalid(
                f"Input to DecodeRaw has length {size} that is not a multiple of {to.itemsize}, the size of {to.name}"
            )
        return np.frombuffer(b"".join(items), stored).astype(to).reshape((*x.shape, size // to.itemsize))

    return decode


_decode_raw = op(
    "DecodeRaw", "bytes: string; out_type: type, little_endian: bool = True -> output: out_type",
    shape=lambda n: [n.inputs[0].shape.concatenate(TensorShape([None]))], make=_raw_kernel,
    grad=NO_GRAD("of strings"),
    samples=[
        Sample(words(b"\x01\x00\x02\x00", b"abcd"), out_type=dtypes.int16),
        Sample(words(b"\x00\x01"), out_type=dtypes.int16, little_endian=False),
        Sample(np.array(b"abc", object), out_type=dtypes.uint8),
    ],
)  # fmt: skip
_FLOAT = re.compile(rb"\s*[+-]?(inf(inity)?|nan|0x[0-9a-f.]+(p[+-]?\d+)?|(\d+\.?\d*|\.\d+)(e[+-]?\d+)?)\s*", re.I)
_INT = re.compile(rb"\s*[-+]?\d+\s*")


def _number_kernel(node: Any, env: Any) -> Any:
    to = node.dtypes[0]

    def one(s: bytes) -> Any:
        if to.is_floating:
            if _FLOAT.fullmatch(s):
                return float.fromhex(s.decode()) if b"x" in s.lower() else float(s)
        elif _INT.fullmatch(s) and to.min <= int(s) <= to.max:
            return int(s)
        raise invalid(f"StringToNumberOp could not correctly convert string: {s.decode('utf-8', 'replace')}")

    return lambda x: mapped(one, x, to.np_dtype)


_string_to_number = op(
    "StringToNumber", "string_tensor: string; out_type: type = float32 -> output: out_type", shape=same,
    make=_number_kernel, grad=NO_GRAD("of strings"),
    samples=[Sample(words(b"1.5", b" -2 ")), Sample(words(b"7"), out_type=dtypes.int64)],
)  # fmt: skip


def _reduce_shape(n: Any) -> list[TensorShape]:
    known, axis = dims(n.inputs[0]), constant_value(n.inputs[1])
    if known is None or axis is None:
        return [UNKNOWN]
    for a in np.asarray(axis).reshape(-1).tolist():
        if not -len(known) <= a < len(known):
            raise ValueError(f"Invalid reduction dimension {a} for input with {len(known)} dimensions.")
    gone = axes_of(axis, len(known))
    if n.attrs["keep_dims"]:
        return [TensorShape([1 if i in gone else d for i, d in enumerate(known)])]
    return [TensorShape([d for i, d in enumerate(known) if i not in gone])]


def _reduce_kernel(node: Any, env: Any) -> Any:
    separator, keep = node.attrs["separator"].encode(), node.attrs["keep_dims"]

    def reduce(x: Array, axis: Array) -> Array:
        for a in axis.reshape(-1).tolist():
            if not -x.ndim <= a < x.ndim:
                raise errors.OutOfRangeError(
                    None, None, f"Invalid reduction dimension {a} for input with {x.ndim} dimension(s)"
                )
        axes = axes_of(axis, x.ndim)
        if len(axes) < axis.size:
            raise invalid(f"A reduction dimension stands twice in {axis.tolist()}")
        kept = [i for i in range(x.ndim) if i not in axes]
        moved = np.transpose(x, [*kept, *reversed(axes)])  # the first axis named is joined first
        sizes = [x.shape[i] for i in kept]
        rows = int(np.prod(sizes, dtype=np.int64))
        columns = int(np.prod([x.shape[i] for i in axes], dtype=np.int64))
        out = np.empty(rows, object)
        out[:] = [separator.join(row) for row in moved.reshape(rows, columns).tolist()]
        return out.reshape([1 if i in axes else d for i, d in enumerate(x.shape)] if keep else sizes)

    return reduce


_GRID = np.array([[b"a", b"b"], [b"c", b"d"]], object)
_reduce_join = op(
    "ReduceJoin",
    "inputs: string, reduction_indices: int32; keep_dims: bool = False, separator: str = '' -> output: string",
    shape=_reduce_shape, make=_reduce_kernel, grad=TEXT,
    samples=[Sample(_GRID, ints(1), separator="-"), Sample(_GRID, ints(1, 0)), Sample(_GRID, ints(0), keep_dims=True)],
)  # fmt: skip


def _segment_join_kernel(node: Any, env: Any) -> Any:
    separator = node.attrs["separator"].encode()

    def join(x: Array, ids: Array, count: Array) -> Array:
        number = scalar("num_segments", count)
        if number < 0:
            raise invalid(f"num_segments must be non-negative, got {number}")
        if not x.ndim or x.shape[: ids.ndim] != ids.shape:
            raise invalid(f"inputs of shape {list(x.shape)} do not start with the shape {list(ids.shape)} of the ids")
        if ids.size and (ids.min() < 0 or ids.max() >= number):
            raise invalid(f"segment_ids must be in [0, {number}), but reach from {ids.min()} to {ids.max()}")
        rest = x.shape[ids.ndim :]
        width = math.prod(rest)
        out = np.full(number * width, b"", object)
        cells: dict[int, list[bytes]] = {}
        for row, i in zip(x.reshape((ids.size, width)).tolist(), ids.reshape(-1).tolist()):
            for column, item in enumerate(row):
                cells.setdefault(i * width + column, []).append(item)
        for place, items in cells.items():
            out[place] = separator.join(items)
        return out.reshape((number, *rest))

    return join


def _segment_join_shape(n: Any) -> list[TensorShape]:
    known, ids, count = dims(n.inputs[0]), dims(n.inputs[1]), constant_value(n.inputs[2])
    if known is None or ids is None:
        return [UNKNOWN]
    return [TensorShape([None if count is None else int(count), *known[len(ids) :]])]


_segment_join = op(
    "UnsortedSegmentJoin", "inputs: string, segment_ids: I, num_segments: I2; separator: str = '' -> output: string",
    shape=_segment_join_shape, make=_segment_join_kernel, grad=TEXT,
    samples=[
        Sample(words(b"a", b"b", b"c"), ints(0, 1, 0), np.int32(3), separator=":"),
        Sample(_GRID, ints(1, 1), np.int32(2)),
    ],
)  # fmt: skip


def _fingerprint(data: Array) -> Array:
    if data.dtype == object:
        items = data.reshape(-1).tolist()
    else:
        rows = np.ascontiguousarray(data)
        items = [row.tobytes() for row in rows.reshape((len(rows), -1))]
    numbers = np.array([fingerprint64(item) for item in items], "<u8")
    return numbers.view(np.uint8).reshape((len(items), 8))


_fingerprint_op = op(
    "Fingerprint", "data: T -> fingerprint: uint8", kernel=_fingerprint, grad=NO_GRAD("a hash"),
    shape=lambda n: [TensorShape([(dims(n.inputs[0]) or (None,))[0], 8])],
    samples=[Sample(words(b"ab", b"c")), Sample(ints(1, 2))],
)  # fmt: skip
_ENCODINGS = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}


def _transcode_kernel(node: Any, env: Any) -> Any:
    source, to, how = (node.attrs[k] for k in ("input_encoding", "output_encoding", "errors"))
    stand_in = chr(node.attrs["replacement_char"])
    control = node.attrs["replace_control_characters"]

    def one(s: bytes) -> bytes:
        try:
            text = s.decode(_ENCODINGS.get(source, source), "strict" if how == "strict" else how)
        except UnicodeDecodeError:
            raise invalid("Invalid formatting on input string") from None
        text = text.replace("\ufffd", stand_in) if how == "replace" else text
        if control:
            text = re.sub(r"[\x00-\x1f\x7f-\x9f]", stand_in, text)
        return text.encode(_ENCODINGS[to], "replace")

    return lambda x: mapped(one, x)


_transcode = op(
    "UnicodeTranscode",
    "input: string; input_encoding: str, output_encoding: str, errors: str = 'replace', "
    "replacement_char: int = 65533, replace_control_characters: bool = False -> output: string",
    shape=same, make=_transcode_kernel, grad=TEXT,
    samples=[Sample(words(b"a\xff"), input_encoding="UTF-8", output_encoding="UTF-16-BE")],
)  # fmt: skip


def as_string(
    input: Any, precision: int = -1, scientific: bool = False, shortest: bool = False, width: int = -1, fill: str = "",
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Numbers as text, by printf's %d, %f, %e (scientific) or %g (shortest), with its precision, width and fill."""
    x = convert_to_tensor(input, name="input")
    return _as_string(
        x, precision=precision, scientific=scientific, shortest=shortest, width=width,
        fill=fill, name=name,
    )  # fmt: skip


def decode_raw(
    input_bytes: Any = None, out_type: Any = None, little_endian: bool = True, name: str | None = None,
    bytes: Any = None,
) -> Tensor:  # fmt: skip
    """The bytes of each string as numbers along a new last axis; all strings are of one length."""
    text = bytes if input_bytes is None else input_bytes
    return _decode_raw(text, out_type=dtypes.as_dtype(out_type), little_endian=little_endian, name=name)


def string_to_number(
    string_tensor: Any = None, out_type: Any = dtypes.float32, name: str | None = None, input: Any = None
) -> Tensor:
    """The number that each string writes. Fails at run time for a string that is none."""
    text = input if string_tensor is None else string_tensor
    return _string_to_number(text, out_type=dtypes.as_dtype(out_type), name=name)


def reduce_join(
    inputs: Any, axis: Any = None, keep_dims: bool | None = None, separator: str = "", name: str | None = None,
    reduction_indices: Any = None, keepdims: bool | None = None,
) -> Tensor:  # fmt: skip
    """The strings along `axis` (the first one named is joined first; all, the last first, if None) put together."""
    x = convert_to_tensor(inputs)
    axis = one_of("axis", axis, "reduction_indices", reduction_indices)
    keep = bool(one_of("keepdims", keepdims, "keep_dims", keep_dims))
    if axis is None:
        known = dims(x)
        last = raw.Rank(x) - 1 if known is None else np.int32(len(known) - 1)
        axis = raw.Range(last, np.int32(-1), np.int32(-1)) if known is None else np.arange(last, -1, -1, dtype=np.int32)
    elif not isinstance(axis, Tensor):
        axis = np.asarray(axis, np.int32)
    return _reduce_join(x, axis, keep_dims=keep, separator=separator, name=name)


def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Tensor:
    """The strings of each id below num_segments put together in order; the empty string where there is none."""
    return _segment_join(inputs, segment_ids, num_segments, separator=separator, name=name)


def fingerprint(data: Any, method: str = "farmhash64", name: str | None = None) -> Tensor:
    """Eight bytes for each row (or string), FarmHash's. Raises ValueError for another method."""
    if method != "farmhash64":
        raise ValueError(f"Unsupported fingerprint method: {method}")
    return _fingerprint_op(data, name=name)


def unicode_transcode(
    input: Any, input_encoding: str, output_encoding: str, errors: str = "replace", replacement_char: int = 65533,
    replace_control_characters: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Text in another encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE". errors: "strict", "replace" or "ignore"."""
    if output_encoding not in _ENCODINGS:
        raise ValueError(f"output_encoding must be one of {', '.join(_ENCODINGS)}, not {output_encoding!r}.")
    return _transcode(
        input, input_encoding=input_encoding, output_encoding=output_encoding, errors=errors,
        replacement_char=replacement_char, replace_control_characters=replace_control_characters, name=name,
    )  # fmt: skip
