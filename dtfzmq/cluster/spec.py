"""Who is in the cluster: ClusterSpec and the records it is written in (ClusterDef, JobDef, ServerDef)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Union

from dtfzmq.base import names
from dtfzmq.cluster.record import Record


class JobDef(Record):
    """A job: `name`, and `tasks`, a map from task index to "host:port"."""

    FIELDS: ClassVar[dict[str, Any]] = {"name": "", "tasks": {}}


class _Jobs(list[JobDef]):
    """The repeated field `job`: a list with protobuf's `add`."""

    def add(self, **fields: Any) -> JobDef:
        job = JobDef(**fields)
        self.append(job)
        return job


class ClusterDef(Record):
    """A cluster as plain records: `job`, a list of JobDef."""

    FIELDS: ClassVar[dict[str, Any]] = {"job": []}

    def __init__(self, job: Iterable[JobDef] = ()) -> None:
        super().__init__()
        self._set["job"] = _Jobs(job)

    def to_plain(self) -> dict[str, Any]:
        # Keys are text, as they must be to travel.
        jobs = [{"name": j.name, "tasks": {str(i): a for i, a in j.tasks.items()}} for j in self.job]
        return {"job": jobs} if jobs else {}


ClusterLike = Union["ClusterSpec", ClusterDef, Mapping[str, Sequence[str] | Mapping[int, str]]]


class ClusterSpec:
    """A cluster as a set of jobs, each a set of tasks with an address; immutable, equal by content.

    Built from a dict of lists (`{"ps": ["h:1"], "worker": ["h:2", "h:3"]}`), a dict of sparse dicts
    (`{"worker": {1: "h:3"}}`), a ClusterDef or another ClusterSpec. TypeError for anything else.
    """

    def __init__(self, cluster: ClusterLike) -> None:
        jobs: dict[str, dict[int, str]] = {}
        self._cluster_spec: dict[str, dict[int, str]]
        if isinstance(cluster, ClusterSpec):
            jobs = {job: dict(tasks) for job, tasks in cluster._cluster_spec.items()}
        elif isinstance(cluster, ClusterDef):
            for job_def in cluster.job:
                if job_def.name in jobs:
                    raise ValueError(f"Duplicate job name in cluster: {job_def.name!r}. Give each job once.")
                jobs[job_def.name] = {
                    _index(job_def.name, i): _address(job_def.name, i, a) for i, a in job_def.tasks.items()
                }
        elif isinstance(cluster, Mapping):
            for job, tasks in cluster.items():
                name = _job_name(job)
                if isinstance(tasks, (list, tuple)):
                    pairs: Iterable[tuple[Any, Any]] = enumerate(tasks)
                elif isinstance(tasks, Mapping):
                    pairs = tasks.items()
                else:
                    raise TypeError(
                        f"The tasks for job {name!r} must be a list or a dictionary from integers to strings."
                    )
                jobs[name] = {_index(name, i): _address(name, i, a) for i, a in pairs}
        else:
            raise TypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network "
                "addresses, or a `ClusterDef` protocol buffer"
            )
        self._cluster_spec = {job: dict(sorted(tasks.items())) for job, tasks in sorted(jobs.items())}

    def __bool__(self) -> bool:
        return bool(self._cluster_spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._cluster_spec == other._cluster_spec

    def __hash__(self) -> int:
        return hash(tuple((job, tuple(tasks.items())) for job, tasks in self._cluster_spec.items()))

    def __repr__(self) -> str:
        jobs = ", ".join(f"{job!r}: {tasks!r}" for job, tasks in self.as_dict().items())
        return f"ClusterSpec({{{jobs}}})"

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """Job -> list of addresses where the job is dense, else job -> {index: address}."""
        return {
            job: list(tasks.values()) if self.dense(job) else dict(tasks) for job, tasks in self._cluster_spec.items()
        }

    def as_cluster_def(self) -> ClusterDef:
        """The same as a ClusterDef, jobs and tasks sorted."""
        return ClusterDef([JobDef(name=job, tasks=tasks) for job, tasks in self._cluster_spec.items()])

    @property
    def jobs(self) -> list[str]:
        """The job names."""
        return list(self._cluster_spec)

    def dense(self, job_name: str) -> bool:
        """Whether the tasks of the job are 0, 1, ... without a hole."""
        tasks = self._job(job_name)
        return list(tasks) == list(range(len(tasks)))

    def num_tasks(self, job_name: str) -> int:
        """How many tasks the job has; ValueError if there is no such job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The task indices of the job, sorted."""
        return list(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of a task as the spec wrote it; ValueError if there is no such job or task."""
        try:
            return self._job(job_name)[task_index]
        except KeyError:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}") from None

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Addresses by task index, None where the job has a hole."""
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks) + 1)] if tasks else []

    def _job(self, job_name: str) -> dict[int, str]:
        try:
            return self._cluster_spec[job_name]
        except KeyError:
            known = ", ".join(self._cluster_spec)
            raise ValueError(f"No such job in cluster: {job_name!r}. Its jobs are: {known}.") from None


class ServerDef(Record):
    """What one server is: its cluster, job, task, protocol and the configuration that its sessions start from."""

    FIELDS: ClassVar[dict[str, Any]] = {
        "cluster": ClusterDef,
        "job_name": "",
        "task_index": 0,
        "default_session_config": None,
        "protocol": "",
        "replica_id": 0,
        "port": 0,
    }

    def __init__(self, **fields: Any) -> None:
        if isinstance(fields.get("cluster"), (ClusterSpec, dict)):
            fields["cluster"] = ClusterSpec(fields["cluster"]).as_cluster_def()
        super().__init__(**fields)

    def to_plain(self) -> dict[str, Any]:
        plain = super().to_plain()
        config = plain.get("default_session_config")
        if isinstance(config, Record):
            plain["default_session_config"] = config.to_plain()
        return plain


def as_server_def(
    server_or_cluster_def: ServerDef | ClusterLike,
    job_name: str | None = None,
    task_index: int | None = None,
    protocol: str | None = None,
    config: Record | None = None,
) -> ServerDef:
    """A complete ServerDef from whatever train.Server accepts as its first arguments.

    TypeError if the first argument is neither a ServerDef nor convertible to a ClusterSpec; ValueError if job or task
    cannot be told.
    """
    server_def = ServerDef()
    if isinstance(server_or_cluster_def, ServerDef):
        server_def.CopyFrom(server_or_cluster_def)
        if job_name is not None:
            server_def.job_name = job_name
        if task_index is not None:
            server_def.task_index = task_index
    else:
        try:
            cluster = ClusterSpec(server_or_cluster_def)
        except TypeError as error:
            raise TypeError(
                "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or "
                f"`tf.train.ClusterSpec`. {error}"
            ) from None
        if job_name is None:
            if len(cluster.jobs) != 1:
                raise ValueError(f"Must specify an explicit `job_name`. The jobs are: {', '.join(cluster.jobs)}.")
            job_name = cluster.jobs[0]
        if task_index is None:
            indices = cluster.task_indices(job_name)
            if len(indices) != 1:
                raise ValueError(
                    f"Must specify an explicit `task_index`. The tasks of job {job_name!r} are: "
                    f"{', '.join(map(str, indices))}."
                )
            task_index = indices[0]
        server_def = ServerDef(cluster=cluster, job_name=job_name, task_index=task_index)
    if protocol is not None:
        server_def.protocol = protocol
    elif not server_def.protocol:
        server_def.protocol = "zmq"
    if config is not None:
        server_def.default_session_config = config
    return server_def


def _job_name(job: Any) -> str:
    if isinstance(job, bytes):
        job = job.decode("utf-8")
    if not isinstance(job, str) or not job:
        raise TypeError(f"A job name must be a non-empty string, not {job!r}.")
    if not names.is_job(job):
        raise ValueError(
            f"No device can name a job {job!r}. Begin with a letter or '_', and use letters, digits, '_', '-' and '.'."
        )
    return job


def _index(job: str, index: Any) -> int:
    try:
        number = operator.index(index)
    except TypeError:
        raise TypeError(f"The tasks for job {job!r} must be a list or a dictionary from integers to strings.") from None
    if number < 0:
        raise ValueError(f"Task index {number} in job {job!r} is negative.")
    return number


def _address(job: str, index: Any, address: Any) -> str:
    if isinstance(address, bytes):
        address = address.decode("utf-8")
    if not isinstance(address, str):
        raise TypeError(f"Task address must be bytes or unicode: task {index} in job {job!r} has {address!r}.")
    return address
