"""How a link carries: numbered messages and chunks go out on the lanes that there are, and again on the next ones.

What is numbered is kept until it is acknowledged, chunks until they are credited. How lanes come and go: see link.py.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from dtfzmq.base import errors
from dtfzmq.wire import codec, frames
from dtfzmq.wire.lane import Channel
from dtfzmq.wire.numbers import Message
from dtfzmq.wire.reading import by_reference
from dtfzmq.wire.traffic import Traffic


class Carrier(Traffic):
    """What goes over the lanes of one link. Baton only."""

    # -- sending ------------------------------------------------------------------------------------------------------

    def post(self, item: Message) -> None:
        """Send a numbered message now, or when there is a lane and room."""
        if self.rider is not None:
            self._go_on_foot()  # order is kept
        if self._may_go():
            self._transmit(item)
        else:
            self.outbox.wait(item)

    def _transmit(self, item: Message) -> None:
        outbox = self.outbox
        channel = self.controls[0]
        reference = channel.lane.by_reference  # type: ignore[union-attr]  # live lanes have lanes
        try:
            made = self.write(item, outbox.number + 1, reference)
        except Exception as exc:  # whatever a value of the caller makes the codec raise is the caller's
            error = errors.wrap(exc, f"{self.route()}: a message cannot be sent")
            self.loop.call_soon(self.unsendable, item, error)
            return
        self.inbox.told()
        item.body = None
        item.frames = made
        item.nbytes = len(made[0]) + (len(made[1]) if len(made) > 1 and not reference else 0)
        outbox.fly(item)
        self.messages_out += 1
        self.bytes_out += item.nbytes
        channel.send(made)

    def _pump(self) -> None:
        outbox = self.outbox
        while self.controls and outbox.room():
            item = outbox.next()
            if item is None:
                return
            self._transmit(item)

    def _repeat(self) -> None:
        """Send again, on the present lane, what is not acknowledged."""
        for item in list(self.outbox.flying):
            if not self.controls:
                return
            self.repeats_out += 1
            self.controls[0].send(item.frames or ())

    def pump_bulk(self) -> None:
        """Send chunks as far as credit goes."""
        while self.bulks:
            chunk = self.sending.next_chunk()
            if chunk is None:
                return
            item, offset, data = chunk
            self.bytes_out += len(data)
            self.bulks[0].send([codec.pack([frames.CHUNK, item.id, offset, len(data)]), data], item.frozen)
        if self.sending.all or self.incoming:
            self.want_bulk()

    def credited(self, channel: Channel, total: int) -> None:
        """Chunks of a lane arrived."""
        if self.bulks and self.bulks[0] is channel:
            self.sending.credit(total)
            self.pump_bulk()

    # -- receiving ----------------------------------------------------------------------------------------------------

    def receive(self, channel: Channel, kind: int, header: list[Any], frame_list: Sequence[Any]) -> None:
        """A numbered message came. Raises WireError."""
        if self.error is not None:
            return
        if self.outbox.acknowledge(header[2]) and not self.outbox.idle():
            self._pump()
        reference = channel.lane.by_reference  # type: ignore[union-attr]  # live lanes have lanes
        nbytes = len(frame_list[0]) + (len(frame_list[1]) if len(frame_list) > 1 and not reference else 0)
        self.bytes_in += nbytes
        new = self.inbox.accept(header[1], nbytes)
        if self.inbox.owed_bytes >= self.endpoint.ack_step:
            self.acknowledge()
        else:
            self.endpoint.owe(self)  # type: ignore[arg-type]  # every Carrier is a Link
        if new:
            self.dispatch(kind, header, by_reference(frame_list) if reference else frame_list)

    def acknowledged(self, number: int) -> None:
        """The peer acknowledged without another message. Raises WireError."""
        self.outbox.acknowledge(number)
        self._pump()

    def acknowledge(self) -> None:
        """Tell the peer what we have, if it must still be told and there is a lane."""
        if self.inbox.owed and self.controls:
            self.controls[0].send([codec.pack([frames.ACK, self.inbox.told()])])

    # -- given by Link ------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def want_bulk(self) -> None:
        """A tensor was announced, and there is no bulk lane for it."""
