"""The life of a link: how it gets lanes, keeps its numbers across them, and is lost.

A link joins two processes, each of one incarnation. It is *new* until a first control lane stands, *up* while one
does, *down* while none does, and *lost* for good when the peer turns out to be another process, says goodbye, or cannot
be reached within the limit. Then every call fails and every step with traffic on it is reported, naming from, to, why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.wire import codec, frames, hello, seldom
from dtfzmq.wire.account import LinkStatistics
from dtfzmq.wire.attempts import Attempts
from dtfzmq.wire.carrier import Carrier
from dtfzmq.wire.dial import Dialler
from dtfzmq.wire.inquiry import Inquiry
from dtfzmq.wire.lane import Channel
from dtfzmq.wire.transport import BULK, CONTROL

if TYPE_CHECKING:
    from dtfzmq.wire.endpoint import Endpoint

#: What can be done about a server that was never reached.
CHECK = "Check that the address is right and that a dtfzmq server runs there."

NEW, UP, DOWN, LOST = "new", "up", "down", "lost"


class Link(Carrier):
    """See the module. Made by Endpoint; baton only."""

    def __init__(
        self, endpoint: Endpoint, name: str, addresses: Sequence[str], generation: int, stream: int, patience: float
    ) -> None:
        super().__init__(endpoint)
        self.name = name
        self.wanted = name
        self.addresses = list(addresses)
        self.generation = generation
        self.their_generation = 0
        self.stream = stream
        self.incarnation = 0
        self.peer: hello.Who | None = None
        self.state = NEW
        self._diallers = (Dialler(self, CONTROL), Dialler(self, BULK))
        self._since = self.loop.now()
        self._patience = patience
        self._why = ""
        #: Why it was lost, without from and to.
        self.why_lost = ""
        self._timer: Any = None
        self._bulk_timer: Any = None
        self._attempts = (Attempts(self.loop, self.settings), Attempts(self.loop, self.settings))
        #: Whether the peer said that its process leaves: no other link will come from there.
        self.left = False
        self.inquiry = Inquiry(self, self.loop, self.settings.silence)

    # -- names --------------------------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Where the peer is or is looked for, for people."""
        for channel in self.controls:
            if channel.lane is not None:
                return channel.lane.address
        return ", ".join(self.dial_addresses())

    def title(self) -> str:
        """The peer, for people."""
        if self.name:
            return self.name
        return self.peer.title() if self.peer is not None else f"the server at {', '.join(self.addresses)}"

    def peer_text(self) -> str:
        """The peer and where it is dialled, for people."""
        title, at = self.title(), ", ".join(self.dial_addresses())
        return title if not at or at in title else f"{title} at {at}"

    def route(self) -> str:
        """This link from end to end, for people."""
        return f"Link from {self.endpoint.me.title()} to {self.peer_text()}"

    def _unreached(self) -> str:
        return f"{self.endpoint.me.title()} could not reach {self.peer_text()}"

    def late_text(self) -> str:
        """What a call that ran out of time says."""
        if self.state == UP:
            return f"{self.peer_text()} gave no answer in time."
        return f"{self.peer_text()} could not be reached in time ({self.reason()})."

    def reason(self) -> str:
        """Why there is no lane."""
        return self._diallers[CONTROL].reason() or self._why or "no connection yet"

    @property
    def unattended(self) -> bool:
        """True if there is no lane and nobody listens at any address, as attempts since the last `hurry` found."""
        return self.state != UP and self._diallers[CONTROL].refused > 2 * max(1, len(self.dial_addresses()))

    @property
    def down(self) -> bool:
        """True if it was up and has no lane."""
        return self.state == DOWN

    def hurry(self) -> None:
        """Somebody waits for a lane now: do not pause between attempts."""
        if self.state != UP and self.error is None:
            self._diallers[CONTROL].hurry()

    @property
    def owes(self) -> bool:
        """True if it is up and the peer may not have all that it was answered."""
        if self.state != UP:
            return False
        lent = self.sharing.lent.values() if self.sharing is not None else ()
        return (
            not self.outbox.idle()
            or any(item.kind in (frames.REPLY, frames.FAILURE) for item in self.outbox.flying)
            or any(item.step < 0 for item in self.sending.all.values())
            or any(each.item.step < 0 for each in lent)
        )

    def dial_addresses(self) -> Sequence[str]:
        """Addresses to try: those we were given, else the one that the peer told."""
        if self.addresses:
            return self.addresses
        return [self.peer.address] if self.peer is not None and self.peer.address else ()

    # -- lanes come and go --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to dial and to count the time."""
        self._watch(self._patience)
        self._diallers[CONTROL].start()

    def _watch(self, seconds: float) -> None:
        self._unwatch()
        self._since = self.loop.now()
        self._timer = self.loop.call_later(seconds, self._too_long)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_long(self) -> None:
        self._timer = None
        waited = f"{self.loop.now() - self._since:.1f} s ({self.reason()})"
        if self.state == NEW:
            self.lose(errors.UnavailableError(None, None, f"{self._unreached()} within {waited}. {CHECK}"))
        else:
            self._unavailable(f"no connection for {waited}")

    def _watch_bulk(self) -> None:
        """A bulk lane must be there within the limit, or once and a half of it if it cannot even be dialled then."""
        if self._bulk_timer is None and self._lacks_bulk():
            self._bulk_timer = self.loop.call_later(self.settings.limit, self._no_bulk, True)

    def _unwatch_bulk(self) -> None:
        if self._bulk_timer is not None:
            self._bulk_timer.cancel()
            self._bulk_timer = None

    def _no_bulk(self, first: bool) -> None:
        self._bulk_timer = None
        if not self._lacks_bulk():
            return
        if first and self.state != UP:
            self._bulk_timer = self.loop.call_later(self.settings.limit / 2, self._no_bulk, False)
        else:
            self._unavailable(f"no lane for large tensors ({self._diallers[BULK].why or 'none was opened'})")

    def _lacks_bulk(self) -> bool:
        """True if something is to go or come by a bulk lane, and there is none."""
        return not self.bulks and (
            self.sending.granted or any(i.memory is not None and not i.by_segment for i in self.incoming.values())
        )

    def _unavailable(self, why: str) -> None:
        text = f"{self.route()} was lost: {why}. Steps that used it were aborted; run them again."
        self.lose(errors.UnavailableError(None, None, text), why)

    def _worth_while(self, kind: int, reason: str) -> bool:
        """A lane of this kind that was sent on is over. False if others are in vain; then the link is lost."""
        attempts = self._attempts[kind]
        if kind == BULK:
            what = "lanes for large tensors"
            attempts.ended(self.sending.credited, self.sending.granted or self.sending.flying)
        else:
            what = "connections"
            attempts.ended(self.outbox.acknowledged, bool(self.outbox.flying))
        if not attempts.vain:
            return True
        why = f"{attempts.vain} {what} in a row ended before anything got through (the last: {reason})"
        text = f"{self.route()} was lost: {why}. Check what the network between them does with long messages."
        self.lose(errors.UnavailableError(None, None, text), why, farewell=f"it gave the link up: {why}")
        return False

    def welcome(self, channel: Channel, who: hello.Who, generation: int) -> bool:
        """A hello of ours was accepted. False if it is not the process that we knew; then the link is lost."""
        if self.incarnation and who.incarnation != self.incarnation:
            channel.close()
            self.lose(errors.AbortedError(None, None, hello.restarted(who)))
            return False
        if self.their_generation and generation != self.their_generation:
            channel.close()
            self._unavailable("the other end had given it up")
            return False
        if not self.incarnation and not self.endpoint.adopt(self, who):
            channel.close()
            return False
        self.their_generation = generation
        return True

    def attach(self, channel: Channel, who: hello.Who, received: int) -> None:
        """A lane is live."""
        self.peer = who
        self.incarnation = who.incarnation
        if self.sharing is None:
            self.sharing = self.endpoint.sharing(self, who)
        if channel.dialled:
            self._diallers[channel.kind].succeeded(channel)
        lanes = self.bulks if channel.kind == BULK else self.controls
        before = lanes[0] if lanes else None
        if not channel.dialled:
            # Who dials has one lane of a kind at a time: an earlier one that came from there is dead.
            for old in [c for c in lanes if not c.dialled]:
                lanes.remove(old)
                old.close()
        lanes.append(channel)
        if channel.kind == CONTROL:
            self.outbox.acknowledge(received)
        replaced = before is not None and before not in lanes
        if replaced and not self._worth_while(channel.kind, "the other end began anew"):
            return
        if channel.kind == BULK:
            self._diallers[BULK].rest()
            self._unwatch_bulk()
            if lanes[0] is not before:
                self.sending.lane_ended()
            self.pump_bulk()
            return
        fresh = self.state != UP
        if fresh:
            self._unwatch()
        self.state = UP
        if lanes[0] is not before:
            self._repeat()
        self._diallers[CONTROL].rest()
        if channel.dialled and not channel.lane.by_reference:  # type: ignore[union-attr]  # live lanes have lanes
            self._dial_bulk()  # also if the peer's own control lane came first: it may have thought the same of ours
        if fresh:
            self.endpoint.link_up(self)
            self.inquiry.answer(True)
        self._pump()
        self.pump_bulk()

    def wants(self, kind: int) -> bool:
        """True if a lane of this kind is missing."""
        if self.error is not None:
            return False
        return not self.controls if kind == CONTROL else (self.state == UP and not self.bulks)

    def want_bulk(self) -> None:
        """See Carrier."""
        if self.state == UP:
            self._dial_bulk()
            self._watch_bulk()

    def _dial_bulk(self) -> None:
        if not self.bulks and self.state == UP:
            self._diallers[BULK].start(self._attempts[BULK].pause)

    def channel_ended(self, channel: Channel, reason: str) -> None:
        """A lane ended, or an attempt to get one."""
        if self.error is not None:
            return
        dialler = self._diallers[channel.kind]
        lanes = self.bulks if channel.kind == BULK else self.controls
        if channel not in lanes:
            dialler.failed(channel, reason)
            settings = self.settings
            if (
                self.state == DOWN
                and dialler.refused > len(self.dial_addresses())
                and self.loop.now() - self._since >= settings.refused_limit
            ):
                self._unavailable(f"it ended ({self._why}) and nobody listens there now ({dialler.why})")
            elif self.state == NEW and dialler.strange >= settings.limit:
                # Who has not started yet does not listen, and libzmq's thread answers for who is busy.
                text = f"{self._unreached()}: for {dialler.strange:.1f} s "
                if dialler.foreign:
                    text += f"another program answered there ({dialler.why}). {CHECK}"
                else:
                    text += (
                        "connections were accepted and nothing was said. Its process is stopped, or no dtfzmq server."
                    )
                self.lose(errors.UnavailableError(None, None, text))
            return
        current = lanes[0] is channel
        lanes.remove(channel)
        if current and not self._worth_while(channel.kind, reason):
            return
        if channel.kind == BULK:
            if current:
                self.sending.lane_ended()
            if self.state == UP:
                if channel.dialled:
                    self._dial_bulk()
                self.pump_bulk()
            return
        if self.controls:
            if current:
                self._repeat()
                self._pump()
            return
        self.state = DOWN
        self._why = reason
        seldom.warn(("down", self.endpoint.me.name, self.name), f"{self.route()} is down: {reason}", logging.INFO)
        self._guarded(self.endpoint.service.on_link_down, self)
        self._diallers[BULK].rest()
        # A silent peer was silent for up to half the limit before its lane ended.
        limit = self.settings.limit / 2
        self._watch(limit if self.dial_addresses() else min(limit, self.settings.client_limit))
        self._diallers[CONTROL].start(self._attempts[CONTROL].pause)
        self.inquiry.answer(False)  # last: a newcomer may be waiting to take the peer's place

    def refused(self, channel: Channel, error: errors.OpError, who: hello.Who, received: int) -> None:
        """A hello of ours was refused. That is the end, but for a bulk lane, which is tried again.

        Nor is it for a second way to a peer that we have, or where the peer itself said that it is and another is: it
        came by itself, and may come again.

        `received`: how much the peer had received when it gave this link up, below 0 if that is not known.
        """
        if self.error is not None:
            return
        hearsay = not self.addresses and who.name != self.name
        if channel.kind == BULK or hearsay or (who.incarnation == self.incarnation and self.state == UP):
            self._diallers[channel.kind].failed(channel, error.message)
            return
        why = error.message
        error.message = f"{self.route()} was refused: {why}"
        error.args = (error.message,)
        unseen = self.take_unseen(received) if received >= 0 else ()
        self.lose(error, why)
        for call in unseen:
            self._guarded(call.ask_again)

    def gone(self, reason: str, left: bool) -> None:
        """The peer says goodbye; `left`: for good."""
        self.left = left
        self._unavailable(f"{self.title()} left ({reason})")

    # -- the end ------------------------------------------------------------------------------------------------------

    def lose(self, error: errors.OpError, why: str = "", *, farewell: str = "") -> None:
        """The end of this link, with its reason, here and, as `why`, for a peer that still believes in it.

        `farewell` is told to the peer now. Nothing more is sent or received.
        """
        if self.error is None:
            self.why_lost = why or error.message
            self.leave(error, farewell)
            self.settle()

    def leave(self, error: errors.OpError, farewell: str, left: bool = False) -> None:
        """The first half of `lose`: no lane is left. Nobody is told but the peer; `settle` does the rest.

        `left`: the peer is told that this process leaves, with all its links.
        """
        self.error = error
        self.state = LOST
        self._unwatch()
        self._unwatch_bulk()
        for dialler in self._diallers:
            dialler.stop()
        for channel in [*self.controls, *self.bulks]:
            if farewell and channel.kind == CONTROL:
                channel.send([codec.pack([frames.BYE, farewell, left])])
            channel.close()
        self.controls.clear()
        self.bulks.clear()
        self.endpoint.link_lost(self)

    def settle(self) -> None:
        """The second half of `lose`: who waits for anything of this link is told its error."""
        error = self.error
        assert error is not None
        if self.sharing is not None:
            self.sharing.close()
        steps = self.steps | self.outbox.steps() | {item.step for item in self.sending.all.values() if item.step > 0}
        self.steps = set()
        self.outbox.clear()
        self.sending.clear()
        self._end_waits(error)
        for step in sorted(steps):
            self._guarded(self.endpoint.push_lost, self, step, error)
        self._guarded(self.endpoint.service.on_link_lost, self, error)

    def _end_waits(self, error: errors.OpError) -> None:
        calls, self.calls = self.calls, {}
        offers, self.offers = self.offers, {}
        serving, self.serving = self.serving, {}
        self.incoming.clear()
        for call in calls.values():
            self._guarded(call.finish, None, error)
        for offer in offers.values():
            self._guarded(offer.lost, error)
        for reply in serving.values():
            self._guarded(reply.revoke)
        self.inquiry.answer(False)

    def statistics(self) -> LinkStatistics:
        """A snapshot."""
        return LinkStatistics(
            peer=self.title(),
            address=self.address,
            state=self.state,
            incarnation=self.incarnation,
            control_lanes=len(self.controls),
            bulk_lanes=len(self.bulks),
            bytes_out=self.bytes_out,
            bytes_in=self.bytes_in,
            messages_out=self.messages_out,
            messages_in=self.messages_in,
            repeats_out=self.repeats_out,
            repeats_in=self.inbox.repeats,
            unacknowledged=len(self.outbox.flying),
            waiting_bytes=self.outbox.waiting_bytes,
            calls=len(self.calls),
            serving=len(self.serving),
            outgoing=len(self.sending.all),
            incoming=len(self.incoming),
            why=self.error.message if self.error is not None else ("" if self.state == UP else self.reason()),
        )
