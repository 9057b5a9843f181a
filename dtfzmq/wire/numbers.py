"""Numbers and acknowledgements of a link: what was sent is kept until it is acknowledged, what came is counted.

A link sends on one lane at a time. When that lane ends, everything that is not acknowledged goes out again on the next
one, in order, under its old numbers; the receiver drops what it has.
"""

from __future__ import annotations

import collections
from typing import Any

from dtfzmq.wire.message import WireError


class Message:
    """One numbered message: its kind and fields, and what is written once a lane is there.

    `body` is a message, or for a push the list of its tensors. `step` is 0 for what belongs to none. `rider` is a push
    that goes out with a reply. `frames` is there once it was sent, and then `body` is let go of.
    """

    __slots__ = ("body", "fields", "frames", "frozen", "kind", "nbytes", "number", "rider", "step")

    def __init__(
        self, kind: int, fields: tuple[Any, ...], body: Any = None, step: int = 0, nbytes: int = 0, frozen: bool = True
    ) -> None:
        self.kind = kind
        self.fields = fields
        self.body = body
        self.step = step
        self.nbytes = nbytes
        self.frozen = frozen
        self.number = 0
        self.rider: Message | None = None
        self.frames: list[Any] | None = None


class Outbox:
    """The sending half of a link. Messages wait in turn; pushes round robin over their steps.

    Invariant: the messages in flight have consecutive numbers, ending with `number`.
    """

    def __init__(self, window: int) -> None:
        self.number = 0
        self.window = window
        self.flying: collections.deque[Message] = collections.deque()
        self.flying_bytes = 0
        self._first: collections.deque[Message] = collections.deque()
        self._steps: dict[int, collections.deque[Message]] = {}
        self.waiting_bytes = 0

    def room(self) -> bool:
        """True if another message may go out now."""
        return self.flying_bytes < self.window

    def open(self) -> bool:
        """True if a message may go out now and overtakes none."""
        return self.flying_bytes < self.window and not self._first and not self._steps

    def idle(self) -> bool:
        """True if nothing waits for its turn."""
        return not self._first and not self._steps

    def wait(self, item: Message) -> None:
        """Put a message behind those of its step."""
        self.waiting_bytes += item.nbytes
        if item.step == 0:
            self._first.append(item)
        else:
            queue = self._steps.get(item.step)
            if queue is None:
                queue = self._steps[item.step] = collections.deque()
            queue.append(item)

    def next(self) -> Message | None:
        """Take the message whose turn it is."""
        if self._first:
            item = self._first.popleft()
        elif self._steps:
            step, queue = next(iter(self._steps.items()))
            item = queue.popleft()
            del self._steps[step]
            if queue:
                self._steps[step] = queue  # to the end: the others come first
        else:
            return None
        self.waiting_bytes -= item.nbytes
        return item

    def withdraw(self, item: Message) -> bool:
        """Take back a message that still waits; False if it went out."""
        if item.number or item.step:
            return False
        try:
            self._first.remove(item)
        except ValueError:
            return False
        self.waiting_bytes -= item.nbytes
        return True

    def unseen(self, received: int) -> list[Message]:
        """What a peer has not got that received up to this number: sent and lost, or not sent yet; pushes aside."""
        return [*(item for item in self.flying if item.number > received), *self._first]

    def forget(self, step: int) -> None:
        """Drop what waits for a step that is over."""
        queue = self._steps.pop(step, None)
        if queue:
            self.waiting_bytes -= sum(item.nbytes for item in queue)

    def fly(self, item: Message) -> None:
        """A message goes out: number it and keep it."""
        self.number += 1
        item.number = self.number
        self.flying.append(item)
        self.flying_bytes += item.nbytes

    @property
    def acknowledged(self) -> int:
        """The peer has everything up to this number, as far as it told."""
        return self.number - len(self.flying)

    def acknowledge(self, ack: int) -> bool:
        """The peer has everything up to `ack`. True if that let something go. WireError for what was never sent."""
        if ack > self.number or ack < 0:
            raise WireError(f"number {ack} was acknowledged and {self.number} is the last that was sent")
        flying = self.flying
        if not flying or flying[0].number > ack:
            return False
        while flying and flying[0].number <= ack:
            self.flying_bytes -= flying.popleft().nbytes
        return True

    def steps(self) -> set[int]:
        """Steps with messages that the peer may not have."""
        found = {item.step for item in self.flying if item.step}
        found.update(self._steps)
        return found

    def clear(self) -> None:
        """Give up everything, for a link that is lost."""
        self.flying.clear()
        self._first.clear()
        self._steps.clear()
        self.flying_bytes = self.waiting_bytes = 0


class Inbox:
    """The receiving half: which numbers came, and whether the peer must still be told."""

    __slots__ = ("owed", "owed_bytes", "received", "repeats")

    def __init__(self) -> None:
        self.received = 0
        self.owed = False
        self.owed_bytes = 0
        self.repeats = 0

    def accept(self, number: int, nbytes: int) -> bool:
        """True if the message is new, False if it is a repeat. Raises WireError for a gap, which no lane can make."""
        self.owed = True
        if number == self.received + 1:
            self.received = number
            self.owed_bytes += nbytes
            return True
        if 0 < number <= self.received:
            self.repeats += 1
            return False
        raise WireError(f"message {number} came after {self.received}")

    def told(self) -> int:
        """The number to acknowledge; from now on the peer is taken to know."""
        self.owed = False
        self.owed_bytes = 0
        return self.received
