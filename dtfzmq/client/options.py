"""Which options of a session's configuration are its server's, and the word to a program that gives them in vain."""

from __future__ import annotations

import logging

from dtfzmq.cluster.config import ConfigProto
from dtfzmq.cluster.record import Record

_log = logging.getLogger("dtfzmq")

# Devices and threads are made when a server starts; sessions find them made. docs/differences.md has the same table.
PER_SERVER = (
    "device_count",
    "gpu_options",
    "inter_op_parallelism_threads",
    "intra_op_parallelism_threads",
    "use_per_session_threads",
)


def given_in_vain(config: ConfigProto) -> list[str]:
    """The options of `config` that say something other than their default and that a session cannot change."""
    return [name for name, value in config.ListFields() if name in PER_SERVER and _says(value)]


def _says(value: object) -> bool:
    return any(value.to_plain().values()) if isinstance(value, Record) else bool(value)


def warn(target: str, config: ConfigProto) -> None:
    """One warning that names the options of `config` that a session with the server at `target` cannot change."""
    names = given_in_vain(config)
    if names:
        _log.warning(
            "A session with %s cannot change its server's %s: devices and threads are made when a server starts. "
            "Give ConfigProto(%s) to tf.train.Server(..., config=...) instead.",
            target,
            ", ".join(names),
            ", ".join(f"{name}=..." for name in names),
        )
