"""TensorFlow 1's distributed runtime over ZeroMQ: ``import dtfzmq as tf``.

This module holds public names alone. Where a thing lives, floor by floor: ``base`` errors, dtypes, the loop; ``graph``
and ``wire``; ``ops``, ``plan`` and ``runtime``; ``cluster`` and ``variables``; ``client`` sessions; ``train`` and
``layers``; ``cli``, ``compat`` and ``contrib``. docs/architecture.md walks through them.
"""

import importlib as _importlib
import sys as _sys
from typing import Any as _Any

from dtfzmq import compat, layers, summary, train
from dtfzmq.base import absent as _absent
from dtfzmq.base import errors
from dtfzmq.base.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from dtfzmq.base.dtypes import bool_ as bool  # TensorFlow's name
from dtfzmq.base.errors import OpError
from dtfzmq.base.names import DeviceSpec
from dtfzmq.base.shapes import Dimension, TensorShape
from dtfzmq.base.version import VERSION as __version__
from dtfzmq.client.config import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunOptions,
    WireOptions,
)
from dtfzmq.client.metadata import RunMetadata
from dtfzmq.client.session import InteractiveSession, Session
from dtfzmq.client.stack import get_default_session
from dtfzmq.compat import (
    app,
    bitwise,
    debugging,
    dtypes,
    flags,
    gfile,
    image,
    initializers,
    io,
    linalg,
    logging,
    losses,
    manip,
    math,
    metrics,
    nest,
    nn,
    python_io,
    quantization,
    queue,
    random,
    sets,
    signal,
    sparse,
    spectral,
    strings,
    version,
)
from dtfzmq.compat.behaviour import (
    control_flow_v2_enabled,
    disable_control_flow_v2,
    disable_eager_execution,
    disable_resource_variables,
    disable_tensor_equality,
    disable_v2_behavior,
    disable_v2_tensorshape,
    enable_eager_execution,
    enable_resource_variables,
    enable_v2_behavior,
    executing_eagerly,
    executing_eagerly_outside_functions,
    resource_variables_enabled,
)
from dtfzmq.compat.version import (
    COMPILER_VERSION,
    GIT_VERSION,
    GRAPH_DEF_VERSION,
    VERSION,
)
from dtfzmq.graph.convert import convert_to_tensor, register_tensor_conversion_function
from dtfzmq.graph.graph import Graph, get_default_graph, reset_default_graph
from dtfzmq.graph.indexed import IndexedSlices
from dtfzmq.graph.keys import GraphKeys
from dtfzmq.graph.scopes import (
    add_to_collection,
    add_to_collections,
    colocate_with,
    container,
    control_dependencies,
    device,
    get_collection,
    get_collection_ref,
    get_seed,
    init_scope,
    name_scope,
    op_scope,
    set_random_seed,
)
from dtfzmq.graph.sparse import SparseTensor, SparseTensorValue
from dtfzmq.graph.static import constant_value
from dtfzmq.graph.tensor import Operation, Tensor
from dtfzmq.ops.accumulators import ConditionalAccumulator, ConditionalAccumulatorBase, SparseConditionalAccumulator
from dtfzmq.ops.array import (
    broadcast_static_shape,
    broadcast_to,
    concat,
    expand_dims,
    invert_permutation,
    matrix_transpose,
    pack,
    parallel_stack,
    rank,
    reshape,
    shape,
    shape_n,
    size,
    split,
    squeeze,
    stack,
    tile,
    transpose,
    unpack,
    unstack,
)
from dtfzmq.ops.asking import (
    convert_to_tensor_or_indexed_slices,
    dimension_at_index,
    dimension_value,
    get_static_value,
    guarantee_const,
    is_tensor,
)
from dtfzmq.ops.barrier import Barrier
from dtfzmq.ops.blocks import (
    batch_to_space,
    batch_to_space_nd,
    depth_to_space,
    required_space_to_batch_paddings,
    space_to_batch,
    space_to_batch_nd,
    space_to_depth,
)
from dtfzmq.ops.cast import (
    bitcast,
    cast,
    saturate_cast,
    to_bfloat16,
    to_complex64,
    to_complex128,
    to_double,
    to_float,
    to_int32,
    to_int64,
)
from dtfzmq.ops.checks import (
    Assert,
    add_check_numerics_ops,
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    check_numerics,
    is_non_decreasing,
    is_numeric_tensor,
    is_strictly_increasing,
    verify_tensor_all_finite,
)
from dtfzmq.ops.clip import clip_by_average_norm, clip_by_global_norm, clip_by_norm, clip_by_value, global_norm, norm
from dtfzmq.ops.complex import angle, complex, complex_abs, conj, imag, real
from dtfzmq.ops.constants import (
    constant,
    eye,
    fill,
    identity,
    identity_n,
    lin_space,
    linspace,
    no_op,
    ones,
    ones_like,
    placeholder,
    placeholder_with_default,
    range,
    stop_gradient,
    zeros,
    zeros_like,
)
from dtfzmq.ops.control import (
    case,
    cond,
    switch_case,
    while_loop,
)
from dtfzmq.ops.custom_gradient import custom_gradient, grad_pass_through, recompute_grad
from dtfzmq.ops.data_flow import FIFOQueue, PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from dtfzmq.ops.decompositions import qr, self_adjoint_eig, self_adjoint_eigvals, svd
from dtfzmq.ops.diag import diag, diag_part, matrix_band_part, matrix_diag, matrix_diag_part, matrix_set_diag, trace
from dtfzmq.ops.distributions import (
    random_gamma,
    random_poisson,
)
from dtfzmq.ops.einsum import einsum
from dtfzmq.ops.elementwise import (
    abs,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    cos,
    cosh,
    exp,
    expm1,
    floor,
    inv,
    is_finite,
    is_inf,
    is_nan,
    log,
    log1p,
    logical_not,
    neg,
    negative,
    reciprocal,
    rint,
    round,
    rsqrt,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)
from dtfzmq.ops.extremes import arg_max, arg_min, argmax, argmin
from dtfzmq.ops.fake_quant import (
    fake_quant_with_min_max_args,
    fake_quant_with_min_max_args_gradient,
    fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_gradient,
    fake_quant_with_min_max_vars_per_channel,
    fake_quant_with_min_max_vars_per_channel_gradient,
)
from dtfzmq.ops.features import FixedLenFeature, FixedLenSequenceFeature, SparseFeature, VarLenFeature
from dtfzmq.ops.files import (
    matching_files,
    read_file,
    timestamp,
    write_file,
)
from dtfzmq.ops.functional import (
    foldl,
    foldr,
    map_fn,
    scan,
    vectorized_map,
)
from dtfzmq.ops.gradient_rules import NoGradient, NotDifferentiable, RegisterGradient
from dtfzmq.ops.gradients import (
    AggregationMethod,
    UnconnectedGradients,
    gradients,
)
from dtfzmq.ops.grouping import group, tuple
from dtfzmq.ops.hessians import hessians
from dtfzmq.ops.linalg import (
    cholesky,
    cholesky_solve,
    cross,
    matrix_determinant,
    matrix_inverse,
    matrix_solve,
    matrix_solve_ls,
    matrix_triangular_solve,
)
from dtfzmq.ops.math import (
    accumulate_n,
    add,
    add_n,
    atan2,
    div,
    div_no_nan,
    divide,
    equal,
    floor_div,
    floordiv,
    floormod,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    mul,
    multiply,
    not_equal,
    pow,
    realdiv,
    scalar_mul,
    squared_difference,
    sub,
    subtract,
    truediv,
    truncatediv,
    truncatemod,
)
from dtfzmq.ops.matmul import batch_matmul, matmul, matvec, tensordot
from dtfzmq.ops.matrix_functions import matrix_square_root
from dtfzmq.ops.moving import (
    broadcast_dynamic_shape,
    ensure_shape,
    repeat,
    roll,
)
from dtfzmq.ops.parsing import parse_example, parse_single_example, parse_single_sequence_example
from dtfzmq.ops.partitioning import dynamic_partition, dynamic_stitch, parallel_stitch
from dtfzmq.ops.patches import (
    extract_image_patches,
    extract_volume_patches,
)
from dtfzmq.ops.printing import Print
from dtfzmq.ops.printing import print_ as print  # TensorFlow's name
from dtfzmq.ops.py_func import numpy_function, py_func
from dtfzmq.ops.random import (
    multinomial,
    random_crop,
    random_normal,
    random_shuffle,
    random_uniform,
    truncated_normal,
)
from dtfzmq.ops.readers import (
    FixedLengthRecordReader,
    IdentityReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
)
from dtfzmq.ops.records import (
    decode_compressed,
    decode_csv,
    parse_tensor,
    serialize_tensor,
)
from dtfzmq.ops.reductions import (
    count_nonzero,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from dtfzmq.ops.reverse_sequence import reverse_sequence
from dtfzmq.ops.running import log_sigmoid
from dtfzmq.ops.scatter_nd import (
    batch_scatter_update,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_update,
    tensor_scatter_add,
    tensor_scatter_nd_add,
    tensor_scatter_nd_max,
    tensor_scatter_nd_min,
    tensor_scatter_nd_sub,
    tensor_scatter_nd_update,
    tensor_scatter_sub,
    tensor_scatter_update,
)
from dtfzmq.ops.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sqrt_n,
    unsorted_segment_sum,
)
from dtfzmq.ops.set_ops import edit_distance
from dtfzmq.ops.sets import (
    bincount,
    confusion_matrix,
    histogram_fixed_width,
    histogram_fixed_width_bins,
    listdiff,
    setdiff1d,
    unique,
    unique_with_counts,
    unravel_index,
)
from dtfzmq.ops.shape_checks import (
    assert_integer,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_type,
)
from dtfzmq.ops.slicing import (
    batch_gather,
    boolean_mask,
    cumprod,
    cumsum,
    gather,
    gather_nd,
    meshgrid,
    one_hot,
    pad,
    reverse,
    reverse_v2,
    scatter_nd,
    sequence_mask,
    slice,
    strided_slice,
    where,
    where_v2,
)
from dtfzmq.ops.sorting import argsort, nth_element, searchsorted, sort
from dtfzmq.ops.sparse import (
    convert_to_tensor_or_sparse_tensor,
    sparse_add,
    sparse_concat,
    sparse_fill_empty_rows,
    sparse_mask,
    sparse_maximum,
    sparse_minimum,
    sparse_placeholder,
    sparse_reorder,
    sparse_reset_shape,
    sparse_reshape,
    sparse_retain,
    sparse_slice,
    sparse_softmax,
    sparse_split,
    sparse_tensor_dense_matmul,
    sparse_tensor_to_dense,
    sparse_to_dense,
    sparse_transpose,
)
from dtfzmq.ops.sparse_math import sparse_matmul
from dtfzmq.ops.sparse_reduce import (
    sparse_merge,
    sparse_reduce_max,
    sparse_reduce_max_sparse,
    sparse_reduce_sum,
    sparse_reduce_sum_sparse,
    sparse_to_indicator,
)
from dtfzmq.ops.sparse_serial import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from dtfzmq.ops.special import betainc, digamma, erf, erfc, igamma, igammac, lbeta, lgamma, polygamma, zeta
from dtfzmq.ops.spectral import fft, fft2d, fft3d, ifft, ifft2d, ifft3d
from dtfzmq.ops.state import (
    assign,
    assign_add,
    assign_sub,
    count_up_to,
    scatter_add,
    scatter_div,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
    scatter_update,
)
from dtfzmq.ops.string_numbers import as_string, decode_raw, fingerprint, reduce_join, string_to_number
from dtfzmq.ops.string_split import string_split
from dtfzmq.ops.strings import (
    decode_base64,
    encode_base64,
    regex_replace,
    string_join,
    string_strip,
    string_to_hash_bucket,
    string_to_hash_bucket_fast,
    string_to_hash_bucket_strong,
    substr,
)
from dtfzmq.ops.summarize import (
    audio_summary,
    histogram_summary,
    image_summary,
    merge_all_summaries,
    merge_summary,
    scalar_summary,
)
from dtfzmq.ops.tensor_array import TensorArray
from dtfzmq.summary.messages import Event, HistogramProto, LogMessage, SessionLog, Summary, SummaryMetadata
from dtfzmq.variables.initializers import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    identity_initializer,
    ones_initializer,
    orthogonal_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    uniform_unit_scaling_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from dtfzmq.variables.listing import (
    all_variables,
    assert_variables_initialized,
    global_variables,
    global_variables_initializer,
    initialize_all_tables,
    initialize_all_variables,
    initialize_local_variables,
    initialize_variables,
    is_variable_initialized,
    local_variables,
    local_variables_initializer,
    model_variables,
    moving_average_variables,
    report_uninitialized_variables,
    tables_initializer,
    trainable_variables,
    variables_initializer,
)
from dtfzmq.variables.partitions import (
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from dtfzmq.variables.scope import (
    VariableScope,
    get_local_variable,
    get_variable,
    get_variable_scope,
    no_regularizer,
    variable_creator_scope,
    variable_op_scope,
    variable_scope,
)
from dtfzmq.variables.store import AUTO_REUSE
from dtfzmq.variables.template import make_template
from dtfzmq.variables.variable import Variable

# Programs of TensorFlow 1.13 and later say tf.compat.v1 for what they mean to keep.
_sys.modules["dtfzmq.compat.v1"] = compat.v1 = _sys.modules[__name__]

newaxis = None
no_gradient = NotDifferentiable

# Namespaces that few programs use and that cost a good part of the whole import; they load when they are first named.
_LATE = {"contrib": "dtfzmq.contrib", "test": "dtfzmq.compat.test"}


def __getattr__(name: str) -> _Any:
    if name in _LATE:
        return _importlib.import_module(_LATE[name])
    raise _absent.lacking("", name)
