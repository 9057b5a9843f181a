"""What the environment says of this process's place in a cluster."""

from __future__ import annotations

import os

from dtfzmq.wire.settings import LinkSettings


def link_settings() -> LinkSettings:
    """Settings for the links of this process. With DTFZMQ_SHM=0 large tensors stay off shared memory."""
    return LinkSettings(shared_memory=os.environ.get("DTFZMQ_SHM", "1") != "0")
