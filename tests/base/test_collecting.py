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


def test_what_is_made_in_a_pause_is_old_after_it() -> None:
    with collecting.paused(10**6):
        made = [[k] for k in range(10_000)]
    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert not any(id(each) in young for each in made)


def test_frozen_objects_of_the_program_stay_frozen() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with collecting.paused(10**6):
            pass
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()


def test_an_exception_ends_a_pause() -> None:
    try:
        with collecting.paused(10**6):
            raise ValueError
    except ValueError:
        pass
    assert gc.isenabled()
