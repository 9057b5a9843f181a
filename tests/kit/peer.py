"""A process with an endpoint over ZeroMQ that answers: run as ``python -m tests.kit.peer NAME ADDRESS LIMIT``."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

import numpy as np

from dtfzmq.wire import net
from dtfzmq.wire.endpoint import Endpoint, Quiet
from dtfzmq.wire.hello import Who
from dtfzmq.wire.message import Tensors, message
from dtfzmq.wire.settings import LinkSettings


@message
class Echo:
    """Answered by the same."""

    number: int
    tensors: Tensors


@message
class PushMe:
    """Push a tensor of so many bytes for a step. Answered by Count."""

    step: int
    nbytes: int


@message
class Forget:
    """The step is over; one-way."""

    step: int


@message
class HoldInterpreter:
    """Keep the interpreter busy, without letting any other Python run, until a sum is done. Answered by Count."""

    rounds: int


@message
class CountMe:
    """Answered by Count: how many there were so far."""


@message
class Count:
    """A number."""

    count: int


class Answering(Quiet):
    """Answers the messages above."""

    def __init__(self) -> None:
        self.endpoint: Endpoint | None = None
        self.count = 0

    def handle(self, link: Any, message: Any, reply: Any) -> None:
        """See Service."""
        if isinstance(message, Echo):
            reply(message)
        elif isinstance(message, PushMe):
            link.push(message.step, [("key", np.full(message.nbytes, message.step % 251, np.uint8))])
            reply(Count(0))
        elif isinstance(message, Forget):
            assert self.endpoint is not None
            self.endpoint.forget(message.step)
        elif isinstance(message, HoldInterpreter):
            big = (1 << (1 << 22)) - 1
            for _ in range(message.rounds):
                big * big  # one step of the interpreter that takes long
            reply(Count(message.rounds))
        else:
            self.count += 1
            reply(Count(self.count))


def me(name: str) -> Who:
    """This process."""
    return Who(name, random.getrandbits(60) + 1, os.getpid(), "localhost")


def main() -> None:
    """Serve until the parent closes our standard input."""
    name, address, limit = sys.argv[1:4]
    settings = LinkSettings(limit=float(limit), shared_memory=len(sys.argv) > 4)
    loop = net.process_loop()
    loop.grace = 0
    loop.add_ref()
    service = Answering()
    with loop.held():
        service.endpoint = Endpoint(loop, net.Network(loop, settings), me(name), service, settings)
        bound = service.endpoint.bind(address)
    print(bound, flush=True)
    sys.stdin.read()
    with loop.held():
        service.endpoint.close()
    loop.release()


if __name__ == "__main__":
    main()
