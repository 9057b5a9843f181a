"""Names of tasks and devices.

A device text is a partial specification: any of job, replica, task, type and id; what is not named is open. The full
form is ``/job:ps/replica:0/task:0/device:CPU:0``. Legacy spellings (``/cpu:0``, ``cpu``, missing leading or trailing
slashes, any case of the type) mean the same.
"""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

_JOB = re.compile(r"[A-Za-z_][A-Za-z0-9_\-.]*\Z")

_TYPES = {"CPU", "GPU"}


class Device(NamedTuple):
    """A parsed device text; None is open."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    type: str | None = None
    id: int | None = None

    def text(self) -> str:
        """The canonical text; "" if everything is open."""
        parts = []
        if self.job is not None:
            parts.append(f"/job:{self.job}")
        if self.replica is not None:
            parts.append(f"/replica:{self.replica}")
        if self.task is not None:
            parts.append(f"/task:{self.task}")
        if self.type is not None:
            parts.append(f"/device:{self.type}:{'*' if self.id is None else self.id}")
        return "".join(parts)

    def merged(self, inner: Device) -> Device:
        """This one with the fields that `inner` names put over it: how nested scopes combine."""
        return Device(
            self.job if inner.job is None else inner.job,
            self.replica if inner.replica is None else inner.replica,
            self.task if inner.task is None else inner.task,
            self.type if inner.type is None else inner.type,
            self.id if inner.id is None else inner.id,
        )

    def matches(self, full: Device) -> bool:
        """True if every field named here has that value in `full`."""
        return all(a is None or a == b for a, b in zip(self, full))

    def intersects(self, other: Device) -> bool:
        """True if some device could satisfy both."""
        return all(a is None or b is None or a == b for a, b in zip(self, other))


OPEN = Device()


def _bad(text: str) -> ValueError:
    return ValueError(
        f"Malformed device specification '{text}'; write it like '/job:ps/task:0/device:CPU:0' or any part of that."
    )


def is_job(text: str) -> bool:
    """Whether a device can name a job so: letters, digits, '_', '-' and '.', of which a letter or '_' comes first."""
    return _JOB.match(text) is not None


@functools.lru_cache(maxsize=4096)
def parse_device(text: str) -> Device:
    """Parse a device text. Raises ValueError for one that is malformed. Cached; any thread."""
    job: str | None = None
    replica: int | None = None
    task: int | None = None
    kind: str | None = None
    number: int | None = None
    for part in text.split("/"):
        if not part:
            continue
        key, _, value = part.partition(":")
        lower = key.lower()
        if lower == "job":
            if not is_job(value):
                raise _bad(text)
            job = value
        elif lower in ("replica", "task"):
            if value == "*":
                continue
            if not value.isdecimal():
                raise _bad(text)
            if lower == "task":
                task = int(value)
            else:
                replica = int(value)
        else:
            if lower == "device":
                key, _, value = value.partition(":")
            if not key or key == "*":
                if key == "*" and value in ("", "*"):
                    continue
                raise _bad(text)
            kind = key.upper()
            if lower != "device" and kind not in _TYPES:
                raise _bad(text)
            if value in ("", "*"):
                number = None
            elif value.isdecimal():
                number = int(value)
            else:
                raise _bad(text)
    return Device(job, replica, task, kind, number)


@functools.lru_cache(maxsize=16384)
def merge_devices(outer: str, inner: str) -> str:
    """The text of `inner` over `outer`, as nested ``tf.device`` scopes merge. Raises ValueError if malformed."""
    return parse_device(outer).merged(parse_device(inner)).text()


def task_name(job: str, index: int) -> str:
    """``/job:J/replica:0/task:N``: the name of a task and the prefix of its devices' names."""
    return f"/job:{job}/replica:0/task:{index}"


def device_name(task: str, kind: str, number: int) -> str:
    """The full name of a device of the task called `task`."""
    return f"{task}/device:{kind}:{number}"


@functools.lru_cache(maxsize=4096)
def task_of(device: str) -> str:
    """The task's name in a full device text. Raises ValueError if job or task is open."""
    parsed = parse_device(device)
    if parsed.job is None or parsed.task is None:
        raise ValueError(f"Device '{device}' names no task.")
    return task_name(parsed.job, parsed.task)


@functools.lru_cache(maxsize=4096)
def job_and_index(task: str) -> tuple[str, int]:
    """Job and index of a task's or full device's name. Raises ValueError if either is open."""
    parsed = parse_device(task)
    if parsed.job is None or parsed.task is None:
        raise ValueError(f"'{task}' names no task.")
    return parsed.job, parsed.task


def is_full_device(text: str) -> bool:
    """True if `text` names exactly one device."""
    try:
        return None not in parse_device(text)
    except ValueError:
        return False


class DeviceSpec:
    """TensorFlow 1's mutable device specification, for programs that use it by name."""

    def __init__(
        self,
        job: str | None = None,
        replica: int | None = None,
        task: int | None = None,
        device_type: str | None = None,
        device_index: int | None = None,
    ) -> None:
        self.job = job
        self.replica = replica
        self.task = task
        self.device_type = device_type.upper() if device_type else None
        self.device_index = device_index

    @staticmethod
    def from_string(spec: str) -> DeviceSpec:
        """Parse a device text. Raises ValueError if malformed."""
        return DeviceSpec(*parse_device(spec))

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Take over the fields of a device text. Raises ValueError if malformed."""
        self.job, self.replica, self.task, self.device_type, self.device_index = parse_device(spec)
        return self

    def merge_from(self, dev: DeviceSpec) -> None:
        """Put the fields that `dev` names over this one's."""
        merged = self._fields().merged(dev._fields())
        self.job, self.replica, self.task, self.device_type, self.device_index = merged

    def to_string(self) -> str:
        """The canonical text."""
        return self._fields().text()

    def _fields(self) -> Device:
        return Device(self.job, self.replica, self.task, self.device_type, self.device_index)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, DeviceSpec) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"DeviceSpec({self.to_string()!r})"


def article(noun: str) -> str:
    """The noun, such as a type's name, behind "a" or "an", for people."""
    return f"{'an' if noun[:1] in tuple('aeioAEIO') else 'a'} {noun}"
