"""The invariants have teeth: for each, a bug that breaks it is planted, and the seeds must find it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from dtfzmq.base import errors
from dtfzmq.runtime.rendezvous import Exchange, Rendezvous
from dtfzmq.wire.endpoint import Endpoint
from dtfzmq.wire.link import Link
from dtfzmq.wire.numbers import Inbox
from dtfzmq.wire.transfer import Incoming, Sending
from tests.kit.simworld import SimTask
from tests.sim.test_links_fuzz import scenario

Plant = Callable[[pytest.MonkeyPatch], None]
SEEDS = 160


def _nothing(*args: Any, **kwargs: Any) -> None:
    pass


def repeats_are_not_dropped(patch: pytest.MonkeyPatch) -> None:
    def accept(self: Inbox, number: int, nbytes: int) -> bool:
        self.owed = True
        self.received = max(self.received, number)
        return True

    patch.setattr(Inbox, "accept", accept)


def nothing_is_repeated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Link, "_repeat", _nothing)


def lost_pushes_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Endpoint, "push_lost", _nothing)


def lost_links_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimTask, "on_link_lost", _nothing)


def a_repeated_chunk_is_written_after_the_last(patch: pytest.MonkeyPatch) -> None:
    def place(self: Incoming, offset: int, nbytes: int) -> memoryview | None:
        assert self.view is not None
        return self.view[self.taken : self.taken + nbytes]

    patch.setattr(Incoming, "place", place)


def credit_of_an_ended_lane_stays_used(patch: pytest.MonkeyPatch) -> None:
    whole = Sending.lane_ended

    def lane_ended(self: Sending) -> None:
        used = self._lane_sent
        whole(self)
        self._lane_sent = used

    patch.setattr(Sending, "lane_ended", lane_ended)


def chunks_in_flight_are_not_sent_again(patch: pytest.MonkeyPatch) -> None:
    def lane_ended(self: Sending) -> None:
        self._flying.clear()
        self._lane_sent = self._lane_credited = 0

    patch.setattr(Sending, "lane_ended", lane_ended)


def steps_that_pushed_are_not_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Endpoint, "forget", _nothing)


def a_closed_step_keeps_its_values(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rendezvous, "close", _nothing)


def there_are_no_tombstones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rendezvous, "_bury", _nothing)


def a_value_is_delivered_twice(patch: pytest.MonkeyPatch) -> None:
    whole = Exchange.recv

    def recv(self: Exchange, key: str, deliver: Any) -> None:
        queue = self._values.get(key)
        if queue is not None:
            deliver(queue[0], None)
        whole(self, key, deliver)

    patch.setattr(Exchange, "recv", recv)


def a_lost_link_does_not_say_between_whom(patch: pytest.MonkeyPatch) -> None:
    whole = Link.lose

    def lose(self: Link, error: errors.OpError, *why: str, **more: Any) -> None:
        whole(self, errors.UnavailableError(None, None, "a link was lost"), *why, **more)

    patch.setattr(Link, "lose", lose)


def a_service_waits(patch: pytest.MonkeyPatch) -> None:
    whole = SimTask.handle

    def handle(self: SimTask, link: Any, msg: Any, reply: Any) -> None:
        threading.Event().wait(0.0)
        whole(self, link, msg, reply)

    patch.setattr(SimTask, "handle", handle)


PLANTS: list[tuple[Plant, str]] = [
    (repeats_are_not_dropped, "handled .* times|was given|was taken back"),
    (nothing_is_repeated, "never ended|has .* unack|after|names"),
    (lost_pushes_are_not_reported, "never ended"),
    (lost_links_are_not_reported, "never ended|has"),
    (a_repeated_chunk_is_written_after_the_last, "wrong bytes|buffer|broadcast|assignment"),
    (credit_of_an_ended_lane_stays_used, "never ended|has"),
    (chunks_in_flight_are_not_sent_again, "never ended|has|not the protocol"),
    (steps_that_pushed_are_not_forgotten, "steps that pushed"),
    (a_closed_step_keeps_its_values, "which is over|steps"),
    (there_are_no_tombstones, "which is over"),
    (a_value_is_delivered_twice, "was given .* 2 times"),
    (a_lost_link_does_not_say_between_whom, "a link was lost"),
    (a_service_waits, "was called on the I/O thread"),
]


@pytest.mark.parametrize(("plant", "found"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, found: str) -> None:
    plant(monkeypatch)
    monkeypatch.setattr("dtfzmq.wire.sender._log.exception", _raise_what_is_handled)
    with pytest.raises(Exception, match=found):
        for seed in range(SEEDS):
            scenario(seed)


def _raise_what_is_handled(*args: Any) -> None:
    raise
