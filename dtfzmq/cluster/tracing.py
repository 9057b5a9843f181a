"""The account of a traced step: when each op ran, what each transfer carried, and the graph that ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import clock, names
from dtfzmq.graph.node import Node
from dtfzmq.runtime.rendezvous import Exchange, RendezvousKey


class TracedExchange:
    """An exchange that writes down what comes from other tasks: (key, wall-clock start, seconds, bytes)."""

    def __init__(self, exchange: Exchange, task: str) -> None:
        self._exchange = exchange
        self._task = task
        self.received: list[tuple[str, float, float, int]] = []
        self.send = exchange.send
        self.abort = exchange.abort

    def recv(self, key: str, deliver: Callable[[Any, Any], None]) -> None:
        """See Exchange."""
        began, asked = clock.wall(), clock.perf()

        def note(value: Any, error: Any) -> None:
            if error is None and not key.startswith(self._task + "/"):
                self.received.append((key, began, clock.perf() - asked, nbytes(value)))
            deliver(value, error)

        self._exchange.recv(key, note)


def nbytes(value: Any) -> int:
    """Bytes of a value as it travels: of a string tensor, its text."""
    array = np.asarray(value)
    if array.dtype == object:
        return sum(len(item) for item in array.ravel() if isinstance(item, (bytes, str)))
    return int(array.nbytes)


def account(
    ops: list[tuple[str, str, float, float]] | None, exchange: TracedExchange | None, nodes: list[Node], trace: int
) -> dict[str, Any]:
    """Plain data of one part: "ops" as (device, node, label, start, end, thread), "bytes" received by task, "graphs".

    Times are seconds since the epoch.
    """
    rows: list[tuple[str, str, str, float, float, int]] = []
    moved: dict[str, int] = {}
    kinds = {node.name: node.op for node in nodes}
    epoch = clock.wall() - clock.perf()
    for device, name, start, seconds in ops or ():
        begin = epoch + start
        rows.append((device, name, f"{name} = {kinds.get(name, '')}", begin, begin + seconds, 0))
    for text, start, seconds, count in exchange.received if exchange is not None else ():
        key = RendezvousKey.parse(text)
        rate = count * 8 / 1e6 / max(seconds, 1e-9)
        label = f"[{count}B] [{rate:.2f}Mb/s] {key.edge} from {key.source} to {key.destination}"
        rows.append((key.destination, "RecvTensor", label, start, start + seconds, 0))
        task = names.task_of(key.destination)
        moved[task] = moved.get(task, 0) + count
    graphs = [plain_graph(nodes)] if trace & 2 else []
    return {"ops": rows, "bytes": moved, "graphs": graphs}


def plain_graph(nodes: list[Node]) -> list[tuple[str, str, list[str], str]]:
    """(name, op, inputs, device) of each node, inputs written as TF writes them."""
    plain = []
    for node in nodes:
        inputs = [f"{nodes[s].name}:{out}" if out else nodes[s].name for s, out in node.inputs]
        inputs += [f"^{nodes[s].name}" for s in node.control]
        plain.append((node.name, node.op, inputs, node.device))
    return plain
