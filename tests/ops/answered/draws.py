"""Random numbers by seed: draws that TensorFlow answered, by name; see test_answers.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.ops.answered.table import case


def seeded(tf: Any, make: Callable[[], Any], seed: int = 7) -> Any:
    """What `make` draws with the graph's seed set."""
    tf.set_random_seed(seed)
    return make()


case("rgraph_seed", lambda tf: seeded(tf, lambda: [
    tf.random_uniform([5], seed=3), tf.random_normal([3], 1.0, 2.0, seed=3), tf.truncated_normal([9], seed=3),
]))  # fmt: skip
case("runiform", lambda tf: [
    tf.random_uniform([7, 3], -2, 5, seed=3), tf.random_uniform([], seed=3), tf.random_uniform([0, 2], seed=3),
    *(tf.random_uniform([5], dtype=d, seed=3) for d in (tf.float64, tf.float16)),
])  # fmt: skip
case("rnormal", lambda tf: [tf.random_normal([5], dtype=d, seed=3) for d in (tf.float32, tf.float64, tf.float16)])
case("rtruncated", lambda tf: [
    tf.truncated_normal([201], stddev=0.5, dtype=d, seed=3) for d in (tf.float32, tf.float64, tf.float16)
])  # fmt: skip
case("rintegers", lambda tf: [
    tf.random_uniform([6], -5, 100, tf.int32, seed=3), tf.random_uniform([5], -5, 10**12, tf.int64, seed=3),
    tf.random_crop(tf.reshape(tf.range(100), [10, 10]), [2, 3], seed=3),
])  # fmt: skip
case("rshuffled", lambda tf: [
    tf.random_shuffle(tf.range(n), seed=3) for n in (11, 1, 0)
] + [tf.random_shuffle(tf.reshape(tf.range(14), [7, 2]), seed=3)])  # fmt: skip
case("rclasses", lambda tf, x: [tf.multinomial(x, n, seed=3) for n in (5, 1)])
case("rdropout", lambda tf, x: [
    tf.nn.dropout(x, 0.6, seed=2), tf.nn.dropout(x, rate=0.3, noise_shape=[None, 1], seed=2),
])  # fmt: skip
case("rstateless", lambda tf: [
    tf.random.stateless_uniform([5], [1, -2]), tf.random.stateless_uniform([4], [2**40, 2]),
    tf.random.stateless_normal([5], [1, 2], dtype=tf.float64),
    tf.random.stateless_normal([3], [1, 2], dtype=tf.float16),
    tf.random.stateless_truncated_normal([9], [2**40, 2]), tf.random.stateless_uniform([5], [1, 2], -3, 9, tf.int64),
    tf.random.stateless_uniform([5], [1, 2], None, None, tf.int32),
])  # fmt: skip
case("rstateless_classes", lambda tf, x: tf.random.stateless_multinomial(x, 5, [1, 2]))
case("rimages", lambda tf, x: [
    tf.image.random_flip_left_right(x, seed=3), tf.image.random_brightness(x, 0.3, seed=3),
])  # fmt: skip
case("rgraph_seed_alone", lambda tf: seeded(tf, lambda: [
    tf.random_uniform([5], -1, 1), tf.truncated_normal([3]), tf.nn.dropout(tf.ones([9]), rate=0.5),
    tf.cond(tf.reduce_any(tf.random_shuffle([True, True])), lambda: tf.random_normal([3]), lambda: tf.zeros([3])),
    tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x + tf.random_normal([2])), [0, tf.zeros([2])])[1],
    tf.random_uniform([4], 0, 100, tf.int32), tf.multinomial(tf.zeros([1, 9]), 5), tf.random_normal([2]),
]))  # fmt: skip
case("rseeds_of_any_size", lambda tf: [
    *(tf.random_uniform([3], seed=s) for s in (-1, 0, 2**33, 2**31 - 1)),
    *seeded(tf, lambda: [tf.random_uniform([3]), tf.random_uniform([3], seed=5)], -(2**40)),
    *seeded(tf, lambda: [tf.random_uniform([3], seed=0), tf.random_uniform([3], seed=2**31 - 1)], 0),
])  # fmt: skip
case("rmany", lambda tf: [
    *(draw([n], dtype=d, seed=3)[n - 9 :: 4] for n in (4093, 65543, 140001)
      for d in (tf.float32, tf.float64, tf.float16)
      for draw in (tf.random_uniform, tf.random_normal, tf.truncated_normal)),
    *(tf.random_uniform([n], -5, 10**9, d, seed=3)[-9::4] for n in (65543, 140001) for d in (tf.int32, tf.int64)),
    *(tf.random_shuffle(tf.range(n), seed=3)[:: n // 9] for n in (200, 5000)),
])  # fmt: skip
case("rnone_of_a_range", lambda tf: [
    tf.random_uniform([0, 2], 5, 1, tf.int32, seed=3), tf.random.stateless_uniform([0], [1, 2], 5, 5, tf.int64),
])  # fmt: skip
case("rclasses_of_no_number", lambda tf, x: [
    tf.multinomial(x, 6, seed=3), tf.random.stateless_multinomial(x, 6, [1, 2]),
])  # fmt: skip
