"""``tf.bitwise``: public names alone."""

from dtfzmq.ops.bitwise_ops import bitwise_and, bitwise_or, bitwise_xor, invert, left_shift, right_shift
