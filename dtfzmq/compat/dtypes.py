"""``tf.dtypes``: public names alone."""

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
from dtfzmq.base.dtypes import bool_ as bool
from dtfzmq.ops.cast import cast, saturate_cast
from dtfzmq.ops.complex import complex
from dtfzmq.ops.string_numbers import as_string
