"""``tf.version``: which TensorFlow a program may take this for."""

VERSION = "1.15.0"
GIT_VERSION = "dtfzmq"
COMPILER_VERSION = ""
GRAPH_DEF_VERSION = 134
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
