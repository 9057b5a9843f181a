"""ConfigProto and its parts: what a session, or a server, is asked for. TF1's fields are all accepted; a table in
docs/differences.md says which have a meaning here, and whether for a server or a session."""

from __future__ import annotations

from typing import Any, ClassVar

from dtfzmq.cluster.record import Record
from dtfzmq.cluster.spec import ClusterDef


class GPUOptions(Record):
    """Accepted for TF1 programs; there are no GPUs."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "per_process_gpu_memory_fraction": 0.0,
        "allow_growth": False,
        "allocator_type": "",
        "deferred_deletion_bytes": 0,
        "visible_device_list": "",
        "polling_active_delay_usecs": 0,
        "polling_inactive_delay_msecs": 0,
        "force_gpu_compatible": False,
    }


class OptimizerOptions(Record):
    """How far a graph may be rewritten before it runs: see plan/optimize/run."""

    L0 = -1
    L1 = 0
    DEFAULT = 0
    OFF = 0
    ON_1 = 1
    ON_2 = 2
    FIELDS: ClassVar[dict[str, Any]] = {
        "do_common_subexpression_elimination": False,
        "do_constant_folding": False,
        "max_folded_constant_in_bytes": 0,
        "do_function_inlining": False,
        "opt_level": 0,
        "global_jit_level": 0,
        "cpu_global_jit": False,
    }


class GraphOptions(Record):
    """Options of graph rewriting; `optimizer_options` are read, the others accepted for TF1 programs."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "enable_recv_scheduling": False,
        "optimizer_options": OptimizerOptions,
        "build_cost_model": 0,
        "build_cost_model_after": 0,
        "infer_shapes": False,
        "place_pruned_graph": False,
        "enable_bfloat16_sendrecv": False,
        "timeline_step": 0,
        "rewrite_options": None,
    }


class WireOptions(Record):
    """`gradients`: the form in which gradients travel to variables of other tasks: "" (as they are), "float16",
    "bfloat16", or "int8" (with a scale, and what was lost added to the next one). Not of TF1.
    """

    FIELDS: ClassVar[dict[str, Any]] = {"gradients": ""}


class ThreadPoolOptionProto(Record):
    """A per-session thread pool; a distributed session refuses it as TF's does."""

    FIELDS: ClassVar[dict[str, Any]] = {"num_threads": 0, "global_name": ""}


class RPCOptions(Record):
    """`use_rpc_for_inprocess_master` sends a session with a server of its own process over the network path."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "use_rpc_for_inprocess_master": False,
        "compression_algorithm": "",
        "compression_level": 0,
        "cache_rpc_response": False,
        "disable_session_connection_sharing": False,
    }


class Experimental(Record):
    """ConfigProto.Experimental; accepted for TF1 programs."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "collective_group_leader": "",
        "executor_type": "",
        "recv_buf_max_chunk": 0,
        "use_numa_affinity": False,
        "share_session_state_in_clusterspec_propagation": False,
        "disable_thread_spinning": False,
        "share_cluster_devices_in_session": False,
        "optimize_for_static_graph": False,
    }


class ConfigProto(Record):
    """Configuration of a Session or a Server, with TF1's field names.

    Times are in milliseconds. `operation_timeout_in_ms` bounds every run and the contact that it needs; 0 is none.
    `max_signatures`, not of TF1: for how many sets of feeds, fetches and targets a session stays planned; 0 is 1000.
    """

    Experimental = Experimental
    FIELDS: ClassVar[dict[str, Any]] = {
        "device_count": {},
        "intra_op_parallelism_threads": 0,
        "inter_op_parallelism_threads": 0,
        "use_per_session_threads": False,
        "session_inter_op_thread_pool": [],
        "placement_period": 0,
        "device_filters": [],
        "gpu_options": GPUOptions,
        "allow_soft_placement": False,
        "log_device_placement": False,
        "graph_options": GraphOptions,
        "operation_timeout_in_ms": 0,
        "rpc_options": RPCOptions,
        "cluster_def": ClusterDef,
        "max_signatures": 0,
        "isolate_session_state": False,
        "share_cluster_devices_in_session": False,
        "experimental": Experimental,
        "wire": WireOptions,
    }
