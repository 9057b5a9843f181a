"""Devices of a task. A device type is a class registered here; CPU is the numpy one."""

from __future__ import annotations

import numbers
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


#: More devices of one type than a task can have use for.
MAX_COUNT = 1024

_TYPES: dict[str, type[Device]] = {"CPU": Device}


def register(cls: type[Device]) -> type[Device]:
    """Make a device type known by its `type`; usable as a class decorator."""
    _TYPES[cls.type] = cls
    return cls


def check_counts(counts: Mapping[str, int]) -> None:
    """InvalidArgumentError for an unknown type, and a count that is none or out of range."""
    for kind, count in counts.items():
        if not isinstance(count, numbers.Integral) or not 0 <= count <= MAX_COUNT:
            raise errors.InvalidArgumentError(
                None, None, f"device_count of {kind} is {count!r}; it is a whole number from 0 to {MAX_COUNT}."
            )
        if kind.upper() not in _TYPES and count:
            known = ", ".join(sorted(_TYPES))
            raise errors.InvalidArgumentError(
                None, None, f"Unknown device type '{kind}' in device_count; known types are {known}."
            )


def make_devices(task: str, counts: Mapping[str, int], incarnation: int) -> list[Device]:
    """The devices of a task: `counts` of each type (device_count), one CPU if it does not say.

    Raises InvalidArgumentError as `check_counts` does; zero CPUs are one, since every task needs one.
    """
    check_counts(counts)
    wanted = {"CPU": 1, **{kind.upper(): count for kind, count in counts.items()}}
    made = []
    for kind in sorted(wanted):
        count = wanted[kind]
        if kind == "CPU":
            count = max(count, 1)
        if count:
            made += [_TYPES[kind](task, number, incarnation) for number in range(count)]
    return made
