"""What a kernel is made with: its device, its task's resources, and how it compiles a subgraph."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.runtime.device import Device
from dtfzmq.runtime.resources import ResourceManager
from dtfzmq.runtime.stateful import resource

Compiler = Callable[[Subgraph, "KernelEnv"], Callable[..., list[Any]]]


class KernelEnv:
    """One device as one session sees it. Kernels are made under it at registration, on any thread.

    `kernels` holds the kernels of stateful nodes by name: all parts of the session share them, which is where a queue
    without shared_name and the state of a random op live.
    """

    def __init__(self, device: Device, resources: ResourceManager, compiler: Compiler | None = None) -> None:
        self.xp: ModuleType = device.xp
        self.device = device.name
        self.task = device.task
        self.place = device
        self.resources = resources
        self.kernels: dict[str, Any] = {}
        # Set by runtime/compile, which makes subgraphs into functions.
        self.compiler = compiler

    def compile(self, subgraph: Subgraph) -> Callable[..., list[Any]]:
        """The subgraph as `fn(*inputs) -> [outputs]`. Raises InvalidArgumentError if something in it waits."""
        assert self.compiler is not None
        return self.compiler(subgraph, self)

    def resource(self, node: Node) -> Callable[[], Any]:
        """The kernel of a variable, queue or accumulator op: yields the object, shared by TF's rules."""
        return resource(node, self.resources)
