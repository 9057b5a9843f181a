"""reverse_sequence: parts of rows turned around, each as long as it says."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import Sample, op
from dtfzmq.ops.raw import raw
from dtfzmq.ops.reductions import one_of
from dtfzmq.ops.samples import ints, mat
from dtfzmq.ops.shaping import invalid

Array = np.ndarray


def _shape(n: Operation) -> list[TensorShape]:
    shape, lengths = (t.shape for t in n.inputs)
    time, batch = n.attrs["seq_dim"], n.attrs["batch_dim"]
    if time == batch:
        raise ValueError(f"batch_dim == seq_dim == {time}")
    if lengths.ndims is not None and lengths.ndims != 1:
        raise ValueError(f"seq_lengths must be a vector, not of rank {lengths.ndims}")
    if shape.ndims is not None:
        for name, axis in (("batch_dim", batch), ("seq_dim", time)):
            if not 0 <= axis < shape.ndims:
                raise ValueError(f"{name} must be < input rank: {axis} vs. {shape.ndims}")
        sizes = shape.as_list()
        sizes[batch] = lengths.merge_with(TensorShape([sizes[batch]])).as_list()[0]
        return [TensorShape(sizes)]
    return [shape]


def _make(node: Any, env: Any) -> Any:
    time, batch = node.attrs["seq_dim"], node.attrs["batch_dim"]

    def kernel(x: Array, lengths: Array) -> Array:
        if len(lengths) != x.shape[batch]:
            raise invalid(f"Length of seq_lengths != input.dims({batch}), ({len(lengths)} vs. {x.shape[batch]})")
        if lengths.size and not 0 <= lengths.min() <= lengths.max() <= x.shape[time]:
            raise invalid(f"seq_lengths must lie in [0, {x.shape[time]}], but are {lengths.tolist()}")
        out = np.array(x)
        rows, source = (np.moveaxis(a, (batch, time), (0, 1)) for a in (out, x))
        for i, n in enumerate(lengths.tolist()):
            rows[i, :n] = source[i, :n][::-1]
        return out

    return kernel


_reverse_sequence = op(
    "ReverseSequence", "input: T, seq_lengths: I; seq_dim: int, batch_dim: int = 0 -> output: T", shape=_shape,
    make=_make, grad=lambda n, g: (raw.ReverseSequence(g, n.inputs[1], **n.attrs), None),
    samples=[
        Sample(mat(3, 4), ints(2, 0, 4), seq_dim=1),
        Sample(mat(3, 2, 2), ints(1, 3).astype(np.int64), seq_dim=0, batch_dim=2),
    ],
)  # fmt: skip


def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: int | None = None, batch_axis: int | None = None, name: str | None = None,
    seq_dim: int | None = None, batch_dim: int | None = None,
) -> Tensor:  # fmt: skip
    """The first seq_lengths[i] entries along `seq_axis` turned around, for each i along `batch_axis` (0)."""
    time = one_of("seq_axis", seq_axis, "seq_dim", seq_dim)
    batch = one_of("batch_axis", batch_axis, "batch_dim", batch_dim)
    if time is None:
        raise ValueError("seq_axis must be given: the axis that is partially turned around.")
    made: Tensor = _reverse_sequence(input, seq_lengths, seq_dim=int(time), batch_dim=int(batch or 0), name=name)
    return made


__all__ = ["reverse_sequence"]
