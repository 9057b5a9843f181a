"""``tf.manip``: public names alone."""

from dtfzmq.ops.array import reshape, tile
from dtfzmq.ops.blocks import batch_to_space_nd, space_to_batch_nd
from dtfzmq.ops.moving import roll
from dtfzmq.ops.slicing import gather_nd, reverse, scatter_nd
