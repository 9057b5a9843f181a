"""``tf.nn.rnn_cell``: public names alone."""

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
    InputProjectionWrapper,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)
