"""``tf.python_io``: public names alone."""

from dtfzmq.train.inputs.tfrecords import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
