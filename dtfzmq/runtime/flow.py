"""If and While while they run. Where nothing inside waits they are plain calls; otherwise frames of their run.

See runtime/control for the layout of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dtfzmq.base import errors
from dtfzmq.base.signals import deferral
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.runtime.cells import thread_state
from dtfzmq.runtime.control import child_frame, truth
from dtfzmq.runtime.plan import Plan

Compile = Callable[[Subgraph, str], Plan]
End = Callable[[list[Any]], None]


class Frame:
    """One activation of a plan, or the place where a function runs: which iteration of which frame it is."""

    __slots__ = ("at", "end", "iteration", "left", "number", "plan", "run", "slots", "waits")

    def __init__(self, run: Any, plan: Plan | None, number: int, iteration: int, end: End | None) -> None:
        self.run = run
        self.plan = plan
        self.number = number
        self.iteration = iteration
        self.end = end
        self.at: Any = None
        self.slots: list[Any] = []
        self.waits: list[int] = []
        # Segments and asynchronous ops that have not finished.
        self.left = 0


class Host(Protocol):
    """What runs frames: runtime/executor.Run."""

    def open(self, plan: Plan, args: list[Any], number: int, iteration: int, end: End) -> None:
        """Start a frame; `end(outputs)` is called when it is through, later, not from inside this call."""

    def drain(self, plan: Plan, number: int, iterations: int) -> None:
        """A loop with body `plan` has ended: take in what the windows of its last iterations would have."""


class If:
    """An If node: `now` where nothing in its branches waits, else `begin`."""

    def __init__(self, node: Node, compile_subgraph: Compile) -> None:
        self.name = node.name
        self.then = compile_subgraph(node.attrs["then_branch"], f"{node.name}/then_branch/")
        self.otherwise = compile_subgraph(node.attrs["else_branch"], f"{node.name}/else_branch/")
        plans = self.then, self.otherwise
        self.sync = all(plan.sync for plan in plans)
        self.meets = any(plan.meets for plan in plans)
        self.holds = any(plan.holds for plan in plans)

    def now(self, frame: Any, inputs: list[Any]) -> list[Any]:
        """Run the branch taken; its outputs."""
        plan = self.then if truth(inputs[0], self.name) else self.otherwise
        # Half a branch cannot be run again, so a cell that is busy is waited for.
        before, thread_state.may_not_wait = thread_state.may_not_wait, False
        try:
            return plan.call(inputs[1:], frame)
        finally:
            thread_state.may_not_wait = before

    def begin(self, host: Host, frame: Any, inputs: list[Any], end: End) -> None:
        """Start the branch taken; `end(outputs)` later."""
        plan = self.then if truth(inputs[0], self.name) else self.otherwise
        host.open(plan, inputs[1:], frame.number, frame.iteration, end)


class While:
    """A While node. Where nothing waits it may run for long, so that a plan which has one never runs on the baton."""

    def __init__(self, node: Node, compile_subgraph: Compile) -> None:
        self.name = node.name
        self.n_vars: int = node.attrs["n_vars"]
        self.saves = len(node.attrs["saved"])
        self.cond = compile_subgraph(node.attrs["cond"], f"{node.name}/cond/")
        self.body = compile_subgraph(node.attrs["body"], f"{node.name}/body/")
        self.sync = self.cond.sync and self.body.sync
        self.meets = self.cond.meets or self.body.meets
        self.holds = self.sync or self.cond.holds or self.body.holds

    def now(self, frame: Any, inputs: list[Any]) -> list[Any]:
        """Run the loop; its outputs."""
        n_vars = self.n_vars
        captures = inputs[n_vars:]
        saved: list[list[Any]] = [[] for _ in range(self.saves)]
        here = Frame(frame.run, None, child_frame(frame.number, frame.iteration), 0, None)
        ctx = frame.run.ctx
        before, thread_state.may_not_wait = thread_state.may_not_wait, False
        try:
            while truth(self.cond.call(inputs, here)[0], self.name):
                if ctx.error is not None:
                    raise derived(ctx.error)
                if deferral.struck:
                    deferral.hear()
                results = self.body.call(inputs, here)
                for values, value in zip(saved, results[n_vars:]):
                    values.append(value)
                inputs = results[:n_vars]
                inputs += captures
                here.iteration += 1
        finally:
            thread_state.may_not_wait = before
        return [*inputs[:n_vars], *saved, np.int32(here.iteration)]

    def begin(self, host: Host, frame: Any, inputs: list[Any], end: End) -> None:
        """Start the loop; `end(outputs)` later."""
        _Loop(self, host, frame, inputs, end).test()


class _Loop:
    """A While of which something waits, as frames in turn: cond, body, cond, ..."""

    __slots__ = ("captures", "end", "host", "iteration", "loop", "number", "saved", "values")

    def __init__(self, loop: While, host: Host, frame: Any, inputs: list[Any], end: End) -> None:
        self.loop = loop
        self.host = host
        self.number = child_frame(frame.number, frame.iteration)
        self.iteration = 0
        self.values = inputs[: loop.n_vars]
        self.captures = inputs[loop.n_vars :]
        self.saved: list[list[Any]] = [[] for _ in range(loop.saves)]
        self.end = end

    def test(self) -> None:
        self.host.open(self.loop.cond, self.values + self.captures, self.number, self.iteration, self.tested)

    def tested(self, results: list[Any]) -> None:
        if truth(results[0], self.loop.name):
            self.host.open(self.loop.body, self.values + self.captures, self.number, self.iteration, self.turned)
        else:
            self.host.drain(self.loop.body, self.number, self.iteration)
            self.end([*self.values, *self.saved, np.int32(self.iteration)])

    def turned(self, results: list[Any]) -> None:
        n_vars = self.loop.n_vars
        self.values = results[:n_vars]
        for values, value in zip(self.saved, results[n_vars:]):
            values.append(value)
        self.iteration += 1
        self.test()


def derived(error: errors.OpError) -> errors.OpError:
    """An echo of a step's error, for what ends because of it."""
    return errors.make(error.error_code, error.message, origin=error.origin, derived=True)
