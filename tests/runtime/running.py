"""Ops for tests of the executor, and a run of one plan on a virtual loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfzmq.base import errors
from dtfzmq.graph import opdef
from dtfzmq.graph.node import Node
from dtfzmq.graph.opdef import NoGrad, OpDef
from dtfzmq.runtime.compile import compile_function, compile_nodes
from dtfzmq.runtime.device import make_devices
from dtfzmq.runtime.executor import Run
from dtfzmq.runtime.kernel_env import KernelEnv
from dtfzmq.runtime.plan import Plan
from dtfzmq.runtime.resources import ResourceManager
from dtfzmq.runtime.step import StepContext
from tests.runtime.programs import Builder
from tests.runtime.simulated import Exchange, SimLoop

TASK = "/job:w/replica:0/task:0"


def declare(name: str, signature: str, **more: Any) -> None:
    if opdef.find(name) is None:
        opdef.add(OpDef(name, opdef.parse_signature(signature), lambda n: [], NoGrad("a test's op"), **more))


CALLS: list[Any] = []
GATES: dict[str, Any] = {}


def _gate(node: Node, env: Any) -> Callable[..., None]:
    def begin(ctx: StepContext, inputs: list[Any], done: Any) -> None:
        token = ctx.on_cancel(lambda: done.fail(errors.make(errors.CANCELLED, "gate cancelled", derived=True)))
        GATES[node.name] = (done, inputs, lambda: ctx.off_cancel(token))

    return begin


declare("TestGate", "x: T -> y: T", start=_gate)
def _call(x: Any) -> Any:
    CALLS.append(x)
    return x


def _thread(x: Any) -> Any:
    CALLS.append(threading.get_ident())
    return x


def _raise(node: Node, env: Any) -> Callable[..., None]:
    def begin(ctx: Any, inputs: list[Any], done: Any) -> None:
        raise KeyError("no such key")

    return begin


declare("TestCall", "x: T -> y: T", kernel=_call)
declare("TestFail", "x: T -> y: T", kernel=lambda x: 1 / 0)
declare("TestNow", "x: T -> y: T", start=lambda node, env: lambda ctx, inputs, done: done(inputs[0]))
declare("TestRaise", "x: T -> y: T", start=_raise)
declare("TestThread", "x: T -> y: T", kernel=_thread)
declare("TestUnlist", "x: T -> y: T", kernel=list)
declare("TestHolds", "x: T -> y: T", kernel=_thread, holds=True)

declare("TestOver", "x: F -> y: F", kernel=np.negative, out=True, inplace=(0,))
declare("TestAdd", "x: F, y: F -> z: F", kernel=np.add, out=True, inplace=(0, 1))
declare("TestTwo", "x: T -> y: T, z: T", kernel=lambda x: (x + 1, x + 2))


def env() -> KernelEnv:
    return KernelEnv(make_devices(TASK, {}, 7)[0], ResourceManager("w"), compile_function)


class Started:
    """A run on a virtual loop, and what became of it."""

    def __init__(
        self, plan: Plan, feeds: Any = (), on_fetch: Any = None, busy_s: float = 0.0, trace: list[Any] | None = None
    ) -> None:
        self.loop = SimLoop()
        plan.busy_s = busy_s
        self.ctx = StepContext(1, self.loop, self.loop, Exchange(), trace=trace)
        self.ends: list[tuple[Any, Any]] = []
        run = Run(plan, self.ctx, feeds, lambda results, error: self.ends.append((results, error)), on_fetch)
        run.start()
        self.loop.run()

    def go(self) -> Started:
        self.loop.run()
        return self

    @property
    def value(self) -> Any:
        ((results, error),) = self.ends
        if error is not None:
            raise error
        return results


def compiled(b: Builder, *fetches: tuple[int, int], e: KernelEnv | None = None, partial: bool = False) -> Plan:
    for fetch in fetches:
        b.ret(fetch)
    return compile_nodes(b.nodes, e or env(), partial)


def open_gate(name: str, value: Any = None) -> None:
    done, inputs, off = GATES.pop(name)
    off()
    done(inputs[0] if value is None else value)
