"""The table of calls: name -> function of the module under test and its input tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CALLS: dict[str, Callable[..., Any]] = {}


def case(name: str, call: Callable[..., Any]) -> None:
    """Enter a call; the inputs and the answers lie in data/answers.json and answers.npz."""
    assert name not in CALLS, name
    CALLS[name] = call
