"""Signals: windows, frames, short-time and cosine transforms, shifts of spectra."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.array import concat, transpose
from dtfzmq.ops.matmul import matmul
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints
from dtfzmq.ops.spectral import irfft, rfft


def known_length(value: Any, what: str) -> int:
    """A length as a number. Raises ValueError if it is a tensor that depends on what is fed."""
    known = constant_value(value) if isinstance(value, Tensor) else value
    if known is None:
        raise ValueError(f"{what} must be known while the graph is built.")
    return int(known)


def _cosine_window(length: Any, periodic: bool, dtype: Any, a: float, b: float, name: str) -> Tensor:
    to = dtypes.as_dtype(dtype)
    if not to.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {to!r}")
    n = known_length(length, "window_length")
    if n <= 1:
        return convert_to_tensor(np.ones(n, to.np_dtype), name=name)
    span = n - (0 if periodic and n % 2 == 0 else 1)  # as TensorFlow: windows of odd length are never periodic
    values = a - b * np.cos(2 * np.pi * np.arange(n) / span)
    return convert_to_tensor(values.astype(to.np_dtype), name=name)


def hann_window(
    window_length: Any, periodic: bool = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """0.5 - 0.5 cos over one period (periodic) or from end to end."""
    return _cosine_window(window_length, periodic, dtype, 0.5, 0.5, name or "hann_window")


def hamming_window(
    window_length: Any, periodic: bool = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """0.54 - 0.46 cos over one period (periodic) or from end to end."""
    return _cosine_window(window_length, periodic, dtype, 0.54, 0.46, name or "hamming_window")


def frame(
    signal: Any, frame_length: Any, frame_step: Any, pad_end: bool = False, pad_value: Any = 0, axis: int = -1,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Overlapping frames along `axis`, which becomes two: frame and place in it. The rank must be known.

    What does not fill a frame at the end is left out, or filled up with pad_value if `pad_end`.
    """
    signal = convert_to_tensor(signal)
    known = dims(signal)
    length, step = known_length(frame_length, "frame_length"), known_length(frame_step, "frame_step")
    if known is None:
        raise ValueError(f"frame needs a signal of known rank, not {signal}.")
    at = axis % len(known)
    whole = known[at]
    with signal.graph.name_scope(name or "frame"):
        if whole is None:
            return _frames(signal, length, step, at, pad_value if pad_end else None)
        size = int(whole)
        count = -(-size // step) if pad_end else max(0, 1 + (size - length) // step)
        if pad_end:
            missing = max(0, length + step * (count - 1) - size)
            widths = np.zeros((len(known), 2), np.int32)
            widths[at, 1] = missing
            signal = raw.PadV2(signal, widths, convert_to_tensor(pad_value, dtype=signal.dtype.base_dtype))
        index = np.arange(length)[None, :] + step * np.arange(count)[:, None]
        return raw.GatherV2(signal, index.astype(np.int32), np.int32(at))


def _frames(signal: Tensor, length: int, step: int, at: int, padding: Any) -> Tensor:
    """frame along an axis of unknown size; padded at the end if `padding` is not None."""
    size = raw.Shape(signal)[at]
    if padding is None:
        count = raw.Maximum(raw.FloorDiv(size - length, step) + 1, 0)
    else:
        count = -raw.FloorDiv(-size, step)
        missing = raw.Maximum(length + step * (count - 1) - size, 0)
        zero = raw.ZerosLike(missing)
        ends = [raw.Pack([zero, missing if i == at else zero], axis=0) for i in range(signal.shape.ndims or 0)]
        filling = convert_to_tensor(padding, dtype=signal.dtype.base_dtype)
        signal = raw.PadV2(signal, raw.Pack(ends, axis=0), filling)
    starts = raw.ExpandDims(raw.Range(0, count, 1) * step, 1)
    return raw.GatherV2(signal, starts + np.arange(length, dtype=np.int32), np.int32(at))


def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """The signal of which the last two axes are overlapping frames, added up. The rank must be known."""
    signal = convert_to_tensor(signal)
    known = dims(signal)
    step = known_length(frame_step, "frame_step")
    if known is None:
        raise ValueError(f"overlap_and_add needs frames of known rank, not {signal}.")
    with signal.graph.name_scope(name or "overlap_and_add"):
        if None in known[-2:]:
            return _overlapped(signal, step, len(known))
        count, length = (int(d or 0) for d in known[-2:])
        index = (np.arange(length)[None, :] + step * np.arange(count)[:, None]).reshape(-1).astype(np.int32)
        rank = len(known)
        lead = [-1 if d is None else d for d in known[:-2]]
        flat = raw.Reshape(signal, _shape_of(signal, lead, rank, count * length))
        order = [rank - 2, *range(rank - 2)]
        total = raw.UnsortedSegmentSum(transpose(flat, order), index, np.int32(step * (count - 1) + length))
        return transpose(total, [*range(1, rank - 1), 0])


def _overlapped(signal: Tensor, step: int, rank: int) -> Tensor:
    """overlap_and_add of frames of unknown number or length."""
    shape = raw.Shape(signal)
    count, length = shape[-2], shape[-1]
    index = raw.ExpandDims(raw.Range(0, count, 1) * step, 1) + raw.ExpandDims(raw.Range(0, length, 1), 0)
    flat = raw.Reshape(signal, raw.ConcatV2([shape[:-2], raw.ExpandDims(count * length, 0)], 0))
    moved = transpose(flat, [rank - 2, *range(rank - 2)])
    total = raw.UnsortedSegmentSum(moved, raw.Reshape(index, [-1]), (count - 1) * step + length)
    return transpose(total, [*range(1, rank - 1), 0])


def _shape_of(signal: Tensor, lead: list[int], rank: int, last: int) -> Any:
    if lead.count(-1) <= 1:
        return np.array([*lead, last], np.int32)
    return raw.ConcatV2([raw.Shape(signal)[: rank - 2], np.array([last], np.int32)], 0)


Window = Callable[..., Tensor]


def _enclosing(length: int) -> int:
    return 1 << max(0, math.ceil(math.log2(length))) if length > 0 else 0


def stft(
    signals: Any, frame_length: Any, frame_step: Any, fft_length: Any = None, window_fn: Window | None = hann_window,
    pad_end: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The spectra of windowed frames of real signals; fft_length is the next power of two unless given."""
    signals = convert_to_tensor(signals)
    length = known_length(frame_length, "frame_length")
    points = _enclosing(length) if fft_length is None else known_length(fft_length, "fft_length")
    with signals.graph.name_scope(name or "stft"):
        frames = frame(signals, length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype.base_dtype)
        return rfft(frames, [points])


def inverse_stft(
    stfts: Any, frame_length: Any, frame_step: Any, fft_length: Any = None, window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """The signals of which these are the short-time spectra, up to the windows."""
    stfts = convert_to_tensor(stfts)
    length = known_length(frame_length, "frame_length")
    points = _enclosing(length) if fft_length is None else known_length(fft_length, "fft_length")
    with stfts.graph.name_scope(name or "inverse_stft"):
        frames = irfft(stfts, [points])[..., :length]
        if points < length:
            frames = concat([frames, raw.ZerosLike(frames[..., : length - points])], -1)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype.base_dtype)
        return overlap_and_add(frames, frame_step)


def _shifted(x: Any, axes: Any, inverse: bool, name: str) -> Tensor:
    x = convert_to_tensor(x)
    known = dims(x)
    if known is None:
        raise ValueError(f"A shift needs a tensor of known rank, not {x}.")
    over = range(len(known)) if axes is None else [axes] if isinstance(axes, (int, np.integer)) else axes
    with x.graph.name_scope(name):
        for axis in over:
            size = known[axis]
            if size is None:
                raise ValueError(f"A shift needs axes of known size, not {x}.")
            half = size // 2
            by = half if inverse else size - half
            order = np.roll(np.arange(size), -by).astype(np.int32)
            x = raw.GatherV2(x, order, np.int32(axis % len(known)))
        return x


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """The spectrum with frequency zero in the middle of the axes (all, if None). Their sizes must be known."""
    return _shifted(x, axes, False, name or "fftshift")


def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """The inverse of fftshift."""
    return _shifted(x, axes, True, name or "ifftshift")


def _cosines(kind: int, n: int, norm: str | None) -> np.ndarray:
    """The matrix of a cosine transform of n points: rows are outputs."""
    k, i = np.arange(n)[:, None], np.arange(n)[None, :]
    if kind == 1:
        weights = np.full(n, 2.0)
        weights[[0, -1]] = 1
        return np.cos(np.pi * k * i / (n - 1)) * weights
    if kind == 2:
        out = 2 * np.cos(np.pi * k * (2 * i + 1) / (2 * n))
        if norm == "ortho":
            out = out * np.sqrt(0.5 / n)
            out[0] *= np.sqrt(0.5)
        return out
    if kind == 3:
        out = 2 * np.cos(np.pi * (2 * k + 1) * i / (2 * n))
        if norm == "ortho":
            out = out * np.sqrt(0.5 / n)
            out[:, 0] *= np.sqrt(0.5) * 2 * 0.5
        else:
            out[:, 0] = 1
        return out
    out = 2 * np.cos(np.pi * (2 * k + 1) * (2 * i + 1) / (4 * n))
    return out * np.sqrt(0.5 / n) if norm == "ortho" else out


def _checked(kind: int, axis: int, norm: str | None) -> None:
    if axis != -1:
        raise ValueError(f"axis must be -1. Got: {axis}")
    if kind not in (1, 2, 3, 4):
        raise ValueError(f"Types I, II, III and IV (I)DCT are supported. Got: {kind}")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Got: {norm}")
    if kind == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")


def dct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The discrete cosine transform of type 1 to 4 of the last axis, cut or filled with zeros to `n` if given.

    Done as one product with the matrix of cosines; the size of the axis must be known. norm: None or "ortho".
    """
    _checked(type, axis, norm)
    x = convert_to_tensor(input, preferred_dtype=dtypes.float32)
    known = dims(x)
    if known is None or known[-1] is None:
        raise ValueError(f"dct needs a tensor whose last axis is of known size, not {x}.")
    size = int(known[-1])
    with x.graph.name_scope(name or "dct"):
        if n is not None and n < size:
            x = x[..., :n]
        elif n is not None and n > size:
            widths = np.zeros((len(known), 2), np.int32)
            widths[-1, 1] = n - size
            x = raw.PadV2(x, widths, np.zeros((), x.dtype.base_dtype.np_dtype))
        size = size if n is None else n
        if type == 1 and size < 2:
            raise ValueError("Type-I DCT requires the dimension to be greater than one.")
        matrix = _cosines(type, size, norm).astype(x.dtype.base_dtype.np_dtype)
        if len(known) == 1:
            return raw.Reshape(matmul(raw.ExpandDims(x, 0), matrix.T), ints(-1))
        return matmul(x, np.broadcast_to(matrix.T, (*(1,) * (len(known) - 2), size, size)))


def idct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The inverse of dct up to a factor: type 2 and 3 are each other's inverse, 1 and 4 their own."""
    _checked(type, axis, norm)
    return dct(input, {1: 1, 2: 3, 3: 2, 4: 4}[type], n, axis, norm, name or "idct")


__all__ = [
    "dct", "fftshift", "frame", "hamming_window", "hann_window", "idct", "ifftshift", "inverse_stft",
    "overlap_and_add", "stft",
]  # fmt: skip
