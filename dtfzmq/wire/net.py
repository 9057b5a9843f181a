"""The network of a process: tasks of this process are reached by reference, all others over ZeroMQ."""

from __future__ import annotations

from typing import Any

from dtfzmq.base import errors
from dtfzmq.wire import addresses
from dtfzmq.wire.inproc import Hub, InprocTransport
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.transport import Accept, Lane, LaneEvents, Listener
from dtfzmq.wire.zmqnet import ZmqListener, ZmqTransport, process_loop
from dtfzmq.wire.zmqpoll import ZmqPoller


class _Both:
    """A bound address that this process reaches by reference. See transport.Listener."""

    def __init__(self, outer: ZmqListener, inner: Listener) -> None:
        self._outer = outer
        self._inner = inner
        self.address = outer.address

    def close(self) -> None:
        """See transport.Listener."""
        self._inner.close()
        self._outer.close()


class Network:
    """See transport.Transport. `local=False`: tasks of this process too are reached over ZeroMQ."""

    def __init__(self, loop: Any, settings: LinkSettings | None = None, *, local: bool = True) -> None:
        poller = loop.poller
        if not isinstance(poller, ZmqPoller):
            raise TypeError("A network needs the loop of zmqnet.process_loop, or another one with a ZmqPoller.")
        self.loop = loop
        self._zmq = ZmqTransport(loop, poller, settings)
        self._hub: Hub = poller.hub
        self._inproc = InprocTransport(loop, self._hub)
        self._local = local

    def listen(self, address: str, accept: Accept, exact: bool = False) -> Listener:
        """See transport.Transport."""
        outer = self._zmq.listen(address, accept, exact)
        try:
            return _Both(outer, self._inproc.listen(outer.address, accept))
        except BaseException:
            outer.close()
            raise

    def connect(self, address: str, kind: int, events: LaneEvents) -> Lane:
        """See transport.Transport."""
        if self._local:
            try:
                if addresses.parse(address).text() in self._hub.listeners:
                    return self._inproc.connect(address, kind, events)
            except errors.OpError:
                pass  # the other transport tells
        return self._zmq.connect(address, kind, events)

    def close(self) -> None:
        """See transport.Transport."""


__all__ = ["Network", "process_loop"]
