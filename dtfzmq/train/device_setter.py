"""`replica_device_setter`: variables to the parameter servers in turn, everything else to the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dtfzmq.base import names
from dtfzmq.cluster.spec import ClusterSpec
from dtfzmq.graph.graph import Operation, device_text

STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
)
Strategy = Callable[[Operation], int]


class RoundRobinStrategy:
    """Tasks 0, 1, ... in turn, in the order in which the ops are made."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks = num_tasks
        self._next_task = 0

    def __call__(self, op: Operation) -> int:
        task = self._next_task
        self._next_task = (task + 1) % self._num_tasks
        return task


class GreedyLoadBalancingStrategy:
    """The task that carries least so far; `load_fn(op)` says what an op weighs."""

    def __init__(self, num_tasks: int, load_fn: Callable[[Operation], float]) -> None:
        self._load_fn = load_fn
        self._ps_loads = [0.0] * num_tasks

    def __call__(self, op: Operation) -> int:
        task = self._ps_loads.index(min(self._ps_loads))
        self._ps_loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Operation) -> float:
    """Bytes of the single output, of one element if its shape is not known. Raises ValueError if it has several."""
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op.name} must have a single output")
    output = op.outputs[0]
    shape = output.get_shape()
    if not shape.is_fully_defined():
        # every variable counts for something, so that those of unknown size are spread too
        return float(output.dtype.size)
    return float(output.dtype.size * (shape.num_elements() or 0))


class _ReplicaDeviceChooser:
    """The device function: merges its choice under the device that the op already asks for."""

    def __init__(
        self,
        ps_tasks: int,
        ps_device: Any,
        worker_device: Any,
        merge_devices: bool,
        ps_ops: Iterable[str],
        ps_strategy: Strategy,
    ) -> None:
        self._ps_tasks = ps_tasks
        self._ps_device = device_text(ps_device)
        self._worker_device = device_text(worker_device)
        self._merge_devices = merge_devices
        self._ps_ops = frozenset(ps_ops)
        self._ps_strategy = ps_strategy

    def device_function(self, op: Operation) -> str:
        """The device of `op`, called as it is made."""
        asked = op.device
        if not self._merge_devices and asked:
            return asked
        if self._ps_tasks and self._ps_device and op.type in self._ps_ops:
            chosen = self._ps_device
            wanted, found = names.parse_device(asked), names.parse_device(chosen)
            if found.job and (not wanted.job or wanted.job == found.job):
                chosen = names.merge_devices(chosen, f"/task:{self._ps_strategy(op)}")
            return names.merge_devices(chosen, asked)
        return names.merge_devices(self._worker_device, asked)


def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: Any = "/job:ps",
    worker_device: Any = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Iterable[str] | None = None,
    ps_strategy: Strategy | None = None,
) -> Callable[[Operation], str] | None:
    """A device function for `tf.device`: ops whose type is in `ps_ops` go to the ps tasks, others to `worker_device`.

    The number of ps tasks is `ps_tasks`, or that of the job of `ps_device` in `cluster` (a ClusterSpec, ClusterDef or
    dict). None (no function) if there are no ps tasks. A device that an op already asks for wins, field by field;
    without `merge_devices`, whole. `ps_strategy(op)` chooses the task, by default each in turn.
    """
    if cluster is not None:
        spec = cluster if isinstance(cluster, ClusterSpec) else ClusterSpec(cluster)
        job = names.parse_device(device_text(ps_device)).job
        tasks = spec.as_dict().get(job) if job else None
        if not job or tasks is None:
            return None
        ps_tasks = len(tasks)
    if ps_tasks == 0:
        return None
    kinds = STANDARD_PS_OPS if ps_ops is None else ps_ops
    if isinstance(kinds, str) or not all(isinstance(kind, str) for kind in kinds):
        raise TypeError("ps_ops must be a list of op types.")
    strategy = RoundRobinStrategy(ps_tasks) if ps_strategy is None else ps_strategy
    if not callable(strategy):
        raise TypeError("ps_strategy must be callable")
    chooser = _ReplicaDeviceChooser(ps_tasks, ps_device, worker_device, merge_devices, kinds, strategy)
    return chooser.device_function
