"""``tf.queue``: public names alone."""

from dtfzmq.ops.data_flow import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
