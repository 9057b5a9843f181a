"""Devices of a task. A device type is a class registered here; CPU is the numpy one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from dtfzmq.base import errors, names


class Device:
    """One device: where kernels of its nodes compute. Frozen once made; any thread.

    `xp` is the array module that kernels use. A type whose values are not numpy arrays sets `copy_out` (to numpy,
    before a value leaves the device) and `copy_in` (back, when one comes).
    """

    type = "CPU"
    copy_out: Callable[[Any], Any] | None = None
    copy_in: Callable[[Any], Any] | None = None

    def __init__(self, task: str, number: int, incarnation: int) -> None:
        self.task = task
        self.number = number
        self.incarnation = incarnation
        self.name = names.device_name(task, self.type, number)
        self.xp: ModuleType = np

    def __repr__(self) -> str:
        return f"Device({self.name!r})"


_TYPES: dict[str, type[Device]] = {"CPU": Device}


def register(cls: type[Device]) -> type[Device]:
    """Make a device type known by its `type`; usable as a class decorator."""
    _TYPES[cls.type] = cls
    return cls


def make_devices(task: str, counts: Mapping[str, int], incarnation: int) -> list[Device]:
    """The devices of a task: `counts` of each type (device_count), one CPU if it does not say.

    Raises InvalidArgumentError for an unknown type or a negative count; zero CPUs are one, since every task needs one.
    """
    wanted = {"CPU": 1, **{kind.upper(): count for kind, count in counts.items()}}
    made = []
    for kind in sorted(wanted):
        count = wanted[kind]
        if kind not in _TYPES and count:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Unknown device type '{kind}' in device_count; known types are {', '.join(sorted(_TYPES))}.",
            )
        if count < 0:
            raise errors.InvalidArgumentError(None, None, f"device_count of {kind} is {count}; it is a number from 0.")
        if kind == "CPU":
            count = max(count, 1)
        made += [_TYPES[kind](task, number, incarnation) for number in range(count)]
    return made
