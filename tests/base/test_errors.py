"""Errors keep class, code and origin across a process border."""

from __future__ import annotations

import pickle

import pytest

from dtfzmq.base import errors

CODES = range(1, 17)


@pytest.mark.parametrize("code", CODES)
def test_an_error_comes_back_as_it_went(code: int) -> None:
    error = errors.make(code, "no", node="a/b", origin="/job:ps/replica:0/task:0", derived=True)
    back = errors.from_wire(errors.to_wire(error))
    assert type(back) is type(error) is errors.error_class(code)
    assert (back.message, back.node, back.origin, back.derived) == (error.message, "a/b", error.origin, True)
    assert back.error_code == code


@pytest.mark.parametrize("data", [{}, {"code": "x", "text": 3}, {"code": 99, "node": None}])
def test_a_malformed_error_is_still_an_error(data: dict[str, object]) -> None:
    assert isinstance(errors.from_wire(data), errors.UnknownError)


def test_the_node_is_tagged_once() -> None:
    error = errors.with_node(errors.with_node(errors.InternalError(None, None, "x"), "inner"), "outer")
    assert error.message == "x\n\t [[{{node inner}}]]" == str(error)


def test_python_errors_get_the_class_that_their_kind_suggests() -> None:
    assert isinstance(errors.wrap(ValueError("v")), errors.InvalidArgumentError)
    assert isinstance(errors.wrap(MemoryError()), errors.ResourceExhaustedError)
    assert isinstance(errors.wrap(KeyboardInterrupt()), errors.CancelledError)
    unknown = errors.wrap(RuntimeError("r"), "op x")
    assert isinstance(unknown, errors.UnknownError)
    assert unknown.message == "op x: RuntimeError: r"
    assert "RuntimeError" in unknown.remote_traceback


def test_errors_can_be_copied_between_python_processes() -> None:
    error = pickle.loads(pickle.dumps(errors.make(errors.ABORTED, "t", origin="o")))
    assert isinstance(error, errors.AbortedError) and error.origin == "o"


def test_a_text_that_is_too_long_to_travel_is_cut_in_the_middle() -> None:
    error = errors.UnknownError(None, None, "begin" + "x" * 30_000_000 + "end")
    back = errors.from_wire(errors.to_wire(error))
    assert back.message.startswith("begin") and back.message.endswith("end")
    assert len(back.message) < 70_000 and "29934472 characters" in back.message
    placed = errors.make(errors.UNKNOWN, "t", origin="o" * 30_000_000)
    placed.node = "n" * 30_000_000
    back = errors.from_wire(errors.to_wire(placed))
    assert len(back.node) < 70_000 and len(back.origin) < 70_000
    short = errors.UnknownError(None, None, "y" * 65_536)
    assert errors.from_wire(errors.to_wire(short)).message == short.message
