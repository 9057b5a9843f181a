"""``tf.sparse``: public names alone."""

from dtfzmq.graph.sparse import SparseTensor
from dtfzmq.ops.accumulators import SparseConditionalAccumulator
from dtfzmq.ops.segments import sparse_segment_mean as segment_mean
from dtfzmq.ops.segments import sparse_segment_sqrt_n as segment_sqrt_n
from dtfzmq.ops.segments import sparse_segment_sum as segment_sum
from dtfzmq.ops.sparse import from_dense
from dtfzmq.ops.sparse import sparse_add as add
from dtfzmq.ops.sparse import sparse_concat as concat
from dtfzmq.ops.sparse import sparse_expand_dims as expand_dims
from dtfzmq.ops.sparse import sparse_eye as eye
from dtfzmq.ops.sparse import sparse_fill_empty_rows as fill_empty_rows
from dtfzmq.ops.sparse import sparse_mask as mask
from dtfzmq.ops.sparse import sparse_maximum as maximum
from dtfzmq.ops.sparse import sparse_minimum as minimum
from dtfzmq.ops.sparse import sparse_placeholder as placeholder
from dtfzmq.ops.sparse import sparse_reorder as reorder
from dtfzmq.ops.sparse import sparse_reset_shape as reset_shape
from dtfzmq.ops.sparse import sparse_reshape as reshape
from dtfzmq.ops.sparse import sparse_retain as retain
from dtfzmq.ops.sparse import sparse_slice as slice
from dtfzmq.ops.sparse import sparse_softmax as softmax
from dtfzmq.ops.sparse import sparse_split as split
from dtfzmq.ops.sparse import sparse_tensor_dense_matmul as matmul
from dtfzmq.ops.sparse import sparse_tensor_dense_matmul as sparse_dense_matmul
from dtfzmq.ops.sparse import sparse_tensor_to_dense as to_dense
from dtfzmq.ops.sparse import sparse_transpose as transpose
from dtfzmq.ops.sparse_reduce import sparse_merge as merge
from dtfzmq.ops.sparse_reduce import sparse_reduce_max as reduce_max
from dtfzmq.ops.sparse_reduce import sparse_reduce_max_sparse as reduce_max_sparse
from dtfzmq.ops.sparse_reduce import sparse_reduce_sum as reduce_sum
from dtfzmq.ops.sparse_reduce import sparse_reduce_sum_sparse as reduce_sum_sparse
from dtfzmq.ops.sparse_reduce import sparse_to_indicator as to_indicator
