"""``tf.nn``: public names alone."""

from dtfzmq.ops.clip import l2_normalize
from dtfzmq.ops.elementwise import sigmoid, tanh
from dtfzmq.ops.matmul import l2_loss
from dtfzmq.ops.nn import (
    batch_normalization,
    bias_add,
    crelu,
    dropout,
    elu,
    embedding_lookup,
    in_top_k,
    leaky_relu,
    log_softmax,
    moments,
    relu,
    relu6,
    relu_layer,
    selu,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    softplus,
    softsign,
    sparse_softmax_cross_entropy_with_logits,
    swish,
    top_k,
    weighted_cross_entropy_with_logits,
    xw_plus_b,
    zero_fraction,
)
