"""``tf.io``: public names alone."""

from dtfzmq.compat import gfile
from dtfzmq.ops.data_flow import PaddingFIFOQueue, PriorityQueue, QueueBase, RandomShuffleQueue
from dtfzmq.ops.features import FixedLenFeature, FixedLenSequenceFeature, SparseFeature, VarLenFeature
from dtfzmq.ops.files import matching_files, read_file, write_file
from dtfzmq.ops.image_files import (
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
    is_jpeg,
)
from dtfzmq.ops.parsing import parse_example, parse_single_example, parse_single_sequence_example
from dtfzmq.ops.records import (
    decode_compressed,
    decode_csv,
    parse_tensor,
    serialize_tensor,
)
from dtfzmq.ops.sparse_serial import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from dtfzmq.ops.string_numbers import decode_raw
from dtfzmq.ops.strings import decode_base64, encode_base64
from dtfzmq.train.inputs.producers import match_filenames_once
from dtfzmq.train.inputs.tfrecords import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
