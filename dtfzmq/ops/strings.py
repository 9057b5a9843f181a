"""Strings: bytes, element by element. Text is UTF-8."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same
from dtfzmq.ops.fingerprints import fingerprint64, hash64, siphash
from dtfzmq.ops.patterns import full_matches, replaced
from dtfzmq.ops.shaping import invalid

Array = np.ndarray
TEXT = NO_GRAD("text")


def words(*items: bytes) -> Array:
    """A vector of strings."""
    out = np.empty(len(items), object)
    out[:] = items
    return out


def mapped(fn: Callable[[bytes], Any], x: Array, dtype: Any = object) -> Array:
    """fn of each string, in the shape of x."""
    out = np.empty(x.size, dtype)
    out[:] = [fn(item) for item in x.reshape(-1).tolist()]
    return out.reshape(x.shape)


def _each(fn: Callable[[bytes], bytes]) -> Callable[[Array], Array]:
    return lambda x: mapped(fn, x)


def _unit(unit: str) -> bool:
    """True for characters, False for bytes. Raises ValueError for another word."""
    if unit not in ("BYTE", "UTF8_CHAR"):
        raise ValueError(f"Value for attr 'unit' of \"{unit}\" is not in the list of allowed values: BYTE, UTF8_CHAR")
    return unit == "UTF8_CHAR"


_SAMPLES = [Sample(words(b" Ab ", b"", b"c\xc3\xa9"))]


def _ascii(fn: Callable[[bytes], bytes], wide: Callable[[str], str]) -> Any:
    def make(node: Any, env: Any) -> Any:
        if node.attrs["encoding"]:
            return _each(lambda s: wide(s.decode("utf-8", "replace")).encode())
        return _each(fn)

    return make


_lower = op(
    "StringLower", "input: string; encoding: str = '' -> output: string", shape=same,
    make=_ascii(bytes.lower, str.lower), grad=TEXT, samples=[*_SAMPLES, Sample(words(b"\xc3\x89"), encoding="utf-8")],
)  # fmt: skip
_upper = op(
    "StringUpper", "input: string; encoding: str = '' -> output: string", shape=same,
    make=_ascii(bytes.upper, str.upper), grad=TEXT, samples=_SAMPLES,
)  # fmt: skip
_strip = op(
    "StringStrip", "input: string -> output: string", shape=same, kernel=_each(bytes.strip), grad=TEXT,
    samples=_SAMPLES,
)  # fmt: skip


def _length_kernel(node: Any, env: Any) -> Any:
    if _unit(node.attrs["unit"]):
        return lambda x: mapped(lambda s: sum((c & 0xC0) != 0x80 for c in s), x, np.int32)
    return lambda x: mapped(len, x, np.int32)


_length = op(
    "StringLength", "input: string; unit: str = 'BYTE' -> output: int32", shape=same, make=_length_kernel, grad=TEXT,
    samples=[*_SAMPLES, Sample(words(b"\xc3\xa9a"), unit="UTF8_CHAR")],
)  # fmt: skip


def _substr_kernel(node: Any, env: Any) -> Any:
    characters = _unit(node.attrs["unit"])

    def one(s: bytes, pos: int, size: int, at: int) -> bytes:
        text: Any = s.decode("utf-8", "surrogateescape") if characters else s
        if not -len(text) <= pos <= len(text):
            raise invalid(f"pos {pos} out of range for string b'{s.decode('latin1')}' at index {at}")
        begin = pos if pos >= 0 else len(text) + pos
        part = text[begin:] if size < 0 else text[begin : begin + size]
        return part.encode("utf-8", "surrogateescape") if characters else part

    def substr(x: Array, pos: Array, size: Array) -> Array:
        if pos.shape != size.shape:
            raise invalid(f"pos and len should have the same shape, got: {list(pos.shape)} vs. {list(size.shape)}")
        items, starts, sizes = np.broadcast_arrays(x, pos, size)
        out = np.empty(items.size, object)
        parts = zip(items.reshape(-1).tolist(), starts.reshape(-1).tolist(), sizes.reshape(-1).tolist())
        out[:] = [one(s, p, n, i) for i, (s, p, n) in enumerate(parts)]
        return out.reshape(items.shape)

    return substr


def _substr_shape(n: Any) -> list[TensorShape]:
    n.inputs[1].shape.assert_is_compatible_with(n.inputs[2].shape)
    x, pos = n.inputs[0].shape, n.inputs[1].shape
    if x.ndims is None or pos.ndims is None:
        return [TensorShape(None)]
    if pos.ndims == 0:
        return [x]
    if x.ndims == 0:
        return [pos]
    return [TensorShape([_wider(a, b) for a, b in zip(*_padded(x, pos))])]


def _padded(x: TensorShape, y: TensorShape) -> tuple[list[Any], list[Any]]:
    a, b = list(x.as_list()), list(y.as_list())
    size = max(len(a), len(b))
    return [1] * (size - len(a)) + a, [1] * (size - len(b)) + b


def _wider(a: Any, b: Any) -> Any:
    if a is not None and b is not None and a != b and 1 not in (a, b):
        raise ValueError(f"Dimensions must be equal, but are {a} and {b}")
    return b if a == 1 else a if b == 1 or a is not None else b


_substr = op(
    "Substr", "input: string, pos: I, len: I; unit: str = 'BYTE' -> output: string", shape=_substr_shape,
    make=_substr_kernel, grad=TEXT,
    samples=[
        Sample(words(b"hello", b"world"), np.int32(1), np.int32(3)),
        Sample(words(b"hello", b"world"), np.array([1, -2]), np.array([2, 9])),
        Sample(words(b"h\xc3\xa9llo"), np.int32(1), np.int32(1), unit="UTF8_CHAR"),
    ],
)  # fmt: skip


def _join_shape(n: Any) -> list[TensorShape]:
    shape = TensorShape(None)
    for t in n.inputs:
        if t.shape.ndims != 0:
            shape = shape.merge_with(t.shape)
    whole = all(t.shape.ndims == 0 for t in n.inputs)
    return [TensorShape([]) if whole else shape]


def _join_kernel(node: Any, env: Any) -> Any:
    separator = node.attrs["separator"].encode()

    def join(*inputs: Array) -> Array:
        shapes = {x.shape for x in inputs if x.ndim}
        if len(shapes) > 1:
            raise invalid(f"Input shapes do not match: {' vs. '.join(str(list(s)) for s in sorted(shapes))}")
        shape = shapes.pop() if shapes else ()
        if not inputs:
            return np.array(b"", object)
        columns = [np.broadcast_to(x, shape).reshape(-1).tolist() for x in inputs]
        out = np.empty(int(np.prod(shape, dtype=np.int64)), object)
        out[:] = [separator.join(parts) for parts in zip(*columns)]
        return out.reshape(shape)

    return join


_string_join = op(
    "StringJoin", "inputs: string*; separator: str = '' -> output: string", shape=_join_shape, make=_join_kernel,
    grad=TEXT, samples=[Sample([words(b"a", b"b"), np.array(b"c", object)], separator="-")],
)  # fmt: skip


def _alone(what: str, x: Array) -> bytes:
    if x.ndim:
        raise invalid(f"{what} must be scalar, but received {list(x.shape)}")
    return bytes(x[()])


def _listed(fn: Callable[[list[bytes]], list[Any]], x: Array, dtype: Any = object) -> Array:
    """fn of all strings at once, in the shape of x."""
    out = np.empty(x.size, dtype)
    out[:] = fn(x.reshape(-1).tolist())
    return out.reshape(x.shape)


def _replace(x: Array, pattern: Array, rewrite: Array, every: bool) -> Array:
    old, new = _alone("Pattern", pattern), _alone("Rewrite", rewrite)
    return _listed(lambda texts: replaced(texts, old, new, every), x)


def _replace_kernel(node: Any, env: Any) -> Any:
    every = node.attrs["replace_global"]
    return lambda x, pattern, rewrite: _replace(x, pattern, rewrite, every)


_regex_replace = op(
    "RegexReplace", "input: string, pattern: string, rewrite: string; replace_global: bool = True -> output: string",
    shape=same, make=_replace_kernel, grad=TEXT,
    samples=[Sample(words(b"aXbX"), np.array(rb"(\w)X", object), np.array(rb"<\1\0>", object))],
)  # fmt: skip


def _full_match(x: Array, pattern: Array) -> Array:
    wanted = _alone("Pattern", pattern)
    return _listed(lambda texts: full_matches(texts, wanted), x, np.bool_)


_regex_full_match = op(
    "RegexFullMatch", "input: string, pattern: string -> output: bool", shape=same, kernel=_full_match, grad=TEXT,
    samples=[Sample(words(b"ab", b"abc"), np.array(b"a.", object))],
)  # fmt: skip


def _encode_kernel(node: Any, env: Any) -> Any:
    pad = node.attrs["pad"]
    return _each(lambda s: base64.urlsafe_b64encode(s) if pad else base64.urlsafe_b64encode(s).rstrip(b"="))


def _decode_base64(s: bytes) -> bytes:
    plain = s if len(s) % 4 else s[:-2] + s[-2:].rstrip(b"=")
    if re.fullmatch(rb"[A-Za-z0-9_-]*", plain) is None or len(plain) % 4 == 1:
        raise invalid("Invalid character found in base64.")
    try:
        return base64.urlsafe_b64decode(plain + b"=" * (-len(plain) % 4))
    except binascii.Error:
        raise invalid("Invalid character found in base64.") from None


_encode_base64 = op(
    "EncodeBase64", "input: string; pad: bool = False -> output: string", shape=same, make=_encode_kernel, grad=TEXT,
    samples=[*_SAMPLES, Sample(words(b"a"), pad=True)],
)  # fmt: skip
_decode_base64_op = op(
    "DecodeBase64", "input: string -> output: string", shape=same, kernel=_each(_decode_base64), grad=TEXT,
    samples=[Sample(words(b"YQ", b"YQ=="))],
)  # fmt: skip


def _bucket_kernel(fn: Callable[[bytes], int]) -> Any:
    def make(node: Any, env: Any) -> Any:
        count = node.attrs["num_buckets"]
        return lambda x: mapped(lambda s: fn(s) % count, x, np.int64)

    return make


def _strong_kernel(node: Any, env: Any) -> Any:
    first, second = node.attrs["key"]
    return _bucket_kernel(lambda s: siphash((first, second), s))(node, env)


_BUCKETS = [Sample(words(b"a", b"", b"hello world"), num_buckets=10)]
_hash_bucket = op(
    "StringToHashBucket", "string_tensor: string; num_buckets: int -> output: int64", shape=same,
    make=_bucket_kernel(hash64), grad=TEXT, samples=_BUCKETS,
)  # fmt: skip
_hash_bucket_fast = op(
    "StringToHashBucketFast", "input: string; num_buckets: int -> output: int64", shape=same,
    make=_bucket_kernel(fingerprint64), grad=TEXT, samples=_BUCKETS,
)  # fmt: skip
_hash_bucket_strong = op(
    "StringToHashBucketStrong", "input: string; num_buckets: int, key: list(int) -> output: int64", shape=same,
    make=_strong_kernel, grad=TEXT, samples=[Sample(words(b"a"), num_buckets=10, key=[1, 2])],
)  # fmt: skip


def lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Small letters: of ASCII, or of all letters with encoding "utf-8"."""
    return _lower(input, encoding=encoding, name=name)


def upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Capital letters: of ASCII, or of all letters with encoding "utf-8"."""
    return _upper(input, encoding=encoding, name=name)


def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Without white space at the ends."""
    return _strip(input, name=name)


def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """The number of bytes, or of characters with unit "UTF8_CHAR"."""
    _unit(unit)
    return _length(input, unit=unit, name=name)


def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """`len` bytes (or characters) from `pos`, counted from the end if negative; both broadcast with the input."""
    _unit(unit)
    return _substr(input, pos, len, unit=unit, name=name)


def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Tensor:
    """The strings of several tensors of one shape put together; scalars go with every element."""
    return _string_join([convert_to_tensor(x) for x in inputs], separator=separator, name=name)


def regex_replace(
    input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None
) -> Tensor:
    """Matches of a regular expression replaced (the first alone unless replace_global); \\1 is the first group.

    Patterns are RE2's. Fails at run time with InvalidArgumentError for an invalid one; with UnimplementedError for one
    that could take Python's ``re`` very long, where the extra ``regex`` is not installed.
    """
    return _regex_replace(input, pattern, rewrite, replace_global=replace_global, name=name)


def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Tensor:
    """Whether the whole string matches a regular expression, under the rules of regex_replace."""
    return _regex_full_match(input, pattern, name=name)


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Base64 for the web (- and _), with = at the end if `pad`."""
    return _encode_base64(input, pad=pad, name=name)


def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """What encode_base64 was given. Fails at run time for other characters."""
    return _decode_base64_op(input, name=name)


def _buckets(num_buckets: Any) -> int:
    if num_buckets is None or int(num_buckets) < 1:
        raise ValueError(f"Attr 'num_buckets' passed {num_buckets} less than minimum 1.")
    return int(num_buckets)


def string_to_hash_bucket(
    string_tensor: Any = None, num_buckets: Any = None, name: str | None = None, input: Any = None
) -> Tensor:
    """A number below num_buckets for each string, TensorFlow's."""
    text = input if string_tensor is None else string_tensor
    return _hash_bucket(text, num_buckets=_buckets(num_buckets), name=name)


def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Tensor:
    """A number below num_buckets for each string by FarmHash, TensorFlow's."""
    return _hash_bucket_fast(input, num_buckets=_buckets(num_buckets), name=name)


def string_to_hash_bucket_strong(input: Any, num_buckets: int, key: Sequence[int], name: str | None = None) -> Tensor:
    """A number below num_buckets for each string by SipHash under a key of two numbers, TensorFlow's."""
    if np.size(np.asarray(key, object)) != 2:
        raise invalid(f"Key must have 2 elements, not {key!r}.")
    return _hash_bucket_strong(input, num_buckets=_buckets(num_buckets), key=list(key), name=name)


