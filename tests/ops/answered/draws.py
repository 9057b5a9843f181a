"""Random numbers by seed: draws that TensorFlow answered, by name; see test_answers.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.ops.answered.table import case


def seeded(tf: Any, make: Callable[[], Any]) -> Any:
    """What `make` draws with the graph's seed set."""
    tf.set_random_seed(7)
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
