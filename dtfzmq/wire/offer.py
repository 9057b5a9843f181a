"""A large tensor that a peer announced for a step: it comes once it is granted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dtfzmq.base import dtypes
from dtfzmq.wire.transfer import Array, Incoming

if TYPE_CHECKING:
    from dtfzmq.wire.traffic import Traffic


class Offer:
    """Grant it or refuse it, once; on the baton. What is refused, revoked or lost is not delivered any more."""

    __slots__ = ("_incoming", "_link", "error", "key", "step")

    def __init__(self, link: Traffic, incoming: Incoming) -> None:
        self._link = link
        self._incoming = incoming
        self.step = incoming.step
        self.key = incoming.key
        #: Why it cannot come any more.
        self.error: Exception | None = None

    @property
    def dtype(self) -> dtypes.DType:
        """Element type."""
        return self._incoming.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape."""
        return self._incoming.shape

    @property
    def nbytes(self) -> int:
        """Bytes that it will take."""
        return self._incoming.nbytes

    def grant(self, deliver: Callable[[Array], None], failed: Callable[[Exception], None] | None = None) -> None:
        """Reserve memory and have the bytes sent. One of the two is called later, unless it is refused before."""
        self._incoming.deliver = deliver
        self._incoming.failed = failed
        if self.error is not None:
            if failed is not None:
                self._link.loop.call_soon(failed, self.error)
        else:
            self._link.grant(self._incoming)

    def refuse(self, reason: str, over: bool = False) -> None:
        """The tensor is not wanted. `over`: only since the step has ended, which is no failure."""
        self._incoming.deliver = self._incoming.failed = None
        if self.error is None:
            self._link.refuse(self._incoming, reason, over)

    def lost(self, error: Exception) -> None:
        """For the link: it cannot come."""
        self.error = error
        failed = self._incoming.failed
        self._incoming.deliver = self._incoming.failed = None
        if failed is not None:
            failed(error)
