"""Which options of a configuration are a server's, and the word to a program that gives them to a session with one."""

from __future__ import annotations

import logging

from dtfzmq.cluster.config import ConfigProto
from dtfzmq.cluster.record import Record

_log = logging.getLogger("dtfzmq")

# Devices and threads are made when a server starts; sessions find them made. docs/differences.md has the same table.
PER_SERVER = ("device_count", "intra_op_parallelism_threads")
# A server's in TensorFlow; here they have no meaning for anybody.
WITHOUT_EFFECT = ("gpu_options", "inter_op_parallelism_threads", "use_per_session_threads")


def warn(target: str, config: ConfigProto) -> None:
    """One warning that names the options of `config` that have no effect on a session with the server at `target`.

    Options that say what they say by default do not count.
    """
    given = {name for name, value in config.ListFields() if _says(value)}
    vain = [name for name in PER_SERVER if name in given]
    empty = [name for name in WITHOUT_EFFECT if name in given]
    texts = []
    if vain:
        texts.append(
            f"{', '.join(vain)}: a server's devices and threads are made when it starts; give "
            f"ConfigProto({', '.join(f'{name}=...' for name in vain)}) to tf.train.Server(..., config=...) instead."
        )
    if empty:
        texts.append(f"{', '.join(empty)}: there are no GPUs, and steps take threads as they need them; leave it out.")
    if texts:
        _log.warning("Options without effect on the session with %s. %s", target, " ".join(texts))


def _says(value: object) -> bool:
    return any(value.to_plain().values()) if isinstance(value, Record) else bool(value)
