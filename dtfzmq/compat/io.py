"""``tf.io``: public names alone."""

from dtfzmq.compat import gfile
from dtfzmq.ops.files import matching_files, read_file, write_file
from dtfzmq.ops.string_numbers import decode_raw
from dtfzmq.ops.strings import decode_base64, encode_base64
