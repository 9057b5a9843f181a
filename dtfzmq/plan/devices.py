"""Which devices a master may place on: its own, CPU:0 of every task of the cluster, and what tasks told when asked.

No task is contacted to build the table. A node that names another device of a task makes placement raise
`DevicesNeeded`; the master asks those tasks, tells the table with `learn`, and places again.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from dtfzmq.base import errors, names
from dtfzmq.base.names import Device

_TYPE_ORDER = {"GPU": 0, "CPU": 1}


class DevicesNeeded(Exception):
    """Placement has to know all devices of these tasks: ask them, `learn` the answers, place again."""

    def __init__(self, tasks: list[str]) -> None:
        super().__init__(f"the devices of {', '.join(tasks)} are not known yet")
        self.tasks = tasks


class DeviceTable:
    """The devices that placement may use. One thread at a time."""

    def __init__(
        self, own_task: str, own_devices: Sequence[str], tasks: Iterable[str] = (), filters: Sequence[str] = ()
    ) -> None:
        self.own_task = own_task
        self.filters = tuple(filters)
        self._by_task: dict[str, tuple[str, ...]] = {own_task: tuple(own_devices)}
        self._known = {own_task}
        self._hidden: set[str] = set()
        parsed = [names.parse_device(text) for text in filters]
        for task in tasks:
            if task == own_task:
                continue
            self._by_task[task] = (names.device_name(task, "CPU", 0),)
            if parsed and not any(names.parse_device(task).intersects(spec) for spec in parsed):
                self._hidden.add(task)
        self._sort()

    def learn(self, task: str, devices: Iterable[str]) -> None:
        """What `task` says its devices are."""
        self._by_task[task] = tuple(devices)
        self._known.add(task)
        self._sort()

    def visible(self) -> list[str]:
        """Full names of all devices that may be used, by name."""
        return sorted(text for text, _ in self._devices)

    def find(self, spec: Device) -> str | None:
        """The device that TensorFlow 1.x picks for `spec`: GPUs before CPUs, then the first by name as text.

        Raises DevicesNeeded if only tasks that were not asked yet may have it.
        """
        for text, device in self._devices:
            if spec.matches(device):
                return text
        unasked = [
            task
            for task in sorted(self._by_task)
            if not (task in self._known or task in self._hidden)
            and _task_part(spec).matches(names.parse_device(task))
        ]
        if unasked and (spec.type is not None or spec.id is not None):
            raise DevicesNeeded(unasked)
        return None

    def refuse(self, node: str, spec: Device) -> errors.OpError:
        """Why no device fits: hidden by a filter, misspelt, or not there. Made when `find` found none."""
        start = (
            f"Cannot assign a device for operation {node}: {{{{node {node}}}}} was explicitly assigned to "
            f"{spec.text()} but available devices are {self._list()}."
        )
        for task in sorted(self._hidden):
            if _task_part(spec).matches(names.parse_device(task)):
                filters = ", ".join(f"'{f}'" for f in self.filters)
                return errors.InvalidArgumentError(
                    None,
                    None,
                    f"{start} Task {task} is hidden by this session's device_filters [{filters}]; add a filter that "
                    "lets it in, or place the operation elsewhere.",
                )
        message = f"{start} Make sure the device specification refers to a valid device."
        if spec.type == "GPU" and not any(device.type == "GPU" for _, device in self._devices):
            message += " The requested device appears to be a GPU, but CUDA is not enabled."
        return errors.InvalidArgumentError(None, None, message + self._hint(spec))

    def _hint(self, spec: Device) -> str:
        jobs = {device.job for _, device in self._devices if device.job is not None}
        if spec.job is not None and spec.job not in jobs:
            near = difflib.get_close_matches(spec.job, sorted(jobs), 1)
            if near:
                return f" Did you mean '/job:{near[0]}'?"
            if len(self._by_task) == 1:
                return " This session knows only its own devices: pass `server.target` to Session to use a cluster's."
            return f" The jobs of this cluster are: {', '.join(sorted(jobs))}."
        if spec.task is not None:
            numbers = [device.task for _, device in self._devices if device.job == spec.job or spec.job is None]
            if spec.task not in numbers:
                return f" There is no task {spec.task}{f' in job {spec.job}' if spec.job else ''}."
        return ""

    def _list(self) -> str:
        return f"[ {', '.join(self.visible())} ]"

    def _sort(self) -> None:
        found = [
            (text, names.parse_device(text))
            for task, devices in self._by_task.items()
            if task not in self._hidden
            for text in devices
        ]
        found.sort(key=lambda item: (_TYPE_ORDER.get(item[1].type or "", -1), item[0]))
        self._devices = found


def _task_part(spec: Device) -> Device:
    return Device(spec.job, spec.replica, spec.task)
