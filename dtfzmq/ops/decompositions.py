"""Decompositions of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.graph import Operation, Tensor
from dtfzmq.graph.registry import NO_GRAD, Sample, op
from dtfzmq.ops.samples import mat


def _qr_shape(node: Operation) -> list[TensorShape]:
    shape = node.inputs[0].shape.with_rank_at_least(2)
    dims = shape.dims_or_none
    if dims is None:
        return [TensorShape(None)] * 2
    *batch, rows, columns = dims
    full = node.attrs["full_matrices"]
    small = None if rows is None or columns is None else min(rows, columns)
    inner = rows if full else small
    return [TensorShape([*batch, rows, inner]), TensorShape([*batch, inner, columns])]


def _qr_kernel(node: Any, env: Any) -> Any:
    mode: Any = "complete" if node.attrs["full_matrices"] else "reduced"
    to = node.dtypes[0].np_dtype
    if to.itemsize >= 4:
        return lambda x: tuple(np.linalg.qr(x, mode))
    # LAPACK knows no half precision
    return lambda x: tuple(part.astype(to) for part in np.linalg.qr(x.astype(np.float32), mode))


_qr = op(
    "Qr", "input: F; full_matrices: bool = False -> q: F, r: F", shape=_qr_shape, make=_qr_kernel,
    grad=NO_GRAD("not defined here: used to draw first values"),
    samples=[Sample(mat(4, 3)), Sample(mat(3, 4), full_matrices=True), Sample(mat(2, 3, 3))],
)  # fmt: skip


def qr(input: Tensor, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """(q, r) with input = q r, q orthogonal, r upper triangular; of the smaller size unless `full_matrices`."""
    made: tuple[Tensor, Tensor] = _qr(input, full_matrices, name=name)
    return made
