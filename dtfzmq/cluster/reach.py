"""Which peers are out of reach, so that what waits for their sake takes nothing that may be lost with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Reach:
    """Links that were up and have no lane, or have one again and nothing was heard yet. All methods: on the baton.

    `told(link, away)` is called when one gets out of reach, and when its peer has answered on a new lane: what it said
    meanwhile has come by then, and may have ended what would have gone on.
    """

    def __init__(self, loop: Any, told: Callable[[Any, bool], None]) -> None:
        self._loop = loop
        self._told = told
        self._away: set[Any] = set()

    def __contains__(self, link: Any) -> bool:
        return link in self._away

    def down(self, link: Any) -> None:
        """A link has no lane for now."""
        self._away.add(link)
        self._told(link, True)

    def up(self, link: Any) -> None:
        """A link stands."""
        if link in self._away:
            # Not at once: that it is up answers whoever asks of it now.
            self._loop.call_soon(link.inquiry.alive, lambda alive: self._heard(link, alive))

    def _heard(self, link: Any, alive: bool) -> None:
        if alive and link in self._away:  # else it is down again, or lost
            self._away.discard(link)
            self._told(link, False)

    def lost(self, link: Any) -> None:
        """A process is gone."""
        self._away.discard(link)
