"""What a link asks of a transport, and what it is told. zmqnet, inproc and the simulated network keep this contract.

A lane carries messages of one or two frames (any number on a lane by reference) in order and without loss until it
ends; then it reports its end once and is never used again. Everything here happens on the loop's baton, and no call of
a lane or transport reports back before it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

CONTROL = 0
BULK = 1


class LaneEvents(Protocol):
    """Who uses a lane."""

    def on_open(self) -> None:
        """The connection stands; for the side that connected. Frames may be sent now."""

    def on_frames(self, frames: Sequence[Any]) -> None:
        """One message came: bytes-like frames, or arrays after the first on a lane by reference."""

    def sink(self, header: bytes) -> memoryview | None:
        """Where the second frame of this message is to be written; None: give it to `on_frames` like any other."""

    def on_chunk(self, header: bytes, nbytes: int) -> None:
        """The second frame of a message whose `sink` was given came and had `nbytes` bytes; what is too long is cut."""

    def on_end(self, reason: str) -> None:
        """The lane ended, or never came about. The last event; not reported after `close`."""


class Lane(Protocol):
    """One connection."""

    #: Frames after the first are arrays that are handed over as they are.
    by_reference: bool
    #: For people: the address of one that was dialled, "a connection to ..." of one that came.
    address: str

    def send(self, frames: Sequence[Any], frozen: bool = False) -> None:
        """Send one message. Never blocks and never raises: if the connection is gone, `on_end` will tell.

        `frozen`: the last frame is never written again, so that it may be sent without a copy.
        """

    def close(self) -> None:
        """End it from this side; what was sent just now still goes out if it can within a moment."""


class Listener(Protocol):
    """A bound address."""

    #: Where others reach it, "zmq://host:port"; the port that the system picked where 0 was asked.
    address: str

    def close(self) -> None:
        """Stop listening and end its lanes; the address is free when this returns."""


Accept = Callable[[Lane], LaneEvents]


class Transport(Protocol):
    """A way to reach addresses."""

    def listen(self, address: str, accept: Accept, exact: bool = False) -> Listener:
        """Bind `address`; `accept` is called for each connection that sends something. Raises errors.OpError.

        A host that is not of this machine is one that others know it by, and every interface is bound; with `exact` it
        is an InvalidArgumentError.
        """

    def connect(self, address: str, kind: int, events: LaneEvents) -> Lane:
        """Begin to connect; `events` hears of success or failure, also of an address that is malformed.

        Each number of a host gets the connect timeout of the settings.
        """

    def close(self) -> None:
        """Give back what the transport holds; its lanes and listeners are closed before."""


def hand_over(events: LaneEvents, frames: Sequence[Any]) -> None:
    """Give a message that is in memory to `events`, a chunk by way of its sink: for transports without sockets."""
    if len(frames) == 2 and isinstance(frames[1], memoryview):
        place = events.sink(frames[0])
        if place is not None:
            nbytes = len(frames[1])
            place[: min(nbytes, len(place))] = frames[1][: len(place)]
            events.on_chunk(frames[0], nbytes)
            return
    events.on_frames(frames)
