"""Fourier transforms over the last axes, and cosine transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.complex import cmat
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid

Array = np.ndarray


def _axes(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _complex_kernel(name: str, rank: int) -> Any:
    transform = getattr(np.fft, name)

    def kernel(x: Array) -> Array:
        if x.ndim < rank:
            raise invalid(f"Input must have rank of at least {rank} but got: {list(x.shape)}")
        return transform(x, axes=_axes(rank)).astype(x.dtype, copy=False)

    return kernel


def _deep(rank: int) -> Any:
    """The shape of the input, which has at least `rank` axes."""
    return lambda n: [n.inputs[0].shape.with_rank_at_least(rank)]


def _points(x: Tensor, rank: int) -> Any:
    """The number of elements of one transform, in the type of x."""
    known = dims(x)
    if known is not None and None not in known[-rank:]:
        return convert_to_tensor(
            np.array(np.prod(known[-rank:], dtype=np.int64), x.dtype.base_dtype.np_dtype)  # type: ignore[arg-type]  # no None
        )
    count = raw.Prod(raw.Shape(x)[-rank:], ints(0))
    return raw.Cast(count, DstT=x.dtype.base_dtype)


def _declare(rank: int) -> tuple[Any, Any]:
    ending = "" if rank == 1 else f"{rank}D"
    samples = [Sample(cmat(2, *(2,) * rank)), Sample(cmat(*(3,) * rank))]

    def forward_grad(n: Any, g: Tensor) -> tuple[Tensor]:
        return (backward(g) * _points(g, rank),)

    def backward_grad(n: Any, g: Tensor) -> tuple[Tensor]:
        return (forward(g) / _points(g, rank),)

    forward = op(
        f"FFT{ending}", "input: C -> output: C", shape=_deep(rank), kernel=_complex_kernel("fftn", rank),
        grad=forward_grad, samples=samples,
    )  # fmt: skip
    backward = op(
        f"IFFT{ending}", "input: C -> output: C", shape=_deep(rank), kernel=_complex_kernel("ifftn", rank),
        grad=backward_grad, samples=samples,
    )  # fmt: skip
    return forward, backward


_fft, _ifft = _declare(1)
_fft2d, _ifft2d = _declare(2)
_fft3d, _ifft3d = _declare(3)


def _real_shape(rank: int, half: bool) -> Any:
    def shape(n: Any) -> list[TensorShape]:
        known, length = dims(n.inputs[0]), constant_value(n.inputs[1])
        if known is None:
            return [UNKNOWN]
        if len(known) < rank:
            raise ValueError(f"Shape must be at least rank {rank} but is rank {len(known)}")
        if length is None:
            return [TensorShape([*known[:-rank], *[None] * rank])]
        sizes = [int(v) for v in length]
        if half:
            sizes[-1] = sizes[-1] // 2 + 1
        return [TensorShape([*known[:-rank], *sizes])]

    return shape


def _cut(x: Array, sizes: list[int]) -> Array:
    """x with its last axes cut or filled with zeros to `sizes`."""
    rank = len(sizes)
    index: Any = (..., *(slice(0, s) for s in sizes))
    x = x[index]
    missing = [s - d for s, d in zip(sizes, x.shape[-rank:])]
    return np.pad(x, [(0, 0)] * (x.ndim - rank) + [(0, m) for m in missing]) if any(missing) else x


def _lengths(length: Array, rank: int) -> list[int]:
    if length.shape != (rank,):
        raise invalid(f"fft_length must have shape [{rank}], not {list(length.shape)}")
    return [int(v) for v in length]


def _rfft_kernel(rank: int) -> Any:
    def make(node: Any, env: Any) -> Any:
        to = node.dtypes[0].np_dtype

        def kernel(x: Array, length: Array) -> Array:
            sizes = _lengths(length, rank)
            return np.fft.rfftn(_cut(x, sizes), axes=_axes(rank)).astype(to, copy=False)

        return kernel

    return make


def _irfft_kernel(rank: int) -> Any:
    def make(node: Any, env: Any) -> Any:
        to = node.dtypes[0].np_dtype

        def kernel(x: Array, length: Array) -> Array:
            sizes = _lengths(length, rank)
            x = _cut(x, [*sizes[:-1], sizes[-1] // 2 + 1])
            return np.fft.irfftn(x, s=sizes, axes=_axes(rank)).astype(to, copy=False)

        return kernel

    return make


def _rfft_back_kernel(rank: int) -> Any:
    """The adjoint of rfft: the real part of the unscaled transform of the half spectrum."""

    def make(node: Any, env: Any) -> Any:
        to = node.dtypes[0].np_dtype

        def kernel(g: Array, length: Array, inner: Array) -> Array:
            sizes, wanted = _lengths(length, rank), _lengths(inner, rank)
            whole = _cut(g, sizes)
            out = np.fft.ifftn(whole, axes=_axes(rank)).real * float(np.prod(sizes))
            return _cut(out, wanted).astype(to)

        return kernel

    return make


def _irfft_back_kernel(rank: int) -> Any:
    """The adjoint of irfft: the half spectrum, with what stands for two conjugate numbers counted twice."""

    def make(node: Any, env: Any) -> Any:
        to = node.dtypes[0].np_dtype

        def kernel(g: Array, length: Array, inner: Array) -> Array:
            sizes, wanted = _lengths(length, rank), _lengths(inner, rank)
            out = np.fft.rfftn(g, axes=_axes(rank)) / float(np.prod(sizes))
            weights = np.full(out.shape[-1], 2.0)
            weights[0] = 1
            if sizes[-1] % 2 == 0:
                weights[-1] = 1
            return _cut(out * weights, wanted).astype(to)

        return kernel

    return make


def _inner(x: Tensor, rank: int) -> Any:
    known = dims(x)
    if known is not None and None not in known[-rank:]:
        return np.array(known[-rank:], np.int32)
    return raw.Shape(x)[-rank:]


def _declare_real(rank: int) -> tuple[Any, Any]:
    ending = "" if rank == 1 else f"{rank}D"
    lead = (2,) * (rank - 1)
    whole, half = (*lead, 4), (*lead, 3)
    wide, real = dtypes.complex128, dtypes.float64

    def forward_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
        x, length = n.inputs
        return getattr(raw, f"RFFT{ending}Grad")(g, length, _inner(x, rank), Treal=x.dtype.base_dtype), None

    def backward_grad(n: Any, g: Tensor) -> tuple[Tensor, None]:
        x, length = n.inputs
        return getattr(raw, f"IRFFT{ending}Grad")(g, length, _inner(x, rank), Tcomplex=x.dtype.base_dtype), None

    def forward_grad_grad(n: Any, h: Tensor) -> tuple[Tensor, None, None]:
        kind = n.inputs[0].dtype.base_dtype
        return getattr(raw, f"RFFT{ending}")(h, n.inputs[1], Tcomplex=kind), None, None

    def backward_grad_grad(n: Any, h: Tensor) -> tuple[Tensor, None, None]:
        kind = n.inputs[0].dtype.base_dtype
        return getattr(raw, f"IRFFT{ending}")(h, n.inputs[1], Treal=kind), None, None

    forward = op(
        f"RFFT{ending}", "input: E, fft_length: int32; Tcomplex: type = complex64 -> output: Tcomplex",
        shape=_real_shape(rank, True), make=_rfft_kernel(rank), grad=forward_grad,
        samples=[
            Sample(mat(2, *whole), ints(*whole), Tcomplex=wide),
            Sample(mat(2, *whole), ints(*lead, 5), Tcomplex=wide), Sample(mat(*whole), ints(*lead, 3), Tcomplex=wide),
        ],
    )  # fmt: skip
    backward = op(
        f"IRFFT{ending}", "input: C, fft_length: int32; Treal: type = float32 -> output: Treal",
        shape=_real_shape(rank, False), make=_irfft_kernel(rank), grad=backward_grad,
        samples=[
            Sample(cmat(2, *half), ints(*lead, 4), Treal=real), Sample(cmat(*half), ints(*lead, 5), Treal=real),
            Sample(cmat(*half), ints(*lead, 3), Treal=real),
        ],
    )  # fmt: skip
    op(
        f"RFFT{ending}Grad", "grad: C, fft_length: int32, inner: int32; Treal: type = float32 -> output: Treal",
        shape=_back_shape(rank), make=_rfft_back_kernel(rank), grad=forward_grad_grad,
        samples=[Sample(cmat(*half), ints(*lead, 5), ints(*lead, 5), Treal=real)],
    )  # fmt: skip
    op(
        f"IRFFT{ending}Grad",
        "grad: E, fft_length: int32, inner: int32; Tcomplex: type = complex64 -> output: Tcomplex",
        shape=_back_shape(rank), make=_irfft_back_kernel(rank), grad=backward_grad_grad,
        samples=[Sample(mat(*whole), ints(*whole), ints(*half), Tcomplex=wide)],
    )  # fmt: skip
    return forward, backward


def _back_shape(rank: int) -> Any:
    def shape(n: Any) -> list[TensorShape]:
        known, inner = dims(n.inputs[0]), constant_value(n.inputs[2])
        if known is None:
            return [UNKNOWN]
        sizes = [None] * rank if inner is None else [int(v) for v in inner]
        return [TensorShape([*known[:-rank], *sizes])]

    return shape


_rfft, _irfft = _declare_real(1)
_rfft2d, _irfft2d = _declare_real(2)
_rfft3d, _irfft3d = _declare_real(3)


def _public(builder: Any, what: str) -> Any:
    def transform(input: Any, name: str | None = None) -> Tensor:
        return builder(input, name=name)

    transform.__doc__ = what
    return transform


fft = _public(_fft, "The discrete Fourier transform of the last axis of a complex tensor.")
ifft = _public(_ifft, "The inverse of fft.")
fft2d = _public(_fft2d, "The discrete Fourier transform of the last two axes of a complex tensor.")
ifft2d = _public(_ifft2d, "The inverse of fft2d.")
fft3d = _public(_fft3d, "The discrete Fourier transform of the last three axes of a complex tensor.")
ifft3d = _public(_ifft3d, "The inverse of fft3d.")


def _length_of(x: Tensor, rank: int, fft_length: Any, inverse: bool) -> Any:
    if fft_length is not None:
        return convert_to_tensor(fft_length, dtype=dtypes.int32)
    known = dims(x)
    if known is not None and None not in known[-rank:]:
        sizes: list[Any] = list(known[-rank:])
        if inverse:
            sizes[-1] = max(0, 2 * (sizes[-1] - 1))
        return np.array(sizes, np.int32)
    shape = raw.Shape(x)[-rank:]
    if not inverse:
        return shape
    last = raw.Maximum((shape[-1:] - 1) * 2, 0)
    return raw.ConcatV2([shape[:-1], last], 0)


def _real_public(builder: Any, rank: int, inverse: bool, what: str) -> Any:
    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = convert_to_tensor(
            input_tensor, preferred_dtype=dtypes.complex64 if inverse else dtypes.float32, name="input"
        )
        length = _length_of(x, rank, fft_length, inverse)
        if inverse:
            return builder(x, length, Treal=x.dtype.base_dtype.real_dtype, name=name)
        wide = x.dtype.base_dtype is dtypes.float64
        return builder(x, length, Tcomplex=dtypes.complex128 if wide else dtypes.complex64, name=name)

    transform.__doc__ = f"{what}; the input is cut or filled with zeros to `fft_length` if given."
    return transform


rfft = _real_public(_rfft, 1, False, "The first half of the transform of the last axis of a real tensor")
irfft = _real_public(_irfft, 1, True, "The inverse of rfft, a real tensor")
rfft2d = _real_public(_rfft2d, 2, False, "The first half of the transform of the last two axes of a real tensor")
irfft2d = _real_public(_irfft2d, 2, True, "The inverse of rfft2d, a real tensor")
rfft3d = _real_public(_rfft3d, 3, False, "The first half of the transform of the last three axes of a real tensor")
irfft3d = _real_public(_irfft3d, 3, True, "The inverse of rfft3d, a real tensor")

__all__ = [
    "fft", "fft2d", "fft3d", "ifft", "ifft2d", "ifft3d", "irfft", "irfft2d", "irfft3d", "rfft", "rfft2d",
    "rfft3d",
]  # fmt: skip
