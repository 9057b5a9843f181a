"""Operations over constants are computed once, while the step is planned.

Only what is certain to stay small is computed: the size of a result is asked of the op's shape rule before its kernel
runs. An operation whose kernel raises is left alone, so that the step raises, and only if it gets there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfzmq.base import denormals, dtypes, names
from dtfzmq.graph.graph import Graph
from dtfzmq.graph.node import Node
from dtfzmq.graph.opdef import OpDef
from dtfzmq.graph.tensor import Tensor
from dtfzmq.plan.optimize.edits import Edits, pure_definition
from dtfzmq.plan.optimize.passes import MAX_FOLDED_BYTES, Options

# A constant travels to its task and stays there, so a result may be large only if what it replaces is.
SMALL_BYTES = 64 << 10
# More than this is not computed with during planning.
INPUT_BYTES = 256 << 10
# Operations of one graph that are folded at most, since each costs as much as some of its steps do: some microseconds
# if it is element-wise, ten times that if its shape rule is asked.
MOST = 20_000
MOST_ASKED = 1_000


def fold(nodes: list[Node], keep: frozenset[int], options: Options) -> list[Node]:
    """Put a constant in the place of every operation that has only constant inputs, and waits for nothing."""
    constants: dict[int, np.ndarray] = {}
    folder: _Folder | None = None
    edits = Edits(nodes, keep)
    for i, node in enumerate(nodes):
        if node.op == "Const":
            if not node.control:
                constants[i] = node.attrs["value"]
            continue
        if not node.inputs or node.inputs[0][0] not in constants:
            continue
        if any(s not in constants for s, _ in node.inputs) or any(s not in constants for s in node.control):
            continue
        definition = pure_definition(node.op)
        if definition is None or len(node.dtypes) != 1 or not edits.goes(i) and i not in keep:
            continue
        if folder is None:
            folder = _Folder(options.max_folded)
        value = folder.value(node, definition, [constants[s] for s, _ in node.inputs])
        if value is not None:
            attrs = {"value": value, "dtype": node.dtypes[0]}
            edits.replace(i, Node(node.name, "Const", (), (), node.device, attrs, node.dtypes))
            constants[i] = value
    return edits.done()


class _Env:
    """As much of a device as a kernel needs that only computes; a kernel that asks for more is not folded."""

    xp = np

    def __init__(self, device: str) -> None:
        self.device = device
        self.task = names.task_of(device)


class _Folder:
    """Computes constants within bounds; `limit` bytes per result if not 0."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.inputs = max(INPUT_BYTES, limit)
        self.left = MOST
        self.asked = 0
        self.graph = Graph()

    def value(self, node: Node, definition: OpDef, inputs: list[np.ndarray]) -> np.ndarray | None:
        """The result as an array of the node's dtype, or None if it is not to be had here."""
        dtype = node.dtypes[0]
        if not dtype.is_numpy_compatible or dtype is dtypes.string or "/device:CPU:" not in node.device:
            return None
        known = sum(x.nbytes for x in inputs)
        if known > self.inputs or any(x.dtype == object for x in inputs) or self.left <= 0:
            return None
        self.left -= 1
        limit = self.limit or min(MAX_FOLDED_BYTES, max(SMALL_BYTES, known))
        state = denormals.flush()
        try:
            with np.errstate(all="ignore"):
                if definition.elementwise:
                    shape: tuple[int, ...] | None = np.broadcast_shapes(*[x.shape for x in inputs])
                else:
                    shape = self._shape(node, inputs)
                if shape is None or math.prod(shape) * dtype.np_dtype.itemsize > limit:
                    return None
                kernel = definition.kernel_of(node, _Env(node.device))
                assert kernel is not None
                value = kernel(*[x[()] if x.ndim == 0 else x for x in inputs])
        except Exception:
            return None  # the step raises it, with the node's name, if it comes to that
        finally:
            denormals.restore(state)
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype != dtype.np_dtype or value.shape != shape:
            return None
        return np.array(value, order="C")

    def _shape(self, node: Node, inputs: list[np.ndarray]) -> tuple[int, ...] | None:
        """The shape of the result, without computing it; None if it depends on more than shapes and small values."""
        self.asked += 1
        if self.asked > MOST_ASKED:
            return None
        made: list[Tensor] = []
        with self.graph.as_default():
            for x in inputs:
                attrs: dict[str, Any] = {"value": x, "dtype": dtypes.of_array(x)}
                made.append(self.graph.create_op("Const", [], attrs, [dtypes.of_array(x)], "c").outputs[0])
            op = self.graph.create_op(node.op, made, node.attrs, node.dtypes, "f")
        known = op.outputs[0].shape.dims_or_none
        if known is None or None in known:
            return None
        return tuple(int(d) for d in known if d is not None)
