"""Inputs of unknown rank, and further rare arguments: calls that TensorFlow answered, by name; see test_answers.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.answered.table import case


def dim(tf: Any, x: Any) -> Any:
    """`x` as a tensor of which nothing but the type is known."""
    return tf.placeholder_with_default(x, None)


def twice(tf: Any, y: Any, x: Any) -> Any:
    """The gradient of the gradient."""
    (first,) = tf.gradients(y, x)
    return tf.gradients(tf.square(first), x)


case("zfloor_special", lambda tf, x, y: [tf.floordiv(x, y), tf.floormod(x[2:4], y[2:4]), x[2:] // y[2:]])
case("zdivide_nothing", lambda tf, x, y: [
    tf.floordiv(x, y), tf.floormod(x, y), tf.truncatediv(x, y), tf.truncatemod(x, y),
])  # fmt: skip
case("zdiag_bool", lambda tf, x, y: [tf.matrix_diag(x), tf.matrix_diag_part(y, k=(0, 1)), tf.linalg.adjoint(y)])
case("zpermuted_back", lambda tf, x: [tf.transpose(tf.stop_gradient(x), [-1, 0, -2]), x[[1, 2]]])
case("zindex_list", lambda tf, x: x[[1]])
case("zpad_bool", lambda tf, x: [tf.pad(x, [[1, 0], [0, 2]]), tf.pad(x, [[1, 0], [0, 2]], constant_values=True)])
case("ztext_filled", lambda tf, x, y: [tf.fill([2], x), tf.one_hot([1, 0], 2, x, y)])
case("zargmax_bool", lambda tf, x: [tf.argmax(x, 1), tf.argmin(x)])
case("zarg_order", lambda tf, x: [tf.arg_max(x, 1, tf.int32), tf.arg_min(x, 0), tf.count_nonzero(input=x, axis=1)])
case("zbent_twice", lambda tf, x: [
    twice(tf, f(x) * x, x) for f in (tf.nn.relu, tf.nn.relu6, tf.nn.leaky_relu)
] + [twice(tf, f(x), x) for f in (tf.nn.relu, tf.nn.relu6, tf.nn.leaky_relu)])  # fmt: skip
case("ztop_k_types", lambda tf, x, y: [
    tf.nn.top_k(x, 2), tf.math.top_k(y, 2, index_type=tf.int64).indices,
    tf.nn.top_k(tf.cast(y, tf.bfloat16), 2).indices,
])  # fmt: skip
case("zslice_int64", lambda tf, x: [
    tf.slice(dim(tf, x), tf.constant([0, 1], tf.int64), tf.constant([1, 2], tf.int64)),
    dim(tf, x)[tf.constant(1, tf.int64), 1:],
])  # fmt: skip
case("zrows_by_index", lambda tf, x: tf.gather_nd(x, [[2], [0], [2]]))
case("zmasked_vector", lambda tf, x: [
    tf.boolean_mask(x, [True, False, True, True, False]),
    tf.boolean_mask(dim(tf, x), [True, False, True, True, False]),
])  # fmt: skip
case("zunknown_concat", lambda tf, x, y: tf.concat([dim(tf, x), dim(tf, y)], -1))
case("zunknown_crelu", lambda tf, x: tf.nn.crelu(dim(tf, x)))
case("zunknown_matmul", lambda tf, x, y: [
    tf.matmul(dim(tf, x), dim(tf, y), transpose_b=True), tf.matmul(dim(tf, x[0]), dim(tf, y[0]), transpose_b=True),
    tf.matmul(dim(tf, x[0]), y[1], transpose_b=True),
])  # fmt: skip
case("zunknown_sort", lambda tf, x: [
    tf.sort(dim(tf, x), 0), tf.sort(dim(tf, x), -2, "DESCENDING"), tf.argsort(dim(tf, x), 0),
])  # fmt: skip
case("zunknown_tensordot", lambda tf, x, y: [
    tf.tensordot(dim(tf, x), y, 2), tf.tensordot(dim(tf, x), dim(tf, y), [[1, 2], [0, 1]]),
    tf.tensordot(x, dim(tf, y), [[-1], [-2]]), tf.tensordot(x, y, tf.constant([[0], [2]])),
])  # fmt: skip
case("zunknown_linspace", lambda tf, x, y: tf.linspace(dim(tf, x), dim(tf, y), 3))
case("zunknown_embedding", lambda tf, x, y: [
    tf.nn.embedding_lookup([dim(tf, x), dim(tf, y)], [[4, 0], [2, 3]], partition_strategy="div"),
    tf.nn.embedding_lookup([dim(tf, x), dim(tf, y)], [3, 1, 1]),
])  # fmt: skip
case("zunknown_transpose", lambda tf, x: [
    tf.matrix_transpose(dim(tf, x)), tf.transpose(tf.stop_gradient(dim(tf, x)), [-1, 0, 1]),
])  # fmt: skip
case("zunknown_shapes", lambda tf, x: [
    tf.pad(dim(tf, x), [[1, 0], [0, 1]]), tf.slice(dim(tf, x), [0, 1], [2, 1]), tf.tile(dim(tf, x), [1, 2]),
    tf.einsum("ij,kj->ik", dim(tf, x), dim(tf, x)), tf.einsum("ij->", dim(tf, x)),
])  # fmt: skip
case("zshapes_counted", lambda tf, x: [
    tf.range(tf.shape(x)[0] * 2), tf.zeros([tf.shape(x)[0] - 1, tf.reduce_prod(tf.shape(x))]),
    tf.reshape(x, [tf.shape(x)[0] // 2, -1]), tf.confusion_matrix([1, 2], [2, 4]),
    tf.sequence_mask(tf.maximum([1, 3], 2)),
])  # fmt: skip
case("zimages", lambda tf, x: [
    tf.cast(f(dim(tf, x)) * 64, tf.int32) for f in (
        tf.image.flip_left_right, tf.image.flip_up_down, tf.image.transpose_image, tf.image.rot90,
        lambda x: tf.image.crop_to_bounding_box(x, 1, 1, 2, 3), lambda x: tf.image.pad_to_bounding_box(x, 1, 0, 5, 6),
        lambda x: tf.image.resize_image_with_crop_or_pad(x, 5, 3), lambda x: tf.image.grayscale_to_rgb(x[..., :1]),
    )
])  # fmt: skip
case("zmeasured_bytes", lambda tf, x, y: tf.image.psnr(x, y, 255.0))
case("zbest_per_class", lambda tf, b, s: [
    *tf.image.combined_non_max_suppression(b, s, 2, 5),
    *tf.image.combined_non_max_suppression(b[:, :, :1], s, 2, 8, 0.3, 0.4, pad_per_class=True, clip_boxes=False),
])  # fmt: skip


def _serialized(tf: Any, v: Any) -> list[Any]:
    sp = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], v, [2, 3])
    rows = tf.stack([tf.serialize_sparse(sp), tf.serialize_sparse(tf.sparse_transpose(sp))])
    return [
        tf.serialize_sparse(sp), tf.serialize_many_sparse(sp), tf.deserialize_many_sparse(rows, v.dtype),
        tf.deserialize_many_sparse(tf.serialize_many_sparse(sp), v.dtype, rank=2),
    ]  # fmt: skip


case("zserial_sparse", _serialized)
case("zserial_sparse_text", _serialized)
case("zoperators", lambda tf, x, y: [x @ y, y @ np.ones([3, 2], np.float32), np.ones([1, 2], np.float32) @ x])
case("zoperators_complex", lambda tf, x: abs(x))


def _of_length(tf: Any, x: Any) -> Any:
    """`x` as a tensor of known rank and unknown sizes."""
    return tf.placeholder_with_default(x, [None] * x.shape.ndims)


case("zsignals", lambda tf, x: [
    tf.signal.frame(_of_length(tf, x), 3, 2), tf.signal.frame(_of_length(tf, x), 4, 3, pad_end=True, pad_value=1.0),
    tf.signal.frame(_of_length(tf, x), 4, 3, pad_end=True, axis=0), tf.abs(tf.signal.stft(_of_length(tf, x), 4, 2)),
    tf.signal.overlap_and_add(_of_length(tf, x), 2),
])  # fmt: skip
case("zridge", lambda tf, x, y: [
    tf.matrix_solve_ls(_of_length(tf, x), y, 0.5), tf.matrix_solve_ls(_of_length(tf, tf.transpose(x)), y[:2], 0.5),
])  # fmt: skip


def _everywhere(call: Any) -> Any:
    """A call with its inputs of unknown rank, of unknown sizes and known, one after the other."""
    return lambda tf, *x: [
        y for hide in (dim, _of_length, lambda tf, x: x) for y in call(tf, *(hide(tf, t) for t in x))
    ]  # fmt: skip


case("zcross_entropies", _everywhere(lambda tf, x: [
    tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.nn.softmax(x), logits=2 * x, axis=axis) for axis in (0, 1)
]))  # fmt: skip
case("zclass_losses", _everywhere(lambda tf, x, y, column, w: [
    tf.losses.sparse_softmax_cross_entropy(labels, x, weights) for labels in (y, column)
    for weights in (1.0, w, w[:, tf.newaxis])
]))  # fmt: skip
case("zclass_counts", _everywhere(lambda tf, x, y: [
    tf.confusion_matrix(x, y), tf.confusion_matrix(x[:, 0], y[:, tf.newaxis], 4), tf.confusion_matrix(y, y),
]))  # fmt: skip
case("zcosines", lambda tf, x, y: [
    z for hide in (_of_length, lambda tf, x: x) for z in (
        *(tf.spectral.dct(hide(tf, x), kind, n) for kind in (1, 2, 3) for n in (None, 4, 9)),
        tf.spectral.dct(hide(tf, y), norm="ortho"), tf.spectral.idct(hide(tf, y[0, 0])),
    )
] + [tf.spectral.dct(dim(tf, y)), tf.spectral.idct(dim(tf, x), 1)])  # fmt: skip
case("zspectra_shifted", _everywhere(lambda tf, x: [
    tf.signal.fftshift(x, [0]), tf.signal.ifftshift(x, [0, -1]), tf.signal.fftshift(x, 1),
]))  # fmt: skip
case("zframed", _everywhere(lambda tf, x: [
    tf.signal.frame(x, 3, 2), tf.signal.frame(x, 4, 3, True, 1.5), tf.signal.frame(x, 9, 3),
    tf.signal.frame(x, 2, 1, axis=0), tf.signal.overlap_and_add(x, 2), tf.abs(tf.signal.stft(x, 4, 2)),
]))  # fmt: skip
case("zimages_measured", _everywhere(lambda tf, x: [
    tf.image.sobel_edges(x), tf.image.ssim(x, x * 0.5, 1.0), tf.image.ssim(x[0], x[1], 1.0, filter_size=5),
]))  # fmt: skip
case("zimages_fitted", lambda tf, x: [
    tf.image.resize_image_with_pad(y, *size) for size in ((6, 6), (2, 2), (4, 5), (3, 20), (9, 4))
    for y in (x, tf.stop_gradient(_of_length(tf, x)))  # TensorFlow derives the second wrongly
])  # fmt: skip
case("zranks_learnt", _everywhere(lambda tf, x, v: [
    tf.nn.lrn(x), tf.space_to_batch(x, [[0, 0], [0, 2]], 2), tf.batch_to_space(x, [[0, 1], [0, 0]], 2),
    tf.nn.bias_add(x, [1.0, 2.0, 3.0]), tf.nn.fused_batch_norm(x, v, v)[0],
    *tf.nn.fused_batch_norm(x, [1.0, 2.0, 3.0], v, v, v, is_training=False)[:1],
]))  # fmt: skip
case("zstrings_cut", lambda tf, x: [
    tf.string_split(x, mark, skip_empty=skip) for mark in (", ", ",", "") for skip in (True, False)
])  # fmt: skip
case("zhessians", _everywhere(lambda tf, x: [
    tf.hessians(tf.reduce_sum(y), x) for y in (x**3, tf.tanh(x) * tf.reduce_sum(x), tf.gather(x, [0, 0]) ** 2)
]))  # fmt: skip
case("zunknown_norms", lambda tf, x: [
    tf.norm(dim(tf, x), 2, a, keepdims=k) for a in ([-2, -1], [2, 0]) for k in (True, False)
])  # fmt: skip
case("zunknown_images", lambda tf, x: [
    tf.stop_gradient(f(dim(tf, x))) for f in (
        tf.image.flip_up_down, tf.image.flip_left_right, tf.image.transpose_image,
        *(lambda t, k=k: tf.image.rot90(t, k) for k in range(4)), lambda t: tf.image.random_flip_up_down(t, seed=3),
    )
])  # fmt: skip
case("zunknown_image", lambda tf, x: [
    tf.stop_gradient(f(dim(tf, x))) for f in (
        tf.image.flip_up_down, lambda t: tf.image.rot90(t, 3), lambda t: tf.image.random_flip_left_right(t, seed=3),
    )
])  # fmt: skip
case("zunknown_limited", lambda tf, x, y, i: [
    tf.nn.embedding_lookup([dim(tf, x), dim(tf, y)], dim(tf, i), partition_strategy="div", max_norm=1.0),
    tf.nn.embedding_lookup(dim(tf, x), dim(tf, i[:2]), max_norm=0.5),
    tf.nn.safe_embedding_lookup_sparse([dim(tf, x)], tf.SparseTensor(
        np.array([[0, 0], [2, 1], [2, 0]]), tf.constant([0, -1, 1], tf.int64), dim(tf, np.array([4, 2])),
    ), default_id=1),
])  # fmt: skip
case("zunknown_top_k", lambda tf, x, k: [*tf.nn.top_k(x, dim(tf, k)), *tf.nn.top_k(dim(tf, x), dim(tf, k))])
case("zunknown_ctc_classes", lambda tf, x, y: [
    tf.nn.ctc_loss_v2(x, dim(tf, y), [2, 1], [4, 3], blank_index=b) for b in (0, 2)
])  # fmt: skip
