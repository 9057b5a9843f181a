"""A simulated network, with the faults that links have (LINKS): by seed, on a virtual clock.

Lanes are independent, in order, lossless while they live. The end of a lane loses a run of messages in flight, in one
or both directions, and each end hears of it in its own time. Processes are killed, stopped, and restarted under the
same address; pairs of them are cut; everything may be slow.
"""

from __future__ import annotations

import collections
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from dtfzmq.base import errors
from dtfzmq.wire import addresses
from dtfzmq.wire.dial import MUTE, REFUSED
from dtfzmq.wire.lane import FOREIGN
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.transport import BULK, Accept, Lane, LaneEvents, hand_over
from tests.kit.simloop import HostLoop, SimLoop

Watch = Callable[[str, str, Sequence[Any]], None]


class Pipe:
    """One direction of a lane: messages in flight with the time of their arrival."""

    def __init__(self, net: SimNet, source: SimEnd) -> None:
        self._net = net
        self._source = source
        self._flying: collections.deque[tuple[float, Sequence[Any]]] = collections.deque()
        self._last = 0.0
        self.over = False
        self.black = False

    def put(self, frames: Sequence[Any]) -> None:
        """A message sets out."""
        if self.over:
            return
        net = self._net
        nbytes = sum(len(f) for f in frames)
        if nbytes > net.largest:
            net.counts["too large"] += 1
            net.loop.call_later(net.delay(self._source, nbytes), net.end_lane, self._source)
            self.black = True
            return
        when = net.loop.now() + net.delay(self._source, nbytes)
        self._last = max(self._last, when)
        self._flying.append((self._last, frames))
        net.loop.call_at(self._last, self._arrive)

    def _arrive(self) -> None:
        if self.over or self.black or not self._flying or self._flying[0][0] > self._net.loop.now():
            return
        frames = self._flying.popleft()[1]
        other = self._source.other
        if other is not None:
            other.host.loop.call_soon(other.arrive, frames)

    def end(self, reason: str, lose: bool) -> None:
        """No more after this: a run of what is in flight is lost, and the receiver hears of the end."""
        if self.over:
            return
        self.over = True
        net, other = self._net, self._source.other
        kept = 0 if self.black else (net.rng.randrange(len(self._flying) + 1) if lose else len(self._flying))
        lost = len(self._flying) - kept
        net.counts["messages lost"] += lost
        when = net.loop.now() + net.rng.random() * net.settings.ack_delay
        for due, frames in itertools.islice(self._flying, kept):
            when = max(when, due)
            net.loop.call_at(due, self._late, frames)
        if other is not None:
            net.loop.call_at(when, self._tell, other, reason)
        self._flying.clear()

    def _late(self, frames: Sequence[Any]) -> None:
        other = self._source.other
        if other is not None:
            other.host.loop.call_soon(other.arrive, frames)

    def _tell(self, other: SimEnd, reason: str) -> None:
        other.host.loop.call_soon(other.over, reason)


class SimEnd:
    """One end of a lane. See transport.Lane."""

    by_reference = False

    def __init__(self, net: SimNet, host: Host, address: str) -> None:
        self.net = net
        self.host = host
        self.address = address
        self.other: SimEnd | None = None
        self.events: LaneEvents | None = None
        self.accept: Accept | None = None
        self.closed = False
        self.pipe = Pipe(net, self)

    def send(self, frames: Sequence[Any], frozen: bool = False) -> None:
        """See transport.Lane."""
        if not self.closed and self.other is not None:
            kept = [memoryview(bytes(f)) if isinstance(f, memoryview) else bytes(f) for f in frames]
            for watch in self.net.watchers:
                watch(self.host.name, self.other.host.name, kept)
            self.pipe.put(kept)

    def arrive(self, frames: Sequence[Any]) -> None:
        """A message is here."""
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
            self.net.lanes.discard(self)
            self.pipe.end("the other end closed it", lose=False)
            if self.other is not None:
                self.other.pipe.over = True

    def over(self, reason: str) -> None:
        """The lane ended by itself."""
        if not self.closed:
            self.closed = True
            self.net.lanes.discard(self)
            self.pipe.over = True
            if self.events is not None:
                self.events.on_end(reason)


class Host:
    """One simulated process."""

    def __init__(self, net: SimNet, name: str) -> None:
        self.net = net
        self.name = name
        #: What the system does for a process that is gone.
        self.at_death: list[Callable[[], None]] = []
        self.loop = HostLoop(net.loop)
        #: Its heartbeats are not answered either.
        self.stopped = False
        self.transport = SimTransport(net, self)


class SimListener:
    """See transport.Listener."""

    def __init__(self, net: SimNet, host: Host, address: str, accept: Accept) -> None:
        self.net = net
        self.host = host
        self.address = address
        self.accept = accept

    def close(self) -> None:
        """See transport.Listener."""
        if self.net.listeners.get(self.address) is self:
            del self.net.listeners[self.address]
        for end in self.net.ends_of(self.host):
            if end.accept is self.accept:
                end.close()


class SimTransport:
    """See transport.Transport."""

    def __init__(self, net: SimNet, host: Host) -> None:
        self._net = net
        self._host = host

    def listen(self, address: str, accept: Accept, exact: bool = False) -> SimListener:
        """See transport.Transport."""
        asked = addresses.parse(address)
        name = addresses.Address(asked.host, asked.port or next(self._net.ports)).text()
        if name in self._net.listeners:
            raise errors.AlreadyExistsError(None, None, f"Address already in use: {name}.")
        made = self._net.listeners[name] = SimListener(self._net, self._host, name, accept)
        return made

    def connect(self, address: str, kind: int, events: LaneEvents) -> Lane:
        """See transport.Transport."""
        end = SimEnd(self._net, self._host, address)
        end.events = events
        try:
            name = addresses.parse(address).text()
        except errors.OpError as exc:
            self._host.loop.call_soon(end.over, exc.message)
            return end
        if kind == BULK and not self._net.bulk:
            self._net.counts["no bulk lane"] += 1
            self._net.loop.call_later(self._net.delay(end, 0), self._host.loop.call_soon, end.over, REFUSED)
            return end
        self._net.loop.call_later(self._net.delay(end, 0), self._net.join, end, name)
        return end

    def close(self) -> None:
        """See transport.Transport."""


class SimNet:
    """The network and its faults; `counts` says how often each kind of fault happened."""

    def __init__(self, loop: SimLoop, rng: random.Random, settings: LinkSettings) -> None:
        self.loop = loop
        self.rng = rng
        self.settings = settings
        self.listeners: dict[str, SimListener] = {}
        self.lanes: set[SimEnd] = set()
        self.ports = itertools.count(2000)
        self.counts: collections.Counter[str] = collections.Counter()
        self.watchers: list[Watch] = []
        self.latency = 0.0005
        self.bandwidth = 1e9
        #: Whether bulk lanes can be opened.
        self.bulk = True
        #: Addresses where another program answers.
        self.foreign: set[str] = set()
        #: A message above this does not pass: nothing that follows it does, and the connection ends.
        self.largest: float = math.inf
        self._cuts: set[frozenset[str]] = set()
        self._slow: dict[str, float] = {}

    def host(self, name: str) -> Host:
        """A new process."""
        return Host(self, name)

    def delay(self, end: SimEnd, nbytes: int) -> float:
        """How long a message from `end` takes now."""
        names = (end.host.name, end.other.host.name if end.other is not None else "")
        factor = max(self._slow.get(name, 1.0) for name in names)
        return factor * (self.latency * (0.5 + self.rng.random()) + nbytes / self.bandwidth)

    def join(self, end: SimEnd, name: str) -> None:
        """An attempt to connect reaches its address."""
        if end.closed or end.host.loop.dead:
            return
        listener = self.listeners.get(name)
        if name in self.foreign:
            end.host.loop.call_soon(end.over, f"{FOREIGN} (it does not speak ZeroMQ)")
        elif listener is None or listener.host.loop.dead:
            end.host.loop.call_soon(end.over, REFUSED)
        elif self.is_cut(end.host.name, listener.host.name) or listener.host.loop.stopped:
            wait = self.settings.connect_timeout
            mute = listener.host.stopped and not self.is_cut(end.host.name, listener.host.name)
            reason = f"{MUTE} for {wait:.1f} s" if mute else f"no answer within {wait:.1f} s"
            self.loop.call_later(wait, end.host.loop.call_soon, end.over, reason)
        else:
            other = SimEnd(self, listener.host, f"a connection of {end.host.name}")
            other.accept = listener.accept
            end.other, other.other = other, end
            self.lanes.update((end, other))
            assert end.events is not None
            end.host.loop.call_soon(self._opened, end)

    def _opened(self, end: SimEnd) -> None:
        if not end.closed and end.events is not None:
            end.events.on_open()

    # -- faults -------------------------------------------------------------------------------------------------------

    def ends_of(self, host: Host) -> list[SimEnd]:
        """Ends of living lanes at a process, in a fixed order."""
        return sorted((e for e in self.lanes if e.host is host), key=lambda e: (e.address, e.pipe._last))

    def pairs(self) -> list[SimEnd]:
        """One end of each living lane, in a fixed order."""
        found = [e for e in self.lanes if e.accept is None and e.other is not None]
        return sorted(found, key=lambda e: (e.host.name, e.address, e.pipe._last))

    def end_lane(self, end: SimEnd, reason: str = "the connection ended") -> None:
        """A connection ends and loses a run of messages, each direction its own."""
        self.counts["lane ended"] += 1
        end.pipe.end(reason, lose=True)
        if end.other is not None:
            end.other.pipe.end(reason, lose=True)

    def kill(self, host: Host) -> None:
        """A process is gone at once; its address is free."""
        self.counts["killed"] += 1
        host.loop.kill()
        for call in host.at_death:
            call()
        for address, listener in list(self.listeners.items()):
            if listener.host is host:
                del self.listeners[address]
        for end in self.ends_of(host):
            end.closed = True
            self.lanes.discard(end)
            end.pipe.end("the connection ended", lose=True)
            if end.other is not None:
                end.other.pipe.over = True

    def stop(self, host: Host) -> None:
        """A process is stopped; its peers' heartbeats find out after a while."""
        self.counts["stopped"] += 1
        host.stopped = True
        host.loop.stop()
        for end in self.ends_of(host):
            self.loop.call_later(self.settings.limit / 2, self._silent, end, host)

    def busy(self, host: Host) -> None:
        """A process makes no progress until it is resumed, but its heartbeats are answered."""
        self.counts["busy"] += 1
        host.loop.stop()

    def _silent(self, end: SimEnd, host: Host) -> None:
        if host.loop.stopped and not end.closed:
            end.pipe.end("no heartbeat", lose=True)
            if end.other is not None:
                end.other.pipe.end("no heartbeat", lose=True)

    def resume(self, host: Host) -> None:
        """A stopped process goes on."""
        host.stopped = False
        host.loop.resume()

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between two processes any more, and no one is told; heartbeats find out."""
        self.counts["cut"] += 1
        self._cuts.add(frozenset((one, other)))
        for end in self.pairs():
            if end.other is not None and {end.host.name, end.other.host.name} == {one, other}:
                end.pipe.black = end.other.pipe.black = True
                self.loop.call_later(self.settings.limit / 2, self._cut_found, end)

    def _cut_found(self, end: SimEnd) -> None:
        end.pipe.end("no heartbeat", lose=True)
        if end.other is not None:
            end.other.pipe.end("no heartbeat", lose=True)

    def heal(self, one: str, other: str) -> None:
        """Two processes reach each other again, over new connections."""
        self._cuts.discard(frozenset((one, other)))

    def is_cut(self, one: str, other: str) -> bool:
        """True if nothing passes between them."""
        return frozenset((one, other)) in self._cuts

    def slow(self, name: str, factor: float) -> None:
        """Everything from and to a process takes `factor` times as long; 1 is normal."""
        if factor != 1.0:
            self.counts["slow"] += 1
        self._slow[name] = factor
