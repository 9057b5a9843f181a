"""What a worker keeps for one session: its kernels by device, and the parts that were registered."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

from dtfzmq.base import errors, names
from dtfzmq.cluster.fed import FedTensor, part_feeds
from dtfzmq.graph.node import Node, Subgraph
from dtfzmq.ops import families
from dtfzmq.plan.partition import partition_by_device
from dtfzmq.runtime.compile import compile_function, compile_nodes
from dtfzmq.runtime.kernel_env import KernelEnv
from dtfzmq.runtime.plan import Plan
from dtfzmq.runtime.resources import ResourceManager

# Kernels are found by op name, so every op must be declared before a part comes.
OPS = families.FAMILIES

if TYPE_CHECKING:
    from dtfzmq.cluster.worker import Worker

_log = logging.getLogger("dtfzmq")


@dataclasses.dataclass(frozen=True)
class RegisteredPart:
    """A compiled part: a plan per device. `meets`: tensors of it go through the rendezvous.

    `tasks`: the incarnations of the tasks that its master met for the step.
    """

    plans: tuple[Plan, ...]
    nodes: list[Node]
    feeds: tuple[FedTensor, ...]
    fetches: int
    meets: bool
    partial: bool
    tasks: dict[str, int]


class WorkerSession:
    """One session on one worker. Touched on the baton, but for `compile`, which may run off it."""

    def __init__(self, handle: str, link: Any, resources: ResourceManager, worker: Worker) -> None:
        self.handle = handle
        #: The link of the session's master; None if it is the one of this process.
        self.link = link
        self.parts: dict[str, RegisteredPart] = {}
        #: Set while its master is lost: what ends the session if it stays so.
        self.orphaned: Any = None
        self._worker = worker
        self._envs = {device.name: KernelEnv(device, resources, compile_function) for device in worker.devices}

    def compile(
        self, nodes: list[Node], feeds: int, fetches: int, partial: bool, tasks: dict[str, int]
    ) -> RegisteredPart:
        """Make the kernels of a part and its plan. Raises OpError for a node that cannot run here. Any thread."""
        for node in nodes:
            if node.op in ("_Arg", "_Retval") or _subgraphs(node):
                continue
            if not names.is_full_device(node.device):
                raise errors.InvalidArgumentError(None, None, f"Missing device name in: {node.name} ({node.op})")
            if node.device not in self._envs:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Node '{node.name}' is placed on {node.device}, but {self._worker.task} has only "
                    f"{', '.join(self._envs)}.",
                )
        home = self._worker.devices[0].name
        incarnation = self._worker.incarnation
        shares = partition_by_device(nodes, home, lambda device: incarnation)
        plans = tuple([compile_nodes(share, self._envs[device], partial) for device, share in shares.items()])
        meets = any(plan.meets for plan in plans)
        return RegisteredPart(plans, nodes, part_feeds(nodes, feeds), fetches, meets, partial, tasks)

    def heard(self, link: Any) -> None:
        """Its master has said something over `link`.

        That may be a new one after a silence: the end of the old one, if noticed later, is not the master's then.
        """
        self.link = link
        self._expect()

    def hears(self, link: Any) -> bool:
        """Whether its master is there, at the other end of `link`."""
        return self.orphaned is None and self.link is link

    def miss(self, orphaned: Any) -> None:
        """Its master is lost; `orphaned` ends the session unless it comes back. It registers its parts anew then."""
        self._expect()
        self.orphaned = orphaned
        self.parts.clear()

    def _expect(self) -> None:
        if self.orphaned is not None:
            self.orphaned.cancel()
            self.orphaned = None

    def close(self) -> None:
        """Let go of parts and private state."""
        self._expect()
        self.parts.clear()
        for env in self._envs.values():
            env.kernels.clear()


def _subgraphs(node: Node) -> list[Subgraph]:
    return [value for value in node.attrs.values() if type(value) is Subgraph]
