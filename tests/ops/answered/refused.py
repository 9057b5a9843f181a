"""Values that TensorFlow 2.21 refuses with InvalidArgumentError where they are fed: by name, a call, what it takes, and
what it does not (the place of the argument, and the value there).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

REFUSED: dict[str, tuple[Callable[..., Any], list[Any], list[tuple[int, Any]]]] = {}


def _f(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _i(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int32)


def _l(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int64)


def _refused(name: str, call: Callable[..., Any], good: list[Any], *bad: tuple[int, Any]) -> None:
    assert name not in REFUSED, name
    REFUSED[name] = call, good, [(place, np.asarray(value, np.asarray(good[place]).dtype)) for place, value in bad]


_ONE = np.int32(1)
_WIDE, _NARROW = 2**62, -(2**63)

_refused("reshape", lambda tf, x, s: tf.reshape(x, s), [_f(4), _i(2, 2)], (1, [-2, 2]), (1, [-1, -1]), (1, [3, -1]))
_refused("reshape_wide", lambda tf, x, s: tf.reshape(x, s), [_f(4), _l(2, 2)], (1, [_NARROW, 2]), (1, [_WIDE, 4]))
_refused("linspace", lambda tf, n: tf.linspace(0.0, 1.0, n), [np.int32(3)], (0, -1), (0, -(2**31)))
_refused("range", lambda tf, a, b, d: tf.range(a, b, d), [_ONE, np.int32(5), _ONE], (0, 6), (1, 0), (2, 0), (2, -1))
_refused("range_wide", lambda tf, a, b: tf.range(a, b), [np.int64(0), np.int64(3)], (1, _NARROW))
_refused("range_float", lambda tf, a, b: tf.range(a, b), [np.float32(0), np.float32(3)], (0, 4), (1, -1))
_refused("sequence_mask", lambda tf, x, n: tf.sequence_mask(x, n), [_i(1, 3), np.int32(4)], (1, -1))
_refused("eye", lambda tf, n: tf.eye(n), [np.int32(2)], (0, -1))
_refused("sum", lambda tf, x, a: tf.reduce_sum(x, a), [_f(2, 3), _i(0, 1)], (1, [0, 0]), (1, [1, -1]), (1, [0, 2]))
_refused("prod", lambda tf, x, a: tf.reduce_prod(x, a), [_f(2, 3), _i(0, 1)], (1, [0, 0]), (1, [0, -3]))
_refused("reverse", lambda tf, x, a: tf.reverse(x, a), [_f(2, 3), _i(0, 1)], (1, [0, 0]), (1, [1, -1]), (1, [0, 2]))
_refused("tile", lambda tf, x, m: tf.tile(x, m), [_f(2), _i(3)], (1, [3, 3]), (1, []), (1, [-1]), (0, _f(1, 2)))
_refused("one_hot", lambda tf, x, d, on: tf.one_hot(x, d, on, 0.0), [_i(0, 1), np.int32(2), np.float32(1)],
         (1, -1), (1, -(2**31)), (2, [1.0, 1.0]))  # fmt: skip
_refused("slice", lambda tf, x, b, n: tf.slice(x, b, n), [_f(4), _i(1), _i(2)],
         (1, [0, 0, 0]), (2, [2, 2]), (1, [5]), (2, [-2]), (1, [-1]), (2, [2**31 - 1]))  # fmt: skip
_refused("strided_slice", lambda tf, x, b, e, s: tf.strided_slice(x, b, e, s), [_f(4, 3), _i(1, 0), _i(3, 2), _i(1, 1)],
         (1, [1]), (1, [1, 0, 0]), (2, [3]), (2, [[3, 2]]), (3, []), (3, [1, 0]), (3, [[1, 1]]))  # fmt: skip
_refused("picked", lambda tf, x, b, s: tf.strided_slice(x, b, b + 1, s, shrink_axis_mask=1), [_f(4), _i(1), _i(1)],
         (1, [4]), (1, [-5]), (2, [-1]))  # fmt: skip
_refused("split", lambda tf, x, n, a: tf.split(x, n, a, num=2), [_f(4), _i(1, 3), np.int32(0)],
         (1, [-1, 0, 1]), (1, [4]), (1, 4), (1, [-2, 6]), (1, [-1, -1]), (1, [1, 2]), (2, 1), (2, -2))  # fmt: skip
_refused("in_top_k", lambda tf, x, t: tf.nn.in_top_k(x, t, 1), [_f(3, 2), _i(1, 0, 1)], (1, [1]), (1, [[1, 0, 1]]))
_refused("expand_dims", lambda tf, x, a: tf.expand_dims(x, a), [_f(2, 3), np.int32(1)], (1, [1, 1]), (1, 3), (1, []))
_refused("broadcast_to", lambda tf, x, s: tf.broadcast_to(x, s), [_f(3), _i(2, 3)], (1, [2, -3]), (1, [2]), (1, []))
_refused("fill", lambda tf, s, v: tf.fill(s, v), [_l(2, 3), np.float32(1)],
         (0, [2, -1]), (0, [[2, 3]]), (0, [_WIDE, _WIDE]), (1, [1.0, 2.0]))  # fmt: skip
_refused("pad", lambda tf, x, p, c: tf.pad(x, p, constant_values=c), [_f(3), _i([1, 2]), np.float32(0)],
         (1, [[-1, 2]]), (1, [[1, 2], [0, 0]]), (1, [1, 2]), (2, [0.0]))  # fmt: skip
_refused("reflect", lambda tf, x, p: tf.pad(x, p, "REFLECT"), [_f(3), _i([1, 2])], (1, [[3, 0]]), (1, [[0, 99]]))
_refused("symmetric", lambda tf, x, p: tf.pad(x, p, "SYMMETRIC"), [_f(3), _i([3, 2])], (1, [[4, 0]]), (1, [[0, 99]]))
_refused("scatter_nd", lambda tf, i, u, s: tf.scatter_nd(i, u, s), [_i([0], [2]), _f(2, 3), _i(4, 3)],
         (0, [[[0], [2]]]), (0, [[0], [4]]), (1, _f(1, 3)), (1, _f(3)), (2, [4, 2]), (2, [4, -3]))  # fmt: skip
for _name in ("sum", "mean", "sqrt_n"):
    _refused(f"sparse_segment_{_name}",
             lambda tf, x, i, s, n=_name: getattr(tf, f"sparse_segment_{n}")(x, i, s),
             [_f(4, 2), _i(0, 2, 3), _i(0, 0, 1)],
             (1, [-1, 2, 3]), (1, [0, 2, 4]), (1, [0, 2]), (2, [0, 1, 0]), (2, [-1, 0, 1]), (2, [0, 0]))  # fmt: skip
    _refused(f"sparse_segment_{_name}_of",
             lambda tf, x, i, s, c, n=_name: getattr(tf, f"sparse_segment_{n}")(x, i, s, num_segments=c),
             [_f(4, 2), _i(0, 2, 3), _i(0, 0, 1), np.int32(3)],
             (1, [-1, 2, 3]), (1, [0, 2, 4]), (2, [0, 1, 0]), (2, [-1, 0, 1]), (2, [0, 0, 3]), (3, -1))  # fmt: skip
_refused("unravel_index", lambda tf, i, d: tf.unravel_index(i, d), [_i(3, 5), _i(2, 3)],
         (0, [6, 0]), (1, [65536, 65536]), (0, [[3, 5]]))  # fmt: skip
_refused("diag", lambda tf, x: tf.diag(x), [_f(2)], (0, 1.0))
_refused("random_int", lambda tf, s, a, b: 0 * tf.random_uniform(s, a, b, tf.int32), [_i(2), _ONE, np.int32(5)],
         (0, [-1]), (0, 2), (1, 5), (1, [1]), (2, [5]))  # fmt: skip
_refused("multinomial", lambda tf, x, n: 0 * tf.multinomial(x, n), [_f(2, 3), np.int32(4)],
         (0, _f(3)), (0, np.zeros((2, 0))), (1, -1), (1, [4]))  # fmt: skip
_refused("stateless", lambda tf, s, k: tf.random.stateless_uniform(s, k) * 0, [_i(2), _i(1, 2)],
         (0, [-1]), (1, 1), (1, [1]), (1, [1, 2, 3]))  # fmt: skip
_refused("crop_and_resize", lambda tf, x, b, i, s: tf.image.crop_and_resize(x, b, i, s),
         [_f(2, 3, 3, 1), np.array([[0, 0, 1, 1]], np.float32), _i(1), _i(2, 2)],
         (1, np.zeros((1, 8))), (2, [0, 1]), (3, [2, 2, 2]), (3, [0, 2]))  # fmt: skip
_refused("non_max_suppression", lambda tf, b, s, n: tf.image.non_max_suppression(b, s, n),
         [np.array([[0, 0, 1, 1]], np.float32), _f(1), _ONE], (2, -1), (2, [1]), (1, _f(2)))  # fmt: skip
_refused("extract_glimpse", lambda tf, x, s, o: tf.image.extract_glimpse(x, s, o),
         [_f(1, 4, 4, 1), _i(2, 2), np.zeros((1, 2), np.float32)],
         (0, _f(2, 4, 4, 1)), (1, [2, 2, 2]), (2, np.zeros((2, 2))), (2, np.zeros((1, 4))))  # fmt: skip
_SPARSE = [_l([0, 1], [1, 0]), _f(2), _l(2, 3)]
_PARTS = (0, [[0, 1]]), (0, np.zeros((2, 3))), (1, _f(3)), (2, [2]), (2, [2, 3, 4])
_refused("sparse_reorder", lambda tf, *x: tf.sparse_reorder(tf.SparseTensor(*x)), _SPARSE, *_PARTS)
_refused("sparse_slice", lambda tf, i, v, s, b, n: tf.sparse_slice(tf.SparseTensor(i, v, s), b, n),
         [*_SPARSE, _l(0, 0), _l(1, 3)], *_PARTS, (2, [-2, 3]), (2, [_WIDE, 3]), (3, [0]), (4, [1, -1]))  # fmt: skip
_refused("sparse_add", lambda tf, i, v, s, t: tf.sparse_add(tf.SparseTensor(i, v, s), tf.SparseTensor(i, v, t)),
         [*_SPARSE, _l(2, 3)], *_PARTS, (3, [2, 4]), (3, [5, 3]), (2, [-2, 3]))  # fmt: skip
_refused("sparse_maximum", lambda tf, i, v, s, t: tf.sparse_maximum(tf.SparseTensor(i, v, s), tf.SparseTensor(i, v, t)),
         [*_SPARSE, _l(2, 3)], *_PARTS, (3, [2, 4]), (3, [5, 3]))  # fmt: skip
_refused("sparse_fill", lambda tf, i, v, s, d: tf.sparse_fill_empty_rows(tf.SparseTensor(i, v, s), d),
         [*_SPARSE, np.float32(0)], *_PARTS, (3, [0.0]), (2, [1, 3]))  # fmt: skip
_refused("sparse_reshape", lambda tf, i, v, s, t: tf.sparse_reshape(tf.SparseTensor(i, v, s), t),
         [*_SPARSE, _l(3, 2)], (3, [-2, -3]), (3, [-1, -1]), (3, [4, -1]))  # fmt: skip
_refused("sparse_dense", lambda tf, i, s, v, d: tf.sparse_to_dense(i, s, v, d), [_l(0, 2), _l(4), _f(2), np.float32(0)],
         (0, [0, 4]), (0, [2, 0]), (1, [4, 4]), (2, _f(3)), (3, [0.0]))  # fmt: skip
_refused("set_size", lambda tf, i, v, s: tf.sets.set_size(tf.SparseTensor(i, v, s)), [_SPARSE[0], _l(1, 2), _l(2, 3)],
         (0, [[0, 3], [1, 0]]), (0, [[1, 0], [0, 1]]), (0, [[0, 1]]), (1, [1]), (2, [2, 1]))  # fmt: skip
_refused("segment_join", lambda tf, x, i, n: tf.strings.unsorted_segment_join(x, i, n),
         [np.array([b"a", b"b"], object), _i(0, 1), np.int32(2)],
         (1, [0, -1]), (1, [0, 2]), (1, [0]), (2, -1), (2, [2]))  # fmt: skip
_refused("serialize_sparse", lambda tf, *x: tf.serialize_sparse(tf.SparseTensor(*x)), _SPARSE,
         (0, [0, 1]), (0, 0), (1, _f(2, 1)), (1, 1.0), (2, [[2, 3]]), (2, 2))  # fmt: skip
_refused("serialize_many", lambda tf, *x: tf.serialize_many_sparse(tf.SparseTensor(*x)), _SPARSE, *_PARTS,
         (0, [[0, 1], [9, 0]]), (0, [[0, 1], [1, 3]]), (0, [[-1, 0], [0, 0]]), (0, [[0, -1], [0, 0]]),
         (0, [[1, 0], [0, 1]]), (0, [[0, 2], [0, 1]]), (0, [[0, 1], [0, 1]]), (0, [0, 1]), (1, _f(2, 1)),
         (2, [-2, 3]), (2, [2, -3]), (2, 2), (2, [[2, 3]]), (2, [_WIDE, 4]))  # fmt: skip
_LENGTHS = np.zeros((4, 2, 3), np.float32)
for _name, _options in (("", {}), ("_long", {"ignore_longer_outputs_than_inputs": True})):
    _refused(f"ctc_loss{_name}",
             lambda tf, x, i, v, n, o=_options: tf.nn.ctc_loss(tf.SparseTensor(i, v, [2, 2]), x, n, **o),
             [np.zeros((4, 2, 4), np.float32), _l([0, 0], [0, 1], [1, 0]), _i(1, 0, 2), _i(4, 3)],
             (1, [[0, 0], [0, 1], [2, 0]]), (1, [[0, 0], [0, 1], [-1, 0]]), (1, [[0, 1], [0, 0], [1, 0]]),
             (1, [[1, 0], [0, 0], [0, 1]]), (1, np.zeros((3, 3))), (1, np.zeros((0, 2))), (1, [0, 0, 1]),
             (2, [1, 0, -1]), (2, [3, 0, 1]), (2, [1, 0]), (2, [[1, 0, 2]]), (3, [5, 3]), (3, [-1, 3]), (3, [4]),
             (3, [[4, 3]]))  # fmt: skip
for _name, _call in (("greedy", lambda tf, x, n: tf.nn.ctc_greedy_decoder(x, n)[0]),
                     ("beam", lambda tf, x, n: tf.nn.ctc_beam_search_decoder(x, n, 3, 2)[0])):  # fmt: skip
    _refused(f"ctc_{_name}", _call, [_LENGTHS, _i(4, 2)], (0, np.zeros((4, 0, 3))), (0, np.zeros((0, 2, 3))),
             (0, np.zeros((4, 6))), (1, [[4, 2]]))  # fmt: skip
_refused("ctc_beam_of_nothing", lambda tf, x, n: tf.nn.ctc_beam_search_decoder(x, n, 3, 2)[0], [_LENGTHS, _i(4, 2)],
         (1, [-1, 2]), (0, np.full((4, 2, 3), np.nan)))  # fmt: skip
_refused("edit_distance", lambda tf, *x: tf.edit_distance(tf.SparseTensor(*x[:3]), tf.SparseTensor(*x[3:])),
         [_l([0, 0], [0, 1], [1, 0]), _i(1, 2, 3), _l(2, 2), _l([0, 0], [1, 0], [1, 1]), _i(1, 2, 2), _l(2, 2)],
         (0, [[0, 0], [0, 1]]), (0, np.zeros((0, 2))), (0, [0, 0, 1]), (1, [1, 2]), (1, [[1, 2, 3]]), (2, [-1, 2]),
         (2, [2]), (2, [_WIDE, 4]), (3, [[0, 0], [1, 0]]), (4, [1]), (5, [2, -2]))  # fmt: skip
_refused("reduce_join", lambda tf, x, a: tf.reduce_join(x, a), [np.array([[b"a"], [b"b"]], object), _i(0, 1)],
         (1, [0, 0]), (1, [0, -2]), (1, [1, 0, 1]))  # fmt: skip
for _name, _call in (("split", lambda tf, x, d: tf.string_split(x, d)),
                     ("split_v2", lambda tf, x, d: tf.strings.split(x, d, result_type="SparseTensor"))):  # fmt: skip
    _refused(f"string_{_name}", _call, [np.array([b"a b"], object), np.array(b" ", object)],
             (1, [b" "]), (1, [[b" "]]), (1, [b" ", b","]), (0, b"a b"), (0, [[b"a b"]]))  # fmt: skip
_refused("base64", lambda tf, x: tf.decode_base64(x), [np.array([b"YWJj", b"YQ=="], object)],
         (0, [b"YWJj="]), (0, [b"YW="]), (0, [b"Y==="]), (0, [b"YW J"]))  # fmt: skip
_refused("conv2d", lambda tf, x, w: tf.nn.conv2d(x, w, 1, "SAME"), [_f(2, 5, 6, 3), _f(3, 3, 3, 4)],
         (1, _f(0, 3, 3, 4)), (1, _f(3, 3, 2, 4)), (1, _f(3, 3, 3)))  # fmt: skip
_refused("conv3d", lambda tf, x, w: tf.nn.conv3d(x, w, [1] * 5, "SAME"), [_f(1, 3, 4, 4, 2), _f(2, 2, 2, 2, 3)],
         (1, _f(0, 2, 2, 2, 3)), (1, _f(2, 2, 2, 2, 0)))  # fmt: skip
_refused("conv2d_transpose", lambda tf, x, w, s: tf.nn.conv2d_transpose(x, w, s, 2, "SAME"),
         [_f(2, 4, 5, 3), _f(3, 3, 4, 3), _i(2, 8, 10, 4)],
         (0, _f(2, 4, 5, 0)), (0, _f(2, 4, 5, 2)), (1, _f(3, 3, 4, 0)), (2, [2, 0, 10, 4]), (2, [2, -1, 10, 4]),
         (2, [2, 8, 10, 0]), (2, [0, 8, 10, 4]), (2, [2, 8, 10]), (2, 8), (2, [2, 6, 10, 4]))  # fmt: skip
_refused("conv2d_filter", lambda tf, x, s, g: tf.nn.conv2d_backprop_filter(x, s, g, [1] * 4, "SAME"),
         [_f(2, 5, 6, 3), _i(3, 3, 3, 4), _f(2, 5, 6, 4)],
         (1, [3, 3, 3, 0]), (1, [3, 3, 3, 5]), (1, [-3, 3, 3, 4]), (1, [3, 3]), (2, _f(2, 4, 6, 4)))  # fmt: skip
