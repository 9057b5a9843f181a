"""Records: fields of comma-separated text, tensors written as bytes, compressed bytes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import UNKNOWN
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import same, scalar
from dtfzmq.ops.protos import tensor_from_bytes, tensor_to_bytes
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import mat
from dtfzmq.ops.shaping import invalid

Array = Any
_TEXT = NO_GRAD("bytes, not numbers")


def _fields(record: bytes, delim: bytes, quotes: bool) -> list[bytes]:
    """The fields of a record. A field in quotes may hold delimiters, and quotes written twice."""
    out: list[bytes] = []
    at, end = 0, len(record)
    while True:
        if quotes and record[at : at + 1] == b'"':
            at += 1
            parts = []
            while True:
                close = record.find(b'"', at)
                if close < 0:
                    raise invalid("Quoted field has to end with quote followed by delim or end")
                parts.append(record[at:close])
                at = close + 1
                if record[at : at + 1] != b'"':
                    break
                parts.append(b'"')
                at += 1
            if at < end and record[at : at + 1] != delim:
                raise invalid("Quote inside a string has to be escaped by another quote")
            out.append(b"".join(parts))
        else:
            stop = record.find(delim, at)
            stop = end if stop < 0 else stop
            field = record[at:stop]
            if quotes and (b'"' in field or b"\n" in field or b"\r" in field):
                raise invalid("Unquoted fields cannot have quotes/CRLFs inside")
            out.append(field)
            at = stop
        if at >= end:
            return out
        at += 1


def _number(text: bytes, kind: np.dtype[Any], where: str) -> Any:
    try:
        return kind.type(int(text) if kind.kind == "i" else float(text))
    except (ValueError, OverflowError):
        raise invalid(f"{where} is not a valid {kind.name}: {text.decode('latin1')}") from None


def _csv_make(node: Any, env: Any) -> Any:
    attrs = node.attrs
    delim, na = attrs["field_delim"].encode(), attrs["na_value"].encode()
    quotes, chosen = attrs["use_quote_delim"], attrs["select_cols"] or None
    kinds = [d.np_dtype for d in node.dtypes]

    def kernel(records: Array, *defaults: Array) -> Any:
        flat = records.reshape(-1).tolist()
        out = [np.empty(len(flat), kind) for kind in kinds]
        for r, record in enumerate(flat):
            fields = _fields(record, delim, quotes)
            if chosen is not None and max(chosen) < len(fields):
                fields = [fields[i] for i in chosen]
            if len(fields) != len(kinds):
                raise invalid(f"Expect {len(kinds)} fields but have {len(fields)} in record {r}")
            for i, (field, default, kind) in enumerate(zip(fields, defaults, kinds)):
                if field and field != na:
                    out[i][r] = field if kind.hasobject else _number(field, kind, f"Field {i} in record {r}")
                elif default.size == 1:
                    out[i][r] = default.reshape(-1)[0]
                else:
                    raise invalid(f"Field {i} is required but missing in record {r}!")
        made = tuple(x.reshape(records.shape) for x in out)
        return made[0] if len(made) == 1 else made

    return kernel


_CSV = np.array([b"1,2.5,x", b'3,,"a,""b"'], object)
op(
    "DecodeCSV",
    "records: string, record_defaults: any*; OUT_TYPE: list(type), field_delim: str, "
    "use_quote_delim: bool = True, na_value: str = '', select_cols: list(int)? = None -> output: OUT_TYPE*",
    shape=same, make=_csv_make, grad=_TEXT,
    samples=[
        Sample(
            _CSV, [np.array([0], np.int32), np.array([1], np.float32), np.array([b""], object)],
            OUT_TYPE=[dtypes.int32, dtypes.float32, dtypes.string], field_delim=",",
        ),
        Sample(
            _CSV, [np.array([0], np.int32)], OUT_TYPE=[dtypes.int32], field_delim=",",
            fails=errors.InvalidArgumentError,
        ),
    ],
)  # fmt: skip

def _serialize(x: Array) -> Array:
    return np.array(tensor_to_bytes(x), object)


def _parse_make(node: Any, env: Any) -> Any:
    want = node.dtypes[0]

    def kernel(serialized: Array) -> Array:
        try:
            out = tensor_from_bytes(bytes(np.asarray(serialized).item()))
        except (IndexError, ValueError, TypeError):
            raise invalid(
                "Could not parse `serialized` as TensorProto: it is not what serialize_tensor writes."
            ) from None
        kind = dtypes.of_array(out).name
        if kind != want.name:
            raise invalid(f"Type mismatch between parsed tensor ({kind}) and dtype ({want.name})")
        return out

    return kernel


op(
    "SerializeTensor", "tensor: T -> serialized: string", shape=scalar, kernel=_serialize, grad=_TEXT,
    samples=[Sample(mat(2, 3)), Sample(np.array([b"a", b"bc"], object))],
)  # fmt: skip
op(
    "ParseTensor", "serialized: string; out_type: type -> output: out_type", shape=lambda n: [UNKNOWN],
    make=_parse_make, grad=_TEXT,
    samples=[
        Sample(_serialize(mat(2, 3)), out_type=dtypes.float64),
        Sample(_serialize(np.array([b"a", b""], object)), out_type=dtypes.string),
        Sample(_serialize(mat(2)), out_type=dtypes.int32, fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


def _inflate_make(node: Any, env: Any) -> Any:
    how: dict[str, Callable[[bytes], bytes]] = {"": bytes, "ZLIB": zlib.decompress, "GZIP": gzip.decompress}
    undo = how[node.attrs["compression_type"]]

    def kernel(x: Array) -> Array:
        out = np.empty(x.size, object)
        try:
            out[:] = [undo(v) for v in x.reshape(-1).tolist()]
        except (OSError, EOFError, zlib.error) as error:
            raise invalid(f"Inflating failed with {error}") from None
        return out.reshape(x.shape)

    return kernel


def _compression(n: Operation) -> list[Any]:
    if n.attrs["compression_type"] not in ("", "ZLIB", "GZIP"):
        raise ValueError(f"Only ZLIB, GZIP or NONE are supported compressions, not {n.attrs['compression_type']!r}.")
    return [n.inputs[0].shape]


op(
    "DecodeCompressed", "bytes: string; compression_type: str = '' -> output: string", shape=_compression,
    make=_inflate_make, grad=_TEXT,
    samples=[
        Sample(np.array([zlib.compress(b"abc")], object), compression_type="ZLIB"),
        Sample(np.array([gzip.compress(b"abc")], object), compression_type="GZIP"),
        Sample(np.array([b"abc"], object), compression_type="GZIP", fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip

_CSV_TYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.string)


def decode_csv(
    records: Any, record_defaults: Any, field_delim: str = ",", use_quote_delim: bool = True, name: str | None = None,
    na_value: str = "", select_cols: Any = None,
) -> list[Tensor]:  # fmt: skip
    """The columns of records of comma-separated text, of the types of `record_defaults`, one for each column.

    An empty field (or `na_value`) takes the default; a default without elements makes the column required. Raises
    ValueError for other types, or if `select_cols` does not rise or is not as long as the defaults.
    """
    defaults = [convert_to_tensor(d) for d in record_defaults]
    kinds = [d.dtype.base_dtype for d in defaults]
    for kind in kinds:
        if kind not in _CSV_TYPES:
            raise TypeError(f"decode_csv knows columns of float32, float64, int32, int64 and string, not {kind.name}.")
    if select_cols is not None:
        if any(a >= b for a, b in zip(select_cols, select_cols[1:])) or any(c < 0 for c in select_cols):
            raise ValueError("select_cols is not strictly increasing, from 0 on.")
        if len(select_cols) != len(defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
    made = raw.DecodeCSV(
        records, defaults, OUT_TYPE=kinds, field_delim=field_delim, use_quote_delim=use_quote_delim, na_value=na_value,
        select_cols=None if select_cols is None else list(select_cols), name=name,
    )  # fmt: skip
    return list(made)


def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """A tensor as bytes, in the format of TensorFlow's files."""
    return raw.SerializeTensor(tensor, name=name)


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """The tensor of which serialize_tensor made these bytes. Fails at run time if it has another type."""
    return raw.ParseTensor(serialized, out_type=dtypes.as_dtype(out_type), name=name)


def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Bytes that were compressed by "ZLIB" or "GZIP" (or not at all), as they were before."""
    return raw.DecodeCompressed(bytes, compression_type=compression_type, name=name)
