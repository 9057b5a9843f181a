"""Floor 6: the public namespaces of TensorFlow 1's API beside the root, one module each."""

from typing import Any as _Any

from dtfzmq.compat.text import as_bytes, as_str, as_str_any, as_text, bytes_or_text_types, path_to_str
from dtfzmq.ops.asking import dimension_at_index, dimension_value

v1: _Any  #: the root itself, which puts it here
