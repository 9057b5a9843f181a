"""Whether a peer is alive, asked of a link by those who wait for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("dtfzmq")


class Inquiry:
    """Who asked, each until the peer answers, its connection ends, or that has outlived any silence. Baton only."""

    def __init__(self, loop: Any, silence: float) -> None:
        """`silence`: see LinkSettings."""
        self._loop = loop
        self._silence = silence
        self._asked: dict[Callable[[bool], None], Any] = {}

    def ask(self, answered: Callable[[bool], None]) -> None:
        """Call ``answered(bool)`` once."""
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
