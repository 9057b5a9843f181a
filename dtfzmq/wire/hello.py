"""The first message of every lane: who I am, whom I take you for, and what I know of the cluster; and how it is judged.

No message needs an incarnation after it, since a lane reaches one process only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dtfzmq.base import errors, names
from dtfzmq.base.version import VERSION
from dtfzmq.wire.message import WireError, message

#: Changes when two versions could misunderstand each other.
PROTOCOL = 1


@message
class Who:
    """A process as a partner of links. `name` is its task, "" for a client; `address` where it listens, "" nowhere.

    `incarnation` differs from one start to the next. `nonce` is the path of a shared segment that proves the host.
    """

    name: str
    incarnation: int
    pid: int = 0
    host: str = ""
    address: str = ""
    nonce: str = ""
    version: str = VERSION

    def title(self) -> str:
        """For people: the task, or the client with its process and host."""
        return self.name or f"client {self.host or '?'}:{self.pid}"

    def place(self) -> str:
        """For people: host and process of the one who is named."""
        return f"{self.host or '?'}:{self.pid}" + (f" at {self.address}" if self.address else "")


@message
class Hello:
    """Opens a lane. `lane` is 0 for control and 1 for bulk.

    `stream` tells apart several links of one pair of processes; a task has one, 0. `wanted` is the task that should be
    here ("": any), `wanted_incarnation` the incarnation known of it (0: none). `received` is the highest number
    received on this link. `cluster`: addresses of tasks 0..n-1 for each dense job.
    """

    protocol: int
    me: dict[str, object]
    lane: int
    stream: int
    wanted: str
    wanted_incarnation: int
    generation: int
    your_generation: int
    received: int
    cluster: dict[str, list[str]]


@message
class Welcome:
    """Accepts a hello. `generation` and `received` as in Hello."""

    me: dict[str, object]
    generation: int
    received: int


@message
class Refused:
    """Refuses a hello, with the class of error it is and who is here.

    `received`: the highest number that was received on a link that was given up here; below 0: none is known.
    """

    code: int
    reason: str
    me: dict[str, object]
    received: int = -1


Cluster = Mapping[str, list[str]]


def who_to_wire(who: Who) -> dict[str, object]:
    """Plain data of a Who; later versions may add to it."""
    return dataclasses.asdict(who)


def who_from_wire(data: Mapping[str, object]) -> Who:
    """The Who of plain data; what is missing or of a wrong type is empty. Never raises."""

    def text(key: str) -> str:
        value = data.get(key)
        return value if isinstance(value, str) else ""

    def number(key: str) -> int:
        value = data.get(key)
        return value if isinstance(value, int) else 0

    return Who(
        name=text("name"),
        incarnation=number("incarnation"),
        pid=number("pid"),
        host=text("host"),
        address=text("address"),
        nonce=text("nonce"),
        version=text("version"),
    )


def check(said: Hello | Welcome, who: Who) -> None:
    """Raise WireError for what no process says of itself: numbers out of range, a name that is no task's."""
    if not who.incarnation or said.generation < 1 or said.received < 0:
        raise WireError("a hello whose numbers are out of range")
    if isinstance(said, Hello) and (said.lane not in (0, 1) or said.stream < 0 or said.your_generation < 0):
        raise WireError("a hello whose numbers are out of range")
    if who.name:
        try:
            canonical = names.task_name(*names.job_and_index(who.name)) == who.name
        except ValueError:
            canonical = False
        if not canonical:
            raise WireError(f"a hello of {who.name!r:.60}, which is no task's name")
        if isinstance(said, Hello) and said.stream:
            # Who loses the link to a task has lost the task: there is one, and its name is claimed with it.
            raise WireError(f"a hello of {who.name} for a second link")


def judge(hello: Hello, them: Who, me: Who, cluster: Cluster) -> errors.OpError | None:
    """The error with which `hello` is refused, None if it is fine. Whether a name is taken is not judged here."""
    if hello.protocol != PROTOCOL:
        return errors.FailedPreconditionError(
            None,
            None,
            f"{me.title()} speaks protocol {PROTOCOL} (dtfzmq {me.version or '?'}) and {them.title()} speaks protocol "
            f"{hello.protocol} (dtfzmq {them.version or '?'}); install one version on both.",
        )
    if hello.wanted and hello.wanted != me.name:
        return errors.FailedPreconditionError(
            None,
            None,
            f"{them.title()} looked for {hello.wanted} and reached {me.title()} ({me.place()}); "
            "correct the addresses in the cluster specification.",
        )
    if hello.wanted_incarnation and hello.wanted_incarnation != me.incarnation:
        return errors.AbortedError(None, None, restarted(me))
    if them.name and them.name == me.name:
        return errors.AlreadyExistsError(
            None, None, f"Task {me.name} is taken: it runs at {me.place()}. Give the newcomer another index."
        )
    difference = compare(cluster, hello.cluster)
    if difference:
        return errors.FailedPreconditionError(
            None,
            None,
            f"{me.title()} and {them.title()} were given different clusters: {difference}. "
            "Start all tasks with one specification.",
        )
    return None


def compare(mine: Cluster, theirs: Cluster) -> str:
    """How the task sets of the dense jobs that both know differ; "" if they do not. Addresses may differ."""
    parts = []
    for job in sorted(set(mine) & set(theirs)):
        if len(mine[job]) != len(theirs[job]):
            parts.append(f"job {job} has {len(mine[job])} tasks here and {len(theirs[job])} there")
    return "; ".join(parts)


def restarted(now: Who) -> str:
    """The text of an error for a task that is another process than it was."""
    return (
        f'Your worker job ("{now.name}") was probably restarted: it is now incarnation {now.incarnation:016x}, '
        f"process {now.place()}. Check your worker job for the reason why it was restarted; open a new session."
    )
