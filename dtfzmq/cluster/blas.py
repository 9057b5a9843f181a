"""The threads of the linear algebra library, shared out among the tasks of a host."""

from __future__ import annotations

import logging
import os
from typing import Any

from dtfzmq.ops import parallel

_log = logging.getLogger("dtfzmq")
_limits: list[Any] = []


def divide(wanted: int, tasks: int) -> None:
    """Let BLAS and large kernels use `wanted` threads, or with 0 this task's share of the processors. Once per process.

    BLAS keeps its own number without threadpoolctl, which the extra `blas` installs.
    """
    if _limits:
        return
    share = wanted or max(1, (os.cpu_count() or 1) // tasks)
    if not wanted and tasks <= 1:
        return
    parallel.limit(share)
    try:
        import threadpoolctl
    except ImportError:
        _limits.append(None)
        _log.debug("threadpoolctl is not installed: BLAS keeps its own number of threads")
        return
    _limits.append(threadpoolctl.threadpool_limits(share, "blas"))
