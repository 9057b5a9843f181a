"""Strings, bits, spectra and signals: calls that TensorFlow answered, by name; see test_answers.py."""

from __future__ import annotations

from tests.ops.answered.table import case

for nm, kw in (
    ("0", {}),
    ("s", {"shortest": True}),
    ("e", {"scientific": True}),
    ("p", {"precision": 2, "width": 8, "fill": "0"}),
    ("w", {"width": 9}),
    ("m", {"width": 9, "fill": "-"}),
):
    case("as_string" + nm, lambda tf, x, kw=kw: tf.as_string(x, **kw))
    case("as_stringd" + nm, lambda tf, x, kw=kw: tf.as_string(x, **kw))
for nm, kw in (("0", {}), ("p", {"width": 8, "fill": "0"}), ("m", {"width": 4, "fill": "-"})):
    case("as_stringi" + nm, lambda tf, x, kw=kw: tf.as_string(x, **kw))
case("as_stringb", lambda tf, x: tf.as_string(x))
case("as_stringc", lambda tf, x: tf.as_string(x))
case("s2n", lambda tf, x: tf.string_to_number(x))
case("s2ni", lambda tf, x: tf.string_to_number(x, tf.int32))
case("s2nd", lambda tf, x: tf.string_to_number(x, tf.float64))
case("s2nl", lambda tf, x: tf.string_to_number(x, tf.int64))
case("substr", lambda tf, x: [tf.substr(x, 1, 2), tf.substr(x, -3, 2), tf.substr(x, [0, 2], [1, 9])])
case("substr8", lambda tf, x: tf.substr(x, 1, 2, unit="UTF8_CHAR"))
case("substrb", lambda tf, x: tf.substr(x, [[1], [2]], [[1], [2]]))
case("decode_raw", lambda tf, x: [tf.decode_raw(x, t) for t in (tf.uint8, tf.int16, tf.float32)])
case("decode_rawbe", lambda tf, x: tf.decode_raw(x, tf.int16, little_endian=False))
case("decode_rawbool", lambda tf, x: tf.decode_raw(x, tf.bool))
case("split", lambda tf, x: tf.string_split(x))
case("split2", lambda tf, x: tf.string_split(x, ",;", skip_empty=False))
case("split3", lambda tf, x: tf.string_split(x, ""))
case("ssplit", lambda tf, x: tf.strings.split(x, result_type="SparseTensor"))
case("ssplit2", lambda tf, x: tf.strings.split(x, ",", maxsplit=1, result_type="SparseTensor"))
case("ssplit3", lambda tf, x: tf.strings.split(x, maxsplit=1, result_type="SparseTensor"))
for nm, options in (
    ("0", {}),
    ("1", {"axis": 1, "separator": "-"}),
    ("2", {"reduction_indices": [1, 0]}),
    ("3", {"axis": 0, "keep_dims": True}),
    ("4", {"axis": []}),
):
    case("rj" + nm, lambda tf, x, options=options: tf.reduce_join(x, **options))
case("sj", lambda tf, x, y: tf.string_join(["q", x, y], "+"))
case(
    "rr",
    lambda tf, x: [
        tf.regex_replace(x, "(\\w)X", "<\\1\\0>"),
        tf.regex_replace(x, "X", "", replace_global=False),
        tf.strings.regex_full_match(x, "a.*"),
    ],
)
case("b64", lambda tf, x: [tf.encode_base64(x), tf.encode_base64(x, pad=True), tf.decode_base64(tf.encode_base64(x))])
case(
    "case",
    lambda tf, x: [
        tf.strings.lower(x),
        tf.strings.upper(x),
        tf.strings.lower(x, encoding="utf-8"),
        tf.strings.length(x),
        tf.strings.length(x, unit="UTF8_CHAR"),
        tf.string_strip(x),
    ],
)
case(
    "hash",
    lambda tf, x: [
        tf.string_to_hash_bucket(x, 1000),
        tf.string_to_hash_bucket_fast(x, 1000),
        tf.string_to_hash_bucket_strong(x, 1000, [3, 4]),
        tf.fingerprint(x),
    ],
)
case("fpnum", lambda tf, x: tf.fingerprint(x))
case("usj", lambda tf, x: tf.strings.unsorted_segment_join(x, [0, 1, 0], 3, ":"))
case("utc", lambda tf, x: tf.strings.unicode_transcode(x, "UTF-8", "UTF-16-BE"))
case("fmt", lambda tf, x, y: tf.strings.format("x={} y={}", (x, y)))
for n in ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]:
    case("b" + n, lambda tf, x, y, n=n: getattr(tf.bitwise, n)(x, y))
    case("bu8" + n, lambda tf, x, y, n=n: getattr(tf.bitwise, n)(x, y))
    case("bi64" + n, lambda tf, x, y, n=n: getattr(tf.bitwise, n)(x, y))
case("binv", lambda tf, x: tf.bitwise.invert(x))
case("binvu", lambda tf, x: tf.bitwise.invert(x))
for n in ("fft", "ifft", "fft2d", "ifft2d", "fft3d", "ifft3d"):
    case(n, lambda tf, x, n=n: tf.abs(getattr(tf.spectral, n)(x)))
for n in ("rfft", "rfft2d", "rfft3d"):
    case(n, lambda tf, x, n=n: tf.abs(getattr(tf.spectral, n)(x)))
for n in ("irfft", "irfft2d", "irfft3d"):
    case(n, lambda tf, x, n=n: getattr(tf.spectral, n)(x))
case("rfftl", lambda tf, x: tf.spectral.rfft(x, [6]))
case("rffts", lambda tf, x: tf.spectral.rfft(x, [3]))
case("irfftl", lambda tf, x: tf.spectral.irfft(x, [5]))
for t in (1, 2, 3, 4):
    for form in (None, "ortho"):
        if t == 1 and form:
            continue
        case(f"dct{t}{form}", lambda tf, x, t=t, form=form: tf.spectral.dct(x, type=t, norm=form))
        case(f"idct{t}{form}", lambda tf, x, t=t, form=form: tf.spectral.idct(x, type=t, norm=form))
case("dctn", lambda tf, x: tf.spectral.dct(x, n=3))
for size in (4, 5, 1):
    case(
        f"hann{size}",
        lambda tf, n=size: [
            tf.signal.hann_window(n),
            tf.signal.hamming_window(n),
            tf.signal.hann_window(n, periodic=False),
        ],
    )
case("frame", lambda tf, x: [tf.signal.frame(x, 3, 2), tf.signal.frame(x, 3, 2, pad_end=True, pad_value=9.0)])
case("ola", lambda tf, x: tf.signal.overlap_and_add(x, 2))
case("stft", lambda tf, x: tf.abs(tf.signal.stft(x, 4, 2)))
case("istft", lambda tf, x: tf.signal.inverse_stft(tf.signal.stft(x, 4, 2), 4, 2))
case("shift", lambda tf, x: [tf.signal.fftshift(x), tf.signal.ifftshift(x), tf.signal.fftshift(x, axes=1)])
case("isnd", lambda tf, x: [tf.is_non_decreasing(x), tf.is_strictly_increasing(x)])
case("isnd1", lambda tf, x: [tf.is_non_decreasing(x), tf.is_strictly_increasing(x)])
case("cn", lambda tf, x: tf.check_numerics(x, "m"))
case("vf", lambda tf, x: tf.verify_tensor_all_finite(x, "m"))
case("ucode_points", lambda tf: [
    part for text in ("a\u00e9\t\u20ac\U0001f60ab".encode(), b"a\xffb\xe2\x82c\xed\xa0\x80d", b"") for part in (
        tf.strings.unicode_decode(text, "UTF-8"), tf.strings.unicode_decode(text, "UTF-8", errors="ignore"),
        *tf.strings.unicode_decode_with_offsets(text, "UTF-8", replacement_char=63, replace_control_characters=True),
        *tf.strings.unicode_decode_with_offsets(text, "UTF-8", "ignore", replace_control_characters=True),
    )
])  # fmt: skip
case("ucharacters", lambda tf, x: [
    part for y in [tf.placeholder_with_default(x, [])] for part in (
        tf.strings.unicode_split(y, "UTF-8"), *tf.strings.unicode_split_with_offsets(y, "UTF-8", errors="ignore"),
        tf.strings.unicode_split(tf.strings.unicode_transcode(y, "UTF-8", "UTF-16-BE"), "UTF-16-BE"),
        tf.strings.bytes_split(y),
    )
])  # fmt: skip
case("uencoded", lambda tf, x: [
    *(tf.strings.unicode_encode(x, e) for e in ("UTF-8", "UTF-16-BE", "UTF-32-BE")),
    tf.strings.unicode_encode([97, 0xD800, -1, 0x110000, 98], "UTF-8", errors="ignore"),
    tf.strings.unicode_encode(x[:, None], "UTF-8", replacement_char=63), tf.strings.unicode_encode(x[:, :0], "UTF-8"),
])  # fmt: skip
case("ungrams", lambda tf, x: [
    part for y in (x, tf.reshape(x, [2, 2])) for part in (
        tf.strings.ngrams(y, 2), tf.strings.ngrams(y, (1, 3), "-"), tf.strings.ngrams(y, 5),
        tf.strings.ngrams(y, (1, 2, 3), pad_values=("L", "R")),
        tf.strings.ngrams(y, 3, pad_values="P", padding_width=1),
        tf.strings.ngrams(y, [6, 9], preserve_short_sequences=True),
    )
])  # fmt: skip
case("ucode_orders", lambda tf: [
    part for encoding, text in (
        ("UTF-16", b"\0a\0b\0c"), ("UTF-16", b"\xff\xfea\0\0\xd8b\0c\0"), ("UTF-16", b"\xfe\xff\0a\0b\0c"),
        ("UTF-32", b"\0\0\0a\0\0\0b"), ("UTF-32", b"\xff\xfe\0\0a\0\0\0b\0\0\0c\0\0\0"),
        ("UTF-8", b"a?\xff?b\xff"), ("SHIFT-JIS", b"\x83\x65a"),
    ) for errors in ("replace", "ignore") for part in tf.strings.unicode_decode_with_offsets(text, encoding, errors)
])  # fmt: skip
