"""What a step's context promises those who wait for it."""

from __future__ import annotations

from typing import Any

from dtfzmq.base import errors
from dtfzmq.runtime.step import StepContext
from tests.kit.simloop import SimLoop


def context() -> StepContext:
    loop: Any = SimLoop()
    return StepContext(1, loop, loop)


def test_who_waits_hears_of_each_hold_and_of_one_end() -> None:
    heard: list[str] = []
    step = context()
    step.on_cancel(lambda: heard.append("end"), lambda: heard.append(f"held {step.held}"))
    step.hold(True)
    step.hold(False)
    step.cancel(errors.AbortedError(None, None, "over"))
    step.hold(True)
    step.cancel(errors.AbortedError(None, None, "again"))
    assert heard == ["held True", "held False", "end"]


def test_who_waits_no_more_hears_nothing_and_is_let_go_of() -> None:
    heard: list[str] = []
    step = context()
    step.off_cancel(step.on_cancel(lambda: heard.append("end"), lambda: heard.append("held")))
    step.hold(True)
    step.cancel(errors.AbortedError(None, None, "over"))
    assert not heard
    step.off_cancel(77)
