"""Second derivatives, all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor, get_default_graph
from dtfzmq.ops.functional import map_fn
from dtfzmq.ops.gradients import backpropagate, gradients
from dtfzmq.ops.raw import raw
from dtfzmq.ops.samples import ints


def hessians(
    ys: Any, xs: Any, name: str = "hessians", colocate_gradients_with_ops: bool = False, gate_gradients: Any = False,
    aggregation_method: Any = None,
) -> list[Tensor]:  # fmt: skip
    """Second derivatives of the sum of ys with respect to each x, of shape x.shape + x.shape.

    The rows are computed one after the other, by a loop. Raises ValueError if ys do not depend on an x, or linearly.
    """
    out = []
    for x in xs if isinstance(xs, (list, tuple)) else [xs]:
        x = convert_to_tensor(x, as_ref=True)
        (first,) = gradients(
            ys, x, name=name, colocate_gradients_with_ops=colocate_gradients_with_ops, gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
        )  # fmt: skip
        with x.graph.name_scope(name):
            flat = raw.Reshape(convert_to_tensor(first), ints(-1))
            count = raw.Size(flat)
            numbers = raw.Range(0, count, 1)
            one, zero = (np.array(v, flat.dtype.base_dtype.np_dtype) for v in (1, 0))

            def row(i: Tensor, x: Tensor = x, flat: Tensor = flat, one: Any = one, zero: Any = zero) -> Tensor:
                seed = raw.OneHot(i, raw.Size(flat), one, zero)
                found = backpropagate(get_default_graph(), [flat], [seed], [x])[0]
                if found is None:
                    raise ValueError(f"The gradient with respect to {x} does not depend on it.")
                return convert_to_tensor(found)

            rows = map_fn(row, numbers, dtype=x.dtype.base_dtype)
            shape = raw.Shape(x)
            made: Tensor = raw.Reshape(rows, raw.ConcatV2([shape, shape], 0))
            made.set_shape(x.shape.concatenate(x.shape))
            out.append(made)
    return out


__all__ = ["hessians"]
