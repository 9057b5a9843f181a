"""Signals: windows, frames, short-time and cosine transforms, shifts of spectra."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes, errors
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
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


Size = Any  # int, or a scalar Tensor where it is not known while building


def frame(
    signal: Any, frame_length: Any, frame_step: Any, pad_end: bool = False, pad_value: Any = 0, axis: int = -1,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Overlapping frames along `axis`, which becomes two: frame and place in it.

    What does not fill a frame at the end is left out, or filled up with pad_value if `pad_end`. The lengths must be
    known.
    """
    signal = convert_to_tensor(signal)
    length, step = known_length(frame_length, "frame_length"), known_length(frame_step, "frame_step")
    known, shape = dims(signal), raw.Shape(signal)
    with signal.graph.name_scope(name or "frame"):
        at: Size = axis % len(known) if known is not None else axis if axis >= 0 else raw.Rank(signal) + axis
        size: Size = shape[at] if known is None or known[at] is None else known[at]
        # [what is before the axis, the axis, what is after it]: the rank need not be known, and gradients are dense
        lead, tail = shape[:at], shape[at + 1 :]
        rows = raw.Reshape(signal, raw.Pack([raw.Prod(lead, ints(0)), size, raw.Prod(tail, ints(0))], axis=0))
        if pad_end:
            count = -(-size // step)
            missing = _at_least_0(length + step * (count - 1) - size)
            filled = raw.Pack([np.int32(0), missing], axis=0)
            none = np.zeros(2, np.int32)
            filling = convert_to_tensor(pad_value, dtype=signal.dtype.base_dtype)
            rows = raw.PadV2(rows, raw.Pack([none, filled, none], axis=0), filling)
        else:
            count = _at_least_0((size - length) // step + 1)
        frames = raw.GatherV2(rows, _places(count, length, step), np.int32(1))
        out = raw.Reshape(frames, raw.ConcatV2([lead, raw.Pack([count, np.int32(length)], axis=0), tail], 0))
        if known is not None:
            out.set_shape([*known[:at], None if isinstance(count, Tensor) else count, length, *known[at + 1 :]])
        return out


def _at_least_0(size: Size) -> Size:
    return raw.Maximum(size, 0) if isinstance(size, Tensor) else np.int32(max(size, 0))


def _places(count: Size, length: Size, step: int) -> Any:
    """[count, length]: where in the signal the places of the frames are."""
    if isinstance(count, Tensor) or isinstance(length, Tensor):
        return raw.ExpandDims(raw.Range(0, count, 1) * step, 1) + raw.ExpandDims(raw.Range(0, length, 1), 0)
    return (np.arange(length)[None, :] + step * np.arange(count)[:, None]).astype(np.int32)


def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """The signal of which the last two axes are overlapping frames, added up. The step must be known."""
    signal = convert_to_tensor(signal)
    step = known_length(frame_step, "frame_step")
    known: Any = dims(signal)
    shape = raw.Shape(signal)
    if known is not None and len(known) < 2:
        raise ValueError(f"overlap_and_add needs frames of rank 2 or more, not {signal}.")
    with signal.graph.name_scope(name or "overlap_and_add"):
        count, length = (shape[i] if known is None or known[i] is None else known[i] for i in (-2, -1))
        whole = (count - 1) * step + length
        rows = raw.Reshape(signal, raw.Pack([raw.Prod(shape[:-2], ints(0)), count * length], axis=0))
        index = raw.Reshape(_places(count, length, step), ints(-1))
        total = raw.UnsortedSegmentSum(transpose(rows, [1, 0]), index, convert_to_tensor(whole, dtypes.int32))
        out = raw.Reshape(transpose(total, [1, 0]), raw.ConcatV2([shape[:-2], raw.Pack([whole], axis=0)], 0))
        if known is not None:
            out.set_shape([*known[:-2], None if isinstance(whole, Tensor) else whole])
        return out


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
    with x.graph.name_scope(name):
        if axes is None:
            over = raw.Range(0, raw.Rank(x), 1) if x.shape.ndims is None else np.arange(x.shape.ndims, dtype=np.int32)
        else:
            over = np.reshape(np.asarray(axes, np.int32), -1)
        # counted modulo the rank, which need not be known, for negative axes
        sizes = raw.GatherV2(raw.Shape(x), raw.FloorMod(over, raw.Rank(x)), np.int32(0))
        half = raw.FloorDiv(sizes, np.int32(2))
        return raw.Roll(x, raw.Neg(half) if inverse else half, over)


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """The spectrum with frequency zero in the middle of the axes (all, if None)."""
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


def _cosine_matrix_kernel(node: Any, env: Any) -> Any:
    kind, norm, to = node.attrs["type"], node.attrs["norm"] or None, node.dtypes[0].np_dtype

    def kernel(points: Any) -> Any:
        if kind == 1 and points < 2:
            raise errors.InvalidArgumentError(None, None, _TOO_SHORT)
        return _cosines(kind, int(points), norm).T.astype(to)

    return kernel


def _cosine_matrix_shape(n: Operation) -> list[TensorShape]:
    points = constant_value(n.inputs[0])
    if points is not None and points < 2 and n.attrs["type"] == 1:
        raise ValueError(_TOO_SHORT)
    return [TensorShape([points, points])]


_TOO_SHORT = "Type-I DCT requires the dimension to be greater than one."
_cosine_matrix = op(
    "CosineMatrix", "points: int32; type: int, norm: str = '', dtype: type = float32 -> matrix: dtype",
    shape=_cosine_matrix_shape, make=_cosine_matrix_kernel, grad=NO_GRAD("it depends on a number of points"),
    samples=[Sample(np.int32(3), type=2, norm="ortho"), Sample(np.int32(4), type=1)],
)  # fmt: skip


def dct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The discrete cosine transform of type 1 to 4 of the last axis, cut or filled with zeros to `n` if given.

    Done as one product with the matrix of cosines. norm: None or "ortho".
    """
    _checked(type, axis, norm)
    x = convert_to_tensor(input, preferred_dtype=dtypes.float32)
    kind = x.dtype.base_dtype
    known, shape = dims(x), raw.Shape(x)
    with x.graph.name_scope(name or "dct"):
        size: Size = shape[-1] if known is None or known[-1] is None else known[-1]
        rows = raw.Reshape(x, raw.Pack([raw.Prod(shape[:-1], ints(0)), size], axis=0))
        points: Size = size if n is None else n
        if n is not None and (isinstance(size, Tensor) or n < size):
            rows = rows[:, :n]
        if n is not None and (isinstance(size, Tensor) or n > size):
            missing = raw.Pack([np.int32(0), _at_least_0(n - size)], axis=0)
            filling = np.zeros((), kind.np_dtype)
            rows = raw.PadV2(rows, raw.Pack([np.zeros(2, np.int32), missing], axis=0), filling)
        turned = matmul(rows, _cosine_matrix(convert_to_tensor(points, dtypes.int32), type, norm or "", kind))
        out = raw.Reshape(turned, raw.ConcatV2([shape[:-1], raw.Pack([points], axis=0)], 0))
        if known is not None:
            out.set_shape([*known[:-1], None if isinstance(points, Tensor) else points])
        return out


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
