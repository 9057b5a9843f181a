"""One question to a server, without a session."""

from __future__ import annotations

import argparse
import math
from typing import Any

from dtfzmq.base import clock, errors
from dtfzmq.cli.clusters import check_port
from dtfzmq.client.config import ConfigProto
from dtfzmq.client.connect import connect
from dtfzmq.client.connection import Answer

_LONGEST_S = 86400.0


def seconds(text: str) -> float:
    """An option that is a time to wait; for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _LONGEST_S:  # false for what is no number
        raise argparse.ArgumentTypeError(f"'{text}' is not a time to wait; give seconds, up to {_LONGEST_S:g}")
    return value


def as_target(text: str) -> str:
    """A target from what people type: host:port is enough. ValueError if the port is none."""
    check_port(text)
    return text if "://" in text else f"zmq://{text}"


def ask(targets: list[str], message: Any, timeout: float) -> list[Any]:
    """Send `message` to all `targets` at once; for each the reply, or the OpError that took its place.

    Returns after `timeout` seconds at most; one that has not answered by then has a DeadlineExceededError.
    """
    connections, answers = [], []
    found: list[Any] = []
    deadline = clock.now() + timeout
    try:
        for target in targets:
            connection, answer = connect(target, ConfigProto()), Answer()
            connections.append(connection)
            answers.append(answer)
            with connection.loop.held():
                connection.ask(message, answer)
        for connection, answer in zip(connections, answers):
            try:
                found.append(connection.loop.wait(answer, max(0.0, deadline - clock.now())))
            except errors.OpError as error:
                found.append(error)
                if not answer.done:
                    with connection.loop.held():
                        trouble = connection.trouble()
                    text = f"No answer within {round(timeout, 1) or timeout:g} s{f' ({trouble})' if trouble else ''}."
                    found[-1] = errors.DeadlineExceededError(None, None, text)
    finally:
        for connection in connections:
            connection.close()
    return found
