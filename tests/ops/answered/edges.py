"""Rare arguments and edges of common functions: calls that TensorFlow answered, by name; see test_answers.py."""

from __future__ import annotations

from tests.ops.answered.table import case

case("xempty_prod", lambda tf, x: [tf.reduce_prod(x, 1), tf.reduce_prod(x, [])])
case("xcomplex_std", lambda tf, x: [tf.math.reduce_std(x, 0), tf.math.reduce_variance(x)])
case("xnan_arg", lambda tf, x: [tf.argmax(x, 1), tf.argmin(x, 1), tf.argmax(x), tf.argmin(x)])
case("xcumprod_zero", lambda tf, x: tf.cumprod(x, 1))
case("xnan_elu", lambda tf, x: [tf.nn.elu(x), tf.nn.selu(x)])
case("xswish", lambda tf, x: [tf.nn.swish(x, beta=2.0), tf.nn.silu(x)])
case("xzero_fraction_bool", lambda tf, x: tf.nn.zero_fraction(x))
case("xdiv_no_nan_int", lambda tf, x, y: tf.div_no_nan(x, y))
case("xcomplex_squares", lambda tf, x, y: tf.real(tf.squared_difference(x, y)))
case("xcomplex_l2", lambda tf, x: tf.abs(tf.nn.l2_normalize(x, 1)))
case("xcomplex_sign", lambda tf, x: tf.imag(tf.sign(x)))
case("xsaturate", lambda tf, x: [tf.saturate_cast(x, t) for t in (tf.int32, tf.uint8, tf.float16)])
case("xsaturate_complex", lambda tf, x: [tf.saturate_cast(x, tf.uint8), tf.saturate_cast(x, tf.complex64)])
case("xsqrt_at_zero", lambda tf, x: tf.maximum(tf.sqrt(x), 1.0))
case("xgather_batch_axis", lambda tf, x, i: tf.gather(x, i, axis=2, batch_dims=1))
case("xgather_batch", lambda tf, x, i: [tf.gather(x, i, batch_dims=1), tf.batch_gather(x, i)])
case("xgather_batch_negative", lambda tf, x, i: tf.gather(x, i, axis=-1, batch_dims=-1))
case("xgather_nd_batch", lambda tf, x, i: tf.gather_nd(x, i, batch_dims=1))
case("xscatter_text", lambda tf, i, x, y: [tf.scatter_nd(i, x, [3]), tf.scatter_nd(i, y, [3])])
case("xmatvec_adjoint", lambda tf, x, y: tf.real(tf.linalg.matvec(x, y, adjoint_a=True)))
case("xtranspose_conjugate", lambda tf, x: tf.imag(tf.matrix_transpose(x, conjugate=True)))
case("xqr_wide", lambda tf, x: [tf.abs(t) for t in tf.qr(x)])
case("xeye_tensors", lambda tf, n, b: tf.eye(n, batch_shape=b))
case("xreshape_empty", lambda tf, x: tf.reshape(x, [0, -1]))
case("xstack_tensor", lambda tf, x: tf.stack(x))
case("xtile_none", lambda tf, x: tf.tile(x, [0, 2]))
case("xpad_text", lambda tf, x: tf.pad(x, [[1, 2]]))
case("xpad_scalar", lambda tf, x, n: tf.pad(x, n))
case("xpad_value", lambda tf, x, y: tf.pad(x, [[1, 1]], constant_values=y))
case("xshape_n_of_one", lambda tf, x: tf.shape_n([x]))
case("xlinspace", lambda tf, x, y: [tf.linspace(x, y, n) for n in (3, 1, 0)])
case("xlinspace_axis", lambda tf, x, y: [tf.linspace(x, y, 3, axis=a) for a in (0, 1, -1)])
case("xlinspace_int", lambda tf, x, y: tf.linspace(x, y, 4))
case("xsequence_mask", lambda tf, x: tf.sequence_mask([1, 3, 2]))
case("xweighted_labels", lambda tf, x, y: tf.nn.weighted_cross_entropy_with_logits(labels=x, logits=y, pos_weight=0.5))
case("xtop_k_tensor", lambda tf, x, k: tf.nn.top_k(x, k))
case("xbias_nc", lambda tf, x, y: tf.nn.bias_add(x, y, data_format="NC..."))
case("xlosses_wide", lambda tf, x, y: [
    tf.losses.mean_squared_error(x, y), tf.losses.huber_loss(x, y), tf.losses.sigmoid_cross_entropy(x, y),
])  # fmt: skip
case("xsparse_loss_weights", lambda tf, i, x, w: tf.losses.sparse_softmax_cross_entropy(i, x, weights=w))
case("xblocks", lambda tf, x: tf.required_space_to_batch_paddings([5, 4], [2, 2]))
case("xdynamic_shape", lambda tf, x, y: tf.broadcast_dynamic_shape(x, y))
case("xnorm", lambda tf, x: [tf.math.reduce_euclidean_norm(x, a, keepdims=True) for a in (None, [0, -1])])
case("zproduct_of_segments", lambda tf, x: [
    tf.segment_prod(x, [0, 0, 2, 2]), tf.unsorted_segment_prod(x, [1, 1, 1, 0], 2),
])  # fmt: skip
case("zclipped_bfloat16", lambda tf, x: tf.saturate_cast(tf.cast(x, tf.bfloat16), tf.uint64))
case("zlgamma_far", lambda tf, x: tf.lgamma(x))
case("zmask_of_nothing", lambda tf: [tf.sequence_mask(tf.constant([], tf.int32)), tf.sequence_mask([0, 0])])
case("zsparse_chosen", lambda tf, v: [
    part for s in [tf.SparseTensor([[0, 1], [1, 0], [1, 2]], v, [2, 3])] for part in (
        tf.sparse_reorder(s), tf.sparse_transpose(s), tf.sparse_slice(s, [0, 0], [1, 3]),
        tf.sparse_add(s, s, thresh=2.0),
        tf.sparse_retain(s, [True, False, True]), tf.sparse_concat(0, [s, s]),
    )
])  # fmt: skip
case("zcounted_bytes", lambda tf, x, y: tf.confusion_matrix(x, y))
case("xgather_nd_nothing", lambda tf, x, i: tf.stop_gradient(tf.gather_nd(x, i)))
case("xsquares_of_bytes", lambda tf, x: tf.math.reduce_euclidean_norm(x, 0))
case("xslope_of_bessel", lambda tf, x: tf.math.bessel_i1(x))
case("xmatrix_norms", lambda tf, x: [tf.norm(x, 2, [-2, -1], keepdims=k) for k in (True, False)])
case("xsvd_full", lambda tf, x: [tf.abs(tf.svd(t, full_matrices=True)[0]) for t in (x, tf.matrix_transpose(x))])
case("xtop_k_of_types", lambda tf, x, k: [tf.nn.top_k(x, k + 1), tf.math.top_k(x, tf.cast(k, tf.int64))])
case("xpoles_left_out", lambda tf, x: [
    tf.where(x > 0, f(x), 2 * x) for f in (tf.sqrt, tf.rsqrt, tf.reciprocal)
])  # fmt: skip
