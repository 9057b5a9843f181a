"""Lanes over ZeroMQ: one ROUTER where a task listens, one DEALER for each lane that it dials."""

from __future__ import annotations

from typing import Any

from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.silence import Silence
from dtfzmq.wire.transport import Accept, Lane, LaneEvents
from dtfzmq.wire.zmqdial import DealerLane
from dtfzmq.wire.zmqlisten import ZmqListener
from dtfzmq.wire.zmqpoll import ZmqPoller
from dtfzmq.wire.zmqsocket import context, process_loop

__all__ = ["ZmqListener", "ZmqTransport", "context", "process_loop"]


class ZmqTransport:
    """See transport.Transport. Use it with the loop whose poller it is given, on that loop's baton."""

    def __init__(self, loop: Any, poller: ZmqPoller, settings: LinkSettings | None = None) -> None:
        self.loop = loop
        self.poller = poller
        self.settings = settings or LinkSettings()
        self.silence = Silence(loop, self.settings)

    def listen(self, address: str, accept: Accept, exact: bool = False) -> ZmqListener:
        """See transport.Transport."""
        return ZmqListener(self.loop, self.poller, self.settings, self.silence, address, accept, exact)

    def connect(self, address: str, kind: int, events: LaneEvents) -> Lane:
        """See transport.Transport."""
        lane = DealerLane(self, address, events)
        self.loop.call_soon(lane.begin)
        return lane

    def close(self) -> None:
        """See transport.Transport: nothing is held beyond lanes and listeners."""
