"""Lines that peers cause, so as often as they like: each kind of one peer is logged at most once in a while."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable

from dtfzmq.base import clock

_log = logging.getLogger("dtfzmq")

#: Seconds between two lines of one subject.
EVERY_S = 10.0
# So many subjects are remembered.
_MOST = 256


class Seldom:
    """What was said of which subject. Any thread: a race says a thing twice, or miscounts by one."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: When it was said, and how often it was left out since.
        self._said: dict[Hashable, tuple[float, int]] = {}

    def warn(self, subject: Hashable, text: str, level: int = logging.WARNING) -> None:
        """Log `text`, with how many like it were left out before; or leave it out."""
        now = self._now()
        when, left_out = self._said.pop(subject, (now - EVERY_S, 0))
        if now - when < EVERY_S:
            self._said[subject] = (when, left_out + 1)
            return
        self._said[subject] = (now, 0)
        if len(self._said) > _MOST:
            del self._said[next(iter(self._said))]
        _log.log(level, "%s%s", text, f" ({left_out} more like this were left out)" if left_out else "")


warn = Seldom(clock.now).warn
