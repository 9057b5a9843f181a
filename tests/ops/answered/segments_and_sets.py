"""Segments, sets, sorting and sparse tensors: calls that TensorFlow answered, by name; see test_answers.py."""

from __future__ import annotations

import numpy as np

from tests.ops.answered.table import case


def i32(*numbers):
    return np.array(numbers, "int32")


ids = i32(0, 0, 2, 2, 3)
for n in ["sum", "mean", "max", "min", "prod"]:
    case("seg_" + n, lambda tf, x, n=n: getattr(tf, "segment_" + n)(x, ids))
    case("segi_" + n, lambda tf, x, n=n: getattr(tf, "segment_" + n)(x, ids))
for n in ["sum", "mean", "max", "min", "prod", "sqrt_n"]:
    case("useg_" + n, lambda tf, x, n=n: getattr(tf, "unsorted_segment_" + n)(x, i32(3, 0, -1, 3, 0), 4))
    case(
        "useg2_" + n, lambda tf, x, n=n: getattr(tf, "unsorted_segment_" + n)(x, np.array([[0, 1], [1, 0]], "int64"), 2)
    )
for n in ["sum", "mean", "sqrt_n"]:
    case("sseg_" + n, lambda tf, x, n=n: getattr(tf, "sparse_segment_" + n)(x, i32(0, 2, 1, 1), i32(0, 0, 1, 3)))
    case(
        "ssegn_" + n,
        lambda tf, x, n=n: getattr(tf, "sparse_segment_" + n)(x, i32(0, 2, 1, 1), i32(0, 0, 1, 3), num_segments=6),
    )
case("dpart", lambda tf, x: tf.dynamic_partition(x, i32(0, 2, 0, 1), 3))
case("dpart2", lambda tf, x: tf.dynamic_partition(x, np.array([[0, 1], [1, 1]], "int32"), 2))
case("dstitch", lambda tf, x, y: tf.dynamic_stitch([[0, 2], [1, 2]], [x, y]))
case("dstitch2", lambda tf, x, y: tf.dynamic_stitch([tf.constant(3), tf.constant([[0], [1]])], [x, y]))
case("unique", lambda tf, x: tf.unique(x, tf.int64))
case("uniques", lambda tf, x: tf.unique(x))
case("uwc", lambda tf, x: tf.unique_with_counts(x))
case("sd1", lambda tf, x, y: tf.setdiff1d(x, y, tf.int64))
case("sds", lambda tf, x, y: tf.setdiff1d(x, y))
for d in ["ASCENDING", "DESCENDING"]:
    for ax in (-1, 0, 1):
        case(f"sort{d}{ax}", lambda tf, x, d=d, ax=ax: tf.sort(x, axis=ax, direction=d))
        case(f"argsort{d}{ax}", lambda tf, x, d=d, ax=ax: tf.argsort(x, axis=ax, direction=d))
    case("sorti" + d, lambda tf, x, d=d: tf.sort(x, direction=d))
    case("argsorti" + d, lambda tf, x, d=d: tf.argsort(x, direction=d, stable=True))
    case("sortu8" + d, lambda tf, x, d=d: tf.sort(x, direction=d))
for side in ("left", "right"):
    case("ss" + side, lambda tf, a, b, side=side: tf.searchsorted(a, b, side, tf.int64))
    case("ss1" + side, lambda tf, a, b, side=side: tf.searchsorted(a, b, side=side))
case("bincount", lambda tf, x: tf.bincount(x))
case("bincountw", lambda tf, x, w: tf.bincount(x, w))
case("bincountm", lambda tf, x: tf.bincount(x, minlength=7, dtype=tf.int64))
case("bincountx", lambda tf, x: tf.bincount(x, maxlength=2))
case("bincountf", lambda tf, x: tf.bincount(x, dtype=tf.float32))
case("bincount2d", lambda tf, x: tf.bincount(x))
case("hist", lambda tf, x: tf.histogram_fixed_width(x, [0.0, 5.0], nbins=5))
case("histb", lambda tf, x: tf.histogram_fixed_width_bins(x, [0.0, 5.0], nbins=5))
case("conf", lambda tf, a, b: tf.confusion_matrix(a, b))
case("confn", lambda tf, a, b: tf.confusion_matrix(a, b, num_classes=6, dtype=tf.float32))
case("confw", lambda tf, a, b, w: tf.confusion_matrix(a, b, weights=w, dtype=tf.float32))
case("conf2", lambda tf, a, b: tf.confusion_matrix(a, b))
case("unravel", lambda tf, x: tf.unravel_index(x, [3, 4]))
ii = np.array([[0, 1], [1, 0], [1, 2]], "int64")


def sp(tf, v, i=ii, s=(2, 3)):
    return tf.SparseTensor(tf.constant(i), v, tf.constant(np.array(s, "int64")))


case("s2d", lambda tf, v: tf.sparse_to_dense(ii, [2, 3], v, 5.0))
case("s2d1", lambda tf, v: tf.sparse_to_dense([1, 3], [5], v))
case("s2d0", lambda tf, v: tf.sparse_to_dense(2, [4], v))
case("st2d", lambda tf, v: tf.sparse_tensor_to_dense(sp(tf, v)))
case("sts", lambda tf, v: tf.sparse_tensor_to_dense(sp(tf, v), "z"))
for ad in (0, 1):
    for bd in (0, 1):
        case(
            f"sdm{ad}{bd}",
            lambda tf, v, m, ad=ad, bd=bd: tf.sparse_tensor_dense_matmul(
                sp(tf, v), m, adjoint_a=bool(ad), adjoint_b=bool(bd)
            ),
        )
case("sadd", lambda tf, v, w: tf.sparse_add(sp(tf, v), sp(tf, w, np.array([[0, 0], [1, 0]], "int64"))))
case("saddd", lambda tf, v, w: tf.sparse_add(sp(tf, v), w))
case("saddt", lambda tf, v, w: tf.sparse_add(sp(tf, v), sp(tf, w), threshold=0.5))
case(
    "smax",
    lambda tf, v, w: [tf.sparse_maximum(sp(tf, v), sp(tf, w, ii[:2])), tf.sparse_minimum(sp(tf, v), sp(tf, w, ii[:2]))],
)
case("sreorder", lambda tf, v: tf.sparse_reorder(sp(tf, v, ii[::-1].copy())))
case("sretain", lambda tf, v: tf.sparse_retain(sp(tf, v), [True, False, True]))
case("sslice", lambda tf, v: tf.sparse_slice(sp(tf, v), [0, 1], [2, 5]))
case("sreshape", lambda tf, v: tf.sparse_reshape(sp(tf, v), [3, -1]))
case("stransp", lambda tf, v: tf.sparse_transpose(sp(tf, v)))
case("sconcat", lambda tf, v, w: tf.sparse_concat(1, [sp(tf, v), sp(tf, w)]))
case("sconcat0", lambda tf, v, w: tf.sparse_concat(0, [sp(tf, v), sp(tf, w, s=(4, 5))], expand_nonconcat_dim=True))
case("ssplit_", lambda tf, v: tf.sparse_split(sp_input=sp(tf, v), num_split=2, axis=1))
case("sfill", lambda tf, v: tf.sparse_fill_empty_rows(sp(tf, v, s=(4, 3)), 9.0))
case("ssoft", lambda tf, v: tf.sparse_softmax(sp(tf, v)))
case("sreset", lambda tf, v: [tf.sparse_reset_shape(sp(tf, v, s=(5, 6))), tf.sparse_reset_shape(sp(tf, v), [5, 6])])
for axis in (None, 0, 1, [0, 1], -1):
    case(
        f"srs{axis}",
        lambda tf, v, axis=axis: [
            tf.sparse_reduce_sum(sp(tf, v), axis),
            tf.sparse_reduce_sum(sp(tf, v), axis, keepdims=True),
        ],
    )
    case(f"srm{axis}", lambda tf, v, axis=axis: tf.sparse_reduce_max(sp(tf, v), axis))
case("srss", lambda tf, v: tf.sparse_reduce_sum_sparse(sp(tf, v), 1))
case("sind", lambda tf, v: tf.sparse_to_indicator(sp(tf, v), 6))
case("smerge", lambda tf, v, w: tf.sparse_merge(sp(tf, v), sp(tf, w), 7))
case("sfd", lambda tf, x: tf.sparse.from_dense(x))
case("sexp", lambda tf, v: [tf.sparse.expand_dims(sp(tf, v), 1), tf.sparse.expand_dims(sp(tf, v), -1)])
case("seye", lambda tf: tf.sparse.eye(2, 3))
case(
    "setu",
    lambda tf, x, y: [
        tf.sets.set_union(x, y),
        tf.sets.set_intersection(x, y),
        tf.sets.set_difference(x, y),
        tf.sets.set_difference(x, y, aminusb=False),
    ],
)
case("setsz", lambda tf, v: tf.sets.set_size(sp(tf, v)))
case("edit", lambda tf, v, w: [tf.edit_distance(sp(tf, v), sp(tf, w, ii[:2]), normalize=nz) for nz in (True, False)])
for n in ("erf", "lgamma", "digamma"):
    case("h" + n, lambda tf, x, n=n: getattr(tf, n)(x))
case("hseg", lambda tf, x: tf.segment_sum(x, ids))
case("hus", lambda tf, x: tf.unsorted_segment_sum(x, i32(0, 1, 0, 1, 1), 2))
