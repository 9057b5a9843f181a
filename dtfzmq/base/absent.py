"""TensorFlow 1's names that are not there yet, each with what a program can do meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, NoReturn


class Gap(NamedTuple):
    """Names that belong together: what they are, what to do without them, and the names behind ``tf.``."""

    what: str
    instead: str
    names: str


def _in(module: str, names: str) -> str:
    return " ".join(f"{module}.{name}" for name in names.split())


_SEQ2SEQ = (
    "AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention "
    "BahdanauMonotonicAttention BasicDecoder BasicDecoderOutput BeamSearchDecoder "
    "BeamSearchDecoderOutput BeamSearchDecoderState CustomHelper Decoder FinalBeamSearchDecoderOutput "
    "GreedyEmbeddingHelper Helper InferenceHelper LuongAttention LuongMonotonicAttention "
    "SampleEmbeddingHelper ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper TrainingHelper "
    "dynamic_decode gather_tree hardmax monotonic_attention safe_cumprod tile_batch "
)
_LEGACY_SEQ2SEQ = (
    "attention_decoder basic_rnn_seq2seq embedding_attention_decoder embedding_attention_seq2seq "
    "embedding_rnn_decoder embedding_rnn_seq2seq embedding_tied_rnn_seq2seq model_with_buckets "
    "one2many_rnn_seq2seq tied_rnn_seq2seq "
)
_BATCHES = (
    "bucket bucket_by_sequence_length batch_sequences_with_states SequenceQueueingStateSaver "
    "NextQueuedSequenceBatch rejection_sample stratified_sample weighted_resample resample_at_rate "
    "prefetch_queue "
)
_CONTRIB = (
    "batching bigtable cloud coder compiler cudnn_rnn decision_trees ffmpeg factorization feature_column "
    "fused_conv gan grid_rnn image input_pipeline integrate kernel_methods labeled_tensor "
    "linear_optimizer lite memory_stats mixed_precision model_pruning nccl nn opt periodic_resample "
    "proto quantization quantize receptive_field recurrent reduce_slice_ops resampler rpc signal solvers "
    "sparsemax specs staging stat_summarizer stateless tensor_forest tensorboard tensorrt testing text "
    "timeseries tpu util "
)

GAPS = (
    Gap(
        "profiler hooks and loops that are run for a program",
        "pass tf.RunOptions and tf.RunMetadata to a run; write the loop with tf.train.MonitoredTrainingSession",
        "train.ProfilerHook train.basic_train_loop profiler contrib.tfprof contrib.training.train "
        "contrib.training.evaluate_once contrib.training.evaluate_repeatedly contrib.training.StopAfterNEvalsHook "
        "contrib.training.SummaryAtEndHook",
    ),
    Gap(
        "checkpoints of objects",
        "save and restore variables with tf.train.Saver",
        "train.Checkpoint train.CheckpointManager train.checkpoints_iterator contrib.checkpoint "
        "contrib.training.checkpoints_iterator contrib.training.wait_for_new_checkpoint",
    ),
    Gap(
        "initial values from checkpoints",
        "run the initializers, then what tf.contrib.framework.assign_from_checkpoint_fn(path, variables) gives",
        "train.init_from_checkpoint train.warm_start contrib.framework.init_from_checkpoint",
    ),
    Gap(
        "graphs and models in files",
        "build the graph again with the code that made it, and restore its variables with tf.train.Saver; "
        "tf.Graph.get_operations() gives what is in a graph",
        "GraphDef MetaGraphDef NodeDef import_graph_def graph_util saved_model train.export_meta_graph "
        "train.import_meta_graph train.write_graph train.Saver.export_meta_graph train.Saver.as_saver_def "
        "Graph.as_graph_def contrib.session_bundle contrib.saved_model contrib.graph_editor contrib.copy_graph "
        "contrib.predictor summary.get_summary_description",
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
        "decoders, attention and helpers of seq2seq",
        "decode with tf.nn.raw_rnn or tf.while_loop, or train with tf.nn.dynamic_rnn",
        f"{_in('contrib.seq2seq', _SEQ2SEQ)} {_in('contrib.legacy_seq2seq', _LEGACY_SEQ2SEQ)}",
    ),
    Gap(
        "batches by length or class",
        "order examples in Python before they are fed; tf.train.batch(..., dynamic_pad=True) pads each batch",
        _in("contrib.training", _BATCHES),
    ),
    Gap(
        "distributions and conditional random fields",
        "draw with tf.random and write densities with tf.math",
        "distributions contrib.distributions contrib.bayesflow contrib.crf",
    ),
    Gap(
        "clusters that are asked of others",
        "give the addresses to a tf.train.ClusterSpec",
        "contrib.cluster_resolver",
    ),
    Gap(
        "the rest of tf.contrib",
        "look in tf.train, tf.image, tf.nn, tf.random and tf.signal for what has its place there too",
        _in("contrib", _CONTRIB),
    ),
    Gap(
        "values that stay in a session",
        "keep them in a tf.Variable",
        "get_session_handle get_session_tensor delete_session_tensor",
    ),
    Gap(
        "ops from native libraries",
        "compute with tf.py_func in the process that has the function",
        "load_library load_op_library load_file_system_library user_ops sysconfig",
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


class Lacking:
    """Stands in a public class for a method that is not there yet: `owner` and `name` make the name behind ``tf.``."""

    def __init__(self, owner: str, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: object, kind: type | None = None) -> NoReturn:
        raise lacking(self._owner, self._name)
