"""``tf.nn``: public names alone."""

from dtfzmq.compat import rnn_cell
from dtfzmq.layers.rnn import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    raw_rnn,
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
from dtfzmq.ops.batch_norm import fused_batch_norm
from dtfzmq.ops.blocks import depth_to_space, space_to_batch, space_to_depth, with_space_to_batch
from dtfzmq.ops.candidates import (
    all_candidate_sampler,
    compute_accidental_hits,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from dtfzmq.ops.clip import l2_normalize
from dtfzmq.ops.conv_layers import (
    atrous_conv2d,
    atrous_conv2d_transpose,
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
    conv3d,
    conv3d_backprop_filter,
    conv3d_backprop_filter_v2,
    conv3d_transpose,
    conv_transpose,
    convolution,
    depthwise_conv2d,
    depthwise_conv2d_backprop_filter,
    depthwise_conv2d_backprop_input,
    depthwise_conv2d_native,
    depthwise_conv2d_native_backprop_filter,
    depthwise_conv2d_native_backprop_input,
    separable_conv2d,
)
from dtfzmq.ops.ctc import (
    collapse_repeated,
    ctc_beam_search_decoder,
    ctc_beam_search_decoder_v2,
    ctc_greedy_decoder,
    ctc_loss,
    ctc_loss_v2,
    ctc_unique_labels,
)
from dtfzmq.ops.elementwise import sigmoid, tanh
from dtfzmq.ops.embedding import embedding_lookup, embedding_lookup_sparse, safe_embedding_lookup_sparse
from dtfzmq.ops.fractional_pooling import fractional_avg_pool, fractional_max_pool
from dtfzmq.ops.matmul import l2_loss
from dtfzmq.ops.nn import (
    batch_normalization,
    bias_add,
    crelu,
    dropout,
    elu,
    in_top_k,
    leaky_relu,
    log_poisson_loss,
    log_softmax,
    moments,
    relu,
    relu6,
    relu_layer,
    selu,
    sigmoid_cross_entropy_with_logits,
    silu,
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
from dtfzmq.ops.normalization import (
    batch_norm_with_global_normalization,
    local_response_normalization,
    lrn,
    normalize_moments,
    sufficient_statistics,
    weighted_moments,
)
from dtfzmq.ops.patches import dilation2d, erosion2d
from dtfzmq.ops.pooling import (
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    avg_pool_v2,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_v2,
    max_pool_with_argmax,
    pool,
)
from dtfzmq.ops.sampled_losses import nce_loss, sampled_softmax_loss
