"""``tf.strings``: public names alone."""

from dtfzmq.ops.printing import string_format as format
from dtfzmq.ops.string_numbers import as_string, reduce_join, unicode_transcode, unsorted_segment_join
from dtfzmq.ops.string_numbers import string_to_number as to_number
from dtfzmq.ops.string_split import split
from dtfzmq.ops.strings import lower, regex_full_match, regex_replace, substr, upper
from dtfzmq.ops.strings import string_join as join
from dtfzmq.ops.strings import string_length as length
from dtfzmq.ops.strings import string_strip as strip
from dtfzmq.ops.strings import string_to_hash_bucket as to_hash_bucket
from dtfzmq.ops.strings import string_to_hash_bucket_fast as to_hash_bucket_fast
from dtfzmq.ops.strings import string_to_hash_bucket_strong as to_hash_bucket_strong
from dtfzmq.ops.unicode import (
    bytes_split,
    ngrams,
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_split,
    unicode_split_with_offsets,
)
