"""What a link tells of itself, for status."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class LinkStatistics:
    """A snapshot of a link. Bytes are of whole messages and chunks; `unacknowledged` and `waiting` are in messages."""

    peer: str
    address: str
    state: str
    incarnation: int
    control_lanes: int
    bulk_lanes: int
    bytes_out: int
    bytes_in: int
    messages_out: int
    messages_in: int
    repeats_out: int
    repeats_in: int
    unacknowledged: int
    waiting_bytes: int
    calls: int
    serving: int
    outgoing: int
    incoming: int
    why: str
