"""Summaries: what a step tells of itself, as the bytes of TensorFlow's protocol buffer Summary.

Sources: the kernels in tensorflow/core/kernels (summary_op.cc, summary_image_op.cc, summary_audio_op.cc,
summary_tensor_op.cc), core/lib/histogram and core/lib/wav, and the Python of tensorflow/python/summary.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.graph.graph import Operation
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.graph.shape_rules import scalar
from dtfzmq.ops.image_files import NO_PILLOW, encoded
from dtfzmq.ops.protos import block, parts, tensor_to_bytes, varint
from dtfzmq.ops.samples import mat

Array = Any
_BYTES = NO_GRAD("a record of values")
_LARGEST = sys.float_info.max


def _invalid(text: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, text)


def _value(tag: bytes, content: bytes, after: bytes = b"") -> bytes:
    """One value of a Summary, whose `content` is a field."""
    return block(1, (block(1, tag) if tag else b"") + content + after)


def _count(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def _double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value) if value else b""


def _float(field: int, value: np.float32) -> bytes:
    return varint(field << 3 | 5) + value.tobytes()


def _one(tag: Any, refused: str) -> bytes:
    """The text that a tensor alone is. InvalidArgumentError with the text `refused` if it is more than that."""
    if np.ndim(tag):
        raise _invalid(refused)
    found: bytes = np.asarray(tag, object).item()
    return found


def _shape(x: Array) -> str:
    return "[" + ",".join(map(str, np.shape(x))) + "]"


# -- scalars -----------------------------------------------------------------------------------------------------------


def _scalars(tags: Array, values: Array) -> bytes:
    names, numbers = np.asarray(tags, object), np.asarray(values)
    if names.shape != numbers.shape:
        told = f" (tag '{names.item().decode(errors='replace')}')" if names.size == 1 else ""
        raise _invalid(f"tags and values are not the same shape: {_shape(names)} != {_shape(numbers)}{told}")
    with np.errstate(over="ignore"):
        singles = numbers.astype(np.float32).reshape(-1)
    return b"".join(_value(tag, _float(2, value)) for tag, value in zip(names.reshape(-1), singles))


op(
    "ScalarSummary", "tags: string, values: R -> summary: string", shape=scalar, kernel=_scalars, grad=_BYTES,
    samples=[
        Sample(np.array(b"a", object), np.float32(0.5)),
        Sample(np.array([b"a", b"b"], object), mat(2)),
        Sample(np.array(b"a", object), mat(2), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


# -- histograms --------------------------------------------------------------------------------------------------------


def _limits() -> Array:
    """The upper ends of the buckets: each is a tenth wider than the one nearer to zero."""
    ends, end = [], 1e-12
    while end < 1e20:
        ends.append(end)
        end *= 1.1
    ends.append(_LARGEST)
    return np.array([*(-e for e in reversed(ends)), 0.0, *ends])


_LIMITS = _limits()
_BATCH = 1 << 16


def _histogram_proto(values: Array) -> bytes:
    """Finite numbers as a HistogramProto. The sums are made one by one, in order, as TensorFlow makes them."""
    counts = np.zeros(len(_LIMITS), np.int64)
    low, high, total, squares = _LARGEST, -_LARGEST, np.float64(0), np.float64(0)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(values), _BATCH):
            some = values[start : start + _BATCH].astype(np.float64)
            # The largest number of all is in the last bucket, and no bucket ends beyond it.
            place = np.minimum(np.searchsorted(_LIMITS, some, "right"), len(_LIMITS) - 1)
            counts += np.bincount(place, minlength=len(_LIMITS))
            low, high = min(low, float(some.min())), max(high, float(some.max()))
            total = np.add.accumulate(np.concatenate([[total], some]))[-1]
            squares = np.add.accumulate(np.concatenate([[squares], some * some]))[-1]
    filled = counts > 0
    # Of buckets in a row that are empty the last one stands for all.
    shown = np.flatnonzero(filled | np.append(filled[1:], True))
    if not filled.any():
        shown = shown[-1:]
    numbers = ((1, low), (2, high), (3, float(len(values))), (4, float(total)), (5, float(squares)))
    ends, told = _LIMITS[shown].tobytes(), counts[shown].astype(np.float64).tobytes()
    return b"".join(_double(*number) for number in numbers) + block(6, ends) + block(7, told)


def _histogram_make(node: Any, env: Any) -> Callable[..., bytes]:
    def kernel(tag: Array, values: Array) -> bytes:
        name, flat = _one(tag, "tags must be scalar"), np.asarray(values).reshape(-1)
        if flat.dtype.kind not in "iu" and not np.isfinite(flat).all():
            first = flat[~np.isfinite(flat)][0]
            kind = "Nan in summary histogram" if np.isnan(first) else "Infinity in Histogram"
            raise _invalid(f"{kind} for: {node.name}")
        return _value(name, block(5, _histogram_proto(flat)))

    return kernel


op(
    "HistogramSummary", "tag: string, values: R -> summary: string", shape=scalar, make=_histogram_make, grad=_BYTES,
    samples=[
        Sample(np.array(b"a", object), mat(3, 4)),
        Sample(np.array(b"a", object), mat(5, lo=-3, hi=3, dtype="int32")),
        Sample(np.array(b"a", object), np.zeros(0, np.float32)),
        Sample(np.array(b"a", object), np.array([1, np.nan]), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


# -- images ------------------------------------------------------------------------------------------------------------

_ZERO = np.float32(1e-6)
_SPOILT = np.array([255, 0, 0, 255], np.uint8)
_PICTURES = (dtypes.uint8, dtypes.float32, dtypes.float16, dtypes.float64)


def _pixels(image: Array) -> Array:
    """One image as uint8: its numbers stretched to fit, and red where a pixel is not finite."""
    if image.dtype == np.uint8:
        return image
    kind = image.dtype.type
    good = np.isfinite(image).all(2)
    finite = image[good].astype(np.float32)
    low, high = (finite.min(), finite.max()) if finite.size else (np.float32(np.inf), np.float32(-np.inf))
    most = max(abs(low), abs(high)) if low < 0 else high
    offset = kind(128 if low < 0 else 0)
    scale = kind(0) if most < _ZERO else kind(np.float32(127 if low < 0 else 255) / most)
    out = np.empty(image.shape, np.uint8)
    out[good] = (image[good] * scale + offset).astype(np.uint8)
    out[~good] = _SPOILT[: image.shape[2]]
    return out


def _images_make(node: Any, env: Any) -> Callable[..., bytes]:
    most = node.attrs["max_images"]

    def kernel(tag: Array, tensor: Array) -> bytes:
        name = _one(tag, "Tags must be a scalar")
        if tensor.ndim != 4 or tensor.shape[3] not in (1, 3, 4):
            raise _invalid(f"Tensor must be 4-D with last dim 1, 3, or 4, not {_shape(tensor)}")
        out = []
        for i, image in enumerate(tensor[:most]):
            sizes = b"".join(_count(field, size) for field, size in enumerate(image.shape, 1))
            picture = sizes + block(4, encoded(_pixels(image), format="PNG").item())
            out.append(_value(name + (b"/image/%d" % i if most > 1 else b"/image"), block(4, picture)))
        return b"".join(out)

    return kernel


def _image_rule(n: Operation) -> list[Any]:
    if n.inputs[1].dtype.base_dtype not in _PICTURES:
        raise TypeError(
            f"Value passed to parameter 'tensor' has DataType {n.inputs[1].dtype.base_dtype.name} not in list of "
            f"allowed values: {', '.join(d.name for d in _PICTURES)}"
        )
    return _some_outputs(n, "max_images")


def _some_outputs(n: Operation, attr: str) -> list[Any]:
    if n.attrs[attr] < 1:
        raise ValueError(f"Attr '{attr}' of '{n.type}' Op passed {n.attrs[attr]} less than minimum 1.")
    return scalar(n)


op(
    "ImageSummary", "tag: string, tensor: R; max_images: int = 3 -> summary: string", shape=_image_rule,
    make=_images_make, grad=_BYTES,
    samples=[
        Sample(np.array(b"a", object), mat(2, 3, 4, 3, dtype="float32"), **NO_PILLOW),
        Sample(
            np.array(b"a", object), mat(2, 3, 4, 1, lo=0, hi=255, dtype="uint8"), max_images=1, **NO_PILLOW
        ),
        Sample(np.array(b"a", object), mat(2, 3, 4, dtype="float32"), fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip


# -- sound -------------------------------------------------------------------------------------------------------------


def _wav(frames: Array, rate: int) -> bytes:
    """Sound, [frames, channels] within -1 and 1, as a file of 16 bits."""
    channels = frames.shape[1]
    if not channels:
        raise _invalid("audio is null")
    if channels >= 2**16:
        raise _invalid(f"num_channels must be in (0, 2^16), got: {channels}")
    if rate >= 2**32:
        raise _invalid(f"sample_rate must be in (0, 2^32), got: {rate}")
    scaled = np.clip(np.nan_to_num(frames.astype(np.float64) * 32768), -32768, 32767)
    data = np.trunc(scaled + np.copysign(0.5, scaled)).astype("<i2").tobytes()  # halves away from zero
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, channels, rate,
        rate * channels * 2 & 0xFFFFFFFF, channels * 2, 16, b"data", len(data),
    )  # fmt: skip
    return head + data


def _sounds_make(node: Any, env: Any) -> Callable[..., bytes]:
    most = node.attrs["max_outputs"]

    def kernel(tag: Array, tensor: Array, sample_rate: Array) -> bytes:
        name = _one(tag, "Tag must be a scalar")
        if tensor.ndim not in (2, 3):
            raise _invalid(f"Tensor must be 3-D or 2-D, got: {_shape(tensor)}")
        rate = np.float32(np.asarray(sample_rate).item())
        if not rate > 0:
            raise _invalid("sample_rate must be > 0")
        whole = int(np.rint(rate)) if np.isfinite(rate) else 2**32
        out = []
        for i, frames in enumerate((tensor if tensor.ndim == 3 else tensor[:, :, None])[:most]):
            sizes = _float(1, rate) + _count(2, frames.shape[1]) + _count(3, len(frames))
            sound = sizes + block(4, _wav(frames, whole or 1)) + block(5, b"audio/wav")
            out.append(_value(name + (b"/audio/%d" % i if most > 1 else b"/audio"), block(6, sound)))
        return b"".join(out)

    return kernel


op(
    "AudioSummaryV2", "tag: string, tensor: float32, sample_rate: float32; max_outputs: int = 3 -> summary: string",
    shape=lambda n: _some_outputs(n, "max_outputs"), make=_sounds_make, grad=_BYTES,
    samples=[
        Sample(np.array(b"a", object), mat(2, 5, dtype="float32"), np.float32(8000)),
        Sample(np.array(b"a", object), mat(2, 5, 2, dtype="float32"), np.float32(8000), max_outputs=1),
        Sample(
            np.array(b"a", object), mat(5, dtype="float32"), np.float32(8000), fails=errors.InvalidArgumentError
        ),
    ],
)  # fmt: skip


# -- tensors, and several at once --------------------------------------------------------------------------------------


def _tensor(tag: Array, tensor: Array, serialized_summary_metadata: Array) -> bytes:
    name = _one(tag, "tag must be scalar")
    metadata = _one(serialized_summary_metadata, "serialized_summary_metadata must be scalar")
    array = np.asarray(tensor, object if isinstance(tensor, bytes) else None)
    return _value(name, block(8, tensor_to_bytes(array)), block(9, metadata))


op(
    "TensorSummaryV2", "tag: string, tensor: T, serialized_summary_metadata: string -> summary: string",
    shape=scalar, kernel=_tensor, grad=_BYTES,
    samples=[
        Sample(np.array(b"a", object), mat(2, 3), np.array(b"", object)),
        Sample(np.array(b"a", object), np.array([b"a", b"bc"], object), np.array(b"\x12\x01d", object)),
        Sample(
            np.array([b"a"], object), mat(2, 3), np.array(b"", object), fails=errors.InvalidArgumentError
        ),
    ],
)  # fmt: skip


def _merged(*inputs: Array) -> bytes:
    seen: set[bytes] = set()
    out = []
    for summary in (text for texts in inputs for text in np.asarray(texts, object).reshape(-1)):
        try:
            values = [(value, dict(parts(value)).get(1, b"")) for number, value in parts(summary) if number == 1]
        except (IndexError, ValueError, TypeError):
            raise _invalid("Could not parse one of the summary inputs") from None
        for value, tag in values:
            if tag and tag in seen:
                raise _invalid(f"Duplicate tag {tag.decode(errors='replace')} found in summary inputs")
            seen.add(tag)
            out.append(block(1, value))
    return b"".join(out)


def _some_inputs(n: Operation) -> list[Any]:
    if not n.inputs:
        raise ValueError("List argument 'inputs' to 'MergeSummary' Op with length 0 shorter than minimum length 1.")
    return scalar(n)


op(
    "MergeSummary", "inputs: string* -> summary: string", shape=_some_inputs, kernel=_merged, grad=_BYTES,
    samples=[
        Sample([np.array(_value(b"a", _float(2, np.float32(1))), object), np.array([b""], object)]),
        Sample([np.array([_value(b"a", b"")] * 2, object)], fails=errors.InvalidArgumentError),
        Sample([np.array(b"\xff", object)], fails=errors.InvalidArgumentError),
    ],
)  # fmt: skip
