"""Builders of all declared ops by op name, found when they are used.

A gradient of one family needs ops of another (the gradient of Add is a Sum, that of Sum a BroadcastTo, and that a Sum
again). It says `raw.Sum(x, axis)`, so that the files of the families import each other in one direction only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfzmq.graph import registry


class _Raw:
    """`raw.OpName` is the builder of the declared op 'OpName'; AttributeError if no family declares it."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            builder: Any = registry.lookup(name).builder
        except KeyError:
            raise AttributeError(f"No op '{name}' is declared.") from None
        setattr(self, name, builder)
        return builder


raw = _Raw()
