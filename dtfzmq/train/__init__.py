"""Floor 5, and the module `tf.train`: optimizers, slots, schedules, device setters, replicas, coordination.

Imports go down: base, graph, ops, cluster, variables, client.
"""

from typing import TYPE_CHECKING

from dtfzmq.base import absent
from dtfzmq.cluster.server import Server
from dtfzmq.cluster.spec import ClusterDef, ClusterSpec, JobDef, ServerDef
from dtfzmq.summary.files import summary_iterator
from dtfzmq.summary.writer import FileWriter as SummaryWriter
from dtfzmq.train.checkpoints.reader import (
    CheckpointReader,
    NewCheckpointReader,
    list_variables,
    load_checkpoint,
    load_variable,
)
from dtfzmq.train.checkpoints.saver import Saver
from dtfzmq.train.checkpoints.state import (
    CheckpointState,
    checkpoint_exists,
    generate_checkpoint_state_proto,
    get_checkpoint_mtimes,
    get_checkpoint_state,
    latest_checkpoint,
    remove_checkpoint,
    update_checkpoint_state,
)
from dtfzmq.train.coordinator import Coordinator, LooperThread
from dtfzmq.train.decay import (
    cosine_decay,
    cosine_decay_restarts,
    exponential_decay,
    inverse_time_decay,
    linear_cosine_decay,
    natural_exp_decay,
    noisy_linear_cosine_decay,
    piecewise_constant,
    polynomial_decay,
)
from dtfzmq.train.device_setter import (
    GreedyLoadBalancingStrategy,
    RoundRobinStrategy,
    byte_size_load_fn,
    replica_device_setter,
)
from dtfzmq.train.hooks.saving import CheckpointSaverHook, CheckpointSaverListener, SummarySaverHook
from dtfzmq.train.hooks.stopping import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    StopAtStepHook,
)
from dtfzmq.train.hooks.telling import LoggingTensorHook, StepCounterHook
from dtfzmq.train.hooks.timing import SecondOrStepTimer
from dtfzmq.train.inputs.batching import (
    batch,
    batch_join,
    maybe_batch,
    maybe_batch_join,
    maybe_shuffle_batch,
    maybe_shuffle_batch_join,
    shuffle_batch,
    shuffle_batch_join,
)
from dtfzmq.train.inputs.examples import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
from dtfzmq.train.inputs.producers import (
    input_producer,
    limit_epochs,
    match_filenames_once,
    range_input_producer,
    slice_input_producer,
    string_input_producer,
)
from dtfzmq.train.monitored_session import MonitoredSession, MonitoredTrainingSession, SingularMonitoredSession
from dtfzmq.train.moving_averages import ExponentialMovingAverage
from dtfzmq.train.optimizer import Optimizer
from dtfzmq.train.optimizers import (
    AdadeltaOptimizer,
    AdagradDAOptimizer,
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    ProximalAdagradOptimizer,
    ProximalGradientDescentOptimizer,
    RMSPropOptimizer,
)
from dtfzmq.train.queue_runner import QueueRunner, add_queue_runner, start_queue_runners
from dtfzmq.train.scaffold import Scaffold
from dtfzmq.train.session_creators import ChiefSessionCreator, SessionCreator, WorkerSessionCreator
from dtfzmq.train.session_manager import SessionManager
from dtfzmq.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfzmq.train.step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from dtfzmq.train.supervisor import Supervisor
from dtfzmq.train.sync_replicas import SyncReplicasOptimizer, SyncReplicasOptimizerV2

piecewise_constant_decay = piecewise_constant

__all__ = [
    "AdadeltaOptimizer",
    "AdagradDAOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "BytesList",
    "CheckpointReader",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "CheckpointState",
    "ChiefSessionCreator",
    "ClusterDef",
    "ClusterSpec",
    "Coordinator",
    "Example",
    "ExponentialMovingAverage",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FeedFnHook",
    "FinalOpsHook",
    "FloatList",
    "FtrlOptimizer",
    "GlobalStepWaiterHook",
    "GradientDescentOptimizer",
    "GreedyLoadBalancingStrategy",
    "Int64List",
    "JobDef",
    "LoggingTensorHook",
    "LooperThread",
    "MomentumOptimizer",
    "MonitoredSession",
    "MonitoredTrainingSession",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "NewCheckpointReader",
    "Optimizer",
    "ProximalAdagradOptimizer",
    "ProximalGradientDescentOptimizer",
    "QueueRunner",
    "RMSPropOptimizer",
    "RoundRobinStrategy",
    "Saver",
    "Scaffold",
    "SecondOrStepTimer",
    "SequenceExample",
    "Server",
    "ServerDef",
    "SessionCreator",
    "SessionManager",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "SingularMonitoredSession",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "SummaryWriter",
    "Supervisor",
    "SyncReplicasOptimizer",
    "SyncReplicasOptimizerV2",
    "WorkerSessionCreator",
    "add_queue_runner",
    "assert_global_step",
    "batch",
    "batch_join",
    "byte_size_load_fn",
    "checkpoint_exists",
    "cosine_decay",
    "cosine_decay_restarts",
    "create_global_step",
    "exponential_decay",
    "generate_checkpoint_state_proto",
    "get_checkpoint_mtimes",
    "get_checkpoint_state",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "input_producer",
    "inverse_time_decay",
    "latest_checkpoint",
    "limit_epochs",
    "linear_cosine_decay",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "match_filenames_once",
    "maybe_batch",
    "maybe_batch_join",
    "maybe_shuffle_batch",
    "maybe_shuffle_batch_join",
    "natural_exp_decay",
    "noisy_linear_cosine_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
    "range_input_producer",
    "remove_checkpoint",
    "replica_device_setter",
    "shuffle_batch",
    "shuffle_batch_join",
    "slice_input_producer",
    "start_queue_runners",
    "string_input_producer",
    "summary_iterator",
    "update_checkpoint_state",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        raise absent.lacking("train", name)
