"""The cycle collector's pauses."""

from __future__ import annotations

import gc

from dtfzmq.base import collecting


def test_pauses_nest_and_leave_the_collector_as_it_was() -> None:
    assert gc.isenabled()
    with collecting.paused(collecting.LARGE):
        assert gc.isenabled()
    with collecting.paused(10**6):
        assert not gc.isenabled()
        with collecting.paused(10**6):
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collecting.paused(10**6):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_exception_ends_a_pause() -> None:
    try:
        with collecting.paused(10**6):
            raise ValueError
    except ValueError:
        pass
    assert gc.isenabled()
