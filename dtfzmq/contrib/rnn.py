"""``tf.contrib.rnn``: cells, wrappers and loops, most of them those of tf.nn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfzmq.contrib.cells import GRUBlockCell, GRUBlockCellV2, LayerNormBasicLSTMCell, LSTMBlockCell
from dtfzmq.layers.rnn import (
    bidirectional_dynamic_rnn,
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
from dtfzmq.layers.rnn_cells import (
    BasicLSTMCell,
    BasicRNNCell,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    RNNCell,
)
from dtfzmq.layers.rnn_wrappers import (
    DeviceWrapper,
    DropoutWrapper,
    EmbeddingWrapper,
    HighwayWrapper,
    InputProjectionWrapper,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)
from dtfzmq.ops import array
from dtfzmq.variables.scope import variable_scope


def _checked(cells_fw: Any, cells_bw: Any) -> None:
    for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, list) or not cells:
            raise ValueError(f"{name} must be a list of RNNCells (one per layer).")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any], cells_bw: Sequence[Any], inputs: Any, initial_states_fw: Any = None,
    initial_states_bw: Any = None, dtype: Any = None, sequence_length: Any = None,
    parallel_iterations: int | None = None, time_major: bool = False, scope: Any = None, swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:  # fmt: skip
    """(outputs, states forward, states backward): layers of `bidirectional_dynamic_rnn`, both outputs side by side."""
    _checked(cells_fw, cells_bw)
    states_fw, states_bw = [], []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward) in enumerate(zip(cells_fw, cells_bw)):
            with variable_scope(f"cell_{i}"):
                outputs, (last_fw, last_bw) = bidirectional_dynamic_rnn(
                    forward, backward, inputs, sequence_length,
                    initial_states_fw[i] if initial_states_fw else None,
                    initial_states_bw[i] if initial_states_bw else None, dtype, swap_memory=swap_memory,
                    time_major=time_major,
                )  # fmt: skip
            inputs = array.concat(list(outputs), 2)
            states_fw.append(last_fw)
            states_bw.append(last_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any], cells_bw: Sequence[Any], inputs: Any, initial_states_fw: Any = None,
    initial_states_bw: Any = None, dtype: Any = None, sequence_length: Any = None, scope: Any = None,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:  # fmt: skip
    """(outputs, states forward, states backward): layers of `static_bidirectional_rnn`."""
    _checked(cells_fw, cells_bw)
    states_fw, states_bw = [], []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward) in enumerate(zip(cells_fw, cells_bw)):
            with variable_scope(f"cell_{i}"):
                inputs, last_fw, last_bw = static_bidirectional_rnn(
                    forward, backward, inputs, initial_states_fw[i] if initial_states_fw else None,
                    initial_states_bw[i] if initial_states_bw else None, dtype, sequence_length,
                )  # fmt: skip
            states_fw.append(last_fw)
            states_bw.append(last_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


def transpose_batch_time(x: Any) -> Any:
    """Batch and time exchanged."""
    return array.transpose(x, [1, 0, *range(2, x.get_shape().ndims)])
