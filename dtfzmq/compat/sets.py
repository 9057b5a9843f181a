"""``tf.sets``: public names alone."""

from dtfzmq.ops.set_ops import set_difference, set_intersection, set_size, set_union
from dtfzmq.ops.set_ops import set_difference as difference
from dtfzmq.ops.set_ops import set_intersection as intersection
from dtfzmq.ops.set_ops import set_size as size
from dtfzmq.ops.set_ops import set_union as union
