"""Texts as code points and back, taken apart into characters, bytes and n-grams, where the answer is dense."""

from __future__ import annotations

import codecs
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import dims
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints
from dtfzmq.ops.shaping import invalid
from dtfzmq.ops.strings import TEXT, Array, words

_OUTPUTS = ("UTF-8", "UTF-16-BE", "UTF-32-BE")
_ERRORS = ("strict", "replace", "ignore")


class _Bad(threading.local):
    """The byte ranges of the text that this thread decodes which are no character, in their order."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def note(self, error: UnicodeError) -> tuple[str, int]:
        """Remember one, with a character in its place."""
        assert isinstance(error, UnicodeDecodeError)
        self.ranges.append((error.start, error.end))
        return "?", error.end


_bad = _Bad()
codecs.register_error("dtfzmq.note", _bad.note)


def _codec(encoding: str) -> str:
    """The encoding as Python names it. Raises InvalidArgumentError for one that is not known."""
    try:
        name = codecs.lookup(encoding).name
        b"a".decode(encoding, "dtfzmq.note")
    except (LookupError, UnicodeError):
        raise invalid(f"Could not create converter for input encoding: {encoding}") from None
    return name


def _ordered(text: bytes, codec: str) -> tuple[str, int]:
    """The codec with the order of its bytes, and how many at the beginning say it; else the highest is first."""
    if codec not in ("utf-16", "utf-32"):
        return codec, 0
    width = int(codec[4:]) // 8
    for order in ("le", "be"):
        if text.startswith("\ufeff".encode(f"{codec}-{order}")):
            return f"{codec}-{order}", width
    return f"{codec}-be", 0


def _points(text: bytes, codec: str, bad: int | None, control: bool) -> tuple[list[int], list[int]]:
    """The code points of a text and where they begin; `bad` stands for what is none, None leaves it out."""
    codec, skipped = _ordered(text, codec)
    _bad.ranges = []
    chars = text[skipped:].decode(codec, "dtfzmq.note")
    ranges = iter([*_bad.ranges, (-1, -1)])
    start, end = next(ranges)
    points: list[int] = []
    places: list[int] = []
    at = 0
    for char in chars:
        place = at + skipped if at else 0
        point: int | None = ord(char)
        if at == start:
            point, at = bad, end
            start, end = next(ranges)
        else:
            at += len(char.encode(codec))
            point = bad if control and ord(char) < 32 else point
        if point is not None:
            points.append(point)
            places.append(place)
    return points, places


def _stand_in(node: Any) -> int:
    point: int = node.attrs["replacement_char"]
    if not 0 <= point < 0x110000:
        raise invalid(f"replacement_char out of unicode codepoint range: {point}")
    return point


def _decode_kernel(node: Any, env: Any) -> Any:
    how, control = node.attrs["errors"], node.attrs["replace_control_characters"]
    codec, stand_in = _codec(node.attrs["input_encoding"]), _stand_in(node)
    bad = None if how == "ignore" else stand_in

    def decode(x: Array) -> tuple[Array, Array, Array]:
        rows = []
        for text in x.reshape(-1).tolist():
            rows.append(_points(text, codec, bad, control))
            if how == "strict" and _bad.ranges:
                raise invalid("Invalid formatting on input string")
        splits = np.cumsum([0, *(len(points) for points, _ in rows)])
        points, places = ([p for row in rows for p in row[i]] for i in (0, 1))
        return splits.astype(np.int64), np.array(points, np.int32), np.array(places, np.int64)

    return decode


def _encode_kernel(node: Any, env: Any) -> Any:
    encoding, how, stand_in = node.attrs["output_encoding"], node.attrs["errors"], _stand_in(node)

    def char(point: int) -> str:
        if 0 <= point < 0x110000 and not 0xD800 <= point < 0xE000:
            return chr(point)
        if how == "strict":
            raise invalid("Code point is out of range for Unicode, or is a surrogate.")
        return "" if how == "ignore" else chr(stand_in)

    def encode(points: Array, splits: Array) -> Array:
        numbers, edges = points.tolist(), splits.tolist()
        out = np.empty(len(edges) - 1, object)
        out[:] = ["".join(map(char, numbers[a:b])).encode(encoding) for a, b in zip(edges, edges[1:])]
        return out

    return encode


def _ngrams_kernel(node: Any, env: Any) -> Any:
    separator, left, right = (node.attrs[k].encode() for k in ("separator", "left_pad", "right_pad"))
    widths, pad, keep = (node.attrs[k] for k in ("ngram_widths", "pad_width", "preserve_short_sequences"))

    def joined(row: list[bytes]) -> list[bytes]:
        found = []
        for width in widths:
            more = width - 1 if pad < 0 else min(pad, width - 1)
            full = [left] * more + row + [right] * more
            found += [separator.join(full[i : i + width]) for i in range(len(full) - width + 1)]
        if row and keep and not found:
            found = [separator.join([left] * max(pad, 0) + row + [right] * max(pad, 0))]
        return found

    def ngrams(data: Array, splits: Array) -> tuple[Array, Array]:
        texts, edges = data.tolist(), splits.tolist()
        rows = [joined(texts[a:b]) for a, b in zip(edges, edges[1:])]
        flat = [gram for row in rows for gram in row]
        out = np.empty(len(flat), object)
        out[:] = flat
        return out, np.cumsum([0, *map(len, rows)]).astype(splits.dtype)

    return ngrams


def _rows_shape(n: Any) -> list[TensorShape]:
    count = (dims(n.inputs[1]) or [None])[0]
    return [TensorShape([None if count is None else count - 1])]


_HOW = "errors: str = 'replace', replacement_char: int = 65533"
op(
    "UnicodeDecodeWithOffsets",
    f"input: string; input_encoding: str, {_HOW}, replace_control_characters: bool = False -> "
    "row_splits: int64, char_values: int32, char_to_byte_starts: int64",
    shape=lambda n: [TensorShape([None])] * 3, make=_decode_kernel, grad=TEXT,
    samples=[
        Sample(words(b"a\xc3\xa9\xff", b""), input_encoding="UTF-8"),
        Sample(words(b"\x00a\tb"), input_encoding="UTF-16-BE", errors="ignore"),
        Sample(words(b"\xff"), input_encoding="UTF-8", errors="strict", fails=type(invalid(""))),
    ],
)  # fmt: skip
op(
    "UnicodeEncode", f"input_values: int32, input_splits: I; output_encoding: str, {_HOW} -> output: string",
    shape=_rows_shape, make=_encode_kernel, grad=TEXT,
    samples=[Sample(ints(97, 233, -1), ints(0, 2, 3), output_encoding="UTF-8")],
)  # fmt: skip
op(
    "StringNGrams",
    "data: string, data_splits: I; separator: str, ngram_widths: list(int), left_pad: str, right_pad: str, "
    "pad_width: int, preserve_short_sequences: bool -> ngrams: string, ngrams_splits: I",
    shape=lambda n: [TensorShape([None]), n.inputs[1].shape], make=_ngrams_kernel, grad=TEXT,
    samples=[
        Sample(words(b"a", b"b", b"c"), ints(0, 3), separator=" ", ngram_widths=[1, 2], left_pad="<", right_pad=">",
               pad_width=-1, preserve_short_sequences=False),
    ],
)  # fmt: skip


def _one_text(input: Any) -> Tensor:
    """A scalar. Raises ValueError for texts of another rank, whose parts would be ragged."""
    x = convert_to_tensor(input, dtype=None if isinstance(input, Tensor) else dtypes.string, name="input")
    if x.shape.ndims != 0:
        raise ValueError(f"Only a scalar can be taken apart, not {x}: there are no ragged tensors here.")
    return x


def _decoded(input: Any, encoding: str, errors: str, stand_in: int, control: bool) -> tuple[Tensor, Tensor]:
    if errors not in _ERRORS:
        raise ValueError(f"errors must be one of {_ERRORS}, not {errors!r}.")
    _, points, places = raw.UnicodeDecodeWithOffsets(
        _one_text(input), input_encoding=encoding, errors=errors, replacement_char=stand_in,
        replace_control_characters=control,
    )  # fmt: skip
    return points, places


def unicode_decode(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The code points of a text, a scalar, as int32. `errors` says what becomes of bytes that are no character.

    "replace" puts `replacement_char`, "ignore" leaves them out, "strict" fails the step. Raises ValueError for texts of
    another rank.
    """
    return _decoded(input, input_encoding, errors, replacement_char, replace_control_characters)[0]


def unicode_decode_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False, name: str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """What unicode_decode gives, and the byte at which each character begins."""
    return _decoded(input, input_encoding, errors, replacement_char, replace_control_characters)


def _characters(points: Tensor, encoding: str) -> Tensor:
    edges = raw.Range(0, raw.Shape(points)[0] + 1, 1)
    return raw.UnicodeEncode(points, edges, output_encoding=encoding, errors="replace", replacement_char=0xFFFD)


def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> Tensor:
    """The characters of a text, a scalar, each a text of its own; see unicode_decode."""
    return _characters(_decoded(input, input_encoding, errors, replacement_char, False)[0], input_encoding)


def unicode_split_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """What unicode_split gives, and the byte at which each character begins."""
    points, places = _decoded(input, input_encoding, errors, replacement_char, False)
    return _characters(points, input_encoding), places


def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Tensor:
    """Texts of the code points along the last axis: "UTF-8", "UTF-16-BE" or "UTF-32-BE".

    Raises ValueError for another encoding, and for scalars or tensors of unknown rank.
    """
    if output_encoding not in _OUTPUTS or errors not in _ERRORS:
        given = f"{output_encoding!r} and {errors!r}"
        raise ValueError(f"output_encoding must be in {_OUTPUTS} and errors in {_ERRORS}, not {given}.")
    points = convert_to_tensor(input, name="input")
    if not points.shape.ndims:
        raise ValueError(f"unicode_encode needs code points of known rank, at least 1, not {points}.")
    with points.graph.name_scope(name or "UnicodeEncode"):
        shape = raw.Shape(points)
        lead = shape[:-1]
        edges = raw.Range(0, raw.Prod(lead, np.array([0], np.int32)) + 1, 1) * shape[-1]
        flat = raw.Reshape(raw.Cast(points, DstT=dtypes.int32), np.array([-1], np.int32))
        texts = raw.UnicodeEncode(
            flat, edges, output_encoding=output_encoding, errors=errors, replacement_char=replacement_char
        )
        out: Tensor = raw.Reshape(texts, lead)
        out.set_shape(points.shape[:-1])
        return out


def bytes_split(input: Any, name: str | None = None) -> Tensor:
    """The bytes of a text, a scalar, each a text of its own. Raises ValueError for texts of another rank."""
    text = raw.Reshape(_one_text(input), np.array([1], np.int32))
    return raw.StringSplit(text, "", skip_empty=False, name=name)[1]


def _pads(given: Any) -> tuple[str, str]:
    pair = ("", "") if given is None else given if isinstance(given, (list, tuple)) else (given, given)
    if not all(isinstance(p, (str, bytes)) for p in pair):
        raise TypeError("pad_values must be a string, tuple of strings, or None.")
    left, right = (p if isinstance(p, str) else p.decode() for p in pair)
    return left, right


def ngrams(
    data: Any, ngram_width: int | Sequence[int], separator: str = " ", pad_values: Any = None,
    padding_width: int | None = None, preserve_short_sequences: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Each run of `ngram_width` texts along the last axis, joined by `separator`; of several widths one after another.

    `pad_values`, one text or a pair, stand `padding_width` times (width - 1 if not given) before and behind. With
    `preserve_short_sequences` a row that is too short gives one text of all that it has. Raises ValueError and
    TypeError for arguments that do not go together.
    """
    left, right = _pads(pad_values)
    if padding_width is not None and padding_width < 1:
        raise ValueError("padding_width must be greater than 0.")
    if padding_width is not None and pad_values is None:
        raise ValueError("pad_values must be provided if padding_width is set.")
    texts = convert_to_tensor(data, dtypes.string, name="data")
    if not texts.shape.ndims:
        raise ValueError(f"ngrams needs data of known rank, at least 1, not {texts}.")
    widths: list[int] = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
    if any(w < 1 for w in widths):
        raise ValueError(f"All ngram_widths must be greater than 0. Got {ngram_width}")
    pad = 0 if pad_values is None else -1 if padding_width is None else padding_width
    with texts.graph.name_scope(name or "StringNGrams"):
        shape = raw.Shape(texts)
        lead = shape[:-1]
        edges = raw.Range(0, raw.Prod(lead, np.array([0], np.int32)) + 1, 1) * shape[-1]
        found = raw.StringNGrams(
            raw.Reshape(texts, np.array([-1], np.int32)), edges, separator=separator, ngram_widths=widths,
            left_pad=left, right_pad=right, pad_width=pad, preserve_short_sequences=preserve_short_sequences,
        )[0]  # fmt: skip
        out: Tensor = raw.Reshape(found, raw.ConcatV2([lead, np.array([-1], np.int32)], 0))
        out.set_shape(texts.shape[:-1].concatenate([None]))
        return out


__all__ = [
    "bytes_split", "ngrams", "unicode_decode", "unicode_decode_with_offsets", "unicode_encode", "unicode_split",
    "unicode_split_with_offsets",
]  # fmt: skip
