"""What is said between clients, masters and workers. A message is one frozen dataclass; nothing else is written for it.

Names of tasks and devices are full texts. Times are seconds, 0 is none. A `graph` is what `graph.serial` makes of a
node list: plain data, and its arrays beside it as tensors.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from dtfzmq.wire.message import Tensors, message

# -- client to master --------------------------------------------------------------------------------------------------


@message
class CreateSession:
    """Open a session with the graph so far; `config` is a ConfigProto as plain data. Answered by SessionCreated."""

    graph: Any
    arrays: Tensors
    config: dict[str, Any]


@message
class SessionCreated:
    """`handle` names the session from now on; its graph has `version` 0."""

    handle: str
    version: int


@message
class ExtendSession:
    """More nodes for a session whose graph is at `version`. Answered by SessionExtended."""

    handle: str
    version: int
    graph: Any
    arrays: Tensors


@message
class SessionExtended:
    """The session's graph is now at `version`."""

    version: int


@message
class RunStep:
    """Run a step. `call` names a signature that the client numbered; the names travel the first time only.

    `feeds` are in the order of the signature's feeds. `run` numbers this run, for CancelRun. `timeout` in seconds;
    `trace` asks for times, transfers and graphs. Answered by StepDone.
    """

    handle: str
    call: int
    run: int
    feeds: Tensors
    signature: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None = None
    timeout: float = 0.0
    trace: int = 0


@message
class StepDone:
    """Fetched tensors in the order of the signature's fetches; `metadata` if the step was traced."""

    fetches: Tensors
    metadata: dict[str, Any] | None = None


@message
class CancelRun:
    """End a run of the session; one-way. Its RunStep is answered with a CancelledError."""

    handle: str
    run: int


@message
class PartialRunSetup:
    """Reserve a step that is fed and fetched in several calls, within `timeout` s; 0 is no limit.

    Answered by PartialRunReady.
    """

    handle: str
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    timeout: float = 0.0


@message
class PartialRunReady:
    """`partial` names the reserved step."""

    partial: str


@message
class PartialRunStep:
    """Feed and fetch a part of a reserved step. Answered by StepDone."""

    handle: str
    partial: str
    names: tuple[str, ...]
    feeds: Tensors
    fetches: tuple[str, ...]
    timeout: float = 0.0


@message
class CloseSession:
    """End a session and its steps. Answered by Done."""

    handle: str


@message
class Reset:
    """End all sessions of this master and clear containers on every task; none named: the default ones. Done."""

    containers: tuple[str, ...]
    timeout: float = 0.0


@message
class ListDevices:
    """The devices of a session, or ("") of the master's cluster. Answered by Devices."""

    handle: str = ""
    timeout: float = 0.0


@message
class Devices:
    """(name, type, memory limit in bytes, incarnation) of each device; the asked task's own first."""

    devices: list[tuple[str, str, int, int]]


@message
class Done:
    """It is done; nothing to say about it."""


# -- master to worker --------------------------------------------------------------------------------------------------


@message
class GetStatus:
    """Ask a worker for its devices. Answered by WorkerStatus."""


@message
class WorkerStatus:
    """Devices as in Devices, and the incarnation of the process."""

    devices: list[tuple[str, str, int, int]]
    incarnation: int


@message
class RegisterGraph:
    """Compile a part of a session's graph. `create` lets the worker make the session if it does not know it.

    `feeds` and `fetches` say how many values `_Arg` and `_Retval` nodes bring in and take out; in a `partial` run they
    come and go by PartialGraph. `tasks` maps each task of the step to the incarnation that the master met: links to
    others in their place are no good for it. Answered by GraphRegistered.
    """

    session: str
    graph: Any
    arrays: Tensors
    feeds: int
    fetches: int
    create: bool = False
    isolate: bool = False
    partial: bool = False
    tasks: dict[str, int] = dataclasses.field(default_factory=dict)


@message
class GraphRegistered:
    """`handle` names the compiled part in RunGraph."""

    handle: str


@message
class DeregisterGraph:
    """Forget a compiled part; one-way."""

    session: str
    handle: str


@message
class RunGraph:
    """Run a registered part in a step. Answered by GraphDone when all that it started has ended.

    `held` as in HoldStep.
    """

    session: str
    handle: str
    step: int
    feeds: Tensors
    trace: int = 0
    held: bool = False


@message
class GraphDone:
    """What the part's `_Retval` nodes took; `trace` is its account of times and transfers."""

    fetches: Tensors
    trace: dict[str, Any] | None = None


@message
class PartialGraph:
    """Feed and fetch a part that RunGraph started with `partial` feeds. Answered by GraphDone."""

    session: str
    step: int
    indices: tuple[int, ...]
    feeds: Tensors
    fetches: tuple[int, ...]


@message
class CancelStep:
    """End a step here, with this error where it is waited for; one-way, also for a step not heard of yet."""

    step: int
    error: dict[str, Any]


@message
class HoldStep:
    """A step's client is out of reach (`held`), or in reach again: one-way.

    While it is held nothing is taken for it from queues, accumulators and barriers, since nobody may be left to get it.
    """

    step: int
    held: bool


@message
class CleanupGraph:
    """A step is over everywhere: forget it and what it queued; one-way."""

    step: int


@message
class StepFailed:
    """Worker to master: the step cannot end well, since a push of it was lost; one-way."""

    step: int
    error: dict[str, Any]


@message
class DeleteWorkerSession:
    """Forget a session with its parts and private state; one-way, an unknown one is fine."""

    session: str


@message
class CleanupAll:
    """Clear the named containers of this task, or its default one. Answered by Done."""

    containers: tuple[str, ...]


# -- anyone to a server ------------------------------------------------------------------------------------------------


@message
class Status:
    """Ask a server for an account of itself. Answered by StatusReport."""


@message
class StatusReport:
    """Task, devices, sessions, steps, links and counters of a server, as plain data."""

    report: dict[str, Any]


@message
class Shutdown:
    """End a server; refused with FailedPrecondition while sessions of others are open, unless `force`. Done."""

    force: bool = False
