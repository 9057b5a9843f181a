"""Whether a peer is alive, and still who it was, asked of its link by those who wait for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dtfzmq.wire import codec, frames

if TYPE_CHECKING:
    from dtfzmq.wire.link import Link

_log = logging.getLogger("dtfzmq")


class Inquiry:
    """Who asked, each until the peer answers, its connection ends, or that has outlived any silence. Baton only."""

    def __init__(self, link: Link, loop: Any, silence: float) -> None:
        """`silence`: see LinkSettings."""
        self._link = link
        self._loop = loop
        self._silence = silence
        self._asked: dict[Callable[[bool], None], Any] = {}

    def alive(self, answered: Callable[[bool], None]) -> None:
        """Call ``answered(bool)`` once: True when the peer answers, False when its connection has ended.

        A connection that outlives silence is one whose heartbeats are answered: the peer is alive, and busy.
        """
        if not self._link.controls:
            self._loop.call_soon(answered, False)
            return
        self._ask(answered)
        for channel in self._link.controls:
            channel.send([codec.pack([frames.PING, 0])])

    def who(self, done: Callable[[], None]) -> None:
        """Call ``done()`` once it is known, or as good as known, whether the peer is still the process that it was.

        If it is not, the link is lost by then. One that is down learns it from whoever listens at its address.
        """
        link = self._link

        def answered(alive: bool) -> None:
            if alive or link.error is not None:
                done()
            else:
                self.who(done)

        if link.controls:
            self.alive(answered)
        else:
            self._ask(lambda _: done())
            link.hurry()

    def _ask(self, answered: Callable[[bool], None]) -> None:
        self._asked[answered] = self._loop.call_later(self._silence, self._tell, answered, True)

    def answer(self, alive: bool) -> None:
        """It is known now."""
        for answered, timer in list(self._asked.items()):
            timer.cancel()
            self._tell(answered, alive)

    def _tell(self, answered: Callable[[bool], None], alive: bool) -> None:
        if self._asked.pop(answered, None) is not None:
            try:
                answered(alive)
            except Exception:
                _log.exception("whoever asked for a peer met an error")


def inquire(links: Iterable[Link | None], done: Callable[[], None]) -> None:
    """Call `done()` once it is known of each link whether its peer is still the process that it was; see `Inquiry.who`.

    It may be called before this returns. None is no link: there is nothing to know of it.
    """
    left = [1]

    def one_less() -> None:
        left[0] -= 1
        if left[0] == 0:
            done()

    for link in links:
        if link is not None:
            left[0] += 1
            link.inquiry.who(one_less)
    one_less()
