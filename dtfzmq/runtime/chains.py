"""Chains of element-wise ops that run as one kernel: what is between two of them is nobody else's.

So a result is written over the one before without asking who has it, scalars take Python's operators, which cost a
tenth of what numpy's functions do, and large arrays go through the whole chain piece by piece, in the cache.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import clock, errors
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.graph.opdef import OpDef

# Results from this size on are computed in pieces of so many bytes. Measured, with memory kept warm: at 512 KiB pieces
# cost half as much again, at 1 MiB they save nothing for two ops and a third for three, as for more at 16 MiB.
PIECES_FROM = 1 << 20
PIECE_BYTES = 128 << 10

# What a numpy function does to scalars of its types, as Python's operators do it faster.
OPERATORS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.negative: operator.neg,
    np.absolute: operator.abs,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}

# (function, value, value or -1, value to write over or -1)
Step = tuple[Callable[..., Any], int, int, int]


class Chain:
    """A kernel: `chain(*inputs) -> value`. Frozen once made, but for programs by kinds of input; any thread.

    An exception leaves as an OpError that names the node that raised it.
    """

    def __init__(self, nodes: Sequence[Node], kernels: Sequence[Any], sources: Sequence[tuple[int, ...]], count: int):
        # Values are numbered: first the inputs, then the results in order. `sources`: values that each node reads.
        self.names = [node.name for node in nodes]
        self.kernels = list(kernels)
        self.sources = list(sources)
        self.inplace = [opdef.lookup(node.op).inplace for node in nodes]
        self.dtype = nodes[-1].dtypes[0].np_dtype
        self.large = PIECES_FROM // self.dtype.itemsize
        self.count = count
        self.plain: list[Step] = self._program((False,) * count)
        self._programs: dict[tuple[type, ...], tuple[list[Step], tuple[int, ...]]] = {}

    def __call__(self, *inputs: Any) -> Any:
        kinds = tuple(map(type, inputs))
        program, arrays = self._programs.get(kinds) or self._prepare(kinds)
        if not arrays:
            return self._run(program, list(inputs))
        first = inputs[arrays[0]]
        shape = first.shape
        for i in arrays:
            if inputs[i].shape != shape:
                return self._run(self.plain, list(inputs))
        if not shape:  # functions turn arrays of rank 0 into scalars
            return self._run(self.plain, list(inputs))
        if first.size >= self.large and all(inputs[i].flags.c_contiguous for i in arrays):
            return self._run_in_pieces(program, inputs, frozenset(arrays), shape)
        return self._run(program, list(inputs))

    def traced(self, tell: Callable[[str, float, float], None], *inputs: Any) -> Any:
        """`__call__`, node by node, with (name, start, seconds) of each."""
        values = list(inputs)
        for step, name in zip(self.plain, self.names):
            start = clock.perf()
            self._run([step], values)
            tell(name, start, clock.perf() - start)
        return values[-1]

    def _prepare(self, kinds: tuple[type, ...]) -> tuple[list[Step], tuple[int, ...]]:
        """The steps for inputs of these types, and which of the inputs are arrays."""
        arrays = [kind is np.ndarray for kind in kinds]
        where = tuple([i for i, is_array in enumerate(arrays) if is_array])
        made = self._programs[kinds] = self._program(arrays), where
        return made

    def _program(self, arrays: Sequence[bool]) -> list[Step]:
        """The steps if of the inputs those are arrays, all of one shape, and the others scalars."""
        is_array = list(arrays)
        steps: list[Step] = []
        for k, kernel in enumerate(self.kernels):
            sources = self.sources[k]
            a, b = sources[0], sources[1] if len(sources) == 2 else -1
            is_array.append(any(is_array[v] for v in sources))
            over = -1
            if is_array[-1]:
                for position in self.inplace[k]:
                    v = sources[position]
                    if v >= self.count and is_array[v] and (a != b or isinstance(kernel, np.ufunc)):
                        over = v
                        break
            steps.append((kernel if is_array[-1] else OPERATORS.get(kernel, kernel), a, b, over))
        return steps

    def _run(self, program: Sequence[Step], values: list[Any]) -> Any:
        """Append the results of the steps to `values`; the last of them."""
        append = values.append
        try:
            for fn, a, b, over in program:
                if b >= 0:
                    append(fn(values[a], values[b]) if over < 0 else fn(values[a], values[b], out=values[over]))
                else:
                    append(fn(values[a]) if over < 0 else fn(values[a], out=values[over]))
        except Exception as exc:
            raise errors.with_node(errors.wrap(exc), self.names[len(values) - self.count]) from exc
        return values[-1]

    def _run_in_pieces(
        self, program: list[Step], inputs: Sequence[Any], arrays: frozenset[int], shape: tuple[int, ...]
    ) -> Any:
        result = np.empty(shape, self.dtype)
        flat = result.reshape(-1)
        given = [x.reshape(-1) if i in arrays else x for i, x in enumerate(inputs)]
        length = max(1, PIECE_BYTES // self.dtype.itemsize)
        fn, a, b, _ = program[-1]
        before = program[:-1]
        for start in range(0, flat.size, length):
            piece = slice(start, start + length)
            values = [x[piece] if i in arrays else x for i, x in enumerate(given)]
            self._run(before, values)
            try:
                if b >= 0:
                    fn(values[a], values[b], out=flat[piece])
                else:
                    fn(values[a], out=flat[piece])
            except Exception as exc:
                raise errors.with_node(errors.wrap(exc), self.names[-1]) from exc
        return result


def ends_of(
    nodes: Sequence[Node], definitions: Sequence[OpDef | None], segment_of: Sequence[int]
) -> dict[int, int]:
    """For each marked node that its only reader, in the same segment, can compute: the last node of the chain."""
    marked = [i for i, node in enumerate(nodes) if opdef.INLINE in node.attrs]
    if not marked:
        return {}
    reader = dict.fromkeys(marked, -1)
    for i, node in enumerate(nodes):
        for s, _ in node.inputs:
            if s in reader and reader[s] != i:
                reader[s] = i if reader[s] == -1 else -2
        for s in node.control:
            if s in reader:
                reader[s] = -2
    ends: dict[int, int] = {}
    for i in reversed(marked):
        r = reader[i]
        if r < 0 or segment_of[r] != segment_of[i] or nodes[i].control or nodes[r].control:
            continue
        first, second = definitions[i], definitions[r]
        if first is None or second is None or not first.elementwise or not second.elementwise:
            continue
        if any(nodes[s].dtypes[out].is_ref for s, out in nodes[i].inputs + nodes[r].inputs):
            continue
        ends[i] = ends.get(r, r)
    return ends
