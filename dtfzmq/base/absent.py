"""TensorFlow 1's names that are not there yet, each with what a program can do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Gap(NamedTuple):
    """Names that belong together: what they are, what to do without them, and the names behind ``tf.``."""

    what: str
    instead: str
    names: str


GAPS = (
    Gap(
        "profiler hooks and loops that are run for a program",
        "pass tf.RunOptions and tf.RunMetadata to a run; write the loop with tf.train.MonitoredTrainingSession",
        "train.ProfilerHook train.basic_train_loop",
    ),
    Gap(
        "checkpoints of objects",
        "save and restore variables with tf.train.Saver",
        "train.Checkpoint train.CheckpointManager train.checkpoints_iterator train.init_from_checkpoint "
        "train.warm_start",
    ),
    Gap(
        "graphs and models in files",
        "build the graph again with the code that made it",
        "GraphDef MetaGraphDef NodeDef import_graph_def graph_util saved_model train.export_meta_graph "
        "train.import_meta_graph train.write_graph contrib.session_bundle summary.get_summary_description",
    ),
    Gap(
        "summaries that operations write",
        "fetch what tf.summary.merge_all() gives and hand it to a tf.summary.FileWriter",
        "contrib.summary summary.initialize summary.all_v2_summary_ops",
    ),
    Gap(
        "tf.data",
        "read files with tf.train.string_input_producer, a reader and tf.train.batch, or feed batches with feed_dict",
        "data contrib.data",
    ),
    Gap(
        "lookup tables and feature columns",
        "look ids up in Python before they are fed",
        "lookup contrib.lookup feature_column",
    ),
    Gap(
        "estimators, Keras and distribution strategies",
        "write the training loop with tf.Session and tf.train.replica_device_setter, and layers with tf.layers",
        "estimator keras distribute contrib.learn contrib.keras contrib.estimator contrib.distribute",
    ),
    Gap(
        "eager execution and functions",
        "build a graph and run it in a tf.Session",
        "function GradientTape autograph contrib.eager contrib.autograph",
    ),
    Gap(
        "values that stay in a session",
        "keep them in a tf.Variable",
        "get_session_handle get_session_tensor delete_session_tensor",
    ),
    Gap(
        "ops from native libraries",
        "compute with tf.py_func in the process that has the function",
        "load_library load_op_library load_file_system_library user_ops",
    ),
)


def _gaps() -> Iterator[tuple[str, Gap]]:
    for gap in GAPS:
        for name in gap.names.split():
            yield name, gap


_BY_NAME = dict(_gaps())


def lacking(module: str, name: str) -> AttributeError:
    """The error of a public module for a name that it has not: `module` is "" for ``tf`` itself, else "train" etc."""
    full = f"{module}.{name}" if module else name
    gap = _BY_NAME.get(full)
    if gap is None:
        return AttributeError(f"module 'dtfzmq{module and '.'}{module}' has no attribute '{name}'")
    return AttributeError(
        f"tf.{full} is not there yet: dtfzmq has no {gap.what} so far. Meanwhile, {gap.instead}. "
        "docs/differences.md lists what is missing."
    )
