"""One task's, or one client's, place on the network: its address, its links, and who may link to it."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dtfzmq.base import errors
from dtfzmq.base import loop as loops
from dtfzmq.wire import addresses as texts
from dtfzmq.wire import hello, seldom
from dtfzmq.wire.buffers import BufferPool, Bytes, aligned
from dtfzmq.wire.calls import Reply
from dtfzmq.wire.hello import Who
from dtfzmq.wire.lane import Channel
from dtfzmq.wire.link import NEW, UP, Link
from dtfzmq.wire.lost import Lost
from dtfzmq.wire.offer import Offer
from dtfzmq.wire.segments import Segments, supported
from dtfzmq.wire.settings import LinkSettings
from dtfzmq.wire.shared import Sharing
from dtfzmq.wire.transport import BULK, CONTROL, Lane, Listener, Transport

_log = logging.getLogger("dtfzmq")


class Clock(Protocol):
    """What the cores need of a loop; base.loop.Loop and the simulated one have it."""

    def now(self) -> float:
        """Seconds."""

    def call_soon(self, fn: Any, *args: Any) -> None:
        """Run soon, on the baton. Any thread."""

    def call_at(self, when: float, fn: Any, *args: Any) -> loops.Timer:
        """Run at a moment, on the baton."""

    def call_later(self, delay: float, fn: Any, *args: Any) -> loops.Timer:
        """Run in a while, on the baton."""


class Service(Protocol):
    """Who is told what comes over an endpoint's links. On the baton; nothing here may wait."""

    def handle(self, link: Any, message: Any, reply: Reply) -> None:
        """A request or one-way message came (a one-way message's reply goes nowhere)."""

    def on_push(self, link: Any, step: int, key: str, value: Any) -> None:
        """A small tensor came for the rendezvous of a step."""

    def on_announce(self, link: Any, step: int, key: str, offer: Offer) -> None:
        """A large tensor is to be had."""

    def on_link_up(self, link: Any) -> None:
        """A link has a lane, for the first time or again."""

    def on_link_down(self, link: Any) -> None:
        """A link that was up has no lane; it will be up again, or lost."""

    def on_link_lost(self, link: Any, error: errors.OpError) -> None:
        """A link is lost for good; its calls have failed."""

    def on_push_lost(self, link: Any, step: int, error: errors.OpError) -> None:
        """Something that was pushed for a step will not arrive: its master must be told."""


class Quiet:
    """A service that answers nothing; base for those that need only some of it."""

    def handle(self, link: Any, message: Any, reply: Reply) -> None:
        """Refuse the request."""
        reply.fail(errors.UnimplementedError(None, None, f"{type(message).__name__} is not served here."))

    def on_push(self, link: Any, step: int, key: str, value: Any) -> None:
        """Drop it."""

    def on_announce(self, link: Any, step: int, key: str, offer: Offer) -> None:
        """Refuse it."""
        offer.refuse("tensors of steps are not received here")

    def on_link_up(self, link: Any) -> None:
        """Nothing."""

    def on_link_down(self, link: Any) -> None:
        """Nothing."""

    def on_link_lost(self, link: Any, error: errors.OpError) -> None:
        """Nothing."""

    def on_push_lost(self, link: Any, step: int, error: errors.OpError) -> None:
        """Nothing."""


class Endpoint:
    """Baton only.

    `known_tasks` maps each dense job to the addresses of its tasks 0..n-1; a job that is known in part is left out.
    `addresses` says where each task that is known is looked for, also one that came by itself.
    `rng` draws pauses between attempts.
    """

    def __init__(
        self,
        loop: Clock,
        transport: Transport,
        me: Who,
        service: Service,
        settings: LinkSettings | None = None,
        known_tasks: Mapping[str, list[str]] | None = None,
        rng: random.Random | None = None,
        addresses: Mapping[str, str] | None = None,
    ) -> None:
        self.loop = loop
        self.transport = transport
        self.me = me
        self.service = service
        self.settings = settings or LinkSettings()
        self.known_tasks: Mapping[str, list[str]] = dict(known_tasks or {})
        self.rng = rng or random.Random()
        self._addresses = dict(addresses or {})
        self.ack_step = self.settings.control_window // 4
        self.credit_step = self.settings.bulk_window // 4
        self.channels: set[Channel] = set()
        self.closed = False
        self._named: dict[str, Link] = {}
        self._unnamed: dict[tuple[int, int], Link] = {}
        self._targets: dict[tuple[str, ...], Link] = {}
        self._all: dict[Link, None] = {}
        self._lost = Lost()
        self._count = itertools.count(1)
        self._pushed: dict[int, list[Any]] = {}
        self._listener: Listener | None = None
        self._owing: set[Link] = set()
        self._owing_timer: Any = None
        self._pool = BufferPool(self.settings.pool, self.settings.pool_age)
        self._pool_timer: Any = None
        self._segments: Segments | None = None
        if self.settings.shared_memory and supported():
            try:
                self._segments = Segments(self.settings.pool)
            except OSError as exc:
                _log.warning("All large tensors go by sockets, since there is no shared memory: %s.", exc)
            else:
                self.me = dataclasses.replace(me, nonce=self._segments.nonce)

    # -- for the owner ------------------------------------------------------------------------------------------------

    def bind(self, address: str, advertised: str = "", exact: bool = False) -> str:
        """Listen at `address` ("host:port", any scheme). Returns it; port 0 is filled in.

        Others are told `advertised`, or what is bound; of a port 0 that which is bound, and of every interface nothing,
        since whoever dials that reaches itself. Raises errors.OpError naming the address if it cannot be bound.
        `exact`: see Transport.listen.
        """
        self._listener = self.transport.listen(address, self._accept, exact)
        bound = self._listener.address
        told = texts.parse(advertised or bound)
        told = told._replace(port=told.port or texts.parse(bound).port)
        self.me = dataclasses.replace(self.me, address="" if texts.is_wide(told.host) else told.text())
        return bound

    def link(self, name: str, addresses: Sequence[str] = ()) -> Link:
        """The link to a task, made if there is none; or with name "" that to whoever is at `addresses`.

        A link that was lost is replaced by a new one. Its calls wait until it is up, at most the connect limit for a
        task that was never reached and the ordinary limit for one that was lost.
        """
        if self.closed:
            raise RuntimeError("This endpoint is closed.")
        target = tuple(addresses)
        found = self._named.get(name) if name else self._targets.get(target)
        if found is not None:
            if not found.addresses:
                found.addresses = list(addresses)
            return found
        patience = self.settings.limit if self._lost.had(name, target) else self.settings.connect_limit
        link = self._make(name, addresses, 0 if name and self.me.name else next(self._count), patience)
        if name:
            self._named[name] = link
        else:
            self._targets[target] = link
            link.name = self._lost.name_at(target)  # for people: who was there is who is missed
        link.start()
        return link

    def links(self) -> list[Link]:
        """All links that are not lost."""
        return list(self._all)

    def known(self, name: str) -> Link | None:
        """The link to a task, if there is one."""
        return self._named.get(name)

    def forget(self, step: int) -> None:
        """A step is over: every link that carried a push of it forgets it, and drops what was to be sent for it."""
        for link in self._pushed.pop(step, ()):
            link.forget(step)

    @property
    def owes(self) -> bool:
        """Whether a peer that can be reached may not have an answer of ours."""
        return any(link.owes for link in self._all)

    def close(self, reason: str = "it was shut down", quietly: bool = False) -> None:
        """Tell all peers `reason`, end all links, give the address back.

        Calls that wait fail: with UnavailableError at a task, with CancelledError at a client. `quietly`: nobody here
        is told anything.
        """
        if self.closed:
            return
        self.closed = True
        kind = errors.UnavailableError if self.me.name else errors.CancelledError
        links = self.links()
        # What the end of one makes others say, in words of ours, must go by none: peers know why from our farewell.
        for link in links:
            link.leave(kind(None, None, f"{link.route()} was closed: {reason}."), reason, left=True)
        for link in () if quietly else links:
            link.settle()
        for channel in list(self.channels):
            channel.close()
        for timer in (self._owing_timer, self._pool_timer):
            if timer is not None:
                timer.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._segments is not None:
            self._segments.close()

    # -- for links and channels ---------------------------------------------------------------------------------------

    def cluster_for_hello(self) -> dict[str, list[str]]:
        """What a hello tells of the cluster."""
        return dict(self.known_tasks)

    @property
    def lends(self) -> bool:
        """True if tensors can leave here through shared memory, where the peer can map it."""
        return self._segments is not None

    def sharing(self, link: Link, who: Who) -> Sharing | None:
        """The shared memory of a link, if both of its ends have such a thing."""
        if self._segments is None or not who.nonce:
            return None
        return Sharing(link, self._segments, self._segments.prove(who.nonce))

    def memory(self, nbytes: int) -> Bytes:
        """Memory for a large tensor that comes. Raises MemoryError."""
        if nbytes <= self.settings.inline_limit:
            return aligned(nbytes)
        self.watch_memory()
        return self._pool.take(nbytes, self.loop.now())

    def watch_memory(self) -> None:
        """Memory is used that is let go of when it was not used for a while."""
        if self._pool_timer is None:
            self._pool_timer = self.loop.call_later(self.settings.pool_age, self._trim)

    def _trim(self) -> None:
        self._pool_timer = None
        self._pool.trim(self.loop.now())
        if (self._segments is not None and self._segments.trim()) or not self._pool.empty:
            self.watch_memory()

    def owe(self, link: Link) -> None:
        """A link has something to acknowledge; soon, if nothing else goes out before."""
        self._owing.add(link)
        if self._owing_timer is None:
            self._owing_timer = self.loop.call_later(self.settings.ack_delay, self._pay)

    def _pay(self) -> None:
        self._owing_timer = None
        owing, self._owing = self._owing, set()
        for link in sorted(owing, key=lambda item: item.generation):
            link.acknowledge()

    def pushed(self, step: int, link: Any) -> None:
        """A link carries its first push of a step."""
        links = self._pushed.get(step)
        if links is not None:
            links.append(link)
            return
        self._pushed[step] = [link]
        if len(self._pushed) > self.settings.recent_steps:
            oldest = next(iter(self._pushed))
            for old in self._pushed.pop(oldest):
                old.steps.discard(oldest)

    def push_lost(self, link: Any, step: int, error: errors.OpError) -> None:
        """See Service."""
        self.service.on_push_lost(link, step, error)

    def link_up(self, link: Link) -> None:
        """A link is up."""
        self._lost.found(link)
        link._guarded(self.service.on_link_up, link)

    def link_lost(self, link: Link) -> None:
        """A link is no more: forget it."""
        if link.error is not None and not link.error.origin:
            link.error.origin = self.me.name  # not the task that is lost says so
        self._lost.add(link, [key for key, found in self._targets.items() if found is link])
        tables: tuple[dict[Any, Link], ...] = (self._named, self._unnamed, self._targets)
        for table in tables:
            for key in [k for k, v in table.items() if v is link]:
                del table[key]
        self._all.pop(link, None)
        self._owing.discard(link)

    def adopt(self, link: Link, who: Who) -> bool:
        """A link learned who its peer is. False if the link was refused for it, and lost."""
        if who.incarnation == self.me.incarnation:
            link.lose(errors.InvalidArgumentError(None, None, f"{link.route()}: that address is this process itself."))
            return False
        if link.wanted and who.name != link.wanted:
            link.lose(
                errors.FailedPreconditionError(
                    None, None, f"{link.route()} reached {who.title()} ({who.place()}); correct the addresses."
                )
            )
            return False
        link.name = who.name
        return True

    def channel_ended(self, channel: Channel) -> None:
        """A channel is no more."""
        self.channels.discard(channel)

    def _make(self, name: str, addresses: Sequence[str], stream: int, patience: float) -> Link:
        link = Link(self, name, addresses, next(self._count), stream, patience)
        self._all[link] = None
        return link

    # -- who comes ----------------------------------------------------------------------------------------------------

    def _accept(self, lane: Lane) -> Channel:
        channel = Channel(self, None, CONTROL)
        channel.lane = lane
        channel.expect(self.settings.hello_limit)
        self.channels.add(channel)
        return channel

    def on_hello(self, channel: Channel, said: hello.Hello, who: Who) -> None:
        """Judge a newcomer; answer its hello now, or once the holder of its name was asked."""
        error = hello.judge(said, who, self.me, self.known_tasks)
        if error is None and self.closed:
            error = errors.UnavailableError(None, None, f"{self.me.title()} is shutting down.")
        if error is not None:
            self._say_refused(who, error)
            channel.refuse(error)
            return
        by_name = bool(who.name) and said.stream == 0
        link = self._named.get(who.name) if by_name else self._unnamed.get((who.incarnation, said.stream))
        if link is not None and link.incarnation and link.incarnation != who.incarnation:
            self._claim(channel, said, who, link)
            return
        self._admit(channel, said, who, link, by_name)

    def _admit(self, channel: Channel, said: hello.Hello, who: Who, link: Link | None, by_name: bool) -> None:
        if link is not None and link.their_generation:
            if said.generation > link.their_generation:
                why = "the other end had given it up"
                link.lose(errors.UnavailableError(None, None, f"{link.route()} was lost: {why}."), why)
                link = None
            elif said.generation < link.their_generation:
                channel.refuse(errors.AbortedError(None, None, "This link was given up by its own side."))
                return
        mine = 0 if link is None else link.generation
        if said.your_generation and said.your_generation != mine:
            channel.refuse(*self._lost.refusal(self.me.title(), said.your_generation))
            return
        sent = 0 if link is None else link.outbox.number
        if said.received > sent:
            text = f"{who.title()} says that it received message {said.received}, and {sent} is the last that was sent."
            channel.refuse(errors.InvalidArgumentError(None, None, text))
            return
        if channel.kind == BULK and (link is None or not link.their_generation):
            channel.refuse(errors.FailedPreconditionError(None, None, "The control lane comes first."))
            return
        if link is None:
            known = [self._addresses[who.name]] if who.name in self._addresses else ()
            link = self._make(who.name, known, said.stream, self.settings.limit)
            if by_name:
                self._named[who.name] = link
            else:
                self._unnamed[who.incarnation, said.stream] = link
        link.their_generation = said.generation
        channel.accept(link, who, said.received)

    def _claim(self, channel: Channel, said: hello.Hello, who: Who, holder: Link) -> None:
        """A second process claims a task's name: the first one keeps it while it is alive.

        A connection of one that is dead has ended. That both are at one address proves nothing: two machines may each
        have been given it.
        """
        old = holder.peer
        if holder.state == NEW or old is None:
            self._replace(channel, said, who, holder)
            return

        def answered(alive: bool) -> None:
            if channel.ended:
                return
            if alive:
                error = errors.AlreadyExistsError(
                    None, None, f"Task {who.name} is taken: it runs at {old.place()}. Give the newcomer another index."
                )
                self._say_refused(who, error)
                channel.refuse(error)
            else:
                self._replace(channel, said, who, holder)

        channel.consider()
        holder.inquiry.alive(answered)

    def _say_refused(self, who: Who, error: errors.OpError) -> None:
        subject = ("refused", self.me.name, who.name or who.host, error.error_code)
        seldom.warn(subject, f"refused {who.title()} ({who.place()}): {error.message}")

    def _replace(self, channel: Channel, said: hello.Hello, who: Who, holder: Link) -> None:
        if holder.error is None:
            why = hello.restarted(who)
            holder.lose(errors.AbortedError(None, None, f"{holder.route()} was lost: {why}"), why)
        self.on_hello(channel, said, who)

    def statistics(self) -> dict[str, Any]:
        """Plain data for status: memory kept and a snapshot of each link."""
        return {
            "pool": vars(self._pool.statistics()),
            "links": [vars(link.statistics()) for link in self._all],
            "steps": len(self._pushed),
            "up": sum(link.state == UP for link in self._all),
        }
