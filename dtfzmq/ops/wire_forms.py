"""Gradients in fewer bytes, for the way between tasks: float16, bfloat16, or int8 with a scale.

A session that asks for it (``ConfigProto.wire.gradients``) has these ops put on the edges that carry gradients to
variables of other tasks, see plan/optimize/narrow. What is packed describes itself: 8 bytes (form, rank, two free, the
scale as float32), then the sizes, then the elements.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.ops.samples import mat

Array = Any

FORMS: Final = ("float32", "float16", "bfloat16", "int8")
_STORED: Final = (np.float32, np.float16, np.uint16, np.int8)
#: Arrays of at most this many elements are sent as they are.
SMALL: Final = 16
_LARGEST_HALF: Final = 65504.0


def pack(x: Array, form: str) -> Array:
    """The float32 array `x` in `form`, with its shape, as bytes.

    float16: values beyond its range become its largest. int8: max |x| is 127. What is not finite stays so, of int8 the
    whole array does.
    """
    scale = 0.0
    number = FORMS.index(form) if x.size > SMALL else 0
    if number == 0:
        data = x
    elif number == 1:
        limited = np.where(np.isinf(x), x, np.clip(x, -_LARGEST_HALF, _LARGEST_HALF))
        data = limited.astype(np.float16)
    elif number == 2:
        bits = np.ascontiguousarray(x).view(np.uint32)
        rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
        data = np.where(np.isnan(x), (bits >> np.uint32(16)) | np.uint32(0x40), rounded).astype(np.uint16)
    else:
        largest = float(np.max(np.abs(x)))
        scale = largest / 127.0
        if not np.isfinite(largest):
            scale, data = float("nan"), np.zeros(x.shape, np.int8)
        elif scale < np.finfo(np.float32).tiny:
            scale, data = 0.0, np.zeros(x.shape, np.int8)
        else:
            data = np.rint(x / np.float32(scale)).astype(np.int8)
    start = 8 + 8 * x.ndim
    out = np.empty(start + data.nbytes, np.uint8)
    out[:4] = (number, x.ndim, 0, 0)
    out[4:8].view(np.float32)[0] = scale
    out[8:start].view(np.int64)[:] = x.shape
    out[start:] = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return out


def unpack(packed: Array) -> Array:
    """The float32 array that `pack` made `packed` of, as far as its form kept it."""
    number, rank = int(packed[0]), int(packed[1])
    start = 8 + 8 * rank
    scale = packed[4:8].copy().view(np.float32)[0]
    shape = tuple(packed[8:start].copy().view(np.int64).tolist())
    data = packed[start:].copy().view(_STORED[number]).reshape(shape)
    if number == 0:
        return data
    if number == 1:
        return data.astype(np.float32)
    if number == 2:
        return (data.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return data.astype(np.float32) * scale


def _pack_kernel(node: Any, env: Any) -> Any:
    form, feedback = node.attrs["form"], node.attrs["feedback"]
    if not feedback:
        return lambda x: pack(np.asarray(x), form)
    lock = threading.Lock()
    left: list[Array] = []  # what the form lost so far, added to the next gradient

    def with_feedback(x: Array) -> Array:
        x = np.asarray(x)
        with lock:
            if left and left[0].shape == x.shape:
                x = x + left[0]
            packed = pack(x, form)
            lost = x - unpack(packed)
            left[:] = [lost] if np.isfinite(lost).all() else []
        return packed

    return with_feedback


_pack = op(
    "PackGradient", "x: float32; form: str, feedback: bool = False -> packed: uint8", stateful=True,
    shape=lambda n: [TensorShape([None])], make=_pack_kernel, grad=NO_GRAD("put in after gradients are made"),
    samples=[Sample(mat(4, 5).astype(np.float32), form="int8", feedback=True)],
)  # fmt: skip
_unpack = op(
    "UnpackGradient", "packed: uint8 -> x: float32", shape=lambda n: [TensorShape(None)], kernel=unpack,
    grad=NO_GRAD("put in after gradients are made"),
    samples=[Sample(pack(mat(4, 5).astype(np.float32), form)) for form in FORMS],
)  # fmt: skip
