"""Loops of cells over time: dynamic_rnn, static_rnn, both ways, and raw_rnn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import control_dependencies
from dtfzmq.graph.static import constant_value
from dtfzmq.layers.rnn_cells import size_leaves, sizes_of, zeros_of
from dtfzmq.layers.rnn_wrappers import check_cell
from dtfzmq.ops import array, checks, composites, constants, control, elementwise, nest, reductions, slicing
from dtfzmq.ops import math as math_ops
from dtfzmq.ops.cast import cast
from dtfzmq.ops.reverse_sequence import reverse_sequence
from dtfzmq.ops.tensor_array import TensorArray
from dtfzmq.variables.scope import variable_scope


def _swapped(x: Tensor) -> Tensor:
    """Batch and time exchanged; what has fewer axes as it is."""
    rank = x.shape.ndims
    if rank is not None and rank < 2:
        return x
    if rank is None:
        order: Any = array.concat([[1, 0], constants.range(2, array.rank(x))], 0)
        return array.transpose(x, order)
    return array.transpose(x, [1, 0, *range(2, rank)])


def _batch(flat: Sequence[Tensor]) -> Any:
    """Batch size of time-major inputs: a number if one of them says it, else a tensor."""
    for x in flat:
        if x.shape.ndims is not None:
            if x.shape.ndims < 2:
                raise ValueError(f"Input tensor should have rank >= 2. Received input={x} of rank {x.shape.ndims}")
            if x.shape.as_list()[1] is not None:
                return x.shape.as_list()[1]
    return array.shape(flat[0])[1]


def _state_dtype(dtype: Any, state: Any) -> Any:
    if dtype is not None:
        return dtypes.as_dtype(dtype) if not nest.is_nested(dtype) else dtype
    kinds = {t.dtype.base_dtype for t in nest.flatten(state)}
    if len(kinds) != 1:
        raise ValueError(f"State has tensors of different inferred_dtypes. Unable to infer a single representative "
                         f"dtype: {sorted(k.name for k in kinds)}.")  # fmt: skip
    return kinds.pop()


def _first_state(cell: Any, state: Any, batch: Any, dtype: Any) -> Any:
    if state is not None:
        return nest.map_structure(lambda s: s if composites.is_composite(s) else convert_to_tensor(s), state)
    if dtype is None:
        raise ValueError("If no initial_state is provided, argument `dtype` must be specified")
    if hasattr(cell, "get_initial_state"):
        return cell.get_initial_state(inputs=None, batch_size=batch, dtype=dtype)
    return cell.zero_state(batch, dtype)


def _kept(finished: Tensor, old: Any, new: Any) -> Any:
    """`old` in the rows that have finished, else `new`. Scalars and TensorArrays pass."""
    if composites.is_composite(old) or old.shape.ndims == 0:
        return new
    made = slicing.where(finished, old, new)
    made.set_shape(old.shape)
    return made


def _lengths(sequence_length: Any, batch: Any) -> Tensor:
    """The lengths as int32; the step fails if there are not as many as rows."""
    lengths = cast(convert_to_tensor(sequence_length), dtypes.int32)
    if lengths.shape.ndims not in (None, 1):
        raise ValueError(
            f"Argument sequence_length must be a vector of length batch_size. Received sequence_length={lengths} of "
            f"shape: {lengths.shape}"
        )
    lengths = constants.identity(lengths, name="sequence_length")
    shape = array.shape(lengths)
    expected = array.stack([batch])
    same = reductions.reduce_all(math_ops.equal(shape, expected))
    text = f"Expected shape for Tensor {lengths.name} is "
    with control_dependencies([checks.Assert(same, [text, expected, " but saw shape: ", shape])]):
        return constants.identity(lengths, name="CheckSeqLen")


def dynamic_rnn(
    cell: Any, inputs: Any, sequence_length: Any = None, initial_state: Any = None, dtype: Any = None,
    parallel_iterations: int | None = None, swap_memory: bool = False, time_major: bool = False, scope: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """(outputs, last state) of `cell` run over time, by a loop of the graph.

    `inputs` is [batch, time, ...] ([time, batch, ...] if time_major), or a structure of such; outputs are alike. From
    `sequence_length` of a row on its outputs are zero and its state stays. The loop ends at the longest one. The state
    begins as `initial_state`, else as zeros of `dtype`. Raises ValueError if the depth of inputs is not known. The
    cell's variables are in `scope`, by default "rnn". swap_memory and parallel_iterations are accepted.
    """
    check_cell("cell", cell)
    with variable_scope(scope or "rnn"):
        flat = [convert_to_tensor(x) for x in nest.flatten(inputs)]
        if not time_major:
            flat = [_swapped(x) for x in flat]
        batch = _batch(flat)
        state = _first_state(cell, initial_state, batch, dtype)
        lengths = None if sequence_length is None else _lengths(sequence_length, batch)
        kind = _state_dtype(dtype, state)
        outputs, last = _loop(cell, nest.pack_like(inputs, flat), state, batch, lengths, kind, swap_memory)
        if not time_major:
            outputs = nest.map_structure(_swapped, outputs)
        return outputs, last


def _known_sizes(flat: Sequence[Tensor]) -> tuple[int | None, int | None]:
    """(time, batch), as far as they are known. Raises ValueError if inputs differ, or the depth is unknown."""
    found: list[int | None] = [None, None]
    for x in flat:
        shape = x.shape.with_rank_at_least(3)
        if not shape[2:].is_fully_defined():
            raise ValueError(
                "Input size (depth of inputs) must be accessible via shape inference, but saw value None for "
                f"input={x}."
            )
        for i, what in enumerate(("Time steps", "Batch_size")):
            size = shape.as_list()[i]
            if None not in (size, found[i]) and size != found[i]:
                raise ValueError(f"{what} is not the same for all the elements in the input: {found[i]} and {size}.")
            found[i] = size if found[i] is None else found[i]
    return found[0], found[1]


def _loop(
    cell: Any, inputs: Any, state: Any, batch: Any, lengths: Tensor | None, kind: Any, swap_memory: bool
) -> tuple[Any, Any]:
    flat = nest.flatten(inputs)
    steps_known, batch_known = _known_sizes(flat)
    steps = constants.constant(steps_known) if steps_known is not None else array.shape(flat[0])[0]
    sizes = size_leaves(cell.output_size)
    shapes = [TensorShape([batch_known]).concatenate(sizes_of(0, size)[1][1:]) for size in sizes]
    zero = zeros_of(cell.output_size, batch, kind) if lengths is not None else None
    given = [TensorArray(x.dtype.base_dtype, steps, element_shape=x.shape[1:]).unstack(x) for x in flat]
    made = [TensorArray(kind, steps, element_shape=shape) for shape in shapes]
    bound = steps
    if lengths is not None:  # one step at least, so that the arrays learn the shape
        bound = math_ops.minimum(steps, math_ops.maximum(1, reductions.reduce_max(lengths)))

    def step(time: Tensor, arrays: list[TensorArray], before: Any) -> Any:
        now = [a.read(time) for a in given]
        for value, x in zip(now, flat):
            value.set_shape(x.shape[1:])
        output, after = cell(nest.pack_like(inputs, now), before)
        if lengths is not None:
            finished = time >= lengths
            composites.assert_same_structure(zero, output)
            composites.assert_same_structure(before, after)
            output = nest.map_structure(lambda a, b: _kept(finished, a, b), zero, output)
            after = nest.map_structure(lambda a, b: _kept(finished, a, b), before, after)
        return time + 1, [a.write(time, value) for a, value in zip(arrays, nest.flatten(output))], after

    _, arrays, last = control.while_loop(
        lambda time, *_: time < bound, step, (constants.constant(0, name="time"), made, state),
        swap_memory=swap_memory,
    )  # fmt: skip
    outputs = [a.stack() for a in arrays]
    for value, shape in zip(outputs, shapes):
        value.set_shape(TensorShape([steps_known]).concatenate(shape))
    return (outputs[0] if not nest.is_nested(cell.output_size) else nest.pack_like(cell.output_size, outputs)), last


def static_rnn(
    cell: Any, inputs: Sequence[Any], initial_state: Any = None, dtype: Any = None, sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:  # fmt: skip
    """(list of outputs, last state): the cell once for each of `inputs`, a list of [batch, ...] over time."""
    check_cell("cell", cell)
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Argument `inputs` must be a sequence. Received: {inputs}")
    if not inputs:
        raise ValueError("Argument `inputs` must not be empty.")
    with variable_scope(scope or "rnn"):
        first = convert_to_tensor(nest.flatten(inputs)[0])
        known = first.shape.as_list()[0] if first.shape.ndims else None
        batch = array.shape(first)[0] if known is None else known
        state = _first_state(cell, initial_state, batch, dtype)
        lengths = None if sequence_length is None else _lengths(sequence_length, batch)
        outputs: list[Any] = []
        zero: Any = None
        for time, value in enumerate(inputs):
            output, new = cell(value, state)
            if lengths is not None:
                if zero is None:
                    zero = nest.map_structure(constants.zeros_like, output)
                finished = time >= lengths
                output = nest.map_structure(lambda a, b, done=finished: _kept(done, a, b), zero, output)
                new = nest.map_structure(lambda a, b, done=finished: _kept(done, a, b), state, new)
            outputs.append(output)
            state = new
        return outputs, state


def static_state_saving_rnn(
    cell: Any, inputs: Sequence[Any], state_saver: Any, state_name: Any, sequence_length: Any = None, scope: Any = None
) -> tuple[list[Any], Any]:
    """`static_rnn` whose state comes from `state_saver.state(name)` and goes back by `save_state(name, value)`."""
    several = nest.is_nested(cell.state_size)
    if several != nest.is_nested(state_name):
        raise ValueError(f"state_name should be the same type as cell.state_size: {state_name!r}.")
    begin = nest.map_structure(state_saver.state, state_name)
    if several:
        begin = nest.pack_like(cell.state_size, nest.flatten(begin))
    outputs, last = static_rnn(cell, inputs, initial_state=begin, sequence_length=sequence_length, scope=scope)
    saved = [state_saver.save_state(n, s) for n, s in zip(nest.flatten(state_name), nest.flatten(last))]
    with control_dependencies(saved):
        outputs[-1] = nest.map_structure(constants.identity, outputs[-1])
    return outputs, last


def _reversed(x: Any, lengths: Any, time_axis: int) -> Tensor:
    """`x` backwards in time, each row within its length."""
    x = convert_to_tensor(x)
    if lengths is None:
        return slicing.reverse(x, [time_axis])
    return reverse_sequence(x, lengths, seq_axis=time_axis, batch_axis=1 - time_axis)


def bidirectional_dynamic_rnn(
    cell_fw: Any, cell_bw: Any, inputs: Any, sequence_length: Any = None, initial_state_fw: Any = None,
    initial_state_bw: Any = None, dtype: Any = None, parallel_iterations: int | None = None, swap_memory: bool = False,
    time_major: bool = False, scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:  # fmt: skip
    """((outputs forward, outputs backward), (last states)): one cell forwards, the other backwards in time.

    Outputs of both stand in the order of the inputs. Variables are in `bidirectional_rnn/fw` and `.../bw`.
    """
    check_cell("cell_fw", cell_fw)
    check_cell("cell_bw", cell_bw)
    axis = 0 if time_major else 1
    settings: dict[str, Any] = {
        "sequence_length": sequence_length, "dtype": dtype, "swap_memory": swap_memory, "time_major": time_major,
    }  # fmt: skip
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forwards:
            outputs_fw, last_fw = dynamic_rnn(
                cell_fw, inputs, initial_state=initial_state_fw, scope=forwards, **settings
            )
        with variable_scope("bw") as backwards:
            turned = nest.map_structure(lambda x: _reversed(x, sequence_length, axis), inputs)
            outputs_bw, last_bw = dynamic_rnn(
                cell_bw, turned, initial_state=initial_state_bw, scope=backwards, **settings
            )
    back = nest.map_structure(lambda x: _reversed(x, sequence_length, axis), outputs_bw)
    return (outputs_fw, back), (last_fw, last_bw)


def _reversed_list(inputs: Sequence[Any], lengths: Any) -> list[Any]:
    if lengths is None:
        return list(reversed(inputs))
    rows = zip(*[nest.flatten(x) for x in inputs])
    turned = [array.unstack(_reversed(array.stack(list(row)), lengths, 0), len(inputs)) for row in rows]
    return [nest.pack_like(inputs[0], list(leaves)) for leaves in zip(*turned)]


def static_bidirectional_rnn(
    cell_fw: Any, cell_bw: Any, inputs: Sequence[Any], initial_state_fw: Any = None, initial_state_bw: Any = None,
    dtype: Any = None, sequence_length: Any = None, scope: Any = None,
) -> tuple[list[Any], Any, Any]:  # fmt: skip
    """(outputs of both side by side, last state forward, last state backward), unrolled over a list of inputs."""
    check_cell("cell_fw", cell_fw)
    check_cell("cell_bw", cell_bw)
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Argument `inputs` must be a sequence. Received: {inputs}")
    if not inputs:
        raise ValueError("Argument `inputs` must not be empty.")
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forwards:
            outputs_fw, last_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, forwards)
        with variable_scope("bw") as backwards:
            turned = _reversed_list(inputs, sequence_length)
            outputs_bw, last_bw = static_rnn(cell_bw, turned, initial_state_bw, dtype, sequence_length, backwards)
    outputs = []
    for a, b in zip(outputs_fw, _reversed_list(outputs_bw, sequence_length)):
        both = [array.concat([x, y], 1) for x, y in zip(nest.flatten(a), nest.flatten(b))]
        outputs.append(nest.pack_like(a, both) if nest.is_nested(a) else both[0])
    return outputs, last_fw, last_bw


def raw_rnn(
    cell: Any, loop_fn: Callable[..., Any], parallel_iterations: int | None = None, swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(TensorArrays of what was emitted, last state, last loop state) of a loop that `loop_fn` steers.

    loop_fn(time, output, state, loop_state) gives (finished, next input, next state, emitted, next loop state); it is
    called first with time 0 and no output. The loop ends when all rows have finished.
    """
    check_cell("cell", cell)
    if not callable(loop_fn):
        raise TypeError(f"Argument `loop_fn` must be a callable. Received: {loop_fn}.")
    with variable_scope(scope or "rnn"):
        time = constants.constant(0, dtype=dtypes.int32)
        finished, value, state, emit, loop_state = loop_fn(time, None, None, None)
        flat = [convert_to_tensor(x) for x in nest.flatten(value)]
        known = flat[0].shape.as_list()[0]
        batch = array.shape(flat[0])[0] if known is None else known
        state = nest.map_structure(lambda s: s if composites.is_composite(s) else convert_to_tensor(s), state)
        nest.assert_same_structure(state, cell.state_size)
        if emit is None:
            kind = nest.flatten(state)[0].dtype.base_dtype
            zero = zeros_of(cell.output_size, batch, kind)
        else:
            zero = nest.map_structure(lambda e: _zero_rows(batch, e), emit)
        arrays = nest.map_structure(
            lambda z: TensorArray(
                z.dtype.base_dtype, 0, dynamic_size=True,
                element_shape=TensorShape([known]).concatenate(z.shape[1:]),
            ),
            zero,
        )  # fmt: skip
        carried = constants.constant(0, dtype=dtypes.int32) if loop_state is None else loop_state

        def step(time: Tensor, done: Tensor, value: Any, arrays: Any, state: Any, carried: Any) -> Any:
            output, after = cell(value, state)
            nest.assert_same_structure(cell.output_size, output)
            ends, following, after, emitted, extra = loop_fn(time + 1, output, after, carried)
            emitted = nest.map_structure(lambda a, b: _kept(done, a, b), zero, emitted)
            after = nest.map_structure(lambda a, b: _kept(done, a, b), state, after)
            arrays = nest.map_structure(lambda a, e: a.write(time, e), arrays, emitted)
            return (
                time + 1, math_ops.logical_or(done, ends), following, arrays, after,
                carried if extra is None else extra,
            )  # fmt: skip

        _, _, _, arrays, state, carried = control.while_loop(
            lambda time, done, *_: elementwise.logical_not(reductions.reduce_all(done)), step,
            (time, convert_to_tensor(finished), nest.pack_like(value, flat), arrays, state, carried),
            swap_memory=swap_memory,
        )  # fmt: skip
    return arrays, state, None if loop_state is None else carried


def _zero_rows(batch: Any, like: Tensor) -> Tensor:
    """Zeros [batch, *shape of `like`]."""
    if like.shape.is_fully_defined():
        shape, static = sizes_of(batch, like.shape)
    else:
        shape = array.concat([array.stack([batch]), array.shape(like)], 0)
        number = constant_value(batch) if isinstance(batch, Tensor) else np.int32(batch)
        static = TensorShape([None if number is None else int(number)]).concatenate(like.shape)
    made = constants.zeros(shape, like.dtype.base_dtype)
    made.set_shape(static)
    return made
