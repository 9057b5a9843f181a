"""Dialling: one attempt at a time for each kind of lane, address after address, with pauses that grow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtfzmq.wire.lane import FOREIGN, Channel

if TYPE_CHECKING:
    from dtfzmq.wire.link import Link

#: The reason with which a transport ends an attempt that nobody listens to.
REFUSED = "connection refused"
#: How the reason begins of an attempt that was accepted, by a system, and of which the process took no notice.
MUTE = "it accepted the connection and said nothing"


class Dialler:
    """Keeps trying to get one lane of a kind for a link, until it is told to stop."""

    __slots__ = (
        "_began",
        "_link",
        "_next",
        "_pause",
        "_strange",
        "_strange_since",
        "_timer",
        "channel",
        "foreign",
        "kind",
        "refused",
        "why",
    )

    def __init__(self, link: Link, kind: int) -> None:
        self._link = link
        self.kind = kind
        self.channel: Channel | None = None
        self._began = 0.0
        self._strange = 0
        self._strange_since = 0.0
        self._next = 0
        self._pause = 0.0
        self._timer: Any = None
        #: Attempts in a row that were refused.
        self.refused = 0
        #: Whether another program answered the last attempt.
        self.foreign = False
        #: How the last attempt ended, for people.
        self.why = ""

    @property
    def running(self) -> bool:
        """True while an attempt or a pause is under way."""
        return self.channel is not None or self._timer is not None

    @property
    def strange(self) -> float:
        """How long all attempts up to the last one met somebody who is no task: who says nothing, as a process that is
        stopped, or what another program says. One such attempt is none: a task may have the port a moment later.
        """
        return self._link.loop.now() - self._strange_since if self._strange > 1 else 0.0

    def reason(self) -> str:
        """Why there is no lane, for people: how the last attempt ended, or the first one is; "" if there was none."""
        if self.why or self.channel is None or self.channel.lane is None:
            return self.why
        state = "it accepted the connection and has not answered yet" if self.channel.opened else "no answer yet"
        return f"{self.channel.lane.address}: {state}"

    def start(self, pause: float = 0.0) -> None:
        """Try now, or in a while, if there is an address and no attempt is under way."""
        if self.running or not self._link.dial_addresses():
            return
        if pause:
            self._timer = self._link.loop.call_later(pause, self._try)
        else:
            self._try()

    def hurry(self) -> None:
        """Somebody waits: end a pause, and count refusals from now on."""
        self.refused = 0
        self._pause = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._try()

    def stop(self) -> None:
        """Give the attempt up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        channel, self.channel = self.channel, None
        if channel is not None and not channel.live:
            channel.close()

    def rest(self) -> None:
        """There is a lane: begin no other attempt. One that is under way goes on, since the peer may rely on it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pause = 0.0

    def succeeded(self, channel: Channel) -> None:
        """An attempt became a live lane."""
        if channel is self.channel:
            self.channel = None
        self._pause = 0.0
        self.refused = 0

    def failed(self, channel: Channel, reason: str) -> None:
        """An attempt ended; try the next address, after a pause once all were tried."""
        if channel is not self.channel:
            return
        self.channel = None
        addresses: Sequence[str] = self._link.dial_addresses()
        tried = addresses[(self._next - 1) % len(addresses)] if addresses else "?"
        self.why = f"{tried}: {reason}"
        self.refused = self.refused + 1 if reason == REFUSED else 0
        self.foreign = reason.startswith(FOREIGN)
        self._strange = self._strange + 1 if self.foreign or reason.startswith(MUTE) else 0
        if self._strange == 1:
            self._strange_since = self._began
        if not self._link.wants(self.kind):
            return
        endpoint = self._link.endpoint
        if self._next % max(1, len(addresses)) != 0:
            pause = 0.0
        else:
            settings = endpoint.settings
            self._pause = min(settings.max_backoff, max(settings.backoff, self._pause * 2))
            pause = self._pause * (0.5 + 0.5 * endpoint.rng.random())
        self._timer = endpoint.loop.call_later(pause, self._try)

    def _try(self) -> None:
        self._timer = None
        addresses = self._link.dial_addresses()
        if not addresses:
            return
        endpoint = self._link.endpoint
        self._began = endpoint.loop.now()
        address = addresses[self._next % len(addresses)]
        self._next += 1
        channel = Channel(endpoint, self._link, self.kind)
        self.channel = channel
        endpoint.channels.add(channel)
        channel.lane = endpoint.transport.connect(address, self.kind, channel)
