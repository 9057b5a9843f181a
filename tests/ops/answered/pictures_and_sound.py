"""Crops, boxes, sequences, spectrograms and records: calls that TensorFlow answered, by name; see test_answers.py."""

from __future__ import annotations

from typing import Any

from tests.ops.answered.table import case

case("ycrop", lambda tf, x, b: tf.image.crop_and_resize(x, b, [1, 0], [3, 2]))
case("ycrop_nearest", lambda tf, x, b: tf.image.crop_and_resize(
    image=x, boxes=b, box_ind=[0, 1], crop_size=[1, 4], method="nearest", extrapolation_value=2.0,
))  # fmt: skip
case("ydraw", lambda tf, x, b: [
    tf.image.draw_bounding_boxes(x, b), tf.image.draw_bounding_boxes(x, b, colors=[[1.0, 0.0, 0.5]]),
])  # fmt: skip
case("yglimpse", lambda tf, x: [
    tf.image.extract_glimpse(x, [3, 3], [[0.0, 0.0], [0.1, -0.2]]),
    tf.image.extract_glimpse(x, [2, 3], [[2.0, 2.0], [1.2, 3.0]], centered=False, normalized=False),
])  # fmt: skip
case("ysuppress", lambda tf, b, s: [
    *tf.image.non_max_suppression_with_scores(b, s, 4, soft_nms_sigma=0.5),
    *tf.image.non_max_suppression_with_scores(b, s, 4, iou_threshold=0.2),
    *tf.image.non_max_suppression_padded(b, s, 8, iou_threshold=0.2, pad_to_max_output_size=True),
])  # fmt: skip
case("yvolumes", lambda tf, x: [
    tf.extract_volume_patches(x, [1, 2, 2, 2, 1], [1, 1, 2, 1, 1], p) for p in ("SAME", "VALID")
])  # fmt: skip
_LABELS = [[0, 0], [0, 1], [0, 2], [1, 0]], [3, 3]
for n, options in (
    ("0", {}),
    ("1", {"ctc_merge_repeated": False}),
    ("2", {"preprocess_collapse_repeated": True}),
    ("3", {"ignore_longer_outputs_than_inputs": True, "time_major": False}),
):
    case("yctc" + n, lambda tf, x, v, t, options=options: tf.nn.ctc_loss(
        tf.SparseTensor(_LABELS[0], v, _LABELS[1]), x, t, **options
    ))  # fmt: skip
for merge in (False, True):
    case(f"ygreedy{merge:d}", lambda tf, x, t, merge=merge: tf.nn.ctc_greedy_decoder(x, t, merge_repeated=merge))
    case(f"ybeam{merge:d}", lambda tf, x, t, merge=merge: tf.nn.ctc_beam_search_decoder(x, t, 4, 2, merge))
for n, weights in (("0", 1.0), ("1", 2.0), ("2", [[1.0], [0.0]])):
    case("ypairwise" + n, lambda tf, x, y, w=weights: tf.losses.mean_pairwise_squared_error(x, y, weights=w))
case("ywindows", lambda tf, x: [
    tf.signal.kaiser_window(6), tf.signal.kaiser_window(5, beta=3.0), tf.signal.kaiser_bessel_derived_window(8),
    tf.signal.vorbis_window(6, tf.float64), tf.signal.inverse_stft_window_fn(2)(5, dtype=tf.float32),
])  # fmt: skip
OPTIONS: list[dict[str, Any]] = [{}, {"norm": "ortho"}, {"window_fn": None}]
for n, options in zip("012", OPTIONS):
    case("ymdct" + n, lambda tf, x, options=options: tf.signal.mdct(x, 8, pad_end=True, **options))
    case("yinverse_mdct" + n, lambda tf, x, options=options: tf.signal.inverse_mdct(x, **options))
case("ymel", lambda tf, x: [
    tf.signal.linear_to_mel_weight_matrix(4, 9), tf.signal.mfccs_from_log_mel_spectrograms(x),
])  # fmt: skip
case("ycsv", lambda tf, x, m: [
    *tf.decode_csv(x, [[0], [1.0], ["z"]]), *tf.decode_csv(x, [m, [""]], na_value="NA", select_cols=[0, 2]),
])  # fmt: skip
case("ycsv_plain", lambda tf, x: tf.decode_csv(x, [[""], [0]], field_delim="|", use_quote_delim=False))
case("yserial", lambda tf, x, y, z: [tf.serialize_tensor(t) for t in (x, y, z)])
case("yparse", lambda tf, x, y: [
    tf.parse_tensor(tf.serialize_tensor(x), tf.float32), tf.parse_tensor(tf.serialize_tensor(y), tf.string),
])  # fmt: skip
case("yinflate", lambda tf, x: tf.decode_compressed(x, "ZLIB"))
case("ywhere_v2", lambda tf, c, x, y: [tf.where_v2(c, x, y), tf.where_v2(c, 1.0, y)])
case("yvectorized", lambda tf, x: tf.vectorized_map(lambda r: (tf.reduce_sum(r), r * 2), x))
for n, options in (("0", {}), ("1", {"range_given": True}), ("2", {"range_given": True, "signed_input": False})):
    case("yquantize" + n, lambda tf, x, options=options: tf.quantization.quantize_and_dequantize(
        x, -1.0, 1.5, num_bits=4, **options
    ))  # fmt: skip
case("yctc_dense", lambda tf, y, x, n, t: tf.nn.ctc_loss_v2(y, x, n, t))
case("yctc_dense_last", lambda tf, y, x, n, t: tf.nn.ctc_loss_v2(y, x, n, t, False, blank_index=2))
case("yctc_labels", lambda tf, y, n: [*tf.nn.ctc_unique_labels(y), *tf.nn.collapse_repeated(y, n)])
case("ydistort", lambda tf, b: [
    t * 0 for t in tf.image.sample_distorted_bounding_box([8, 9, 3], b, seed=1)
] + [tf.image.sample_distorted_bounding_box([8, 9, 3], b, area_range=[1.0, 1.0], aspect_ratio_range=[2.0, 2.1])[2]])
