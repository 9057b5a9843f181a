"""Where tensors of a step meet: order, once-only delivery, early, late, over."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dtfzmq.base import errors
from dtfzmq.runtime.rendezvous import Rendezvous, RendezvousKey, prefix
from dtfzmq.wire.settings import LinkSettings
from tests.kit.simloop import SimLoop

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"
KEY = prefix(f"{PS}/device:CPU:0", 0xC608DC26B45AE46E, f"{WORKER}/device:CPU:0", "edge_5_v/read") + "0:0"
OTHER = prefix(f"{WORKER}/device:CPU:0", 1, f"{PS}/device:CPU:0", "edge_6_w") + "0:0"


class Taker:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.errors: list[errors.OpError] = []

    def __call__(self, value: Any, error: errors.OpError | None) -> None:
        if error is None:
            self.values.append(value)
        else:
            self.errors.append(error)


class FakeOffer:
    """An announced tensor."""

    def __init__(self, nbytes: int = 1000) -> None:
        self.nbytes = nbytes
        self.granted: tuple[Any, Any] | None = None
        self.refused: tuple[str, bool] | None = None

    def grant(self, deliver: Any, failed: Any = None) -> None:
        self.granted = (deliver, failed)

    def refuse(self, reason: str, over: bool = False) -> None:
        self.refused = (reason, over)


@pytest.fixture
def loop() -> SimLoop:
    return SimLoop()


@pytest.fixture
def meet(loop: SimLoop) -> Rendezvous:
    return Rendezvous(loop, LinkSettings(park_age=10.0, park_bytes=10_000, tombstone_age=30.0))


def test_key_has_tensorflows_text() -> None:
    parsed = RendezvousKey.parse(KEY)
    assert parsed == (
        f"{PS}/device:CPU:0",
        0xC608DC26B45AE46E,
        f"{WORKER}/device:CPU:0",
        "edge_5_v/read",
        "0:0",
    )
    assert parsed.text() == KEY
    assert KEY.split(";")[1] == "c608dc26b45ae46e"
    assert RendezvousKey.parse("/CPU:0;1;/CPU:0;e;0:0").source == "/CPU:0"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a;b",
        f"{KEY};x",
        KEY.replace("c608", "xyz8"),
        KEY.replace("edge_5_v/read", ""),
        KEY.replace("0:0", "", 1) + ";",
        KEY[:-3],
        f"/job:;1;{WORKER};e;0:0",
        f";1;{WORKER};e;0:0",
    ],
)
def test_what_is_no_key_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        RendezvousKey.parse(text)
    assert str(caught.value) == f"Invalid  rendezvous key: {text}"


def test_consumer_may_come_last_or_first(meet: Rendezvous) -> None:
    step = meet.open(1)
    first, second = Taker(), Taker()
    step.send(KEY, "early")
    step.recv(KEY, first)
    step.recv(KEY, second)
    step.send(KEY, "late")
    assert (first.values, second.values) == (["early"], ["late"])
    assert step.counts() == (0, 0, 0)


def test_values_of_one_key_queue_up_and_each_is_delivered_once(meet: Rendezvous) -> None:
    step = meet.open(1)
    for value in range(3):
        step.send(KEY, value)
    taker = Taker()
    for _ in range(4):
        step.recv(KEY, taker)
    assert taker.values == [0, 1, 2]
    step.send(KEY, 3)
    assert taker.values == [0, 1, 2, 3]


def test_keys_and_steps_do_not_mix(meet: Rendezvous) -> None:
    taker = Taker()
    meet.open(1).recv(KEY, taker)
    meet.open(1).send(OTHER, "x")
    meet.open(2).send(KEY, "y")
    assert taker.values == []


def test_the_first_abort_stays_and_reaches_all(meet: Rendezvous) -> None:
    told = Taker()
    step = meet.open(1, lambda error: told(None, error))
    waiting, late = Taker(), Taker()
    step.recv(KEY, waiting)
    step.send(OTHER, "dropped")
    cause = errors.UnavailableError(None, None, "the root")
    step.abort(cause)
    step.abort(errors.CancelledError(None, None, "an echo"))
    step.send(KEY, "dropped too")
    step.recv(OTHER, late)
    assert waiting.errors == late.errors == told.errors == [cause]
    assert step.counts() == (0, 0, 0)


def test_what_comes_before_its_step_is_parked(meet: Rendezvous) -> None:
    offer, taker = FakeOffer(), Taker()
    meet.arrived(7, KEY, "small")
    meet.announced(7, OTHER, offer)
    assert offer.granted is None
    assert meet.statistics().parked == 2
    step = meet.open(7)
    assert offer.granted is not None
    step.recv(KEY, taker)
    step.recv(OTHER, taker)
    offer.granted[0]("large")
    assert taker.values == ["small", "large"]
    assert meet.statistics().parked_bytes == 0


def test_an_announced_tensor_that_fails_fails_the_step(meet: Rendezvous) -> None:
    offer, taker = FakeOffer(), Taker()
    step = meet.open(7)
    meet.announced(7, KEY, offer)
    step.recv(KEY, taker)
    assert offer.granted is not None
    cause = errors.UnavailableError(None, None, "Link from a to b was lost: x")
    offer.granted[1](cause)
    assert taker.errors == [cause]


def test_a_finished_step_leaves_a_tombstone(meet: Rendezvous) -> None:
    offer, late = FakeOffer(), FakeOffer()
    meet.open(7)
    meet.announced(7, KEY, offer)
    meet.close(7)
    meet.arrived(7, KEY, "late")
    meet.announced(7, KEY, late)
    assert offer.refused == ("the step failed", True)
    assert late.refused == ("the step is over", True)
    with pytest.raises(errors.AbortedError, match="Step 7 is over"):
        meet.open(7)
    assert meet.statistics() == dataclasses.replace(meet.statistics(), steps=0, parked=0, dropped=2, tombstones=1)


def test_a_step_that_is_cancelled_before_it_comes_is_refused_with_the_reason(meet: Rendezvous) -> None:
    offer = FakeOffer()
    meet.announced(7, KEY, offer)
    reason = errors.CancelledError(None, None, "the user cancelled it")
    meet.close(7, reason)
    assert offer.refused == ("the step is over", True)
    with pytest.raises(errors.CancelledError, match="the user cancelled it"):
        meet.open(7)


def test_who_waits_when_a_step_is_closed_is_told(meet: Rendezvous) -> None:
    taker, told = Taker(), Taker()
    meet.open(7, lambda error: told(None, error)).recv(KEY, taker)
    meet.close(7)
    assert [type(e) for e in taker.errors] == [errors.AbortedError]
    assert told.errors == []


def test_parking_is_bounded_in_age(meet: Rendezvous, loop: SimLoop) -> None:
    meet.arrived(7, KEY, "x")
    loop.run(9.0)
    assert meet.statistics().parked == 1
    loop.run(5.0)
    assert (meet.statistics().parked, meet.statistics().evicted) == (0, 1)
    with pytest.raises(errors.AbortedError, match="tensors for it came early and were given up"):
        meet.open(7)


def test_a_step_that_is_about_to_begin_keeps_what_came_early(meet: Rendezvous, loop: SimLoop) -> None:
    feeds_come = {7}
    meet.beginning = lambda: feeds_come
    for step in (6, 7, 8):
        meet.arrived(step, KEY, "x")
    loop.run(100.0)
    assert (meet.statistics().parked, meet.statistics().evicted) == (1, 2)
    feeds_come.clear()
    loop.run(5.0)
    assert (meet.statistics().parked, meet.statistics().evicted) == (0, 3)


def test_a_step_that_was_cancelled_and_is_about_to_begin_is_refused_however_late(
    meet: Rendezvous, loop: SimLoop
) -> None:
    feeds_come = {7}
    meet.beginning = lambda: feeds_come
    for step in (6, 7, 8):
        meet.close(step)
    loop.run(100.0)
    assert meet.statistics().tombstones == 1
    with pytest.raises(errors.AbortedError, match="Step 7 is over"):
        meet.refuse(7)
    feeds_come.clear()
    loop.run(10.0)
    assert meet.statistics().tombstones == 0


def test_parking_is_bounded_in_bytes_and_the_oldest_go_first(meet: Rendezvous) -> None:
    for step in range(1, 6):
        meet.arrived(step, KEY, np.zeros(3000, np.uint8))
    assert meet.statistics().parked_bytes <= 10_000
    for step in (1, 2):
        with pytest.raises(errors.AbortedError, match="no room"):
            meet.open(step)
    assert meet.open(5).counts() == (1, 0, 0)


def test_what_has_no_bytes_takes_room_too(meet: Rendezvous) -> None:
    for step in range(1, 100):
        meet.arrived(step, KEY, np.zeros(0, np.uint8))
    assert meet.statistics().parked < 20
    meet.arrived(200, f"{KEY}{'x' * 20_000}", np.zeros(0, np.uint8))
    assert meet.statistics().parked == 0, "a key has bytes"


def test_tombstones_are_bounded_in_age(meet: Rendezvous, loop: SimLoop) -> None:
    for step in range(100):
        meet.open(step)
        meet.close(step)
    assert meet.statistics().tombstones == 100
    loop.run(60.0)
    assert meet.statistics().tombstones == 0
    assert loop.run(1000.0, lambda: False) is False
    assert meet.open(1).counts() == (0, 0, 0)


def test_the_loss_of_a_task_fails_the_steps_that_wait_for_it(meet: Rendezvous) -> None:
    waits, served, later = Taker(), Taker(), Taker()
    meet.open(1).recv(KEY, waits)
    meet.open(2).recv(OTHER, served)
    lost = errors.UnavailableError(None, None, f"Link from {WORKER} to {PS} was lost: no heartbeat")
    meet.peer_lost(PS, lost)
    assert (waits.errors, served.errors) == ([lost], [])
    meet.open(2).recv(KEY, later)
    assert later.errors == [lost]
