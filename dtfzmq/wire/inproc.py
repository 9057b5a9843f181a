"""Lanes within one process: frames and arrays are handed over as they are, through the loop of the receiver.

The arrays are frozen: the codec hands out read-only views.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from dtfzmq.base import errors
from dtfzmq.wire import addresses
from dtfzmq.wire.dial import REFUSED
from dtfzmq.wire.transport import Accept, Lane, LaneEvents, hand_over


class Hub:
    """Who listens where in this process. One loop serves all that share a hub."""

    def __init__(self) -> None:
        self.listeners: dict[str, InprocListener] = {}
        self._ports = itertools.count(1)

    def free_port(self) -> int:
        """A port number that nobody has."""
        return next(p for p in self._ports if not any(a.endswith(f":{p}") for a in self.listeners))


class InprocLane:
    """One end of a pair. See transport.Lane."""

    by_reference = True

    def __init__(self, loop: Any, address: str) -> None:
        self._loop = loop
        self.address = address
        self.other: InprocLane | None = None
        self.events: LaneEvents | None = None
        self.accept: Accept | None = None
        self.closed = False

    def send(self, frames: Sequence[Any], frozen: bool = False) -> None:
        """See transport.Lane."""
        other = self.other
        if other is not None and not self.closed:
            self._loop.call_soon(other._arrive, frames if frozen else _owned(frames))

    def _arrive(self, frames: Sequence[Any]) -> None:
        if self.closed:
            return
        if self.events is None:
            assert self.accept is not None
            self.events = self.accept(self)
        hand_over(self.events, frames)

    def close(self) -> None:
        """See transport.Lane."""
        if not self.closed:
            self.closed = True
            if self.other is not None:
                self._loop.call_soon(self.other._end, "the other end closed it")

    def _end(self, reason: str) -> None:
        if not self.closed:
            self.closed = True
            if self.events is not None:
                self.events.on_end(reason)


def _owned(frames: Sequence[Any]) -> Sequence[Any]:
    return [memoryview(bytes(f)) if isinstance(f, memoryview) else f for f in frames]


class InprocListener:
    """A name in a hub. See transport.Listener."""

    def __init__(self, hub: Hub, address: str, accept: Accept) -> None:
        self._hub = hub
        self.address = address
        self._accept = accept
        self._lanes: list[InprocLane] = []

    def join(self, lane: InprocLane) -> None:
        """Another lane begins here."""
        lane.accept = self._accept
        self._lanes = [old for old in self._lanes if not old.closed]
        self._lanes.append(lane)

    def close(self) -> None:
        """See transport.Listener."""
        self._hub.listeners.pop(self.address, None)
        for lane in self._lanes:
            lane.close()


class InprocTransport:
    """See transport.Transport."""

    def __init__(self, loop: Any, hub: Hub) -> None:
        self._loop = loop
        self._hub = hub

    def listen(self, address: str, accept: Accept, exact: bool = False) -> InprocListener:
        """See transport.Transport."""
        asked = addresses.parse(address)
        name = addresses.Address(asked.host, asked.port or self._hub.free_port()).text()
        if name in self._hub.listeners:
            raise errors.AlreadyExistsError(None, None, f"Address already in use: {name}.")
        made = InprocListener(self._hub, name, accept)
        self._hub.listeners[name] = made
        return made

    def connect(self, address: str, kind: int, events: LaneEvents) -> Lane:
        """See transport.Transport."""
        lane = InprocLane(self._loop, address)
        lane.events = events
        try:
            name = addresses.parse(address).text()
        except errors.OpError as exc:
            self._loop.call_soon(lane._end, exc.message)
            return lane
        self._loop.call_soon(self._join, lane, name)
        return lane

    def _join(self, lane: InprocLane, name: str) -> None:
        listener = self._hub.listeners.get(name)
        if lane.closed:
            return
        if listener is None:
            lane._end(REFUSED)
            return
        other = InprocLane(self._loop, f"a connection of this process to {name}")
        lane.other, other.other = other, lane
        listener.join(other)
        assert lane.events is not None
        lane.events.on_open()

    def close(self) -> None:
        """See transport.Transport."""
