"""``tf.random``: public names alone."""

from dtfzmq.ops.random import multinomial, random_normal, random_uniform, set_random_seed, truncated_normal
from dtfzmq.ops.random import random_normal as normal
from dtfzmq.ops.random import random_shuffle as shuffle
from dtfzmq.ops.random import random_uniform as uniform
