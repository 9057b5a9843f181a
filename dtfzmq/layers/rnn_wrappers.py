"""Cells made of cells: stacked, with dropout, with a residual, on a device, with an embedding or projection."""

from __future__ import annotations

import hashlib
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.base.shapes import as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import device, name_scope
from dtfzmq.graph.static import constant_value
from dtfzmq.layers import naming
from dtfzmq.layers.base import Layer
from dtfzmq.layers.rnn_cells import LSTMStateTuple, RNNCell, pack_sizes, size_leaves
from dtfzmq.ops import array, elementwise, embedding, matmul, nest, nn, random
from dtfzmq.variables.initializers import RandomUniform, Zeros
from dtfzmq.variables.scope import get_variable, get_variable_scope, variable_scope


def check_cell(name: str, cell: Any) -> None:
    """Raise TypeError, saying what is missing, unless `cell` can be used as one."""
    missing = [f"'{what}' property is missing" for what in ("output_size", "state_size") if not _has(cell, what)]
    if not _has(cell, "zero_state") and not _has(cell, "get_initial_state"):
        missing.append("either 'zero_state' or 'get_initial_state' method is required")
    if not callable(cell):
        missing.append("is not callable")
    if missing:
        raise TypeError(f"The argument {name!r} ({cell}) is not an RNNCell: {', '.join(missing)}.")


def _has(cell: Any, name: str) -> bool:
    # a cell class that was not instantiated has properties, but no sizes
    return not isinstance(cell, type) and hasattr(cell, name)


class MultiRNNCell(RNNCell):
    """Cells one above the other: each one's output is the input of the next. Variables in `cell_0/...`, `cell_1/...`.

    The state is a tuple of the cells' states, or (without `state_is_tuple`) all side by side.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not nest.is_nested(cells):
            raise TypeError(f"cells must be a list or tuple, but received: {cells}.")
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        self._cells = list(cells)
        self._state_is_tuple = state_is_tuple
        if not state_is_tuple and any(nest.is_nested(cell.state_size) for cell in cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set. State sizes are: "
                f"{[cell.state_size for cell in cells]}"
            )

    @property
    def state_size(self) -> Any:
        sizes = [cell.state_size for cell in self._cells]
        return tuple(sizes) if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    @property
    def trainable_weights(self) -> list[Any]:
        """Those of all cells."""
        return [w for cell in self._cells if isinstance(cell, Layer) for w in cell.trainable_weights]

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Those of all cells."""
        return [w for cell in self._cells if isinstance(cell, Layer) for w in cell.non_trainable_weights]

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """See RNNCell."""
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        with name_scope(type(self).__name__ + "ZeroState"):
            return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        if self._state_is_tuple and not nest.is_nested(state):
            raise ValueError(f"Expected state to be a tuple of length {len(self._cells)}, but received: {state}")
        states = state if self._state_is_tuple else array.split(state, [c.state_size for c in self._cells], 1)
        made = []
        for number, (cell, own) in enumerate(zip(self._cells, states)):
            with variable_scope(f"cell_{number}"):
                inputs, new = cell(inputs, own)
            made.append(new)
        return inputs, tuple(made) if self._state_is_tuple else array.concat(made, 1)


class _Wrapper(RNNCell):
    """A cell around another, in the same variable scope."""

    def __init__(self, cell: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_cell("cell", cell)
        self._cell = cell

    @property
    def wrapped_cell(self) -> Any:
        """The cell inside."""
        return self._cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    @property
    def trainable_weights(self) -> list[Any]:
        """Those of the cell inside."""
        return list(self._cell.trainable_weights) if isinstance(self._cell, Layer) else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """Those of the cell inside."""
        return list(self._cell.non_trainable_weights) if isinstance(self._cell, Layer) else []

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """See RNNCell."""
        with name_scope(type(self).__name__ + "ZeroState"):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        """One step of the cell inside, changed."""
        return self._step(inputs, state, scope)

    def _step(self, inputs: Any, state: Any, scope: Any) -> Any:
        return self._cell(inputs, state, scope=scope)


def _no_memory(state: Any) -> Any:
    """What dropout of states leaves alone: memories of LSTMs and TensorArrays."""
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(False, True)
    return not hasattr(state, "flow")


class DropoutWrapper(_Wrapper):
    """Dropout of inputs, outputs and states of a cell; the probabilities are of keeping.

    With `variational_recurrent` one mask is drawn for all time steps and rows; then `dtype` is needed, and `input_size`
    if inputs are dropped. `dropout_state_filter_visitor` says by True and False which states are dropped: by default
    not the memory of an LSTM.
    """

    def __init__(
        self, cell: Any, input_keep_prob: Any = 1.0, output_keep_prob: Any = 1.0, state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False, input_size: Any = None, dtype: Any = None, seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(cell, dtype=dtype, **kwargs)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise TypeError(f"dropout_state_filter_visitor must be callable. Received: {dropout_state_filter_visitor}")
        self._filter = dropout_state_filter_visitor or _no_memory
        self._seed = seed
        with name_scope("DropoutWrapperInit"):
            self._input_keep = _probability("input_keep_prob", input_keep_prob)
            self._state_keep = _probability("state_keep_prob", state_keep_prob)
            self._output_keep = _probability("output_keep_prob", output_keep_prob)
            self._noise: dict[str, list[Tensor]] = {}
            if variational_recurrent:
                self._draw(cell, input_size, dtype)

    def _draw(self, cell: Any, input_size: Any, dtype: Any) -> None:
        if dtype is None:
            raise ValueError("When variational_recurrent=True, dtype must be provided")
        sizes = {"state": cell.state_size, "output": cell.output_size}
        if _drops(self._input_keep):
            if input_size is None:
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be "
                    "provided"
                )
            sizes["input"] = input_size
        for salt, size in sizes.items():
            shapes = [as_shape(s).as_list() if not isinstance(s, int) else [s] for s in size_leaves(size)]
            self._noise[salt] = [
                random.random_uniform([1, *shape], seed=self._salted(salt, i), dtype=dtype)
                for i, shape in enumerate(shapes)
            ]

    def _salted(self, salt: str, index: int) -> int | None:
        """A seed of its own for each tensor that is dropped, as TensorFlow 1 derives it."""
        if self._seed is None:
            return None
        text = f"{self._seed}{salt}_{index}".encode()
        return int(hashlib.md5(text, usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF

    def _dropped(self, salt: str, values: Any, keep: Any, wanted: Any = True) -> Any:
        if not _drops(keep):
            return values
        leaves = nest.flatten(values)
        chosen = [wanted] * len(leaves) if isinstance(wanted, bool) else nest.flatten(wanted)
        noise = self._noise.get(salt)
        made = []
        for i, (value, drop) in enumerate(zip(leaves, chosen)):
            if drop is False:
                made.append(value)
            elif noise is None:
                made.append(nn.dropout(value, keep, seed=self._salted(salt, i)))
            else:
                kept = value / keep * elementwise.floor(keep + noise[i])
                kept.set_shape(value.shape)
                made.append(kept)
        return nest.pack_like(values, made)

    def _step(self, inputs: Any, state: Any, scope: Any) -> Any:
        inputs = self._dropped("input", inputs, self._input_keep)
        output, new = self._cell(inputs, state, scope=scope)
        if _drops(self._state_keep):
            new = self._dropped("state", new, self._state_keep, _chosen(self._filter, new))
        return self._dropped("output", output, self._output_keep), new


def _chosen(visit: Callable[[Any], Any], state: Any) -> Any:
    """What the filter says of each leaf of `state`: a bool for a structure holds for all of it."""
    said = visit(state)
    if not nest.is_nested(state):
        return bool(said)
    if isinstance(said, bool):
        if not said:
            return pack_sizes(state, [False] * len(nest.flatten(state)))
        said = type(state)(*[True] * len(state)) if hasattr(state, "_fields") else [True] * len(state)
    children = list(state.values()) if isinstance(state, dict) else list(state)
    flat: list[bool] = []
    for child, answer in zip(children, list(said)):
        below = _chosen(visit, child) if answer else [False] * len(nest.flatten(child))
        flat += nest.flatten(below)
    return flat


def _probability(name: str, value: Any) -> Any:
    """A number, or a tensor if its value is not known yet. Raises ValueError for a number outside [0, 1]."""
    if not isinstance(value, (numbers.Real, Tensor)):
        value = convert_to_tensor(value)
    known = constant_value(value) if isinstance(value, Tensor) else value
    if known is None:
        return value
    if not 0 <= known <= 1:
        raise ValueError(f"Parameter {name} must be between 0 and 1. Received {known}")
    return float(known)


def _drops(keep: Any) -> bool:
    return not isinstance(keep, float) or keep < 1


class ResidualWrapper(_Wrapper):
    """The cell's output plus its input, or `residual_fn(inputs, outputs)`."""

    def __init__(self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def _step(self, inputs: Any, state: Any, scope: Any) -> Any:
        outputs, new = self._cell(inputs, state, scope=scope)
        if self._residual_fn is not None:
            return self._residual_fn(inputs, outputs), new
        nest.assert_same_structure(inputs, outputs)
        for given, made in zip(nest.flatten(inputs), nest.flatten(outputs)):
            given.get_shape().assert_is_compatible_with(made.get_shape())
        return nest.map_structure(lambda a, b: a + b, inputs, outputs), new


class HighwayWrapper(_Wrapper):
    """The cell's output mixed with its input by a gate that is learnt. Variables `carry_w`, `carry_b`."""

    def __init__(self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self._coupled = couple_carry_transform_gates
        self._carry_bias = carry_bias_init

    def _gate(self, name: str, bias: float, value: Tensor) -> Tensor:
        size = naming.dimension(value.shape.as_list()[-1])
        weight = get_variable(f"{name}_w", [size, size])
        shift = get_variable(f"{name}_b", [size], initializer=_Filled(bias))
        return elementwise.sigmoid(nn.xw_plus_b(value, weight, shift))

    def _step(self, inputs: Any, state: Any, scope: Any) -> Any:
        outputs, new = self._cell(inputs, state, scope=scope)
        carry = self._gate("carry", self._carry_bias, inputs)
        transform = 1 - carry if self._coupled else self._gate("transform", -self._carry_bias, inputs)
        return inputs * carry + outputs * transform, new


class _Filled(Zeros):
    """All elements the same number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return super().__call__(shape, dtype, partition_info) + self._value


class DeviceWrapper(_Wrapper):
    """The ops of the cell stand on a device."""

    def __init__(self, cell: Any, device: Any, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """See RNNCell."""
        with name_scope(type(self).__name__ + "ZeroState"), device(self._device):
            return self._cell.zero_state(batch_size, dtype)

    def _step(self, inputs: Any, state: Any, scope: Any) -> Any:
        with device(self._device):
            return self._cell(inputs, state, scope=scope)


class EmbeddingWrapper(RNNCell):
    """Inputs are row numbers of a table, the variable `embedding`; its rows go into the cell."""

    def __init__(
        self, cell: Any, embedding_classes: int, embedding_size: int, initializer: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(_reuse=reuse)
        check_cell("cell", cell)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(
                f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, {embedding_size}."
            )
        self._cell = cell
        self._shape = [embedding_classes, embedding_size]
        self._initializer = initializer

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """See RNNCell."""
        with name_scope(type(self).__name__ + "ZeroState"):
            return self._cell.zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        limit = math.sqrt(3)  # uniform in this range has variance 1
        first = self._initializer or get_variable_scope().initializer or RandomUniform(-limit, limit)
        kind = nest.flatten(state)[0].dtype.base_dtype
        table = get_variable("embedding", self._shape, initializer=first, dtype=kind)
        return self._cell(embedding.embedding_lookup(table, array.reshape(inputs, [-1])), state)


class _Projection(_Wrapper):
    """A cell with a linear map before or behind it, in the scope of its own class."""

    def __init__(self, cell: Any, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(cell, _reuse=reuse)
        self._activation = naming.activation(activation)

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        """One step: (output, new state)."""
        return RNNCell.__call__(self, inputs, state, scope, *args, **kwargs)

    def _projected(self, value: Tensor, size: int) -> Tensor:
        rows = naming.dimension(value.shape.as_list()[-1])
        kind = value.dtype.base_dtype
        weight = get_variable("kernel", [rows, size], dtype=kind)
        shift = get_variable("bias", [size], dtype=kind, initializer=Zeros)
        out = nn.bias_add(matmul.matmul(value, weight), shift)
        return out if self._activation is None else self._activation(out)


class InputProjectionWrapper(_Projection):
    """The inputs mapped to `num_proj` before the cell sees them."""

    def __init__(
        self, cell: Any, num_proj: int, activation: Any = None, input_size: Any = None, reuse: Any = None
    ) -> None:
        super().__init__(cell, activation, reuse)
        self._num_proj = num_proj

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        return self._cell(self._projected(inputs, self._num_proj), state)


class OutputProjectionWrapper(_Projection):
    """The cell's outputs mapped to `output_size`."""

    def __init__(self, cell: Any, output_size: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(cell, activation, reuse)
        self._output_size = output_size

    @property
    def output_size(self) -> int:
        return self._output_size

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        output, new = self._cell(inputs, state)
        return self._projected(output, self._output_size), new
