"""One contract, checked on every implementation: what `wire.transport` promises of lanes and listeners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from dtfzmq.base import errors
from dtfzmq.wire.dial import REFUSED
from dtfzmq.wire.transport import BULK, CONTROL, Lane, Transport


class Bench(Protocol):
    """What a transport's test brings: two ends, a way to run, an address to bind."""

    here: Transport
    there: Transport
    address: str

    def step(self, fn: Callable[[], Any]) -> Any:
        """Run `fn` on the baton."""

    def until(self, condition: Callable[[], bool]) -> bool:
        """Run until `condition()` holds; false if it does not within a few seconds."""


@dataclass
class Recorder:
    """Lane events, in order."""

    opened: int = 0
    frames: list[list[bytes]] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    chunks: list[tuple[bytes, int]] = field(default_factory=list)
    place: bytearray | None = None
    lane: Any = None

    def on_open(self) -> None:
        """Count."""
        self.opened += 1

    def on_frames(self, frames: Sequence[Any]) -> None:
        """Keep."""
        self.frames.append([bytes(f) for f in frames])

    def sink(self, header: bytes) -> memoryview | None:
        """The place, if there is one."""
        return None if self.place is None else memoryview(self.place)

    def on_chunk(self, header: bytes, nbytes: int) -> None:
        """Keep."""
        self.chunks.append((bytes(header), nbytes))

    def on_end(self, reason: str) -> None:
        """Keep."""
        self.ends.append(reason)


class Pair:
    """A lane between two recorders."""

    def __init__(self, bench: Bench, kind: int = CONTROL) -> None:
        self.bench = bench
        self.near = Recorder()
        self.far = Recorder()
        self.accepted = 0
        self.listener = bench.step(lambda: bench.there.listen(bench.address, self._accept))
        self.near.lane = bench.step(lambda: bench.here.connect(self.listener.address, kind, self.near))
        assert self.near.opened == 0
        assert bench.until(lambda: self.near.opened == 1), self.near
        bench.step(lambda: self.near.lane.send([b"hello"]))
        assert bench.until(lambda: len(self.far.frames) == 1)

    def _accept(self, lane: Lane) -> Recorder:
        self.accepted += 1
        self.far.lane = lane
        return self.far

    def close(self) -> None:
        """End everything."""
        self.bench.step(self.near.lane.close)
        self.bench.step(self.listener.close)


def _in_order(bench: Bench) -> None:
    pair = Pair(bench)
    sent = [[b"single%d" % i] if i % 3 else [b"head%d" % i, b"x" * (i * 7)] for i in range(300)]

    def both() -> None:
        for frames in sent:
            pair.near.lane.send(frames)
            pair.far.lane.send(frames)

    bench.step(both)
    assert bench.until(lambda: len(pair.far.frames) == 301 and len(pair.near.frames) == 300)
    assert pair.far.frames[1:] == sent
    assert pair.near.frames == sent
    assert (pair.accepted, pair.near.opened, pair.far.opened) == (1, 1, 0)
    pair.close()


def _nobody_there(bench: Bench) -> None:
    listener = bench.step(lambda: bench.there.listen(bench.address, lambda lane: Recorder()))
    bench.step(listener.close)
    seen = Recorder()
    bench.step(lambda: bench.here.connect(listener.address, CONTROL, seen))
    assert seen.ends == []
    assert bench.until(lambda: bool(seen.ends))
    assert (seen.ends, seen.opened) == ([REFUSED], 0)


def _malformed_address(bench: Bench) -> None:
    seen = Recorder()
    bench.step(lambda: bench.here.connect("no address", CONTROL, seen))
    assert bench.until(lambda: bool(seen.ends))
    assert "'no address'" in seen.ends[0]


def _near_end_closes(bench: Bench) -> None:
    pair = Pair(bench)

    def last_words() -> None:
        pair.near.lane.send([b"bye"])
        pair.near.lane.close()
        pair.near.lane.close()
        pair.near.lane.send([b"nothing"])

    bench.step(last_words)
    assert bench.until(lambda: len(pair.far.ends) == 1)
    assert pair.far.frames[1:] == [[b"bye"]]
    assert pair.near.ends == []
    bench.step(lambda: pair.far.lane.send([b"nothing"]))
    bench.step(pair.listener.close)
    assert len(pair.far.ends) == 1


def _far_end_closes(bench: Bench) -> None:
    pair = Pair(bench)

    def last_words() -> None:
        pair.far.lane.send([b"bye"])
        pair.far.lane.close()

    bench.step(last_words)
    assert bench.until(lambda: len(pair.near.ends) == 1)
    assert pair.near.frames == [[b"bye"]]
    assert pair.far.ends == []
    pair.close()


def _chunk_lands_in_place(bench: Bench) -> None:
    pair = Pair(bench, BULK)
    pair.far.place = bytearray(100_000)
    data = bytes(range(250)) * 400
    bench.step(lambda: pair.near.lane.send([b"a chunk", memoryview(data)], True))
    assert bench.until(lambda: bool(pair.far.chunks))
    assert pair.far.chunks == [(b"a chunk", 100_000)]
    assert bytes(pair.far.place) == data
    assert len(pair.far.frames) == 1
    pair.close()


def _chunk_beyond_its_place_is_cut(bench: Bench) -> None:
    pair = Pair(bench, BULK)
    pair.far.place = bytearray(10)
    bench.step(lambda: pair.near.lane.send([b"a chunk", memoryview(b"0123456789abc")]))
    bench.step(lambda: pair.near.lane.send([b"next"]))
    assert bench.until(lambda: len(pair.far.frames) == 2)
    assert pair.far.chunks == [(b"a chunk", 13)]
    assert bytes(pair.far.place) == b"0123456789"
    assert pair.far.frames[1] == [b"next"]
    pair.close()


def _chunk_without_place(bench: Bench) -> None:
    pair = Pair(bench, BULK)
    bench.step(lambda: pair.near.lane.send([b"a chunk", memoryview(b"unwanted")]))
    assert bench.until(lambda: len(pair.far.frames) == 2)
    assert pair.far.frames[1] == [b"a chunk", b"unwanted"]
    pair.close()


def _unfrozen_bytes_are_copied(bench: Bench) -> None:
    pair = Pair(bench, BULK)
    data = bytearray(b"a" * 300_000)

    def send() -> None:
        for _ in range(4):
            pair.near.lane.send([b"a chunk", memoryview(data)])
        data[:] = b"b" * len(data)

    bench.step(send)
    assert bench.until(lambda: len(pair.far.frames) == 5)
    assert all(frames[1] == b"a" * 300_000 for frames in pair.far.frames[1:])
    pair.close()


def _listener_closes(bench: Bench) -> None:
    pair = Pair(bench)
    address = pair.listener.address
    bench.step(pair.listener.close)
    assert bench.until(lambda: len(pair.near.ends) == 1)
    again = bench.step(lambda: bench.there.listen(address, lambda lane: Recorder()))
    assert again.address == address
    bench.step(again.close)


def _address_is_taken(bench: Bench) -> None:
    first = bench.step(lambda: bench.there.listen(bench.address, lambda lane: Recorder()))
    with pytest.raises(errors.AlreadyExistsError, match="Address already in use"):
        bench.step(lambda: bench.there.listen(first.address, lambda lane: Recorder()))
    bench.step(first.close)


TRANSPORT_CHECKS: dict[str, Callable[[Bench], None]] = {
    check.__name__[1:]: check
    for check in (
        _in_order,
        _nobody_there,
        _malformed_address,
        _near_end_closes,
        _far_end_closes,
        _chunk_lands_in_place,
        _chunk_beyond_its_place_is_cut,
        _chunk_without_place,
        _unfrozen_bytes_are_copied,
        _listener_closes,
        _address_is_taken,
    )
}
