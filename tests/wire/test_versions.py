"""Two that speak different protocols say which package each has."""

from __future__ import annotations

import dtfzmq as tf
from dtfzmq.base import errors
from dtfzmq.wire import hello


def test_a_hello_of_another_protocol_names_both_versions() -> None:
    me = hello.Who("/job:ps/replica:0/task:0", 1)
    them = hello.who_from_wire({**hello.who_to_wire(hello.Who("", 2)), "version": "9.9"})
    said = hello.Hello(
        protocol=hello.PROTOCOL + 1, me=hello.who_to_wire(them), lane=0, stream=0, wanted="", wanted_incarnation=0,
        generation=1, your_generation=0, received=0, cluster={},
    )  # fmt: skip
    error = hello.judge(said, them, me, {})
    assert isinstance(error, errors.FailedPreconditionError)
    assert f"(dtfzmq {tf.__version__})" in error.message and "(dtfzmq 9.9)" in error.message
