"""The ops that put more elements at the ends of axes: a constant, or the mirror image."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.shapes import UNKNOWN, TensorShape
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.graph.static import constant_value, dims
from dtfzmq.ops.arguments import scalar
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid

_np_pad: Any = np.pad


def _pad_widths(paddings: np.ndarray, rank: int) -> list[tuple[int, int]]:
    if paddings.shape != (rank, 2) or paddings.size and paddings.min() < 0:
        raise invalid(f"Paddings must be {rank} pairs of numbers >= 0, not {paddings.tolist()}")
    return [(int(a), int(b)) for a, b in paddings]


def _pad_shape(n: Any) -> list[TensorShape]:
    known, paddings = dims(n.inputs[0]), constant_value(n.inputs[1])
    if paddings is None:
        count = (dims(n.inputs[1]) or (None,))[0] if known is None else len(known)
        return [UNKNOWN if count is None else TensorShape([None] * count)]
    if known is None:
        known = (None,) * len(paddings)
    if paddings.shape != (len(known), 2):
        raise ValueError(f"paddings must be of shape ({len(known)}, 2) for {n.inputs[0].shape}, not {paddings.shape}.")
    if paddings.size and paddings.min() < 0:
        raise ValueError(f"Paddings must be non-negative, not {paddings.tolist()}.")
    return [TensorShape([None if d is None else d + int(a) + int(b) for d, (a, b) in zip(known, paddings)])]


def _pad_grad(n: Any, g: Tensor) -> tuple[Any, ...]:
    begin = raw.Reshape(raw.Slice(n.inputs[1], ints(0, 0), ints(-1, 1)), ints(-1))
    sizes = raw.Cast(raw.Shape(n.inputs[0]), DstT=n.inputs[1].dtype)
    return (raw.Slice(g, begin, sizes), *[None] * (len(n.inputs) - 1))


def _pad_kernel(x: np.ndarray, paddings: np.ndarray, value: np.ndarray) -> np.ndarray:
    widths = _pad_widths(paddings, x.ndim)
    return np.pad(x, widths, constant_values=scalar("constant_values", value)) if x.ndim else x


_PADS = np.array([[1, 1], [2, 0]], np.int32)
_pad = op(
    "PadV2", "input: T, paddings: I, constant_values: T -> output: T", shape=_pad_shape,
    kernel=_pad_kernel,
    grad=_pad_grad,  # none to the constant, as in TensorFlow
    samples=[Sample(mat(2, 3), _PADS, mat(), differentiable=False)],
)  # fmt: skip


def _mirror_kernel(node: Any, env: Any) -> Any:
    mode = "reflect" if node.attrs["mode"] == "REFLECT" else "symmetric"
    short = 1 if mode == "reflect" else 0

    def mirror(x: np.ndarray, paddings: np.ndarray) -> np.ndarray:
        widths = _pad_widths(paddings, x.ndim)
        for i, (size, pair) in enumerate(zip(x.shape, widths)):
            if max(pair) > size - short:
                than = "less than" if short else "no greater than"
                raise invalid(f"paddings must be {than} the dimension size: {pair[0]}, {pair[1]}, {size} of axis {i}")
        return _np_pad(x, widths, mode=mode)

    return mirror


def _mirror_grad_kernel(node: Any, env: Any) -> Any:
    mode = "reflect" if node.attrs["mode"] == "REFLECT" else "symmetric"

    def fold(g: np.ndarray, paddings: np.ndarray) -> np.ndarray:
        widths = _pad_widths(paddings, g.ndim)
        for axis, (a, b) in enumerate(widths):
            size = g.shape[axis] - a - b
            source = _np_pad(np.arange(size), (a, b), mode=mode)
            out = np.zeros((*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype)
            np.add.at(np.moveaxis(out, axis, 0), source, np.moveaxis(g, axis, 0))
            g = out
        return g

    return fold


def _unpad_shape(n: Any) -> list[TensorShape]:
    known, paddings = dims(n.inputs[0]), constant_value(n.inputs[1])
    if known is None or paddings is None:
        return [UNKNOWN if known is None else TensorShape([None] * len(known))]
    return [TensorShape([None if d is None else d - int(a) - int(b) for d, (a, b) in zip(known, paddings)])]


_mirror_pad = op(
    "MirrorPad", "input: T, paddings: I; mode: str -> output: T", shape=_pad_shape, make=_mirror_kernel,
    grad=lambda n, g: (raw.MirrorPadGrad(g, n.inputs[1], mode=n.attrs["mode"]), None),
    samples=[Sample(mat(3, 4), _PADS, mode="REFLECT"), Sample(mat(3, 4), _PADS, mode="SYMMETRIC")],
)  # fmt: skip
_mirror_pad_grad = op(
    "MirrorPadGrad", "input: N, paddings: I; mode: str -> output: N", shape=_unpad_shape, make=_mirror_grad_kernel,
    grad=lambda n, g: (raw.MirrorPad(g, n.inputs[1], mode=n.attrs["mode"]), None),
    samples=[Sample(mat(5, 6), _PADS, mode="REFLECT")],
)  # fmt: skip
