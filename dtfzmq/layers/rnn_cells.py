"""Recurrent cells: one step of a recurrent network, `(output, state) = cell(inputs, state)`."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtfzmq.base import dtypes
from dtfzmq.base.shapes import TensorShape, as_shape
from dtfzmq.graph.convert import convert_to_tensor
from dtfzmq.graph.graph import Tensor
from dtfzmq.graph.scopes import name_scope
from dtfzmq.graph.static import constant_value
from dtfzmq.layers import naming
from dtfzmq.layers.base import InputSpec, Layer
from dtfzmq.ops import array, clip, constants, elementwise, matmul, nest, nn
from dtfzmq.ops.cast import cast
from dtfzmq.variables.initializers import Constant, Zeros
from dtfzmq.variables.scope import get_variable_scope, variable_scope


def sizes_of(batch: Any, size: Any) -> tuple[Any, TensorShape]:
    """(shape for ops, static shape) of a state of `size` (a number or TensorShape) for `batch` rows."""
    rest = as_shape(size).as_list() if isinstance(size, (TensorShape, list, tuple)) else [int(size)]
    if not isinstance(batch, Tensor):
        return [batch, *rest], TensorShape([batch, *rest])
    known = constant_value(batch)
    static = TensorShape([None if known is None else int(known), *rest])
    return array.stack([cast(batch, dtypes.int32), *[constants.constant(d) for d in rest]]), static


def zeros_of(state_size: Any, batch: Any, dtype: Any) -> Any:
    """Zeros in the structure of `state_size`: [batch, size] for each size. `dtype` is one, or such a structure."""
    kinds = nest.flatten(dtype)
    leaves = size_leaves(state_size)
    if len(kinds) == 1:
        kinds = kinds * len(leaves)
    made = []
    for size, kind in zip(leaves, kinds):
        shape, static = sizes_of(batch, size)
        zeros = constants.zeros(shape, kind)
        zeros.set_shape(static)
        made.append(zeros)
    return pack_sizes(state_size, made)


def size_leaves(state_size: Any) -> list[Any]:
    """The sizes in a structure of them; a TensorShape is one size."""
    if isinstance(state_size, TensorShape) or not nest.is_nested(state_size):
        return [state_size]
    return nest.flatten(state_size)


def pack_sizes(state_size: Any, leaves: list[Any]) -> Any:
    """`leaves` in the structure of `state_size`."""
    return leaves[0] if isinstance(state_size, TensorShape) else nest.pack_like(state_size, leaves)


class RNNCell(Layer):
    """Base of cells. A subclass says `state_size`, `output_size` and `call(inputs, state)`.

    Its `call` may make variables by `get_variable`: they are in the cell's scope, and shared by all later calls.
    """

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)
        self._entered: Any = None

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        """One step: (output, new state)."""
        if scope is not None:
            with variable_scope(scope, custom_getter=self._noting_getter) as entered:
                return super().__call__(inputs, state, *args, scope=entered, **kwargs)
        if self._entered is None:
            self._entered = variable_scope(get_variable_scope(), custom_getter=self._noting_getter)
        with self._entered:
            return super().__call__(inputs, state, *args, **kwargs)

    def _noting_getter(self, getter: Any, *args: Any, **kwargs: Any) -> Any:
        """Keep what `call` makes by `get_variable` among the cell's variables."""
        found = getter(*args, **kwargs)
        trained = bool(getattr(found, "trainable", True))
        kept = self._trainable_weights if trained else self._non_trainable_weights
        if all(found is not other for other in kept):
            kept.append(found)
        return found

    @property
    def state_size(self) -> Any:
        """Size of the state: a number, a TensorShape, or a structure of them."""
        raise TypeError(f"{type(self).__name__} says no state_size: a cell must.")

    @property
    def output_size(self) -> Any:
        """Size of the output: a number or a TensorShape."""
        raise TypeError(f"{type(self).__name__} says no output_size: a cell must.")

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The first state for `batch_size` rows: zeros, in the structure of `state_size`."""
        with name_scope(type(self).__name__ + "ZeroState"):
            return zeros_of(self.state_size, batch_size, dtype)

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """`zero_state`, batch size and type taken from `inputs` if they are given."""
        if inputs is not None:
            tensor = convert_to_tensor(inputs)
            batch_size, dtype = array.shape(tensor)[0], tensor.dtype.base_dtype
        if batch_size is None or dtype is None:
            raise ValueError("batch_size and dtype are needed while constructing initial state without inputs.")
        return self.zero_state(batch_size, dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Layer:
        """See Layer; the copy enters a scope of its own."""
        entered, self._entered = self._entered, None
        try:
            return super().__deepcopy__(memo)
        finally:
            self._entered = entered


class LayerRNNCell(RNNCell):
    """A cell that makes its variables in `build`, like a layer."""

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, *args: Any, **kwargs: Any) -> Any:
        """One step: (output, new state)."""
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)

    def _inputs_size(self, shape: Any) -> int:
        found = naming.dimension(as_shape(shape).as_list()[-1])
        if found is None:
            raise ValueError(f"Expected inputs.shape[-1] to be known, saw shape: {shape}")
        return found


class _UnitsCell(LayerRNNCell):
    """A cell of `num_units` numbers, over [batch, size] inputs: output and, unless it says else, state have as many."""

    def __init__(
        self, num_units: int, activation: Any, reuse: Any, name: str | None, dtype: Any, **kwargs: Any
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = naming.activation(activation) or elementwise.tanh

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units


class BasicRNNCell(_UnitsCell):
    """output = state = activation([inputs, state] x kernel + bias)."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._kernel: Any = None
        self._bias: Any = None

    def build(self, input_shape: Any) -> None:
        """See Layer."""
        size = self._inputs_size(input_shape)
        self._kernel = self.add_weight("kernel", [size + self._num_units, self._num_units])
        self._bias = self.add_weight("bias", [self._num_units], initializer=Zeros)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        gates = nn.bias_add(matmul.matmul(array.concat([inputs, state], 1), self._kernel), self._bias)
        output = self._activation(gates)
        return output, output


class GRUCell(_UnitsCell):
    """The gated recurrent unit. It has `gates/kernel`, `gates/bias` (at first ones), and of `candidate/` both.

    Source: Cho et al., 2014.
    """

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, kernel_initializer: Any = None,
        bias_initializer: Any = None, name: str | None = None, dtype: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._initializers = (kernel_initializer, bias_initializer)
        self._gates: Any = None
        self._candidate: Any = None

    def build(self, input_shape: Any) -> None:
        """See Layer."""
        rows = self._inputs_size(input_shape) + self._num_units
        kernel, bias = self._initializers
        ones = Constant(1.0, dtype=self._dtype or dtypes.float32)
        self._gates = (
            self.add_weight("gates/kernel", [rows, 2 * self._num_units], initializer=kernel),
            self.add_weight("gates/bias", [2 * self._num_units], initializer=ones if bias is None else bias),
        )
        self._candidate = (
            self.add_weight("candidate/kernel", [rows, self._num_units], initializer=kernel),
            self.add_weight("candidate/bias", [self._num_units], initializer=Zeros if bias is None else bias),
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        gates = nn.bias_add(matmul.matmul(array.concat([inputs, state], 1), self._gates[0]), self._gates[1])
        r, u = array.split(elementwise.sigmoid(gates), 2, 1)
        both = array.concat([inputs, r * state], 1)
        c = self._activation(nn.bias_add(matmul.matmul(both, self._candidate[0]), self._candidate[1]))
        output = u * state + (1 - u) * c
        return output, output


class LSTMStateTuple(NamedTuple):
    """State of an LSTM: `c` is the cell's memory, `h` its output."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        """The type of both. Raises TypeError if they differ."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent dtypes for internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


def _joined(c: Tensor, h: Tensor, as_tuple: bool) -> Any:
    return LSTMStateTuple(c, h) if as_tuple else array.concat([c, h], 1)


class BasicLSTMCell(_UnitsCell):
    """The LSTM without peepholes, clipping or projection. Variables: `kernel` and `bias`, gates in order i, j, f, o."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True, activation: Any = None,
        reuse: Any = None, name: str | None = None, dtype: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._kernel: Any = None
        self._bias: Any = None

    @property
    def state_size(self) -> Any:
        n = self._num_units
        return LSTMStateTuple(n, n) if self._state_is_tuple else 2 * n

    def build(self, input_shape: Any) -> None:
        """See Layer."""
        rows = self._inputs_size(input_shape) + self._num_units
        self._kernel = self.add_weight("kernel", [rows, 4 * self._num_units])
        self._bias = self.add_weight("bias", [4 * self._num_units], initializer=Zeros)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        c, h = state if self._state_is_tuple else array.split(state, 2, 1)
        gates = nn.bias_add(matmul.matmul(array.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = array.split(gates, 4, 1)
        sigmoid = elementwise.sigmoid
        new_c = c * sigmoid(f + self._forget_bias) + sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * sigmoid(o)
        return new_h, _joined(new_c, new_h, self._state_is_tuple)


class LSTMCell(_UnitsCell):
    """The LSTM with optional peepholes, clipping and projection.

    Variables: `kernel`, `bias`; with peepholes `w_f_diag`, `w_i_diag`, `w_o_diag`; with num_proj `projection/kernel`.
    Sources: Hochreiter and Schmidhuber, 1997; Gers et al., 1999; Sak et al., 2014.
    """

    def __init__(
        self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None, initializer: Any = None,
        num_proj: int | None = None, proj_clip: float | None = None, num_unit_shards: int | None = None,
        num_proj_shards: int | None = None, forget_bias: float = 1.0, state_is_tuple: bool = True,
        activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._kernel: Any = None
        self._bias: Any = None
        self._peepholes: list[Any] = []
        self._projection: Any = None

    @property
    def state_size(self) -> Any:
        c, h = self._num_units, self.output_size
        return LSTMStateTuple(c, h) if self._state_is_tuple else c + h

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def build(self, input_shape: Any) -> None:
        """See Layer."""
        n, first = self._num_units, self._initializer
        rows = self._inputs_size(input_shape) + self.output_size
        self._kernel = self.add_weight("kernel", [rows, 4 * n], initializer=first)
        self._bias = self.add_weight("bias", [4 * n], initializer=Zeros)
        if self._use_peepholes:
            self._peepholes = [self.add_weight(f"w_{gate}_diag", [n], initializer=first) for gate in "fio"]
        if self._num_proj is not None:
            self._projection = self.add_weight("projection/kernel", [n, self._num_proj], initializer=first)
        self.built = True

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        n, sigmoid = self._num_units, elementwise.sigmoid
        c, h = state if self._state_is_tuple else array.split(state, [n, self.output_size], 1)
        gates = nn.bias_add(matmul.matmul(array.concat([inputs, h], 1), self._kernel), self._bias)
        i, j, f, o = array.split(gates, 4, 1)
        if self._use_peepholes:
            w_f, w_i, w_o = self._peepholes
            new_c = sigmoid(f + self._forget_bias + w_f * c) * c + sigmoid(i + w_i * c) * self._activation(j)
        else:
            new_c = sigmoid(f + self._forget_bias) * c + sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            new_c = clip.clip_by_value(new_c, -self._cell_clip, self._cell_clip)
        open_to = sigmoid(o + w_o * new_c) if self._use_peepholes else sigmoid(o)
        new_h = open_to * self._activation(new_c)
        if self._projection is not None:
            new_h = matmul.matmul(new_h, self._projection)
            if self._proj_clip is not None:
                new_h = clip.clip_by_value(new_h, -self._proj_clip, self._proj_clip)
        return new_h, _joined(new_c, new_h, self._state_is_tuple)
