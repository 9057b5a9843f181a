"""A link's end of one lane: the hello, the frames that belong to the lane itself, and the credit of chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.base.names import article
from dtfzmq.wire import codec, frames, hello, seldom
from dtfzmq.wire.message import WireError
from dtfzmq.wire.transport import CONTROL, Lane

if TYPE_CHECKING:
    from dtfzmq.wire.endpoint import Endpoint
    from dtfzmq.wire.link import Link

#: How the reason begins where another program answers.
FOREIGN = "what came is not the protocol"


def _message(header: list[Any], cls: type[Any]) -> Any:
    made = codec.message(header[1], codec.TensorReader((), False, 0))
    if type(made) is not cls:
        raise WireError(f"{article(type(made).__name__)} came where {article(cls.__name__)} belongs")
    return made


class Channel:
    """One lane of an endpoint, dialled (`link` known) or accepted (`link` known once the hello is accepted).

    Everything on the loop's baton. `live` is true between the hello's acceptance and the end.
    """

    __slots__ = (
        "_credit_owed",
        "_endpoint",
        "_timer",
        "_who",
        "dialled",
        "ended",
        "got",
        "kind",
        "lane",
        "link",
        "live",
        "opened",
    )

    def __init__(self, endpoint: Endpoint, link: Link | None, kind: int) -> None:
        self._endpoint = endpoint
        self.link = link
        self.kind = kind
        self.dialled = link is not None
        self.lane: Lane | None = None
        self.opened = False
        self.live = False
        self.ended = False
        self.got = 0
        self._credit_owed = 0
        self._timer: Any = None
        self._who: hello.Who | None = None

    # -- hello --------------------------------------------------------------------------------------------------------

    def expect(self, seconds: float) -> None:
        """The hello must be through within `seconds`."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._endpoint.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        if self.live:
            return
        if self.link is not None:
            self.end("it accepted the connection and did not answer")
            return
        assert self.lane is not None
        seldom.warn(("no hello", self.lane.address), f"closed {self.lane.address}: no hello came")
        self.end("no hello came")

    def on_open(self) -> None:
        """Our connection stands: say hello."""
        link = self.link
        if link is None or self.ended:
            return
        self.opened = True
        self.expect(self._endpoint.settings.welcome_limit)
        me = self._endpoint.me
        assert self.lane is not None
        self._say(
            frames.HELLO,
            hello.Hello(
                protocol=hello.PROTOCOL,
                me=hello.who_to_wire(me),
                lane=self.kind,
                stream=link.stream,
                wanted=link.wanted,
                wanted_incarnation=link.incarnation,
                generation=link.generation,
                your_generation=link.their_generation,
                received=link.inbox.received,
                cluster=self._endpoint.cluster_for_hello(),
            ),
        )

    def _say(self, kind: int, message: Any) -> None:
        assert self.lane is not None
        self.lane.send([codec.pack([kind, codec.body(message, codec.TensorWriter(False))])])

    def accept(self, link: Link, who: hello.Who, received: int) -> None:
        """The hello was found good: welcome it, and the lane is live."""
        self.link = link
        self._say(
            frames.WELCOME,
            hello.Welcome(
                me=hello.who_to_wire(self._endpoint.me), generation=link.generation, received=link.inbox.received
            ),
        )
        self._go_live(who, received)

    def consider(self) -> None:
        """The hello is answered later: what it claims is another's, who is asked. The newcomer is told to wait."""
        if self._timer is not None:
            self._timer.cancel()
        self.send([codec.pack([frames.PING, 0])])

    def refuse(self, error: errors.OpError, received: int = -1) -> None:
        """Turn the hello down with a reason, and end. `received`: see Refused."""
        me = hello.who_to_wire(self._endpoint.me)
        self._say(frames.REFUSED, hello.Refused(error.error_code, error.message, me, received))
        self.end("refused")

    def _go_live(self, who: hello.Who, received: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.live = True
        assert self.link is not None
        self.link.attach(self, who, received)

    def _greet(self, header: list[Any], kind: int) -> None:
        """A frame before the lane is live."""
        if self.link is None:
            if self._who is not None:
                raise WireError("a second frame came before the hello was answered")
            if kind != frames.HELLO:
                raise WireError("the first frame is no hello")
            said = _message(header, hello.Hello)
            self.kind = said.lane
            self._who = hello.who_from_wire(said.me)
            hello.check(said, self._who)
            self._endpoint.on_hello(self, said, self._who)
            return
        if kind == frames.WELCOME:
            welcome = _message(header, hello.Welcome)
            who = hello.who_from_wire(welcome.me)
            hello.check(welcome, who)
            if self.link.welcome(self, who, welcome.generation):
                self._go_live(who, welcome.received)
        elif kind == frames.REFUSED:
            refused = _message(header, hello.Refused)
            link = self.link
            self.close()
            error = errors.make(refused.code, refused.reason)
            link.refused(self, error, hello.who_from_wire(refused.me), refused.received)
        elif kind == frames.PING:
            self.expect(self._endpoint.settings.limit)  # see `consider`
        else:
            raise WireError(f"a frame of kind {kind} came before the hello was answered")

    # -- frames -------------------------------------------------------------------------------------------------------

    def on_frames(self, frame_list: Sequence[Any]) -> None:
        """One message came."""
        if self.ended:
            return
        try:
            header = codec.unpack(frame_list[0])
            kind = frames.check(header)
            if kind >= frames.REQUEST:
                if not self.live or self.kind != CONTROL:
                    raise WireError(f"a frame of kind {kind} came on a lane that is not open for it")
                self.link.receive(self, kind, header, frame_list)  # type: ignore[union-attr]  # live lanes have links
            elif not self.live:
                self._greet(header, kind)
            else:
                self._of_lane(kind, header, frame_list)
        except WireError as exc:
            self._broken(exc)

    def _of_lane(self, kind: int, header: list[Any], frame_list: Sequence[Any]) -> None:
        link = self.link
        assert link is not None
        if kind == frames.ACK:
            link.acknowledged(header[1])
        elif kind == frames.CHUNK:
            self._credit(len(frame_list[1]) if len(frame_list) > 1 else 0, True)
        elif kind == frames.CREDIT:
            link.credited(self, header[1])
        elif kind == frames.PING:
            self.lane.send([codec.pack([frames.PONG, header[1]])])  # type: ignore[union-attr]  # live lanes have lanes
        elif kind == frames.PONG:
            link.inquiry.answer(True)
        elif kind == frames.BYE:
            link.gone(header[1], len(header) > 2 and header[2])
        elif kind != frames.WELCOME and kind != frames.REFUSED:
            raise WireError(f"a frame of kind {kind} came on an open lane")

    def sink(self, header: bytes) -> memoryview | None:
        """Where a chunk goes; None for what we need not keep."""
        if not self.live or self.kind == CONTROL:
            return None
        try:
            head = codec.unpack(header)
            if frames.check(head) != frames.CHUNK:
                return None
            return self.link.place_chunk(head[1], head[2], head[3])  # type: ignore[union-attr]  # as above
        except WireError as exc:
            self._broken(exc)
            return None

    def on_chunk(self, header: bytes, nbytes: int) -> None:
        """A chunk was written where `sink` said."""
        if self.ended:
            return
        head = codec.unpack(header)
        try:
            if nbytes != head[3]:
                raise WireError(f"a chunk had {nbytes} bytes instead of {head[3]}")
            assert self.link is not None
            self._credit(nbytes, self.link.chunk_came(head[1], nbytes))
        except WireError as exc:
            self._broken(exc)

    def _credit(self, nbytes: int, last: bool) -> None:
        """Bytes of this lane are in place; tell the sender now and then, and at the end of a tensor."""
        self.got += nbytes
        self._credit_owed += nbytes
        if (last or self._credit_owed >= self._endpoint.credit_step) and not self.ended:
            self._credit_owed = 0
            assert self.lane is not None
            self.lane.send([codec.pack([frames.CREDIT, self.got])])

    def send(self, frame_list: Sequence[Any], frozen: bool = False) -> None:
        """Send on the lane."""
        assert self.lane is not None
        self.lane.send(frame_list, frozen)

    # -- the end ------------------------------------------------------------------------------------------------------

    def on_end(self, reason: str) -> None:
        """The lane ended by itself."""
        if self.ended:
            return
        self.ended = True
        self.live = False
        if self._timer is not None:
            self._timer.cancel()
        self._endpoint.channel_ended(self)
        if self.link is not None:
            self.link.channel_ended(self, reason)

    def end(self, reason: str) -> None:
        """End it from here, as if it had ended by itself."""
        if not self.ended:
            if self.lane is not None:
                self.lane.close()
            self.on_end(reason)

    def close(self) -> None:
        """End it from here; nobody is told."""
        if not self.ended:
            self.ended = True
            self.live = False
            if self._timer is not None:
                self._timer.cancel()
            if self.lane is not None:
                self.lane.close()
            self._endpoint.channel_ended(self)

    def _broken(self, error: WireError) -> None:
        lane, link = self.lane, self.link
        # One without a link came to us, and its lane says so.
        where = f"a connection with {link.peer_text()}" if link else lane.address if lane else "a connection"
        seldom.warn(("no protocol", where), f"closed {where}: {error}")
        live = self.live
        why = f"{FOREIGN} ({error})"
        self.end(why)
        if live and link is not None:
            link.lose(errors.InternalError(None, None, f"{link.route()} was given up: {why}."), why)
