"""Messages whose announced tensors are still on their way, and frames that came by reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors
from dtfzmq.wire.calls import Awaited, complete
from dtfzmq.wire.message import WireError
from dtfzmq.wire.transfer import Array, Incoming

if TYPE_CHECKING:
    from dtfzmq.wire.traffic import Traffic

Ending = Callable[[Any, "errors.OpError | None"], None]


class Waiting:
    """A message whose announced tensors are on their way."""

    __slots__ = ("_end", "_fetched", "_link", "_missing", "message")

    def __init__(self, link: Traffic, end: Ending) -> None:
        self._link = link
        self._end: Ending | None = end
        self._missing = 0
        self._fetched: list[Incoming] = []
        #: None as long as the message itself is on its way.
        self.message: Any = None

    def fetch(self, descriptor: Any, deliver: Callable[[Array], None]) -> None:
        """Have an announced tensor sent. Raises WireError, UnimplementedError."""
        if type(descriptor) is not list or len(descriptor) != 4 or type(descriptor[3]) is not int:
            raise WireError("the descriptor of an announced tensor is malformed")
        link = self._link
        incoming = Incoming(descriptor[3], 0, "", descriptor, False, link.settings.max_tensor)
        incoming.by_segment = incoming.nbytes >= link.settings.shared_limit
        incoming.deliver = deliver
        incoming.failed = self.give_up
        incoming.of = self
        self._fetched.append(incoming)
        self._link.grant(incoming)

    def tensor(self, descriptor: list[Any]) -> Awaited:
        """For the reader: what stands for an announced tensor until it has come."""
        stand_in = Awaited()

        def came(array: Array) -> None:
            stand_in.value = array
            self._missing -= 1
            self.check()

        self.fetch(descriptor, came)
        self._missing += 1
        return stand_in

    def check(self) -> None:
        """Hand the message over if it is whole."""
        if self._missing == 0 and self.message is not None and self._end is not None:
            end, self._end = self._end, None
            self._fetched.clear()
            end(complete(self.message), None)

    def give_up(self, error: Exception) -> None:
        """There will be no message."""
        end, self._end = self._end, None
        if end is not None:
            for incoming in self._fetched:
                if incoming.memory is not None:
                    self._link.refuse(incoming, str(error), False)
            self._fetched.clear()
            end(None, errors.wrap(error))


class References(list[Any]):
    """Frames that came on a lane by reference: arrays after the header."""


def by_reference(frame_list: Sequence[Any]) -> Sequence[Any]:
    """Mark frames of a lane by reference for `Traffic.dispatch`."""
    return References(frame_list)

