"""What is remembered of links that are no more, and told to those who still believe in them."""

from __future__ import annotations

import types
from typing import Any

import pytest

from dtfzmq.wire.lost import Lost

ME = "/job:ps/replica:0/task:0"


def given_up(why: str, generation: int = 7) -> Any:
    return types.SimpleNamespace(
        name="/job:worker/replica:0/task:0",
        addresses=(),
        generation=generation,
        their_generation=1,
        inbox=types.SimpleNamespace(received=5),
        why_lost=why,
    )


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("it ended (the other end closed it) and nobody listens there now", None),
        ("Check your worker job.", "Check your worker job"),
        ("two\nlines \x1b[31m", "two lines  [31m"),
        ("long " * 1000, "long " * 60),
    ],
)
def test_why_a_link_was_given_up_is_told_in_one_line(why: str, told: str | None) -> None:
    lost = Lost()
    lost.add(given_up(why), [])
    error, received = lost.refusal(ME, 7)
    assert received == 5
    because = (told or why).rstrip()
    assert error.message == f"{ME} had given the link up: {because}. Run again what it was used for."


def test_what_is_not_known_any_more_is_not_told() -> None:
    lost = Lost()
    for generation in range(1, 3000):
        lost.add(given_up("it left", generation), [])
    assert len(lost) <= 1024
    error, received = lost.refusal(ME, 1)
    assert received < 0
    assert error.message == f"{ME} had given the link up. Run again what it was used for."
