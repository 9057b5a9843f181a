"""Spectrograms of sound: further windows, the modified cosine transform, the mel scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor, get_default_graph
from dtfzmq.graph.static import dims
from dtfzmq.ops.raw import raw
from dtfzmq.ops.signal import dct, frame, hann_window, known_length, overlap_and_add

Array = Any
Window = Callable[..., Any]


def _window(values: Array, dtype: Any, name: str) -> Tensor:
    to = dtypes.as_dtype(dtype)
    if not to.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {to!r}")
    return convert_to_tensor(np.asarray(values).astype(to.np_dtype), name=name)


def _kaiser(length: int, beta: float) -> Array:
    return np.kaiser(length, beta) if length > 1 else np.ones(length)


def kaiser_window(
    window_length: Any, beta: float = 12.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """The Kaiser window; the higher `beta`, the narrower."""
    return _window(_kaiser(known_length(window_length, "window_length"), beta), dtype, name or "kaiser_window")


def kaiser_bessel_derived_window(
    window_length: Any, beta: float = 12.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """The window whose halves, squared, add up to 1, made of Kaiser's. The length must be even."""
    total = np.cumsum(_kaiser(known_length(window_length, "window_length") // 2 + 1, beta))
    half = np.sqrt(total[:-1] / total[-1])
    return _window(np.concatenate([half, half[::-1]]), dtype, name or "kaiser_bessel_derived_window")


def vorbis_window(window_length: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """The window of Ogg Vorbis, whose halves, squared, add up to 1."""
    n = known_length(window_length, "window_length")
    values = np.sin(np.pi / 2 * np.sin(np.pi / max(n, 1) * (np.arange(n) + 0.5)) ** 2)
    return _window(values, dtype, name or "vorbis_window")


def inverse_stft_window_fn(frame_step: Any, forward_window_fn: Window = hann_window, name: str | None = None) -> Window:
    """The window function with which inverse_stft undoes an stft made with `forward_window_fn`."""
    step = known_length(frame_step, "frame_step")

    def window(frame_length: Any, dtype: Any) -> Tensor:
        length = known_length(frame_length, "frame_length")
        with get_default_graph().name_scope(name or "inverse_stft_window_fn"):
            forward = convert_to_tensor(forward_window_fn(frame_length, dtype=dtype))
            overlaps = -(-length // step)
            filled = np.array([[0, overlaps * step - length]], np.int32)
            zero = convert_to_tensor(0, dtype=forward.dtype)
            squares = raw.Reshape(raw.PadV2(raw.Square(forward), filled, zero), np.array([overlaps, step], np.int32))
            total = raw.Tile(raw.Sum(squares, np.array([0], np.int32)), np.array([overlaps], np.int32))[:length]
            return raw.DivNoNan(forward, total)

    return window


def mdct(
    signals: Any, frame_length: Any, window_fn: Window | None = vorbis_window, pad_end: bool = False,
    norm: str | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The modified discrete cosine transform of frames that overlap by half; frame_length is a multiple of 4."""
    length = known_length(frame_length, "frame_length")
    if length % 4:
        raise ValueError("The frame length must be a multiple of 4.")
    signals = convert_to_tensor(signals, name="signals")
    with signals.graph.name_scope(name or "mdct"):
        frames = frame(signals, length, length // 2, pad_end=pad_end)
        frames = _windowed(frames, window_fn, length)
        last = convert_to_tensor(-1)
        a, b, c, d = raw.Split(last, frames, num_split=4)
        back = np.array([-1], np.int32)
        folded = [-raw.ReverseV2(c, back) - d, a - raw.ReverseV2(b, back)]
        return dct(raw.ConcatV2(folded, last), type=4, norm=norm)


def inverse_mdct(
    mdcts: Any, window_fn: Window | None = vorbis_window, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The signals of which mdct made `mdcts` [..., frames, half a frame]."""
    mdcts = convert_to_tensor(mdcts, name="mdcts")
    half = (dims(mdcts) or (None,))[-1]
    if half is None:
        raise ValueError(f"inverse_mdct needs to know the last size of {mdcts}.")
    with mdcts.graph.name_scope(name or "inverse_mdct"):
        waves = dct(mdcts, type=4, norm=norm)
        if norm is None:
            waves = waves * convert_to_tensor(0.5 / half, dtype=waves.dtype)
        last, back = convert_to_tensor(-1), np.array([-1], np.int32)
        low, high = raw.Split(last, waves, num_split=2)
        frames = raw.ConcatV2([high, -raw.ReverseV2(high, back), -raw.ReverseV2(low, back), -low], last)
        return overlap_and_add(_windowed(frames, window_fn, 2 * half), half)


def _windowed(frames: Tensor, window_fn: Window | None, length: int) -> Tensor:
    if window_fn is None:
        return frames * convert_to_tensor(np.sqrt(0.5), dtype=frames.dtype)
    return frames * window_fn(length, dtype=frames.dtype)


def _mel(hertz: Array) -> Array:
    return 1127.0 * np.log(1 + np.asarray(hertz) / 700.0)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20, num_spectrogram_bins: Any = 129, sample_rate: Any = 8000, lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0, dtype: Any = dtypes.float32, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The matrix that sums the bins of a spectrum [0, sample_rate / 2] into triangles, even on the mel scale.

    Raises ValueError unless 0 <= lower < upper <= sample_rate / 2 and the type is floating.
    """
    if num_mel_bins <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {num_mel_bins}")
    if lower_edge_hertz < 0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {lower_edge_hertz}")
    if lower_edge_hertz >= upper_edge_hertz:
        raise ValueError(f"lower_edge_hertz {lower_edge_hertz:.1f} >= upper_edge_hertz {upper_edge_hertz:.1f}")
    rate = known_length(sample_rate, "sample_rate") if isinstance(sample_rate, Tensor) else sample_rate
    if rate <= 0:
        raise ValueError(f"sample_rate must be positive. Got: {rate}")
    if upper_edge_hertz > rate / 2:
        raise ValueError(f"upper_edge_hertz must not be larger than the Nyquist frequency. Got: {upper_edge_hertz}")
    bins = known_length(num_spectrogram_bins, "num_spectrogram_bins")
    at = _mel(np.linspace(0, rate / 2, bins)[1:])[:, None]
    edges = np.linspace(_mel(lower_edge_hertz), _mel(upper_edge_hertz), num_mel_bins + 2)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    weights = np.maximum(0, np.minimum((at - low) / (middle - low), (high - at) / (high - middle)))
    return _window(np.pad(weights, [[1, 0], [0, 0]]), dtype, name or "linear_to_mel_weight_matrix")


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """The cepstral coefficients of spectrograms on the mel scale, along the last axis."""
    logs = convert_to_tensor(log_mel_spectrograms)
    bins = (dims(logs) or (None,))[-1]
    if not bins:
        raise ValueError(f"num_mel_bins must be positive and known. Got: {logs}")
    with logs.graph.name_scope(name or "mfccs_from_log_mel_spectrograms"):
        return dct(logs, type=2) * convert_to_tensor((2.0 * bins) ** -0.5, dtype=logs.dtype.base_dtype)
