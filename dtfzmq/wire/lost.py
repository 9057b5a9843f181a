"""What an endpoint remembers, within bounds, of links that are no more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dtfzmq.base import errors

if TYPE_CHECKING:
    from dtfzmq.wire.link import Link

# So many names and addresses, and so many links, are remembered.
_MOST = 1024
# A reason is told to the other end in so many characters.
_LONGEST = 300


class Lost:
    """Who was there once, and why links were given up. Baton only."""

    def __init__(self) -> None:
        # By name or addresses, the name if it is known.
        self._names: dict[str, str] = {}
        # Of links that the other end may still believe in, by our generation: how much came on them, why they ended.
        self._given_up: dict[int, tuple[int, str]] = {}

    def __len__(self) -> int:
        return max(len(self._names), len(self._given_up))

    def had(self, name: str, addresses: Sequence[str]) -> bool:
        """Whether there was a link to this task, or to these addresses, and none since."""
        return name in self._names or _key(addresses) in self._names

    def name_at(self, addresses: Sequence[str]) -> str:
        """The task that was at these addresses; "" if that is not known."""
        return self._names.get(_key(addresses), "")

    def found(self, link: Link) -> None:
        """A link is up."""
        self._names.pop(link.name, None)
        self._names.pop(_key(link.addresses), None)

    def add(self, link: Link, targets: Iterable[Sequence[str]]) -> None:
        """A link is lost, by which those at each of `targets` were meant."""
        for target in targets:
            self._names[_key(target)] = link.name
        if link.name:
            self._names[link.name] = link.name
        elif link.addresses:
            self._names[_key(link.addresses)] = ""
        while len(self._names) > _MOST:
            del self._names[next(iter(self._names))]
        if link.their_generation:
            self._given_up[link.generation] = link.inbox.received, link.why_lost
            if len(self._given_up) > _MOST:
                del self._given_up[next(iter(self._given_up))]

    def refusal(self, me: str, generation: int) -> tuple[errors.OpError, int]:
        """What the other end of such a link hears, and how much came on it; below 0 if that is not known any more."""
        received, why = self._given_up.get(generation, (-1, ""))
        because = f": {_plain(why)}" if why else ""
        text = f"{me} had given the link up{because}. Run again what it was used for."
        return errors.UnavailableError(None, None, text), received


def _key(addresses: Sequence[str]) -> str:
    return str(tuple(addresses))


def _plain(why: str) -> str:
    """A reason as part of a sentence: one line, not too long, and without what cannot be read."""
    return "".join(char if char.isprintable() else " " for char in why[:_LONGEST]).rstrip(". ")
