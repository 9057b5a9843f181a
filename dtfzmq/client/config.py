"""Options of one run, and the configuration records that programs reach through the client."""

from __future__ import annotations

from typing import Any, ClassVar

from dtfzmq.cluster.config import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RPCOptions,
    ThreadPoolOptionProto,
    WireOptions,
)
from dtfzmq.cluster.record import Record

__all__ = [
    "ConfigProto",
    "DebugOptions",
    "GPUOptions",
    "GraphOptions",
    "OptimizerOptions",
    "RPCOptions",
    "RunOptions",
    "RunOptionsExperimental",
    "ThreadPoolOptionProto",
    "WireOptions",
]


class DebugOptions(Record):
    """Accepted for TF1 programs; nothing is watched."""

    FIELDS: ClassVar[dict[str, Any]] = {"debug_tensor_watch_opts": [], "global_step": 0, "reset_disk_byte_usage": False}


class RunOptionsExperimental(Record):
    """Accepted for TF1 programs."""

    FIELDS: ClassVar[dict[str, Any]] = {"collective_graph_key": 0, "use_run_handler_pool": False}


class RunOptions(Record):
    """Options of one `Session.run`: `timeout_in_ms` (0: the session's), `trace_level`, `output_partition_graphs`."""

    NO_TRACE = 0
    SOFTWARE_TRACE = 1
    HARDWARE_TRACE = 2
    FULL_TRACE = 3
    Experimental = RunOptionsExperimental
    FIELDS: ClassVar[dict[str, Any]] = {
        "trace_level": 0,
        "timeout_in_ms": 0,
        "inter_op_thread_pool": 0,
        "output_partition_graphs": False,
        "debug_options": DebugOptions,
        "report_tensor_allocations_upon_oom": False,
        "experimental": RunOptionsExperimental,
    }
