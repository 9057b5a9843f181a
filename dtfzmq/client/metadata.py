"""What a traced run tells: per-op times by device, transfers with their bytes, the graphs that each device ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dtfzmq.cluster.record import Record


class NodeExecStats(Record):
    """One execution of a node, or one transfer: `all_start_micros` since the epoch, the rest relative to it.

    A transfer has the op name RecvTensor and a `timeline_label` with bytes, rate, source and destination.
    """

    FIELDS: ClassVar[dict[str, Any]] = {
        "node_name": "",
        "all_start_micros": 0,
        "op_start_rel_micros": 0,
        "op_end_rel_micros": 0,
        "all_end_rel_micros": 0,
        "all_start_nanos": 0,
        "op_start_rel_nanos": 0,
        "op_end_rel_nanos": 0,
        "all_end_rel_nanos": 0,
        "memory": [],
        "output": [],
        "timeline_label": "",
        "scheduled_micros": 0,
        "scheduled_nanos": 0,
        "thread_id": 0,
        "referenced_tensor": [],
        "memory_stats": None,
    }


class DeviceStepStats(Record):
    """What one device did in a step."""

    FIELDS: ClassVar[dict[str, Any]] = {"device": "", "node_stats": [], "thread_names": {}}


class StepStats(Record):
    """What each device did in a step: `dev_stats`."""

    FIELDS: ClassVar[dict[str, Any]] = {"dev_stats": []}


class PartitionNode(Record):
    """One node of a partition graph: inputs as "name:output" and "^name", as TF writes them."""

    FIELDS: ClassVar[dict[str, Any]] = {"name": "", "op": "", "input": [], "device": "", "attr": {}}


class PartitionGraph(Record):
    """The graph that one device ran: `node`."""

    FIELDS: ClassVar[dict[str, Any]] = {"node": []}


class RunMetadata(Record):
    """Filled by a run that is given it. `transferred_bytes` counts tensor bytes that left a task, by receiving task."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "step_stats": StepStats,
        "cost_graph": None,
        "partition_graphs": [],
        "transferred_bytes": {},
    }


def fill(metadata: RunMetadata, plain: Mapping[str, Any]) -> None:
    """Replace the content of `metadata` by what the master reported."""
    metadata.ClearField("step_stats")
    metadata.ClearField("partition_graphs")
    metadata.ClearField("transferred_bytes")
    devices: dict[str, list[NodeExecStats]] = {}
    for device, name, label, start_s, end_s, thread in plain.get("ops", ()):
        start = int(start_s * 1e6)
        took = max(1, int((end_s - start_s) * 1e6))
        devices.setdefault(device, []).append(
            NodeExecStats(
                node_name=name,
                timeline_label=label,
                all_start_micros=start,
                op_end_rel_micros=took,
                all_end_rel_micros=took,
                all_start_nanos=int(start_s * 1e9),
                op_end_rel_nanos=int((end_s - start_s) * 1e9),
                all_end_rel_nanos=int((end_s - start_s) * 1e9),
                scheduled_micros=start,
                thread_id=thread,
            )
        )
    for device in sorted(devices):
        metadata.step_stats.dev_stats.append(DeviceStepStats(device=device, node_stats=devices[device]))
    for nodes in plain.get("graphs", ()):
        metadata.partition_graphs.append(
            PartitionGraph(
                node=[
                    PartitionNode(name=name, op=op, input=inputs, device=device) for name, op, inputs, device in nodes
                ]
            )
        )
    metadata.transferred_bytes.update(plain.get("bytes", {}))
