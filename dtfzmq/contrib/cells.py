"""Cells of tf.contrib.rnn: the block cells, and an LSTM with layer normalization."""

from __future__ import annotations

from typing import Any

from dtfzmq.base import dtypes
from dtfzmq.graph.graph import Tensor
from dtfzmq.layers.rnn_cells import GRUCell, LSTMCell, LSTMStateTuple, RNNCell
from dtfzmq.ops import array, elementwise, matmul, nn
from dtfzmq.variables.initializers import Constant, Zeros
from dtfzmq.variables.scope import get_variable, variable_scope


class LSTMBlockCell(LSTMCell):
    """`BasicLSTMCell` (with peepholes on demand), whose variables are in the scope "lstm_cell"."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, cell_clip: float | None = None, use_peephole: bool = False,
        dtype: Any = None, reuse: Any = None, name: str | None = "lstm_cell",
    ) -> None:  # fmt: skip
        clip = None if cell_clip is None or cell_clip < 0 else cell_clip
        super().__init__(
            num_units, use_peepholes=use_peephole, cell_clip=clip, forget_bias=forget_bias, reuse=reuse, name=name,
            dtype=dtype,
        )  # fmt: skip


class GRUBlockCellV2(GRUCell):
    """`GRUCell`, whose variables are in the scope "gru_cell"."""

    def __init__(
        self, num_units: int | None = None, cell_size: int | None = None, reuse: Any = None,
        name: str | None = "gru_cell",
    ) -> None:  # fmt: skip
        size = num_units if num_units is not None else cell_size
        if size is None:
            raise ValueError("num_units is required.")
        super().__init__(size, reuse=reuse, name=name)


GRUBlockCell = GRUBlockCellV2


class LayerNormBasicLSTMCell(RNNCell):
    """An LSTM whose gates and memory are layer-normalized, with dropout of the candidate.

    Sources: Ba, Kiros and Hinton, 2016; Semeniuta, Severyn and Barth, "Recurrent Dropout without Memory Loss", 2016.
    """

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, input_size: Any = None, activation: Any = elementwise.tanh,
        layer_norm: bool = True, norm_gain: float = 1.0, norm_shift: float = 0.0, dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None, reuse: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._activation = activation
        self._layer_norm = layer_norm
        self._norm = (norm_gain, norm_shift)
        self._keep = dropout_keep_prob
        self._seed = dropout_prob_seed

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        return self._num_units

    def _normalized(self, x: Tensor, scope: str) -> Tensor:
        if not self._layer_norm:
            return x
        size, kind = x.shape.as_list()[-1], x.dtype.base_dtype
        with variable_scope(scope):
            gain = get_variable("gamma", [size], kind, Constant(self._norm[0]))
            shift = get_variable("beta", [size], kind, Constant(self._norm[1]))
        mean, variance = nn.moments(x, [1], keep_dims=True)
        return nn.batch_normalization(x, mean, variance, shift, gain, 1e-12)

    def call(self, inputs: Any, state: Any) -> Any:
        """See RNNCell."""
        c, h = state
        both = array.concat([inputs, h], 1)
        kind = both.dtype.base_dtype or dtypes.float32
        weights = get_variable("kernel", [both.shape.as_list()[-1], 4 * self._num_units], kind)
        gates = matmul.matmul(both, weights)
        if not self._layer_norm:
            gates = nn.bias_add(gates, get_variable("bias", [4 * self._num_units], kind, Zeros()))
        i, j, f, o = array.split(gates, 4, 1)
        names = ("input", "transform", "forget", "output")
        i, j, f, o = (self._normalized(x, name) for x, name in zip((i, j, f, o), names))
        g = self._activation(j)
        if not isinstance(self._keep, float) or self._keep < 1:
            g = nn.dropout(g, self._keep, seed=self._seed)
        sigmoid = elementwise.sigmoid
        new_c = self._normalized(c * sigmoid(f + self._forget_bias) + sigmoid(i) * g, "state")
        new_h = self._activation(new_c) * sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)
