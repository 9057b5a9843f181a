"""Where tensors of a step meet those who wait for them: a producer never blocks, a consumer may come first or last.

Each step has one exchange in a task, opened by RunGraph. What comes for a step that is not open yet is parked, within
bounds; what comes for one that is over is dropped. A step that ended, was cancelled before it came, or lost a parked
tensor leaves a tombstone, so that a late RunGraph fails at once.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Container, Iterator
from typing import Any, NamedTuple, Protocol

from dtfzmq.base import errors, names
from dtfzmq.wire.settings import LinkSettings

Deliver = Callable[[Any, "errors.OpError | None"], None]
OnFail = Callable[[errors.OpError], None]

# What anything parked is counted as, with its place in the tables, beside its bytes and those of its key.
_PARKED_BYTES = 512
_HEX = re.compile(r"[0-9a-fA-F]{1,16}\Z")
_OTHERS = ""
_FRAME = re.compile(r"\d+:\d+\Z")


class Offered(Protocol):
    """A large tensor to be had, as wire.offer.Offer."""

    nbytes: int

    def grant(self, deliver: Callable[[Any], None], failed: Callable[[Exception], None] | None = None) -> None:
        """Have it sent."""

    def refuse(self, reason: str, over: bool = False) -> None:
        """It is not wanted."""


class Clock(Protocol):
    """What a rendezvous needs of a loop."""

    def now(self) -> float:
        """Seconds."""

    def call_later(self, delay: float, fn: Callable[..., None], *args: Any) -> Any:
        """Run in a while."""


class RendezvousKey(NamedTuple):
    """A parsed key, ``source device;source incarnation;destination device;edge;frame:iter``."""

    source: str
    incarnation: int
    destination: str
    edge: str
    frame: str

    @classmethod
    def parse(cls, text: str) -> RendezvousKey:
        """Raises InvalidArgumentError, with TensorFlow's text, for what is not a key."""
        parts = text.split(";")
        if len(parts) == 5 and parts[3] and _HEX.match(parts[1]) and _FRAME.match(parts[4]):
            try:
                for device in (parts[0], parts[2]):
                    if not device or names.parse_device(device) == names.OPEN:
                        break
                else:
                    return cls(parts[0], int(parts[1], 16), parts[2], parts[3], parts[4])
            except ValueError:
                pass
        raise errors.InvalidArgumentError(None, None, f"Invalid  rendezvous key: {text}")

    def text(self) -> str:
        """The key as it travels."""
        return f"{prefix(self.source, self.incarnation, self.destination, self.edge)}{self.frame}"


def prefix(source: str, incarnation: int, destination: str, edge: str) -> str:
    """All of a key but the iteration, which follows as "frame:iter"."""
    return f"{source};{incarnation:016x};{destination};{edge};"


@dataclasses.dataclass(frozen=True)
class RendezvousStatistics:
    """A snapshot: open steps, their tensors and waiting consumers; parked and evicted things; tombstones."""

    steps: int
    values: int
    waiting: int
    coming: int
    parked: int
    parked_bytes: int
    evicted: int
    dropped: int
    tombstones: int


class Exchange:
    """The tensors of one open step. Baton only. Each value is delivered once; several of one key queue up."""

    __slots__ = ("_coming", "_gone", "_home", "_on_fail", "_rendezvous", "_values", "_waiting", "error", "step")

    def __init__(self, rendezvous: Rendezvous, step: int, on_fail: OnFail | None) -> None:
        self._rendezvous = rendezvous
        self._on_fail = on_fail
        self._values: dict[str, collections.deque[Any]] = {}
        self._waiting: dict[str, collections.deque[Deliver]] = {}
        self._coming: dict[Offered, None] = {}
        self._gone: dict[str, errors.OpError] = {}
        # The task that `_OTHERS` are not.
        self._home = ""
        self.step = step
        #: Why the step cannot go on; the first reason stays.
        self.error: errors.OpError | None = None

    def send(self, key: str, value: Any) -> None:
        """Give `value` to whoever waits for `key`, or keep it. Dropped once the step failed."""
        if self.error is not None:
            return
        waiting = self._waiting.get(key)
        if waiting is not None:
            deliver = waiting.popleft()
            if not waiting:
                del self._waiting[key]
            deliver(value, None)
            return
        queue = self._values.get(key)
        if queue is None:
            self._values[key] = collections.deque((value,))
        else:
            queue.append(value)

    def recv(self, key: str, deliver: Deliver) -> None:
        """Call ``deliver(value, None)`` when the tensor is here, which may be at once, or ``deliver(None, error)``."""
        if self.error is not None:
            deliver(None, self.error)
            return
        queue = self._values.get(key)
        if queue is not None:
            value = queue.popleft()
            if not queue:
                del self._values[key]
            deliver(value, None)
            return
        if self._gone:
            error = self._why_gone(_source_task(key))
            if error is not None:
                self.abort(error)
                deliver(None, error)
                return
        self._waiting.setdefault(key, collections.deque()).append(deliver)

    def announced(self, key: str, offer: Offered) -> None:
        """A large tensor is to be had: the step is known, so take it."""
        if self.error is not None:
            offer.refuse("the step failed", True)
            return
        self._coming[offer] = None

        def deliver(value: Any) -> None:
            self._coming.pop(offer, None)
            self.send(key, value)

        def failed(error: Exception) -> None:
            self._coming.pop(offer, None)
            self.abort(errors.wrap(error))

        offer.grant(deliver, failed)

    def peer_lost(self, task: str, error: errors.OpError) -> None:
        """A task is lost: if this step waits for a tensor of it, or ever does, it fails."""
        self._gone[task] = error
        if any(_source_task(key) == task for key in self._waiting):
            self.abort(error)

    def others_gone(self, task: str, error: errors.OpError) -> None:
        """As `peer_lost`, for all tasks but this one, which is `task`."""
        self._home = task
        self._gone[_OTHERS] = error
        if any(_source_task(key) != task for key in self._waiting):
            self.abort(error)

    def _why_gone(self, task: str) -> errors.OpError | None:
        error = self._gone.get(task)
        return self._gone.get(_OTHERS) if error is None and task != self._home else error

    def abort(self, error: errors.OpError) -> None:
        """The step cannot go on: who waits gets `error`, values are dropped, later calls get it at once."""
        if self.error is not None:
            return
        self.error = error
        self._values.clear()
        coming, self._coming = self._coming, {}
        waiting, self._waiting = self._waiting, {}
        for offer in coming:
            offer.refuse("the step failed", True)
        for queue in waiting.values():
            for deliver in queue:
                deliver(None, error)
        on_fail, self._on_fail = self._on_fail, None
        if on_fail is not None:
            on_fail(error)

    def end(self, error: errors.OpError | None) -> None:
        """The step is over: only who still waits is told, with `error` if there is one."""
        self._on_fail = None
        if error is not None or self._waiting or self._coming:
            self.abort(error or _over(self.step))
        elif self.error is None:
            self.error = _OVER
            self._values.clear()

    def counts(self) -> tuple[int, int, int]:
        """Values here, consumers waiting, large tensors coming."""
        return (
            sum(map(len, self._values.values())),
            sum(map(len, self._waiting.values())),
            len(self._coming),
        )


class _Parked:
    """What came for one step before the step did."""

    __slots__ = ("items", "nbytes", "since")

    def __init__(self, since: float) -> None:
        self.items: list[tuple[str, Any, Offered | None]] = []
        self.nbytes = 0
        self.since = since


class Rendezvous:
    """All exchanges of a task. Baton only."""

    def __init__(self, loop: Clock, settings: LinkSettings | None = None) -> None:
        self._loop = loop
        self._settings = settings or LinkSettings()
        #: Steps that begin once their feeds are here, which may take long: nothing of theirs gets too old.
        self.beginning: Callable[[], Container[int]] = tuple
        self._open: dict[int, Exchange] = {}
        self._parked: dict[int, _Parked] = {}
        self._parked_bytes = 0
        # When each was buried, and why; None: it ended like most.
        self._tombs: dict[int, tuple[float, errors.OpError | None]] = {}
        self._timer: Any = None
        self._evicted = 0
        self._dropped = 0

    # -- steps --------------------------------------------------------------------------------------------------------

    def open(self, step: int, on_fail: OnFail | None = None) -> Exchange:
        """The exchange of a step, made if it is not open. `on_fail(error)` is told once if the step cannot go on.

        Raises the reason, AbortedError or CancelledError, if the step is over or lost a tensor that came too early.
        """
        found = self._open.get(step)
        if found is not None:
            return found
        self.refuse(step)
        exchange = self._open[step] = Exchange(self, step, on_fail)
        parked = self._parked.pop(step, None)
        if parked is not None:
            self._parked_bytes -= parked.nbytes
            for key, value, offer in parked.items:
                if offer is not None:
                    exchange.announced(key, offer)
                else:
                    exchange.send(key, value)
        return exchange

    def refuse(self, step: int) -> None:
        """Raise why the step is over if it is, as `open` does."""
        tomb = self._tombs.get(step)
        if tomb is not None:
            raise tomb[1] or _over(step)

    def find(self, step: int) -> Exchange | None:
        """The exchange of an open step."""
        return self._open.get(step)

    def close(self, step: int, error: errors.OpError | None = None) -> None:
        """The step is over here, whether it was open or is yet to come; its memory is let go of, a tombstone stays.

        `error` is what a late RunGraph gets; who still waits gets it too.
        """
        if step not in self._tombs:
            self._bury(step, error)
        self._unpark(step)
        exchange = self._open.pop(step, None)
        if exchange is not None:
            exchange.end(error)

    def peer_lost(self, task: str, error: errors.OpError) -> None:
        """A task is lost: every open step that waits for a tensor of it fails with `error`."""
        for exchange in list(self._open.values()):
            exchange.peer_lost(task, error)

    # -- what comes ---------------------------------------------------------------------------------------------------

    def arrived(self, step: int, key: str, value: Any) -> None:
        """A tensor came from another task."""
        exchange = self._open.get(step)
        if exchange is not None:
            exchange.send(key, value)
        elif step in self._tombs:
            self._dropped += 1
        else:
            self._park(step, key, value, None, int(getattr(value, "nbytes", 0)))

    def announced(self, step: int, key: str, offer: Offered) -> None:
        """A large tensor is to be had from another task."""
        exchange = self._open.get(step)
        if exchange is not None:
            exchange.announced(key, offer)
        elif step in self._tombs:
            self._dropped += 1
            offer.refuse("the step is over", True)
        else:
            self._park(step, key, None, offer, 0)

    def _park(self, step: int, key: str, value: Any, offer: Offered | None, nbytes: int) -> None:
        parked = self._parked.get(step)
        if parked is None:
            parked = self._parked[step] = _Parked(self._loop.now())
            self._tick()
        parked.items.append((key, value, offer))
        nbytes += _PARKED_BYTES + len(key)
        parked.nbytes += nbytes
        self._parked_bytes += nbytes
        while self._parked_bytes > self._settings.park_bytes and self._parked:
            self._evict(next(iter(self._parked)), "there was no room for what came before it")

    def _evict(self, step: int, why: str) -> None:
        self._evicted += 1
        self._unpark(step)
        self._bury(
            step,
            errors.AbortedError(
                None, None, f"Step {step} cannot run here: tensors for it came early and were given up, since {why}."
            ),
        )

    def _unpark(self, step: int) -> None:
        parked = self._parked.pop(step, None)
        if parked is not None:
            self._parked_bytes -= parked.nbytes
            for _, _, offer in parked.items:
                if offer is not None:
                    offer.refuse("the step is over", True)

    # -- time ---------------------------------------------------------------------------------------------------------

    def _bury(self, step: int, reason: errors.OpError | None) -> None:
        self._tombs[step] = (self._loop.now(), reason)
        self._tick()

    def _tick(self) -> None:
        if self._timer is None:
            pause = min(self._settings.park_age, self._settings.tombstone_age) / 4
            self._timer = self._loop.call_later(pause, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now, beginning = self._loop.now(), self.beginning()
        for step, parked in list(self._parked.items()):
            if now - parked.since < self._settings.park_age:
                break
            if step not in beginning:
                self._evict(step, "the step did not begin in time")
        expired = []
        for step, (when, _) in self._tombs.items():
            if now - when < self._settings.tombstone_age:
                break
            if step not in beginning:
                expired.append(step)
        for step in expired:
            del self._tombs[step]
        if self._parked or self._tombs:
            self._tick()

    def steps(self) -> Iterator[int]:
        """Open steps."""
        return iter(list(self._open))

    def statistics(self) -> RendezvousStatistics:
        """A snapshot."""
        counts = [exchange.counts() for exchange in self._open.values()]
        return RendezvousStatistics(
            steps=len(self._open),
            values=sum(c[0] for c in counts),
            waiting=sum(c[1] for c in counts),
            coming=sum(c[2] for c in counts),
            parked=sum(len(p.items) for p in self._parked.values()),
            parked_bytes=self._parked_bytes,
            evicted=self._evicted,
            dropped=self._dropped,
            tombstones=len(self._tombs),
        )


def _over(step: int) -> errors.OpError:
    return errors.AbortedError(None, None, f"Step {step} is over on this task.")


# Of steps that ended like most: who asks later gets it, and no one waited.
_OVER = errors.AbortedError(None, None, "The step is over on this task.")


def _source_task(key: str) -> str:
    return names.task_of(key.partition(";")[0])
