"""What a master asks of every task at once: to clear containers, and which devices they have."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from dtfzmq.base import errors
from dtfzmq.base.loop import Loop
from dtfzmq.cluster.peers import Peers
from dtfzmq.wire import messages as m

_log = logging.getLogger("dtfzmq")

# Reset waits this long for tasks that do not answer, unless told otherwise.
ASK_S = 10.0


def checked_limit(seconds: float) -> float:
    """A time limit that came over the wire. InvalidArgumentError for none that a step can have."""
    if seconds >= 0:
        return seconds
    raise errors.InvalidArgumentError(None, None, f"A time limit of {seconds} s makes no sense; 0 is none.")


def clear(loop: Loop, peers: Peers, containers: tuple[str, ...], limit: float, reply: Any) -> None:
    """Clear containers everywhere; tasks that do not answer within `limit` are logged.

    One that was asked and is only slow to hear of it clears them then.
    """
    waiting = set(peers.tasks())
    command = m.CleanupAll(containers)

    def answered(task: str, error: BaseException | None) -> None:
        if task not in waiting:
            return
        waiting.discard(task)
        if error is not None:
            _log.warning("reset: %s may not have been cleared: %s", peers.where(task), error)
        if not waiting:
            timer.cancel()
            reply(m.Done())

    def give_up() -> None:
        for task in list(waiting):
            call = calls.get(task)
            if call is not None:
                call.cancel()  # what has not gone out must not come when there may be what others have made since
            answered(task, errors.DeadlineExceededError(None, None, "no answer"))

    timer = loop.call_later(limit or ASK_S, give_up)
    calls: dict[str, Any] = {}
    for task in peers.tasks():
        calls[task] = peers.peer(task).call(command, lambda done, error, task=task: answered(task, error))


def list_devices(loop: Loop, peers: Peers, tasks: Sequence[str], limit: float, reply: Any) -> None:
    """Answer with the devices of `tasks`, or with an error that names those that have not answered within `limit`."""
    over: list[bool] = []

    def late() -> None:
        silent = ", ".join(peers.missing(task) for task in tasks if task in waiting)
        met(errors.DeadlineExceededError(None, None, f"No answer after {limit:.3g} s from {silent}."))

    def met(error: BaseException | None) -> None:
        if over:
            return
        over.append(True)
        if timer is not None:
            timer.cancel()
        if error is not None:
            reply.fail(error)
            return
        reply(m.Devices([d for task in tasks for d in (peers.met(task) or (0, []))[1]]))

    timer = loop.call_later(limit, late) if limit else None
    waiting = peers.contact(list(tasks), met, afresh=True)
